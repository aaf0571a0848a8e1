"""One pass over a session's log that finds what an overview says.

Memory grows with the number of runs, not of messages. Changes nothing and goes on past damage; the
messages themselves are read in a second pass (conversation.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from durasess.engine.types import Event
from durasess.interop.entries import RunFacts
from durasess.interop.importer import dicts, text
from durasess.interop.overview import Bar, Gap, Overview, Point
from durasess.interop.recording import position_of
from durasess.interop.visible import foreign_time, seconds
from durasess.session.masking import Masker
from durasess.session.pairing import call_key
from durasess.session.reducer import Reducer
from durasess.session.residency import hide, is_hidden
from durasess.session.state import ANSWERABLE_CALLS, CallStatus, Meta, SessionState, ToolState
from durasess.session.view import SessionView

BARS_OF_A_RUN = 200
"""Calls that a picture can show of one run; of more, the longest."""

POINTS = 1200
"""Model calls that a picture can show; of more, neighbours are put together."""

_RESIDENT = 40

_FOUND_LATER = frozenset(["tool_recovery", "run_finished", "child_finished"])
"""What may be written long after it happened, by whoever found it out."""


def look(session: SessionView, masker: Masker) -> Overview:
    """Everything that a page says at its top; `session` may be open in mode "read".

    Raises StorageError when the disk refuses, CorruptionError only for a session that is not open
    in mode "read".
    """
    survey = _Survey(session, masker)
    for event in dated_events(session):
        survey.take(event)
    return survey.done()


def events_of(session: SessionView) -> Iterator[Event]:
    """All events that are left and can be read, from the oldest."""
    return session.events(after=session.core.engine.first_seq - 1)


def dated_events(session: SessionView) -> Iterator[Event]:
    """The same, with the times at which things happened: of what was imported the log knows only
    when that was done, and its data when the foreign file says it was; "" where it does not."""
    position = position_of(session.core)
    imported = position.seq if position is not None else 0
    at = ""
    for event in events_of(session):
        if event.seq > imported:
            yield event
            continue
        # What the file gives no time for happened after what stands before it.
        at = foreign_time(plain_data(event).get("at")) or at
        yield replace(event, ts=at)


class _Survey:
    def __init__(self, session: SessionView, masker: Masker) -> None:
        self._session = session
        self._masker = masker
        # Few messages in it: here only runs, calls and sums count.
        self._reducer = Reducer(resident_messages=_RESIDENT)
        self._state = self._reducer.initial()
        state = session.state
        meta = msgspec.convert(masker.value(msgspec.to_builtins(state.meta)), Meta)
        model = state.runtime_config.get("model")
        self._made = Overview(
            session_id=session.session_id,
            title=meta.title,
            meta=meta,
            model=masker.text(model) if isinstance(model, str) else "",
            state=state,
            first_seq=session.core.engine.first_seq,
            last_seq=session.last_seq,
        )
        self._expected = self._made.first_seq
        self._merged = 1
        self._worked_until = ""
        self._waiting: list[Point] = []
        self._known: set[str] = set()

    def take(self, event: Event) -> None:
        """One event more."""
        made = self._made
        if event.seq > self._expected:
            made.gaps.append(Gap(self._expected, event.seq - 1))
        self._expected = event.seq + 1
        made.events += 1
        made.started_at = made.started_at or event.ts
        made.ended_at = event.ts
        before, self._state = self._state, self._reducer.apply(self._state, event)
        match event.type:
            case "run_started":
                self._run_began(event)
            case "run_finished":
                self._run_ended(event)
            case "assistant_message" | "usage_recorded":
                self._used(event, before)
            case "context_compacted":
                made.passed_at += _known(event.ts)
            case "rewound" if len(self._state.hidden) and self._state.hidden != before.hidden:
                first = self._state.hidden[-1][0]
                made.hidden = hide(made.hidden, first, event.seq)
        if event.type == "assistant_message" and plain_data(event).get("again") is True:
            self._asked_again(before, plain_data(event).get("tool_calls"), event.seq)
        for call in changed_calls(before, self._state, event):
            self._call_changed(call, before.tool_states.get(call.key), event)
        if event.type not in _FOUND_LATER:
            self._worked_until = event.ts
            if made.runs and made.runs[-1].status == "running":
                made.runs[-1].worked_until = event.ts

    def _run_began(self, event: Event) -> None:
        runs = self._made.runs
        if runs and runs[-1].status == "running":
            runs[-1].status, runs[-1].finished_at = "interrupted", event.ts
        run = self._state.runs[-1] if self._state.runs else None
        if run is None or run.seq != event.seq:
            return
        runs.append(
            RunFacts(
                number=len(runs) + 1,
                run_id=self._masker.text(run.run_id),
                seq=run.seq,
                started_at=event.ts,
                request=self._masker.text(run.request),
                resumes=self._masker.text(run.resumes),
                code_version=self._masker.text(run.code_version),
                is_again=run.again,
            )
        )

    def _run_ended(self, event: Event) -> None:
        run = self._state.runs[-1] if self._state.runs else None
        facts = self._made.runs[-1] if self._made.runs else None
        if run is None or facts is None or facts.seq != run.seq or run.status == "running":
            return
        facts.status, facts.finished_at = run.status, event.ts
        if run.status != "interrupted":
            facts.worked_until = event.ts
        reason = run.error or plain_data(event).get("reason", "")
        facts.reason = self._masker.text(reason) if isinstance(reason, str) else ""

    def _used(self, event: Event, before: SessionState) -> None:
        """A point of the picture, and what the run has used."""
        used, so_far = before.usage, self._state.usage
        self._made.usage = so_far
        if self._made.runs and self._state.runs:
            self._made.runs[-1].usage = self._state.runs[-1].usage
            self._made.runs[-1].messages = self._state.runs[-1].messages
            self._made.runs[-1].is_again = self._state.runs[-1].again
        at = seconds(event.ts)
        if at is None or so_far == used:
            return
        self._waiting.append(Point(at, so_far.prompt - used.prompt, so_far.total))
        if len(self._waiting) == self._merged:
            self._made.points.append(_merged(self._waiting))
            self._waiting = []
        if len(self._made.points) > POINTS:
            points = self._made.points
            self._made.points = [_merged(points[at : at + 2]) for at in range(0, len(points), 2)]
            self._merged *= 2

    def _asked_again(self, before: SessionState, calls: Any, seq: int) -> None:
        """A call that an import says once more is one: it goes on, or has ended and is known."""
        for index, asked in enumerate(dicts(calls)):
            was = before.tool_states.get(text(asked.get("earlier")))
            if was is None:
                self._known.add(call_key(seq, index))
                continue
            for outcomes in (self._made.outcomes, self._outcomes_of_run(was)):
                outcomes[was.status] = outcomes.get(was.status, 0) - 1

    def _call_changed(self, call: ToolState, was: ToolState | None, event: Event) -> None:
        if call.key in self._known:
            return
        for outcomes in (self._made.outcomes, self._outcomes_of_run(call)):
            if was is not None:
                outcomes[was.status] = outcomes.get(was.status, 0) - 1
            outcomes[call.status] = outcomes.get(call.status, 0) + 1
        has_ended = call.started_at and call.status not in ("pending", "running", "waiting")
        if has_ended and self._made.runs:
            self._draw(call, event)

    def _outcomes_of_run(self, call: ToolState) -> dict[str, int]:
        for run in reversed(self._made.runs[-3:]):
            if call.run_id == run.run_id:
                return run.outcomes
        return {}

    def _draw(self, call: ToolState, event: Event) -> None:
        """One without a result reaches as far as somebody worked, also when it is settled later."""
        is_end = event.type == "tool_result"
        begins = seconds(call.started_at)
        ends = seconds(event.ts if is_end else self._worked_until)
        if begins is None or ends is None:
            return
        bars = self._made.bars.setdefault(self._run_at(call.started_seq), [])
        known = [one for one in bars if one.key == call.key]
        if known and not is_end:
            ends = known[0].ends
        bars[:] = [one for one in bars if one.key != call.key]
        name = self._masker.text(call.name)
        bars.append(Bar(call.key, begins, max(ends, begins), call.status, name))
        if len(bars) > 2 * BARS_OF_A_RUN:
            bars.sort(key=lambda bar: bar.begins - bar.ends)
            del bars[BARS_OF_A_RUN:]

    def _run_at(self, seq: int) -> int:
        for run in reversed(self._made.runs):
            if run.seq <= seq:
                return run.number
        return 0

    def done(self) -> Overview:
        """What was seen, with what only its end tells."""
        made = self._made
        if self._waiting:
            made.points.append(_merged(self._waiting))
        made.last_seq = max(made.last_seq, self._expected - 1)
        if self._expected <= self._session.last_seq:
            made.gaps.append(Gap(self._expected, self._session.last_seq))
        made.messages = made.state.counts.messages
        if made.is_pruned:
            made.usage = made.state.usage
            for run in made.runs:
                run.number += max(made.state.counts.runs - len(made.runs), 0)
            shift = made.runs[0].number - 1 if made.runs else 0
            made.bars = {number + shift: bars for number, bars in made.bars.items()}
        for run in made.runs:
            run.is_hidden = is_hidden(made.hidden, run.seq)
            run.outcomes = {name: count for name, count in run.outcomes.items() if count > 0}
        made.outcomes = {name: count for name, count in made.outcomes.items() if count > 0}
        made.title = made.title or (made.runs[0].request[:80] if made.runs else "")
        engine = self._session.core.engine
        made.damage = list(dict.fromkeys(map(str, [*engine.recovery.damage, *engine.damage])))
        made.notices = list(dict.fromkeys([*self._session.notices, *engine.recovery.notices]))
        return made


def changed_calls(before: SessionState, after: SessionState, event: Event) -> list[ToolState]:
    """The calls that are new or not as they were before an event."""
    old, new = before.tool_states, after.tool_states
    if old is new:
        return []
    changed = [call for key, call in new.items() if old.get(key) is not call]
    if event.type in ("tool_result", "tool_recovery"):
        changed += _taken_out(old, new, event)
    return changed


def _taken_out(
    old: dict[str, ToolState], new: dict[str, ToolState], event: Event
) -> Iterator[ToolState]:
    """A late result takes its call out of the state; others may leave it at the same time."""
    data = plain_data(event)
    ended: CallStatus = "completed" if data.get("ok", True) is not False else "failed"
    for key, call in old.items():
        if key in new or call.status not in ANSWERABLE_CALLS:
            continue
        if data.get("key") == key or (not data.get("key") and event.call_id == call.call_id):
            yield replace(call, status=ended)


def _known(ts: str) -> list[float]:
    at = seconds(ts)
    return [] if at is None else [at]


def _merged(points: list[Point]) -> Point:
    last = points[-1]
    return Point(last.at, max(one.prompt for one in points), last.total)


def plain_data(event: Event) -> dict[str, Any]:
    """The data of an event of a known type, {} when it is no object."""
    return event.data if isinstance(event.data, dict) else {}
