"""The engine with one thing left out or out of order, to see whether the explorer notices.

Sites are found while plans run, so a new sync is covered without being listed here.
"""

from __future__ import annotations

import concurrent.futures
import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Sequence

from durasess.errors import DurasessError
from tests.support.crash_driver import (
    Driver,
    Moment,
    Plan,
    PlanFailure,
    StepTooShort,
    call_site,
    options_of,
    parse_plan,
)
from tests.support.crash_states import BARRIERS
from tests.support.explorer import Explorer
from tests.support.sim_files import Op, SimFiles, Tree

ELIDED = ("sync", "sync_dir", "truncate")
Skip = Callable[[str, str, str], bool]
"""Whether to leave out a call: its kind, the path, the call site."""


class SkippingFiles(SimFiles):
    """Leaves out the syncs and truncates that `skip` names."""

    skip: Skip

    def sync(self, fd: int) -> None:
        if not self._skips("sync", self._descriptor(fd).path):
            super().sync(fd)

    def sync_dir(self, path: str) -> None:
        if not self._skips("sync_dir", path):
            super().sync_dir(path)

    def truncate(self, fd: int, size: int) -> None:
        if not self._skips("truncate", self._descriptor(fd).path):
            super().truncate(fd, size)

    def _skips(self, kind: str, path: str) -> bool:
        return self.skip(kind, path, call_site(kind, path))


def skipping(skip: Skip) -> Callable[[Tree], SimFiles]:
    """Makes disks that leave out what `skip` says."""

    def make(tree: Tree) -> SimFiles:
        files = SkippingFiles.from_tree(tree)
        files.skip = skip
        return files

    return make


def traced(tree: Tree) -> SimFiles:
    """A disk whose log says who made each call."""
    return SimFiles.from_tree(tree, trace=call_site)


def killed_plans(plan: Plan) -> Iterator[Plan]:
    """The plan with the process killed at each change that each step makes."""
    options, steps = plan[: -len(options_of(plan)[1])], options_of(plan)[1]
    for index, step in enumerate(steps):
        count = 1
        while True:
            head = (*options, *steps[:index], f"{step}!{count}")
            try:
                Driver(head).run()
            except StepTooShort:
                break
            yield (*head, *steps[index + 1 :])
            count += 1


def with_kills(texts: Iterable[str]) -> list[Plan]:
    """Plans, each as it is and killed everywhere; the shorter ones first."""
    plans = [parse_plan(text) for text in texts]
    killed = [variant for plan in plans for variant in killed_plans(plan)]
    return plans + sorted(killed, key=len)


def sites_of(plans: Sequence[Plan], kinds: Sequence[str]) -> dict[str, list[Plan]]:
    """Each call site with the plans that come by it."""
    found: dict[str, list[Plan]] = {}
    for plan in plans:
        log = Driver(plan, make_files=traced).run().log
        for site in dict.fromkeys(op.site for op in log if op.kind in kinds):
            found.setdefault(site, []).append(plan)
    return found


def is_noticed(site: str, plans: Sequence[Plan]) -> bool:
    """Whether leaving out the calls of one site makes the explorer fail."""
    make = skipping(lambda kind, path, found: found == site)
    explorer = Explorer(stop_at_first=True, profiles=("weakest",))
    for plan in plans:
        try:
            files = Driver(plan, make_files=make).run()
        except StepTooShort:
            continue
        except (PlanFailure, DurasessError):
            return True
        explorer.explore_log(plan, files)
        if explorer.totals.bad:
            return True
    return False


def is_early_noticed(site: str, plans: Sequence[Plan]) -> bool:
    """Whether the explorer fails when the calls of one site reach the disk before the barrier that
    stands before them."""
    explorer = Explorer(stop_at_first=True, profiles=("weakest",))
    for plan in plans:
        files = Driver(plan, make_files=traced).run()
        files.log = hoisted(files.log, site)
        explorer.explore_log(plan, files)
        if explorer.totals.bad:
            return True
    return False


def hoisted(log: Sequence[Op], site: str) -> list[Op]:
    """The log with each operation of a site moved before the barrier that precedes it; not across
    the making of what it works on, nor to where the driver knew too little to expect it."""
    result: list[Op] = []
    for op in log:
        at = _before_barrier(result, op) if op.site == site else len(result)
        if at < len(result):
            early = _early_mark(result, at)
            if early is None:
                at = len(result)
            else:
                result.insert(at, early)
                at += 1
        result.insert(at, op)
    return result


def _before_barrier(log: list[Op], op: Op) -> int:
    subject = op.child or op.node
    for index in range(len(log) - 1, -1, -1):
        other = log[index]
        if other.kind in BARRIERS:
            return index
        if other.kind == "link" and other.child == subject:
            break
    return len(log)


def _early_mark(log: list[Op], at: int) -> Op | None:
    """What was acknowledged at this place, with all that was issued by the end of the log."""
    before = _last_mark(log[:at])
    latest = _last_mark(log)
    if latest is None or before is None or before.version != latest.version:
        return None
    return Op("mark", data=latest._replace(acked=before.acked, receipt=before.receipt))


def _last_mark(log: list[Op]) -> Moment | None:
    return next((op.data for op in reversed(log) if op.kind == "mark"), None)


def unnoticed(
    found: dict[str, list[Plan]], check: Callable[[str, Sequence[Plan]], bool], jobs: int = 2
) -> list[str]:
    """The sites for which `check` is False."""
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(jobs, mp_context=context) as pool:
        noticed = list(pool.map(check, found, found.values()))
    return [site for site, seen in zip(found, noticed, strict=True) if not seen]
