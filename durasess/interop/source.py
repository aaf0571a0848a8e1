"""The lines of a foreign file as bytes: plain or zstd, in constant memory, without touching it.

A line ends at a line feed and nowhere else. What its bytes mean is in decoding.py.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any

from durasess.engine import codec, frames
from durasess.engine.files import Files
from durasess.engine.scratch import Scratch
from durasess.engine.types import LineError
from durasess.errors import StorageError
from durasess.interop.aside import Numbers
from durasess.interop.decoding import Decoding
from durasess.interop.importer import End, Line
from durasess.interop.suspects import suspects

CHUNK = 1 << 20
"""Bytes that are read at once."""

MAX_LINE = 512 * 1024 * 1024
"""Bytes of the longest line that is read."""

TOGETHER = 32
"""Lines that are decoded at once, while they are at hand in the processor."""

_MOST_APART = 64
"""So many times as many lines are at most decoded one by one before that is tried again."""

Progress = Callable[[int], None]
"""Is told how many more bytes of the file were read."""


class ForeignFile:
    """An open foreign file, never locked, never written. It ends for us where it ended when it was
    opened. Close it."""

    def __init__(self, disk: Files, path: str, on_progress: Progress | None = None) -> None:
        self._disk = disk
        self._on_progress = on_progress
        self.path = path
        try:
            self.fd, self.path = _open(disk, path)
            self.size = disk.fstat(self.fd).size
        except OSError as error:
            raise StorageError(
                f"{path} cannot be read: {error}. Nothing was imported.",
                path=path,
                errno=error.errno,
            ) from error

    @classmethod
    def opened(
        cls, disk: Files, fd: int, path: str, size: int, on_progress: Progress | None
    ) -> ForeignFile:
        """One that another process opened, as it was there."""
        file = cls.__new__(cls)
        file._disk, file._on_progress = disk, on_progress
        file.fd, file.path, file.size = fd, path, size
        return file

    @property
    def is_compressed(self) -> bool:
        """Whether it is a zstd file."""
        return self.path.endswith(".zst")

    def close(self) -> None:
        """Let go of it."""
        self._disk.close(self.fd)

    def chunks(self) -> Iterator[bytes]:
        """Its content from the beginning. StorageError when it cannot be read."""
        try:
            if self.is_compressed:
                yield from frames.decompressed(self._stored())
            else:
                yield from self._stored()
        except (OSError, LineError) as error:
            raise StorageError(
                f"{self.path} cannot be read to its end: {error}. What is before that is "
                "imported; import again when the cause is gone.",
                path=self.path,
                errno=getattr(error, "errno", None),
            ) from error

    def _stored(self) -> Iterator[bytes]:
        offset = 0
        while offset < self.size:
            data = self._disk.read_at(self.fd, min(CHUNK, self.size - offset), offset)
            if not data:
                return
            offset += len(data)
            self.progressed(len(data))
            yield data

    def progressed(self, size: int) -> None:
        """So many more bytes of it were read."""
        if self._on_progress is not None:
            self._on_progress(size)

    def read(self, offset: int, size: int) -> bytes:
        """Some bytes of a plain file."""
        return self._disk.read_at(self.fd, size, offset)


def blocks(file: ForeignFile) -> Iterator[tuple[bytes, bool]]:
    """Its content in blocks of whole lines, without the last line's line feed, and whether there is
    one. StorageError for a line that is too long."""
    parts: list[bytes | memoryview] = []
    length = 0
    for chunk in file.chunks():
        end = chunk.rfind(b"\n")
        parts.append(chunk if end < 0 else memoryview(chunk)[:end])
        length += len(parts[-1])
        if end >= 0:
            yield b"".join(parts), True
            parts = [chunk[end + 1 :]]
            length = len(parts[0])
        if length > MAX_LINE:
            raise StorageError(
                f"{file.path}: a line has more than {MAX_LINE} bytes. What is before it is "
                "imported.",
                path=file.path,
            )
    if length:
        yield b"".join(parts), False


def raw_lines(file: ForeignFile) -> Iterator[tuple[bytes, bool]]:
    """Each line without its line feed, and whether it has one. StorageError as `blocks`."""
    for block, is_ended in blocks(file):
        *lines, last = block.split(b"\n")
        for line in lines:
            yield line, True
        yield last, is_ended


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

    def reread(self, number: int) -> Line:
        """A line that was there before."""
        if self._file.is_compressed:
            for index, (raw, _) in enumerate(raw_lines(self._file), 1):
                if index == number:
                    return self._decode(number, raw)
        start = self._starts[number - 1]
        end = self._starts[number] - 1 if number < self.number else self.bytes
        return self._decode(number, self._file.read(start, end - start))


def prefix(file: ForeignFile, size: int) -> tuple[str, bool]:
    """The digest of the first `size` bytes, empty when there are fewer or when they end inside a
    line, and whether there is nothing but a line feed behind them. StorageError when they cannot be
    read."""
    hashed = codec.hasher()
    done = 0
    behind = b""
    is_readable = True
    try:
        for chunk in file.chunks():
            hashed.update(chunk[: max(size - done, 0)])
            behind = (behind + chunk[max(size - done, 0) :])[:2]
            done += len(chunk)
            if len(behind) == 2:
                break
    except StorageError:
        if done < size:
            raise
        is_readable = False
    if done < size or behind[:1] not in (b"", b"\n"):
        return "", False
    return hashed.hexdigest(), is_readable and len(behind) < 2


def _open(disk: Files, path: str) -> tuple[int, str]:
    try:
        return disk.open(path), path
    except FileNotFoundError:
        # Its owner may have compressed it meanwhile.
        return disk.open(path + ".zst"), path + ".zst"
