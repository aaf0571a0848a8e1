"""The importer of this library's own JSONL exports (jsonl.py).

One event for each line; the session gets an id of its own, and what names an event by its seq names
the one that it became. Of a damaged or pruned session what the export holds is imported.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import Any

from durasess.engine.scratch import Scratch
from durasess.engine.types import Draft, Event
from durasess.errors import DurasessError
from durasess.interop import jsonl, places
from durasess.interop.aside import Ids, Numbers
from durasess.interop.beside import FOREIGN
from durasess.interop.importer import (
    AtLine,
    End,
    Identity,
    KeyOf,
    Line,
    Lines,
    Mapped,
    Taken,
    dicts,
    kept,
    member,
    reported,
    session_id_for,
    text,
)
from durasess.session import events
from durasess.session.pairing import call_place
from durasess.session.when import happened_at


class OwnLines:
    """The importer."""

    name = "durasess"

    def find(self, root: str | None, environment: Mapping[str, str]) -> Iterator[str]:
        """All files below `root`; exports lie nowhere by default."""
        if root is not None:
            yield from places.files_below(root, (".jsonl", ".jsonl.zst"))

    def recognizes(self, first: list[Any]) -> bool:
        """By the format that the first line names."""
        return bool(first) and first[0].get("format") == jsonl.FORMAT

    def identify(self, path: str, first: list[Any]) -> Identity:
        """By the first line, and the event that made the session."""
        try:
            jsonl.check_head(first[0])
        except DurasessError as error:
            raise ValueError(str(error)) from None
        created: Any = next((one for one in first if one.get("type") == "session_created"), {})
        labels = member(created, "data", "labels")
        version = member(created, "data", "custom_version")
        return Identity(
            foreign_id=text(first[0].get("session_id")) or "unnamed",
            parent=text(member(created, "data", "parent")),
            title=text(member(created, "data", "title")),
            labels={
                name: value
                for name, value in (labels if isinstance(labels, dict) else {}).items()
                if isinstance(value, str)
            },
            user_id=text(member(created, "data", "user_id")),
            # An export that begins later does not say which version its events have.
            custom_version=(version if type(version) is int else 1) if created else 0,
        )

    def read(self, lines: Lines) -> Iterator[Mapped]:
        """One event for each line that is one."""
        reading = _Reading(lines.scratch)
        for line in lines:
            if isinstance(line, End):
                continue
            yield reported(line) if line.problem else reading.mapped(line)


class _Reading:
    def __init__(self, scratch: Scratch) -> None:
        self._schema = events.SCHEMA_VERSION
        self._seqs = Numbers(scratch)
        self._lines = Numbers(scratch)
        self._event_ids = Ids(scratch)

    def mapped(self, line: Line) -> Mapped:
        item = line.item
        if item.get("format") == jsonl.FORMAT:
            self._schema = jsonl.check_head(item)
            return kept(line, "the head of the export")
        if "end" in item:
            return kept(line, "the end of the export")
        try:
            event = jsonl.event_of(item, line.number, self._schema)
        except DurasessError as error:
            line.problem = str(error)
            return reported(line)
        self._seqs.append(event.seq)
        self._lines.append(line.number)
        if event.type == "session_created":
            return kept(line, "the session has an event of its own for it")
        if event.type == "checkpoint":
            return kept(line, "where a loop stood elsewhere says nothing of what is done here")
        return self._event(line, event)

    def _event(self, line: Line, event: Event) -> Mapped:
        if not isinstance(event.data, dict):
            return kept(line, "its data is no object")
        data = {**event.data, "at": happened_at(event)}
        # What was beside it stays in its line, which is beside the event here.
        data.pop(FOREIGN, None)
        if event.type in events.TYPES:
            self._point_anew(data)
            _name_anew(event.type, data)
        if event.type == "run_started":
            # Importers always say it; the record leaves out what is left at its default.
            data.setdefault("request", None)
        if line.masked:
            _note_masked(data, line)
        draft = Draft(event.type, data, event.run_id, event.call_id, self._event_id(line, event))
        taken = tuple(
            Taken(("data", name), (name,))
            for name, value in data.items()
            if value is member(line.item, "data", name)
        )
        return Mapped(line, [draft], taken=taken)

    def _event_id(self, line: Line, event: Event) -> str | None:
        """Its own, once: the log takes an event id for one event."""
        if event.event_id is None:
            return None
        hashed = hash(event.event_id)
        if self._event_ids.get(hashed) is not None:
            line.note = "its event_id is that of an event before it, and was left out"
            return None
        self._event_ids.put(hashed, line.number)
        return event.event_id

    def _point_anew(self, data: dict[str, Any]) -> None:
        for name in ("to", "through", "parent_seq"):
            # A parent's seq of 0 is none.
            if type(data.get(name)) is int and (data[name] or name != "parent_seq"):
                data[name] = AtLine(self._line_of(data[name]))
        if (key := self._key(data.get("key"))) is not None:
            data["key"] = key
        if data.get("again") and isinstance(data.get("tool_calls"), list):
            data["tool_calls"] = [self._asked(one) for one in data["tool_calls"]]

    def _key(self, key: Any) -> KeyOf | None:
        place = call_place(str(key or ""))
        return None if place is None else KeyOf(self._line_of(place[0]), place[1])

    def _asked(self, asked: Any) -> Any:
        """A call that was asked for before, too."""
        key = self._key(member(asked, "earlier"))
        return asked if key is None else {**asked, "earlier": key}

    def _line_of(self, seq: int) -> int:
        """The line of an event, or of the last one before it; 0 when there is none."""
        at = bisect_right(self._seqs, seq)
        return self._lines[at - 1] if at else 0


_SESSION_IN = {
    "session_changed": "parent",
    "child_started": "session_id",
    "child_finished": "session_id",
}
"""What names another session, by the type of event."""


def _name_anew(type: str, data: dict[str, Any]) -> None:
    """Other sessions have the ids that imports of their exports have."""
    name = _SESSION_IN.get(type, "")
    if text(data.get(name)):
        data[name] = session_id_for(OwnLines.name, data[name])


def _note_masked(data: dict[str, Any], line: Line) -> None:
    """A call says by itself which of its arguments are not the originals."""
    calls = [dict(one) for one in dicts(data.get("tool_calls"))]
    for index, asked in enumerate(calls):
        lead = f"$.data.tool_calls[{index}].arguments"
        paths = ["$" + one.removeprefix(lead) for one in line.masked if one.startswith(lead)]
        if paths:
            asked["masked"] = [*asked.get("masked", ()), *paths]
    if calls:
        data["tool_calls"] = calls
