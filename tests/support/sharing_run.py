"""Runs a plan of several writers of one session under one schedule, and keeps what they were told.

A plan is written `OPTIONS:STEPS|STEPS[|STEPS][@TROUBLE]`, for example
`seg400:append,many2|append,rotate@kill1.4+`. Steps, one list for each writer:

    append  manyN  big                one event; a batch; one of several sectors
    keepN                             N appends, one after the other, in one turn
    rotate  snapshot  prune  refresh
    close  open  reopen               (any other step opens a closed handle again)

Options are those of crash_driver.py and

    new     there is no event yet (else writer 0 appended one, and its segment is open)
    void    there is no session yet; nobody has it open

All handles are open when the schedule begins, but for `void` and where the first step is `open`.
Troubles name a writer and count its own calls from there on:

    killW.N          it dies just before its Nth call that changes the disk
    halfW.N  mostW.N it dies in the middle of its Nth write: half of it, all but one byte, is there
    failsyncW.N  dropsyncW.N          its Nth sync fails; the pages stay visible, or are dropped
    faildirW.N                        its Nth sync of a directory fails
    shortW.N  fullW.N                 its Nth write takes half, or nothing: then the disk is full
    olderW.N                          before it asks for a lock the Nth time, and nobody has one,
                                      somebody puts back the log as it was one event ago

With a `+` behind it a writer that died comes back in a new process and goes on with its next step.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import itertools
import re
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from unittest import mock

from durasess.engine import engine as engine_module
from durasess.engine import lock, paths, publishing
from durasess.engine.admission import Append
from durasess.engine.engine import Engine
from durasess.engine.receipt import Receipt
from durasess.engine.scheduler import InlineScheduler
from durasess.engine.tickets import Ticket
from durasess.engine.types import Draft
from durasess.errors import DurasessError, FencedError, SessionFailedError, StorageError
from tests.support.crash_driver import (
    EMPTY,
    SESSION,
    Fact,
    Options,
    Plan,
    fold,
    make_clock,
    open_engine,
    options_of,
    pinned_identity,
    segments_in,
)
from tests.support.interleave import HISTORY, Baton, Process, Schedule, Stopped, Threads
from tests.support.sim_files import Fault, Killed, SimFiles

TROUBLES = (
    "kill",
    "half",
    "most",
    "failsync",
    "dropsync",
    "faildir",
    "short",
    "full",
    "older",
)
DEADLY = frozenset(["kill", "half", "most"])
_TROUBLE = re.compile(r"([a-z]+)([0-9])\.([0-9]+)(\+?)")
_CRC = re.compile(rb'"crc":"([0-9a-f]{8})"')
_CLOCK_STEP_NS = 10**15
_START_NS = 1_790_000_000_000_000_000


class Trouble(NamedTuple):
    """What goes wrong, once, for which writer and at which of its calls."""

    kind: str
    writer: int
    nth: int
    returns: bool = False

    def __str__(self) -> str:
        return f"{self.kind}{self.writer}.{self.nth}{'+' if self.returns else ''}"


class Case(NamedTuple):
    """A plan for each writer, and what goes wrong."""

    options: Plan
    plans: tuple[Plan, ...]
    trouble: Trouble | None = None

    def __str__(self) -> str:
        text = "|".join(",".join(plan) for plan in self.plans)
        options = ",".join(self.options) + ":" if self.options else ""
        return options + text + (f"@{self.trouble}" if self.trouble else "")


def parse_case(text: str) -> Case:
    """A case as it is written on a command line."""
    text, _, after = text.partition("@")
    options, colon, plans = text.rpartition(":")
    match = _TROUBLE.fullmatch(after)
    if after and (match is None or match[1] not in TROUBLES):
        raise ValueError(f"no trouble is called {after!r}")
    trouble = Trouble(match[1], int(match[2]), int(match[3]), bool(match[4])) if match else None
    return Case(
        tuple(options.split(",")) if colon else (),
        tuple(tuple(plan.split(",")) for plan in plans.split("|")),
        trouble,
    )


def parse_schedule(text: str) -> dict[int, int]:
    """`12>1,40>0`: at decision 12 writer 1 goes on, at 40 writer 0."""
    pairs = (part.split(">") for part in text.split(",") if part)
    return {int(number): int(writer) for number, writer in pairs}


def schedule_line(schedule: Schedule) -> str:
    """The same as text."""
    return ",".join(f"{number}>{writer}" for number, writer in sorted(schedule.items()))


@dataclass
class Call:
    """One call of an append: what it was to write, when it began and was answered (0: never), and
    what was answered: "done", "refused" (nothing was kept) or "" (nobody knows)."""

    writer: int
    facts: list[Fact]
    began: int
    answered: int = 0
    outcome: str = ""
    receipts: list[Receipt] = field(default_factory=list)


class Seen(NamedTuple):
    """What a handle showed between two steps. `known` events had been acknowledged to anybody when
    the step before that began, and that step was `step`."""

    writer: int
    step: str
    known: int
    last_seq: int
    state: Any


class Unexpected(Exception):
    """A call raised what nothing in the plan explains."""


class Patience(InlineScheduler):
    """Says so when a call would wait for ever. `coming` makes the tickets that are handed over
    while a turn is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.coming: Iterator[Ticket] | None = None

    def expects_more(self) -> bool:
        """Until nobody came."""
        return self.coming is not None

    def more(self) -> list[Ticket]:
        """The next one."""
        tickets = list(itertools.islice(self.coming or (), 1))
        if not tickets:
            self.coming = None
        return tickets

    def wait(self, ticket: Ticket) -> Any:
        """All there is to be done is done here, so what is not settled then never will be."""
        while not ticket.is_settled and self.run_background():
            pass
        if not ticket.is_settled:
            raise Unexpected("it waits for ever: nobody is left who could settle the ticket")
        return ticket.wait()


@contextlib.contextmanager
def pinned() -> Iterator[None]:
    """Nothing in a run depends on the runs before it, nor on the order of its processes."""
    with (
        pinned_identity(),
        mock.patch.object(engine_module, "_COUNT", itertools.repeat(0)),
        mock.patch.object(lock, "acquire_turn", functools.partial(lock.acquire_turn, pause=_pause)),
    ):
        yield


_RUNNING: list[Run] = []


def _pause(seconds: float) -> None:
    run = _RUNNING[-1]
    run.writers[run.baton.current].disk.pause()


class Writer:
    """One process with one handle, and its plan."""

    def __init__(self, run: Run, number: int) -> None:
        self.run = run
        self.number = number
        self.engine: Engine | None = None
        self.disk = Process(run.disk, run.baton, number)
        self.has_failed = False
        self._lives = itertools.count()
        self._made = 0
        self._new_life()

    def _new_life(self) -> None:
        life = self.number + 8 * next(self._lives)
        self._clock = make_clock(_START_NS + life * _CLOCK_STEP_NS)

    def open(self) -> Engine:
        """The handle, opened when it was closed."""
        if self.engine is None:
            self.engine = open_engine(
                self.disk,
                self.run.options,
                mode="shared",
                clock=self._clock,
                scheduler=Patience(),
            )
        return self.engine

    def work(self) -> None:
        """All steps. What a killed process leaves, nobody touches."""
        steps = iter(self.run.case.plans[self.number])
        while True:
            try:
                for step in steps:
                    self._step(step)
                return
            except Killed:
                self.let_go()
                trouble = self.run.case.trouble
                if trouble is None or not trouble.returns:
                    return
                self.disk = Process(self.run.disk, self.run.baton, self.number)
                self._new_life()
            except Stopped:
                self.let_go()
                raise

    def let_go(self) -> None:
        """Everything of this process goes, as when it is killed."""
        self.disk.die()
        if self.engine is not None:
            self.engine.forget()
            self.engine = None

    def _step(self, step: str) -> None:
        known = self.run.acknowledged()
        try:
            getattr(self, f"_do_{step.rstrip('0123456789')}")(step)
        except (StorageError, SessionFailedError) as error:
            if not self._is_explained(error):
                raise Unexpected(f"writer {self.number}, {step}: {error!r}") from error
        except DurasessError as error:
            if not isinstance(error, FencedError) or not self.run.removed:
                raise Unexpected(f"writer {self.number}, {step}: {error!r}") from error
            self.let_go()
            self.disk = Process(self.run.disk, self.run.baton, self.number)
        if self.engine is not None:
            seen = Seen(self.number, step, known, self.engine.last_seq, self.engine.state)
            self.run.seen.append(seen)

    def _is_explained(self, error: DurasessError) -> bool:
        """A trouble of this writer's explains what it is told; a handle that failed is closed."""
        trouble = self.run.case.trouble
        if trouble is None or trouble.writer != self.number or trouble.kind in DEADLY:
            return False
        if isinstance(error, SessionFailedError):
            with contextlib.suppress(DurasessError):
                self._do_close("close")
        self.has_failed = True
        return True

    def draft(self, size: int = 0) -> Fact:
        """An event that no other is equal to; its line is shorter than a seal, so that one written
        over a seal shows."""
        self._made += 1
        data: dict[str, Any] = {"w": self.number, "n": self._made}
        if size:
            data["text"] = "y" * size
        return "e", data

    def append(self, facts: list[Fact]) -> None:
        """One call of an append; what is answered is written down."""
        engine = self.open()
        is_behind = engine in self.run.behind
        call = self.run.begin(self.number, facts)
        try:
            if len(facts) == 1:
                call.receipts = [engine.append(*facts[0])]
            else:
                call.receipts = engine.append_many(facts)
        except StorageError:
            self.run.answer(call, "refused")
            raise
        except DurasessError:
            self.run.answer(call, "")
            raise
        self.run.answer(call, "done")
        if is_behind:
            raise Unexpected(
                f"writer {self.number} was told of seq {self.run.removed}, which is gone, and went "
                f"on: {call}"
            )

    def _do_append(self, step: str) -> None:
        self.append([self.draft()])

    def _do_many(self, step: str) -> None:
        self.append([self.draft() for _ in range(int(step[4:]))])

    def _do_big(self, step: str) -> None:
        self.append([self.draft(1100)])

    def _do_keep(self, step: str) -> None:
        """Each append begins when the one before it was answered; only the first of them, within
        which the others are called here, returns behind them."""
        engine = self.open()
        scheduler = engine._scheduler
        assert isinstance(scheduler, Patience)
        # Half of a long one shows when a short one is written over it.
        first, *others = self.draft(), *[self.draft(400) for _ in range(int(step[4:]) - 1)]
        tickets: list[Ticket] = []
        with contextlib.closing(self._coming(engine, others, tickets)) as coming:
            scheduler.coming = coming
            self.append([first])
        # The first was answered before one of the others failed.
        for ticket in tickets:
            ticket.outcome()

    def _coming(
        self, engine: Engine, facts: list[Fact], tickets: list[Ticket]
    ) -> Generator[Ticket]:
        for fact in facts:
            call = self.run.begin(self.number, [fact])
            ticket = Ticket(Append([engine._drafting.prepared(Draft(*fact))], durable=True))
            tickets.append(ticket)
            try:
                yield ticket
            finally:
                if ticket.is_settled and not self.disk.is_dead:
                    call.receipts = [] if ticket.error else ticket.result
                    refused = "refused" if isinstance(ticket.error, StorageError) else ""
                    self.run.answer(call, refused if ticket.error else "done")
            if not ticket.is_settled:
                raise Unexpected(f"writer {self.number} was not answered in its turn: {call}")

    def _do_rotate(self, step: str) -> None:
        self.open().rotate()

    def _do_snapshot(self, step: str) -> None:
        self.open().snapshot()

    def _do_prune(self, step: str) -> None:
        self.open().prune()

    def _do_refresh(self, step: str) -> None:
        self.open().refresh()

    def _do_open(self, step: str) -> None:
        self.open()

    def _do_close(self, step: str) -> None:
        if self.engine is None:
            return
        try:
            self.engine.close()
        except DurasessError as error:
            left = sorted(item.path for item in self.disk.descriptors.values())
            self.let_go()
            if left:
                raise Unexpected(
                    f"writer {self.number}: close raised {error!r} and left open: {left}"
                ) from error
            raise
        self.engine = None

    def _do_reopen(self, step: str) -> None:
        self._do_close(step)
        self.open()


class Run:
    """One run. `calls` are all appends; the disk's log has a mark with the time at the beginning
    and the answer of each; `began_at` is where in it the schedule began."""

    def __init__(self, case: Case, schedule: Schedule, threads: Threads) -> None:
        self.case = case
        self.schedule = schedule
        self.calls: list[Call] = []
        self.seen: list[Seen] = []
        self.disk = SimFiles.from_tree(EMPTY)
        self.baton = Baton(len(case.plans), schedule)
        special = {"new", "void"}
        self.options: Options = options_of(
            tuple(option for option in case.options if option not in special)
        )[0]
        self.fault: Fault | None = None
        self.last_state: Any = None
        self.removed = 0
        self.behind: list[Engine] = []
        self._time = 0
        self.writers = [Writer(self, number) for number in range(len(case.plans))]
        _RUNNING[:] = [self]
        self._start()
        self.began_at = len(self.disk.log)
        self._plant()
        self.baton.run([writer.work for writer in self.writers], threads)
        for writer in self.writers:
            writer.disk.no_more_faults()

    @property
    def trouble_came(self) -> bool:
        """Whether there were enough calls for it."""
        return self.fault is None or self.fault.seen >= self.fault.nth

    def let_go(self) -> None:
        """Nothing of this run touches a disk any more."""
        for writer in self.writers:
            writer.let_go()

    def begin(self, writer: int, facts: list[Fact]) -> Call:
        """An append is called."""
        call = Call(writer, facts, self._tick(writer, changes=False))
        self.calls.append(call)
        return call

    def answer(self, call: Call, outcome: str) -> None:
        """It returned, or raised."""
        call.outcome = outcome
        call.answered = self._tick(call.writer, changes=True)

    def acknowledged(self) -> int:
        """The highest seq that anybody was told."""
        return max((r.seq for call in self.calls for r in call.receipts), default=0)

    def _tick(self, writer: int, *, changes: bool) -> int:
        self._time += 1
        self.disk.mark(self._time)
        if self.baton.running:
            self.baton.note(writer, HISTORY, changes)
        return self._time

    def _start(self) -> None:
        options = self.case.options
        if "void" in options:
            return
        for writer, plan in zip(self.writers, self.case.plans, strict=True):
            if plan[0] != "open" or writer.number == 0:
                writer.open()
            if writer.number == 0 and "new" not in options:
                writer.append([writer.draft()])
        if self.case.plans[0][0] == "open":
            self.writers[0]._do_close("close")

    def _plant(self) -> None:
        trouble = self.case.trouble
        if trouble is None:
            return
        disk, nth = self.writers[trouble.writer].disk, trouble.nth
        plant: dict[str, Callable[[], Fault]] = {
            "kill": lambda: disk.kill_before(nth),
            "half": lambda: _kill_write(disk, nth, lambda data: len(data) // 2),
            "most": lambda: _kill_write(disk, nth, lambda data: len(data) - 1),
            "failsync": lambda: disk.fail_sync(nth=nth, pages="keep"),
            "dropsync": lambda: disk.fail_sync(nth=nth, pages="drop"),
            "faildir": lambda: disk.fail("sync_dir", nth=nth),
            "short": lambda: disk.short_write(lambda data: len(data) // 2, nth=nth),
            "full": lambda: disk.fail("write_at", nth=nth, code=errno.ENOSPC),
            "older": lambda: _meanwhile(disk, nth, self._put_back),
        }
        self.fault = plant[trouble.kind]()

    def _put_back(self) -> None:
        """What a backup does that was made one event ago; the anchor is as old."""
        files = SimFiles()
        files.join(self.disk)
        path, data = segments_in(files.tree())[-1]
        lines = data.splitlines(keepends=True)
        turn = files.stat(paths.join(SESSION, paths.LOCK)).inode[1]
        if files.nodes[turn].locks or len(lines) < 2 or not lines[-1].startswith(b'{"seq":'):
            return
        anchor = lock.read_anchor(files, SESSION, paths.base(SESSION))
        if anchor is None or anchor.phase != lock.IDLE:
            return
        self.removed = anchor.seq
        open_ones = [writer.engine for writer in self.writers if writer.engine is not None]
        self.behind = [engine for engine in open_ones if engine.last_seq >= anchor.seq]
        publishing.write_tmp(files, path + paths.TMP, b"".join(lines[:-1]))
        files.replace(path + paths.TMP, path)
        files.sync_dir(SESSION)
        chain = _CRC.search(lines[-2])
        assert chain is not None
        older = lock.Anchor(anchor.session_id, anchor.segment, anchor.seq - 1, chain[1].decode())
        fd = files.open(paths.join(SESSION, paths.LOCK), write=True)
        lock.write_anchor(files, fd, older)
        files.close(fd)


def _meanwhile(disk: Process, nth: int, act: Callable[[], None]) -> Fault:
    fault = Fault("lock", nth=nth, code=None, meanwhile=act)
    disk.faults.append(fault)
    return fault


def _kill_write(disk: Process, nth: int, size: Callable[[bytes], int]) -> Fault:
    fault = Fault("write_at", nth=nth, code=None, size=size, kill=True)
    disk.faults.append(fault)
    return fault


def folded(facts: list[Fact]) -> list[Any]:
    """The state after each number of these events."""
    states: list[Any] = [{}]
    for seq, (type_, data) in enumerate(facts, 1):
        states.append(fold(states[-1], _Numbered(seq, type_, data)))
    return states


class _Numbered(NamedTuple):
    seq: int
    type: str
    data: Any
