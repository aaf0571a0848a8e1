"""The directory that a session's tools work in: reading, writing and patching its files safely.

A file is changed only if the session has seen what it replaces. Finding places is in
workspace_paths, a single change in planned_write.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from typing import Any, Literal

from durasess.engine.files import RealFiles
from durasess.errors import (
    DurasessError,
    EventRejectedError,
    FileChangedError,
    PatchMismatchError,
    StorageError,
)
from durasess.session import workspace_paths
from durasess.session.planned_write import PlannedWrite as PlannedWrite
from durasess.session.planned_write import (
    Site,
    WorkspaceFiles,
    changed,
    content_at,
    version_at,
    version_of,
)
from durasess.session.workspace_paths import Place, locate, locate_name
from durasess.session.workspace_paths import same_place as same_place

_LINES_NAMED = 10
"""Matches of a patch whose lines a message names."""


@dataclass(frozen=True, slots=True)
class FileContent:
    """A file as it was read: `path` absolute, `text` decoded from UTF-8 (other bytes come
    back as lone surrogates, so that writing the text gives the same bytes), `data` its bytes,
    `version` their blake2b-128, 32 hex digits."""

    path: str
    text: str
    data: bytes
    version: str


class Workspace:
    """A directory, by the absolute path that the session stores.

    The object can be made when the directory is not there; then `exists` is False, `settle` gives
    None, and all else raises WorkspaceNotFoundError. Paths are relative to the root or absolute
    inside it; one that leads out, by `..` or by a link, raises EventRejectedError. So does what is
    no regular file. StorageError means that the system refused (`errno` ENOENT: no such file).

    `files` is the disk; paths are looked up by the operating system. What was read or written is
    remembered by this object alone: one for a session, a new one when it is opened again.
    """

    def __init__(self, root: str, *, files: WorkspaceFiles | None = None) -> None:
        self._site = Site(root, RealFiles() if files is None else files)

    @property
    def root(self) -> str:
        """The path as it was given."""
        return self._site.root

    @property
    def exists(self) -> bool:
        """Whether the root is an absolute path to a directory, now."""
        return workspace_paths.is_there(self.root)

    def path(self, relative: str) -> str:
        """The absolute path that a relative one means, links below the root resolved; "." is the
        root. There need be nothing. Meant for tools that open files or start programs themselves:
        what becomes of it afterwards is not checked."""
        return locate(self.root, relative).path

    def read(self, relative: str) -> FileContent:
        """Read a file and remember its version as seen by the session."""
        place = self._file(relative)
        data = content_at(self._site.files, place)
        if data is None:
            # Whoever looked and found nothing may make the file anew.
            self._site.seen.pop(place.key, None)
            raise _no_file(place)
        version = version_of(data)
        self._site.seen[place.key] = version
        return FileContent(place.path, data.decode("utf-8", "surrogateescape"), data, version)

    def write(
        self, relative: str, content: str | bytes, *, expected_version: str | None = None
    ) -> str:
        """Replace a file, or make a new one and the directories above it; the new version.

        `expected_version` is the one to replace; without it, the one the session read or wrote
        last. Raises FileChangedError when there is another, or a file that was never read. The
        race that remains is told at `PlannedWrite.apply`.
        """
        return _applied(self.writing(relative, content, expected_version=expected_version))

    def patch(
        self, relative: str, old: str, new: str, *, expected_version: str | None = None
    ) -> str:
        """Replace the one place where `old` stands by `new`; the new version. Raises
        PatchMismatchError when it does not stand exactly once, else as `write`."""
        return _applied(self.patching(relative, old, new, expected_version=expected_version))

    def delete(self, relative: str, *, expected_version: str | None = None) -> None:
        """Remove a file that the session has read, or a link to one; raises as `write`."""
        self.deleting(relative, expected_version=expected_version).apply()

    def writing(
        self, relative: str, content: str | bytes, *, expected_version: str | None = None
    ) -> PlannedWrite:
        """Check a `write` and change nothing; its `record()` goes into the start of the call."""
        data = _encoded(content)
        place = self._file(relative)
        before = version_at(self._site.files, place, write=True)
        self._require_seen(place, before, expected_version)
        return PlannedWrite(self._site, place, before=before, data=data)

    def patching(
        self, relative: str, old: str, new: str, *, expected_version: str | None = None
    ) -> PlannedWrite:
        """Check a `patch` and change nothing."""
        wanted, instead = _encoded(old), _encoded(new)
        place = self._file(relative)
        data = content_at(self._site.files, place, write=True)
        before = None if data is None else version_of(data)
        self._require_seen(place, before, expected_version)
        if data is None:
            raise _no_file(place)
        _require_one_match(place.path, data, wanted)
        return PlannedWrite(self._site, place, before=before, data=data.replace(wanted, instead))

    def deleting(self, relative: str, *, expected_version: str | None = None) -> PlannedWrite:
        """Check a `delete` and change nothing."""
        place = self._file(relative)
        before = version_at(self._site.files, place)
        self._require_seen(place, before, expected_version)
        if before is None:
            raise _no_file(place)
        name = locate_name(self.root, relative)
        return PlannedWrite(self._site, name, before=before, data=None)

    def settle(self, writes: list[dict[str, Any]]) -> Literal["applied", "not_applied"] | None:
        """What became of a call that was going to make these writes, by the files as they are now.

        `writes` are records of planned writes. "applied" when every file is as it was to be after
        them, "not_applied" when every file is as before, None when it cannot be told: a mixture,
        other content, no writes, no such records, no workspace. Never raises for data.
        """
        expected = _folded(writes)
        if not expected:
            return None
        try:
            now = {path: self._version_of(path) for path in expected}
        except DurasessError:
            return None
        if all(now[path] == after for path, (_, after) in expected.items()):
            return "applied"
        if all(now[path] == before for path, (before, _) in expected.items()):
            return "not_applied"
        return None

    def _version_of(self, relative: str) -> str | None:
        return version_at(self._site.files, locate(self.root, relative))

    def _file(self, relative: str) -> Place:
        place = locate(self.root, relative)
        if relative.endswith(("/", os.sep)):
            raise EventRejectedError(
                f"The path {relative!r} ends like a directory: expected a file. Nothing was read "
                "or written. Leave the last separator out.",
                path=place.path,
            )
        return place

    def _require_seen(self, place: Place, now: str | None, expected: str | None) -> None:
        if expected is None:
            expected = self._site.seen.get(place.key)
        if now == expected:
            return
        if expected is None:
            raise FileChangedError(
                f"{place.path} is there and this session has not read it: expected no file, found "
                f"version {now}. Nothing was changed. Read it first.",
                path=place.path,
            )
        raise changed(place.path, expected=expected, found=now)


def _applied(planned: PlannedWrite) -> str:
    version = planned.apply()
    assert version is not None
    return version


def _encoded(content: str | bytes) -> bytes:
    if isinstance(content, bytes):
        return content
    if not isinstance(content, str):
        raise EventRejectedError(
            f"The content is neither text nor bytes but {type(content).__name__}. Nothing was read "
            "or written. Give a str or bytes."
        )
    try:
        return content.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise EventRejectedError(
            f"The content has half a surrogate pair at character {error.start}, which no file "
            "encoded in UTF-8 can hold. Nothing was read or written. Leave it out."
        ) from error


def _no_file(place: Place) -> StorageError:
    return StorageError(
        f"{place.path} was not found: expected a file, found none. Nothing was changed. Write it "
        "to make it, or look for the right path.",
        path=place.path,
        errno=errno.ENOENT,
    )


def _require_one_match(path: str, data: bytes, old: bytes) -> None:
    if not old:
        raise PatchMismatchError(
            f"{path}: the text to replace is empty, so it has no place. Nothing was changed. Give "
            "the text to replace, or write the whole file.",
            path=path,
        )
    count = data.count(old)
    if count == 1:
        return
    raise PatchMismatchError(
        f"{path}: the text to replace stands there {_times(data, old, count)}; expected exactly "
        "once. Nothing was changed. Read the file again and give more of the text around it.",
        path=path,
    )


def _times(data: bytes, old: bytes, count: int) -> str:
    if count == 0:
        crlf = b"\r\n" in data and b"\n" in old and b"\r\n" not in old
        return "0 times" + (" (the file's lines end with CR LF)" if crlf else "")
    lines, offset, line = [], 0, 1
    for _ in range(min(count, _LINES_NAMED)):
        found = data.index(old, offset)
        line += data.count(b"\n", offset, found)
        lines.append(str(line))
        line += old.count(b"\n")
        offset = found + len(old)
    more = " and more" if count > _LINES_NAMED else ""
    return f"{count} times, beginning in lines {', '.join(lines)}{more}"


def _folded(writes: object) -> dict[str, tuple[str | None, str | None]] | None:
    """Path → version before and after all writes; None for anything but such records, and for
    records that do not follow each other."""
    if not isinstance(writes, list):
        return None
    folded: dict[str, tuple[str | None, str | None]] = {}
    for write in writes:
        if not isinstance(write, dict) or not {"path", "before", "after"} <= write.keys():
            return None
        path, before, after = write["path"], write["before"], write["after"]
        if not isinstance(path, str) or not all(
            version is None or isinstance(version, str) for version in (before, after)
        ):
            return None
        first, last = folded.get(path, (before, before))
        if last != before:
            return None
        folded[path] = (first, after)
    return folded
