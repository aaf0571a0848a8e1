"""Disk → state: newest good snapshot, then the events after it. Changes nothing on disk.

What a writer does about an unclean end afterwards is in settle.py.
"""

from __future__ import annotations

from typing import Any

import msgspec

from durasess.engine import codec, files, paths, receipt, segment, snapshot, survey
from durasess.engine.fold import Fold, events_of, migrated, remember, stored_state
from durasess.engine.reached import check_reached
from durasess.engine.records import Place, Record, damaged
from durasess.engine.scan import Scan
from durasess.engine.types import LineError, Recovery
from durasess.engine.walk import Walk, marks, unreached
from durasess.errors import CorruptionError, DurasessError, FormatVersionError


class Recovered(msgspec.Struct, kw_only=True):
    """What was read: the state after `place`, and what a writer needs to go on.

    `next_segment` is the number of the segment that the next event goes to; `unsealed` is the scan
    of a newest segment without a seal, or whose seal may not be on the disk, until a writer
    `settled` it; `apply_error` is what the reducer raised, if it did.
    """

    claims: survey.Claims
    report: Recovery
    state: Any
    place: Place
    event_ids: dict[str, snapshot.RememberedId]
    next_segment: int
    epoch: int
    unsealed: Scan | None = None
    unsealed_source: segment.Source | None = None
    kept: list[Record] = msgspec.field(default_factory=list)
    tail_bytes: int = 0
    tail_events: int = 0
    state_bytes: int = 0
    apply_error: BaseException | None = None
    settled: bool = False


def recover(
    disk: files.Files,
    directory: str,
    fold: Fold,
    *,
    at_least: receipt.Receipt | None = None,
    writer: bool,
) -> Recovered:
    """Read a session to its end, or to the first damage; the report says which.

    A `writer` keeps a last batch that lacks only its line feed; a reader never counts it. Raises
    what `survey.look` raises, and CorruptionError when `at_least` is not reached.
    """
    try:
        return _recovered(disk, directory, fold, at_least, writer)
    except OSError as error:
        raise survey.unreadable(directory, error) from error


def _recovered(
    disk: files.Files, directory: str, fold: Fold, at_least: receipt.Receipt | None, writer: bool
) -> Recovered:
    claims = survey.look(disk, directory)
    begun = _from_snapshot(claims, fold)
    if fold.takes is None or not claims.snapshots or fold.takes(begun.state):
        return _replayed(disk, begun, fold, at_least, writer)
    newest = paths.join(directory, claims.snapshots[0].name)
    if segment.present(disk, directory, 1):
        first = _begun(survey.look(disk, directory), fold)
        first.state = fold.initial()
        anew = _replayed(disk, first, fold, at_least, writer)
        if not anew.report.damage:
            anew.report.notices.append(
                f"{newest} was made by a program that knows less of the events than this one, so "
                "the log is replayed from its beginning"
            )
            return anew
    found = _replayed(disk, begun, fold, at_least, writer)
    found.report.notices.append(
        f"{newest} was made by a program that knows less of the events than this one, and the log "
        "before it is not whole: what this program makes of those events is not in the state"
    )
    return found


def _replayed(
    disk: files.Files,
    found: Recovered,
    fold: Fold,
    at_least: receipt.Receipt | None,
    writer: bool,
) -> Recovered:
    claims, start = found.claims, found.place
    watch = frozenset(seq for _, seq, _ in marks(claims))
    if at_least is not None:
        watch |= {at_least.seq}
    walk = Walk(disk, claims, number=found.next_segment, start=start, watch=watch, remembers=writer)
    with codec.bulk():
        _fold_log(found, walk, fold, writer)
    _describe(found, walk, start, fold.schema_version)
    if at_least is not None:
        check_reached(
            disk, claims, found.report, at_least, start=start, end=found.place, watched=walk.watched
        )
    return found


def _begun(claims: survey.Claims, fold: Fold) -> Recovered:
    """Before the first event, without a state."""
    report = Recovery(session_id=claims.session_id, notices=claims.notices, damage=claims.damage)
    stored = [claims.meta.schema_version] if claims.meta else []
    stored += [one.trailer.schema_version for one in claims.snapshots[:1]]
    report.schema_version = max(stored, default=1)
    report.newer_schema = report.schema_version > fold.schema_version
    return Recovered(
        claims=claims,
        report=report,
        state=None,
        place=survey.START,
        event_ids={},
        next_segment=1,
        epoch=claims.meta.epoch if claims.meta else 0,
    )


def _from_snapshot(claims: survey.Claims, fold: Fold) -> Recovered:
    found = _begun(claims, fold)
    if claims.snapshots:
        newest = claims.snapshots[0]
        document = newest.document
        found.state = _state(claims, newest, fold)
        found.event_ids = {known.event_id: known for known in document.event_ids}
        found.place = newest.place
        found.next_segment = newest.trailer.segment
        found.state_bytes = len(bytes(document.state))
        found.report.snapshot_seq = newest.trailer.seq
    else:
        found.state = fold.initial()
    return found


def _state(claims: survey.Claims, newest: survey.LoadedSnapshot, fold: Fold) -> Any:
    """The proven state of a snapshot, as the program wants it."""
    try:
        return stored_state(newest.document.state, newest.trailer.schema_version, fold)
    except DurasessError:
        raise
    except Exception as error:
        path = paths.join(claims.directory, newest.name)
        raise CorruptionError(
            f"{path} is whole, but the program cannot use its state: {error!r}. Correct state_type "
            "or migrations, then open again. Nothing was changed.",
            path=path,
            seq=newest.trailer.seq,
        ) from error


def _fold_log(found: Recovered, walk: Walk, fold: Fold, writer: bool) -> None:
    stopped = False
    for scan, batch in walk.batches():
        stopped = stopped or bool(walk.damage or scan.damage)
        if not stopped:
            stopped = not _fold_batch(found, walk, fold, scan, batch)
    if writer and not stopped and not walk.damage and walk.last is not None:
        found.kept = walk.kept
        if not _fold_batch(found, walk, fold, walk.last, walk.kept):
            found.kept = []


def _fold_batch(found: Recovered, walk: Walk, fold: Fold, scan: Scan, batch: list[Record]) -> bool:
    """Whether the whole batch could be folded."""
    version = scan.header.schema_version if scan.header else 1
    state, events = found.state, 0
    try:
        for event in events_of(batch):
            if event.event_id is not None:
                remember(found.event_ids, batch[events].line, event)
            if version < fold.schema_version:
                event = migrated(event, version, fold)
            state = fold.step(state, event)
            events += 1
    except (DurasessError, MemoryError):
        # Memory that is short says nothing about the log, nor about `apply`.
        raise
    except LineError as error:
        path = scan.info().path
        walk.damage.append(damaged(path, batch[events], rule=error.rule, reason=error.reason))
    except Exception as error:
        found.apply_error = error
        reason = f"the program's apply raised {type(error).__name__}: {error}"
        path = scan.info().path
        walk.damage.append(damaged(path, batch[events], rule="apply", reason=reason))
    if events:
        first, last = batch[0], batch[events - 1]
        found.state, found.place = state, Place(last.seq, last.crc)
        found.tail_events += events
        found.tail_bytes += last.offset + len(last.line) + 1 - first.offset
    return events == len(batch)


def _describe(found: Recovered, walk: Walk, start: Place, schema_version: int) -> None:
    report = found.report
    report.damage = report.damage + walk.damage
    if not report.damage:
        # Not the walk's place: a writer also keeps lines that lacked only their line feed.
        report.damage = unreached(found.claims, start=start, end=found.place, watched=walk.watched)
    report.torn = walk.torn
    report.segments = walk.segments
    report.last_seq = found.place.seq
    report.replayed = found.tail_events
    if walk.edited:
        report.notices.append("an editor's byte order mark or CRLF line ends were passed over")
    if walk.last is not None and walk.last_source is not None:
        found.next_segment = walk.last_source.number + 1
        if walk.last.header is not None:
            found.epoch = max(found.epoch, walk.last.header.epoch)
            report.schema_version = max(report.schema_version, walk.last.header.schema_version)
            report.newer_schema = report.schema_version > schema_version
            sealed = walk.last.place.seq if walk.last.seal else walk.last.header.first_seq - 1
            report.sealed_seq = min(sealed, report.last_seq)
        if walk.last.filler or not _is_seal_synced(found.claims, walk.last):
            found.unsealed, found.unsealed_source = walk.last, walk.last_source
    report.sealed_seq = max(report.sealed_seq, start.seq)
    report.clean = found.unsealed is None and not report.damage


def _is_seal_synced(claims: survey.Claims, last: Scan) -> bool:
    """A seal that can be read may be in the cache alone, after a sync that failed. Meta's floor was
    published after its sync returned; so is a snapshot, but the log is read from behind that."""
    if last.seal is None:
        return False
    if last.info().compressed:
        return True  # Only what is sealed and synced is.
    floor = claims.meta.floor if claims.meta is not None else None
    return floor is not None and (floor.segment, floor.seq) == (last.number, last.place.seq)


def refuse(found: Recovered) -> None:
    """Raise what keeps a writer from going on, if anything does."""
    report = found.report
    directory = found.claims.directory
    if report.newer_schema:
        raise FormatVersionError(
            f"{directory} was written with schema version {report.schema_version}, which is newer "
            'than this program\'s. It can be read with mode="read"; nothing was changed.',
            path=directory,
        )
    if not report.damage:
        return
    first = report.damage[0]
    more = f" {len(report.damage) - 1} more findings." if len(report.damage) > 1 else ""
    if first.rule == "apply":
        hint = "Correct the program, then open again"
    else:
        hint = f'Run "durasess verify {directory}" to see all of it, then "durasess repair"'
    raise CorruptionError(
        f"{first}.{more} This is damage, not a torn tail, and recovery needs it. Nothing was "
        f'changed. {hint}; mode="read" shows what is readable.',
        path=first.path,
        offset=first.offset,
        seq=first.first_seq,
        report=report,
    ) from found.apply_error
