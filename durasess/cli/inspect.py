"""`durasess inspect`: show what is on disk. Never changes anything, goes on past damage."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from durasess.cli import events, options
from durasess.cli.blocks import (
    Block,
    Column,
    Fact,
    Facts,
    Notes,
    Row,
    Table,
    Tone,
    count,
    number,
    span,
)
from durasess.cli.examine import STATUS, TONE, FileInfo, Inspected, SegmentLook, examine
from durasess.cli.output import Output
from durasess.engine import paths

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
    at = None if chosen.at is None else events.one(found, chosen.at)
    report = found if at is None else {**options.fields(found), "at": at}
    items = (lambda: ("events", events.values(found))) if chosen.events else None
    output.report(report, lambda: _blocks(found, at, chosen.events), items)
    return STATUS[found.health]


# -- the report ---------------------------------------------------------------------------------


def _blocks(found: Inspected, at: events.One | None, with_events: bool) -> Iterator[Block]:
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
        yield events.listing(found)
    if at is not None:
        yield from events.blocks(at)


def _facts(found: Inspected) -> Iterator[Fact]:
    created = f", created {_second(found.created)}" if found.created else ""
    version = "format is newer" if found.format is None else f"format {found.format}"
    yield Fact("session", found.session_id, f"{version}{created}")
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
        sizes = f"{count(snapshot.bytes, 'byte')}, state {count(snapshot.state_bytes, 'byte')}"
        yield Fact(label, f"seq {number(snapshot.seq)}", sizes)
    if not found.snapshots:
        yield Fact("snapshot", "none", "replay starts at the first event")
    yield _event_fact(found)


def _event_fact(found: Inspected) -> Fact:
    if found.last_seq < found.first_seq:
        return Fact("events", "none")
    notes = ["all are replayed"]
    if found.snapshot_seq:
        notes = [f"{number(found.after_snapshot)} after the snapshot"]
    readable = sum(one.events for one in found.segments)
    if found.damage and readable < found.last_seq - found.first_seq + 1:
        notes.append(f"{number(readable)} can be read")
    return Fact("events", span(found.first_seq, found.last_seq), ", ".join(notes))


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
    held = number(one.events) if one.events else "-"
    seqs = span(one.first_seq, one.last_seq) if one.events else "-"
    return one.name, number(one.bytes), held, seqs, ", ".join(one.states)


def _segment_tone(one: SegmentLook) -> Tone:
    if any("damaged" in state for state in one.states):
        return "bad"
    return "warn" if any("torn" in state for state in one.states) else "plain"


def _file_line(one: FileInfo) -> str:
    return f"{one.name}   {count(one.bytes, 'byte')}"


def _second(ts: str) -> str:
    return ts.split(".")[0] + "Z" if "." in ts else ts
