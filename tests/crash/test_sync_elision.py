"""Every sync, truncate and ordering step is needed: leave one out, and the explorer fails.

The call sites are found while the plans run. One that is not needed is removed from the engine, so
the list of survivors stays empty.
"""

import pytest

from tests.support.crash_driver import Driver, parse_plan
from tests.support.crash_variants import (
    ELIDED,
    hoisted,
    is_early_noticed,
    is_noticed,
    sites_of,
    traced,
    unnoticed,
    with_kills,
)
from tests.support.explorer import Explorer

PLANS = (
    "append,many3,close,append",
    "append,rotate,append,reopen,append",
    "append,torn,append,torn3,append",
    "append,failsync,append,dropsync,append",
    "append,short,append,shortlf,append,short3,append,full,append",
    "append,snapshot,append,snapshot,append,snapshot,prune,append",
    "every2,seg400,append,append,background,append",
    "append,snapshot,append,snapshot,background,append,snapshot,background,prune,append",
    "fill512,append,many3,rotate,append,close,append",
    "fill512,append,shortlf,append,short,append,reopen,append",
)

MESSAGES_ONLY = (" owner",)
"""Files that recovery never reads for its result, so nothing about them can be missed."""

ORDERED = ("rename", "unlink", "write")

FILLER_SITES = {
    "log._cut_filler < log.seal: truncate segment": "fill512,append,rotate,append",
    "log.start_segment < writer._make_room: sync segment.tmp": "fill512,append",
    "log._cut_back < log.write: truncate segment": "fill512,append,short,append",
    "log._cut_back < log.write: sync segment": "fill512,append,shortlf,append",
}
"""Where filler is written or cut off, and a plan that comes by it."""

FREE = {
    "create.create: rename meta": "the directory has no name yet that anybody opens",
    ": rename previous": "one whole snapshot stays under one of the two names",
    ": rename quarantined": "the segment gives way only after all of the copy is synced",
    "compression.publish < compression._finish: rename segment": (
        "the plain segment counts until it is unlinked, behind the syncs of file and directory"
    ),
    ": unlink segment": "what is pruned is not needed by the older of two snapshots either",
}
"""Steps that may reach the disk before the barrier in front of them, and why that is no harm."""


def test_every_sync_and_truncate_is_needed() -> None:
    sites = sites_of(with_kills(PLANS), ELIDED)
    needed = {site: plans for site, plans in sites.items() if not site.endswith(MESSAGES_ONLY)}
    survivors = unnoticed(needed, is_noticed)
    print(f"{len(needed)} sites, {len(survivors)} survivors")
    assert survivors == []
    assert len(needed) >= 15
    assert {site for site in needed if site.startswith("compression.")}
    assert set(FILLER_SITES) <= set(needed)


@pytest.mark.parametrize("site", FILLER_SITES)
def test_filler_does_not_hide_that_a_sync_or_truncate_is_missing(site: str) -> None:
    """Without filler a file that is too long or too short tells, with it perhaps not."""
    plans = with_kills([FILLER_SITES[site]])
    assert site in sites_of(plans, ELIDED)
    assert is_noticed(site, plans)


def test_every_order_is_needed_but_for_those_that_are_free() -> None:
    """What is published, deleted or written in place must not come before the sync in front."""
    sites = sites_of([parse_plan(plan) for plan in PLANS], ORDERED)
    in_place = {
        site: plans
        for site, plans in sites.items()
        if not site.endswith(MESSAGES_ONLY) and not site.endswith(".tmp")
    }
    survivors = unnoticed(in_place, is_early_noticed)
    print(f"{len(in_place)} steps, {len(survivors)} free")
    found = {ending for site in survivors for ending in FREE if site.endswith(ending)}
    assert [site for site in survivors if not site.endswith(tuple(FREE))] == []
    assert found == set(FREE)
    unlinked = [site for site in in_place if "compression." in site and ": unlink" in site]
    assert unlinked and not set(unlinked) & set(survivors)


def test_with_nothing_left_out_the_plans_are_sound() -> None:
    explorer = Explorer(profiles=("weakest",))
    for plan in PLANS:
        explorer.explore(parse_plan(plan))
    assert explorer.totals.bad == 0, str(explorer.totals)


def test_hoisting_moves_a_step_over_the_barrier_and_keeps_what_was_known() -> None:
    log = Driver(parse_plan("append,append"), make_files=traced).run().log
    site = next(op.site for op in log if op.site.endswith(": write lock"))
    early = hoisted(log, site)
    assert [op for op in early if op.kind != "mark"] != [op for op in log if op.kind != "mark"]
    at = next(index for index, op in enumerate(early) if op.site == site)
    assert early[at + 1].kind == "sync"
    assert early[at - 1].data.acked == 0
