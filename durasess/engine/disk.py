"""The narrow interface to the disk that the engine gets handed in, so tests can replace it by one
that loses power."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class FileStat(NamedTuple):
    """What identifies a file and how long it is: `inode` is (device, number), `size` in bytes."""

    inode: tuple[int, int]
    size: int
    directory: bool


class Files(Protocol):
    """The disk as the engine sees it. Paths are str; descriptors are int; sizes are bytes."""

    def mkdir(self, path: str) -> None:
        """Make a directory, mode 0700. Durable after `sync_dir` of its parent."""

    def listdir(self, path: str) -> list[str]:
        """The names in a directory, in no order."""

    def stat(self, path: str) -> FileStat:
        """Raises FileNotFoundError when there is nothing."""

    def create(self, path: str) -> int:
        """A new empty file, mode 0600, open for reading and writing; FileExistsError if there."""

    def open(self, path: str, *, write: bool = False) -> int:
        """An existing file."""

    def read_at(self, fd: int, size: int, offset: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""

    def first_bytes(self, path: str, size: int) -> bytes:
        """Up to `size` bytes that an existing file begins with: what `open`, `read_at` and `close`
        do, for lists that look at files of thousands of sessions."""

    def write_at(self, fd: int, data: bytes, offset: int) -> int:
        """One write call; returns how many bytes were taken, possibly fewer than given."""

    def fstat(self, fd: int) -> FileStat:
        """The open file, whatever its name is by now."""

    def size(self, fd: int) -> int:
        """The open file's length, without asking for its times: see `leads_to`."""

    def leads_to(self, path: str, fd: int) -> bool:
        """Whether a name leads to this open file.

        On the path of every append, so without asking for the file's times where that can be
        avoided: since Linux 6.13 (multigrain timestamps) a look at them makes the next write
        change them, and the sync after it has to write them out too.
        """

    def truncate(self, fd: int, size: int) -> None:
        """Cut the open file to `size` bytes."""

    def sync(self, fd: int) -> None:
        """Return only when the content is on stable storage. Never retried after an error."""

    def close(self, fd: int) -> None:
        """Give the descriptor back; never retried."""

    def replace(self, source: str, target: str) -> None:
        """Rename atomically over `target`. Durable after `sync_dir`."""

    def unlink(self, path: str) -> None:
        """Remove a name; FileNotFoundError when it is not there. Durable after `sync_dir`."""

    def rmdir(self, path: str) -> None:
        """Remove an empty directory."""

    def sync_dir(self, path: str) -> None:
        """Make the names in a directory durable."""

    def lock(self, fd: int, *, shared: bool = False, wait: bool = False) -> bool:
        """Take the kernel's lock on an open file. False when another has it, or with `wait` not
        before it is free. Taken again, shared becomes exclusive and the other way round; when that
        fails, the lock may be lost."""

    def unlock(self, fd: int) -> None:
        """Release the kernel's lock."""
