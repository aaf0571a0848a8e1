"""The self-check of a recovered state: what can't be true of one that was written by this layer.

A state that fails it was made by a broken program or by hand; writing behind it would make that
worse.
"""

from __future__ import annotations

from collections.abc import Iterator

from durasess.session.state import SessionState, Usage


def findings(state: SessionState, seq: int | None = None) -> list[str]:
    """What does not fit, one sentence each; empty when all is well. `seq` is the log's last."""
    if seq is not None and state.seq != seq:
        return [f"the state is of seq {state.seq}, the log ends with {seq}"]
    return [*_calls(state), *_messages(state), *_usage(state), *_positions(state)]


def _calls(state: SessionState) -> Iterator[str]:
    """Every call that a message asked for has its state."""
    for message in state.messages:
        for key in message.calls:
            if key not in state.tool_states:
                yield f"the message of seq {message.seq} asks for call {key}, which has no state"
    for key, call in state.tool_states.items():
        if call.key != key:
            yield f"the state of call {key} says it is {call.key}"
        if call.status == "running" and not call.started_seq:
            yield f"call {key} is running and was never started"


def _messages(state: SessionState) -> Iterator[str]:
    """Every result belongs to a call, once, and order is by position."""
    asked = {key for message in state.messages for key in message.calls}
    answered: set[str] = set()
    for message in state.messages:
        if message.role != "tool":
            continue
        if message.key not in asked:
            yield f"the result of seq {message.seq} belongs to no call ({message.key!r})"
        if message.key in answered:
            yield f"call {message.key} has two results"
        answered.add(message.key)


def _usage(state: SessionState) -> Iterator[str]:
    for name, used in (
        ("usage", state.usage),
        *((f"usage of run {run.run_id}", run.usage) for run in state.runs),
    ):
        if min(used.prompt, used.completion, used.total) < 0 or not used.cost >= 0:
            yield f"{name} is negative: {used}"
    if state.usage == Usage() and any(run.usage != Usage() for run in state.runs):
        yield "usage is zero although a run has some"


def _positions(state: SessionState) -> Iterator[str]:
    if state.checkpoint.dispatched > state.seq or state.checkpoint.seq > state.seq:
        yield (
            f"the checkpoint at seq {state.checkpoint.dispatched} lies behind the log's end, "
            f"{state.seq}"
        )
    if any(run.status == "running" for run in state.runs[:-1]):
        yield "two runs are going on"
    for message in state.messages:
        if message.seq > state.seq:
            yield f"there is a message of seq {message.seq}, behind the log's end, {state.seq}"
