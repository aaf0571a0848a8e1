"""The events of a session for `durasess inspect`: all of them shortened, or one in full."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from durasess.cli import options, salvage
from durasess.cli.blocks import Block, Column, Listing, Notes, Row, Value, number, span
from durasess.cli.examine import Inspected
from durasess.engine import codec, files, paths
from durasess.engine.records import Record
from durasess.engine.scan import Scan
from durasess.engine.types import LineError

DATA_WIDTH = 72
"""Characters of an event's data in a line of the list."""

TYPE_WIDTH = 18

_NO_STATE = (
    "The state after this seq cannot be shown: folding events takes the program's own apply "
    "function, and no snapshot is of exactly this seq."
)


class One(msgspec.Struct, kw_only=True):
    """What can be said of one seq without the program: its event, None when it cannot be read,
    and the state when the snapshot `snapshot` is of exactly this seq."""

    seq: int
    event: dict[str, Any] | None = None
    snapshot: str | None = None
    state: Any = None
    remarks: list[str] = msgspec.field(default_factory=list)


def listing(found: Inspected) -> Listing:
    """Every event that can be read, one a line, read while it is printed."""
    columns = (
        Column("seq", right=True, width=max(len("seq"), len(number(found.last_seq)))),
        Column("time", width=27),
        Column("type", width=TYPE_WIDTH),
        Column("bytes", right=True, width=9),
        Column("data", width=DATA_WIDTH),
    )
    return Listing("events", columns, _rows(found))


def values(found: Inspected) -> Iterator[dict[str, Any]]:
    """Every event that can be read, as JSON readers get it."""
    reading = _reading(found)
    for scan, record in reading.records(_numbers(found, 1)):
        yield _value(scan, record)
    for problem in _vanished(reading):
        yield {"seq": None, "problem": problem}


def one(found: Inspected, seq: int) -> One:
    """The event and, from a snapshot, the state at `seq`. UsageError when there is no such seq."""
    at = One(seq=seq)
    for scan, record in _reading(found).records(_numbers(found, seq)):
        if record.seq == seq:
            at.event = _value(scan, record)
            break
    for snapshot in found.snapshots:
        if snapshot.seq == seq and snapshot.reason is None and at.snapshot is None:
            _add_state(at, found, snapshot.name)
    if at.snapshot is None:
        at.remarks.append(_NO_STATE)
    if at.event is None:
        _explain(at, found)
    return at


def blocks(at: One) -> Iterator[Block]:
    """What there is to see of one seq."""
    if at.event is not None:
        yield Value(f"event {number(at.seq)}", at.event)
    if at.snapshot is not None:
        yield Value(f"state after event {number(at.seq)}, from {at.snapshot}", at.state)
    if at.remarks:
        yield Notes(f"about seq {number(at.seq)}", at.remarks)


def _add_state(at: One, found: Inspected, name: str) -> None:
    try:
        at.state = salvage.state_of(files.RealFiles(), found.path, name, found.session_id)
        at.snapshot = name
    except (OSError, LineError) as error:
        at.remarks.append(f"{name} can no longer be read: {error}")


def _explain(at: One, found: Inspected) -> None:
    if found.damage or found.problem is not None:
        at.remarks.append("The event cannot be read: what is damaged is listed above.")
    elif at.snapshot is not None:
        at.remarks.append("The event cannot be read any more: its segment was pruned.")
    else:
        held = "no events"
        if found.first_seq <= found.last_seq:
            held = f"seq {span(found.first_seq, found.last_seq)}"
        raise options.UsageError(f"there is no seq {at.seq} in {found.path}: it holds {held}.")


def _reading(found: Inspected) -> salvage.Reading:
    return salvage.Reading(files.RealFiles(), found.path, found.session_id)


def _numbers(found: Inspected, seq: int) -> list[int]:
    """The segments that are there, but not those that are known to end before `seq`."""
    return sorted({one.number for one in found.segments if not 0 < one.last_seq < seq})


def _vanished(reading: salvage.Reading) -> list[str]:
    """What could not be opened, mostly since a writer pruned it in this moment."""
    return [str(one) for one in reading.found.damage if one.rule == salvage.UNREADABLE]


def _rows(found: Inspected) -> Iterator[Row]:
    reading = _reading(found)
    for scan, record in reading.records(_numbers(found, 1)):
        event, problem = salvage.event_of(record)
        mark = _mark(scan, record)
        size = number(len(record.line) + 1)
        if event is None:
            yield Row((number(record.seq), "", "not readable", size, problem), "bad")
            continue
        said = f"[{mark}] " if mark else ""
        said += codec.encode(event.data).decode("utf-8", "surrogatepass")
        cells = (number(event.seq), event.ts, _cut(event.type, TYPE_WIDTH), size)
        yield Row((*cells, _cut(said, DATA_WIDTH)), "warn" if mark else "plain")
    for problem in _vanished(reading):
        yield Row(("", "", "not readable", "", problem), "bad")


def _value(scan: Scan, record: Record) -> dict[str, Any]:
    """What is in an event's line, and where that line is."""
    event, problem = salvage.event_of(record)
    said = options.fields(event) if event is not None else {"seq": record.seq, "problem": problem}
    return {
        **said,
        "segment": paths.segment(scan.number),
        "offset": record.offset,
        "bytes": len(record.line) + 1,
        "mark": _mark(scan, record) or None,
    }


def _mark(scan: Scan, record: Record) -> str:
    if any(record is kept for kept in scan.kept):
        return "lacks its line feed"
    return "" if record.proven else "not proven"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
