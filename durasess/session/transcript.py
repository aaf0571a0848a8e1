"""Messages that are only in the log: the history from its beginning, or backwards when the context
has room for more than the state holds.

They are made by the reducer from the events, so that what is read here is what the state held when
they were new. What was rewound is passed over; a result that came behind the rewind, or behind the
compaction, which took its call away, is news here as it was in the state.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from msgspec.structs import replace

from durasess.engine.types import Event
from durasess.session.pairing import CALL_EVENTS, call_place, find_call
from durasess.session.reducer import Reducer
from durasess.session.residency import in_place, is_hidden
from durasess.session.state import ANSWERABLE_CALLS, Chunk, Message, Run, SessionState, ToolState
from durasess.session.transcript_reach import Events, Reach, goes_on_from_before

FIRST_CHUNK = 1000
"""Events that are read back first; each next chunk is four times as long."""

_MOST_CALLS = 1000
"""Of a pruned reply, of which nothing is known."""

_SAID = frozenset(["run_started", "user_message", "assistant_message", "message_delta"])

_TOLD = _SAID | CALL_EVENTS | {"run_finished"}
"""What messages are made of; a reply that was cut off becomes one when its run ends."""


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
        messages, calls, unproven = _chunk(events, start, state, reducer, known_from)
        if start > state.older_since:
            messages = _from_user([one for one in messages if one.seq > unproven])
        elif unproven and goes_on_from_before(events, unproven):
            # The rest of a reply of which the beginning is not told: a summary has it.
            messages = [one for one in messages if one.seq != unproven]
        if messages:
            known_from = messages[0].seq
            yield messages, calls


def _from_user(messages: list[Message]) -> list[Message]:
    for index, message in enumerate(messages):
        if message.role == "user":
            return messages[index:]
    return []


def _chunk(
    events: Events, start: int, state: SessionState, reducer: Reducer, before: int
) -> tuple[list[Message], dict[str, ToolState], int]:
    """Messages, their calls, and where a reply in pieces stands that may have begun before `start`;
    0 when there is none."""
    messages: list[Message] = []
    calls: dict[str, ToolState] = {}
    known = {message.seq for message in state.messages}
    reach = Reach(state, before)
    within = _with_older_calls(reach.within(events(start - 1)), events, start, state)
    for left, states in _leaving(within, reducer, state.hidden, state.older_since):
        for message in left:
            if message.seq >= before:
                # The result of an older call may have come behind what is known; once is enough.
                if message.seq in known or (message.key or message.late) not in calls:
                    continue
                message = in_place(message)
            messages.append(message)
            calls.update((key, states[key]) for key in message.calls if key in states)
        # What was decided of calls whose message had left.
        calls.update((key, states[key]) for key in calls.keys() & states.keys())
    return messages, calls, reach.unproven


def _with_older_calls(
    within: Iterator[Event], events: Events, start: int, state: SessionState
) -> Iterator[Event]:
    """The events; before one about a call that was asked for before `start`, in what is not live
    any more, the reply that asked. Calls of older live messages are told with these."""
    given: set[int] = set()
    for event in within:
        asked = _asked_at(event)
        is_gone = asked < state.older_since or is_hidden(state.hidden, asked)
        if 0 < asked < start and is_gone and asked not in given:
            given.add(asked)
            first = islice(events(asked - 1), 1)
            yield next((one for one in first if one.seq == asked), _pruned(event))
        yield event


def _asked_at(event: Event) -> int:
    """The seq of the reply that asked for the call that an event is about; 0 for others."""
    if event.type not in CALL_EVENTS or not isinstance(event.data, dict):
        return 0
    place = call_place(str(event.data.get("key", "")))
    return 0 if place is None else place[0]


def _pruned(event: Event) -> Event:
    """What stands for the reply that asked for a call, when it was pruned: calls without names."""
    key = event.data["key"]
    seq, index = call_place(key) or (0, 0)
    asked: list[Any] = [{"call_id": event.call_id or key, "name": "", "arguments": {}}]
    # A number that somebody wrote by hand makes no million of calls.
    data = {"content": "", "tool_calls": asked * (min(index, _MOST_CALLS) + 1)}
    return replace(event, seq=seq, type="assistant_message", data=data, call_id=None)


def history(events: Iterable[Event], state: SessionState, reducer: Reducer) -> Iterator[Chunk]:
    """Every message that was not rewound, oldest first, compacted ones too, in chunks with their
    calls; memory stays bounded."""
    yield from _leaving(events, reducer, state.hidden)


def _leaving(
    events: Iterable[Event], reducer: Reducer, hidden: list[list[int]], since: int = 0
) -> Iterator[Chunk]:
    """What the fold of these events lets go of, and in the end what it holds. Replies that were
    rewound, or are of seqs below `since`, are in it with their calls alone."""
    before = SessionState(seq=1)
    away: set[str] = set()
    gone: dict[str, ToolState] = {}
    for event in events:
        is_away = event.seq < since or is_hidden(hidden, event.seq)
        if event.type == "rewound":
            # It takes back what was said in pieces until then.
            before = replace(before, partial=None)
            continue
        if event.type in _SAID and is_away:
            if event.type == "assistant_message":
                before = _with_calls(before, reducer.apply(SessionState(seq=1), event), away)
            before = _in_pieces(before, event, reducer)
            continue
        if event.type not in _TOLD:
            continue
        if event.type == "run_finished":
            before = _in_run(before, event)
        if gone:
            before = _with_gone(before, event, gone)
        key = _call_of(before, event) if away else ""
        if key in away and is_away:
            # Its result was taken back with it: it ends the call and is no message.
            alone = SessionState(seq=1, tool_states=before.tool_states)
            before = replace(before, tool_states=reducer.apply(alone, event).tool_states)
            before = _without_ended(before, key, away)
            continue
        after = reducer.apply(before, event)
        if key in away:
            after = _without_ended(after, key, away)
        if before.messages and after.messages and after.messages[0] is not before.messages[0]:
            # A result may leave in the same moment that it comes.
            left, states = _left(_UNBOUNDED.apply(before, event), after)
            gone.update((key, call) for key, call in states.items() if _is_answerable(call, after))
            yield left, states
        before = after
    if before.messages or before.tool_states:
        yield before.messages, before.tool_states


def _with_gone(state: SessionState, event: Event, gone: dict[str, ToolState]) -> SessionState:
    """The state with the call that an event is about, where it left before it was answered: in
    another state, of more messages, it had not."""
    key = event.data.get("key") if isinstance(event.data, dict) else None
    call = gone.pop(key, None) if isinstance(key, str) else None
    if call is None:
        return state
    return replace(state, tool_states={**state.tool_states, call.key: call})


def _is_answerable(call: ToolState, state: SessionState) -> bool:
    return call.status in ANSWERABLE_CALLS and call.key not in state.tool_states


def _with_calls(state: SessionState, asked: SessionState, away: set[str]) -> SessionState:
    """The state with calls whose message is not told; their keys go into `away`."""
    away.update(asked.tool_states)
    return replace(state, tool_states={**state.tool_states, **asked.tool_states})


def _in_pieces(state: SessionState, event: Event, reducer: Reducer) -> SessionState:
    """What an event that is not told means for a reply in pieces that is: one more, or its end."""
    if state.partial is None or event.seq < state.partial.seq:
        # A reply that asked long ago is read again where its calls are told of.
        return state
    if event.type == "message_delta" and state.partial.run_id == (event.run_id or ""):
        return reducer.apply(state, event)
    return replace(state, partial=None) if event.type == "assistant_message" else state


def _in_run(state: SessionState, event: Event) -> SessionState:
    """The state with the run that an event ends: it may have begun before what is read here, or in
    what is not told."""
    if state.open_run is not None or state.partial is None:
        return state
    return replace(state, runs=[Run(event.run_id or "", state.partial.seq, event.ts)])


def _call_of(state: SessionState, event: Event) -> str:
    """The key of the call that an event is about, "" for none."""
    key = event.data.get("key") if isinstance(event.data, dict) else None
    named = key if isinstance(key, str) else ""
    found = find_call(state, event.call_id, named, statuses=ANSWERABLE_CALLS)
    return found.key if found is not None else ""


def _without_ended(state: SessionState, key: str, away: set[str]) -> SessionState:
    """The state without this call, and `away` without its key, when it has ended."""
    call = state.tool_states.get(key)
    if call is not None and call.status in ANSWERABLE_CALLS:
        return state
    away.discard(key)
    calls = {name: one for name, one in state.tool_states.items() if name != key}
    return replace(state, tool_states=calls)


def _left(before: SessionState, after: SessionState) -> Chunk:
    """The messages that left, and the calls that did."""
    kept = {(message.seq, message.key) for message in after.messages}
    left = [message for message in before.messages if (message.seq, message.key) not in kept]
    keys = {key for message in left for key in message.calls}
    keys |= before.tool_states.keys() - after.tool_states.keys()
    return left, {key: before.tool_states[key] for key in keys if key in before.tool_states}


_UNBOUNDED = Reducer(resident_messages=sys.maxsize)
