"""How tool calls change the state: asked for, waiting, started, ended, or of unknown outcome.

A reducer is total: what fits no call changes nothing but a count.
"""

from __future__ import annotations

import math
from typing import Any

from msgspec.structs import replace

from durasess.engine.types import Event
from durasess.session import events
from durasess.session.pairing import detached_key, find_call
from durasess.session.residency import with_result
from durasess.session.state import (
    ANSWERABLE_CALLS,
    CHILDREN_KEPT,
    OPERATIONS_KEPT,
    CallStatus,
    Child,
    Message,
    SessionState,
    ToolState,
)
from durasess.session.when import happened_at


def approval_requested(
    state: SessionState, event: Event, data: events.ApprovalRequested, resident: int
) -> SessionState:
    """Not to be started before somebody decided."""
    return _waiting(state, event, data.key, "approval", data.prompt)


def callback_requested(
    state: SessionState, event: Event, data: events.CallbackRequested, resident: int
) -> SessionState:
    """Started; the result comes from outside."""
    return _waiting(state, event, data.key, "callback", data.prompt)


def _waiting(
    state: SessionState, event: Event, key: str, waits_for: str, prompt: str
) -> SessionState:
    call = find_call(state, event.call_id, key, statuses=("pending", "running"))
    if call is None or call.status not in ("pending", "running"):
        return _orphan(state)
    return _changed(state, replace(call, status="waiting", waits_for=waits_for, prompt=prompt))


def approval_decided(
    state: SessionState, event: Event, data: events.ApprovalDecided, resident: int
) -> SessionState:
    """One that was approved may start; the result of one that was not follows."""
    call = find_call(state, event.call_id, data.key, statuses=("waiting",))
    if call is None or call.waits_for != "approval":
        return _orphan(state)
    return _changed(
        state,
        replace(call, status="pending", waits_for="", approved=data.approved, decided_by=data.by),
    )


def tool_started(
    state: SessionState, event: Event, data: events.ToolStarted, resident: int
) -> SessionState:
    """From here on its effect may have happened."""
    call = find_call(state, event.call_id, data.key, statuses=("pending",))
    if call is None and data.detached:
        key = data.key or detached_key(data.operation_id)
        call = ToolState(
            key=key,
            call_id=event.call_id or key,
            name=data.name,
            arguments=data.arguments,
            status="pending",
            seq=event.seq,
            detached=True,
        )
    if call is None:
        return _orphan(state)
    return _changed(
        state,
        replace(
            call,
            status="running",
            run_id=event.run_id or call.run_id,
            started_seq=event.seq,
            started_at=happened_at(event),
            worker_id=data.worker_id,
            operation_id=data.operation_id or call.operation_id,
            effect=data.effect,
            # A text that says it is infinite is read as a number that no state can hold.
            timeout_s=data.timeout_s if math.isfinite(data.timeout_s) else 0.0,
            attempt=max(data.attempt, call.attempt + 1),
            writes=data.writes,
            reason="",
            decision="",
            evidence=None,
        ),
    )


def tool_result(
    state: SessionState, event: Event, data: events.ToolResult, resident: int
) -> SessionState:
    """The first result ends the call; a second one is counted."""
    call = find_call(state, event.call_id, data.key, statuses=ANSWERABLE_CALLS)
    if call is None:
        return _orphan(state)
    if call.status not in ANSWERABLE_CALLS:
        counts = replace(state.counts, duplicates=state.counts.duplicates + 1)
        return replace(state, counts=counts)
    status: CallStatus = "completed" if data.ok else "failed"
    ended = replace(call, status=status, waits_for="", result_seq=event.seq, reason="")
    state = _remembered(state, ended, event.seq)
    message = Message(
        seq=event.seq,
        role="tool",
        content=data.output,
        run_id=event.run_id or call.run_id,
        key=call.key,
        ok=data.ok,
    )
    return with_result(state, ended, message, resident)


def _remembered(state: SessionState, call: ToolState, seq: int) -> SessionState:
    """`once` never runs an operation again that has a result, or that was given up."""
    is_over = call.status == "completed" or call.decision == "abandoned"
    if not call.detached or not is_over:
        return state
    kept = {**state.operations, call.operation_id: seq}
    left = len(kept) - OPERATIONS_KEPT
    for operation_id in list(kept)[: max(left, 0)]:
        del kept[operation_id]
    return replace(
        state, operations=kept, operations_left_out=state.operations_left_out + max(left, 0)
    )


_OUTCOMES: dict[str, CallStatus] = {
    "uncertain": "uncertain",
    "not_started": "not_started",
    "applied": "completed",
    "not_applied": "failed",
    "abandoned": "failed",
    "rerun": "pending",
}
"""What was found or decided → the status of the call."""


def tool_recovery(
    state: SessionState, event: Event, data: events.ToolRecovery, resident: int
) -> SessionState:
    """What became of a call that has no result."""
    status = _OUTCOMES.get(data.outcome)
    call = find_call(state, event.call_id, data.key, statuses=ANSWERABLE_CALLS)
    if call is None or status is None or call.status not in ANSWERABLE_CALLS:
        return _orphan(state)
    is_decided = data.outcome in ("applied", "not_applied", "abandoned")
    changed = replace(
        call,
        status=status,
        recovery_seq=event.seq,
        reason=data.reason,
        evidence=data.evidence,
        waits_for="",
        decision=data.outcome if is_decided else "",
        decided_by=data.by if is_decided else "",
        result_seq=event.seq if is_decided else 0,
    )
    if not is_decided:
        return _changed(state, changed)
    state = _remembered(state, changed, event.seq)
    output = data.output if data.outcome == "applied" else None
    return _settled(state, changed, output, resident)


def _settled(state: SessionState, call: ToolState, output: Any, resident: int) -> SessionState:
    """Without an output of its own, what the model sees is made from the decision."""
    if output is None and not call.detached:
        return _changed(state, call)
    message = Message(
        seq=call.result_seq, role="tool", content=output, run_id=call.run_id, key=call.key
    )
    return with_result(state, call, message, resident)


def _changed(state: SessionState, call: ToolState) -> SessionState:
    return replace(state, tool_states={**state.tool_states, call.key: call})


def _orphan(state: SessionState) -> SessionState:
    return replace(state, counts=replace(state.counts, orphans=state.counts.orphans + 1))


def child_started(
    state: SessionState, event: Event, data: events.ChildStarted, resident: int
) -> SessionState:
    """A session that works for this one."""
    call = find_call(state, event.call_id, data.key, statuses=("running", "pending"))
    key = call.key if call is not None else ""
    child = Child(data.session_id, event.seq, key, event.run_id or "")
    if call is not None:
        state = _changed(state, replace(call, child=data.session_id))
    return replace(state, children={**state.children, data.session_id: child})


def child_finished(
    state: SessionState, event: Event, data: events.ChildFinished, resident: int
) -> SessionState:
    """It came to its end."""
    child = state.children.get(data.session_id)
    if child is None:
        return _orphan(state)
    children = {
        **state.children,
        data.session_id: replace(child, status=data.status, result=data.result),
    }
    ended = [name for name, one in children.items() if one.status != "running"]
    left = ended[: max(len(ended) - CHILDREN_KEPT, 0)]
    for name in left:
        del children[name]
    return replace(state, children=children, children_left_out=state.children_left_out + len(left))
