"""The lines of a foreign file, one after the other, as far as they are whole; each once more on
demand. How the file is read is in foreign_file.py, what the bytes of a line mean in decoding.py.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

from durasess.engine import codec
from durasess.engine.scratch import Scratch
from durasess.errors import StorageError
from durasess.interop.aside import Numbers
from durasess.interop.decoding import Decoding
from durasess.interop.foreign_file import ForeignFile, blocks, raw_lines
from durasess.interop.importer import End, Line
from durasess.interop.suspects import suspects

TOGETHER = 32
"""Lines that are decoded at once, while they are at hand in the processor."""

_MOST_APART = 64
"""So many times as many lines are at most decoded one by one before that is tried again."""


class Source:
    """The lines of a file, decoded. `ends` are the line numbers behind which an End stands.

    `number` is that of the newest line, `bytes` how many bytes there are up to its end, without its
    line feed; `digest()` is of those. `torn` is the length of a last line that is not whole,
    `problem` says why the file could not be read to its end.
    """

    def __init__(
        self, file: ForeignFile, decode: Decoding, ends: frozenset[int], scratch: Scratch
    ) -> None:
        self.scratch = scratch
        self._file = file
        self._decode = decode
        self._ends = ends
        self._hash = codec.hasher()
        self._hashed = 0
        self._block = b""
        self._begin = 0
        self._starts = Numbers(scratch)
        self._apart = 0
        self._patience = 1
        self.number = 0
        self.bytes = 0
        self.torn = 0
        self.blank = 0
        self.problem = ""
        self.is_at_end = False

    def __iter__(self) -> Iterator[Line | End]:
        ends = self._ends
        for line in self._whole():
            if line is not None:
                yield line
            if self.number in ends:
                yield End()
        self.is_at_end = True
        if self.number not in ends:
            yield End()

    def _whole(self) -> Iterator[Line | None]:
        """Each line that is whole, None for a blank one; `number` and `bytes` go along."""
        begin = 0
        for block, is_ended in self._blocks():
            self._look_at(block, begin)
            lines = block.split(b"\n")
            starts = list(accumulate([len(raw) + 1 for raw in lines], initial=begin))
            begin = starts.pop()
            self._starts.extend(starts)
            suspected = {bisect_right(starts, starts[0] + place) - 1 for place in suspects(block)}
            for first in range(0, len(lines), TOGETHER):
                some = lines[first : first + TOGETHER]
                items, depth = self._together(some)
                for index, raw in enumerate(some, first):
                    number = self.number + 1
                    line: Line | None
                    if items and index not in suspected:
                        line = Line(number, raw, items[index - first], "", [], None, "", raw, depth)
                    else:
                        line = self._read(number, raw, is_suspect=index in suspected)
                        if line and line.problem and not is_ended and index == len(lines) - 1:
                            # Its writer may be in the middle of it.
                            self.torn = len(raw)
                            return
                    self.number = number
                    self.bytes = starts[index] + len(raw)
                    yield line

    def _blocks(self) -> Iterator[tuple[bytes, bool]]:
        try:
            yield from blocks(self._file)
        except StorageError as error:
            self.problem = str(error)

    def _together(self, lines: list[bytes]) -> tuple[list[Any], int]:
        """What is on these lines where they can be decoded together; where they cannot, that is
        tried more and more seldom."""
        if self._apart:
            self._apart -= 1
            return [], 0
        items, depth = self._decode.together(lines)
        self._patience = 1 if items else min(2 * self._patience, _MOST_APART)
        self._apart = self._patience - 1
        return items, depth

    def _read(self, number: int, raw: bytes, *, is_suspect: bool) -> Line | None:
        """A line by itself; None for a blank one."""
        if raw.strip():
            return self._decode(number, raw, is_suspect=is_suspect)
        self.blank += 1
        return None

    def _look_at(self, block: bytes, begin: int) -> None:
        """The next block; the line feed before it is hashed with it, if ever."""
        self._digest(max(begin - 1, 0))
        self._block, self._begin = block, begin

    def _digest(self, end: int) -> None:
        """Hash up to byte `end`, which is in the newest block or at its end."""
        if self._hashed < self._begin <= end:
            self._hash.update(b"\n")
            self._hashed = self._begin
        if self._hashed < end:
            block = memoryview(self._block)
            self._hash.update(block[self._hashed - self._begin : end - self._begin])
            self._hashed = end

    def digest(self) -> str:
        """Of all bytes up to `bytes`."""
        self._digest(self.bytes)
        return self._hash.hexdigest()

    def decoded(self, text: str) -> tuple[Any, list[str]]:
        """What a JSON text on a line stands for, without its secrets, and where they were."""
        return self._decode.decoded(text)

    def reread(self, number: int, *, was_sound: bool = False) -> Line:
        """A line that was there before, and `was_sound`. StorageError when it is not any more."""
        line = self._again(number)
        if was_sound and line.problem:
            raise self._file.changed(number)
        return line

    def _again(self, number: int) -> Line:
        if self._file.is_compressed:
            for index, (raw, _) in enumerate(raw_lines(self._file), 1):
                if index == number:
                    return self._decode(number, raw)
            raise self._file.changed(number)
        start = self._starts[number - 1]
        end = self._starts[number] - 1 if number < self.number else self.bytes
        return self._decode(number, self._file.read(start, end - start))
