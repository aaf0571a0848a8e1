"""`durasess prune`: delete segments that both snapshots cover, and blobs that nothing names; a dry
run unless told otherwise."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import msgspec

from durasess.cli import options, session_fold, stores
from durasess.cli.blocks import Block, Column, Fact, Facts, Notes, Row, Table, count, number, span
from durasess.cli.metered import MeteredFiles, bytes_to_read, size_of
from durasess.cli.output import SOUND, Output, Step
from durasess.engine import codec, files, lock, paths, prune, segment, verify
from durasess.engine.blobs import Blobs
from durasess.engine.verify import Verified
from durasess.errors import CorruptionError, EventRejectedError
from durasess.session import pruning

_COLUMNS = (
    Column("segment"),
    Column("bytes", right=True),
    Column("events", right=True),
    Column("seq"),
)


class Gone(msgspec.Struct, frozen=True, kw_only=True):
    """A segment that goes: its file, and its events as far as they are known (0: not at all)."""

    name: str
    bytes: int
    events: int
    first_seq: int
    last_seq: int


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What goes, or with `applied` went: `segments` with their `events` and `bytes`. The events
    from `first_seq` on stay, and the snapshots, which are of `snapshots` (seqs). `blobs` go too
    (their hashes), `blob_bytes` in all; `blobs_left` says why they were not looked at. `live` says
    what of an agent's session still counts and is only in what goes."""

    path: str
    applied: bool
    segments: list[Gone]
    events: int
    bytes: int
    first_seq: int
    last_seq: int
    snapshots: list[int]
    blobs: list[str]
    blob_bytes: int
    blobs_left: str
    live: list[str] = []


def add_to(verbs: options.Verbs) -> None:
    """Declare the verb."""
    parser = options.add_verb(
        verbs,
        "prune",
        run,
        summary="Delete the oldest events of a session, those that both snapshots cover.",
        more="Large values that nothing names any more go too. Without --apply it only says what\n"
        "would go. Every byte is checked first; a session with damage is left alone. With\n"
        "--apply nobody else may have the session open for writing, and it is refused while\n"
        "messages that still count are only in what goes. Exit status: 0 done or nothing to\n"
        "do, 1 damage, 2 usage, 3 not readable, refused or open in a writer.",
        example="durasess prune ~/.myagent/sessions/a1 --apply",
    )
    stores.add_session(parser)
    parser.add_argument("--apply", action="store_true", help="do it (default: a dry run)")
    parser.add_argument(
        "--even-live", action="store_true", help="messages that still count may go too"
    )


def run(chosen: argparse.Namespace, output: Output) -> int:
    """Plan or do it, and print it."""
    directory = stores.directory(chosen)
    with output.progress("checking", bytes_to_read(directory), in_bytes=True) as step:
        if chosen.apply:
            report = _applied(directory, step, even_live=chosen.even_live)
        else:
            report = _planned(directory, step)
    output.report(report, lambda: _blocks(report))
    return SOUND


def _planned(directory: str, step: Step) -> Report:
    disk = MeteredFiles(step)
    found = _sound(disk, directory)
    planned = prune.prune(disk, directory, apply=False, blobs=_blobs_of(disk, directory))
    return _report(disk, found, planned)


def _blobs_of(disk: files.Files, directory: str) -> Blobs:
    """As of a handle that puts none."""
    return Blobs(disk, directory, token=str)


def _applied(directory: str, step: Step, *, even_live: bool) -> Report:
    """As a writer that owns the session, but without its reducer: a handle that does not know how
    events are folded could publish a wrong state."""
    disk = MeteredFiles(step)
    _sound(disk, directory)
    lock.create(disk, directory)
    owner = lock.acquire_owner(disk, directory)
    try:
        lock.write_holder(disk, owner, lock.whoami(codec.timestamp(time.time_ns())))
        # Again, since a writer may have gone on in between.
        blobs = _blobs_of(disk, directory)
        found = _sound(disk, directory)
        planned = _report(disk, found, prune.prune(disk, directory, apply=False, blobs=blobs))
        if planned.live and not even_live:
            raise EventRejectedError(
                f"{directory} was not pruned: {'; '.join(planned.live)}. Compact the session "
                "first, or give --even-live. Nothing was deleted.",
                path=directory,
            )
        done = prune.prune(disk, directory, apply=True, blobs=blobs)
    finally:
        disk.close(owner)
    return msgspec.structs.replace(planned, applied=True, first_seq=done.first_seq)


def _sound(disk: files.Files, directory: str) -> Verified:
    """What is there. CorruptionError when any of it is damaged: then nothing may be taken away."""
    found = verify.verify(directory, files=disk)
    if found.damage:
        first = found.damage[0]
        raise CorruptionError(
            f'{first}. Nothing was pruned. Run "durasess repair {directory}" first.',
            path=first.path,
            offset=first.offset,
            seq=first.first_seq,
        )
    return found


def _report(disk: files.Files, found: Verified, planned: prune.Pruned) -> Report:
    gone = [one for each in planned.segments for one in _gone(disk, found, each)]
    snapshots = sorted(one.seq for one in found.snapshots if one.reason is None)
    first_seq = snapshots[0] + 1 if gone else found.first_seq
    return Report(
        path=found.path,
        applied=False,
        segments=gone,
        events=sum(one.events for one in gone),
        bytes=sum(one.bytes for one in gone),
        first_seq=first_seq,
        last_seq=found.last_seq,
        snapshots=snapshots,
        blobs=planned.blobs,
        blob_bytes=planned.blob_bytes,
        blobs_left=planned.blobs_left,
        live=_live(disk, found, first_seq) if gone else [],
    )


def _live(disk: files.Files, found: Verified, first_seq: int) -> list[str]:
    """What an agent's session still needs of the events below `first_seq`, as `Session.prune` asks
    too."""
    try:
        state = session_fold.state_of(disk, found)
    except Exception as error:
        return [f"whether messages still count that would go cannot be told: {error}"]
    return [] if state is None else list(pruning.only_below(state, first_seq))


def _gone(disk: files.Files, found: Verified, number_: int) -> Iterator[Gone]:
    infos = {info.number: info for info in found.segments}
    info = infos.get(number_)
    for compressed in (False, True):
        name = paths.segment(number_, compressed=compressed)
        size = size_of(disk, paths.join(found.path, name))
        if not size:
            continue
        counts = info is not None and info.compressed == compressed
        first_seq = segment.first_seq_of(disk, found.path, number_) or 0
        yield Gone(
            name=name,
            bytes=size,
            events=info.events if info is not None and counts else 0,
            first_seq=info.first_seq if info is not None else first_seq,
            last_seq=info.last_seq if info is not None else 0,
        )


def _blocks(report: Report) -> Iterator[Block]:
    word, note = "nothing to do", "nothing was changed"
    if report.segments or report.blobs:
        word, note = "dry run", "nothing was changed; --apply deletes what is listed"
        if report.applied:
            word, note = "done", "what is listed was deleted"
    facts = [
        Fact("session", paths.base(report.path)),
        Fact("prune", word, note, "warn" if word == "dry run" else "good"),
        Fact("path", report.path),
    ]
    if report.segments:
        goes = f"{number(report.bytes)} bytes in {count(len(report.segments), 'file')}"
        facts.insert(2, Fact("goes", count(report.events, "event"), goes))
    facts.insert(-1, Fact("stays", *_left(report)))
    if report.blobs:
        goes = f"{number(report.blob_bytes)} bytes that nothing names any more"
        facts.insert(-1, Fact("blobs", count(len(report.blobs), "blob"), goes))
    if report.blobs_left:
        facts.insert(-1, Fact("blobs", "left alone", report.blobs_left, "warn"))
    yield Facts("", facts)
    if report.blobs:
        yield Notes("blobs that go", report.blobs)
    if not report.segments:
        yield Notes(
            "why no event can go" if report.blobs else "why nothing can go", [_why_nothing(report)]
        )
        return
    yield Table("", _COLUMNS, [Row(_cells(one)) for one in report.segments])
    if report.live:
        lines = [one[0].upper() + one[1:] + "." for one in report.live]
        if not report.applied:
            lines.append("So --apply is refused, unless --even-live says that they may go.")
        yield Notes("what still counts and goes too", lines, "bad")
    yield Notes("what cannot be read any more", list(_consequences(report)), "warn")


def _left(report: Report) -> tuple[str, str]:
    if report.last_seq < report.first_seq:
        return "no events", ""
    left = report.last_seq - report.first_seq + 1
    return count(left, "event"), f"seq {span(report.first_seq, report.last_seq)}"


def _cells(one: Gone) -> tuple[str, ...]:
    held = number(one.events) if one.events else "-"
    seqs = span(one.first_seq, one.last_seq) if one.events else "-"
    return one.name, number(one.bytes), held, seqs


def _why_nothing(report: Report) -> str:
    if len(report.snapshots) < 2:
        there = "one" if report.snapshots else "none"
        return f"Two snapshots must cover what goes, and there is {there}."
    return (
        f"No segment ends before the older snapshot (seq {number(report.snapshots[0])}); a later "
        "snapshot makes room."
    )


def _consequences(report: Report) -> Iterator[str]:
    last = report.first_seq - 1
    tense = "is" if report.applied else "would be"
    yield f"Every event up to seq {number(last)}: the history {tense} gone for good."
    yield f"The state after any seq below {number(report.snapshots[0])}."
    kept = " and ".join(f"seq {number(seq)}" for seq in report.snapshots)
    yield f"The snapshots of {kept} and all later events stay, so opening finds the same state."
