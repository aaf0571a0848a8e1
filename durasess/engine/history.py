"""Reading events back from the log, old ones too, in order and in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from durasess.engine import codec, files, newest, paths, sealed, segment, survey
from durasess.engine.ahead import Ahead
from durasess.engine.fold import Fold, event_of, migrated
from durasess.engine.records import Place, damaged
from durasess.engine.types import Damage, Event, LineError
from durasess.engine.walk import EVERYTHING, Walk
from durasess.errors import CorruptionError

_FEW = 1000
"""Events that may be looked for from the end of the log backwards."""


def events(
    disk: files.Files,
    claims: survey.Claims,
    fold: Fold,
    *,
    after: int,
    through: int,
    on_damage: Callable[[Damage], None] | None,
    end: Place | None = None,
) -> Iterator[Event]:
    """The events with after < seq <= through. `end` is the place of `through` where that is known
    to be in the log; then the newest events are read backwards from there.

    Damage is raised as CorruptionError, or told to `on_damage` and passed, so that what lies
    behind it can be read; the first line behind damage has `proven` False. ValueError when the
    events after `after` were pruned.
    """
    try:
        near = None
        if end is not None and after < through <= after + _FEW:
            near = _newest(disk, claims, fold, after, end)
        if near is None:
            near = _events(disk, claims, fold, after, through, on_damage)
        yield from near
    except OSError as error:
        raise survey.unreadable(claims.directory, error) from error


def _newest(
    disk: files.Files, claims: survey.Claims, fold: Fold, after: int, end: Place
) -> Iterable[Event] | None:
    """Those near the end of the log; None where the long way must be taken."""
    found = newest.newest(
        disk, claims.directory, claims.session_id, number=claims.highest, after=after, end=end
    )
    if found is None:
        return None
    try:
        return [
            event_of(record.line, header.schema_version, fold)
            for header, records in found
            for record in records
        ]
    except LineError:
        return None


def _events(
    disk: files.Files,
    claims: survey.Claims,
    fold: Fold,
    after: int,
    through: int,
    on_damage: Callable[[Damage], None] | None,
) -> Iterator[Event]:
    number = _first_segment(disk, claims, after, through)
    if number is None:
        return
    place = None
    ahead = Ahead(disk, claims.directory, last=claims.highest)
    while place is None or place.seq < through:
        unpacked = ahead.take(number)
        if unpacked is None:
            break
        found = sealed.whole(
            unpacked, session_id=claims.session_id, follows=place, between=ahead.meet
        )
        if found is None:
            break
        first = found.header.first_seq
        wanted = found.events[max(0, after + 1 - first) : max(0, through + 1 - first)]
        yield from _migrated(wanted, found.header.schema_version, fold)
        number, place = number + 1, found.place
    else:
        return
    walk = Walk(disk, claims, number=number, start=place)
    told = 0
    for scan, batch in walk.batches():
        told = _tell(walk.damage + scan.damage, told, on_damage)
        version = scan.header.schema_version if scan.header else fold.schema_version
        for record in batch:
            if record.seq > through:
                return
            if record.seq <= after:
                continue
            try:
                event = codec.event(record.line, proven=record.proven)
            except LineError as error:
                # Its crc agrees, and it is no event.
                path = scan.info().path
                finding = damaged(path, record, rule=error.rule, reason=error.reason)
                _tell([finding], 0, on_damage)
                continue
            yield migrated(event, version, fold) if version < fold.schema_version else event
    ended = walk.place.seq if walk.place is not None else after
    if ended < through < EVERYTHING and not walk.damage:
        walk.damage.append(_cut_short(claims, walk, ended, through))
    if ended < through or on_damage is not None:
        _tell(walk.damage, told, on_damage)


def _migrated(events: list[Event], version: int, fold: Fold) -> Iterable[Event]:
    if version >= fold.schema_version:
        return events
    return (migrated(event, version, fold) for event in events)


def _cut_short(claims: survey.Claims, walk: Walk, ended: int, through: int) -> Damage:
    """The state is known to reach further than the segments that are there."""
    path = walk.segments[-1].path if walk.segments else claims.directory
    return Damage(
        path=path,
        first_seq=ended + 1,
        last_seq=through,
        rule="missing",
        reason=f"the log ends at seq {ended}, but seq {through} was reached",
    )


def _tell(damage: list[Damage], told: int, on_damage: Callable[[Damage], None] | None) -> int:
    for found in damage[told:]:
        if on_damage is None:
            raise CorruptionError(
                f"{found}. The events before it were read; nothing was changed.",
                path=found.path,
                offset=found.offset,
                seq=found.first_seq,
            )
        on_damage(found)
    return len(damage)


def _first_segment(
    disk: files.Files, claims: survey.Claims, after: int, through: int
) -> int | None:
    """The number of the segment that holds seq after + 1; None when there is nothing to read."""
    if after >= through:
        return None
    numbers = _numbers(disk, claims)
    found = _by_halves(disk, claims.directory, numbers, after + 1)
    if found is not None:
        return found
    for number, below in zip(numbers, [*numbers[1:], 0], strict=True):
        first_seq = segment.first_seq_of(disk, claims.directory, number)
        if first_seq and first_seq <= after + 1:
            return number
        if below == number - 1 and below:
            continue
        if number - 1 < _kept_from(disk, claims.directory) and number > 1:
            raise ValueError(
                f"{claims.directory}: the events before segment {number} were pruned, so there is "
                f"nothing to read after seq {after}. Ask for after={_left(claims, first_seq)}."
            )
    return 1


def _by_halves(disk: files.Files, directory: str, numbers: list[int], seq: int) -> int | None:
    """The number of the segment that holds `seq`, found by few headers. None where a segment is
    missing between the newest and the oldest, or a header on the way is not valid, or all that is
    left lies behind `seq`."""
    lowest, behind = numbers[-1], numbers[0] + 1
    if behind - lowest != len(numbers):
        return None
    first_seq = segment.first_seq_of(disk, directory, lowest)
    if not first_seq or first_seq > seq:
        return None
    while first_seq < seq and behind - lowest > 1:
        middle = (lowest + behind) // 2
        found = segment.first_seq_of(disk, directory, middle)
        if not found:
            return None
        if found <= seq:
            lowest, first_seq = middle, found
        else:
            behind = middle
    return lowest


def _numbers(disk: files.Files, claims: survey.Claims) -> list[int]:
    """The segments there are, the newest first, and the one that must be there at least."""
    names = (paths.parse(name) for name in disk.listdir(claims.directory))
    found = {name.number for name in names if name.kind == "segment"}
    if claims.highest:
        found.add(claims.highest)
    return sorted(found or {1}, reverse=True)


def _left(claims: survey.Claims, first_seq: int | None) -> int:
    """The seq after which everything is left."""
    if first_seq:
        return first_seq - 1
    return max((one.trailer.seq for one in claims.snapshots), default=0)


def _kept_from(disk: files.Files, directory: str) -> int:
    """Segments below this number may have been pruned; a missing one from it on is damage."""
    claims = survey.look(disk, directory, every_snapshot=True)
    return min((one.trailer.segment for one in claims.snapshots), default=1)
