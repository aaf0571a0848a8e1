"""A harness that does whatever chance says with one session: runs, calls, decisions, crashes.

What a session refuses is passed over; everything else must hold afterwards.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from durasess import DurasessError, EventRejectedError
from durasess.session.session import Session
from durasess.session.state import SessionState
from durasess.store.store import Store
from tests.support.harness import crash


class Driver:
    """`session` is the open one; `step` does one thing and says which."""

    def __init__(self, store: Store, seed: int) -> None:
        self.store = store
        self.chance = random.Random(seed)
        self.session: Session = store.create("s", title="t")
        self.done: list[str] = []

    def step(self, *, may_rewind: bool = True) -> str:
        """One operation, refused or not; its name."""
        names = [name for name in OPERATIONS if may_rewind or name != "rewind"]
        name = self.chance.choice(names)
        try:
            OPERATIONS[name](self)
        except EventRejectedError:
            name += " refused"
        self.done.append(name)
        return name

    def reopen(self) -> tuple[SessionState, SessionState]:
        """Crash or close, and open again: the state before, and what recovery says it was then.

        The second is folded from the log alone, up to the seq the first was of."""
        before = self.session.state
        if self.chance.random() < 0.5:
            crash(self.session)
        else:
            self.session.close()
        with self.store.open("s", mode="read") as seen:
            found = seen.state
        self.session = self.store.open("s")
        return before, found

    # What it can do

    def run(self) -> None:
        """Begin one that nobody ends in a block."""
        self.session.run(f"request {len(self.done)}").__enter__()

    def finish(self) -> None:
        status = self.chance.choice(["succeeded", "failed", "cancelled", "interrupted"])
        self.in_run("run_finished", {"status": status})

    def resume(self) -> None:
        self.session.resume_run().__enter__()

    def user(self) -> None:
        self.in_run("user_message", {"content": f"u{len(self.done)}"})

    def reply(self) -> None:
        calls = [
            {"call_id": self.chance.choice("xyz"), "name": "work", "arguments": {"n": n}}
            for n in range(self.chance.choice([0, 0, 1, 2]))
        ]
        usage = {"prompt": self.chance.randint(0, 9)}
        said = {"content": f"a{len(self.done)}", "tool_calls": calls, "usage": usage}
        self.in_run("assistant_message", said)

    def delta(self) -> None:
        self.in_run("message_delta", {"text": "d"})

    def start(self) -> None:
        self.on_call("tool_started", {}, in_run=True)

    def result(self) -> None:
        self.on_call("tool_result", {"output": len(self.done), "ok": self.chance.random() < 0.8})

    def recovery(self) -> None:
        outcome = self.chance.choice(
            ["uncertain", "not_started", "applied", "not_applied", "abandoned", "rerun"]
        )
        self.on_call("tool_recovery", {"outcome": outcome, "output": self.chance.choice([None, 1])})

    def ask(self) -> None:
        self.on_call("approval_requested", {"prompt": "?"})

    def decide(self) -> None:
        self.on_call("approval_decided", {"approved": self.chance.random() < 0.7})

    def callback(self) -> None:
        self.on_call("callback_requested", {})

    def compact(self) -> None:
        through = self.chance.choice([None, self.chance.randint(1, self.session.last_seq)])
        self.session.compact(f"summary {len(self.done)}", through=through)

    def rewind(self) -> None:
        self.session.rewind(self.chance.randint(1, self.session.last_seq))

    def once(self) -> None:
        try:
            self.session.once(f"o{self.chance.randint(1, 4)}", self.work)
        except (DurasessError, RuntimeError) as error:
            if isinstance(error, EventRejectedError):
                raise

    def work(self) -> Any:
        if self.chance.random() < 0.3:
            raise RuntimeError("no")
        return len(self.done)

    def other(self) -> None:
        told = self.session
        self.chance.choice(
            [
                lambda: told.set_state("a", len(self.done)),
                lambda: told.set_task(goal="g", pending=[1]),
                lambda: told.set_checkpoint(next={"n": 1}),
                lambda: told.record_usage({"prompt": self.chance.randint(0, 50)}, counter="c"),
                lambda: told.system("S", name=self.chance.choice("ab")),
                lambda: told.emit("weather", {"rain": True}),
                lambda: told.change(labels={"n": str(len(self.done))}),
                told.snapshot,
            ]
        )()

    # How

    def in_run(self, type: str, data: dict[str, Any]) -> None:
        run = self.session.state.open_run
        self.session.emit(type, data, run_id=run.run_id if run is not None else "r0")

    def on_call(self, type: str, data: dict[str, Any], *, in_run: bool = False) -> None:
        calls = list(self.session.state.tool_states.values())
        if not calls:
            return
        call = self.chance.choice(calls[-4:])
        key = {"key": call.key} if self.chance.random() < 0.8 or call.detached else {}
        run = self.session.state.open_run
        run_id = run.run_id if in_run and run is not None else call.run_id or None
        self.session.emit(type, {**data, **key}, run_id=run_id, call_id=call.call_id)


OPERATIONS: dict[str, Callable[[Driver], None]] = {
    "run": Driver.run,
    "run again": Driver.run,
    "finish": Driver.finish,
    "resume": Driver.resume,
    "user": Driver.user,
    "reply": Driver.reply,
    "another reply": Driver.reply,
    "delta": Driver.delta,
    "start": Driver.start,
    "start another": Driver.start,
    "result": Driver.result,
    "another result": Driver.result,
    "recovery": Driver.recovery,
    "ask": Driver.ask,
    "decide": Driver.decide,
    "callback": Driver.callback,
    "compact": Driver.compact,
    "rewind": Driver.rewind,
    "once": Driver.once,
    "other": Driver.other,
}
