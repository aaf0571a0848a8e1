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
_LISTED = re.compile(
    r"\d+: FLOCK +\S+ +(?P<kind>READ|WRITE) +-?\d+ "
    r"(?P<major>[0-9a-f]+):(?P<minor>[0-9a-f]+):(?P<inode>\d+) "
)

Held = Literal["exclusively", "shared", "no"]


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


def is_open(disk: files.Files, directory: str) -> bool:
    """Whether some writer has the session open; True when it cannot be told."""
    return _owner(disk, directory, _workers(disk, directory)) != "no"


def _owner(disk: files.Files, directory: str, seen: list[WorkerLook]) -> Held | None:
    held = _held(disk, paths.join(directory, paths.OWNER))
    if held == "no" and any(one.alive for one in seen):
        # A lock that others share can be shared by us too, which says nothing.
        return "shared"
    return held


def _workers(disk: files.Files, directory: str) -> list[WorkerLook]:
    try:
        seen = workers.look(disk, directory)
    except (OSError, StorageError):
        # Locks do not work here, or the folder is none.
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


def _held(disk: files.Files, path: str) -> Held | None:
    """How a file is locked; a lock that is only shared may look as if it were not held."""
    try:
        listed = _listed(disk.stat(path).inode)
        if listed is not None:
            return listed
        fd = disk.open(path)
        try:
            return "no" if disk.lock(fd, shared=True) else "exclusively"
        finally:
            disk.close(fd)
    except FileNotFoundError:
        return "no"
    except OSError:
        return None


def _listed(inode: tuple[int, int]) -> Held | None:
    """What the kernel's list says of a file. None when it is not there: it is free, or the holder
    is in another container, or the file system numbers its files in another way."""
    try:
        with open(_LOCKS, "rb") as source:
            text = source.read().decode("ascii", "replace")
    except OSError:
        return None
    for found in _LISTED.finditer(text):
        device = os.makedev(int(found["major"], 16), int(found["minor"], 16))
        if (device, int(found["inode"])) == inode:
            return "exclusively" if found["kind"] == "WRITE" else "shared"
    return None
