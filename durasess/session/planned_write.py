"""One write to a workspace file: checked when it is planned, checked again when it is applied.

Choosing the new content and remembering what was read is the workspace's part. A file is replaced
whole: temporary name in its directory, sync, rename, sync of the directory.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from durasess.engine import codec, publishing
from durasess.engine.disk import Files
from durasess.errors import EventRejectedError, FileChangedError, StorageError
from durasess.session import leftovers
from durasess.session.workspace_paths import Place, locate, locate_name

_CHUNK_BYTES = 1 << 20


class WorkspaceFiles(Files, Protocol):
    """The disk as a workspace sees it: a user's file has a mode of its own."""

    def chmod(self, path: str, mode: int) -> None:
        """Set the permission bits."""


@dataclass(frozen=True)
class Site:
    """What the writes of one workspace share: its root, the disk, the version of each file that
    the session read or wrote last (by `Place.key`), and a lock around each change."""

    root: str
    files: WorkspaceFiles
    seen: dict[str, str] = field(default_factory=dict)
    changing: threading.Lock = field(default_factory=threading.Lock)


class PlannedWrite:
    """A change of one file that was checked and not yet made.

    `path` is absolute; `before` and `after` are versions, None where there is no file. `data` is
    the new content, None to delete.
    """

    def __init__(self, site: Site, place: Place, *, before: str | None, data: bytes | None) -> None:
        self._site = site
        self._place = place
        self._data = data
        self.path = place.path
        self.before = before
        self.after = None if data is None else version_of(data)

    def record(self) -> dict[str, Any]:
        """What the start of the call holds, so that `settle` can tell later whether it was done:
        `{"path", "before", "after"}`, the path from the root, with forward slashes."""
        return {"path": self._place.relative, "before": self.before, "after": self.after}

    def apply(self) -> str | None:
        """Make the change, durable; the new version, None after a delete.

        The file is looked at again just before it is replaced. Between that look and the rename
        another program may still write, and what it wrote is then lost: no system offers a rename
        that depends on content. Writes through one workspace exclude each other. The permission
        bits stay; owner, hard links and extended attributes are those of a new file.

        Raises FileChangedError when the file is not what it was, StorageError when the system
        refuses, WorkspaceNotFoundError when the root is gone; the file is then as it was, unless
        the message says otherwise, and no temporary file is left.
        """
        if self._data is None:
            self._delete()
        else:
            self._replace(self._data)
        return self.after

    def _replace(self, data: bytes) -> None:
        self._same_place()
        with refusals(self.path, "written"), _parents(self._site.files, self.path):
            tmp = self._write_tmp(data)
            try:
                with self._site.changing:
                    self._unchanged()
                    self._site.files.replace(tmp, self.path)
                    self._site.seen[self._place.key] = version_of(data)
            except BaseException:
                publishing.discard(self._site.files, tmp)
                raise
        self._sync_directory("written")

    def _delete(self) -> None:
        self._same_place()
        with refusals(self.path, "deleted"), self._site.changing:
            self._unchanged()
            self._site.files.unlink(self.path)
            self._site.seen.pop(self._place.key, None)
        self._sync_directory("deleted")

    def _write_tmp(self, data: bytes) -> str:
        files = self._site.files
        # Ready before the file is there: what it takes may fail.
        mode = _mode_for(files, self.path)
        tmp = leftovers.tmp_path(self.path)
        fd = publishing.create_fresh(files, tmp)
        try:
            try:
                files.chmod(tmp, mode)
                publishing.write_all(files, fd, data)
                files.sync(fd)
            finally:
                files.close(fd)
        except BaseException:
            publishing.discard(files, tmp)
            raise
        return tmp

    def _same_place(self) -> None:
        """Nobody put a link in the way since the place was found."""
        find = locate_name if self._data is None else locate
        now = find(self._site.root, self._place.relative)
        if now != self._place:
            raise FileChangedError(
                f"{self.path} leads to {now.path} by now; links changed since the write was "
                "planned. Nothing was changed. Read the file again.",
                path=self.path,
            )

    def _unchanged(self) -> None:
        now = version_at(self._site.files, self._place, write=self._data is not None)
        if now != self.before:
            raise changed(self.path, expected=self.before, found=now)

    def _sync_directory(self, done: str) -> None:
        directory = os.path.dirname(self.path)
        try:
            self._site.files.sync_dir(directory)
        except OSError as error:
            raise StorageError(
                f"{self.path} was {done}, but its directory could not be synced: {error}. The "
                "change is visible and may be undone by a power loss.",
                path=self.path,
                errno=error.errno,
            ) from error


def version_of(data: bytes) -> str:
    """The version of a file with these bytes: their blake2b-128, 32 hex digits."""
    return codec.digest(data)


def version_at(files: Files, place: Place, *, write: bool = False) -> str | None:
    """The version of the file at a place now, None when there is none. Errors as `content_at`."""
    data = content_at(files, place, write=write)
    return None if data is None else version_of(data)


def content_at(files: Files, place: Place, *, write: bool = False) -> bytes | None:
    """All bytes of the file at a place, None when there is none; `write` asks the system whether
    it could be written as well, since a rename would not ask.

    Raises EventRejectedError for what is no regular file (it is not even opened, so a pipe never
    blocks), StorageError when the system refuses.
    """
    with refusals(place.path, "opened"):
        try:
            _require_regular(place, os.stat(place.path).st_mode)
            fd = files.open(place.path, write=write)
        except FileNotFoundError:
            return None
        try:
            return _read_all(files, fd)
        finally:
            files.close(fd)


def changed(path: str, *, expected: str | None, found: str | None) -> FileChangedError:
    """The error for a file that is not what was expected; None means no file."""
    return FileChangedError(
        f"{path} was changed by somebody else: expected {_named(expected)}, found "
        f"{_named(found)}. Nothing was changed. Read the file again.",
        path=path,
    )


@contextlib.contextmanager
def refusals(path: str, done: str) -> Iterator[None]:
    """Turn an OSError into the StorageError that says what was not done to `path`."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"{path} was not {done}: {error}. Nothing was changed. Remove the cause, then try "
            "again.",
            path=path,
            errno=error.errno,
        ) from error


def _require_regular(place: Place, mode: int) -> None:
    if stat.S_ISREG(mode):
        return
    kinds = {
        stat.S_IFDIR: "a directory",
        stat.S_IFIFO: "a pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    found = kinds.get(stat.S_IFMT(mode), "something else")
    raise EventRejectedError(
        f"{place.path} is no file: expected a regular file, found {found}. Nothing was read or "
        "written. Give the path of a file.",
        path=place.path,
    )


def _read_all(files: Files, fd: int) -> bytes:
    """To the end as it is found: some file systems tell no length."""
    data = files.read_at(fd, files.fstat(fd).size, 0)
    while more := files.read_at(fd, _CHUNK_BYTES, len(data)):
        data += more
    return data


@contextlib.contextmanager
def _parents(files: WorkspaceFiles, path: str) -> Iterator[None]:
    """Make the directories above a file, durably; they go again when the file is not made."""
    made: list[str] = []
    try:
        for directory in reversed(_missing_above(path)):
            _make_directory(files, directory, made)
        yield
    except BaseException:
        for directory in reversed(made):
            with contextlib.suppress(OSError):
                files.rmdir(directory)
        raise


def _missing_above(path: str) -> list[str]:
    missing = []
    directory = os.path.dirname(path)
    while not os.path.lexists(directory):
        missing.append(directory)
        directory = os.path.dirname(directory)
    return missing


def _make_directory(files: WorkspaceFiles, directory: str, made: list[str]) -> None:
    above = os.path.dirname(directory)
    # A directory whose group is inherited hands that on.
    inherited = os.stat(above).st_mode & stat.S_ISGID
    try:
        files.mkdir(directory)
    except FileExistsError:
        # Another write made it meanwhile.
        return
    made.append(directory)
    files.chmod(directory, 0o777 & ~_umask(files) | inherited)
    files.sync_dir(above)


def _mode_for(files: WorkspaceFiles, path: str) -> int:
    """The permission bits of the file that is replaced, else those of any new file. Set-user-ID
    goes, as it does when a file is written in place."""
    try:
        return stat.S_IMODE(os.stat(path).st_mode) & 0o777
    except FileNotFoundError:
        return 0o666 & ~_umask(files)


def _umask(files: Files) -> int:
    """From the kernel's account of this process; asking by setting it would touch what other
    threads create meanwhile, which is the only way on other systems."""
    try:
        fd = files.open("/proc/self/status")
        try:
            told = files.read_at(fd, 4096, 0)
        finally:
            files.close(fd)
        return int(told.partition(b"Umask:")[2].split(None, 1)[0], 8)
    except (OSError, IndexError, ValueError):
        mask = os.umask(0o077)
        os.umask(mask)
        return mask


def _named(version: str | None) -> str:
    return "no file" if version is None else f"version {version}"
