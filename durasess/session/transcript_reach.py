"""How far the log is read for a chunk of older messages: to what is known already, and on for what
ends later, results of its calls and replies in pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from durasess.engine.types import Event
from durasess.session.pairing import call_key
from durasess.session.residency import is_hidden
from durasess.session.state import OPEN_CALLS, SessionState

Events = Callable[[int], Iterator[Event]]
"""`events(after)`: the log behind a seq."""

LATEST_RESULT = 4000
"""Events behind a chunk that are read for what became of its calls, and more while one is open in
what was read and not in the state."""

_ENDS_PIECES = frozenset(["run_started", "assistant_message", "run_finished", "rewound"])
"""Behind each of these, a piece is the first of a reply."""

_OPEN_OUTCOMES = frozenset(["uncertain", "rerun"])
"""What may be said of a call that goes on to be open."""

_FIRST_LOOK = 1000
"""Events before a piece in which the first one is looked for; each next look is four times as
far."""


class Reach:
    """What is read for the messages before seq `before` that `state` does not hold.

    `unproven` is the first piece of a reply of which pieces may stand before what is read; 0 for
    none.
    """

    def __init__(self, state: SessionState, before: int) -> None:
        self._state = state
        self._before = before
        self._open: dict[str, str] = {}
        self._first = 0
        self._is_proven = False
        self.unproven = 0

    def within(self, events: Iterator[Event]) -> Iterator[Event]:
        """Of these events those to read, from the first one on."""
        for event in events:
            if event.seq > self._state.seq:
                return
            if event.seq > self._before + LATEST_RESULT and not self._goes_on():
                return
            self._note_piece(event)
            self._note_call(event)
            yield event

    def _goes_on(self) -> bool:
        return bool(self._open) or 0 < self._first < self._before

    def _note_piece(self, event: Event) -> None:
        if event.type == "message_delta":
            self._first = self._first or event.seq
            if not self._is_proven:
                self.unproven = self.unproven or event.seq
        elif event.type in _ENDS_PIECES:
            self._is_proven, self._first = True, 0

    def _note_call(self, event: Event) -> None:
        """A call that is open here, and not in the state: it ends later."""
        data = event.data if isinstance(event.data, dict) else {}
        if event.type == "assistant_message":
            asked = data.get("tool_calls")
            is_told = event.seq < self._before and not is_hidden(self._state.hidden, event.seq)
            for index, call in enumerate(asked if is_told and isinstance(asked, list) else ()):
                key = call_key(event.seq, index)
                known = self._state.tool_states.get(key)
                if known is None or known.status not in OPEN_CALLS:
                    self._open[key] = str(call.get("call_id")) if isinstance(call, dict) else ""
        elif event.type == "tool_result" or self._is_end(event.type, data):
            self._close(data.get("key") or None, event.call_id)

    def _is_end(self, kind: str, data: dict[str, Any]) -> bool:
        outcome = data.get("outcome")
        if kind != "tool_recovery" or outcome in _OPEN_OUTCOMES:
            return False
        # One that was never started may be answered all the same, seldom so much later; then the
        # state may know it.
        known = self._state.tool_states.get(str(data.get("key")))
        return outcome != "not_started" or known is None or known.status == "not_started"

    def _close(self, key: object, call_id: str | None) -> None:
        if key is None:
            key = next((key for key, named in self._open.items() if named == call_id), None)
        if isinstance(key, str):
            self._open.pop(key, None)


def goes_on_from_before(events: Events, seq: int) -> bool:
    """Whether the piece at `seq` belongs to a reply that began before it."""
    size = _FIRST_LOOK
    start = seq
    while start > 1:
        start = max(1, seq - size)
        size *= 4
        newest = ""
        for event in events(start - 1):
            if event.seq >= seq:
                break
            if event.type == "message_delta" or event.type in _ENDS_PIECES:
                newest = event.type
        if newest:
            return newest == "message_delta"
    return False
