"""Reading the log from a place to its end, segment by segment. Changes nothing.

Recovery, verify, repair and history all walk through it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from durasess.engine import codec, files, paths, segment, survey
from durasess.engine.records import Place, Record
from durasess.engine.scan import Scan
from durasess.engine.types import Damage, LineError, SegmentInfo, TornTail

EVERYTHING = 1 << 62
"""A seq that no log reaches: read `through` it, and all that can be read comes."""


class Walk:
    """Reads the log from a place to its end, segment by segment, through `Scan`.

    The attributes are complete when `batches` is exhausted. `watched` keeps the chain values at
    the seqs in `watch`; a walk that `remembers` lets the newest segment's scan do so.
    """

    def __init__(
        self,
        disk: files.Files,
        claims: survey.Claims,
        *,
        number: int,
        start: Place | None,
        watch: frozenset[int] = frozenset(),
        remembers: bool = False,
    ) -> None:
        self._disk = disk
        self._claims = claims
        self._first_number = number
        self._watch = watch
        self._remembers = remembers
        self._next_watched = min(watch, default=EVERYTHING)
        self.place = start
        self.watched: dict[int, int] = {}
        self.damage: list[Damage] = []
        self.segments: list[SegmentInfo] = []
        self.torn: TornTail | None = None
        self.kept: list[Record] = []
        self.last: Scan | None = None
        self.last_source: segment.Source | None = None
        self.edited = False
        if start is not None and start.seq in watch:
            self.watched[start.seq] = start.chain

    def batches(self) -> Iterator[tuple[Scan, list[Record]]]:
        """Each whole batch with the scan it came from; see Scan for what comes behind damage."""
        number: int | None = self._first_number
        while number is not None:
            # Look ahead first: a writer seals a segment before it makes the next one.
            following = segment.present(self._disk, self._claims.directory, number + 1)
            is_newest = not following and number >= self._claims.highest
            if number >= paths.MAX_SEGMENT:
                return
            try:
                source = segment.open_source(self._disk, self._claims.directory, number)
            except FileNotFoundError:
                if is_newest and number > self._claims.highest:
                    return
                self._missing(number)
            except LineError as error:
                self._unreadable(number, error)
            else:
                may_grow = source.content is None and number >= self._claims.first_unsealed()
                try:
                    yield from self._segment(source, is_last=may_grow and is_newest)
                finally:
                    segment.close_source(self._disk, source)
            number = None if is_newest else self._next(number)

    def _next(self, number: int) -> int | None:
        """The number after this one; behind a gap, that of the next segment there is, so that a
        stray name with a huge number is no endless search."""
        directory = self._claims.directory
        if segment.present(self._disk, directory, number + 1):
            return number + 1
        self._missing(number + 1)
        names = (paths.parse(name) for name in self._disk.listdir(directory))
        later = [name.number for name in names if name.kind == "segment" and name.number > number]
        return min(later, default=None)

    def _segment(
        self, source: segment.Source, *, is_last: bool
    ) -> Iterator[tuple[Scan, list[Record]]]:
        scan = Scan(
            self._disk,
            source,
            session_id=self._claims.session_id,
            is_last=is_last,
            follows=None if self.damage else self.place,
            remembers=self._remembers and is_last,
        )
        for batch in scan.batches():
            self._close_gap(scan)
            if batch[-1].seq >= self._next_watched and not scan.damage:
                self._note_watched(batch)
            yield scan, batch
        self._close_gap(scan)
        self.place = scan.place
        self.damage += scan.damage
        self.segments.append(scan.info())
        self.edited |= scan.edited
        self.torn, self.kept = scan.torn, scan.kept
        self.last, self.last_source = scan, source

    def _note_watched(self, batch: list[Record]) -> None:
        for record in batch:
            if record.seq in self._watch:
                self.watched[record.seq] = record.crc
        later = (seq for seq in self._watch if seq > batch[-1].seq)
        self._next_watched = min(later, default=EVERYTHING)

    def _close_gap(self, scan: Scan) -> None:
        """Where the next segment begins tells how far the damage before it reached."""
        if self.damage and self.damage[-1].last_seq is None and scan.header is not None:
            first = self.damage[-1].first_seq
            last = scan.header.first_seq - 1
            if first is not None and last >= first:
                self.damage[-1] = msgspec.structs.replace(self.damage[-1], last_seq=last)

    def _missing(self, number: int) -> None:
        before = f"the log before it ends at {self.place}" if self.place else "it is needed"
        self._note(number, None, "missing", f"the segment is missing; {before}")

    def _unreadable(self, number: int, error: LineError) -> None:
        # Only a compressed one can be unreadable as a whole.
        self._note(number, 0, error.rule, error.reason, compressed=True)

    def _note(
        self, number: int, offset: int | None, rule: str, reason: str, *, compressed: bool = False
    ) -> None:
        if self.damage and self.damage[-1].rule == rule == "missing":
            return
        self.damage.append(
            Damage(
                path=paths.join(
                    self._claims.directory,
                    paths.segment(min(number, paths.MAX_SEGMENT - 1), compressed=compressed),
                ),
                offset=offset,
                first_seq=self.place.seq + 1 if self.place else None,
                rule=rule,
                reason=reason,
            )
        )


def unreached(
    claims: survey.Claims, *, start: Place, end: Place, watched: Mapping[int, int]
) -> list[Damage]:
    """What meta's floor and the anchor know of the log that is not there (FORMAT.md §8.4).

    The log was read from `start` to `end`; `watched` are the chain values that were met on the way,
    by seq, as a walk keeps them. A seq that a proven snapshot covers needs no log.
    """
    found = []
    for name, seq, chain in marks(claims):
        if seq < start.seq or seq == 0:
            continue
        if seq > end.seq:
            reason = f"the log was synced up to seq {seq}, but ends at seq {end.seq}"
            first = end.seq + 1
        elif watched.get(seq, chain) != chain:
            reason = (
                f"the chain value at seq {seq} was {codec.hexed(chain)}, "
                f"but is {codec.hexed(watched[seq])}: these are not the events that were there"
            )
            first = seq
        else:
            continue
        found.append(
            Damage(
                path=paths.join(claims.directory, name),
                first_seq=first,
                last_seq=seq,
                rule="floor",
                reason=reason,
            )
        )
    return found


def marks(claims: survey.Claims) -> list[tuple[str, int, int]]:
    """(file, seq, chain value) that the log is known to have reached."""
    found = []
    if claims.meta is not None:
        floor = claims.meta.floor
        found.append((paths.META, floor.seq, codec.unhexed(floor.crc)))
    if claims.anchor is not None:
        found.append((paths.LOCK, claims.anchor.seq, codec.unhexed(claims.anchor.chain)))
    return found
