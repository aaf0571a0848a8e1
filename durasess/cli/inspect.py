"""`durasess inspect`: show what is on disk. Never changes anything, goes on past damage."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from typing import Any

from durasess.cli import options, salvage
from durasess.cli.examine import FileInfo, Inspected, SegmentLook, examine
from durasess.cli.output import (
    DAMAGE,
    SOUND,
    UNREADABLE,
    Block,
    Column,
    Fact,
    Facts,
    Listing,
    Notes,
    Output,
    Row,
    Table,
    Tone,
    Value,
    count,
    number,
)
from durasess.engine import codec, files, paths
from durasess.engine.scan import Record, Scan
from durasess.engine.types import LineError

STATUS = {"sound": SOUND, "torn tail": SOUND, "damage": DAMAGE, "unreadable": UNREADABLE}
TONE: dict[str, Tone] = {
    "sound": "good",
    "torn tail": "warn",
    "damage": "bad",
    "unreadable": "bad",
}

DATA_WIDTH = 72
"""Characters of an event's data in a line of `--events`."""

_SEGMENT_COLUMNS = (
    Column("segment"),
    Column("bytes", right=True),
    Column("events", right=True),
    Column("seq"),
    Column("state"),
)


def add_to(verbs: options.Verbs) -> None:
    """Declare the verb."""
    parser = options.add_verb(
        verbs,
        "inspect",
        run,
        summary="Show what is on disk of a session, damaged or not.",
        more="Changes nothing and may run beside a writer. Exit status: 0 sound (a torn tail is\n"
        "sound: the next open sets it aside), 1 damage, 2 usage, 3 not readable.",
        example="durasess inspect ~/.myagent/sessions/a1 --events | less",
    )
    parser.add_argument("path", metavar="PATH", help="the session's directory")
    parser.add_argument("--events", action="store_true", help="list the events, data shortened")
    parser.add_argument(
        "--at",
        metavar="SEQ",
        type=options.positive,
        help="show the event with this seq in full, and the state if a snapshot is of this seq",
    )


def run(chosen: argparse.Namespace, output: Output) -> int:
    """Look and print; the status tells the health."""
    directory = options.directory(chosen.path)
    found = examine(directory)
    at = None if chosen.at is None else _At(directory, found, chosen.at)
    if at is not None and not at.is_possible:
        raise options.UsageError(at.problem)
    items = (lambda: ("events", _event_values(found))) if chosen.events else None
    output.report(
        found if at is None else {**options.fields(found), "at": at.fields()},
        lambda: _blocks(found, at, chosen.events),
        items,
    )
    return STATUS[found.health]


# -- the report ---------------------------------------------------------------------------------


def _blocks(found: Inspected, at: _At | None, with_events: bool) -> Iterator[Block]:
    yield Facts("", list(_facts(found)))
    if found.segments:
        rows = [Row(_segment_cells(one), _segment_tone(one)) for one in found.segments]
        yield Table("", _SEGMENT_COLUMNS, rows)
    if found.problem is not None:
        yield Notes("not readable as a whole; each file was read by itself", [found.problem], "bad")
    if found.damage:
        yield Notes("damage", [str(one) for one in found.damage], "bad")
    if found.notices:
        yield Notes("notices", found.notices, "warn")
    for title, listed in (
        ("quarantine", found.quarantine),
        ("other files of the session", found.others),
        ("left over from a publish that was cut short, never read", found.leftovers),
        ("foreign files, never touched", found.foreign),
    ):
        if listed:
            yield Notes(title, [_file_line(one) for one in listed])
    if with_events:
        yield Listing("events", _event_columns(found), _event_rows(found))
    if at is not None:
        yield from at.blocks()


def _facts(found: Inspected) -> Iterator[Fact]:
    created = f", created {_second(found.created)}" if found.created else ""
    yield Fact("session", found.session_id, f"format {found.format}{created}")
    yield Fact("health", found.health, _health_note(found), TONE[found.health])
    yield Fact("lock", *_lock_words(found))
    yield Fact("path", found.path)
    kind = found.file_system
    if kind.kind:
        remark = f", {kind.remark}" if kind.remark else ""
        yield Fact("file system", kind.kind, f"mounted at {kind.mount}{remark}")
    for snapshot in found.snapshots:
        if snapshot.reason is not None:
            note = f"{snapshot.name}: {snapshot.reason}"
            yield Fact("snapshot", "not valid", note, "bad")
            continue
        label = "snapshot" if paths.parse(snapshot.name).kind == "snapshot" else "previous"
        sizes = f"{number(snapshot.bytes)} bytes, {number(snapshot.document_bytes)} unpacked"
        yield Fact(label, f"seq {number(snapshot.seq)}", sizes)
    if not found.snapshots:
        yield Fact("snapshot", "none", "replay starts at the first event")
    if found.last_seq < found.first_seq:
        yield Fact("events", "none")
    else:
        span = _span(found.first_seq, found.last_seq)
        yield Fact("events", span, f"{number(found.after_snapshot)} after the snapshot")


def _health_note(found: Inspected) -> str:
    if found.health == "unreadable":
        return "see below"
    if found.torn is not None and not found.damage:
        where = f"{count(found.torn.size, 'byte')} of {paths.base(found.torn.path)}"
        if found.lock.held:
            return f"{where} are being written"
        if found.torn.kept:
            return f"opening would complete {where}: only the line feed is missing"
        return f"opening would set aside {where}: {found.torn.reason}"
    if found.damage:
        return f"{count(len(found.damage), 'finding')}, listed below; nothing was changed"
    if found.segments and found.segments[-1].states[:1] == ["active"]:
        return "open in a writer" if found.lock.held else "not closed: the next open seals the log"
    return "closed cleanly" if not found.lock.held else "open in a writer"


def _lock_words(found: Inspected) -> tuple[str, str]:
    if not found.lock.present:
        return "no lock file", "the next open makes it"
    if found.lock.held is None:
        return "unknown", "the lock file cannot be read"
    if not found.lock.held:
        return "not held", "the lock file is present, nobody holds it"
    return "held", f"by {found.lock.holder or 'a writer that did not say who it is'}"


def _segment_cells(one: SegmentLook) -> tuple[str, ...]:
    events = number(one.events) if one.events else "-"
    span = _span(one.first_seq, one.last_seq) if one.events else "-"
    return one.name, number(one.bytes), events, span, ", ".join(one.states)


def _segment_tone(one: SegmentLook) -> Tone:
    if any("damaged" in state for state in one.states):
        return "bad"
    return "warn" if any("torn" in state for state in one.states) else "plain"


def _file_line(one: FileInfo) -> str:
    return f"{one.name}   {count(one.bytes, 'byte')}"


def _span(first: int, last: int) -> str:
    return number(first) if first == last else f"{number(first)} to {number(last)}"


def _second(ts: str) -> str:
    return ts.split(".")[0] + "Z" if "." in ts else ts


# -- events -------------------------------------------------------------------------------------


def _records(found: Inspected) -> Iterator[tuple[Scan, Record]]:
    numbers = sorted({one.number for one in found.segments})
    return salvage.Reading(files.RealFiles(), found.path, found.session_id).records(numbers)


def _event_columns(found: Inspected) -> tuple[Column, ...]:
    width = max(len("seq"), len(number(found.last_seq)))
    return (
        Column("seq", right=True, width=width),
        Column("time", width=27),
        Column("type", width=18),
        Column("bytes", right=True, width=9),
        Column("data", width=DATA_WIDTH),
    )


def _event_rows(found: Inspected) -> Iterator[Row]:
    for scan, record in _records(found):
        event, problem = salvage.event_of(record)
        mark = _mark(scan, record)
        size = number(len(record.line) + 1)
        if event is None:
            yield Row((number(record.seq), "", "not readable", size, problem), "bad")
            continue
        data = _shortened(f"[{mark}] " if mark else "", event.data)
        cells = (number(event.seq), event.ts, _cut(event.type, 18), size, data)
        yield Row(cells, "warn" if mark else "plain")


def _mark(scan: Scan, record: Record) -> str:
    if record in scan.kept:
        return "lacks its line feed"
    return "" if record.proven else "not proven"


def _shortened(mark: str, data: Any) -> str:
    return _cut(mark + codec.encode(data).decode("utf-8", "surrogatepass"), DATA_WIDTH)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _event_values(found: Inspected) -> Iterable[dict[str, Any]]:
    for scan, record in _records(found):
        yield _event_value(scan, record)


def _event_value(scan: Scan, record: Record) -> dict[str, Any]:
    """An event as JSON readers get it: what is in its line, and where that line is."""
    event, problem = salvage.event_of(record)
    said = options.fields(event) if event is not None else {"seq": record.seq, "problem": problem}
    return {
        **said,
        "segment": scan.number,
        "offset": record.offset,
        "bytes": len(record.line) + 1,
        "mark": _mark(scan, record) or None,
    }


# -- one seq ------------------------------------------------------------------------------------


class _At:
    """What can be said of one seq without the program that folds the events."""

    def __init__(self, directory: str, found: Inspected, seq: int) -> None:
        self._seq = seq
        self._directory = directory
        self._session_id = found.session_id
        self._event = self._find(found)
        self._snapshot = next(
            (one.name for one in found.snapshots if one.reason is None and one.seq == seq), None
        )
        self.is_possible = self._event is not None or self._snapshot is not None or bool(found.damage)
        self.problem = (
            f"there is no seq {seq} in {directory}: it holds {_span(found.first_seq, found.last_seq)}"
        )
