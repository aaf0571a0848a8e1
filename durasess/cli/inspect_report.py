"""What `durasess inspect` says of any session: facts, segments, findings, directory. No effects.
What it adds for one of the session layer is in session_panels.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from durasess.cli import layout
from durasess.cli.blocks import (
    Block,
    Column,
    Fact,
    Facts,
    Notes,
    Row,
    Table,
    Tone,
    Tree,
    count,
    number,
    span,
    to_second,
)
from durasess.cli.examine import TONE, Inspected, SegmentLook
from durasess.engine import lock, paths
from durasess.store.holders import LockLook, WorkerLook

_SEGMENT_COLUMNS = (
    Column("segment"),
    Column("bytes", right=True),
    Column("events", right=True),
    Column("seq"),
    Column("state"),
)
_WORKER_COLUMNS = (
    Column("worker"),
    Column("process", right=True),
    Column("since"),
    Column("command"),
)


def blocks(found: Inspected, of_session: Iterable[Block] = ()) -> Iterator[Block]:
    """The report for people; `of_session` comes behind the first facts."""
    yield Facts("", list(_facts(found)))
    yield from of_session
    if found.segments:
        rows = [Row(_segment_cells(one), _segment_tone(one)) for one in found.segments]
        yield Table("", _SEGMENT_COLUMNS, rows)
    if found.lock.workers:
        yield Table("workers", _WORKER_COLUMNS, [_worker_row(one) for one in found.lock.workers])
    if found.problem is not None:
        yield Notes("not readable as a whole; each file was read by itself", [found.problem], "bad")
    if found.damage:
        yield Notes("damage", [str(one) for one in found.damage], "bad")
    if found.notices:
        yield Notes("notices", found.notices, "warn")
    yield Tree("", layout.tree(paths.base(found.path), found.files))


def _facts(found: Inspected) -> Iterator[Fact]:
    created = f", created {to_second(found.created)}" if found.created else ""
    version = "format is newer" if found.format is None else f"format {found.format}"
    yield Fact("session", found.session_id, f"{version}{created}")
    yield Fact("health", found.health, _health_note(found), TONE[found.health])
    yield Fact("lock", *_lock_words(found.lock))
    if found.lock.anchor is not None:
        yield Fact("anchor", *_anchor_words(found.lock))
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
    if found.foreign:
        note = "not durasess's and never touched; marked in the tree below"
        yield Fact("foreign", count(len(found.foreign), "name"), note, "warn")


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


def _lock_words(found: LockLook) -> tuple[str, str]:
    who = found.holder or "a writer that did not say who it is"
    if not found.present:
        return "no lock file", "the next open makes it"
    if found.held is None:
        return "unknown", "the lock file cannot be read"
    if found.mode == "own":
        return "held", f"alone (mode own) by {who}"
    if found.mode == "shared":
        alive = sum(one.alive for one in found.workers)
        return "held", f"shared by {count(alive, 'live worker')}, listed below"
    return "not held", "the lock file is present, nobody holds it"


def _anchor_words(found: LockLook) -> tuple[str, str, Tone]:
    anchor = found.anchor
    assert anchor is not None
    value = f"seq {number(anchor.seq)}"
    if anchor.held:
        return value, f"{anchor.phase}, a writer is in its turn", "plain"
    if anchor.phase == lock.COMMIT:
        return value, "commit: a writer ended in its turn; the next one settles the log", "warn"
    if anchor.phase == lock.FAILED:
        return value, "failed: a sync failed; the next writer settles the log", "warn"
    return value, f"{anchor.phase}, acknowledged up to here in segment {anchor.segment}", "plain"


def _worker_row(one: WorkerLook) -> Row:
    if not one.alive:
        return Row((one.worker_id, "-", "-", "ended without removing its file"), "warn")
    if one.holder is None:
        return Row((one.worker_id, "-", "-", "did not say who it is"))
    who = one.holder
    return Row((one.worker_id, f"{who.pid}", to_second(who.since), who.command))


def _segment_cells(one: SegmentLook) -> tuple[str, ...]:
    held = number(one.events) if one.events else "-"
    seqs = span(one.first_seq, one.last_seq) if one.events else "-"
    return one.name, number(one.bytes), held, seqs, ", ".join(one.states)


def _segment_tone(one: SegmentLook) -> Tone:
    if any("damaged" in state for state in one.states):
        return "bad"
    return "warn" if any("torn" in state for state in one.states) else "plain"
