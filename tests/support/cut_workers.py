"""Processes that write to sessions until they are stopped, and what they say of it.

A worker is forked from a process that has imported everything. It tells each step through a pipe,
one JSON line a write, so that a kill or a power cut leaves what was said whole:

    ["phase", WHAT]                             it opens, snapshots, rotates, prunes, closes
    ["begin", THREAD, NUMBER, SIZE]             it hands over call NUMBER, a batch of SIZE events
    ["acked", THREAD, NUMBER, FIRST, LAST, CRC] that call is durable
    ["body", CALL]   ["done", CALL]             a tool's body runs; its result is durable
    ["seen", SEQ]                               an open for writing found and proved so many
    ["failed", ERROR]                           and it goes on no more

Behind each stands when it was said, in nanoseconds of the clock that all processes share.
Calls of one thread are numbered 1, 2, 3 … and each is made when the one before has returned.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import logging
import os
import random
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from durasess import DurasessError, Engine, Event, Store
from durasess.engine.files import RealFiles

PATIENCE_S = 3600.0
"""For a turn: a lab that is stopped for a while is no reason to withdraw a call."""

LONG_EVERY = 23
"""One event in so many is longer than a page."""

Said = list[Any]


def fold(state: dict[str, Any], event: Event) -> dict[str, Any]:
    """How many events, a checksum over their order, and for each thread its last call with how much
    of it is there. `wrong` has what no order of whole calls can give."""
    if event.type != "called":
        return {**state, "count": state["count"] + 1}
    thread, number, size, index = (event.data[name] for name in ("thread", "call", "of", "index"))
    before = state["threads"].get(thread, [0, 1, 1])
    expected = [before[0], before[1] + 1] if before[1] < before[2] else [before[0] + 1, 1]
    wrong = list(state["wrong"])
    unfinished = state["unfinished"]
    if unfinished not in ("", thread):
        wrong.append(f"seq {event.seq} stands inside a batch of {unfinished}")
    if [number, index + 1] != expected:
        wrong.append(f"seq {event.seq} is {number}/{index} of {thread} behind {before}")
    return {
        "count": state["count"] + 1,
        "mixed": (state["mixed"] * 31 + event.seq * 7 + len(event.data["pad"])) % 1_000_003,
        "threads": {**state["threads"], thread: [number, index + 1, size]},
        "unfinished": thread if index + 1 < size else "",
        "wrong": wrong,
    }


def empty() -> dict[str, Any]:
    """The state before the first event."""
    return {"count": 0, "mixed": 0, "threads": {}, "unfinished": "", "wrong": []}


def opened(path: Path | str, **more: Any) -> Engine:
    """As workers and checks open a session: small segments, frequent snapshots."""
    settings: dict[str, Any] = {
        "segment_bytes": 12_000,
        "snapshot_every": 60,
        "lock_timeout": PATIENCE_S,
    }
    return Engine.open(path, initial=empty, apply=fold, **{**settings, **more})


def store_at(path: Path | str) -> Store:
    """The store in which agents work: small snapshots, large results out of line."""
    return Store(
        path,
        snapshot_every=30,
        blob_bytes=2000,
        resident_messages=5000,
        lock_timeout=PATIENCE_S,
    )


class Voice:
    """The writing end of a worker's pipe."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def __call__(self, *said: Any) -> None:
        os.write(self._fd, json.dumps([*said, time.monotonic_ns()]).encode() + b"\n")


class Job(NamedTuple):
    """What one worker does: `work` gets its voice. `breaks` is entered in the worker, for bugs that
    are planted there."""

    work: Callable[[Voice], None]
    breaks: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext


class Worker:
    """A forked process with a job, and all that it said."""

    def __init__(self, job: Job) -> None:
        self.said: list[Said] = []
        self._rest = b""
        self.pipe, child_end = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            _live(job, Voice(child_end))
        os.close(child_end)
        self.is_dead = False

    def hear(self) -> bool:
        """Take what it said, waiting for some of it; False when it will say nothing more."""
        chunk = os.read(self.pipe, 65536)
        *whole, self._rest = (self._rest + chunk).split(b"\n")
        self.said += map(json.loads, whole)
        return bool(chunk)

    def stop(self) -> None:
        """SIGKILL, and everything that it had still said."""
        if self.is_dead:
            return
        self.is_dead = True
        os.kill(self.pid, signal.SIGKILL)
        while self.hear():
            pass
        os.close(self.pipe)
        os.waitpid(self.pid, 0)

    @property
    def failure(self) -> str:
        """Why it went on no more; empty when it was stopped."""
        return next((one[1] for one in self.said if one[0] == "failed"), "")


def _live(job: Job, voice: Voice) -> None:
    """The life of a forked worker; it never returns into its parent's code."""
    try:
        # What the parent had blocked or handled is not the worker's.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _die_with_parent()
        # After a power cut every call fails, and each would be told of.
        logging.disable(logging.CRITICAL)
        with job.breaks():
            job.work(voice)
    except DurasessError as error:
        voice("failed", f"{type(error).__name__}: {error}"[:3000])
    except BaseException:
        voice("failed", traceback.format_exc()[-3000:])
    finally:
        os._exit(0)


def _die_with_parent() -> None:
    """Nobody would stop it otherwise."""
    set_death_signal = 1
    ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)


@contextlib.contextmanager
def syncs_left_out() -> Iterator[None]:
    """The planted bug: what should be synced is acknowledged all the same."""
    with mock.patch.object(RealFiles, "sync", lambda self, fd: None):
        yield


@contextlib.contextmanager
def names_not_synced() -> Iterator[None]:
    """Another: directories are never synced."""
    with mock.patch.object(RealFiles, "sync_dir", lambda self, path: None):
        yield


@contextlib.contextmanager
def turns_not_taken() -> Iterator[None]:
    """And one for writers that share: whoever asks for a lock is told that he has it."""
    with mock.patch.object(RealFiles, "lock", lambda self, fd, **how: True):
        yield


# What workers do


def call_data(thread: str, number: int, size: int, chance: random.Random) -> list[Any]:
    """The events of one call."""
    found = []
    for index in range(size):
        pad = 5000 if chance.randrange(LONG_EVERY) == 0 else chance.randrange(120)
        data = {"thread": thread, "call": number, "of": size, "index": index, "pad": "z" * pad}
        found.append(("called", data))
    return found


class Caller:
    """One thread that makes calls on a handle."""

    def __init__(self, engine: Engine, voice: Voice, name: str, chance: random.Random) -> None:
        self.engine = engine
        self.voice = voice
        self.name = name
        self.chance = chance
        self.number = 0

    def call(self, size: int, *, durable: bool = True) -> None:
        """One append of `size` events."""
        self.number += 1
        events = call_data(self.name, self.number, size, self.chance)
        self.voice("begin", self.name, self.number, size)
        receipts = self.engine.append_many(events, durable=durable)
        if durable:
            first, last = receipts[0], receipts[-1]
            self.voice("acked", self.name, self.number, first.seq, last.seq, last.crc)

    def step(self, *, may_prune: bool) -> None:
        """Something by chance."""
        what = self.chance.randrange(40)
        if what < 22:
            self.call(1)
        elif what < 30:
            self.call(self.chance.randint(2, 6))
        elif what < 34:
            self.call(1, durable=False)
        elif what < 36:
            self.phase("rotate")
        elif what < 38:
            self.phase("snapshot")
        elif may_prune and what == 38:
            self.phase("snapshot")
            self.phase("prune")
        else:
            self.phase("flush")

    def phase(self, name: str) -> None:
        """A call of the handle that appends nothing."""
        self.voice("phase", name)
        getattr(self.engine, name)()


def own(path: str, name: str, seed: str, **options: Any) -> Job:
    """One writer alone, which closes and opens now and then."""

    def work(voice: Voice) -> None:
        chance = random.Random(seed)
        number = 0
        while True:
            voice("phase", "open")
            engine = opened(path, **options)
            voice("seen", engine.last_seq)
            caller = Caller(engine, voice, name, chance)
            caller.number = number
            for _ in range(chance.randint(3, 25)):
                caller.step(may_prune=True)
            number = caller.number
            voice("phase", "close")
            engine.close()

    return Job(work)


def shared(path: str, name: str, seed: str, *, threads: int, **options: Any) -> Job:
    """One of several writers, with so many threads."""

    def work(voice: Voice) -> None:
        voice("phase", "open")
        engine = opened(path, mode="shared", **options)
        voice("seen", engine.last_seq)

        def calls(index: int) -> None:
            caller = Caller(engine, voice, f"{name}.{index}", random.Random(f"{seed} {index}"))
            try:
                while True:
                    caller.step(may_prune=False)
            except BaseException as error:
                voice("failed", f"{type(error).__name__}: {error}"[:3000])
                os._exit(0)

        others = [threading.Thread(target=calls, args=(index,)) for index in range(1, threads)]
        for other in others:
            other.start()
        calls(0)

    return Job(work)


def agent(path: str, name: str, seed: str, *, mode: str) -> Job:
    """An agent's runs with tool calls. Whoever comes first makes the session."""

    def work(voice: Voice) -> None:
        chance = random.Random(seed)
        voice("phase", "open")
        session = store_at(path).open_or_create("agent", mode=mode)
        voice("seen", session.last_seq)
        number = 0
        for call in session.open_calls:
            if call.status == "uncertain" and chance.random() < 0.5:
                call.settle("abandoned")
        while True:
            with session.run(f"request of {name}") as run:
                for _ in range(chance.randint(1, 3)):
                    asked = [f"{name}-{number + one}" for one in range(chance.randint(1, 3))]
                    number += len(asked)
                    calls = [{"call_id": one, "name": "work", "arguments": {}} for one in asked]
                    run.assistant("", tool_calls=calls, usage={"prompt": 3, "completion": 1})
                    for one in asked:
                        with run.tool(one) as call:
                            voice("body", one)
                            size = 4000 if chance.randrange(6) == 0 else 20
                            call.result(one.ljust(size, "."))
                        voice("done", one)
                if chance.randrange(4) == 0:
                    voice("phase", "snapshot")
                    session.snapshot()
                with run.stream() as reply:
                    reply.delta("all ")
                    reply.delta("done")
            voice("phase", "finished")

    return Job(work)
