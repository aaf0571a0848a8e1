"""Several processes on one simulated disk, in threads of which one runs at a time.

A `Baton` says which. It may go to another process before every call that touches the disk: such a
point is a decision, and a schedule is the decisions that differ from the default, which is to go
on until the plan ends or a lock has to be waited for. So a run is the same whenever it is repeated.
Knows nothing of the engine.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from tests.support.sim_files import Fault, SimFiles, may_lock

MAX_DECISIONS = 3_000
"""More than any plan comes to: who makes so many calls goes round in circles."""

HISTORY = "history"
"""The object that calls and their answers touch: which of two calls was answered before the other
began is part of what a schedule did."""

Schedule = Mapping[int, int]
"""Number of a decision → the process that goes on there."""


class Access(NamedTuple):
    """One process's touch of one object: the content of a file, a name, a directory, a lock."""

    process: int
    object: str
    changes: bool


class Decision(NamedTuple):
    """A point where another process could go on. `others` could have; `forced`: the one that ran
    could not, because it had ended or waited for the object `awaited`. `at` is where in the
    accesses it was."""

    process: int
    chosen: int
    others: tuple[int, ...]
    forced: bool
    at: int
    awaited: str


class Stopped(BaseException):
    """Raised in every process of a run that was given up."""


class Threads:
    """One thread for each process, kept from run to run. `turns[i]` is free when thread i may go
    on, also from one run to the next."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.turns = [threading.Lock() for _ in range(count)]
        self.jobs: list[Callable[[], None] | None] = [None] * count
        self.done = threading.Lock()
        self.done.acquire()
        for turn in self.turns:
            turn.acquire()
        for index in range(count):
            threading.Thread(target=self._loop, args=(index,), daemon=True).start()

    def end(self) -> None:
        """Let the threads end."""
        self.jobs = [None] * self.count
        for turn in self.turns:
            turn.release()

    def _loop(self, index: int) -> None:
        while True:
            self.turns[index].acquire()
            job = self.jobs[index]
            if job is None:
                return
            job()


class Baton:
    """Who may run. `problem` says why a run was given up."""

    def __init__(self, count: int, schedule: Schedule) -> None:
        self.count = count
        self.decisions: list[Decision] = []
        self.accesses: list[Access] = []
        self.running = False
        self.current = 0
        self.problem = ""
        self._schedule = schedule
        self._threads: Threads
        self._finished = [False] * count
        self._waits: dict[int, Callable[[], bool]] = {}
        self._stopped = False

    def run(self, jobs: Sequence[Callable[[], None]], threads: Threads) -> None:
        """Run all jobs to their ends."""
        self._threads = threads
        threads.jobs[:] = [self._job(index, job) for index, job in enumerate(jobs)]
        self.running = True
        self.current = self._decide(0, tuple(range(1, self.count)), forced=True, default=0)
        threads.turns[self.current].release()
        threads.done.acquire()
        self.running = False

    def step(self, process: int) -> None:
        """A call of this process comes next, or one of others before it."""
        if self._stopped:
            raise Stopped
        if len(self.decisions) > MAX_DECISIONS:
            self._give_up(f"{len(self.decisions)} calls and no end")
        target = self._decide(process, self._able(process), forced=False, default=process)
        if target != process:
            self._switch(process, target)

    def wait(self, process: int, object_: str, is_free: Callable[[], bool]) -> None:
        """This process cannot go on before `is_free`, which is up to who holds this object."""
        self._waits[process] = is_free
        others = self._able(process)
        if not others:
            self._give_up(f"deadlock: {sorted(self._waits)} wait and nobody runs")
        default = self._next(process, others)
        target = self._decide(process, others, forced=True, default=default, awaited=object_)
        self._switch(process, target)
        del self._waits[process]

    def note(self, process: int, object_: str, changes: bool) -> None:
        """Remember an access."""
        self.accesses.append(Access(process, object_, changes))

    def _job(self, index: int, job: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                job()
            except Stopped:
                pass
            except BaseException as error:
                self.problem = self.problem or f"process {index} ended with {error!r}"
            self._finish(index)

        return run

    def _finish(self, process: int) -> None:
        self._finished[process] = True
        others = self._able(process)
        left = [other for other in range(self.count) if not self._finished[other]]
        if not left:
            self._threads.done.release()
            return
        if not others and not self._stopped:
            self._stop(f"deadlock: {left} wait and nobody runs")
        if self._stopped:
            target = left[0]
        else:
            default = self._next(process, others)
            target = self._decide(process, others, forced=True, default=default)
        self.current = target
        self._threads.turns[target].release()

    def _decide(
        self,
        process: int,
        others: tuple[int, ...],
        *,
        forced: bool,
        default: int,
        awaited: str = "",
    ) -> int:
        number = len(self.decisions)
        chosen = self._schedule.get(number, default)
        at = len(self.accesses)
        self.decisions.append(Decision(process, chosen, others, forced, at, awaited))
        if chosen != default and chosen not in others:
            self._stop(f"the schedule names process {chosen} at {number}, which cannot go on")
            return default
        return chosen

    def _able(self, process: int) -> tuple[int, ...]:
        """The others that could go on."""
        waits = self._waits
        return tuple(
            other
            for other in range(self.count)
            if other != process
            and not self._finished[other]
            and (other not in waits or waits[other]())
        )

    def _next(self, process: int, able: tuple[int, ...]) -> int:
        return next((other for other in able if other > process), able[0])

    def _switch(self, process: int, target: int) -> None:
        turns = self._threads.turns
        self.current = target
        turns[target].release()
        turns[process].acquire()
        if self._stopped:
            raise Stopped

    def _give_up(self, problem: str) -> None:
        self._stop(problem)
        raise Stopped

    def _stop(self, problem: str) -> None:
        self.problem = self.problem or problem
        self._stopped = True


_NEVER = Fault("")
"""Hits no call; with it there is always a fault to be looked for."""

_ACCESSES: dict[str, tuple[tuple[str, bool], ...]] = {
    "read_at": (("content ", False),),
    "size": (("content ", False),),
    "fstat": (("content ", False),),
    "write_at": (("content ", True),),
    "truncate": (("content ", True),),
    "sync": (("content ", True),),
    "open": (("name ", False),),
    "leads_to": (("name ", False),),
    "stat": (("name ", False), ("content ", False)),
    "create": (("name ", True),),
    "mkdir": (("name ", True),),
    "unlink": (("name ", True),),
    "rmdir": (("name ", True),),
    "replace": (("name ", True), ("content ", True)),
    "listdir": (("directory ", False),),
    "sync_dir": (("directory ", True),),
    "lock": (),
    "unlock": (("lock ", True),),
    "close": (("lock ", True),),
}
"""What a call touches at its path, and whether it changes it. A sync is a change: which writes come
before it decides what a power cut leaves. `lock` is noted when it is answered."""

_NAMES = frozenset(["create", "mkdir", "unlink", "rmdir", "replace"])


class Process(SimFiles):
    """The disk as one process has it."""

    def __init__(self, disk: SimFiles, baton: Baton, number: int) -> None:
        super().__init__()
        self.join(disk)
        self.baton = baton
        self.number = number
        self.refused: tuple[str, Mapping[int, bool], bool] | None = None
        self.no_more_faults()

    def no_more_faults(self) -> None:
        """From here on everything works."""
        self.faults = [_NEVER]

    def _fault(self, kind: str, path: str) -> Fault | None:
        if not self._killed and self.baton.running:
            self.baton.step(self.number)
            for what, changes in _ACCESSES[kind]:
                self.baton.note(self.number, what + path, changes)
            if kind in _NAMES:
                self.baton.note(self.number, "directory " + path.rpartition("/")[0], True)
        return super()._fault(kind, path)

    def replace(self, source: str, target: str) -> None:
        """The target is touched as well."""
        super().replace(source, target)
        if self.baton.running:
            self.baton.note(self.number, "name " + target, True)
            self.baton.note(self.number, "content " + target, True)
            self.baton.note(self.number, "directory " + target.rpartition("/")[0], True)

    def lock(self, fd: int, *, shared: bool = False, wait: bool = False) -> bool:
        """The order among those that wait is nothing; who gets the lock when is."""
        taken = super().lock(fd, shared=shared, wait=wait)
        descriptor = self._descriptor(fd)
        if not taken:
            self.refused = (descriptor.path, descriptor.node.locks, shared)
        if self.baton.running:
            self.baton.note(self.number, "lock " + descriptor.path, taken)
        return taken

    def waiting(self, path: str, is_free: Callable[[], bool]) -> None:
        """Others go on."""
        self._wait(path, is_free)

    def pause(self) -> None:
        """Sleep until the lock that was refused last is free: to look again sooner is to be refused
        again."""
        assert self.refused is not None
        path, locks, shared = self.refused
        self._wait(path, lambda: may_lock(locks, shared))

    def _wait(self, path: str, is_free: Callable[[], bool]) -> None:
        if self.baton.running:
            self.baton.wait(self.number, "lock " + path, is_free)
        elif not is_free():
            raise AssertionError(f"{path} is locked by a process that does not run any more")

    def close(self, fd: int) -> None:
        """Another process may come before it: closing gives a lock up."""
        if fd in self._dead:
            return
        descriptor = self._descriptor(fd)
        self._fault("close", descriptor.path)
        descriptor.node.locks.pop(fd, None)
        del self.descriptors[fd]

    def die(self) -> None:
        """Its locks are free now."""
        if self.baton.running:
            for fd, descriptor in self.descriptors.items():
                if fd in descriptor.node.locks:
                    self.baton.note(self.number, "lock " + descriptor.path, True)
        super().die()

    @property
    def is_dead(self) -> bool:
        """Whether it was killed."""
        return self._killed


def conflicts(accesses: Sequence[Access], touched: Mapping[str, bool]) -> bool:
    """Whether these accesses may not change places with others; `touched` says of each object
    whether the others changed it."""
    return any(
        access.object in touched and (access.changes or touched[access.object])
        for access in accesses
    )


def order_of(accesses: Sequence[Access]) -> int:
    """A number that stands for what happened before what: two runs in which only the order of
    accesses differs that do not touch the same object, or only read it, have the same one."""
    counts: dict[int, int] = {}
    changed: dict[str, int] = {}
    read: dict[str, list[int]] = {}
    found = []
    for process, object_, changes in accesses:
        count = counts[process] = counts.get(process, 0) + 1
        event = count * 8 + process
        before = [changed.get(object_, 0)]
        if changes:
            before += sorted(read.pop(object_, ()))
            changed[object_] = event
        else:
            read.setdefault(object_, []).append(event)
        found.append((event % 8, count, *before))
    return hash(tuple(sorted(found)))
