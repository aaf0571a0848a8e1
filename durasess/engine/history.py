"""Reading events back from the log, old ones too, in order and in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from durasess.engine import codec, files, paths, segment, survey
from durasess.engine.fold import Fold, migrated
from durasess.engine.types import Damage, Event, LineError
from durasess.engine.walk import Walk
from durasess.errors import CorruptionError

EVERYTHING = 1 << 62
"""As `through`: whatever can be read."""


def events(
    disk: files.Files,
    claims: survey.Claims,
    fold: Fold,
    *,
    after: int,
    through: int,
    on_damage: Callable[[Damage], None] | None,
) -> Iterator[Event]:
    """The events with after < seq <= through.

    Damage is raised as CorruptionError, or told to `on_damage` and passed, so that what lies
    behind it can be read; the first line behind damage has `proven` False. ValueError when the
    events after `after` were pruned.
    """
    number = _first_segment(disk, claims, after, through)
    if number is None:
        return
    walk = Walk(disk, claims, number=number, start=None)
    told = 0
    for scan, batch in walk.batches():
        told = _tell(walk.damage + scan.damage, told, on_damage)
        version = scan.header.schema_version if scan.header else fold.schema_version
        for record in batch:
            if record.seq > through:
                return
            if record.seq > after:
                event = codec.event(record.line, proven=record.proven)
                if version < fold.schema_version:
                    event = migrated(event, version, fold)
                yield event
    ended = walk.place.seq if walk.place is not None else after
    if ended < through < EVERYTHING and not walk.damage:
        walk.damage.append(_cut_short(claims, walk, ended, through))
    if ended < through or on_damage is not None:
        _tell(walk.damage, told, on_damage)


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
    number = _starting_guess(claims, after)
    oldest = None
    while True:
        first_seq = first_seq_of(disk, claims, number)
        if first_seq is None and oldest is not None:
            raise ValueError(
                f"{claims.directory}: events before seq {oldest} were pruned, so there is nothing "
                f"to read after seq {after}. Ask for after={oldest - 1}."
            )
        if first_seq is not None and first_seq <= after + 1:
            return number
        oldest = first_seq if first_seq is not None else oldest
        if number == 1:
            return 1
        number -= 1


def _starting_guess(claims: survey.Claims, after: int) -> int:
    """A segment that does not begin after the wanted event, as far as snapshots tell."""
    numbers = [s.trailer.segment for s in claims.snapshots if s.trailer.seq > after]
    return max(1, min(numbers, default=claims.highest) - (1 if numbers else 0))


def first_seq_of(disk: files.Files, claims: survey.Claims, number: int) -> int | None:
    """What a segment's header says; None when the segment is not there, 0 when its header is not
    valid, so that reading goes through it and reports why."""
    try:
        source = segment.open_source(disk, claims.directory, number)
    except FileNotFoundError:
        return None
    except LineError:
        return 0
    try:
        first = next(segment.lines(disk, source), None)
        return segment.parse_header(first.text, source.path).first_seq if first else 0
    except LineError:
        return 0
    finally:
        segment.close_source(disk, source)


def lowest_segment(disk: files.Files, claims: survey.Claims) -> int:
    """The first segment of the unbroken run that ends at the newest; 1 when there is none."""
    names = (paths.parse(name) for name in disk.listdir(claims.directory))
    numbers = {name.number for name in names if name.kind == "segment"}
    number = max(numbers, default=1)
    while number - 1 in numbers:
        number -= 1
    return number
