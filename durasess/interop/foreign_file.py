"""A foreign file as bytes: plain or zstd, in constant memory, without touching it; its lines end at
a line feed and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from durasess.engine import codec, frames
from durasess.engine.files import Files
from durasess.engine.types import LineError
from durasess.errors import StorageError

CHUNK = 1 << 20
"""Bytes that are read at once."""

MAX_LINE = 512 * 1024 * 1024
"""Bytes of the longest line that is read."""

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
            raise self._unreadable(error) from error

    def _stored(self) -> Iterator[bytes]:
        offset = 0
        while offset < self.size:
            data = self._disk.read_at(self.fd, min(CHUNK, self.size - offset), offset)
            if not data:
                raise self._shrunk(offset)
            offset += len(data)
            self.progressed(len(data))
            yield data

    def progressed(self, size: int) -> None:
        """So many more bytes of it were read."""
        if self._on_progress is not None:
            self._on_progress(size)

    def read(self, offset: int, size: int) -> bytes:
        """Some bytes of a plain file that were read before. StorageError when they are not there
        any more."""
        try:
            data = self._disk.read_at(self.fd, size, offset)
        except OSError as error:
            raise self._unreadable(error) from error
        if len(data) < size:
            raise self._shrunk(offset + len(data))
        return data

    def _unreadable(self, error: OSError | LineError) -> StorageError:
        return StorageError(
            f"{self.path} cannot be read to its end: {error}. What is before that is imported; "
            "import again when the cause is gone.",
            path=self.path,
            errno=getattr(error, "errno", None),
        )

    def _shrunk(self, size: int) -> StorageError:
        return StorageError(
            f"{self.path} became shorter while it was read: it had {self.size} bytes when it was "
            f"opened, and now ends at byte {size}. What was read is imported; import again when "
            "its owner has finished with it.",
            path=self.path,
            offset=size,
        )

    def changed(self, line: int) -> StorageError:
        """What to raise when a line is not what it was."""
        return StorageError(
            f"{self.path}: line {line} changed while the file was read. What is before that is "
            "imported; import again when its owner has finished with it.",
            path=self.path,
        )


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
