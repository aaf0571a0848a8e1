"""The whole batches of a segment, where all is well: a shortcut of scan.py and never more.

It ends before the first line that is not the next sound event, and the scanner goes on there and
says what that is.
"""

from __future__ import annotations

from collections.abc import Iterator

from durasess.engine import codec, files
from durasess.engine.records import Place, Record
from durasess.engine.segment import Source

AT_ONCE = 512 * 1024
"""Bytes that are looked at in one piece: of short lines that is thousands of records."""

_MOST_BYTES = 8 * AT_ONCE
"""Of a batch that is looked at in one piece; the writer's own are smaller."""

Batch = list[Record]


class Run:
    """Reads on in `source` from byte `at`, where the log is at `place`; `ahead` is what was read
    there already, and when `batches` is exhausted what was read behind the last of them."""

    def __init__(
        self, disk: files.Files, source: Source, at: int, place: Place, ahead: bytes
    ) -> None:
        self._disk = disk
        self._source = source
        self._at = at
        self._place = place
        self.ahead = ahead

    def batches(self) -> Iterator[tuple[Batch, memoryview]]:
        """Each whole batch with its bytes in the file."""
        wanted = AT_ONCE
        while wanted <= _MOST_BYTES:
            room = max(0, self._source.size - self._at)
            data = self.ahead or self._source.read_at(self._disk, min(wanted, room), self._at)
            found, is_sound = whole_batches(data, self._at, self._place)
            view, begin = memoryview(data), 0
            for batch in found:
                last = batch[-1]
                end = last.offset + len(last.line) + 1 - self._at
                yield batch, view[begin:end]
                begin = end
            self.ahead = data[begin:]
            if not is_sound or len(data) >= room or not data:
                return
            if found:
                self._at += begin
                self._place = Place(last.seq, last.crc)
            else:
                wanted *= 2
            self.ahead = b""


def whole_batches(data: bytes, base: int, place: Place) -> tuple[list[Batch], bool]:
    """The batches that `data`, which lies at byte `base`, begins with, and whether nothing but its
    end ended them. `place` is where the log is before them."""
    seq, chain = place
    found: list[Batch] = []
    batch: Batch = []
    begin = 0
    # Not split at once: filler may follow, which is thousands of empty lines.
    while (end := data.find(b"\n", begin)) >= 0:
        line = data[begin:end]
        seq += 1
        sound = codec.sound(line, seq, chain)
        if sound is None:
            return found, False
        number, chain = sound
        batch.append(Record(base + begin, line, seq, number, chain))
        begin = end + 1
        if number != 0:
            if (number or 1) != len(batch):
                return found, False
            found.append(batch)
            batch = []
    return found, True
