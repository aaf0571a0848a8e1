"""SIGKILL of a real writer at random moments: what it was told is durable is there afterwards.

The writer says through a pipe what it begins and what was acknowledged; the kill follows something
that it said, after a random moment, so every phase of a handle's life is hit on any machine.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from durasess import Engine, Receipt
from durasess.engine.files import RealFiles
from durasess.engine.verify import verify
from tests.support.agreement import assert_readers_agree

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

ROUNDS = 30
PHASES = ("open", "append", "append_many", "snapshot", "rotate", "close")
MAX_DELAY = 0.003
"""Seconds between what the writer said and the kill: about as long as a phase takes."""


def fold(state: dict[str, int], event: Any) -> dict[str, int]:
    """A count and a running sum that depends on order."""
    return {"count": state["count"] + 1, "sum": (state["sum"] * 31 + event.data["n"]) % 1_000_003}


def opened(path: Path, **more: Any) -> Engine:
    """As the writer and the check open it: small segments, frequent snapshots."""
    settings = {
        "initial": lambda: {"count": 0, "sum": 0},
        "apply": fold,
        "segment_bytes": 4000,
        "snapshot_every": 25,
    }
    return Engine.open(path, **{**settings, **more})


def data(n: int) -> dict[str, Any]:
    """What event n holds; some are longer than a page."""
    return {"n": n, "pad": "z" * (5000 if n % 17 == 0 else n % 90)}


def expected(last: int) -> dict[str, int]:
    """The state after events 1 to `last`."""
    state = {"count": 0, "sum": 0}
    for n in range(1, last + 1):
        state = {"count": n, "sum": (state["sum"] * 31 + n) % 1_000_003}
    return state


def write_for_ever(path: Path, said: int, seed: int) -> None:
    """The writer. Each line that it says is one write to the pipe."""

    def say(what: str, value: Any = None) -> None:
        os.write(said, json.dumps([what, value]).encode() + b"\n")

    chance = random.Random(seed)
    while True:
        say("open")
        engine = opened(path)
        n = engine.last_seq
        for _ in range(chance.randint(2, 12)):
            phase = chance.choice(PHASES[1:5])
            if phase == "append":
                say("append", [n + 1, n + 1])
                receipt = engine.append("n", data(n + 1))
                n += 1
                say("acked", receipt.to_json())
            elif phase == "append_many":
                count = chance.randint(2, 6)
                say("append_many", [n + 1, n + count])
                receipts = engine.append_many([("n", data(n + i)) for i in range(1, count + 1)])
                n += count
                say("acked", receipts[-1].to_json())
            else:
                say(phase)
                getattr(engine, phase)()
        say("close")
        engine.close()


class Writer:
    """A forked process that runs `write_for_ever`, and all that it said."""

    def __init__(self, path: Path, seed: int) -> None:
        self.said: list[tuple[str, Any]] = []
        self._rest = b""
        self._dead = False
        self._pipe, child_end = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(self._pipe)
                write_for_ever(path, child_end, seed)
            except BaseException as error:
                os.write(child_end, json.dumps(["failed", repr(error)]).encode() + b"\n")
            finally:
                os._exit(1)
        os.close(child_end)

    def lines(self) -> Iterator[tuple[str, Any]]:
        """What it says, as it says it, until it is dead."""
        while chunk := os.read(self._pipe, 65536):
            *whole, self._rest = (self._rest + chunk).split(b"\n")
            said = [(what, value) for what, value in map(json.loads, whole)]
            # All of it before any of it is shown: who stops looking must not forget the rest.
            self.said += said
            yield from said

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()

    def kill(self) -> None:
        """SIGKILL, and everything that it had still said."""
        if self._dead:
            return
        self._dead = True
        os.kill(self.pid, signal.SIGKILL)
        for _ in self.lines():
            pass
        os.close(self._pipe)
        _, status = os.waitpid(self.pid, 0)
        assert os.WTERMSIG(status) == signal.SIGKILL, self.said[-1]

    def acked(self) -> Receipt | None:
        """The last receipt."""
        found = [value for what, value in self.said if what == "acked"]
        return Receipt.from_json(found[-1]) if found else None

    def batch_under_way(self) -> tuple[int, int] | None:
        """First and last seq of the batch that was begun and not acknowledged."""
        for what, value in reversed(self.said):
            if what == "acked":
                return None
            if what in ("append", "append_many"):
                return value[0], value[1]
        return None


def check(path: Path, writer: Writer, before: int, receipt: Receipt | None) -> int:
    """What the next open finds; returns its last seq."""
    # What an open for writing found was proven by it, acknowledged or not.
    acked = max(before, receipt.seq if receipt is not None else 0)
    if not path.exists():
        assert acked == 0
        return 0
    report = verify(str(path), files=RealFiles())
    assert report.damage == []
    with opened(path, mode="read") as reader:
        assert acked <= reader.last_seq
        assert reader.state == expected(reader.last_seq)
    with opened(path, at_least=receipt) as engine:
        last = engine.last_seq
        begun = writer.batch_under_way()
        ends = {acked} if begun is None else {acked, begun[1]}
        assert last in ends, f"{acked} were acknowledged, {begun} was under way, {last} are there"
        assert engine.state == expected(last)
        assert [event.data for event in engine.events()] == [data(n) for n in range(1, last + 1)]
    assert_readers_agree(path)
    return last


def test_killed_writer_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "s"
    chance = random.Random(20261129)
    last = 0
    receipt: Receipt | None = None
    hits: Counter[str] = Counter()
    for number in range(ROUNDS):
        phase = PHASES[number % len(PHASES)]
        patience = chance.randint(1, 3)
        with Writer(path, seed=number) as writer:
            for what, value in writer.lines():
                assert what != "failed", value
                patience -= what == phase
                if patience == 0:
                    time.sleep(chance.uniform(0, MAX_DELAY))
                    break
        hits[writer.said[-1][0]] += 1
        receipt = writer.acked() or receipt
        last = check(path, writer, last, receipt)
    print(f"\n{ROUNDS} kills, {last} events, last words: {dict(hits)}")
    assert last > ROUNDS


def test_killed_while_the_session_is_made_it_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    chance = random.Random(5)
    made = 0
    for number in range(12):
        path = tmp_path / f"s{number}"
        with Writer(path, seed=number) as writer:
            for what, _ in writer.lines():
                if what == "open":
                    time.sleep(chance.uniform(0, 2 * MAX_DELAY))
                    break
        made += path.exists()
        check(path, writer, 0, writer.acked())
        with opened(path) as engine:
            assert engine.append("n", data(engine.last_seq + 1)).seq == engine.last_seq
    print(f"\n{made} of 12 were there")


def test_lock_of_a_killed_writer_is_free_at_once(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with Writer(path, seed=1) as writer:
        for what, _ in writer.lines():
            if what == "acked":
                break
    with opened(path) as engine:
        assert not engine.recovery.created
