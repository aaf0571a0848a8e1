"""The one file of a packed session: a zip archive that any tool opens, with the session's own files
in a directory named by its id. Which session that becomes in a store is decided in packing.py."""

from __future__ import annotations

import contextlib
import io
import os
import zipfile
import zlib
from collections.abc import Iterator

from durasess.engine import paths, publishing
from durasess.engine.files import Files
from durasess.errors import CorruptionError, SessionNotFoundError, StorageError

_CHUNK = 1 << 20
"""Bytes that are copied at once."""

_PACKED = frozenset(["meta", "snapshot", "previous", "segment"])
_FOLDERS = frozenset(["quarantine", "blobs"])
_LONGEST_NAME = 255
"""Characters of a file's name."""

_COMMENT = "a durasess session of {count} files"
"""Comment of the archive: without it a history that was left out looks like one that was pruned."""


class _DiskFile(io.RawIOBase):
    """An open descriptor as a file object, whose bytes go through the disk's interface."""

    def __init__(self, disk: Files, fd: int) -> None:
        super().__init__()
        self._disk = disk
        self._fd = fd
        self._at = 0

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at}.get(whence)
        at = offset + (self._disk.fstat(self._fd).size if start is None else start)
        if at < 0:
            # A damaged archive says so; it is no fault of the disk.
            raise ValueError(f"it names byte {at}, which lies before its beginning")
        self._at = at
        return at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        data = self._disk.read_at(self._fd, len(buffer), self._at)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def write(self, data: bytes | bytearray | memoryview) -> int:  # type: ignore[override]
        publishing.write_all(self._disk, self._fd, bytes(data), self._at)
        self._at += len(data)
        return len(data)


def write(disk: Files, directory: str, target: str) -> list[str]:
    """Pack the files of a session directory into the new file `target`, durably; the names in the
    directory that are not a session's and were left out. StorageError, also when `target` is
    there."""
    if publishing.exists(disk, target):
        raise StorageError(
            f"{target} is there already; it was left alone. Give another name.", path=target
        )
    tmp = target + paths.TMP
    members, foreign = _members(disk, directory)
    try:
        fd = publishing.create_fresh(disk, tmp)
        try:
            _write_members(disk, fd, directory, members)
            disk.sync(fd)
        finally:
            disk.close(fd)
        disk.replace(tmp, target)
        disk.sync_dir(paths.parent(target))
    except BaseException as error:
        publishing.discard(disk, tmp)
        if isinstance(error, OSError):
            raise StorageError(
                f"{target} cannot be written: {error}. The session was only read.",
                path=target,
                errno=error.errno,
            ) from error
        raise
    return foreign


def _members(disk: Files, directory: str) -> tuple[list[str], list[str]]:
    members: list[str] = []
    foreign: list[str] = []
    for name in sorted(disk.listdir(directory)):
        kind = paths.parse(name).kind
        if kind in _PACKED:
            members.append(name)
        elif kind in _FOLDERS:
            inside = sorted(disk.listdir(paths.join(directory, name)))
            members += [f"{name}/{one}" for one in inside if _is_plain(one)]
        elif kind == "foreign":
            foreign.append(name)
    return members, foreign


def _write_members(disk: Files, fd: int, directory: str, members: list[str]) -> None:
    with zipfile.ZipFile(_DiskFile(disk, fd), "w", zipfile.ZIP_DEFLATED) as archive:
        archive.comment = _COMMENT.format(count=len(members)).encode()
        for member in members:
            path = directory
            for part in member.split("/"):
                path = paths.join(path, part)
            # Times and modes of this machine are nobody's business elsewhere.
            entry = zipfile.ZipInfo(f"{paths.base(directory)}/{member}")
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o600 << 16
            source = disk.open(path)
            try:
                with archive.open(entry, "w", force_zip64=True) as target:
                    offset = 0
                    while data := disk.read_at(source, _CHUNK, offset):
                        target.write(data)
                        offset += len(data)
            finally:
                disk.close(source)


class Packed:
    """A packed session, open for reading: `session_id` is the one it had. Use it in a `with` block.

    Raises SessionNotFoundError for any other file, CorruptionError for one with bad bytes or names
    that no session has, StorageError. Nothing is written before every name was looked at.
    """

    def __init__(self, disk: Files, path: str) -> None:
        self._disk = disk
        self._path = path
        try:
            self._fd = disk.open(path)
        except FileNotFoundError:
            raise SessionNotFoundError(
                f"there is no file {path}. Give the path of a packed session.", path=path
            ) from None
        except OSError as error:
            raise StorageError(
                f"{path} cannot be read: {error}.", path=path, errno=error.errno
            ) from error
        try:
            with self._told():
                self._archive = zipfile.ZipFile(io.BufferedReader(_DiskFile(disk, self._fd)))
            self.session_id, self._members = self._checked()
        except BaseException:
            disk.close(self._fd)
            raise

    def _checked(self) -> tuple[str, dict[str, zipfile.ZipInfo]]:
        members: dict[str, zipfile.ZipInfo] = {}
        ids = set()
        for entry in self._archive.infolist():
            session_id, _, member = entry.filename.partition("/")
            if entry.is_dir() and not member:
                continue
            if paths.session_id_problem(session_id) is not None or not _is_member(member):
                raise self._bad(f"{entry.filename!r:.200} is no file of a session")
            if member in members:
                raise self._bad(f"{entry.filename!r} is in it twice")
            ids.add(session_id)
            members[member] = entry
        expected = _COMMENT.format(count=len(members)).encode()
        if self._archive.comment not in (b"", expected):
            raise self._bad(
                f"found {len(members)} files in it, and it says {self._archive.comment!r:.80}"
            )
        if len(ids) != 1 or paths.META not in members:
            raise self._bad(f"expected one session with {paths.META}, found {len(ids)}")
        return ids.pop(), members

    def extract(self, directory: str) -> None:
        """Write the files into the new directory, synced."""
        disk = self._disk
        try:
            disk.mkdir(directory)
            folders = {member.partition("/")[0] for member in self._members if "/" in member}
            for folder in sorted(folders):
                disk.mkdir(paths.join(directory, folder))
            for member, entry in self._members.items():
                path = directory
                for part in member.split("/"):
                    path = paths.join(path, part)
                self._extract(entry, path)
            for folder in sorted(folders):
                disk.sync_dir(paths.join(directory, folder))
            disk.sync_dir(directory)
        except OSError as error:
            raise StorageError(
                f"{directory} cannot be written: {error}. Nothing of it is kept.",
                path=directory,
                errno=error.errno,
            ) from error

    def _extract(self, entry: zipfile.ZipInfo, path: str) -> None:
        fd = self._disk.create(path)
        try:
            offset = 0
            with self._told(), self._archive.open(entry) as source:
                while data := source.read(_CHUNK):
                    publishing.write_all(self._disk, fd, data, offset)
                    offset += len(data)
            self._disk.sync(fd)
        finally:
            self._disk.close(fd)

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError) as error:
            raise self._bad(str(error)) from None

    def _bad(self, reason: str) -> CorruptionError:
        return CorruptionError(
            f"{self._path}: expected a packed session, but {reason}. Nothing was unpacked; pack it "
            "again where it came from.",
            path=self._path,
        )

    def __enter__(self) -> Packed:
        return self

    def __exit__(self, *error: object) -> None:
        self._disk.close(self._fd)


def _is_member(member: str) -> bool:
    """The names that a session's own files have; nothing that leads elsewhere."""
    folder, inside, name = member.partition("/")
    if not inside:
        return paths.parse(member).kind in _PACKED
    return paths.parse(folder).kind in _FOLDERS and _is_plain(name)


def _is_plain(name: str) -> bool:
    is_file_name = 0 < len(name) <= _LONGEST_NAME and name not in (".", "..")
    return is_file_name and name.isprintable() and not set(name) & set('/\\:<>"|?*')
