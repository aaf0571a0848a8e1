"""Two lock files: `owner` keeps other writers out, `lock` holds the anchor, where the log ended.

Ownership is the kernel's lock alone: it goes with the process, so a file that is merely there
means nothing, and neither file is ever unlinked (R21).
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable

import msgspec

from durasess.engine import codec, files, paths, publishing
from durasess.engine.types import Holder, LineError
from durasess.errors import SessionLockedError, StorageError

ANCHOR_BYTES = 384
"""The anchor is overwritten in place, always with this many bytes."""

_ATTEMPTS = 8
_RETRY_PAUSE = 0.05
_MAX_HOLDER_BYTES = 4096


class Anchor(msgspec.Struct, frozen=True):
    """Where the log ended when a batch was last acknowledged. Written without a sync after each
    acknowledgement: after a kill it is exact, after power loss it may be older, never newer."""

    session_id: str
    segment: int
    seq: int
    chain: str
    phase: str = "idle"


def create(disk: files.Files, directory: str) -> None:
    """Make both lock files where they are missing."""
    for name in (paths.OWNER, paths.LOCK):
        try:
            disk.close(disk.create(paths.join(directory, name)))
        except FileExistsError:
            continue


def acquire_owner(
    disk: files.Files, directory: str, *, pause: Callable[[float], None] = time.sleep
) -> int:
    """The descriptor of `owner`, locked exclusively until it is closed.

    Raises SessionLockedError naming the holder after one short retry, FileNotFoundError when the
    file is missing, StorageError when this file system cannot lock.
    """
    path = paths.join(directory, paths.OWNER)
    for attempt in range(_ATTEMPTS):
        fd = disk.open(path, write=True)
        try:
            if _locked(disk, fd, path):
                if _still_named(disk, fd, path):
                    return fd
            elif attempt:
                raise _locked_error(disk, directory)
            else:
                pause(_RETRY_PAUSE)
        except BaseException:
            disk.close(fd)
            raise
        disk.close(fd)
    raise _locked_error(disk, directory)


def _locked(disk: files.Files, fd: int, path: str) -> bool:
    try:
        return disk.lock(fd)
    except OSError as error:
        raise StorageError(
            f"{path} cannot be locked: {error}. durasess needs a file system with advisory locks "
            "(on a network share they may be off); nothing was changed.",
            path=path,
            errno=error.errno,
        ) from error


def _still_named(disk: files.Files, fd: int, path: str) -> bool:
    """Whether the locked file is the one others will lock: somebody may have replaced it."""
    try:
        return disk.stat(path).inode == disk.fstat(fd).inode
    except FileNotFoundError:
        return False


def _locked_error(disk: files.Files, directory: str) -> SessionLockedError:
    holder = read_holder(disk, directory)
    who = "another handle" if holder is None else str(holder)
    return SessionLockedError(
        f"{directory} is open for writing in {who}. "
        'Close it there, or open this one with mode="read".',
        holder=holder,
        path=directory,
    )


def held(disk: files.Files, directory: str) -> bool:
    """Whether a writer has the session open right now. Takes the lock shared for a moment when it
    is free; a writer that opens in that moment retries once and succeeds."""
    try:
        fd = disk.open(paths.join(directory, paths.OWNER))
    except FileNotFoundError:
        return False
    try:
        return not disk.lock(fd, shared=True)
    finally:
        disk.close(fd)


def whoami(since: str) -> Holder:
    """This process, for the messages of others."""
    command = " ".join([os.path.basename(sys.executable or "python"), *sys.argv])[:200]
    return Holder(os.getpid(), socket.gethostname(), files.boot_id(), since, command)


def write_holder(disk: files.Files, fd: int, holder: Holder) -> None:
    """Say in `owner` who holds it. Not synced: a dead holder needs no name."""
    data = codec.control_line(msgspec.to_builtins(holder))
    publishing.write_all(disk, fd, data)
    disk.truncate(fd, len(data))


def read_holder(disk: files.Files, directory: str) -> Holder | None:
    """What the last holder wrote about itself; None when nothing readable is there."""
    try:
        fields = _first_line(disk, paths.join(directory, paths.OWNER), _MAX_HOLDER_BYTES)
        holder: Holder = codec.converted(fields, Holder, "owner")
        return holder
    except (OSError, LineError):
        return None


def write_anchor(disk: files.Files, fd: int, anchor: Anchor) -> None:
    """Overwrite the anchor in place with one write, without a sync."""
    # By formatting: this is on the path of every append, and no field needs an escape.
    text = b'{"session_id":"%s","segment":%d,"seq":%d,"chain":"%s","phase":"%s"' % (
        anchor.session_id.encode(),
        anchor.segment,
        anchor.seq,
        anchor.chain.encode(),
        anchor.phase.encode(),
    )
    publishing.write_all(disk, fd, codec.with_crc(text, codec.CHAIN_START).ljust(ANCHOR_BYTES))


def read_anchor(disk: files.Files, directory: str, session_id: str) -> Anchor | None:
    """The anchor, or None when it is missing, torn or another session's: it is only ever used to
    find that something is missing, so nothing depends on its being there."""
    try:
        fields = _first_line(disk, paths.join(directory, paths.LOCK), ANCHOR_BYTES)
        anchor: Anchor = codec.converted(fields, Anchor, "anchor")
        codec.unhexed(anchor.chain)
    except (FileNotFoundError, LineError):
        return None
    return anchor if anchor.session_id == session_id else None


def _first_line(disk: files.Files, path: str, limit: int) -> dict[str, object]:
    fd = disk.open(path)
    try:
        line = disk.read_at(fd, limit, 0).partition(b"\n")[0]
    finally:
        disk.close(fd)
    codec.check(line, codec.CHAIN_START)
    return codec.control(line)
