"""An agent's session on a disk whose nth call fails: is what opening says afterwards still true?

A scenario is a function that works with a session through `Lab`, which notes what was acknowledged,
which effects began and which calls ended. The faults are those of fault_plans.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from unittest import mock

from durasess.engine.scheduler import InlineScheduler
from durasess.engine.verify import verify
from durasess.errors import DurasessError
from durasess.session.opening import open_core
from durasess.session.options import SessionOptions
from durasess.session.session import Session
from durasess.session.state import SessionState
from durasess.session.tools import Tool
from durasess.store.beginning import first_events
from tests.support.crash_driver import SESSION, STORE, make_clock, pinned_identity
from tests.support.fault_lab import Broken
from tests.support.fault_plans import Calls, Faults, plant
from tests.support.sim_files import SimFiles

NEVER_BEGAN = ("pending", "running", "not_started")


class Lab:
    """One session and all that is known of it."""

    def __init__(self, scenario: Callable[[Lab], None], *, mode: Any = "own") -> None:
        self.files = SimFiles.from_tree({STORE: None})
        self.acked: dict[str, int] = {}
        self.began: set[str] = set()
        self.ended: set[str] = set()
        self.raised: list[str] = []
        self._seq = 0
        self._session: Session | None = None
        self._scenario = scenario
        self._mode = mode
        self._clock = make_clock()

    def run(self, faults: Faults = ()) -> Lab:
        """The scenario, then everything healed and checked."""
        with pinned_identity(), mock.patch.object(time, "sleep", lambda seconds: None):
            plant(self.files, faults)
            try:
                self._scenario(self)
            except DurasessError as error:
                self.raised.append(type(error).__name__)
            except Broken:
                raise
            except Exception as error:
                raise Broken(f"raised {error!r}") from error
            self.files.faults.clear()
            self.check()
        return self

    def calls(self) -> list[tuple[str, str]]:
        """The file calls of a run in which nothing fails."""
        log = Calls()
        self.files.faults.append(log)
        self.run()
        return log.found

    # What scenarios do

    def open(self) -> Session:
        """The session, made when it is missing."""
        tools = {"sure": Tool(name="sure", verify=lambda call: "applied")}
        options = SessionOptions(
            tools=tools,
            clock=self._clock,
            files=self.files,
            scheduler=InlineScheduler,
            blob_bytes=600,
            snapshot_every=8,
            lock_timeout=0.1,
        )
        core, report = open_core(SESSION, options, mode=self._mode, create=True)
        self._session = session = Session(core, report, mock.Mock())
        if session.last_seq == 0:
            session.begin(first_events(custom_version=1))
        self.heard()
        return session

    def heard(self) -> None:
        """All that the session says is durable counts."""
        assert self._session is not None
        self._seq = max(self._seq, self._session.last_seq)

    def ask(self, run: Any, *names: str) -> list[str]:
        """The model asks for calls; their keys."""
        asked = [{"call_id": f"c{n}", "name": name} for n, name in enumerate(names)]
        keys = [call.key for call in run.assistant("", tool_calls=asked)]
        self.heard()
        return keys

    def call(self, run: Any, key: str, output: Any = "done") -> None:
        """One call with its effect."""
        with run.tool(key) as call:
            self.began.add(key)
            call.result(output)
        self.ended.add(key)
        self.heard()

    def emit(self, session: Session, event_id: str) -> None:
        """An event of the program's own; after an error once more, with the same id."""
        for last in (False, True):
            try:
                receipt = session.emit("mine", {"id": event_id}, event_id=event_id)
            except DurasessError:
                if last:
                    raise
            else:
                self.acked[event_id] = receipt.seq
                self.heard()
                return

    def kill(self) -> None:
        """The process is gone."""
        assert self._session is not None
        self.files.die()
        self._session.core.engine.forget()
        self._session = None

    def close(self) -> None:
        """Let go; nothing stays open whatever it raises."""
        if self._session is not None:
            session, self._session = self._session, None
            try:
                session.close()
            finally:
                self._expect_nothing_open()

    # What must hold

    def check(self) -> None:
        """On a healthy disk: opening finds all that was acknowledged, says what is true, and the
        next open adds nothing."""
        try:
            self.close()
        except DurasessError as error:
            self.raised.append(f"close: {type(error).__name__}")
        self._expect_nothing_open()
        try:
            self._check_what_is_there()
        except DurasessError as error:
            raise Broken(f"on a healthy disk: {error!r}") from error

    def _check_what_is_there(self) -> None:
        session = self.open()
        found = untrue(session.state, self.began, self.ended)
        if found:
            raise Broken("; ".join(found))
        if session.last_seq < self._seq:
            raise Broken(f"seq {self._seq} is lost, the last is {session.last_seq}")
        self._check_events(session)
        last = session.last_seq
        session.abandon()
        if self.open().last_seq != last:
            raise Broken(f"opening again wrote behind seq {last}")
        self.close()
        damage = verify(SESSION, files=self.files).damage
        if damage:
            raise Broken(f"verify finds {damage}")

    def _check_events(self, session: Session) -> None:
        there: dict[str, int] = {}
        for event in session.events():
            if event.event_id is not None:
                if event.event_id in there:
                    raise Broken(f"{event.event_id} is there twice")
                there[event.event_id] = event.seq
        for event_id, seq in self.acked.items():
            if there.get(event_id) != seq:
                raise Broken(f"{event_id} was acknowledged as seq {seq}: {there.get(event_id)}")

    def _expect_nothing_open(self) -> None:
        left = sorted(one.path for one in self.files.descriptors.values())
        if left:
            raise Broken(f"still open: {left}")


def untrue(state: SessionState, began: set[str], ended: set[str]) -> list[str]:
    """What a state after recovery says of runs and calls that cannot be so (P9)."""
    found = [f"run {run.run_id} is running" for run in state.runs if run.status == "running"]
    for key in began:
        call = state.tool_states.get(key)
        if call is None:
            found.append(f"{key} was started and is forgotten")
        elif call.status in NEVER_BEGAN:
            found.append(f"{key} was started and is {call.status}")
        elif call.status == "failed":
            # Every effect of these scenarios succeeds.
            found.append(f"{key} is told as failed")
        elif call.status == "uncertain" and key in ended:
            found.append(f"{key} ended and is uncertain")
    return found


# Scenarios


def agent(lab: Lab) -> None:
    """A run with two calls, one with a large result, beside an event of the program's own."""
    session = lab.open()
    lab.emit(session, "e1")
    with session.run("go") as run:
        first, second = lab.ask(run, "send", "sure")
        lab.call(run, first)
        lab.emit(session, "e2")
        lab.call(run, second, "x" * 2000)
        run.assistant("done")
        lab.heard()
    session.snapshot()
    lab.close()


def resumed(lab: Lab) -> None:
    """Killed in a call, opened, settled, and gone on with."""
    session = lab.open()
    run = session.run("go").start()
    (key,) = lab.ask(run, "send")
    run.tool(key).start()
    lab.began.add(key)
    lab.emit(session, "e1")
    lab.kill()
    session = lab.open()
    for call in session.open_calls:
        call.settle("applied", output="sent")
    with session.resume_run() as run:
        run.assistant("sent")
        lab.heard()
    lab.close()


SCENARIOS = (agent, resumed)
