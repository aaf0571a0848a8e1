"""Long random histories of an engine and of a session, against a plain list and a plain dict.

Hypothesis chooses the steps and shrinks a failure to the shortest history that shows it.
"""

from __future__ import annotations

from typing import Any
from unittest import mock

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from durasess.engine.engine import Engine
from durasess.engine.scheduler import InlineScheduler
from durasess.session.opening import open_core
from durasess.session.options import SessionOptions
from durasess.session.session import Session
from durasess.store.beginning import first_events
from tests.support.fault_lab import collect
from tests.support.sessions import SIM_PATH, clock, sim_disk
from tests.support.sim_files import Killed
from tests.support.tiers import FULL

SETTINGS = settings(
    max_examples=1000 if FULL else 250,
    stateful_step_count=80 if FULL else 40,
    deadline=None,
    derandomize=not FULL,
    suppress_health_check=list(HealthCheck),
    database=None,
)


class Engines(RuleBasedStateMachine):
    """The state of an engine is the list of what was appended."""

    def __init__(self) -> None:
        super().__init__()
        self.files = sim_disk()
        self.model: list[int] = []
        self.blobs: dict[str, bytes] = {}
        self.made = 0
        self.ids: list[tuple[str, int, int]] = []
        self.engine = self.opened()

    def opened(self, **more: Any) -> Engine:
        more.setdefault("scheduler", InlineScheduler())
        return Engine.open(
            SIM_PATH,
            initial=list,
            apply=collect,
            files=self.files,
            clock=clock(),
            segment_bytes=600,
            snapshot_every=5,
            **more,
        )

    def number(self) -> int:
        self.made += 1
        return self.made

    @rule()
    def append(self) -> None:
        n = self.number()
        assert self.engine.append("n", n).seq == len(self.model) + 1
        self.model.append(n)

    @rule(count=st.integers(1, 4))
    def append_many(self, count: int) -> None:
        numbers = [self.number() for _ in range(count)]
        self.engine.append_many([("n", n) for n in numbers])
        self.model += numbers

    @rule()
    def append_without_waiting(self) -> None:
        n = self.number()
        self.engine.append("n", n, durable=False)
        self.engine.flush()
        self.model.append(n)

    @rule()
    def append_with_an_id(self) -> None:
        n = self.number()
        seq = self.engine.append("n", n, event_id=f"e{n}").seq
        self.ids.append((f"e{n}", n, seq))
        self.model.append(n)

    @precondition(lambda self: self.ids)
    @rule()
    def try_again(self) -> None:
        event_id, n, seq = self.ids[-1]
        assert self.engine.append("n", n, event_id=event_id).seq == seq

    @rule()
    def snapshot(self) -> None:
        assert self.engine.snapshot() == len(self.model)

    @rule()
    def rotate(self) -> None:
        self.engine.rotate()

    @rule()
    def prune(self) -> None:
        self.engine.prune()
        self.blobs.clear()

    @rule(size=st.integers(1, 3000))
    def put_blob(self, size: int) -> None:
        data = bytes([size % 251]) * size
        self.blobs[self.engine.put_blob(data)] = data

    @rule()
    def read_beside_it(self) -> None:
        reader = self.opened(mode="read", create=False)
        assert reader.state == self.model
        assert reader.damage == ()

    @rule()
    def close_and_open(self) -> None:
        self.engine.close()
        assert not self.files.descriptors
        self.engine = self.opened()
        assert self.engine.recovery.clean

    @rule()
    def kill_and_open(self) -> None:
        self.files.die()
        self.engine.forget()
        self.engine = self.opened()

    @rule(size=st.integers(0, 200), count=st.integers(1, 3))
    def killed_in_a_write(self, size: int, count: int) -> None:
        """What was cut is there wholly or not at all."""
        numbers = [self.number() for _ in range(count)]
        self.files.kill_write(size, where=".jsonl")
        try:
            self.engine.append_many([("n", n) for n in numbers])
        except Killed:
            pass
        self.files.faults.clear()
        self.files.die()
        self.engine.forget()
        self.engine = self.opened()
        assert self.engine.state in (self.model, self.model + numbers)
        self.model = self.engine.state

    @invariant()
    def state_is_the_model(self) -> None:
        assert self.engine.state == self.model
        assert self.engine.last_seq == len(self.model)
        first = self.engine.first_seq
        found = [event.data for event in self.engine.events(after=first - 1)]
        assert found == self.model[first - 1 :]
        for name, data in self.blobs.items():
            assert self.engine.read_blob(name) == data


class Sessions(RuleBasedStateMachine):
    """Messages are a list, calls and the program's own state a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.files = sim_disk()
        self.messages: list[tuple[str, Any]] = []
        self.calls: dict[str, str] = {}
        self.values: dict[str, int] = {}
        self.runs: list[str] = []
        self.run: Any = None
        self.running: dict[str, Any] = {}
        self.made = 0
        self.session = self.opened()

    def opened(self) -> Session:
        options = SessionOptions(
            tools={},
            clock=clock(),
            files=self.files,
            scheduler=InlineScheduler,
            snapshot_every=7,
            blob_bytes=300,
        )
        core, report = open_core(SIM_PATH, options, mode="own", create=True)
        session = Session(core, report, mock.Mock())
        if session.last_seq == 0:
            session.begin(first_events(custom_version=1))
        return session

    def said(self) -> str:
        self.made += 1
        return f"text {self.made} " + "x" * (self.made % 3 * 200)

    @precondition(lambda self: self.run is None)
    @rule()
    def begin(self) -> None:
        text = self.said()
        self.run = self.session.run(text).start()
        self.messages.append(("user", text))
        self.runs.append("running")

    @precondition(lambda self: self.run is not None)
    @rule(count=st.integers(0, 3))
    def reply(self, count: int) -> None:
        text = self.said()
        asked = [{"call_id": f"c{n}", "name": "work", "arguments": {"n": n}} for n in range(count)]
        for call in self.run.assistant(text, tool_calls=asked):
            self.calls[call.key] = "pending"
        self.messages.append(("assistant", text))

    @precondition(lambda self: self.run is not None and "pending" in self.calls.values())
    @rule()
    def start(self) -> None:
        key = next(key for key, status in self.calls.items() if status == "pending")
        self.running[key] = self.run.tool(key).start()
        self.calls[key] = "running"

    @precondition(lambda self: self.running)
    @rule(ok=st.booleans())
    def end(self, ok: bool) -> None:
        key, call = self.running.popitem()
        text = self.said()
        (call.result if ok else call.fail)(text)
        self.calls[key] = "completed" if ok else "failed"

    @rule(name=st.sampled_from("abc"), value=st.integers(-5, 5))
    def set_state(self, name: str, value: int) -> None:
        self.session.set_state(name, value)
        self.values[name] = value

    @rule()
    def snapshot(self) -> None:
        self.session.snapshot()

    @rule()
    def kill_and_open(self) -> None:
        """What ran is uncertain, what had not begun was never started; the run is interrupted."""
        self.files.die()
        self.session.core.engine.forget()
        self.session = self.opened()
        ended = {"running": "uncertain", "pending": "not_started"}
        self.calls = {key: ended.get(status, status) for key, status in self.calls.items()}
        if self.run is not None:
            self.runs[-1] = "interrupted"
        self.run, self.running = None, {}

    @precondition(lambda self: self.run is None)
    @rule()
    def close_and_open(self) -> None:
        self.session.close()
        self.session = self.opened()

    @precondition(lambda self: self.run is not None and not self.open_calls())
    @rule()
    def finish(self) -> None:
        self.run.finish()
        self.run = None
        self.runs[-1] = "succeeded"

    @precondition(lambda self: self.run is None and "uncertain" in self.calls.values())
    @rule()
    def settle(self) -> None:
        key = next(key for key, status in self.calls.items() if status == "uncertain")
        [call] = [one for one in self.session.open_calls if one.key == key]
        call.settle("applied", output="it was")
        self.calls[key] = "completed"

    def open_calls(self) -> bool:
        return bool({"pending", "running"} & set(self.calls.values()))

    @invariant()
    def state_is_the_model(self) -> None:
        state = self.session.state
        told = [(one.role, one.content) for one in state.messages if one.role != "tool"]
        assert [role for role, _ in told] == [role for role, _ in self.messages]
        assert [self.session.core.resolved(text) for _, text in told] == [
            text for _, text in self.messages
        ]
        statuses = {key: call.status for key, call in state.tool_states.items()}
        assert statuses == self.calls
        assert state.custom_state == self.values
        assert [run.status for run in state.runs] == self.runs[-len(state.runs) or None :]


def test_engine_is_a_list_whatever_happens_to_it() -> None:
    run_state_machine_as_test(Engines, settings=SETTINGS)


def test_session_is_what_was_said_in_it_whatever_happens_to_it() -> None:
    run_state_machine_as_test(Sessions, settings=SETTINGS)
