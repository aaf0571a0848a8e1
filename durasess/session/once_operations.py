"""What `once` writes: an operation that a program does itself and that must happen once. How any
call begins and ends is in call_operations.

Each operation is a generator that yields batches (core.Operation).
"""

from __future__ import annotations

from typing import Any

from durasess.errors import EventRejectedError, OutcomeUnknownError
from durasess.session import events
from durasess.session.call_operations import begin
from durasess.session.core import Core, Operation, draft
from durasess.session.pairing import detached_key
from durasess.session.refusal import refuse
from durasess.session.state import ToolState
from durasess.session.tools import Tool


def start_once(
    core: Core, run_id: str, operation_id: str, *, name: str, tool: Tool, arguments: Any
) -> Operation[ToolState | int]:
    """Begin an operation that must happen once; the seq of its result when it did already.
    OutcomeUnknownError when it was begun and nobody knows what became of it."""
    if core.mask_arguments(operation_id).paths:
        refuse(
            "the id of the operation looks like a secret, which is not recorded, so nobody could "
            "find the operation again",
            "make the id of something else, or of its hash",
        )
    core.engine.refresh()
    key = detached_key(operation_id)
    while True:
        seq = recorded_seq(core, operation_id)
        if seq is not None:
            return seq
        call = core.state.tool_states.get(key)
        if call is not None and _is_unknown(call):
            raise _unknown_outcome(core, operation_id, call)
        data = events.ToolStarted(
            key=key,
            operation_id=operation_id,
            effect=tool.effect,
            timeout_s=tool.timeout_s,
            attempt=call.attempt + 1 if call is not None else 1,
            worker_id=core.engine.worker_id,
            detached=True,
            name=name,
            arguments=arguments,
        )
        try:
            return (yield from begin(core, key, draft(data, run_id=run_id, call_id=key)))
        except EventRejectedError:
            # Somebody else began it meanwhile, or it is refused for what it is.
            if core.state.tool_states.get(key) == call:
                raise


def _is_unknown(call: ToolState) -> bool:
    """Begun, and what became of it is not known, or was given up."""
    return call.status in ("running", "uncertain", "waiting") or call.decision == "abandoned"


def _unknown_outcome(core: Core, operation_id: str, call: ToolState) -> OutcomeUnknownError:
    found = call.decision or call.status
    return OutcomeUnknownError(
        f"{core.engine.path}: operation {operation_id!r} was started at seq {call.started_seq} "
        f"({call.started_at}) and has no result: it is {found}. It is not run again by itself. "
        "Look at the world, then settle it (open_calls: settle, rerun), or use another operation "
        "id.",
        path=core.engine.path,
        seq=call.started_seq,
    )


def recorded_seq(core: Core, operation_id: str) -> int | None:
    """The seq of the result of an operation. Those that the state has no room for are looked up in
    the log."""
    state = core.state
    seq = state.operations.get(operation_id)
    if seq is not None or not state.operations_left_out:
        return seq
    key = detached_key(operation_id)
    for event in core.events_left():
        if event.call_id == key and _ends_operation(event.type, event.data):
            seq = event.seq
    first = core.engine.first_seq
    if seq is None and first > 1:
        raise OutcomeUnknownError(
            f"{core.engine.path}: whether operation {operation_id!r} was run cannot be told: the "
            f"events before seq {first} were pruned, and results of operations with them. It is "
            "not run; use another operation id if it never was.",
            path=core.engine.path,
        )
    return seq


def _ends_operation(kind: str, data: Any) -> bool:
    if not isinstance(data, dict):
        return False
    if kind == "tool_recovery":
        return data.get("outcome") in ("applied", "abandoned")
    return kind == "tool_result" and data.get("ok", True) is True


def recorded_output(core: Core, seq: int) -> Any:
    """The result of an operation as it was recorded. OutcomeUnknownError when it was given up."""
    event = core.event_at(seq)
    if event.type == "tool_recovery" and event.data.get("outcome") == "abandoned":
        raise OutcomeUnknownError(
            f"{core.engine.path}: the operation {event.call_id!r} was abandoned at seq {seq} "
            f"({event.ts}): nobody knows whether it had an effect. It is not run again by itself; "
            "use another operation id.",
            path=core.engine.path,
            seq=seq,
        )
    return core.resolved(event.data.get("output"))
