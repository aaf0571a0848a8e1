"""Which messages the state holds: the newest that count. What leaves it is still in the log.

A message that leaves takes the states of its calls with it, but for open ones: nothing that was
started is forgotten (P9). Results go with the message that asked for them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from durasess.session.pairing import call_place
from durasess.session.state import OPEN_CALLS, Message, Partial, SessionState, ToolState


def with_message(state: SessionState, message: Message, resident: int) -> SessionState:
    """The state with one more message, in its place by seq: a reply that was cut off stands where
    its first piece came. The oldest ones are left out when there are too many."""
    messages = [*state.messages, message]
    if len(messages) > 1 and messages[-2].seq > message.seq:
        # What came behind it made room already.
        return replace(state, messages=sorted(messages, key=lambda one: one.seq))
    grown = replace(state, messages=messages)
    # Beyond a quarter more, so that most messages cost nothing here.
    if len(grown.messages) > resident + resident // 4:
        return _trimmed(grown, resident)
    return grown


def with_cut_off(state: SessionState, partial: Partial, resident: int) -> SessionState:
    """The state with what came of a reply that was cut off. One that a summary tells, which no
    writer of ours lets happen, is left out."""
    if state.compaction is not None and partial.seq <= state.compaction.through:
        return state
    message = Message(
        seq=partial.seq,
        role="assistant",
        content="".join(partial.chunks),
        run_id=partial.run_id,
        partial=True,
    )
    return with_message(state, message, resident)


def _trimmed(state: SessionState, resident: int) -> SessionState:
    """Cut before a user message, or before a reply when one turn alone is too long; never between
    a call and its result. A single reply stays, however many calls it has; so does what came while
    a reply is streamed, which has its place before that."""
    messages = state.messages
    first = len(messages) - resident
    end = len(messages)
    if state.partial is not None:
        place = state.partial.seq
        end = min(end, sum(one.seq < place for one in messages) + 1)
    for roles in (("user",), ("assistant",)):
        for index in range(max(first, 1), end):
            if messages[index].role in roles:
                return _cut(state, index)
    return state


def _cut(state: SessionState, index: int) -> SessionState:
    left, kept = state.messages[:index], state.messages[index:]
    since = state.older_since or left[0].seq
    return replace(
        state,
        messages=_answering(kept),
        older_since=since,
        tool_states=_calls_with(state, kept),
    )


def _answering(messages: list[Message]) -> list[Message]:
    """The messages without results of calls that are not among them."""
    keys = {key for message in messages for key in message.calls}
    return [one for one in messages if one.role != "tool" or one.key in keys]


def _calls_with(state: SessionState, kept: Iterable[Message]) -> dict[str, ToolState]:
    """The calls of the messages that are kept, and of others those that are open, that the model is
    to be told of, or that no message asked for."""
    keys = {key for message in kept for key in message.calls}
    keys.update(state.notice.keys if state.notice is not None else ())
    return {
        key: call
        for key, call in state.tool_states.items()
        if key in keys or call.status in OPEN_CALLS or call.detached
    }


def is_resident(state: SessionState, call: ToolState) -> bool:
    """Whether the message that asked for the call is in the state."""
    return any(message.seq == call.seq for message in reversed(state.messages) if message.calls)


def with_result(
    state: SessionState, call: ToolState, message: Message, resident: int
) -> SessionState:
    """The state with the result of a call, `call` being what became of it. Where the message that
    asked has left, the result comes as news: the model has not seen it."""
    calls = {**state.tool_states, call.key: call}
    if call.detached:
        return _with_detached(replace(state, tool_states=calls), resident)
    if is_resident(state, call):
        return with_message(replace(state, tool_states=calls), message, resident)
    if state.notice is None or call.key not in state.notice.keys:
        del calls[call.key]
    late = replace(message, role="user", key="", late=call.key, content=_late(call, message))
    return with_message(replace(state, tool_states=calls), late, resident)


def _late(call: ToolState, message: Message) -> list[Any]:
    """Content parts: what this is, and the result as it came: what of it is out of line is read,
    and what of it can be shown is known, where it is told."""
    outcome = "result" if message.ok else "error"
    told = f"[late {outcome} of the tool call {call.name} ({call.call_id}) of seq {call.seq}]"
    return [{"type": "text", "text": told}, {"type": "text", "text": message.content}]


def in_place(message: Message) -> Message:
    """A result that was news as it is told behind its call."""
    if not message.late:
        return message
    output = message.content[1]["text"]
    return replace(message, role="tool", key=message.late, late="", content=output)


def _with_detached(state: SessionState, resident: int) -> SessionState:
    """Calls that no message asked for leave by number."""
    told = state.notice.keys if state.notice is not None else []
    closed = [
        key
        for key, call in state.tool_states.items()
        if call.detached and call.status not in OPEN_CALLS and key not in told
    ]
    if len(closed) <= resident + resident // 4:
        return state
    gone = frozenset(closed[: len(closed) - resident])
    kept = {key: call for key, call in state.tool_states.items() if key not in gone}
    return replace(state, tool_states=kept)


def without_before(state: SessionState, through: int) -> SessionState:
    """The state without the messages of events up to `through`: a summary tells them now."""
    left = [message for message in state.messages if message.seq <= through]
    kept = _answering([message for message in state.messages if message.seq > through])
    since = state.older_since
    if since and since <= through:
        # Between the cut and the resident ones there may be some that are only in the log.
        since = 0 if left else through + 1
    return replace(state, messages=kept, older_since=since, tool_states=_calls_with(state, kept))


def without_behind(state: SessionState, to: int) -> SessionState:
    """The state without the messages of events behind `to`: they were rewound. Results of calls
    that stay, stay: what was done was done. Those of calls that only the log has, too."""
    asked = {key for one in state.messages if one.seq <= to for key in one.calls}
    kept = [
        one
        for one in state.messages
        if one.seq <= to or one.key in asked or _stays(state, one.late, to)
    ]
    since = state.older_since if state.older_since <= to else 0
    calls = _calls_with(state, kept)
    return replace(state, messages=kept, older_since=since, tool_states=calls)


def _stays(state: SessionState, key: str, to: int) -> bool:
    """Whether the call with this key was asked for up to `to`, in what was not rewound before."""
    place = call_place(key)
    return place is not None and place[0] <= to and not is_hidden(state.hidden, place[0])


def is_hidden(hidden: list[list[int]], seq: int) -> bool:
    """Whether this event was rewound."""
    return any(first <= seq <= last for first, last in hidden)


def hide(hidden: list[list[int]], first: int, last: int) -> list[list[int]]:
    """The ranges with one more, which ends at the newest event: what it covers goes into it."""
    kept = [one for one in hidden if one[0] < first]
    if kept and kept[-1][1] >= first - 1:
        first = kept.pop()[0]
    return [*kept, [first, last]]
