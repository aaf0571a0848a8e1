"""Writers that share a session, under every schedule with few preemptions, with kills, failing
calls and power cuts: one log, nothing lost, nobody stopped who did nothing wrong.

The suite takes every third case, `DURASESS_TIER=full` all. `DURASESS_SHARING_LEVEL=2` explores
much more, and so does
`python -m tests.support.sharing_explorer --all --level 2`.
"""

import contextlib
import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from durasess.engine import assembly, lock, paths, recovery
from durasess.engine.shared_log import SharedLog
from durasess.engine.together import Together
from durasess.engine.writer import Writer
from tests.support.interleave import Baton, Process, Threads
from tests.support.planting import around, planted
from tests.support.sharing_cases import tasks
from tests.support.sharing_explorer import (
    Explorer,
    Task,
    Totals,
    explore_all,
    main,
)
from tests.support.sharing_run import Run, parse_case, pinned
from tests.support.sim_files import Killed, SimFiles
from tests.support.tiers import sampled

LEVEL = int(os.environ.get("DURASESS_SHARING_LEVEL", "1"))
SAMPLE = sampled(3)
SCHEDULES = 60_000 // SAMPLE
ORDERS = 5_000 // SAMPLE
CUTS = 5_000 // SAMPLE


def test_no_schedule_loses_repeats_or_stops_anything() -> None:
    totals = explore_all(tasks(LEVEL)[::SAMPLE], jobs=2)
    print(totals)
    assert totals.bad == 0, str(totals)
    assert totals.schedules >= SCHEDULES
    assert len(totals.orders) >= ORDERS
    assert totals.cuts >= CUTS
    assert totals.agreed >= 50 // SAMPLE


# What was found: each with the small case that came by it first.

FOUND = {
    "an append overwrote a seal that had brought no event": Task(parse_case("rotate|append"), 1),
    "an append went over the seal of a close": Task(parse_case("close|append"), 1),
    "a failed sync of a seal was not told": Task(
        parse_case("rotate|append,append@failsync0.1"), 1, cut_every=1
    ),
    "a snapshot waited for ever when its last turn was refused": Task(
        parse_case("snapshot|append@full0.1"), 0, everywhere=True
    ),
    "a close that was refused its turn let go of nothing": Task(
        parse_case("close|append@full0.1"), 0, everywhere=True
    ),
    "an older snapshot took the place of a newer one": Task(
        parse_case("many2,snapshot|snapshot,append"), 2
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found_once_is_not_found_again(name: str) -> None:
    explorer = Explorer()
    explorer.explore(FOUND[name])
    explorer.end()
    assert explorer.totals.bad == 0, str(explorer.totals)


# Bugs that it must find, planted one at a time.

Patch = Callable[[], AbstractContextManager[Any]]


class Bug(NamedTuple):
    """A way to be wrong, and a case that comes by it."""

    case: str
    patch: Patch
    preemptions: int = 2
    cut_every: int = 0


def _lock_is_not_taken() -> AbstractContextManager[None]:
    def make(original: Any) -> Any:
        def locked(disk: Any, fd: int, path: str, **how: Any) -> bool:
            return path.endswith("/" + paths.LOCK) or original(disk, fd, path, **how)

        return locked

    return around(lock, "locked", make)


@contextlib.contextmanager
def _before_the_sync(give_up: Callable[[Together], None]) -> Iterator[None]:
    """The turn is given up between the write and its sync."""

    def begin(original: Any) -> Any:
        def begin(self: Together) -> None:
            original(self)
            self._log.give_up_turn = lambda: give_up(self)

        return begin

    def sync(original: Any) -> Any:
        def sync(self: SharedLog) -> None:
            if self._unsynced is not None:
                self.give_up_turn()
            original(self)

        return sync

    with around(Together, "begin", begin), around(SharedLog, "sync", sync):
        yield


def _lock_is_released_before_the_sync() -> AbstractContextManager[None]:
    return _before_the_sync(lambda turns: turns._disk.unlock(turns._lock_fd))


def _turn_ends_before_the_sync() -> AbstractContextManager[None]:
    """As above, and the anchor says that all is well."""
    return _before_the_sync(lambda turns: turns.end(None))


def _turn_is_not_announced() -> AbstractContextManager[None]:
    def make(original: Any) -> Any:
        def write_anchor(self: Together, phase: str) -> None:
            if phase != lock.COMMIT:
                original(self, phase)

        return write_anchor

    return around(Together, "_write_anchor", make)


def _phase_is_ignored() -> AbstractContextManager[None]:
    def make(original: Any) -> Any:
        def anchor_in(*arguments: Any) -> Any:
            anchor = original(*arguments)
            return anchor and msgspec.structs.replace(anchor, phase=lock.IDLE)

        return anchor_in

    return around(lock, "anchor_in", make)


def _failed_sync_is_not_told() -> AbstractContextManager[Any]:
    return planted(Together, "tell", lambda self, failure: self._write_anchor(lock.IDLE))


def _nothing_is_taken_over() -> AbstractContextManager[None]:
    """Only that somebody was in a turn makes this writer look again."""

    def has_caught_up(self: Together, anchor: lock.Anchor | None) -> bool:
        self._log.ends_as_told(0)
        return anchor is not None and anchor.phase == lock.IDLE

    return planted(Together, "_has_caught_up", has_caught_up)


def _file_is_taken_for_the_old_one() -> AbstractContextManager[Any]:
    return planted(SharedLog, "is_in_place", lambda self: True)


def _last_event_is_not_asked_for() -> AbstractContextManager[Any]:
    def recover(*arguments: Any, at_least: Any, writer: bool) -> Any:
        return recovery.recover(*arguments, writer=writer)

    return planted(assembly, "recover", recover)


def _kept_turn_is_not_told() -> AbstractContextManager[Any]:
    return planted(Together, "keep", lambda self: True)


def _kept_turn_is_told_as_ended() -> AbstractContextManager[Any]:
    def keep(self: Together) -> bool:
        self._write_anchor(lock.IDLE)
        return True

    return planted(Together, "keep", keep)


def _kept_turn_is_given_up() -> AbstractContextManager[Any]:
    def keep(self: Together) -> bool:
        self.end(None)
        return True

    return planted(Together, "keep", keep)


def _answers_come_before_the_others_events() -> AbstractContextManager[Any]:
    def keeps_turn(self: Writer) -> bool:
        self._outbox.answer(None)
        return self._scheduler.expects_more() and self._turns.keep()

    return planted(Writer, "_keeps_turn", keeps_turn)


@contextlib.contextmanager
def _with_blind_eyes(patch: Callable[[], AbstractContextManager[Any]]) -> Iterator[None]:
    """The check behind it is left out as well: most of these bugs are met by two."""

    def ends_as_told(original: Any) -> Any:
        def blind(self: SharedLog, size: int) -> bool:
            original(self, size)
            return True

        return blind

    with around(SharedLog, "ends_as_told", ends_as_told), patch():
        yield


BUGS = {
    "lock not taken": Bug("append|append", _lock_is_not_taken),
    "lock released before the sync": Bug("append|append", _lock_is_released_before_the_sync),
    "turn ended before the sync": Bug(
        "append|append,append@failsync0.1", _turn_ends_before_the_sync, cut_every=1
    ),
    "turn not announced before the write": Bug(
        "many3|append@half0.1", lambda: _with_blind_eyes(_turn_is_not_announced), preemptions=1
    ),
    "phase ignored by the next holder, after a kill": Bug(
        "many3|append@half0.1", lambda: _with_blind_eyes(_phase_is_ignored), preemptions=1
    ),
    "phase ignored by the next holder, after a failed sync": Bug(
        "append|append,append@failsync0.1", _phase_is_ignored, cut_every=1
    ),
    "failed sync not told": Bug(
        "append|append,append@failsync0.1", _failed_sync_is_not_told, cut_every=1
    ),
    "failed sync not told, pages dropped": Bug(
        "append|append,append@dropsync0.1",
        lambda: _with_blind_eyes(_failed_sync_is_not_told),
        cut_every=1,
    ),
    "nothing taken over": Bug("append|append", _nothing_is_taken_over),
    "copied segment appended to through the old descriptor": Bug(
        "append|rotate|append@kill0.1",
        lambda: _with_blind_eyes(_file_is_taken_for_the_old_one),
        preemptions=1,
    ),
    "acknowledged in a kept turn, and the anchor does not say so": Bug(
        "keep3|refresh,append", _kept_turn_is_not_told
    ),
    "a kept turn looks ended when its holder dies": Bug(
        "keep3|append@half0.1",
        lambda: _with_blind_eyes(_kept_turn_is_told_as_ended),
        preemptions=1,
    ),
    "a turn given up and gone on with": Bug("keep3|append,append", _kept_turn_is_given_up),
    "answered in a kept turn before the others' events are folded": Bug(
        "append,keep2|append,append", _answers_come_before_the_others_events
    ),
    "last event not asked for when recovering again": Bug(
        "append,append|append@older0.1", _last_event_is_not_asked_for
    ),
}


def explored(bug: Bug, *, stop_at_first: bool) -> Totals:
    """The case at all calls that its trouble can come at."""
    explorer = Explorer(stop_at_first=stop_at_first)
    case = parse_case(bug.case)
    everywhere = case.trouble is not None
    explorer.explore(Task(case, bug.preemptions, everywhere=everywhere, cut_every=bug.cut_every))
    explorer.end()
    return explorer.totals


@pytest.mark.parametrize("name", BUGS)
def test_planted_bug_is_found(name: str) -> None:
    bug = BUGS[name]
    with bug.patch():
        totals = explored(bug, stop_at_first=True)
    print(f"{name}: {totals}")
    assert totals.bad > 0


@pytest.mark.parametrize("case", sorted({bug.case for bug in BUGS.values()}))
def test_without_a_bug_the_same_case_is_sound(case: str) -> None:
    bugs = [bug for bug in BUGS.values() if bug.case == case]
    widest = max(bugs, key=lambda bug: (bug.preemptions, bug.cut_every))
    totals = explored(widest, stop_at_first=False)
    assert totals.bad == 0, str(totals)


# The explorer itself.


@pytest.mark.parametrize(
    "case",
    [
        "append,append|append,many2",
        "append|refresh,append",
        "append|append@kill0.3+",
        "append|append@failsync1.1",
        "snapshot|append",
    ],
)
def test_schedules_that_are_left_out_come_out_in_no_order_of_their_own(case: str) -> None:
    totals = []
    for leave_out in (True, False):
        explorer = Explorer(leave_out=leave_out)
        explorer.explore(Task(parse_case(case), 2))
        explorer.end()
        totals.append(explorer.totals)
    some, every = totals
    assert some.orders == every.orders
    assert some.runs < every.runs
    assert some.schedules <= every.runs


def test_schedules_of_three_writers_are_left_out_as_safely() -> None:
    totals = []
    for leave_out in (True, False):
        explorer = Explorer(leave_out=leave_out)
        explorer.explore(Task(parse_case("append|refresh|append"), 1))
        explorer.end()
        totals.append(explorer.totals)
    assert totals[0].orders == totals[1].orders


def test_failure_is_shown_again_by_its_command(capsys: pytest.CaptureFixture[str]) -> None:
    bug = BUGS["lock not taken"]
    with bug.patch():
        (failure,) = explored(bug, stop_at_first=True).failures.values()
        command = shlex.split(failure.command())
        assert command[:4] == ["python", "-m", "tests.support.sharing_explorer", "--case"]
        arguments = command[3:]
        assert main(arguments) == 1
    assert main(arguments) == 0
    assert capsys.readouterr().out.strip().endswith("sound")


def test_state_of_a_power_cut_is_shown_again_by_its_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    bug = BUGS["failed sync not told"]
    with bug.patch():
        (failure, *_) = explored(bug, stop_at_first=True).failures.values()
        assert failure.cut is not None
        arguments = shlex.split(failure.command())[3:]
        assert main(arguments) == 1
    assert main([*arguments[:-1], "0:0"]) == 2
    capsys.readouterr()


def test_command_line_explores_one_case(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--case", "append|append", "--preemptions", "1"]) == 0
    assert main(["--case", "append|append@kill0.1", "--everywhere", "--preemptions", "0"]) == 0
    assert "0 bad" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main([])
    with pytest.raises(ValueError, match="no trouble"):
        parse_case("append|append@nothing0.1")


def test_run_is_the_same_when_it_is_repeated() -> None:
    threads = Threads(2)
    trees = []
    with pinned():
        for _ in range(2):
            run = Run(parse_case("append,rotate|many2"), {0: 1, 9: 0, 30: 1}, threads)
            trees.append((run.disk.tree(), run.baton.decisions, run.baton.accesses))
            run.let_go()
    threads.end()
    assert trees[0] == trees[1]


def two_processes(schedule: dict[int, int], *plans: Callable[[Process], None]) -> Baton:
    """Run plans that know nothing of the engine on a disk with two files."""
    disk = SimFiles.from_tree({"/d/a": b"", "/d/b": b""})
    baton = Baton(len(plans), schedule)
    threads = Threads(len(plans))
    processes = [Process(disk, baton, number) for number in range(len(plans))]
    jobs = [
        lambda plan=plan, process=process: plan(process)
        for plan, process in zip(plans, processes, strict=True)
    ]
    baton.run(jobs, threads)
    threads.end()
    return baton


def both_locks(first: str, second: str) -> Callable[[Process], None]:
    def plan(process: Process) -> None:
        for path in (first, second):
            process.lock(process.open(path, write=True), wait=True)

    return plan


def test_deadlock_is_a_failure_under_the_schedule_that_comes_by_it() -> None:
    plans = both_locks("/d/a", "/d/b"), both_locks("/d/b", "/d/a")
    # Whoever ends keeps its locks here, so the other waits for ever, whatever the schedule.
    assert "deadlock" in two_processes({}, *plans).problem
    found = two_processes({3: 1}, *plans)
    assert found.problem == "deadlock: [0, 1] wait and nobody runs"


def test_process_that_goes_round_in_circles_is_stopped() -> None:
    def circle(process: Process) -> None:
        while True:
            process.listdir("/d")

    assert "no end" in two_processes({}, circle, lambda process: None).problem


def test_schedule_that_names_who_cannot_run_is_a_failure() -> None:
    baton = two_processes({2: 1}, both_locks("/d/a", "/d/b"), lambda process: None)
    assert baton.problem == ""
    baton = two_processes({0: 1, 2: 1}, both_locks("/d/a", "/d/b"), lambda process: None)
    assert "cannot go on" in baton.problem


def test_killed_process_drops_its_own_locks_and_descriptors_only() -> None:
    disk = SimFiles.from_tree({"/d/a": b"", "/d/b": b""})
    baton = Baton(2, {})
    one, other = Process(disk, baton, 0), Process(disk, baton, 1)
    mine, theirs = one.open("/d/a", write=True), other.open("/d/b", write=True)
    assert one.lock(mine)
    assert other.lock(theirs)
    one.write_at(mine, b"cached", 0)
    one.kill_before(1)
    with pytest.raises(Killed):
        one.write_at(mine, b"never", 0)
    with pytest.raises(Killed):
        one.read_at(mine, 1, 0)
    one.die()
    assert other.lock(other.open("/d/a"))
    assert not other.lock(other.open("/d/b"), shared=True)
    assert disk.tree()["/d/a"] == b"cached"
    assert [op.kind for op in disk.log] == ["write"]


def test_second_reader_is_asked_about_what_runs_leave(tmp_path: Path) -> None:
    explorer = Explorer(directory=tmp_path)
    explorer.explore(Task(parse_case("append,snapshot|append"), 1))
    explorer.end()
    assert explorer.totals.bad == 0, str(explorer.totals)
    assert explorer.totals.agreed >= 4
