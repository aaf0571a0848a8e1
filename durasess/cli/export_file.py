"""The file that an export is written to: under a temporary name, then published; whole or not."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Self

from durasess.cli.options import UsageError
from durasess.cli.stores import is_session
from durasess.engine import files, publishing

_BUFFER = 1 << 18


class ExportFile:
    """Use it in a `with` block: what was sent is there under its name when the block ends well, and
    nothing is there, or what was before, when it does not. `bytes` were written.

    UsageError when the name is that of something else than a file, or lies in a session.
    """

    def __init__(self, name: str) -> None:
        self.path = os.path.realpath(os.path.expanduser(name))
        self.bytes = 0
        self._disk = files.RealFiles()
        self._directory = os.path.dirname(self.path)
        self._temporary = f"{self.path}.{os.getpid()}.tmp"
        self._waiting: list[bytes] = []
        self._size = 0
        _check(self.path, self._directory)
        self._fd = publishing.create_fresh(self._disk, self._temporary)

    def send(self, text: str) -> None:
        """Take a piece of the file."""
        data = text.encode("utf-8", "replace")
        self._waiting.append(data)
        self._size += len(data)
        if self._size >= _BUFFER:
            self._write()

    def _write(self) -> None:
        data = b"".join(self._waiting)
        publishing.write_all(self._disk, self._fd, data, self.bytes)
        self.bytes += len(data)
        self._waiting, self._size = [], 0

    def _publish(self) -> None:
        self._write()
        self._disk.sync(self._fd)
        self._disk.close(self._fd)
        self._fd = -1
        self._disk.replace(self._temporary, self.path)
        self._disk.sync_dir(self._directory)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self._publish()
        finally:
            if self._fd >= 0:
                self._disk.close(self._fd)
                publishing.discard(self._disk, self._temporary)


def _check(path: str, directory: str) -> None:
    if os.path.exists(path) and not os.path.isfile(path):
        raise UsageError(f"{path} is no file: give -o the name of one.")
    if not os.path.isdir(directory):
        raise UsageError(f"there is no directory {directory} for the file of -o.")
    if is_session(directory):
        raise UsageError(f"{directory} is a session: give -o a file somewhere else.")
