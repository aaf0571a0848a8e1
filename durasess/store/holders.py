"""Who has a session open, in which mode, and whether that is still so: asked of the kernel.

Where the system lists its locks (Linux), a lock that is held is found there and nothing is touched.
Else a file's lock is tried, shared and for a moment, which no holder notices.
"""

from __future__ import annotations

import os
import re
from typing import Literal

import msgspec

from durasess.engine import files, lock, paths, workers
from durasess.engine.types import Holder
from durasess.errors import StorageError

_LOCKS = "/proc/locks"
_LOCKS_MAX = 16 << 20
"""Bytes of it that are read; whose lock stands behind them is asked by trying it."""

_LISTED = re.compile(
    r"\d+: FLOCK +\S+ +(?P<kind>READ|WRITE) +-?\d+ "
    r"(?P<major>[0-9a-f]+):(?P<minor>[0-9a-f]+):(?P<inode>\d+) "
)

Held = Literal["exclusively", "shared", "no"]


class Listed:
    """The kernel's list of locks as it is now, read once for any number of questions."""

    def __init__(self) -> None:
        self._held: dict[tuple[int, int], Held] = {}
        for found in _LISTED.finditer(_locks()):
            device = os.makedev(int(found["major"], 16), int(found["minor"], 16))
            kind: Held = "exclusively" if found["kind"] == "WRITE" else "shared"
            self._held.setdefault((device, int(found["inode"])), kind)

    def held(self, inode: tuple[int, int]) -> Held | None:
        """What it says of a file. None when it is not there: it is free, or the holder is in
        another container, or the file system numbers its files in another way."""
        return self._held.get(inode)


def _locks() -> str:
    disk = files.RealFiles()
    try:
        fd = disk.open(_LOCKS)
        try:
            return disk.read_at(fd, _LOCKS_MAX, 0).decode("ascii", "replace")
        finally:
            disk.close(fd)
    except OSError:
        return ""


class WorkerLook(msgspec.Struct, frozen=True):
    """A writer that shares the session; not `alive` when it ended without removing its file."""

    worker_id: str
    alive: bool
    holder: Holder | None


class AnchorLook(msgspec.Struct, frozen=True):
    """What `lock` says and whether a writer holds it now, which is while it is in its turn (None:
    it cannot be told)."""

    segment: int
    seq: int
    chain: str
    phase: str
    held: bool | None


class LockLook(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the session is open for writing (`held`, None: it cannot be told) and how: `mode` is
    own or shared. `holder` is what the last one to open it wrote about itself."""

    present: bool
    held: bool | None
    mode: Literal["own", "shared"] | None = None
    holder: Holder | None = None
    workers: list[WorkerLook] = msgspec.field(default_factory=list)
    anchor: AnchorLook | None = None


def look(disk: files.Files, directory: str, session_id: str) -> LockLook:
    """Both lock files and the workers' files."""
    seen = _workers(disk, directory)
    anchor = _anchor(disk, directory, session_id)
    try:
        disk.stat(paths.join(directory, paths.OWNER))
    except OSError:
        return LockLook(present=False, held=False, workers=seen, anchor=anchor)
    held = _owner(disk, directory, seen)
    return LockLook(
        present=True,
        held=None if held is None else held != "no",
        mode={"exclusively": "own", "shared": "shared"}.get(held or ""),  # type: ignore[arg-type]
        holder=lock.read_holder(disk, directory),
        workers=seen,
        anchor=anchor,
    )


def is_open(disk: files.Files, directory: str, listed: Listed | None = None) -> bool | None:
    """Whether some writer has the session open; None when it cannot be told."""
    held = _owner(disk, directory, _workers(disk, directory), listed)
    return None if held is None else held != "no"


def _owner(
    disk: files.Files, directory: str, seen: list[WorkerLook], listed: Listed | None = None
) -> Held | None:
    held = _held(disk, paths.join(directory, paths.OWNER), listed)
    if held == "no" and any(one.alive for one in seen):
        # A lock that others share can be shared by us too, which says nothing.
        return "shared"
    return held


def _workers(disk: files.Files, directory: str) -> list[WorkerLook]:
    try:
        seen = workers.look(disk, directory)
    except (OSError, StorageError):
        # Locks do not work here, or that is no folder.
        return []
    return [WorkerLook(one.worker_id, one.alive, one.holder) for one in seen]


def _anchor(disk: files.Files, directory: str, session_id: str) -> AnchorLook | None:
    try:
        found = lock.read_anchor(disk, directory, session_id)
    except OSError:
        return None
    if found is None:
        return None
    held = _held(disk, paths.join(directory, paths.LOCK))
    is_held = None if held is None else held != "no"
    return AnchorLook(found.segment, found.seq, found.chain, found.phase, is_held)


def _held(disk: files.Files, path: str, listed: Listed | None = None) -> Held | None:
    """How a file is locked; a lock that is only shared may look as if it were not held."""
    try:
        found = (listed or Listed()).held(disk.stat(path).inode)
        if found is not None:
            return found
        fd = disk.open(path)
        try:
            return "no" if disk.lock(fd, shared=True) else "exclusively"
        finally:
            disk.close(fd)
    except FileNotFoundError:
        return "no"
    except OSError:
        return None
