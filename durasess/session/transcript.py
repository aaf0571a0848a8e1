"""Messages that are only in the log: the history from its beginning, or backwards when the context
has room for more than the state holds.

They are made by the reducer from the events, so that what is read here is what the state held when
they were new. What was rewound is passed over.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator

from durasess.engine.types import Event
from durasess.session.pairing import CALL_EVENTS
from durasess.session.reducer import Reducer
from durasess.session.residency import is_hidden
from durasess.session.state import Chunk, Message, SessionState, ToolState

Events = Callable[[int], Iterator[Event]]
"""`events(after)`: the log behind a seq."""

FIRST_CHUNK = 1000
"""Events that are read back first; each next chunk is four times as long."""

LATEST_RESULT = 4000
"""Events behind a chunk that are read for results of its calls."""

_SAID = frozenset(
    ["run_started", "user_message", "assistant_message", "message_delta", "run_finished"]
)


def older_chunks(events: Events, state: SessionState, reducer: Reducer) -> Iterator[Chunk]:
    """Live messages before those that the state holds: chunks, newest first, each beginning with a
    user's message but for the last. Reads no more of the log than is asked for."""
    if not state.older_since:
        return
    known_from = state.messages[0].seq if state.messages else state.seq + 1
    start, size = known_from, FIRST_CHUNK
    while start > state.older_since:
        start = max(state.older_since, start - size)
        size *= 4
        messages, calls = _chunk(events(start - 1), state, reducer, known_from)
        if start > state.older_since:
            messages = _from_user(messages)
        if messages:
            known_from = messages[0].seq
            yield messages, calls


def _from_user(messages: list[Message]) -> list[Message]:
    for index, message in enumerate(messages):
        if message.role == "user":
            return messages[index:]
    return []


def _chunk(
    events: Iterator[Event], state: SessionState, reducer: Reducer, before: int
) -> tuple[list[Message], dict[str, ToolState]]:
    messages: list[Message] = []
    calls: dict[str, ToolState] = {}
    known = {message.seq for message in state.messages}
    for left, states in _leaving(_within(events, state, before), reducer, state.hidden):
        for message in left:
            # The result of an older call may have come behind what is known; once is enough.
            is_answer = message.key in calls and message.seq not in known
            if message.seq < before or is_answer:
                messages.append(message)
                calls.update((key, states[key]) for key in message.calls if key in states)
    return messages, calls


def _within(events: Iterator[Event], state: SessionState, before: int) -> Iterator[Event]:
    """Up to the first message that is known, and on for a while: a result may come later."""
    for event in events:
        if event.seq > min(before + LATEST_RESULT, state.seq):
            return
        yield event


def history(events: Iterable[Event], state: SessionState, reducer: Reducer) -> Iterator[Chunk]:
    """Every message that was not rewound, oldest first, compacted ones too, in chunks with their
    calls; memory stays bounded."""
    yield from _leaving(events, reducer, state.hidden)


def _leaving(events: Iterable[Event], reducer: Reducer, hidden: list[list[int]]) -> Iterator[Chunk]:
    """What the fold of these events lets go of, and in the end what it holds."""
    before = SessionState(seq=1)
    for event in events:
        if event.type in _SAID:
            if is_hidden(hidden, event.seq):
                continue
        elif event.type not in CALL_EVENTS:
            continue
        after = reducer.apply(before, event)
        if before.messages and after.messages and after.messages[0] is not before.messages[0]:
            # A result may leave in the same moment that it comes.
            yield _left(_UNBOUNDED.apply(before, event), after)
        before = after
    if before.messages:
        yield before.messages, before.tool_states


def _left(before: SessionState, after: SessionState) -> Chunk:
    kept = {(message.seq, message.key) for message in after.messages}
    left = [message for message in before.messages if (message.seq, message.key) not in kept]
    states = {
        key: before.tool_states[key]
        for message in left
        for key in message.calls
        if key in before.tool_states
    }
    return left, states


_UNBOUNDED = Reducer(resident_messages=sys.maxsize)
