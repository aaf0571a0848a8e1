"""Ctrl-C at every point of the caller's own code, in the engine and in the session layer: the
handle stays usable or is cleanly failed, no lock and no thread stays, nothing acknowledged is lost,
and nothing is there twice when it is tried again with its event_id.

Run as a program, this file is the process that is interrupted. The suite takes a sample of the
points of the long calls, `DURASESS_TIER=full` all of them, and every opcode beside.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import json
import os
import shutil
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from durasess import DurasessError, Engine, SessionLockedError, Store
from durasess.engine import handle, live
from durasess.session import call, call_operations
from durasess.session.session import Session
from tests.support.fault_sessions import untrue
from tests.support.planting import planted
from tests.support.striking import Struck, struck
from tests.support.tiers import FULL, sampled

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 2400 if FULL else 120
COMMITTER = "durasess-committer"
KEPT_EVERY = 41
"""One session in so many is left for both readers to look at."""


def count(state: int, event: Any) -> int:
    """The reducer of these tests."""
    return state + 1


def opened(path: str) -> Engine:
    return Engine.open(path, initial=int, apply=count, snapshot_every=10_000)


class Points:
    """Strikes at one point after the other, until a call has no more; keeps what went wrong."""

    def __init__(self, path: str, stride: int, anywhere: bool) -> None:
        self.path = path
        self.bad: list[str] = []
        self.points = 0
        self._stride = stride
        self._anywhere = anywhere
        self._before = frozenset(committers())

    def __iter__(self) -> Iterator[int]:
        self._ended = False
        while not self._ended:
            self.points += self._stride
            yield self.points

    def strike(self, call: Callable[[], Any]) -> Struck:
        """At the point whose turn it is."""
        found = struck(self.points, call, anywhere=self._anywhere)
        self._ended = not found.where
        return found

    def expect(self, holds: bool, where: str, what: str) -> None:
        """Note what does not hold."""
        if not holds:
            self.bad.append(f"point {self.points}, {where}: {what}")

    def expect_free(self, path: str, where: str) -> bool:
        """No thread stays and nobody has the lock; whether that is so."""
        before = len(self.bad)
        self.expect(not self._threads_left(), where, "a thread stays")
        try:
            opened(path).close()
        except SessionLockedError:
            self.expect(False, where, "the lock stays")
        return len(self.bad) == before

    def _threads_left(self) -> bool:
        if not set(committers()) - self._before:
            return False
        gc.collect()
        deadline = time.monotonic() + 5
        while (left := set(committers()) - self._before) and time.monotonic() < deadline:
            time.sleep(0.001)
        return bool(left)


def committers() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name.startswith(COMMITTER)]


# -- the engine -----------------------------------------------------------------------------


def strike_open(points: Points) -> None:
    for nth in points:
        path = f"{points.path}{nth}"
        opened(path).close()
        found = points.strike(functools.partial(opened, path))
        if found.result is not None:
            found.result.close()
        if not points.expect_free(path, found.where):
            break


def strike_append(points: Points) -> None:
    engine = opened(points.path)
    for seq, nth in enumerate(points, 1):
        call = functools.partial(engine.append, "n", nth, event_id=f"e{nth}")
        found = points.strike(call)
        points.expect(call().seq == seq, found.where, "it is there twice or not at all")
    points.expect(engine.state == engine.last_seq == seq, "the end", "events are missing")
    engine.close()


def strike_snapshot(points: Points) -> None:
    engine = opened(points.path)
    for seq, nth in enumerate(points, 1):
        engine.append("n", nth)
        found = points.strike(engine.snapshot)
        points.expect(engine.snapshot() == seq, found.where, "the next snapshot is of another seq")
    engine.close()


def strike_close(points: Points) -> None:
    for nth in points:
        path = f"{points.path}{nth}"
        engine = opened(path)
        engine.append("n", nth)
        found = points.strike(engine.close)
        engine.close()
        if not points.expect_free(path, found.where):
            break
        with opened(path) as again:
            points.expect(again.last_seq == 1, found.where, "the event is lost")


# -- the session layer ----------------------------------------------------------------------


class Agent:
    """A run with a call and a message with an event id, and what is known of it."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.began: set[str] = set()
        self.ended: set[str] = set()
        self.seq = session.last_seq

    def __call__(self) -> None:
        with self.session.run("go") as run:
            (asked,) = run.assistant("", tool_calls=[{"call_id": "c1", "name": "send"}])
            with run.tool("c1") as call:
                self.began.add(asked.key)
                call.result("sent")
            self.ended.add(asked.key)
            self.seq = self.session.last_seq
            self.insist()

    def insist(self) -> Any:
        """An event that is tried again with the same id."""
        return self.session.emit("mine", {"n": 1}, event_id="once")


def strike_session(points: Points) -> None:
    store = Store(os.path.dirname(points.path))
    for nth in points:
        session = store.create(f"s{nth}")
        agent = Agent(session)
        found = points.strike(agent)
        try:
            agent.insist()
        except DurasessError as error:
            points.expect(False, found.where, f"afterwards the handle says {error!r}")
        session.close()
        check(points, store, agent, f"s{nth}", found)
        if nth % KEPT_EVERY:
            shutil.rmtree(f"{os.path.dirname(points.path)}/s{nth}")


def check(points: Points, store: Store, agent: Agent, session_id: str, found: Struck) -> None:
    """What the next open finds."""
    points.expect(not points._threads_left(), found.where, "a thread stays")
    with store.open(session_id) as again:
        events = list(again.events())
        twice = [event for event in events if event.event_id == "once"]
        points.expect(len(twice) == 1, found.where, f"{len(twice)} events have the same event_id")
        points.expect(len(events) >= agent.seq, found.where, "what was acknowledged is lost")
        for problem in untrue(again.state, agent.began, agent.ended):
            points.expect(False, found.where, problem)
        with again.run("go on"):
            pass


PROGRAMS = {
    "open": strike_open,
    "append": strike_append,
    "snapshot": strike_snapshot,
    "close": strike_close,
    "session": strike_session,
}
STRIDES = {"open": 3, "append": 1, "snapshot": 1, "close": 5, "session": 41}


# -- the same with a bug ---------------------------------------------------------------------


def opening_lets_go_of_nothing() -> Any:
    return planted(handle, "_release_in_committer", lambda scheduler, opened: None)


def ids_are_forgotten() -> Any:
    return planted(live, "remember", lambda *what: None)


def close_says_that_it_is_closed_at_once() -> Any:
    original = Engine.close

    def close(self: Engine) -> None:
        if not getattr(self, "begun", False):
            self.begun = True
            original(self)

    return planted(Engine, "close", close)


def unknown_is_told_as_failed() -> Any:
    def failed(core: Any, call: Any, reason: str, *, by: str) -> Any:
        return call_operations.fail(core, call, RuntimeError(reason))

    return planted(call.call_operations, "unknown", failed)


BUGS: dict[str, tuple[str, Callable[[], Any]]] = {
    "an open that is interrupted lets go of nothing": ("open", opening_lets_go_of_nothing),
    "an event id is forgotten": ("append", ids_are_forgotten),
    "a close that is interrupted is taken for done": (
        "close",
        close_says_that_it_is_closed_at_once,
    ),
    "a call that is interrupted is told as failed": ("session", unknown_is_told_as_failed),
}
"""A bug, and the program that comes by it."""


def main(name: str, path: str, stride: str, anywhere: str, bug: str = "") -> None:
    """One program; prints what was found."""
    warnings.simplefilter("ignore", ResourceWarning)
    points = Points(path, int(stride), anywhere == "anywhere")
    with BUGS[bug][1]() if bug else contextlib.nullcontext():
        PROGRAMS[name](points)
    print(json.dumps({"points": points.points, "bad": points.bad}))


def in_a_child(*arguments: object) -> dict[str, Any]:
    command = [sys.executable, __file__, *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("where", ["signals", "anywhere"] if FULL else ["signals"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_interrupted_at_any_point_nothing_is_lost_or_there_twice(
    place: Path, name: str, where: str
) -> None:
    report = in_a_child(name, place / "s", sampled(STRIDES[name]), where)
    print(f"\n{name}: {report['points']} points")
    assert report["points"] > 20
    assert report["bad"] == []


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bug_is_found(place: Path, bug: str) -> None:
    name = BUGS[bug][0]
    report = in_a_child(name, place / "s", STRIDES[name], "signals", bug)
    print(f"\n{bug}: {len(report['bad'])} of {report['points']} points")
    assert report["bad"]


if __name__ == "__main__":
    main(*sys.argv[1:])
