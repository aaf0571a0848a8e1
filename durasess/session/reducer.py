"""The reducer: state and event → next state. Total: no event that can be read makes it raise.

What each type does is in reduce_runs, reduce_calls and reduce_session; here is which of them is
asked, and what becomes of types that this layer does not know: the program's own reducers have
their word, everything else changes no state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from durasess.engine.types import Event
from durasess.session import events, reduce_calls, reduce_runs, reduce_session, when
from durasess.session.custom import Custom
from durasess.session.state import RESIDENT_MESSAGES, SessionState

_REDUCERS: dict[str, Callable[[SessionState, Event, Any, int], SessionState]] = {
    name: getattr(module, name)
    for module in (reduce_session, reduce_runs, reduce_calls)
    for name in events.TYPES
    if hasattr(module, name)
}


class Reducer(msgspec.Struct, frozen=True, kw_only=True):
    """How a session's events become its state.

    `resident_messages` is how many of the newest messages the state holds. `custom` says what the
    program's own types do.
    """

    resident_messages: int = RESIDENT_MESSAGES
    custom: Custom = Custom()

    def initial(self) -> SessionState:
        """The state before event 1."""
        return SessionState()

    def apply(self, state: SessionState, event: Event) -> SessionState:
        """The state after one event; the one before it is left as it is."""
        after = self._applied(state, event)
        told = when.told(event.data) if event.type in when.TALK else after.told_at
        return replace(after, seq=event.seq, updated_at=event.ts, told_at=told)

    def _applied(self, state: SessionState, event: Event) -> SessionState:
        reduce = _REDUCERS.get(event.type)
        if reduce is None and event.type not in events.TYPES:
            return self.custom.apply(state, event)
        if event.type == "state_set":
            event = self.custom.migrated_event(state, event)
            state = self.custom.migrated(state)
        try:
            data = events.read(event.type, event.data)
        except ValueError:
            counts = replace(state.counts, unreadable=state.counts.unreadable + 1)
            return replace(state, counts=counts)
        if reduce is None:
            return self.custom.upgraded(state, event)
        return _counted(reduce(state, event, data, self.resident_messages), event)


def _counted(state: SessionState, event: Event) -> SessionState:
    """What was masked before it was recorded is counted."""
    calls = event.data.get("tool_calls")
    if not calls and "masked" not in event.data:
        # As it is with most: a recovery asks this of each.
        return state
    places = [event.data, *_dicts(calls)]
    masked = sum(len(one["masked"]) for one in places if isinstance(one.get("masked"), list))
    if not masked:
        return state
    return replace(state, counts=replace(state.counts, masked=state.counts.masked + masked))


def _dicts(calls: Any) -> list[dict[str, Any]]:
    return [one for one in calls if isinstance(one, dict)] if isinstance(calls, list) else []
