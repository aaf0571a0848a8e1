"""Which call an event is about: the one with its key, else the newest open one with its call id.

Providers repeat ids: one constant for every call, or the same in each turn. So a call's own key
decides where an event has it; where it has only the provider's id, the newest message that asked
for it does, and in that its first call that fits.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from durasess.session.state import OPEN_CALLS, SessionState, ToolState

CALL_EVENTS = frozenset(
    [
        "approval_requested",
        "approval_decided",
        "callback_requested",
        "tool_started",
        "tool_result",
        "tool_recovery",
    ]
)
"""Types of events that are about one call, each."""


def answered_seq(state: SessionState) -> int:
    """The seq of the newest whole reply: what was there before it, the model was told. One that was
    cut off answered nothing."""
    replies = (one.seq for one in state.messages if one.role == "assistant" and not one.partial)
    return max(replies, default=0)


def unstarted_outcome(call: ToolState) -> Literal["uncertain", "not_started"]:
    """What becomes of a pending call that nobody starts any more. One that was started before and
    offered again is of unknown outcome still (P9)."""
    return "uncertain" if call.started_seq else "not_started"


def call_key(seq: int, index: int) -> str:
    """The key of an assistant message's call: unique in the session."""
    return f"{seq}.{index}"


def call_place(key: str) -> tuple[int, int] | None:
    """The seq and the index that a key was made of; None for one without a message, and for what is
    no key."""
    seq, dot, index = key.partition(".")
    numbers = seq + index
    is_made = seq and dot and index and numbers.isascii() and numbers.isdigit()
    return (int(seq), int(index)) if is_made else None


def detached_key(operation_id: str) -> str:
    """The key of a call that no message asked for."""
    return f"once:{operation_id}"


def find_call(
    state: SessionState,
    call_id: str | None,
    key: str = "",
    *,
    statuses: Collection[str] = OPEN_CALLS,
) -> ToolState | None:
    """The call with this key; else, of those with this id in one of `statuses`, the first of the
    newest message; else the newest with this id whatever its status. None when there is none."""
    if key:
        return state.tool_states.get(key)
    if call_id is None:
        return None
    found: ToolState | None = None
    other: ToolState | None = None
    for call in state.tool_states.values():
        if call.call_id != call_id:
            continue
        if call.status in statuses:
            if found is None or call.seq > found.seq:
                found = call
        elif other is None or call.seq >= other.seq:
            other = call
    return found if found is not None else other
