"""The log of a session that several writers share: what the others wrote is read from where this
writer read last, and the next line goes behind the last line of the log.

The two places may differ for a moment: where the anchor proves the end of the log, a writer may
write there first and read what the others wrote before that when it has let others in. Writing is
in log.py; when it may be done, in turns.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from durasess.engine import codec, lock, paths, plain, segment
from durasess.engine.log import Log
from durasess.engine.records import Place, Record
from durasess.engine.scan import Scan
from durasess.engine.segment import Midway
from durasess.engine.types import FILLER, MAX_PREALLOCATE, LineError

_FILLED = FILLER * MAX_PREALLOCATE
"""As much as may be behind a line."""


class SharedLog(Log):
    """A log that goes on behind the lines of others. `read` is the place up to which its lines were
    read; `place`, as in every log, is the one behind which the next line goes."""

    def __init__(self, *arguments: Any, place: Place, **options: Any) -> None:
        super().__init__(*arguments, place=place, **options)
        self.read = place
        self._read_offset = 0

    def go_on(self, scan: Scan | None, place: Place, next_number: int, epoch: int) -> None:
        """Continue a log that somebody else wrote: in the segment of `scan`, which has no seal, or
        with None in a new one. OSError when it cannot be opened."""
        if scan is None:
            self.close()
            self._floor = (next_number - 1, place)
        else:
            self._go_on_in(scan)
        self.place = self.read = place
        self.next_number = next_number
        self._epoch = max(self._epoch, epoch + 1)

    def _go_on_in(self, scan: Scan) -> None:
        midway = scan.midway()
        header = midway.header
        path = paths.join(self._directory, paths.segment(scan.number))
        fd = self._disk.open(path, write=True)
        try:
            size = self._disk.size(fd)
        except BaseException:
            self._disk.close(fd)
            raise
        self.close()
        before = Place(header.first_seq - 1, codec.unhexed(header.chain))
        self._floor = (scan.number - 1, before)
        self._fd, self._path, self._size, self._header = fd, path, size, header
        self._hash, self._events = midway.digest, midway.events
        self.offset = self._read_offset = midway.offset

    def ends_as_told(self, size: int) -> bool:
        """Whether the active segment's file is as long as the last turn left it, and only filler
        is behind the last line (R15): what nobody told of is a foreign writer's."""
        if self._fd < 0:
            return True
        self._size = self._disk.size(self._fd)
        if self._size != size:
            return False
        behind = self._disk.read_at(self._fd, size - self.offset, self.offset)
        return behind == _FILLED[: len(behind)]

    @property
    def is_read(self) -> bool:
        """Whether everything before `place` was read."""
        return self.read.seq == self.place.seq

    def is_in_place(self) -> bool:
        """Whether the active segment is the file that has its name, and our last line still ends
        where we know it to end."""
        if not self._disk.leads_to(self._path, self._fd):
            return False
        if not self._events:
            return self._disk.size(self._fd) >= self.offset
        return self._ends_at(self.offset, codec.hexed(self.place.chain))

    def _ends_at(self, offset: int, chain: str) -> bool:
        end = b'"%s"}\n' % chain.encode()
        return self._disk.read_at(self._fd, len(end), offset - len(end)) == end

    def jump(self, anchor: lock.Anchor) -> bool:
        """Go to where the anchor says that the log ends, when that is in the active segment and a
        line with its chain value ends there. What lies between is read later."""
        if self._fd < 0 or anchor.segment != self.number or anchor.offset < self.offset:
            return False
        if not self._disk.leads_to(self._path, self._fd):
            return False
        if not self._ends_at(anchor.offset, anchor.chain):
            return False
        self.place = Place(anchor.seq, codec.unhexed(anchor.chain))
        self.offset = anchor.offset
        return True

    def new_batches(self, through: int | None = None) -> Iterator[tuple[int, list[Record]]]:
        """What others appended behind `place`, up to seq `through` if given, as the events' schema
        version and their lines; each batch is taken before it is given. Ends at the end of what
        can be proven.

        LineError when that is not the end of the log: the next segment is not what it must be.
        """
        while True:
            if self._fd < 0:
                if not self._enter_next():
                    return
                if self._header.schema_version > self._schema_version:
                    # Its writer may not have written an event into it yet.
                    yield self._header.schema_version, []
            scan = self._scan_on()
            for batch in scan.batches():
                if scan.damage or (through is not None and batch[-1].seq > through):
                    return
                self._take(batch)
                self.place, self.offset = self.read, self._read_offset
                yield self._header.schema_version, batch
            if scan.seal is None or scan.damage:
                return
            self._floor = (self.number, self.place)
            self.close()

    def passed_batches(self) -> Iterator[tuple[int, list[Record]]]:
        """The same for what lies between the last line that was read and `place`.

        LineError when it does not lead there.
        """
        whole = self._plain_batches()
        scan = None if whole else self._scan_on()
        for batch in whole if scan is None else scan.batches():
            # A scan goes on behind damage; a state must not.
            if (scan is not None and scan.damage) or batch[-1].seq > self.place.seq:
                break
            self._take(batch)
            yield self._header.schema_version, batch
            if self.is_read:
                break
        if self.read != self.place:
            raise LineError("chain", f"reading on led to {self.read}, not to {self.place}")

    def _plain_batches(self) -> list[list[Record]]:
        """What lies there when it is whole batches and nothing else, else nothing: then the
        scanner, which is slower, tells what it is."""
        begin = self._read_offset
        data = self._disk.read_at(self._fd, self.offset - begin, begin)
        found = plain.whole_batches(data, 0, begin, self.read, [])
        is_all = found.is_sound and not found.rest and found.place == self.place
        return found.batches if is_all else []

    def _enter_next(self) -> bool:
        """Open the next segment, if another writer made it."""
        path = paths.join(self._directory, paths.segment(self.next_number))
        try:
            fd = self._disk.open(path, write=True)
        except FileNotFoundError:
            return False
        try:
            source = segment.Source(path, self.next_number, self._disk.size(fd), fd, None, (0, 0))
            first = next(segment.lines(self._disk, source), None)
            if first is None:
                raise LineError("header", f"{path} is empty")
            header = segment.parse_header(first.text, path)
            found = (header.session_id, header.first_seq, header.chain)
            expected = (self._session_id, self.place.seq + 1, codec.hexed(self.place.chain))
            if found != expected:
                raise LineError("header", f"{path} does not follow {self.place}")
        except BaseException:
            self._disk.close(fd)
            raise
        self._fd, self._path, self._header = fd, path, header
        self._epoch = max(self._epoch, header.epoch + 1)
        self._hash = codec.hasher(first.text + b"\n")
        self._events = 0
        self.offset = self._read_offset = len(first.text) + 1
        self.next_number += 1
        return True

    def _scan_on(self) -> Scan:
        source = segment.Source(
            self._path, self.number, self._disk.size(self._fd), self._fd, None, (0, 0)
        )
        return Scan(
            self._disk,
            source,
            session_id=self._session_id,
            is_last=True,
            follows=self.read,
            midway=Midway(self._header, self._read_offset, self._events, self._hash),
        )

    def _take(self, batch: list[Record]) -> None:
        for record in batch:
            self._hash.update(record.line + b"\n")
        last = batch[-1]
        self._events += len(batch)
        self._read_offset = last.offset + len(last.line) + 1
        self.read = Place(last.seq, last.crc)

    def start_segment(self, ts: str) -> None:
        """As in every log; what this writer wrote it need not read."""
        super().start_segment(ts)
        self._read_offset = self.offset

    def _hashed(self, lines: bytes) -> None:
        if self.is_read:
            super()._hashed(lines)

    def _moved(self, size: int, after: Place, events: int) -> None:
        if self.is_read:
            super()._moved(size, after, events)
            self.read, self._read_offset = self.place, self.offset
        else:
            self.place, self.offset = after, self.offset + size
