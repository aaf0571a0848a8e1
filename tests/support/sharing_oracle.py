"""What must hold when several writers shared a session, whatever the schedule: one log, in which
everything acknowledged stands once, in the order of time, and which every handle goes on with.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from durasess.engine.engine import Engine
from durasess.engine.paths import WORKERS
from durasess.engine.receipt import Receipt
from durasess.engine.types import Event
from durasess.engine.verify import verify
from durasess.errors import DurasessError
from tests.support.agreement import assert_readers_agree
from tests.support.crash_driver import BOOT_NS, SESSION, STORE, Fact, Options, grain_of, make_clock
from tests.support.crash_driver import open_engine as open_with
from tests.support.crash_states import CrashState, Settings, crash_states, entry_key
from tests.support.sharing_run import DEADLY, Call, Patience, Run, Seen, Unexpected, folded
from tests.support.sim_files import Op, SimFiles, Tree

AFTER: Fact = ("e", {"w": 9, "n": 1})

_WORKERS = f"/{WORKERS}/"
_OPTIONS = Options()


def grain(path: str) -> str:
    """As for one writer; who works where is never read for the log."""
    return "coarse" if _WORKERS in path else grain_of(path)


CUT = Settings(profile="weakest", grain=grain, max_subset=4, max_names=60, max_product=200)


class Oracle:
    """Checks runs and power cuts. What it saw of a tree it does not look at again.

    `directory`: where trees are written for the second reader; about one in `agree_every` is.
    `ends` counts the distinct logs that runs ended with, `cuts` the distinct states of power cuts.
    """

    def __init__(self, directory: Path | None = None, agree_every: int = 1) -> None:
        self._directory = directory
        self._agree_every = agree_every
        self._sound_ends: set[int] = set()
        self._sound_cuts: set[Any] = set()
        self._cut_points: set[tuple[int, Any]] = set()
        self.ends = 0
        self.agreed = 0
        self.cuts = 0

    # After a run

    def problems(self, run: Run) -> list[str]:
        """Everything that is wrong with a run; its handles go on and are closed."""
        if run.baton.problem:
            return [run.baton.problem]
        if run.removed:
            # What is gone is gone; that nobody went on who knew of it, the run itself saw to.
            return []
        found: list[str] = []
        try:
            self._go_on(run, found)
            # Who comes after it settles what a death or a failed sync left; perhaps nobody came.
            kind = run.case.trouble.kind if run.case.trouble is not None else ""
            alive = any(writer.engine is not None for writer in run.writers)
            may_be_torn = kind in (*DEADLY, "dropsync") and not alive
            log = _read(run, found, allow_torn=may_be_torn)
            if not found:
                found += _wrong_events(run, log) + _wrong_order(run.calls) + _wrong_views(run, log)
            if not found:
                self._close(run, found)
            if not found:
                self._recover(run, log, found, allow_torn=may_be_torn)
        except (DurasessError, Unexpected) as error:
            found.append(f"afterwards: {error!r}")
        except AssertionError as error:
            found.append(f"afterwards: {error}")
        return found

    def _go_on(self, run: Run, found: list[str]) -> None:
        """Whoever has an open handle appends once more, and sees what the others did."""
        alive = [writer for writer in run.writers if writer.engine is not None]
        for writer in alive:
            writer.append([writer.draft()])
        for writer in alive:
            engine = writer.open()
            engine.refresh()
            seen = Seen(writer.number, "refresh", run.acknowledged(), engine.last_seq, engine.state)
            run.seen.append(seen)
        states = [writer.open().state for writer in alive]
        if any(state != states[0] for state in states):
            found.append(f"the handles' states differ: {states}")
        run.last_state = states[0] if states else None

    def _close(self, run: Run, found: list[str]) -> None:
        for writer in run.writers:
            if writer.engine is not None:
                writer.engine.close()
                writer.engine = None
            if writer.disk.descriptors:
                left = sorted(item.path for item in writer.disk.descriptors.values())
                found.append(f"writer {writer.number} is closed, and still open: {left}")

    def _recover(self, run: Run, log: list[Event], found: list[str], *, allow_torn: bool) -> None:
        tree = run.disk.tree()
        key = _view_key(tree)
        if key in self._sound_ends:
            return
        self.ends += 1
        again = SimFiles.from_tree(tree)
        engine = _open(again, "shared", _last_receipt(run.calls))
        _expect_clean(engine, found, allow_torn=allow_torn, allow_notices=_had_trouble(run))
        if not _same(log, _events(engine)):
            found.append("recovery reads other events")
        if engine.state != run.last_state:
            found.append(f"recovery makes the state {engine.state}")
        if engine.append(*AFTER).seq != _end(log) + 1:
            found.append("the next event got another seq")
        engine.close()
        _expect_no_damage(again, found)
        self._agree(key, again.tree())
        self._agree(key, tree)
        if not found:
            self._sound_ends.add(key)

    def _agree(self, key: int, tree: Tree) -> None:
        if self._directory is None or key % self._agree_every:
            return
        self.agreed += 1
        assert_readers_agree(_written(tree, self._directory / f"{self.agreed:x}"))

    # Power cuts

    def cut_problems(
        self, run: Run, point: int, *, only: int | None = None
    ) -> Iterator[tuple[int, list[str]]]:
        """A power cut before operation `point` of the log: the states it may leave, by their keys,
        and what is wrong with them."""
        log = _without_workers(run.disk.log[:point])
        for state in crash_states(
            run.disk.base, log, CUT, start=len(log), seen=self._cut_points, identity=_identity(run)
        ):
            if only is not None and state.key != only:
                continue
            key = (_view_key(state.tree), _identity(run)(state.mark))
            if key in self._sound_cuts:
                continue
            self.cuts += 1
            found = _cut_problems(run, state)
            if not found:
                self._sound_cuts.add(key)
            yield state.key, found


def _without_workers(log: list[Op]) -> list[Op]:
    """Names in `workers` are never synced, and their subsets would be all there is to see."""
    directories = {op.child for op in log if op.kind == "link" and op.name == WORKERS}
    return [op for op in log if op.kind not in ("link", "unlink") or op.node not in directories]


def _cut_problems(run: Run, state: CrashState) -> list[str]:
    calls = _calls_before(run.calls, state.mark or 0)
    found: list[str] = []
    disk = SimFiles.from_tree(state.tree)
    receipt = _last_receipt(calls)
    try:
        if receipt is None and not _is_session(state.tree):
            return []
        reader = _open(disk, "read", receipt)
        seen = reader.last_seq
        _expect_clean(reader, found, allow_torn=True)
        engine = _open(disk, "shared", receipt)
        _expect_clean(engine, found, allow_torn=True)
        log = _events(engine)
        found += _wrong_log(_not_pruned(calls, log), log)
        if log and log[0].seq == 1 and engine.state != _state_of(log):
            found.append(f"the state is {engine.state}")
        if engine.last_seq < seen:
            found.append(f"a reader saw {seen} events, the writer {engine.last_seq}")
        if engine.append(*AFTER).seq != _end(log) + 1:
            found.append("the next event got another seq")
        engine.close()
        _expect_no_damage(disk, found)
    except (DurasessError, AssertionError) as error:
        found.append(f"after the power cut: {error!r}")
    return found


def points(run: Run) -> list[int]:
    """Where in the log of a run a power cut leaves something new: before each barrier."""
    barriers = ("sync", "sync_dir", "syncfail")
    log = run.disk.log
    return [number for number in range(run.began_at, len(log)) if log[number].kind in barriers]


# The parts of the verdict


def _wrong_log(calls: list[Call], log: list[Event]) -> list[str]:
    """Seqs without a gap; what was acknowledged, where and as it was; nothing that nobody issued,
    nothing that was refused, nothing twice, no half batch."""
    found = []
    seqs = [event.seq for event in log]
    if seqs != list(range(seqs[0] if seqs else 1, len(seqs) + (seqs[0] if seqs else 1))):
        found.append(f"seqs {seqs}")
    at = {_name((event.type, event.data)): event for event in log}
    if len(at) != len(log):
        found.append("an event stands twice")
    for call in calls:
        events = [at.pop(_name(fact), None) for fact in call.facts]
        there = [event for event in events if event is not None]
        if call.outcome == "done":
            if len(there) < len(events):
                found.append(f"LOST: {call}")
                continue
            if [(e.seq, e.crc) for e in there] != [(r.seq, r.crc) for r in call.receipts]:
                found.append(f"WRONG: {call} is there as {there}")
        elif call.outcome == "refused" and there:
            found.append(f"PHANTOM: {call} was refused and is there")
        elif there and len(there) < len(events):
            found.append(f"half a batch: {call}, {there}")
        if any(b.seq != a.seq + 1 for a, b in itertools.pairwise(there)):
            found.append(f"a batch with others between: {there}")
    found += [f"PHANTOM: nobody issued {event}" for event in at.values()]
    return found


def _wrong_events(run: Run, log: list[Event]) -> list[str]:
    """What lasts to the end is in it even when its writer was killed: the log is a whole one."""
    if log and log[0].seq != 1 and not any("prune" in plan for plan in run.case.plans):
        return [f"the log begins at seq {log[0].seq}, never pruned"]
    calls = _not_pruned(run.calls, log)
    trouble = run.case.trouble
    found = _wrong_log(calls, log)
    for call in calls:
        known = trouble is not None and trouble.writer == call.writer
        if not known and call.outcome != "done":
            found.append(f"not answered, without a trouble: {call}")
    return found


def _wrong_order(calls: list[Call]) -> list[str]:
    """A call that began when another was answered has the higher seqs; all seqs are different."""
    done = sorted(
        (call for call in calls if call.outcome == "done"), key=lambda call: call.receipts[0].seq
    )
    found = []
    latest = 0
    last_seq = 0
    for call in done:
        if call.answered < latest:
            found.append(f"a later call has a lower seq: {call}")
        latest = max(latest, call.began)
        if call.receipts[0].seq <= last_seq:
            found.append(f"seq {call.receipts[0].seq} was given twice")
        last_seq = call.receipts[-1].seq
    return found


def _wrong_views(run: Run, log: list[Event]) -> list[str]:
    """A handle shows the state of a beginning of the log, its own appends in it, and never an older
    one than before; what it looked for it found."""
    found = []
    if log and log[0].seq != 1:
        return []
    states = folded([(event.type, event.data) for event in log])
    before: dict[int, int] = {}
    quiet = run.case.trouble is None
    for seen in run.seen:
        if seen.last_seq >= len(states) or seen.state != states[seen.last_seq]:
            found.append(f"not the state of the first events: {seen}")
        if seen.last_seq < before.get(seen.writer, 0) and run.case.trouble is None:
            found.append(f"it went back from {before[seen.writer]}: {seen}")
        before[seen.writer] = seen.last_seq
        looks = seen.step not in ("close", "prune", "snapshot", "reopen")
        if quiet and looks and seen.last_seq < seen.known:
            found.append(f"it does not show what was acknowledged before: {seen}")
    return found


def _read(run: Run, found: list[str], *, allow_torn: bool) -> list[Event]:
    engine = _open(run.disk, "read", _last_receipt(run.calls))
    if run.last_state is None:
        run.last_state = engine.state
    if engine.state != run.last_state:
        found.append(f"a reader makes the state {engine.state}, the handles {run.last_state}")
    _expect_clean(engine, found, allow_torn=allow_torn, allow_notices=_had_trouble(run))
    log = _events(engine)
    _expect_no_damage(run.disk, found)
    return log


def _had_trouble(run: Run) -> bool:
    """A snapshot that failed half way may be noticed: the one before it was taken."""
    return run.case.trouble is not None


def _expect_clean(
    engine: Engine, found: list[str], *, allow_torn: bool, allow_notices: bool = False
) -> None:
    report = engine.recovery
    if report.notices and not allow_notices:
        found.append(f"notices: {report.notices}")
    if report.damage:
        found.append(f"damage: {[str(item) for item in report.damage]}")
    if report.torn and not allow_torn:
        found.append(f"a torn tail after a whole turn: {report.torn}")


def _expect_no_damage(disk: SimFiles, found: list[str]) -> None:
    damage = [str(item) for item in verify(SESSION, files=disk).damage]
    if damage:
        found.append(f"damage: {damage}")


def _open(disk: SimFiles, mode: str, at_least: Receipt | None) -> Engine:
    return open_with(
        disk,
        _OPTIONS,
        mode=mode,
        at_least=at_least,
        create=False,
        clock=make_clock(BOOT_NS),
        scheduler=Patience(),
    )


def _calls_before(calls: list[Call], time: int) -> list[Call]:
    """As they stood at this time."""
    return [
        call
        if call.answered and call.answered <= time
        else Call(call.writer, call.facts, call.began)
        for call in calls
        if call.began <= time
    ]


def _identity(run: Run) -> Any:
    def identity(time: int | None) -> Any:
        known = _calls_before(run.calls, time or 0)
        return tuple(
            (_name(call.facts[0]), call.outcome, tuple(r.crc for r in call.receipts))
            for call in known
        )

    return identity


def _last_receipt(calls: list[Call]) -> Receipt | None:
    receipts = [receipt for call in calls for receipt in call.receipts]
    return max(receipts, key=lambda one: one.seq, default=None)


def _name(fact: Fact) -> tuple[int, int]:
    return fact[1]["w"], fact[1]["n"]


def _events(engine: Engine) -> list[Event]:
    return list(engine.events(after=engine.first_seq - 1))


def _end(log: list[Event]) -> int:
    return log[-1].seq if log else 0


def _not_pruned(calls: list[Call], log: list[Event]) -> list[Call]:
    """What was pruned can't be looked at."""
    first = log[0].seq if log else 1
    if first == 1:
        return calls
    return [call for call in calls if not call.receipts or call.receipts[0].seq >= first]


def _state_of(log: list[Event]) -> Any:
    return folded([(event.type, event.data) for event in log])[-1]


def _same(first: list[Event], second: list[Event]) -> bool:
    return [(e.seq, e.crc) for e in first] == [(e.seq, e.crc) for e in second]


def _is_session(tree: Tree) -> bool:
    return f"{SESSION}/meta.json" in tree


def _view_key(tree: Tree) -> int:
    """Without what is never read for the log."""
    key = 0
    for path, content in tree.items():
        if not path.endswith((".tmp", "/owner")) and _WORKERS not in path:
            key ^= entry_key(path, content)
    return key


def _written(tree: Tree, root: Path) -> Path:
    for path, content in sorted(tree.items()):
        target = root / path.removeprefix("/")
        if content is None:
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.write_bytes(content)
    return root / STORE.removeprefix("/") / Path(SESSION).name
