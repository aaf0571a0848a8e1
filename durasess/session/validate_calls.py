"""What is refused about tool calls: each is asked for, started and ended once, in this order."""

from __future__ import annotations

from typing import Any

from durasess.engine.types import Draft
from durasess.session import events
from durasess.session.pairing import detached_key, find_call, unstarted_outcome
from durasess.session.refusal import check_run, refuse
from durasess.session.state import ANSWERABLE_CALLS, SessionState, ToolState


def call_of(state: SessionState, draft: Draft, key: str, statuses: Any) -> ToolState:
    """The call that the draft is about, one in `statuses` before others."""
    call = find_call(state, draft.call_id, key, statuses=statuses)
    if call is None:
        name = draft.call_id if draft.call_id is not None else key
        known = sorted({one.call_id for one in state.tool_states.values()})[:20]
        refuse(
            f"{draft.type} is for the call {name!r:.80}, which no message asked for",
            f"record the message with its tool calls first (known: {', '.join(known) or 'none'})",
        )
    return call


def _check_status(draft: Draft, call: ToolState, statuses: Any, next_step: str) -> None:
    if call.status not in statuses:
        waits = f" for {call.waits_for}" if call.waits_for else ""
        refuse(
            f"{draft.type} is for the call {call.call_id!r:.80}, which is {call.status}{waits}",
            next_step,
        )


def approval_requested(state: SessionState, draft: Draft, data: events.ApprovalRequested) -> None:
    """Asked for once, before the start."""
    call = call_of(state, draft, data.key, ("pending",))
    _check_status(draft, call, ("pending",), "ask before it is started, and once")


def approval_decided(state: SessionState, draft: Draft, data: events.ApprovalDecided) -> None:
    """Decided once."""
    call = call_of(state, draft, data.key, ("waiting",))
    if call.waits_for != "approval":
        refuse(
            f"the call {call.call_id!r:.80} is {call.status} and waits for no approval",
            "a decision is given once, to a call that waits for it",
        )


def callback_requested(state: SessionState, draft: Draft, data: events.CallbackRequested) -> None:
    """By a call that runs."""
    call = call_of(state, draft, data.key, ("running",))
    _check_status(draft, call, ("running",), "start it first")


def tool_started(state: SessionState, draft: Draft, data: events.ToolStarted) -> None:
    """Started once, when nothing stands in the way."""
    if data.detached:
        _check_detached(state, data)
        return
    call = call_of(state, draft, data.key, ("pending",))
    _check_status(
        draft, call, ("pending",), "a call is started once; settle it or offer it again first"
    )
    check_run(state, draft, data)


def _check_detached(state: SessionState, data: events.ToolStarted) -> None:
    if not data.operation_id:
        refuse("a call that no message asked for has no operation_id", "name the operation")
    if data.operation_id in state.operations:
        refuse(
            f"operation {data.operation_id!r:.80} has a result",
            "use the recorded one; it is never run again",
        )
    call = state.tool_states.get(data.key or detached_key(data.operation_id))
    if call is None:
        return
    if call.status not in ("pending", "failed", "not_started") or call.decision == "abandoned":
        refuse(
            f"operation {data.operation_id!r:.80} is {call.decision or call.status}",
            "settle it first; it is never run again by itself",
        )


def tool_result(state: SessionState, draft: Draft, data: events.ToolResult) -> None:
    """One result for each call."""
    call = call_of(state, draft, data.key, ANSWERABLE_CALLS)
    _check_status(draft, call, ANSWERABLE_CALLS, "a call has one result")
    if call.waits_for == "approval" and data.ok:
        refuse(
            f"the call {call.call_id!r:.80} waits for approval", "decide first, then it may start"
        )


_SETTLED_FROM = {
    "uncertain": ("running", "waiting", "pending"),
    "not_started": ("pending", "waiting"),
    "applied": ("uncertain", "running", "waiting"),
    "not_applied": ("uncertain", "running", "waiting"),
    "abandoned": ("uncertain", "running", "waiting", "pending"),
    "rerun": ("uncertain", "not_started"),
}
"""Outcome → statuses of the call in which it can be said."""


def tool_recovery(state: SessionState, draft: Draft, data: events.ToolRecovery) -> None:
    """What can be said of a call in its status."""
    statuses = _SETTLED_FROM.get(data.outcome)
    if statuses is None:
        refuse(
            f"the outcome {data.outcome!r:.40} is unknown", f"use one of {', '.join(_SETTLED_FROM)}"
        )
    call = call_of(state, draft, data.key, statuses)
    _check_status(
        draft, call, statuses, f"{data.outcome} is said of a call that is {' or '.join(statuses)}"
    )
    if call.status in ("pending", "waiting") and data.outcome in ("uncertain", "not_started"):
        _check_unstarted(call, data.outcome)


def _check_unstarted(call: ToolState, outcome: str) -> None:
    """What was started is never told as not started, nor the other way round (P9)."""
    expected = unstarted_outcome(call)
    if outcome != expected:
        was = "was started" if call.started_seq else "was never started"
        refuse(f"the call {call.call_id!r:.80} {was}, so it is not {outcome}", f"say {expected}")
