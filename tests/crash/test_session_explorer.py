"""Every crash state of a run with tool calls: what opening says of each call is true (P9).

The plan is an agent's run on the simulated disk. An effect is marked when its body begins, so in
each state it is known which effects had begun, which calls had ended, and what was acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from unittest import mock

import pytest

from durasess.engine.scheduler import InlineScheduler
from durasess.session import recovering, settling
from durasess.session.opening import open_core
from durasess.session.options import SessionOptions
from durasess.session.session import Session
from durasess.session.state import SessionState
from durasess.session.tools import Tool
from durasess.store.beginning import first_events
from tests.support.crash_driver import grain_of
from tests.support.crash_states import CrashState, Settings, crash_states
from tests.support.planting import planted
from tests.support.sessions import SIM_PATH, clock, sim_disk
from tests.support.sim_files import SimFiles

VERDICTS = {"verified": "applied", "refuted": "not_applied", "unsure": None}
"""Tool → what its verifier finds, whether or not the effect had begun; of others nobody knows."""


class Known(NamedTuple):
    """The mark: seq acknowledged; keys of calls whose effect began, and of those that ended."""

    seq: int
    began: frozenset[str] = frozenset()
    ended: frozenset[str] = frozenset()


def options(files: SimFiles) -> SessionOptions:
    tools = {
        name: Tool(name=name, verify=lambda call, verdict=verdict: verdict)
        for name, verdict in VERDICTS.items()
    }
    return SessionOptions(
        tools=tools, clock=clock(), files=files, scheduler=InlineScheduler, blob_bytes=600
    )


def opened(files: SimFiles) -> Session:
    core, report = open_core(SIM_PATH, options(files), mode="own", create=True)
    session = Session(core, report, mock.Mock())
    if session.last_seq == 0:
        session.begin(first_events(custom_version=1))
    return session


class Script:
    """Runs plans and marks what is known."""

    def __init__(self, files: SimFiles) -> None:
        self.files = files
        self.session = opened(files)
        self.began: set[str] = set()
        self.ended: set[str] = set()
        self.mark()

    def mark(self) -> None:
        known = Known(self.session.last_seq, frozenset(self.began), frozenset(self.ended))
        self.files.mark(known)

    def call(self, run: Any, key: str, output: Any = "done") -> None:
        """One call with its effect."""
        with run.tool(key) as call:
            self.began.add(key)
            self.mark()
            call.result(output)
        self.ended.add(key)
        self.mark()

    def ask(self, run: Any, *names: str) -> list[str]:
        asked = [{"call_id": f"c{n}", "name": name} for n, name in enumerate(names)]
        keys = [call.key for call in run.assistant("", tool_calls=asked)]
        self.mark()
        return keys

    def end(self) -> None:
        self.session.abandon()


def two_calls(script: Script) -> None:
    with script.session.run("go") as run:
        script.mark()
        for key in script.ask(run, "send", "verified"):
            script.call(run, key)
        run.assistant("done")
        script.mark()
    script.mark()


def parallel_calls_that_end_in_another_order(script: Script) -> None:
    with script.session.run("go") as run:
        first, second, _ = script.ask(run, "unsure", "refuted", "never")
        outer = run.tool(first).start()
        script.began.add(first)
        script.mark()
        script.call(run, second)
        outer.result("late")
        script.ended.add(first)
        script.mark()


def large_results_and_a_snapshot(script: Script) -> None:
    with script.session.run("go") as run:
        first, second = script.ask(run, "send", "send")
        script.call(run, first, "x" * 2000)
        script.session.snapshot()
        script.mark()
        script.call(run, second, "x" * 2000)


def interrupted_and_resumed(script: Script) -> None:
    run = script.session.run("go").start()
    (key,) = script.ask(run, "send")
    run.tool(key).start()
    script.began.add(key)
    script.mark()
    script.session.abandon()
    script.files.die()
    script.session = opened(script.files)
    script.mark()
    with script.session.resume_run() as again:
        script.mark()
        script.session.open_calls[0].settle("abandoned")
        script.ended.add(key)
        script.mark()
        script.call(again, script.ask(again, "verified")[0])


def once_and_again(script: Script) -> None:
    def effect() -> str:
        script.began.add("once:pay")
        script.mark()
        return "paid"

    with script.session.run("go") as run:
        run.once("pay", effect)
        script.ended.add("once:pay")
        script.mark()
        run.once("pay", effect)


PLANS: list[Callable[[Script], None]] = [
    two_calls,
    parallel_calls_that_end_in_another_order,
    large_results_and_a_snapshot,
    interrupted_and_resumed,
    once_and_again,
]


def states_of(plan: Callable[[Script], None]) -> Iterator[CrashState]:
    files = sim_disk()
    Script(files).session.close()
    files.restart()
    script = Script(files)
    plan(script)
    script.end()
    # What the ordered profile leaves is among what the weakest does.
    for profile in ("weakest", "kill"):
        settings = Settings(profile=profile, grain=grain_of)
        yield from crash_states(files.base, files.log, settings)


def problems(state: CrashState, *, twice: bool = True) -> list[str]:
    """What opening a crash state says that is not true; `twice`: and opening it again."""
    files = SimFiles.from_tree(state.tree)
    known = state.mark or Known(0)
    session = opened(files)
    found = _untrue(session.state, known)
    if session.last_seq < known.seq:
        found.append(f"seq {known.seq} is lost, the last is {session.last_seq}")
    before = session.last_seq
    session.abandon()
    if not twice:
        return found
    files.die()
    again = opened(files)
    if again.last_seq != before:
        found.append(f"opening again wrote seq {before + 1} to {again.last_seq}")
    again.abandon()
    return found


def _untrue(state: SessionState, known: Known) -> list[str]:
    found = [f"run {run.run_id} is running" for run in state.runs if run.status == "running"]
    # A run that succeeded may leave calls to be answered later.
    has_succeeded = bool(state.runs) and state.runs[-1].status == "succeeded"
    for key in known.began:
        call = state.tool_states.get(key)
        if call is None:
            found.append(f"{key} was started and is forgotten")
        elif call.status in ("pending", "running", "not_started"):
            found.append(f"{key} was started and is {call.status}")
        elif call.status == "failed" and not call.decision:
            found.append(f"{key} was started and is told as failed")
        elif call.status == "uncertain" and key in known.ended:
            found.append(f"{key} ended and is uncertain")
        elif call.decided_by == "verifier" and call.decision != VERDICTS.get(call.name):
            found.append(f"{key} is {call.decision}, which nobody found")
    found += [
        f"{call.key} is still {call.status}"
        for call in state.tool_states.values()
        if call.status == "running" or (call.status == "pending" and not has_succeeded)
    ]
    return found


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.__name__)
def test_what_opening_says_of_each_call_is_true(plan: Callable[[Script], None]) -> None:
    count = 0
    for count, state in enumerate(states_of(plan), 1):
        assert problems(state, twice=count % 3 == 0) == []
    assert count > 50


# The oracle has teeth


def effect_before_start() -> Any:
    """A mark of the effect that comes before its start is written."""
    original = Script.call

    def call(self: Script, run: Any, key: str, output: Any = "done") -> None:
        self.began.add(key)
        self.mark()
        original(self, run, key, output)

    return planted(Script, "call", call)


def told_as_never_started() -> Any:
    return planted(recovering, "_verified", lambda call, around: ("not_applied", None, None))


def written_each_time() -> Any:
    """A recovery that ends no run."""
    original = recovering.recovery_drafts

    def drafts(*arguments: Any) -> Any:
        return [one for one in original(*arguments) if one.type != "run_finished"]

    return planted(settling, "recovery_drafts", drafts)


@pytest.mark.parametrize("bug", [effect_before_start, told_as_never_started, written_each_time])
def test_planted_bug_is_found(bug: Callable[[], Any]) -> None:
    with bug():
        assert any(problems(state) for plan in PLANS[:2] for state in states_of(plan))
