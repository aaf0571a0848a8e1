"""The whole batches of a segment, where all is well: a shortcut of scan.py and never more.

It ends before the first line that is not the next sound event, and the scanner goes on there and
says what that is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from durasess.engine import codec, files
from durasess.engine.records import Place, Record
from durasess.engine.segment import Source

AT_ONCE = 512 * 1024
"""Bytes that are looked at in one piece: of short lines that is thousands of records."""

_MOST_BYTES = 8 * AT_ONCE
"""Of a line or a batch that this takes; the writer's own are smaller."""

MAX_REMEMBERED = 4 * 1024 * 1024
"""Bytes of a segment that are kept until it is settled."""

Batch = list[Record]


class Run:
    """Reads whole batches of `source` from byte `at`, where the log is at `place`. `ahead` was
    read before: its bytes from `begin` on stand at `at`. When `batches` is exhausted, `ahead` is
    what was read behind the last of them."""

    def __init__(
        self, disk: files.Files, source: Source, at: int, place: Place, ahead: bytes, begin: int = 0
    ) -> None:
        self._disk = disk
        self._source = source
        self._at = at
        self._place = place
        self._begin = begin
        self.ahead = ahead

    def batches(self) -> Iterator[tuple[Batch, list[memoryview]]]:
        """Each whole batch with its bytes in the file: two pieces or more where it lies across what
        is looked at in one."""
        data, begin = self.ahead, self._begin
        batch: Batch = []
        pieces: list[memoryview] = []
        wanted = AT_ONCE
        while True:
            if begin == len(data):
                room = max(0, self._source.size - self._at)
                data, begin = self._source.read_at(self._disk, min(wanted, room), self._at), 0
            base = self._at - begin
            view = memoryview(data)
            found = whole_batches(data, begin, base, self._place, batch)
            is_stuck = found.end == begin
            for one in found.batches:
                end = one[-1].offset + len(one[-1].line) + 1 - base
                yield one, [*pieces, view[begin:end]]
                pieces, begin = [], end
            pieces.append(view[begin : found.end])
            wanted = 2 * wanted if is_stuck else AT_ONCE
            is_all = not data or base + len(data) >= self._source.size
            is_large = max(wanted, sum(map(len, pieces))) > _MOST_BYTES
            if is_all or is_large or not found.is_sound:
                self.ahead = b"".join([*pieces, view[found.end :]])
                return
            batch, self._place, self._at = found.rest, found.place, base + found.end
            data, begin = b"", 0


class Remembered:
    """The bytes of a segment that were proven, from its first one on, kept for who reads them again
    and compares; not where they are many."""

    def __init__(self, wanted: bool) -> None:
        self._pieces: list[bytes | memoryview] | None = [] if wanted else None
        self._size = 0

    def add(self, piece: bytes | memoryview) -> None:
        """What stands behind the piece before."""
        if self._pieces is not None:
            self._pieces.append(piece)
            self._size += len(piece)
            if self._size > MAX_REMEMBERED:
                self._pieces = None

    def take(self, size: int) -> bytes | None:
        """The first `size` bytes, when that is what was kept; they are let go."""
        pieces = self._pieces
        self.forget()
        return None if pieces is None or self._size != size else b"".join(pieces)

    def forget(self) -> None:
        """Nobody will compare."""
        self._pieces = None


class Found(NamedTuple):
    """`batches` are whole; `rest` are the lines of one that goes on behind what was looked at.
    `end` is the byte behind the last sound line, `place` where the log is there, and `is_sound`
    says that nothing but the end of the bytes ended them."""

    batches: list[Batch]
    rest: Batch
    end: int
    place: Place
    is_sound: bool


def whole_batches(data: bytes, begin: int, base: int, place: Place, batch: Batch) -> Found:
    """What `data` holds from byte `begin` on, `base` being the place in the file of its first one.
    The log is at `place` there, in the middle of `batch` when that has lines."""
    seq, chain = place
    found: list[Batch] = []
    batch = list(batch)
    # Not split at once: filler may follow, which is thousands of empty lines.
    while (end := data.find(b"\n", begin)) >= 0:
        line = data[begin:end]
        sound = codec.sound(line, seq + 1, chain)
        if sound is None:
            return Found(found, batch, begin, Place(seq, chain), False)
        seq += 1
        number, chain = sound
        batch.append(Record(base + begin, line, seq, number, chain))
        begin = end + 1
        if number != 0:
            if (number or 1) != len(batch):
                return Found(found, batch, begin, Place(seq, chain), False)
            found.append(batch)
            batch = []
    return Found(found, batch, begin, Place(seq, chain), True)
