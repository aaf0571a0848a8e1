"""Runs a plan (a tuple of steps) against a real engine on a simulated disk, and marks its log.

A plan is written with commas: `every2,append,many3,kill,append`. Options come first:

    everyN  snapshot_every=N          segN  segment_bytes=N
    fillN   preallocate=N (0 without it)

and then steps:

    append  big  manyN  loose         one event; one of several sectors; a batch; durable=False
    flush  snapshot  rotate  prune
    background                        finish the oldest background job
    close  reopen  repair             (any later step opens a closed session again)
    kill                              the process dies; the page cache stays
    torn  torn3                       it dies in the middle of a write of one event, of a batch
    short  shortlf  full  shortN      a write takes half, all but the line feed, nothing, most of a
                                      batch of N; then the disk is full
    shortfill                         a write takes its events and half of the filler behind them
    failsync  dropsync                a sync fails and the pages stay visible, or are dropped
    failcut                           the filler behind a seal cannot be cut off
    grown                             somebody else makes the segment longer
    stale                             its writer, whose lock is lost, writes during the next open
    STEP!N                            it dies just before the Nth change that a step makes

A mark says what a crash at this point must not lose and may show: see `Moment`.
"""

from __future__ import annotations

import errno
import functools
import logging
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest import mock

from durasess.engine import files as files_module
from durasess.engine import paths
from durasess.engine.engine import Engine
from durasess.engine.receipt import Receipt
from durasess.engine.repair import repair
from durasess.engine.scheduler import InlineScheduler
from durasess.engine.types import FILLER, SECTOR, Event
from durasess.errors import DurasessError, FencedError, SessionFailedError, StorageError
from tests.support.sim_files import Killed, SimFiles, Tree

STORE = "/sim"
SESSION = "/sim/s"
EMPTY = {STORE: None}
NEVER = 1_000_000
"""A `snapshot_every` and `segment_bytes` that no plan reaches."""

_START_NS = 1_790_000_000_000_000_000
_TICK_NS = 1_000_000
BOOT_NS = 1_800_000_000_000_000_000
"""When the machine is up again after a crash, long after any plan."""

_SEAL_BYTES = 150
"""Somewhat more than a seal takes."""

_OPTION = re.compile(r"(every|seg|fill)([0-9]+)")
_OPTION_NAMES = {"every": "snapshot_every", "seg": "segment_bytes", "fill": "preallocate"}
_COUNTED = re.compile(r"(many|torn|short)([0-9]+)")

Plan = tuple[str, ...]
Fact = tuple[str, Any]
"""Type and data of an event."""

Unsettled = tuple[tuple[str, bytes], ...]
"""Segments, as path and bytes."""


class Moment(NamedTuple):
    """What is known at a point of the log.

    `acked` events were acknowledged (-1: not even the session's creation was); `issued` may be
    there, as a prefix that ends at one of `ends`. `states[k]` is the fold of the first k.
    `version` counts how often an issued event was withdrawn, so that a later and stricter moment
    is not taken for an earlier one. `receipt` is that of the last acknowledged event. `unsettled`
    are the segments without a seal that a writer found at an open, with their bytes: where one was
    replaced, all that was taken out of it must be in quarantine.
    """

    acked: int = -1
    version: int = 0
    receipt: Any = None
    issued: tuple[Fact, ...] = ()
    ends: tuple[int, ...] = (0,)
    states: tuple[Any, ...] = ({},)
    pruned: bool = False
    unsettled: Unsettled = ()


def identity(moment: Moment | None) -> Any:
    """What of a moment makes its oracle a different one."""
    return None if moment is None else (moment.acked, moment.version, moment.unsettled)


class StepTooShort(Exception):
    """A plan asks for a change that its step does not come to."""


class PlanFailure(AssertionError):
    """The engine did not do what the plan expects, without any crash."""


def fold(state: dict[str, Any], event: Event) -> dict[str, Any]:
    """The reducer of all plans: a count, a running checksum and the last data."""
    return _folded(state, event.seq, event.type, event.data)


def _folded(state: dict[str, Any], seq: int, type_: str, data: Any) -> dict[str, Any]:
    text = repr((seq, type_, data)).encode()
    return {
        "count": state.get("count", 0) + 1,
        "crc": zlib.crc32(text, state.get("crc", 0)),
        "last": data,
    }


class Options(NamedTuple):
    """What the options of a plan say."""

    snapshot_every: int = NEVER
    segment_bytes: int = NEVER
    preallocate: int = 0


def parse_plan(text: str) -> Plan:
    """The steps and options of a plan as it is written on a command line."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def options_of(plan: Plan) -> tuple[Options, Plan]:
    """The options of a plan, and its steps."""
    options = Options()
    steps = []
    for part in plan:
        match = _OPTION.fullmatch(part)
        if match is None:
            steps.append(part)
        else:
            options = options._replace(**{_OPTION_NAMES[match[1]]: int(match[2])})
    return options, tuple(steps)


def make_clock(start: int = _START_NS) -> Callable[[], int]:
    """Nanoseconds that go on by one millisecond a call, the same in every run."""
    now = start

    def clock() -> int:
        nonlocal now
        now += _TICK_NS
        return now

    return clock


def open_engine(files: SimFiles, options: Options, **more: Any) -> Engine:
    """The engine as all plans and checks open it."""
    settings: dict[str, Any] = {
        "initial": dict,
        "apply": fold,
        "snapshot_every": options.snapshot_every,
        "segment_bytes": options.segment_bytes,
        "preallocate": options.preallocate,
        "files": files,
        "clock": make_clock(),
        "scheduler": InlineScheduler(),
    }
    settings.update(more)
    return Engine.open(SESSION, **settings)


@contextmanager
def pinned_identity() -> Iterator[None]:
    """The same process, command and boot in every run, so the same plan makes the same bytes; and
    no log messages about the faults that plans make."""
    with (
        mock.patch.object(os, "getpid", lambda: 4242),
        mock.patch.object(sys, "argv", ["explorer"]),
        mock.patch.object(files_module, "boot_id", lambda: "boot"),
        mock.patch.object(logging.getLogger("durasess"), "disabled", True),
    ):
        yield


class Driver:
    """One run of one plan. `starts[i]` is where in the log step i begins."""

    def __init__(
        self,
        plan: Plan,
        *,
        make_files: Callable[..., SimFiles] = SimFiles.from_tree,
        open_with: Callable[..., Engine] = open_engine,
    ) -> None:
        self.plan = plan
        self.options, self.steps = options_of(plan)
        self.files = make_files(EMPTY)
        self.starts: list[int] = []
        self.moment = Moment()
        self.engine: Engine | None = None
        self.scheduler = InlineScheduler()
        self._open_with = open_with
        self._clock = make_clock()
        self._made = 0
        self._crcs: dict[int, str] = {}

    def run(self) -> SimFiles:
        """Every step in turn; afterwards the handle is abandoned as in a crash."""
        with pinned_identity():
            try:
                for step in self.steps:
                    self.starts.append(len(self.files.log))
                    self._step(step)
            finally:
                self._died()
        return self.files

    def _step(self, step: str) -> None:
        name, dies, count = step.partition("!")
        if not dies:
            self._whole_step(step)
            return
        self.files.kill_before(int(count))
        try:
            self._whole_step(name)
        except Killed:
            self._died()
        else:
            raise StepTooShort(f"{name} makes fewer than {count} changes")

    def _whole_step(self, step: str) -> None:
        counted = _COUNTED.fullmatch(step)
        if counted is not None:
            self._counted(counted[1], int(counted[2]))
            return
        handler = getattr(self, f"_do_{step}", None)
        if handler is None:
            raise ValueError(f"no step is called {step!r}")
        handler()

    def _counted(self, name: str, count: int) -> None:
        drafts = [self._draft() for _ in range(count)]
        if name == "many":
            self._append(drafts)
        elif name == "torn":
            self._torn(drafts)
        else:
            most = 130 * count - 65
            self._refused(drafts, lambda files: files.short_write(most, where=".jsonl"))

    # Steps

    def _do_append(self) -> None:
        self._append([self._draft()])

    def _do_big(self) -> None:
        self._append([self._draft(size=1100)])

    def _do_loose(self) -> None:
        engine = self._opened()
        draft = self._draft()
        self._issue([draft])
        engine.append(*draft, durable=False)

    def _do_flush(self) -> None:
        self._opened().flush()
        self._acknowledge_all()

    def _do_snapshot(self) -> None:
        self._opened().snapshot()
        self._acknowledge_all()

    def _do_background(self) -> None:
        self._opened()
        self.scheduler.run_background()

    def _do_rotate(self) -> None:
        self._opened().rotate()
        self._acknowledge_all()

    def _do_prune(self) -> None:
        engine = self._opened()
        self._mark(pruned=True)
        engine.prune()

    def _do_close(self) -> None:
        if self.engine is not None:
            self.engine.close()
            self.engine = None
            self._acknowledge_all()
            self._expect_no_descriptors()

    def _do_reopen(self) -> None:
        self._do_close()
        self._opened()

    def _do_repair(self) -> None:
        self._do_close()
        repair(SESSION, apply=True, files=self.files)

    def _do_kill(self) -> None:
        self._opened()
        self._died()

    def _do_torn(self) -> None:
        self._torn([self._draft()])

    def _do_short(self) -> None:
        self._refused([self._long()], lambda files: files.short_write(100, where=".jsonl"))

    def _do_shortlf(self) -> None:
        self._refused([self._long()], lambda files: files.short_write(_lines, where=".jsonl"))

    def _do_full(self) -> None:
        self._refused(
            [self._long()], lambda files: files.fail("write_at", code=errno.ENOSPC, where=".jsonl")
        )

    def _do_shortfill(self) -> None:
        """Appends until one makes the file longer; from then on its size is no whole step."""
        cut: list[int] = []

        def size(data: bytes) -> int:
            taken = (_lines(data) + 1 + len(data)) // 2
            cut.append(len(data) - taken)
            return taken

        self._opened()
        while not any(cut):
            if len(cut) > self.options.preallocate // 100:
                raise PlanFailure("no write had filler behind its events")
            self.files.short_write(size, then=None, where=".jsonl")
            self._append([self._draft()])

    def _do_failsync(self) -> None:
        self._sync_fails("keep")

    def _do_dropsync(self) -> None:
        self._sync_fails("drop")

    def _do_failcut(self) -> None:
        """The seal may be there or not; the handle takes no more."""
        if not self.options.preallocate:
            raise PlanFailure("there is no filler to be cut off")
        self._append([self._draft()])
        while self._filler() < _SEAL_BYTES:
            self._append([self._draft()])
        self.files.fail("truncate", where=".jsonl")
        try:
            self.engine.rotate()
        except SessionFailedError:
            self._give_up(self.engine)
        else:
            raise PlanFailure("the filler was not cut off and the segment was sealed")

    def _do_grown(self) -> None:
        """Only its size tells: what was written behind the end is filler, as a writer makes it."""
        self._append([self._draft()])
        path, data = segments_in(self.files.tree())[-1]
        fd = self.files.open(path, write=True)
        self.files.write_at(fd, FILLER * SECTOR, len(data))
        self.files.close(fd)
        before = len(self.moment.issued)
        draft = self._draft()
        self._issue([draft])
        try:
            self.engine.append(*draft)
        except FencedError:
            self._withdraw(before)
            self._give_up(self.engine)
        else:
            raise PlanFailure("the segment had grown by itself and the append returned")

    def _do_stale(self) -> None:
        """The open must give way, since what the writer was told is durable has to stay; the writer
        goes on. With filler the file is as long as before."""
        self._append([self._draft()])
        writer, scheduler = self.engine, self.scheduler
        draft = self._draft()

        def write() -> None:
            self._issue([draft])
            writer.append(*draft)
            self._acknowledge_all()

        self.files.lose_locks()
        self.files.meanwhile("create", write, where=".jsonl.tmp")
        self.engine = None
        try:
            self._opened()
        except FencedError:
            pass
        else:
            raise PlanFailure("a writer was at work and the open returned")
        finally:
            if self.engine is not None:
                self.engine.forget()
            self.engine, self.scheduler = writer, scheduler

    # Their parts

    def _filler(self) -> int:
        """How many bytes of it the newest segment has."""
        data = segments_in(self.files.tree())[-1][1]
        return len(data) - len(data.rstrip(FILLER))

    def _apply(self, state: dict[str, Any], event: Event) -> dict[str, Any]:
        self._crcs[event.seq] = event.crc
        return fold(state, event)

    def _opened(self) -> Engine:
        if self.engine is None:
            self.scheduler = InlineScheduler()
            self._mark(unsettled=unsettled_in(self.files.tree(), self.moment.unsettled))
            self.engine = self._open_with(
                self.files,
                self.options,
                apply=self._apply,
                clock=self._clock,
                scheduler=self.scheduler,
            )
            self._adopt(self.engine)
        return self.engine

    def _adopt(self, engine: Engine) -> None:
        """What an open for writing finds is proven anew: acknowledged. The rest is gone."""
        last = engine.last_seq
        moment = self.moment
        if not (moment.acked <= last <= len(moment.issued)) or last not in moment.ends:
            raise PlanFailure(f"open found {last} events; {moment.acked} were acknowledged")
        if engine.state != moment.states[last]:
            raise PlanFailure(f"open made the state {engine.state}, not {moment.states[last]}")
        self._withdraw(last)
        self._acknowledge_all()

    def _draft(self, size: int = 40) -> Fact:
        self._made += 1
        return "counted", {"n": self._made, "text": "x\u2028" + "y" * size}

    def _append(self, drafts: list[Fact]) -> None:
        engine = self._opened()
        self._issue(drafts)
        self._send(engine, drafts)
        self._acknowledge_all()

    def _send(self, engine: Engine, drafts: list[Fact]) -> None:
        if len(drafts) == 1:
            engine.append(*drafts[0])
        else:
            engine.append_many(drafts)

    def _torn(self, drafts: list[Fact]) -> None:
        """Cut in the middle of the batch's last but one line, or of its only one."""
        engine = self._opened()
        self._issue(drafts)
        size = 130 * len(drafts)
        self.files.kill_write(size * 2 // 3, where=".jsonl")
        try:
            self._send(engine, drafts)
        except Killed:
            self._died()
        else:
            raise PlanFailure("the process did not die in the write")

    def _long(self) -> Fact:
        """An event that is longer than the next one, so that what was not cut off would show."""
        return self._draft(size=90)

    def _refused(self, drafts: list[Fact], plant: Callable[[SimFiles], Any]) -> None:
        """An append that the disk does not take: it is cut back and the handle lives on."""
        engine = self._opened()
        before = len(self.moment.issued)
        self._issue(drafts)
        plant(self.files)
        try:
            self._send(engine, drafts)
        except SessionFailedError as error:
            raise PlanFailure(f"a full disk failed the handle: {error}") from error
        except StorageError:
            self.files.faults.clear()
            self._withdraw(before)
            if engine.last_seq != before:
                raise PlanFailure(f"last_seq is {engine.last_seq} after a refused append") from None
            return
        raise PlanFailure("the disk was full and the append returned")

    def _sync_fails(self, pages: str) -> None:
        """The outcome is unknown, and the handle takes no more."""
        engine = self._opened()
        draft = self._draft()
        self._issue([draft])
        self.files.fail_sync(pages=pages, where=".jsonl")
        try:
            engine.append(*draft)
        except (SessionFailedError, StorageError):
            pass
        else:
            raise PlanFailure("the sync failed and the append returned")
        try:
            engine.append(*draft)
        except DurasessError:
            pass
        else:
            raise PlanFailure("a failed handle took another event")
        self._give_up(engine)

    def _give_up(self, engine: Engine) -> None:
        try:
            engine.close()
        except DurasessError:
            pass
        self.engine = None
        self.files.faults.clear()
        self._expect_no_descriptors()

    def _died(self) -> None:
        self.files.faults.clear()
        self.files.die()
        if self.engine is not None:
            self.engine.forget()
        self.engine = None

    def _expect_no_descriptors(self) -> None:
        if self.files.descriptors:
            left = sorted(item.path for item in self.files.descriptors.values())
            raise PlanFailure(f"closed, and still open: {left}")

    # Marks

    def _mark(self, **changes: Any) -> None:
        self.moment = self.moment._replace(**changes)
        self.files.mark(self.moment)

    def _issue(self, drafts: list[Fact]) -> None:
        moment = self.moment
        states = list(moment.states)
        for seq, (type_, data) in enumerate(drafts, len(moment.issued) + 1):
            states.append(_folded(states[-1], seq, type_, data))
        issued = (*moment.issued, *drafts)
        self._mark(issued=issued, ends=(*moment.ends, len(issued)), states=tuple(states))

    def _withdraw(self, last: int) -> None:
        """Events after `last` are known not to be there: from here on they must not come back."""
        moment = self.moment
        if last == len(moment.issued):
            return
        self._mark(
            issued=moment.issued[:last],
            ends=tuple(end for end in moment.ends if end <= last),
            states=moment.states[: last + 1],
            version=moment.version + 1,
        )

    def _acknowledge_all(self) -> None:
        count = len(self.moment.issued)
        receipt = Receipt(paths.base(SESSION), count, self._crcs[count]) if count else None
        self._mark(acked=count, receipt=receipt)


def _lines(data: bytes) -> int:
    """How much of a write takes all of its lines but the last line feed."""
    return data.rindex(b"\n")


def segments_in(tree: Tree) -> list[tuple[str, bytes]]:
    """The segments of the session with their bytes."""
    return [
        (path, data)
        for path, data in tree.items()
        if data is not None and path.startswith(SESSION + "/") and kind_of(path) == "segment"
    ]


def unsettled_in(tree: Tree, known: Unsettled) -> Unsettled:
    """What is known, and the segments of this tree that have no seal."""
    found = [item for item in segments_in(tree) if not is_sealed(item[1])]
    return (*known, *(item for item in found if item not in known))


def is_sealed(data: bytes) -> bool:
    """Whether a segment ends with a seal: filler behind it makes it one that must be replaced."""
    last_line = data[data.rfind(b"\n", 0, -1) + 1 :]
    return last_line.startswith(b'{"seal":') and last_line.endswith(b"}\n")


@functools.lru_cache(maxsize=10_000)
def kind_of(path: str) -> str:
    """What a file or directory is, as a role in a call site: "segment", "meta.tmp", "session" …"""
    if path in (STORE, SESSION):
        return "store" if path == STORE else "session"
    directory, name = os.path.split(path)
    if directory == STORE:
        return "building"
    if os.path.basename(directory) == paths.QUARANTINE:
        return "quarantined" + (".tmp" if name.endswith(paths.TMP) else "")
    if name == paths.COMPRESSING:
        return "segment.tmp"
    if name.endswith(paths.TMP):
        return paths.parse(name[: -len(paths.TMP)]).kind + ".tmp"
    return paths.parse(name).kind


def grain_of(path: str) -> str:
    """How finely the contents of a file are enumerated."""
    kind = kind_of(path)
    if kind == "lock":
        return "hint"
    if kind == "owner" or kind.endswith(".tmp"):
        return "coarse"
    return "fine"


_HELPERS = frozenset(["durasess.engine.files", "durasess.engine.publishing"])


def call_site(kind: str, path: str) -> str:
    """Who in the engine made a call, and on what: `log.sync < log.seal: sync segment`.

    The function that asked, its line left out so that edits don't rename a site, and its caller;
    generic helpers are passed over.
    """
    frame = sys._getframe(1)
    names: list[str] = []
    while frame is not None and len(names) < 2:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("durasess.") and module not in _HELPERS:
            names.append(f"{module.rpartition('.')[2]}.{frame.f_code.co_name}")
        frame = frame.f_back
    return f"{' < '.join(names)}: {kind} {kind_of(path)}"
