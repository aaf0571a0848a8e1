"""The events of a session as they are shown: all of them shortened, those around a seq, or one in
full. What is damaged is passed, and told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from durasess.cli import options, salvage
from durasess.cli.blocks import Column, Listing, Row, number, shortened, span
from durasess.cli.examine import Inspected
from durasess.cli.masking import Masker
from durasess.engine import codec, files, paths
from durasess.engine.records import Record
from durasess.engine.scan import Scan

DATA_WIDTH = 72
"""Characters of an event's data in a line of the list."""

TYPE_WIDTH = 18


class Around(msgspec.Struct, frozen=True):
    """The events up to `context` before and behind `seq` that can be read."""

    seq: int
    context: int
    events: list[dict[str, Any]]


def columns(highest: int) -> tuple[Column, ...]:
    """The columns of a list of events up to seq `highest`."""
    return (
        Column("seq", right=True, width=max(len("seq"), len(number(highest)))),
        Column("time", width=27),
        Column("type", width=TYPE_WIDTH),
        Column("bytes", right=True, width=9),
        Column("data", width=DATA_WIDTH),
    )


def row(value: dict[str, Any]) -> Row:
    """An event, as `values` gives it, in one line of the list."""
    if value["seq"] is None:
        return Row(("", "", "not readable", "", value["problem"]), "bad")
    if "problem" in value:
        size = number(value["bytes"])
        return Row((number(value["seq"]), "", "not readable", size, value["problem"]), "bad")
    mark = value.get("mark")
    said = f"[{mark}] " if mark else ""
    said += codec.encode(value["data"]).decode("utf-8", "surrogatepass")
    kind = shortened(value["type"], TYPE_WIDTH)
    cells = (
        number(value["seq"]),
        value["ts"],
        kind,
        number(value["bytes"]),
        shortened(said, DATA_WIDTH),
    )
    return Row(cells, "warn" if mark else "plain")


def listing(found: Inspected, masker: Masker) -> Listing:
    """Every event that can be read, one a line, read while it is printed."""
    return Listing("events", columns(found.last_seq), map(row, values(found, masker)))


def values(found: Inspected, masker: Masker) -> Iterator[dict[str, Any]]:
    """Every event that can be read, as JSON readers get it."""
    source = reading(found)
    for scan, record in source.records(numbers(found, 1)):
        yield _value(scan, record, masker)
    for problem in _vanished(source):
        yield {"seq": None, "problem": problem}


def around(found: Inspected, seq: int, context: int, masker: Masker) -> Around:
    """The events around a seq."""
    near = _between(found, seq - context, seq + context)
    return Around(seq, context, [_value(scan, record, masker) for scan, record in near])


def around_listing(near: Around, found: Inspected) -> Listing:
    """The same, one a line; an arrow shows the one that was asked for."""
    rows = []
    for value in near.events:
        plain = row(value)
        is_it = value["seq"] == near.seq
        tone = "good" if is_it and plain.tone == "plain" else plain.tone
        rows.append(Row((">" if is_it else "", *plain.cells), tone))
    title = f"events around seq {number(near.seq)}"
    return Listing(title, (Column("", width=1), *columns(found.last_seq)), rows)


def one(found: Inspected, seq: int, masker: Masker) -> dict[str, Any] | None:
    """The event `seq` in full; None when it cannot be read."""
    for scan, record in _between(found, seq, seq):
        return _value(scan, record, masker)
    return None


def check_reached(found: Inspected, *seqs: int) -> None:
    """UsageError when the session never had one of these seqs. Where something is damaged, nobody
    knows how far it reached."""
    highest = max(seqs)
    if highest > found.last_seq and not found.damage and found.problem is None:
        held = "no events"
        if found.first_seq <= found.last_seq:
            held = f"seq {span(found.first_seq, found.last_seq)}"
        raise options.UsageError(f"there is no seq {highest} in {found.path}: it holds {held}.")


def why_not_readable(found: Inspected, seq: int) -> str:
    """Why there is no event `seq` to show."""
    if seq < found.first_seq and not found.damage:
        return "The event cannot be read any more: its segment was pruned."
    return "The event cannot be read: what is damaged is listed above."


def reading(found: Inspected) -> salvage.Reading:
    """A pass over the segments."""
    return salvage.Reading(files.RealFiles(), found.path, found.session_id)


def numbers(found: Inspected, seq: int) -> list[int]:
    """The segments that are there, but not those that are known to end before `seq`."""
    return sorted({one.number for one in found.segments if not 0 < one.last_seq < seq})


def _between(found: Inspected, first: int, last: int) -> Iterator[tuple[Scan, Record]]:
    for scan, record in reading(found).records(numbers(found, max(1, first))):
        if record.seq > last:
            return
        if record.seq >= first:
            yield scan, record


def _vanished(source: salvage.Reading) -> list[str]:
    """What could not be opened, mostly because a writer pruned it meanwhile."""
    return [str(one) for one in source.found.damage if one.rule == salvage.UNREADABLE]


def _value(scan: Scan, record: Record, masker: Masker) -> dict[str, Any]:
    """What is in an event's line, and where that line is."""
    event, problem = salvage.event_of(record)
    said = options.fields(event) if event is not None else {"seq": record.seq, "problem": problem}
    return {
        **masker.value(said),
        "segment": paths.segment(scan.number),
        "offset": record.offset,
        "bytes": len(record.line) + 1,
        "mark": _mark(scan, record) or None,
    }


def _mark(scan: Scan, record: Record) -> str:
    if any(record is kept for kept in scan.kept):
        return "lacks its line feed"
    return "" if record.proven else "not proven"
