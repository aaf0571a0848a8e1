"""Memory runs out at every allocation of the commit path: the handle stays usable or is cleanly
failed, nothing acknowledged is lost, nothing is there twice, what may be there is called unknown,
and no descriptor stays open.

One allocation at a time fails: an interpreter that can allocate nothing at all does
not come out of its own exception handling. Extension modules that follow a null pointer end the
process; that counts as a kill, and the session is looked at like after one. Run as a program, this
file is the process that has no memory. The suite takes a sample, `DURASESS_TIER=full` every
allocation.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from durasess import DurasessError, Engine, FencedError, SessionClosedError, SessionFailedError
from durasess.engine.scheduler import InlineScheduler
from durasess.session.opening import open_core
from durasess.session.options import SessionOptions
from durasess.session.session import Session
from durasess.store.beginning import first_events
from tests.support.capabilities import unavailable
from tests.support.crash_driver import make_clock
from tests.support.fault_sessions import untrue
from tests.support.sessions import open_descriptors
from tests.support.tiers import FULL, sampled

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 2400 if FULL else 120

RAISED = (MemoryError, DurasessError, RuntimeError, SystemError)
"""What a caller may see: the interpreter says RuntimeError for a lock without memory, and
SystemError for extension modules that forget theirs."""


def without_memory(nth: int, call: Callable[[], Any]) -> tuple[Any, Any, bool]:
    """What the call returned or raised while the nth allocation fails, and whether it
    came to that."""
    import _testcapi

    result = error = None
    _testcapi.set_nomemory(nth, nth + 1)
    try:
        result = call()
    except BaseException as raised:
        error = raised
    try:
        # Only a call that made fewer allocations leaves a failing one for these.
        came_to_it = all([index] for index in _PROBES)
    except MemoryError:
        came_to_it = False
    _testcapi.remove_mem_hooks()
    return result, error, came_to_it or error is not None


_PROBES = range(1000)
"""More than three times the largest stride."""


class Trial:
    """One session, whose nth allocation fails in one call."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.problems: list[str] = []
        self.engine = self.opened()
        self.acked = [1]
        self.engine.append("n", 1)

    def opened(self, **more: Any) -> Engine:
        return Engine.open(
            self.path,
            initial=list,
            apply=lambda state, event: [*state, event.data],
            snapshot_every=10_000,
            scheduler=InlineScheduler(),
            **more,
        )

    def raised(self, error: BaseException | None) -> None:
        if error is not None and not isinstance(error, RAISED):
            self.problems.append(f"it raised {error!r}")

    def finish(self, *, was_told: bool = False) -> None:
        """The retry, the close, and what the next open finds."""
        self.insist(was_told=was_told)
        try:
            self.engine.close()
        except DurasessError as error:
            self.problems.append(f"close raised {error!r}")
        left = open_descriptors(self.path)
        if left:
            self.problems.append(f"still open: {left}")
        with self.opened() as again:
            found = [event.data for event in again.events()]
            if found != again.state or found != self.acked:
                self.problems.append(f"{found} is there, acknowledged was {self.acked}")

    def insist(self, *, was_told: bool) -> None:
        """The event once more with its id; on a new handle when this one has failed."""
        try:
            self.engine.append("n", 2, event_id="e2")
        except (SessionFailedError, FencedError, SessionClosedError) as error:
            self.engine.close()
            self.engine = self.opened()
            is_said = was_told or getattr(error, "unknown", None) or "is in the log" in str(error)
            if 2 in self.engine.state and not is_said:
                self.problems.append(f"it is there, and was not called unknown: {error!r}")
            self.engine.append("n", 2, event_id="e2")
        self.acked.append(2)


Call = Callable[[Trial], Callable[[], Any]]

CALLS: dict[str, Call] = {
    "append": lambda one: lambda: one.engine.append("n", 2, event_id="e2"),
    "rotate": lambda one: one.engine.rotate,
    "snapshot": lambda one: one.engine.snapshot,
    "close": lambda one: one.engine.close,
    "blob": lambda one: lambda: one.engine.put_blob(b"blob"),
}
STRIDES = {
    "append": 2,
    "rotate": 3,
    "snapshot": 5,
    "close": 7,
    "blob": 2,
    "open": 61,
    "session": 61,
}


def engine_call(name: str, path: str, nth: int) -> tuple[bool, list[str]]:
    """Whether the call came to its nth allocation; and what went wrong."""
    trial = Trial(path)
    call = CALLS[name](trial)
    result, error, came_to_it = without_memory(nth, call)
    trial.raised(error)
    trial.finish(was_told=name == "append" and result is not None)
    return came_to_it, trial.problems


def opening(path: str, nth: int) -> tuple[bool, list[str]]:
    """An open after an unclean end."""
    trial = Trial(path)
    trial.engine.abandon()
    engine, error, came_to_it = without_memory(nth, trial.opened)
    trial.raised(error)
    trial.engine = engine or trial.opened()
    trial.finish()
    return came_to_it, trial.problems


def opened_session(path: str) -> Session:
    options = SessionOptions(tools={}, clock=make_clock(), scheduler=InlineScheduler)
    core, report = open_core(path, options, mode="own", create=True)
    return Session(core, report, mock.Mock())


def session_call(path: str, nth: int) -> tuple[bool, list[str]]:
    """A tool call of a run."""
    session = opened_session(path)
    session.begin(first_events(custom_version=1))
    run = session.run("go").start()
    (asked,) = run.assistant("", tool_calls=[{"call_id": "c1", "name": "send"}])
    acked, began = session.last_seq, set()

    def call() -> None:
        with run.tool("c1") as one:
            began.add(asked.key)
            one.result("sent")

    _, error, came_to_it = without_memory(nth, call)
    problems = []
    if error is not None and not isinstance(error, RAISED):
        problems.append(f"it raised {error!r}")
    session.close()
    again = opened_session(path)
    if again.last_seq < acked:
        problems.append("what was acknowledged is lost")
    problems += untrue(again.state, began, set())
    again.close()
    left = open_descriptors(path)
    return came_to_it, problems + [f"still open: {left}" for _ in left[:1]]


def main(name: str, path: str, first: str, stride: str) -> None:
    """Every stride-th allocation of one call from the first on; prints what was found."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    sys.unraisablehook = lambda unraisable: None
    bad: list[str] = []
    nth, missed = int(first), 0
    while missed < 3:
        one = f"{path}{nth}"
        if name in CALLS:
            came_to_it, problems = engine_call(name, one, nth)
        else:
            call = {"open": opening, "session": session_call}[name]
            came_to_it, problems = call(one, nth)
        bad += [f"allocation {nth}: {problem}" for problem in problems]
        shutil.rmtree(one)
        # One that is caught and made up for looks like one that was not come to.
        missed = 0 if came_to_it else missed + 1
        nth += int(stride)
    print(json.dumps({"allocations": nth - 4 * int(stride), "bad": bad}))


class Report:
    """What the children found; a child that dies is followed by one that begins behind it."""

    def __init__(self, name: str, directory: Path) -> None:
        self.allocations = 0
        self.died = 0
        self.bad: list[str] = []
        stride = sampled(STRIDES[name])
        first = 1
        while self.allocations == 0:
            done = _child(name, directory / "s", first, stride)
            if done.returncode == 0:
                report = json.loads(done.stdout)
                self.allocations = report["allocations"]
                self.bad += report["bad"]
                return
            assert done.returncode < 0, done.stdout + done.stderr
            [left] = directory.iterdir()
            self._look_at_what_died(name, left)
            first = int(left.name[1:]) + stride
            shutil.rmtree(left)

    def _look_at_what_died(self, name: str, left: Path) -> None:
        self.died += 1
        if name == "session":
            session = opened_session(str(left))
            self.bad += untrue(session.state, set(), set())
            session.close()
            return
        with Engine.open(left, create=False) as engine:
            found = [event.data for event in engine.events()]
        if found not in ([1], [1, 2]):
            self.bad.append(f"{left.name}: the process died, and {found} is there")


def _child(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, __file__, *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=PATIENCE
    )


@pytest.mark.parametrize("name", STRIDES)
def test_no_memory_at_any_allocation_loses_nothing(place: Path, name: str) -> None:
    if importlib.util.find_spec("_testcapi") is None:
        unavailable("this interpreter has no _testcapi")
    report = Report(name, place)
    print(f"\n{name}: {report.allocations} allocations, {report.died} processes died")
    assert report.allocations > 10
    assert report.bad == []


if __name__ == "__main__":
    main(*sys.argv[1:])
