"""A place in a session's log that moves on with what is appended: what `durasess tail` reads by.

It takes no lock and changes nothing. An event is given when it is acknowledged: when the anchor
says so, or its segment is sealed, or nobody is left who could still be writing it. The cursor goes
on over rotations, over a segment that a writer copied forward, and over segments that were pruned.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import NamedTuple

from durasess.cli import salvage
from durasess.cli.blocks import span
from durasess.engine import codec, files, lock, paths, segment
from durasess.engine.records import Place, Record
from durasess.engine.scan import Scan
from durasess.engine.segment import Midway
from durasess.engine.types import Event, LineError
from durasess.engine.walk import EVERYTHING
from durasess.errors import CorruptionError, DurasessError, FencedError, SessionNotFoundError
from durasess.store import holders

PATIENCE = 6
"""Looks at which the same thing must be wrong until it is believed: a writer may be at work."""


class Told(NamedTuple):
    """An event, and the bytes of its line; or with None what is `missing` before the next one."""

    event: Event | None
    size: int = 0
    missing: str = ""


class Cursor:
    """Gives the events behind a seq, and those that come, each time when `read` is called."""

    def __init__(self, disk: files.Files, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._session_id = salvage.session_id_of(disk, directory)
        self._number = 0
        self._is_done = True
        self._source: segment.Source | None = None
        # Where the open segment was read to: place, byte, events, hash.
        self._at = Place(0, codec.CHAIN_START)
        self._midway: Midway | None = None
        # The last event that was given, or passed over.
        self._given: Place | None = None
        self._after = 0
        self._doubts: tuple[str, int] = ("", 0)

    def start(self, after: int) -> int:
        """Begin behind seq `after`, at the segment that holds what follows it, or at the first that
        is left; returns the first seq that can be given."""
        self._after = after
        first_seq = after + 1
        for number in reversed(salvage.segment_numbers(self._disk, self._directory)):
            first_seq = segment.first_seq_of(self._disk, self._directory, number) or 1
            self._number, self._is_done = number, False
            if first_seq <= after + 1:
                break
        return max(first_seq, after + 1)

    def newest(self) -> int:
        """A seq that the log has reached, the newest or shortly before."""
        anchor = lock.read_anchor(self._disk, self._directory, self._session_id)
        numbers = salvage.segment_numbers(self._disk, self._directory)
        first_seq = None
        if numbers:
            first_seq = segment.first_seq_of(self._disk, self._directory, numbers[-1])
        return max(anchor.seq if anchor is not None else 0, (first_seq or 1) - 1)

    def read(self) -> Iterator[Told]:
        """What was acknowledged since the last time.

        CorruptionError at damage that stays, FencedError when the log is not the one that was read
        before, SessionNotFoundError when it is gone.
        """
        going_on = True
        while going_on:
            try:
                # In this order, so that what is compared was true before the log was read.
                anchor = lock.read_anchor(self._disk, self._directory, self._session_id)
                if self._source is None:
                    if not self._find_next(anchor):
                        return
                    yield from self._open()
                going_on = yield from self._read_on(anchor)
            except FileNotFoundError:
                going_on = self._pass_vanished()
            except LineError as error:
                path = paths.join(self._directory, paths.segment(self._number))
                self._doubt(CorruptionError(f"{path}: {error.reason} [{error.rule}].", path=path))
                return

    def close(self) -> None:
        """Give the descriptor back; `read` opens the segment again."""
        if self._source is not None:
            segment.close_source(self._disk, self._source)
        self._source = self._midway = None

    # -- which segment ----------------------------------------------------------------------

    def _find_next(self, anchor: lock.Anchor | None) -> bool:
        """Whether there is a segment to read; it may be the one that was read before."""
        if not self._is_done or self._ends_elsewhere(anchor):
            self._is_done = False
            return True
        following = self._number + 1
        if not segment.present(self._disk, self._directory, following):
            if anchor is not None and anchor.segment < following:
                return False
            later = self._later()
            if later is None:
                return False
            following = later
        self._number, self._is_done = following, False
        return True

    def _ends_elsewhere(self, anchor: lock.Anchor | None) -> bool:
        """Whether the segment that was read to its seal holds more than that now: it is read again,
        and what was given must still be in it."""
        if anchor is None or self._given is None or anchor.segment != self._number:
            return False
        return anchor.seq > self._given.seq

    def _later(self) -> int | None:
        numbers = salvage.segment_numbers(self._disk, self._directory)
        return min((number for number in numbers if number > self._number), default=None)

    def _pass_vanished(self) -> bool:
        """A file that was there a moment ago: pruned, replaced, or gone with its session."""
        self.close()
        try:
            later = self._later()
        except FileNotFoundError:
            raise SessionNotFoundError(
                f"{self._directory} is not there any more.", path=self._directory
            ) from None
        if segment.present(self._disk, self._directory, self._number):
            return True
        if later is None:
            path = paths.join(self._directory, paths.segment(self._number))
            self._doubt(CorruptionError(f"{path} is missing, and nothing follows it.", path=path))
            return False
        self._number = later
        return True

    def _open(self) -> Iterator[Told]:
        """Open the segment at its first event."""
        self._source = segment.open_source(self._disk, self._directory, self._number)
        first = next(segment.lines(self._disk, self._source), None)
        if first is None or not first.ended:
            raise LineError("header", "the first line has no line feed")
        text = first.text.removeprefix(segment.BOM).removesuffix(b"\r")
        header = segment.parse_header(text, self._source.path)
        if header.session_id != self._session_id:
            raise LineError("session", f"it belongs to session {header.session_id!r}")
        self._at = Place(header.first_seq - 1, codec.unhexed(header.chain))
        self._midway = Midway(header, len(first.text) + 1, 0, codec.hasher(text + b"\n"))
        given = self._given
        if given is None or self._at.seq > given.seq:
            missing = span(given.seq + 1, self._at.seq) if given is not None else ""
            self._given = self._at
            if missing:
                yield Told(None, missing=f"seq {missing}: not there any more")
        elif self._at.seq == given.seq and self._at != given:
            raise self._fenced(given)

    # -- its events -------------------------------------------------------------------------

    def _read_on(self, anchor: lock.Anchor | None) -> Generator[Told, None, bool]:
        """Give what is new in the open segment; whether to go on at once, with another one."""
        source, midway = self._source, self._midway
        if source is None or midway is None:
            raise FileNotFoundError
        following = segment.present(self._disk, self._directory, self._number + 1)
        if source.fd >= 0:
            if not self._disk.leads_to(source.path, source.fd):
                self.close()
                return True
            source = source._replace(size=self._disk.size(source.fd))
        scan = Scan(
            self._disk,
            source,
            session_id=self._session_id,
            is_last=not following and source.content is None,
            follows=self._at,
            midway=midway,
        )
        through = EVERYTHING if following or anchor is None else anchor.seq
        has_unacknowledged = yield from self._give(scan, through)
        return self._has_ended(scan, has_unacknowledged=has_unacknowledged)

    def _give(self, scan: Scan, through: int) -> Generator[Told, None, bool]:
        """Give the batches up to seq `through`, and those behind it too where nobody can still be
        writing them; whether some are left that may not be acknowledged yet."""
        waiting: list[tuple[list[Record], int]] = []
        for batch in scan.batches():
            if scan.damage:
                break
            if waiting or batch[-1].seq > through:
                waiting.append((batch, scan.end))
            else:
                yield from self._take(batch, scan.end)
        if scan.damage or not waiting or (scan.seal is None and self._is_open()):
            return bool(waiting)
        for batch, end in waiting:
            yield from self._take(batch, end)
        return False

    def _has_ended(self, scan: Scan, *, has_unacknowledged: bool) -> bool:
        """Whether the segment was read to its seal. Raises what is wrong with it, once it stays."""
        if scan.damage:
            found = scan.damage[0]
            self._doubt(
                CorruptionError(
                    f'{found}. Run "durasess verify {self._directory}" to see all of it.',
                    path=found.path,
                    offset=found.offset,
                    seq=found.first_seq,
                )
            )
            return False
        if not has_unacknowledged and self._given is not None and self._at.seq < self._given.seq:
            self._doubt(self._fenced(self._given))
            return False
        self._doubts = ("", 0)
        if scan.seal is None or has_unacknowledged:
            return False
        self._is_done = True
        self.close()
        return True

    def _take(self, batch: list[Record], end: int) -> Iterator[Told]:
        assert self._midway is not None
        digest = self._midway.digest
        for record in batch:
            digest.update(record.line + b"\n")
        events = self._midway.events + len(batch)
        self._midway = Midway(self._midway.header, end, events, digest)
        self._at = Place(batch[-1].seq, batch[-1].crc)
        for record in batch:
            place = Place(record.seq, record.crc)
            given = self._given
            if given is not None and record.seq <= given.seq:
                if record.seq == given.seq and place != given:
                    raise self._fenced(given)
                continue
            event = codec.event(record.line)
            self._given = place
            if record.seq > self._after:
                yield Told(event, len(record.line) + 1)

    def _is_open(self) -> bool:
        return holders.is_open(self._disk, self._directory) is not False

    def _doubt(self, error: DurasessError) -> None:
        """Raise an error that was there at every look for a while."""
        self.close()
        said, times = self._doubts
        self._doubts = (str(error), times + 1 if said == str(error) else 1)
        if self._doubts[1] >= PATIENCE:
            raise error

    def _fenced(self, given: Place) -> FencedError:
        return FencedError(
            f"{self._directory}: the log no longer holds {given}, which was shown here before: it "
            "was repaired, or put back to an older copy.",
            path=self._directory,
            seq=given.seq,
        )
