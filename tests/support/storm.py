"""Several processes with several threads append to one session and are killed at random.

Each worker tells every acknowledgement in one line of its own file: `FIRST LAST CRC NAME INVOKED
ANSWERED`, the times in nanoseconds of the clock that all processes share. A line is written with
one call, so a kill leaves it whole or not at all.

    python -m tests.support.storm SESSION TOLD NAME THREADS SIZES
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

import durasess
from durasess import Draft, Engine, Event

ROOT = Path(__file__).resolve().parents[2]


class Told(NamedTuple):
    """One acknowledged call: its events' seqs, the last one's crc, what they carry, when."""

    first: int
    last: int
    crc: str
    name: str
    invoked: int
    answered: int


def fold(state: dict[str, Any], event: Event) -> dict[str, Any]:
    """How many events, and a checksum over their order."""
    mixed = (state.get("mixed", 0) * 31 + event.seq * 7 + len(event.data)) % 1_000_003
    return {"count": state.get("count", 0) + 1, "mixed": mixed}


def open_shared(session: str, **options: Any) -> Engine:
    """A handle as the workers have it."""
    return Engine.open(session, apply=fold, mode="shared", **options)


class Storm:
    """Keeps `processes` workers running, each with `threads`, and kills one now and then."""

    def __init__(
        self, directory: Path, *, seed: int, processes: int, threads: int, sizes: str
    ) -> None:
        self.session = str(directory / "session")
        self._told = directory / "told"
        self._told.mkdir()
        self._random = random.Random(seed)
        self._threads = threads
        self._sizes = sizes
        self._names = 0
        self._running = [self._start() for _ in range(processes)]
        self.kills = 0
        self.died: list[str] = []

    def _start(self) -> subprocess.Popen[bytes]:
        self._names += 1
        name = f"w{self._names}"
        command = [sys.executable, "-m", "tests.support.storm", self.session]
        command += [str(self._told / name), name, str(self._threads), self._sizes]
        with open(self._told / f"{name}.errors", "wb") as errors:
            return subprocess.Popen(command, cwd=ROOT, stderr=errors)

    def rage(self, *, kills: int, events: int) -> None:
        """Until so many were killed and so many events acknowledged; then kill them all."""
        deadline = time.monotonic() + 600
        while self.kills < kills or self._acknowledged() < events:
            assert time.monotonic() < deadline, "the workers do not get on"
            time.sleep(self._random.uniform(0.02, 0.3))
            victim = self._random.randrange(len(self._running))
            self._kill(self._running[victim])
            self.kills += 1
            self._running[victim] = self._start()
        for worker in self._running:
            self._kill(worker)

    def _kill(self, worker: subprocess.Popen[bytes]) -> None:
        if worker.poll() is not None:
            self.died.append(f"a worker ended by itself with status {worker.returncode}")
        worker.send_signal(signal.SIGKILL)
        worker.wait()

    def _acknowledged(self) -> int:
        return max((one.last for one in self.told()), default=0)

    def told(self) -> list[Told]:
        """Every acknowledgement, by seq."""
        found = []
        for path in self._told.iterdir():
            if path.suffix == ".errors":
                continue
            for line in path.read_text().splitlines():
                first, last, crc, name, invoked, answered = line.split()
                found.append(Told(int(first), int(last), crc, name, int(invoked), int(answered)))
        return sorted(found)

    def errors(self) -> list[str]:
        """What workers complained of."""
        texts = (path.read_text() for path in sorted(self._told.glob("*.errors")))
        return self.died + [text for text in texts if text]


def work(session: str, told: str, name: str, threads: int, sizes: list[int]) -> None:
    """Append without end."""
    engine = open_shared(session, snapshot_every=400, segment_bytes=100_000)
    fd = os.open(told, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def append(thread: int) -> None:
        choose = random.Random(f"{name}-{thread}")
        number = 0
        while True:
            number += 1
            call = f"{name}-{thread}-{number}"
            size = choose.choice(sizes)
            drafts = [Draft("storm", f"{call}-{index}") for index in range(size)]
            invoked = time.monotonic_ns()
            receipts = engine.append_many(drafts)
            answered = time.monotonic_ns()
            line = f"{receipts[0].seq} {receipts[-1].seq} {receipts[-1].crc} {call} "
            os.write(fd, f"{line}{invoked} {answered}\n".encode())

    started = [threading.Thread(target=append, args=(index,)) for index in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()


def check(storm: Storm) -> int:
    """Compare the log with what was acknowledged; returns the number of events.

    Seq allocation is linearizable if and only if, by seq, no call was answered before one with a
    lower seq was invoked: for a counter the sweep with the latest invocation is exact.
    """
    assert storm.errors() == []
    told = storm.told()
    with open_shared(storm.session) as engine:
        events = list(engine.events())
        state = engine.state
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert len({event.data for event in events}) == len(events), "an event is there twice"
    latest = before = 0
    for call in told:
        assert call.first > before, f"{call} has a seq that another call has"
        assert call.answered >= latest, f"{call} was answered before one with a lower seq began"
        before, latest = call.last, max(latest, call.invoked)
        assert events[call.last - 1].crc == call.crc
        found = [event.data for event in events[call.first - 1 : call.last]]
        assert found == [f"{call.name}-{index}" for index in range(call.last - call.first + 1)]
    again: dict[str, Any] = {}
    for event in events:
        again = fold(again, event)
    assert state == again
    return len(events)


if __name__ == "__main__":
    assert durasess.__version__
    work(*sys.argv[1:4], int(sys.argv[4]), [int(size) for size in sys.argv[5].split(",")])
