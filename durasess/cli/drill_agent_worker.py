"""The harness that the agent drill kills: a loop around a scripted model, with a few tools.

It is what a harness looks like that uses durasess: open the session, offer again what is safe to
run again, continue the run, record before and after each effect.

As a process (`main`) it tells its parent one JSON value a line: `{"begun": N}`, `{"opened": SEQ}`,
`{"context": SEQ, "told": [[class, name, call id], …]}` (null without a recovery block),
`{"stopped": N}`, `{"ended": "done" | "waiting"}`, `{"failed": TEXT}`.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
import traceback
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from durasess.cli import drill_agent_model as model
from durasess.cli.drill_agent_world import World
from durasess.engine import codec
from durasess.errors import DurasessError
from durasess.session.call import ToolCall
from durasess.session.masking import Masked, mask_secrets
from durasess.session.open_calls import OpenCall
from durasess.session.run import Run
from durasess.session.session import Session
from durasess.store.store import Store

SESSION = "task"
"""The id of the session in its store."""

MOST_REPLIES = 100
"""More than these in one run, and the model goes round in circles."""

_STREAMED = 12
"""Characters of a piece of the last answer."""

Ended = Literal["done", "waiting"]
"""How a life of the harness ended: the task is done, or a call waits for somebody's approval."""

Say = Callable[[dict[str, Any]], None]
Moment = Callable[[], None]
"""Called before anything is written and before each effect: where a drill may end this life."""


class Orders(msgspec.Struct, frozen=True):
    """What the parent tells its worker, as JSON in the one argument. At its moment number `stop_at`
    it stops and waits to be killed; 0 for never."""

    world: World
    stop_at: int = 0


def live(world: World, *, say: Say, moment: Moment) -> Ended:
    """One life of the harness: open the session, or make it, and go on to the end."""
    store = opened_store(world, moment)
    session = store.open_or_create(SESSION, workspace=world.project, model="scripted")
    say({"opened": session.last_seq})
    with session:
        return _Agent(world, session, say, moment).work()


def opened_store(world: World, moment: Moment) -> Store:
    """The store, and what its tools do when they are run twice."""

    def mask(data: Any) -> Masked:
        # The one function of a harness that is called before every write.
        moment()
        return mask_secrets(data)

    store = Store(world.store, mask=mask)
    for name in ("read_file", "run_tests", "read_outbox", "review"):
        store.tool(name, effect="read_only")
    for name in ("put_version", "note_outcome"):
        store.tool(name, effect="idempotent")
    for name in ("patch_file", "send_message", "publish"):
        store.tool(name, effect="unsafe")
    return store


class _Agent:
    """The loop: model, tools, model, until it asks for nothing more."""

    def __init__(self, world: World, session: Session, say: Say, moment: Moment) -> None:
        self._world = world
        self._session = session
        self._say = say
        self._moment = moment

    def work(self) -> Ended:
        for call in self._session.open_calls:
            if call.is_offered:
                call.rerun(by="harness")
        if self._open("waiting"):
            return "waiting"
        if not self._is_answered():
            with self._next_run() as run:
                self._loop(run)
        if self._open("waiting"):
            return "waiting"
        self._session.complete()
        return "done"

    def _next_run(self) -> Run:
        runs = self._session.runs
        if not runs:
            return self._session.run(model.REQUEST)
        if runs[-1].status == "succeeded":
            return self._session.run("It was decided. Go on.")
        return self._session.resume_run()

    def _is_answered(self) -> bool:
        """Whether the last run came to its end and left nothing to do."""
        runs = self._session.runs
        return bool(runs) and runs[-1].status == "succeeded" and not self._open("pending")

    def _open(self, status: str) -> list[OpenCall]:
        return [one for one in self._session.open_calls if one.status == status]

    def _loop(self, run: Run) -> None:
        for _ in range(MOST_REPLIES):
            while pending := self._open("pending"):
                self._execute(run, pending)
            if self._open("waiting"):
                return
            context = self._session.context()
            self._say({"context": self._session.last_seq, "told": model.recovery_told(context)})
            reply = model.reply(context)
            if not reply.calls:
                self._stream(run, reply)
                return
            asked = [
                {"name": name, "arguments": arguments, "call_id": call_id}
                for name, arguments, call_id in reply.calls
            ]
            run.assistant(reply.text, tool_calls=asked, usage=reply.usage)
        raise RuntimeError(f"the model asked for tools {MOST_REPLIES} times and found no end")

    def _stream(self, run: Run, reply: model.Reply) -> None:
        with run.stream() as stream:
            for start in range(0, len(reply.text), _STREAMED):
                stream.delta(reply.text[start : start + _STREAMED])
            stream.finish(usage=reply.usage)

    # -- tools ------------------------------------------------------------------------------

    def _execute(self, run: Run, calls: list[OpenCall]) -> None:
        """The calls of one message go side by side: all are begun before the first effect."""
        with contextlib.ExitStack() as begun:
            running = []
            for call in calls:
                if call.name == "publish" and call.state.approved is None:
                    run.ask_approval(call.key, "May it be published?")
                elif call.name == "patch_file":
                    self._patch(run, call)
                else:
                    running.append(begun.enter_context(run.tool(call.key)))
            for one in running:
                self._moment()
                try:
                    output = self._effect(run, one)
                except DurasessError as error:
                    one.fail(str(error))
                else:
                    one.result(output)

    def _effect(self, run: Run, call: ToolCall) -> Any:
        given = call.arguments
        match call.name:
            case "read_file":
                found = self._session.workspace.read(given["path"])
                return {"text": found.text, "version": found.version}
            case "run_tests":
                return self._world.run_tests()
            case "read_outbox":
                return "\n".join(self._world.sent())
            case "review":
                return self._review(run, call)
            case "put_version":
                self._world.put_version(given["version"], operation_id=call.operation_id)
                return "registered"
            case "note_outcome":
                return self._note_outcome(given["call_id"], given["outcome"])
            case "send_message" | "publish":
                self._world.send(given["text"])
                return "sent"
        return f"there is no tool {call.name}"

    def _patch(self, run: Run, call: OpenCall) -> None:
        """The start of the call says what will be in the file before and after, so that recovery
        can tell whether it was written. The version is the one that the model has seen, perhaps in
        an earlier life."""
        given = call.arguments
        try:
            plan = self._session.workspace.patching(
                given["path"], given["old"], given["new"], expected_version=given["version"]
            )
        except DurasessError as error:
            with run.tool(call.key) as running:
                running.fail(str(error))
            return
        with run.tool(call.key, plan=plan) as running:
            self._moment()
            running.result({"version": plan.apply()})

    def _review(self, run: Run, call: ToolCall) -> str:
        with (
            run.child(call_id=call.call.call_id, title="review") as child,
            child.run(f"Review the change of {call.arguments['path']}.") as judging,
        ):
            said = model.review(child.context())
            judging.assistant(said.text, usage=said.usage)
        return said.text

    def _note_outcome(self, call_id: str, outcome: Literal["applied", "not_applied"]) -> str:
        """The model has looked: the call is not unknown any more."""
        for call in self._open("uncertain"):
            if call.call_id == call_id:
                call.settle(outcome, by="model")
                return "noted"
        return "it was noted before"


# -- as a process --------------------------------------------------------------------------


def main() -> None:
    """Work until the end, or until it is killed; an error is told to the parent."""
    orders = codec.typed(sys.argv[1].encode(), Orders)
    try:
        _tell({"begun": orders.stop_at})
        ended = live(orders.world, say=_tell, moment=_stopping(orders))
        _tell({"ended": ended})
    except BrokenPipeError:
        sys.exit(1)
    except Exception:
        _tell({"failed": traceback.format_exc()})
        sys.exit(1)


def _stopping(orders: Orders) -> Moment:
    moments = itertools.count(1)

    def moment() -> None:
        if next(moments) == orders.stop_at:
            _tell({"stopped": orders.stop_at})
            # Ends when the parent is gone.
            sys.stdin.read()
            sys.exit(1)

    return moment


def _tell(value: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
