"""Reading every byte of a session and saying what is wrong. Changes nothing, never stops early."""

from __future__ import annotations

import msgspec

from durasess.engine import blobs, codec, files, paths, snapshot, survey
from durasess.engine.fold import remember
from durasess.engine.patience import look_until_settled, vanished
from durasess.engine.records import Place, Record, damaged
from durasess.engine.types import Damage, LineError, SegmentInfo, TornTail
from durasess.engine.walk import Walk, marks, unreached


class SnapshotInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One snapshot file; `reason` says why it is not valid, else None."""

    name: str
    seq: int
    bytes: int
    state_bytes: int
    reason: str | None = None


class Verified(msgspec.Struct, kw_only=True):
    """What was found. `damage` empty means sound: a torn tail is not damage, and what is in
    `notices` cost no event. `foreign` are names that are not durasess's."""

    path: str
    session_id: str
    first_seq: int = 0
    last_seq: int = 0
    schema_version: int = 1
    torn: TornTail | None = None
    damage: list[Damage] = msgspec.field(default_factory=list)
    notices: list[str] = msgspec.field(default_factory=list)
    segments: list[SegmentInfo] = msgspec.field(default_factory=list)
    snapshots: list[SnapshotInfo] = msgspec.field(default_factory=list)
    foreign: list[str] = msgspec.field(default_factory=list)


def verify(path: str, *, files: files.Files) -> Verified:
    """Check every segment that is there, both snapshots, meta, the anchor, and that they agree.

    May run beside a writer. Raises SessionNotFoundError, FormatVersionError and StorageError;
    damage is returned.
    """
    return look_until_settled(
        lambda: _verified(files, path),
        lambda report: [str(one) for one in report.damage],
        passing=vanished,
    )


def _verified(disk: files.Files, directory: str) -> Verified:
    try:
        return _checked(disk, directory)
    except OSError as error:
        raise survey.unreadable(directory, error) from error


def _checked(disk: files.Files, directory: str) -> Verified:
    claims = survey.look(disk, directory, every_snapshot=True)
    report = Verified(
        path=directory,
        session_id=claims.session_id,
        damage=list(claims.damage),
        notices=claims.notices,
        schema_version=claims.meta.schema_version if claims.meta else 1,
    )
    if claims.damage:
        return report
    report.snapshots = _snapshots(disk, claims, report)
    names = {name: paths.parse(name) for name in disk.listdir(directory)}
    report.foreign = sorted(name for name, found in names.items() if found.kind == "foreign")
    numbers = sorted({found.number for found in names.values() if found.kind == "segment"})
    named = {
        name: one.trailer.seq
        for one in claims.snapshots
        for name in blobs.named(bytes(one.document.state))
    }
    _check_log(disk, claims, report, numbers, named)
    # Behind the log: a blob is there before an event names it.
    report.damage += blobs.check(disk, directory, named)
    return report


def _snapshots(disk: files.Files, claims: survey.Claims, report: Verified) -> list[SnapshotInfo]:
    found = []
    for name in (paths.SNAPSHOT, paths.SNAPSHOT_PREVIOUS):
        path = paths.join(claims.directory, name)
        good = next((one for one in claims.snapshots if one.name == name), None)
        if good is not None:
            found.append(
                SnapshotInfo(
                    name=name,
                    seq=good.trailer.seq,
                    bytes=disk.stat(path).size,
                    state_bytes=len(bytes(good.document.state)),
                )
            )
        elif name in claims.bad:
            reason = claims.bad[name]
            size = disk.stat(path).size
            found.append(SnapshotInfo(name=name, seq=0, bytes=size, state_bytes=0, reason=reason))
            report.damage.append(Damage(path=path, offset=0, rule="snapshot", reason=reason))
    if paths.META in claims.bad:
        path = paths.join(claims.directory, paths.META)
        report.damage.append(
            Damage(path=path, offset=0, rule="meta", reason=claims.bad[paths.META])
        )
    return found


def _check_log(
    disk: files.Files,
    claims: survey.Claims,
    report: Verified,
    numbers: list[int],
    named: dict[str, int],
) -> None:
    """From the first segment of the run that recovery could need to the last. What events name as
    blobs goes into `named`."""
    first = _first_needed(claims, numbers)
    start = _start(claims, first)
    watch = frozenset(
        [seq for _, seq, _ in marks(claims)] + [one.trailer.seq for one in claims.snapshots]
    )
    remembered = {one.seq: one for each in claims.snapshots for one in each.document.event_ids}
    claims.highest = max([claims.highest, *numbers])
    below = [number for number in numbers if number < first]
    if below:
        report.notices.append(
            f"segments {below[0]} to {below[-1]} lie below a gap, as an interrupted prune leaves it"
        )
    walk = Walk(disk, claims, number=first, start=start, watch=watch)
    for scan, batch in walk.batches():
        for record in batch:
            _check_event(report, scan.info().path, record, remembered)
            for name in blobs.named(record.line):
                named.setdefault(name, record.seq)
    report.damage += walk.damage
    report.segments = walk.segments
    report.torn = walk.torn
    if walk.edited:
        report.notices.append("an editor's byte order mark or CRLF line ends were passed over")
    newest = max((one.place for one in claims.snapshots), default=survey.START)
    end = walk.place or survey.START
    if not walk.segments:
        end = max(end, newest)
    if not report.damage:
        report.damage += unreached(claims, start=survey.START, end=end, watched=walk.watched)
    _compare_snapshots(claims, walk, report)
    report.first_seq = walk.segments[0].first_seq if walk.segments else newest.seq + 1
    report.last_seq = max(end.seq, newest.seq)


def _first_needed(claims: survey.Claims, numbers: list[int]) -> int:
    """Segments that both snapshots cover may have been pruned, in any order (R6): below them, only
    the unbroken run that ends there counts."""
    number = min((one.trailer.segment for one in claims.snapshots), default=1)
    while number - 1 in numbers:
        number -= 1
    return number


def _start(claims: survey.Claims, first: int) -> Place | None:
    if first == 1:
        return survey.START
    for one in claims.snapshots:
        if one.trailer.segment == first:
            return one.place
    return None


def _check_event(
    report: Verified, path: str, record: Record, remembered: dict[int, snapshot.RememberedId]
) -> None:
    try:
        event = codec.event(record.line)
        known = remembered.get(record.seq)
        if known is not None:
            window: dict[str, snapshot.RememberedId] = {}
            remember(window, record.line, event)
            if window != {known.event_id: known}:
                raise LineError("event_id", "a snapshot knows another event id here")
    except LineError as error:
        report.damage.append(damaged(path, record, rule=error.rule, reason=error.reason))


def _compare_snapshots(claims: survey.Claims, walk: Walk, report: Verified) -> None:
    """A snapshot of another history than the log's would be silently wrong; one that is not at the
    end of its segment would hide events."""
    ends = {info.number: info.last_seq for info in walk.segments}
    for one in claims.snapshots:
        seq, chain = one.place
        found = walk.watched.get(seq, chain)
        before = ends.get(one.trailer.segment - 1, seq)
        if found != chain:
            reason = f"its chain value is {one.trailer.chain}, the log has {codec.hexed(found)}"
        elif before != seq:
            reason = f"the segment before its tail ends at seq {before}, not at seq {seq}"
        else:
            continue
        report.damage.append(
            Damage(
                path=paths.join(claims.directory, one.name),
                first_seq=seq,
                last_seq=seq,
                rule="snapshot",
                reason=reason,
            )
        )
