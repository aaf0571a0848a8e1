"""Foreign lines beside the events that were made of them. No effects.

A part of a line that is in its event's data unchanged is not kept twice: the entry says where.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from durasess.engine import codec, values
from durasess.engine.types import MAX_EVENT_BYTES, Draft
from durasess.errors import EventRejectedError
from durasess.interop.importer import Line, Mapped, Path, Taken

_ENVELOPE = 4096
"""Bytes of an event line beside its data, at most."""

FOREIGN = "foreign"
"""The member of an event's data with foreign lines, and the type of an event that is only them."""


def foreign_entries(data: Any) -> list[dict[str, Any]]:
    """The foreign lines beside an event: `{"line", "item"}`, or "text" or "bytes" instead of "item"
    where it could not be read; `taken` are the parts that stand elsewhere in the data."""
    found = data.get(FOREIGN) if isinstance(data, dict) else None
    if not isinstance(found, list):
        return []
    return [one for one in found if isinstance(one, dict) and isinstance(one.get("line"), int)]


def entry_of(mapped: Mapped, data: dict[str, Any]) -> dict[str, Any]:
    """What is kept of a line beside the event with this data."""
    line = mapped.line
    entry: dict[str, Any] = {"line": line.number}
    if line.problem:
        return entry | as_text(line)
    if mapped.again:
        return {**entry, "again": True}
    item = line.item
    for taken in mapped.taken:
        if _at(data, taken.place) is _at(item, taken.part):
            item = _without(item, taken.part)
            entry.setdefault("taken", []).append(
                {"part": list(taken.part), "place": list(taken.place)}
            )
    entry["item"] = item
    if line.text is not None:
        entry |= as_text(line)
    return entry


def encoded_entry(mapped: Mapped, data: dict[str, Any]) -> bytes:
    """The same as JSON. What was decoded and encoded already is not encoded again."""
    line = mapped.line
    if not line.encoded or mapped.again:
        return codec.encode(entry_of(mapped, data))
    item = line.item
    taken = []
    for one in mapped.taken:
        if _at(data, one.place) is _at(item, one.part):
            item = _without(item, one.part)
            taken.append(_encoded_taken(one))
    if taken:
        rest = codec.encode(item)
        return b'{"line":%d,"taken":[%s],"item":%s}' % (line.number, b",".join(taken), rest)
    return b'{"line":%d,"item":%s}' % (line.number, line.encoded)


@lru_cache(maxsize=256)
def _encoded_taken(taken: Taken) -> bytes:
    return codec.encode({"part": list(taken.part), "place": list(taken.place)})


def as_text(line: Line) -> dict[str, Any]:
    """The line as it stood in the file."""
    return {"bytes" if isinstance(line.text, bytes) else "text": line.text}


def _at(value: Any, path: Path) -> Any:
    """What is there; something that is nowhere when there is nothing."""
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return object()
    return value


def _without(value: Any, path: Path) -> Any:
    """A copy without the member at `path`; an element of an array becomes null."""
    whole: Any = dict(value) if isinstance(value, dict) else list(value)
    inside = whole
    for step in path[:-1]:
        one = inside[step]
        inside[step] = one = dict(one) if isinstance(one, dict) else list(one)
        inside = one
    if isinstance(inside, dict):
        del inside[path[-1]]
    else:
        inside[path[-1]] = None
    return whole


def size_of(line: Line) -> int:
    """Its length in bytes; beyond any threshold where something in it looks like a reference and
    must be escaped."""
    raw = line.raw
    # A look for one byte takes no time.
    is_escaped = b"$" in raw and b"$blob" in raw
    return MAX_EVENT_BYTES if is_escaped else len(raw)


def note_masked(draft: Draft, line: Line) -> None:
    """Say in the event what was masked on its line, unless the calls of the line say it."""
    calls = draft.data.get("tool_calls", ())
    if not any("masked" in call for call in calls):
        draft.data.setdefault("masked", []).extend(line.masked)


def with_entries(data: dict[str, Any], entries: list[dict[str, Any]]) -> dict[str, Any]:
    """The data with the lines beside it."""
    return {**data, FOREIGN: entries} if entries else data


def problem_of(data: dict[str, Any]) -> str | None:
    """Why an event with this data cannot be stored; None when it can."""
    try:
        size = len(codec.encode(values.plain(data)))
    except EventRejectedError as error:
        return str(error)
    limit = MAX_EVENT_BYTES - _ENVELOPE
    return None if size <= limit else f"it makes an event of {size} bytes, {limit} is the most"
