"""Every state that a crash may leave is recovered: nothing lost, nothing invented, none refused.

The suite explores all plans of two steps and a sample of the killed ones, `DURASESS_TIER=full` all
of them and plans of three steps. `python -m tools.soak states` goes on where this stops.
"""

import pytest

from tests.support.crash_driver import PlanFailure, parse_plan
from tests.support.crash_variants import with_kills
from tests.support.explorer import (
    ALPHABET,
    FILLER_ALPHABET,
    FILLER_OPTIONS,
    THOROUGH,
    Explorer,
    Failure,
    all_plans,
    explore_all,
    main,
)
from tests.support.scan_memory import remembered_scans
from tests.support.tiers import FULL, sampled

STATES = 500_000 if FULL else 100_000
NESTED_EVERY = 9000 if FULL else 5000
KILLED_EVERY = sampled(17)
READERS_EVERY = sampled(4)
"""A writer recovers every state; a reader and verify look at one in so many."""

KILLED_EVERYWHERE = (
    "append,many3,close,append",
    "append,rotate,append,reopen,append",
    "append,torn,append,torn3,append",
    "append,failsync,append,dropsync,append",
    "append,short,append,shortlf,append,short3,append,full,append",
    "append,snapshot,append,snapshot,append,snapshot,prune,append",
    "every2,seg400,append,append,background,append",
    "append,snapshot,append,snapshot,background,append,snapshot,background,prune,append",
    "append,snapshot,append,snapshot,append,snapshot,close,append",
    "many3,snapshot,kill,append",
    "torn3,snapshot,append",
    "every2,seg400,many3,append,append,background,reopen,append",
    "append,snapshot,append,snapshot,reopen,append,prune,snapshot,prune,append",
    "failsync,snapshot,append,kill,append",
    "big,torn,snapshot,close,append",
    "append,snapshot,append,snapshot,append,prune,append,snapshot,snapshot,kill,prune,append",
)
"""Run as they are, and with the process killed before each change that each step makes."""

WITH_FILLER_KILLED_EVERYWHERE = (
    "fill512,append,many3,close,append",
    "fill512,big,rotate,append,reopen",
    "fill512,torn,append,torn3,append",
    "fill512,append,failsync,many3,dropsync",
    "fill512,append,short,rotate,shortlf,short3,full,append",
    "fill512,shortfill,append,close",
    "fill1024,append,snapshot,many5,snapshot",
    "fill1024,many3,loose,many3,kill,append",
    "every2,seg400,fill512,append,many3,background,append",
    "fill512,failcut,append",
    "fill512,grown,append",
    "fill512,stale,close",
)
"""The same with filler."""

IN_THREES = tuple(
    step
    for step in ALPHABET
    if step not in ("loose", "flush", "repair", "shortlf", "dropsync", "background")
)
"""The steps of which all plans of three are run; of all steps, all plans of two."""


def standard_plans() -> list[tuple[str, ...]]:
    """What the test suite explores."""
    killed = [*with_kills(KILLED_EVERYWHERE), *with_kills(WITH_FILLER_KILLED_EVERYWHERE)]
    return [
        *killed[::KILLED_EVERY],
        *all_plans(2),
        *all_plans(2, FILLER_ALPHABET, FILLER_OPTIONS),
        *(all_plans(3, alphabet=IN_THREES, options=((),)) if FULL else ()),
    ]


def test_no_crash_loses_invents_or_is_refused() -> None:
    totals = explore_all(
        standard_plans(), jobs=2, nested_every=NESTED_EVERY, readers_every=READERS_EVERY
    )
    print(totals)
    assert totals.bad == 0, str(totals)
    assert len(totals.distinct) >= STATES
    assert totals.nested >= 4_000


def test_every_byte_of_a_write_may_be_the_last_one() -> None:
    explorer = Explorer(THOROUGH, readers_every=READERS_EVERY)
    longer = ("append,torn,append", "fill512,append,append,close")
    with remembered_scans():
        for plan in ("append,append", "many3", "fill512,append,many3", *(longer if FULL else ())):
            explorer.explore(parse_plan(plan))
    print(explorer.totals)
    assert explorer.totals.bad == 0, str(explorer.totals)
    assert explorer.totals.states >= 10_000


def test_what_plans_share_is_explored_once() -> None:
    explorer = Explorer()
    first = explorer.explore(parse_plan("append,append"))
    assert explorer.explore(parse_plan("append,append")) == 0
    longer = explorer.explore(parse_plan("append,append,close"))
    assert longer == Explorer().explore(parse_plan("append,append,close")) - first


def test_a_state_is_shown_again_by_the_command_of_its_failure(
    capsys: pytest.CaptureFixture[str],
) -> None:
    explorer = Explorer(stop_at_first=True)
    explorer.oracle.problems = lambda state, depth=1: [f"LOST: state {state.key:x}"]  # type: ignore
    explorer.explore(parse_plan("append,many3"))
    (failure,) = explorer.totals.failures.values()
    assert isinstance(failure, Failure)
    command = failure.command()
    assert command.startswith('python -m tests.support.explorer --plan "append,many3" --profile')
    arguments = command.replace('"', "").split()[3:]
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert "/sim" in shown
    assert "acknowledged" in shown
    assert shown.strip().endswith("sound")
    assert main([*arguments[:-1], "0" * 32]) == 2


def test_a_plan_that_fails_without_a_crash_is_a_failure_too() -> None:
    explorer = Explorer()
    explorer._run = lambda plan: (_ for _ in ()).throw(PlanFailure("it said so"))  # type: ignore
    explorer.explore(parse_plan("append"))
    assert explorer.totals.bad == 1
    assert "it said so" in str(explorer.totals)


def test_the_command_line_explores_one_plan_or_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--plan", "append", "--nested-every", "0"]) == 0
    assert main(["--all", "--length", "1", "--jobs", "1", "--nested-every", "50"]) == 0
    assert main(["--all", "--length", "1", "--jobs", "1", "--filler"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("0 bad; 0 lost, 0 phantom, 0 refused, 0 other") == 3
    with pytest.raises(SystemExit):
        main([])
