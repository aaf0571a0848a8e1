"""A session as a stream of entries for people: messages with their calls and results, runs, marks.

One pass over the log in bounded memory: an entry is held back until its calls have ended, or so
much has come behind it that it is told as it is; what comes later is an entry of its own. How a
page shows entries is its writer's; what can be said before the first one is in overview.py, what
each event becomes in conversation_marks.py.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from durasess.engine.types import Event
from durasess.interop.conversation_calls import CallBook
from durasess.interop.conversation_marks import mark_of, thinking_in
from durasess.interop.entries import Began, Ended, Entry, Late, Mark, RunFacts, Said
from durasess.interop.overview import Overview
from durasess.interop.resolving import Resolver
from durasess.interop.survey import changed_calls, dated_events, plain_data
from durasess.session import usage
from durasess.session.masking import Masker
from durasess.session.pairing import CALL_EVENTS
from durasess.session.reducer import Reducer
from durasess.session.residency import is_hidden
from durasess.session.state import Partial, SessionState
from durasess.session.view import SessionView

WINDOW = 250
"""Entries that are held back at most, while a call in one of them has not ended."""

WINDOW_CHARACTERS = 4_000_000
"""And so many characters in them, about."""


def entries(session: SessionView, overview: Overview, masker: Masker) -> Iterator[Entry]:
    """All entries in the order in which they began. `overview` is of the same session as it is now;
    what was appended since is left out.

    Raises what `Session.events` raises; a session in mode "read" is read past damage.
    """
    conversation = _Conversation(session, overview, masker)
    yield from conversation.pruned()
    for event in dated_events(session):
        if event.seq > overview.last_seq:
            break
        conversation.take(event)
        yield from conversation.ready()
    yield from conversation.rest()


class _Conversation:
    def __init__(self, session: SessionView, overview: Overview, masker: Masker) -> None:
        self._overview = overview
        self._masker = masker
        self._resolver = Resolver(session)
        self._reducer = Reducer(resident_messages=WINDOW)
        self._state = self._reducer.initial()
        self._book = CallBook(self._shown)
        self._waiting: deque[tuple[Entry, int]] = deque()
        self._characters = 0
        self._runs = iter(overview.runs)
        self._run: RunFacts | None = None
        self._gaps = {gap.last + 1: gap for gap in overview.gaps}

    # -- what comes out -----------------------------------------------------------------------

    def ready(self) -> Iterator[Entry]:
        """Entries that nothing is missing of, or that waited long enough."""
        while self._waiting:
            entry, characters = self._waiting[0]
            is_full = len(self._waiting) > WINDOW or self._characters > WINDOW_CHARACTERS
            if not is_full and isinstance(entry, Said) and self._book.is_open(entry):
                return
            self._waiting.popleft()
            self._characters -= characters
            if isinstance(entry, Said):
                self._book.told(entry)
            yield entry

    def rest(self) -> Iterator[Entry]:
        """What is left at the end of the log."""
        self._cut_off(self._state.partial, self._state.updated_at)
        for gap in self._gaps.values():
            self._add(_gap_mark(gap.first, gap.last))
        for entry, _ in self._waiting:
            yield entry
        for problem in self._resolver.missing:
            yield Mark(seq=0, ts="", kind="gap", title=problem)

    def pruned(self) -> Iterator[Entry]:
        """What the state still holds of a log whose beginning was deleted."""
        first, state = self._overview.first_seq, self._overview.state
        if not self._overview.is_pruned:
            return
        title = f"Events 1 to {first - 1:,} were pruned; what the state still holds follows"
        yield Mark(seq=0, ts="", kind="gap", title=title)
        results = {one.key: one for one in state.messages if one.role == "tool"}
        for message in state.messages:
            if message.seq >= first or message.role == "tool":
                continue
            calls = [state.tool_states[key] for key in message.calls if key in state.tool_states]
            yield Said(
                seq=message.seq,
                ts="",
                role="user" if message.role == "user" else "assistant",
                content=self._shown(message.content),
                run_id=message.run_id,
                calls=[self._book.closed(call, results.get(call.key)) for call in calls],
                is_partial=message.partial,
            )

    # -- what goes in -------------------------------------------------------------------------

    def take(self, event: Event) -> None:
        """One event more."""
        gap = self._gaps.pop(event.seq, None)
        if gap is not None:
            self._add(_gap_mark(gap.first, gap.last))
        before, self._state = self._state, self._reducer.apply(self._state, event)
        if self._state.counts.unreadable > before.counts.unreadable:
            self._mark(event)
            return
        match event.type:
            case "run_started":
                self._run_started(event)
            case "user_message":
                self._say(event, "user", plain_data(event).get("content"))
            case "assistant_message":
                self._replied(event, before)
            case "message_delta":
                pass
            case "run_finished":
                self._run_finished(event, before)
            case kind if kind in CALL_EVENTS:
                self._called(event, before)
            case _:
                self._mark(event)

    def _mark(self, event: Event) -> None:
        self._add(mark_of(event, self._shown, is_hidden=self._is_hidden(event.seq)))

    def _add(self, entry: Entry, size: int = 0) -> None:
        self._waiting.append((entry, size))
        self._characters += size

    def _shown(self, value: Any) -> Any:
        """In full, without its secrets."""
        return self._masker.value(self._resolver.value(value))

    def _is_hidden(self, seq: int) -> bool:
        return is_hidden(self._overview.hidden, seq)

    def _run_started(self, event: Event) -> None:
        if self._run is not None:
            self._add(Ended(self._run))
        self._run = next(self._runs, None)
        if self._run is not None:
            self._add(Began(self._run))
        request = plain_data(event).get("request")
        if request is not None:
            self._say(event, "user", request)

    def _run_finished(self, event: Event, before: SessionState) -> None:
        self._cut_off(before.partial, event.ts)
        if self._run is None:
            title = f"A run that began before ended: {plain_data(event).get('status')}"
            self._add(Mark(seq=event.seq, ts=event.ts, kind="stray", title=title))
            return
        self._add(Ended(self._run))
        self._run = None

    def _cut_off(self, partial: Partial | None, ts: str) -> None:
        """A reply that was being streamed when its run ended."""
        if partial is None:
            return
        text = self._masker.text("".join(partial.chunks))
        said = Said(
            seq=partial.seq,
            ts=ts,
            role="assistant",
            content=text,
            run_id=partial.run_id,
            is_partial=True,
            is_hidden=self._is_hidden(partial.seq),
        )
        self._add(said, len(text))

    def _say(self, event: Event, role: Any, content: Any) -> Said:
        shown = self._shown(content)
        said = Said(
            seq=event.seq,
            ts=event.ts,
            role=role,
            content=shown,
            run_id=event.run_id or "",
            is_hidden=self._is_hidden(event.seq),
            is_proven=event.proven,
        )
        self._add(said, _characters(shown))
        return said

    def _replied(self, event: Event, before: SessionState) -> None:
        data = plain_data(event)
        said = self._say(event, "assistant", data.get("content"))
        said.calls = [self._book.asked(call) for call in changed_calls(before, self._state, event)]
        said.is_partial = data.get("partial") is True
        model = data.get("model")
        said.model = self._masker.text(model) if isinstance(model, str) else ""
        reported = data.get("usage")
        said.usage = usage.from_data(reported if isinstance(reported, dict) else {})
        said.thinking = thinking_in(said.content, self._shown(data.get("raw")))

    def _called(self, event: Event, before: SessionState) -> None:
        changed = changed_calls(before, self._state, event)
        if not changed:
            if plain_data(event).get("key") not in self._book.pruned:
                self._mark(event)
            return
        for call in changed:
            if call.detached and call.key not in before.tool_states:
                said = self._say(event, "program", "")
                said.calls = [self._book.asked(call)]
            size = _characters(plain_data(event).get("output"))
            told = self._book.changed(call, event)
            if told is not None:
                hidden = self._is_hidden(event.seq)
                late = Late(seq=event.seq, ts=event.ts, call=told, is_hidden=hidden)
                self._add(late, size)
            else:
                self._characters += size
                entry, before_it = self._waiting[-1]
                self._waiting[-1] = (entry, before_it + size)


def _gap_mark(first: int, last: int) -> Mark:
    events = f"Event {first:,}" if first == last else f"Events {first:,} to {last:,}"
    return Mark(seq=first, ts="", kind="gap", title=f"{events} cannot be read")


def _characters(value: Any) -> int:
    """About how many characters a value has."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(map(_characters, value.values())) + len(value)
    return sum(map(_characters, value)) if isinstance(value, list) else 8
