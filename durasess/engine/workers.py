"""One file for each live writer that shares a session, locked as long as it lives.

Who works where, and whether it is still alive, is asked of the kernel: a file in `workers/` whose
lock is free belongs to nobody. A writer's turn is what these functions are called in, so that two
of them never sweep at once.
"""

from __future__ import annotations

import errno
from typing import Literal, NamedTuple

import msgspec

from durasess.engine import codec, files, lock, paths, publishing
from durasess.engine.types import Holder

_NOT_OURS = frozenset([errno.ENOENT, errno.EINVAL, errno.EISDIR, errno.ELOOP])
"""Gone by now, or a directory, a pipe or a broken link that somebody put there."""


class Worker(NamedTuple):
    """This writer: `worker_id` is unique in its session, `fd` its locked file."""

    worker_id: str
    fd: int


class Seen(NamedTuple):
    """A worker's file as another sees it: `holder` is what it wrote about itself, or None."""

    worker_id: str
    holder: Holder | None
    alive: bool


def register(disk: files.Files, directory: str, worker_id: str, holder: Holder) -> Worker:
    """Make and lock this writer's file. Not synced: it means nothing without its lock."""
    folder = paths.join(directory, paths.WORKERS)
    try:
        disk.mkdir(folder)
    except FileExistsError:
        pass
    path = paths.worker(directory, worker_id)
    fd = disk.create(path)
    try:
        # Somebody may be looking whether it is held.
        lock.locked(disk, fd, path, wait=True)
        publishing.write_all(disk, fd, codec.control_line(msgspec.to_builtins(holder)))
    except BaseException:
        publishing.give_back(disk, fd)
        publishing.discard(disk, path)
        raise
    return Worker(worker_id, fd)


def discard(disk: files.Files, directory: str, worker: Worker) -> None:
    """Remove the file, before its lock is given up."""
    publishing.discard(disk, paths.worker(directory, worker.worker_id))


def look(disk: files.Files, directory: str) -> list[Seen]:
    """Every worker's file. Takes a lock shared for a moment to see whether it is held, which
    disturbs nobody: a worker locks its own file once, when it makes it."""
    folder = paths.join(directory, paths.WORKERS)
    try:
        names = sorted(disk.listdir(folder))
    except FileNotFoundError:
        return []
    found = (_look_at(disk, paths.worker(directory, name), name) for name in names)
    return [seen for seen in found if seen is not None]


def _look_at(disk: files.Files, path: str, name: str) -> Seen | None:
    try:
        holder = lock.holder_at(disk, path)
        fd = disk.open(path)
    except OSError as error:
        if error.errno in _NOT_OURS:
            return None
        # One that cannot be looked at may be alive: that is never taken for "nobody is there".
        raise
    try:
        return Seen(name, holder, alive=not lock.locked(disk, fd, path, shared=True))
    finally:
        disk.close(fd)


def held_as(disk: files.Files, directory: str) -> Literal["own", "shared"] | None:
    """How writers have the session open right now, None when nobody has."""
    if lock.held(disk, directory):
        return "own"
    return "shared" if others(disk, directory) else None


def others(disk: files.Files, directory: str, but: str = "") -> list[Seen]:
    """The live writers that share the session, but the one with this id."""
    return [seen for seen in look(disk, directory) if seen.alive and seen.worker_id != but]


def sweep(disk: files.Files, directory: str) -> list[Seen]:
    """Remove what workers left that are dead: their files, and a snapshot one did not publish."""
    dead = [seen for seen in look(disk, directory) if not seen.alive]
    for seen in dead:
        publishing.discard(disk, paths.join(directory, paths.snapshot_tmp(seen.worker_id)))
        publishing.discard(disk, paths.worker(directory, seen.worker_id))
    return dead
