"""Bytes that a long piece of work sets aside instead of keeping them in memory: a file that has no
name while it is used, so that nothing is left of it, however the process ends.
"""

from __future__ import annotations

import contextlib

from durasess.engine import files, paths, publishing
from durasess.errors import StorageError


class Scratch:
    """A file in `directory`, made when the first bytes are set aside. Never synced: it means
    nothing to another process. Close it."""

    def __init__(self, disk: files.Files, directory: str) -> None:
        self._disk = disk
        self._path = paths.join(directory, paths.SCRATCH)
        self._fd = -1
        self._size = 0

    def add(self, data: bytes) -> int:
        """Set bytes aside; returns the offset by which they are found. StorageError when the system
        refuses."""
        offset = self._size
        self.change(offset, data)
        self._size += len(data)
        return offset

    def change(self, offset: int, data: bytes) -> None:
        """Replace bytes that were set aside."""
        try:
            if self._fd < 0:
                self._fd = publishing.create_fresh(self._disk, self._path)
                # Where an open file must keep its name, closing takes it away.
                publishing.discard(self._disk, self._path)
            publishing.write_all(self._disk, self._fd, data, offset)
        except OSError as error:
            raise self._refused(error, "nothing more can be set aside in it") from error

    def read(self, offset: int, size: int) -> bytes:
        """Bytes that were set aside."""
        try:
            data = self._disk.read_at(self._fd, size, offset)
        except OSError as error:
            raise self._refused(error, "what was set aside in it cannot be read") from error
        return data

    def close(self) -> None:
        """Give it back."""
        if self._fd < 0:
            return
        fd, self._fd = self._fd, -1
        with contextlib.suppress(OSError):
            self._disk.close(fd)
        publishing.discard(self._disk, self._path)

    def _refused(self, error: OSError, what: str) -> StorageError:
        return StorageError(
            f"{self._path}, a file for this piece of work alone: {what}: {error}. What was written "
            "before stays; make room and try again.",
            path=self._path,
            errno=error.errno,
        )
