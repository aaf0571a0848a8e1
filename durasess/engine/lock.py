"""Two lock files: `owner` keeps writers of the other mode out, `lock` holds the anchor, where the
log ended, and lets one of several writers at a time write.

Ownership is the kernel's lock alone: it goes with the process, so a file that is merely there
means nothing, and neither file is ever unlinked (R21).
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence

import msgspec

from durasess.engine import codec, files, paths, publishing
from durasess.engine.types import Holder, LineError
from durasess.errors import FencedError, SessionLockedError, StorageError

ANCHOR_BYTES = 384
"""The anchor is overwritten in place, always with this many bytes."""

IDLE = "idle"
"""The phase of an anchor: the log ended there, and nobody was writing."""

COMMIT = "commit"
"""Somebody holds `lock` and may be writing behind that place, or died while writing."""

FAILED = "failed"
"""Somebody's sync failed: what can be read behind that place, or sealed, may not be on the disk."""

_ATTEMPTS = 8
_RETRY_PAUSE = 0.05
_TURN_PAUSE = 0.01
_MAX_PAUSES = 1e9
"""Longer than a machine lives."""

_MAX_HOLDER_BYTES = 4096


class Anchor(msgspec.Struct, frozen=True):
    """Where the log ended when a batch was last acknowledged. Written without a sync for each
    acknowledgement: after a kill it is exact, after power loss it may be older, never newer.
    `phase` is for the writers that share a session; one that owns it leaves it at IDLE. `offset` is
    the byte behind the line of `seq`, and `size` that of the segment's file, both 0 when the
    segment is sealed."""

    session_id: str
    segment: int
    seq: int
    chain: str
    phase: str = IDLE
    offset: int = 0
    size: int = 0


def create(disk: files.Files, directory: str) -> None:
    """Make both lock files where they are missing."""
    for name in (paths.OWNER, paths.LOCK):
        try:
            disk.close(disk.create(paths.join(directory, name)))
        except FileExistsError:
            continue


def acquire_owner(
    disk: files.Files,
    directory: str,
    *,
    shared: bool = False,
    pause: Callable[[float], None] | None = None,
) -> int:
    """The descriptor of `owner`, locked until it is closed: exclusively, or together with others.

    Raises SessionLockedError naming the holder after one short retry, FileNotFoundError when the
    file is missing, StorageError when this file system cannot lock.
    """
    path = paths.join(directory, paths.OWNER)
    fd = _acquire(
        disk,
        path,
        shared=shared,
        pauses=(_RETRY_PAUSE,),
        pause=time.sleep if pause is None else pause,
    )
    if fd is None:
        raise owned_error(disk, directory)
    return fd


def acquire_turn(
    disk: files.Files,
    directory: str,
    *,
    wait_s: float,
    pause: Callable[[float], None] | None = None,
) -> int:
    """The descriptor of `lock`, locked: until it is closed or unlocked, nobody else writes.

    Raises SessionLockedError after `wait_s` seconds, else as `acquire_owner`.
    """
    path = paths.join(directory, paths.LOCK)
    times = max(1.0, wait_s / _TURN_PAUSE)
    endless = times > _MAX_PAUSES
    pauses = itertools.repeat(_TURN_PAUSE) if endless else itertools.repeat(_TURN_PAUSE, int(times))
    fd = _acquire(
        disk, path, shared=False, pauses=pauses, pause=time.sleep if pause is None else pause
    )
    if fd is None:
        raise busy_error(directory, wait_s)
    return fd


def _acquire(
    disk: files.Files,
    path: str,
    *,
    shared: bool,
    pauses: Iterable[float],
    pause: Callable[[float], None],
) -> int | None:
    """An open descriptor of the file that has this name now, locked; None when somebody else has
    the lock after every pause."""
    waits = iter(pauses)
    replaced = 0
    while replaced < _ATTEMPTS:
        fd = disk.open(path, write=True)
        try:
            if locked(disk, fd, path, shared=shared):
                if disk.leads_to(path, fd):
                    return fd
                replaced += 1
            else:
                wait = next(waits, None)
                if wait is None:
                    disk.close(fd)
                    return None
                pause(wait)
        except BaseException:
            disk.close(fd)
            raise
        disk.close(fd)
    return None


def locked(
    disk: files.Files, fd: int, path: str, *, shared: bool = False, wait: bool = False
) -> bool:
    """Whether the lock was taken; StorageError when this file system has none."""
    try:
        return disk.lock(fd, shared=shared, wait=wait)
    except OSError as error:
        raise StorageError(
            f"{path} cannot be locked: {error}. durasess needs a file system with advisory locks "
            "(on a network share they may be off); nothing was changed.",
            path=path,
            errno=error.errno,
        ) from error


def check_named(disk: files.Files, path: str, fd: int, seq: int) -> None:
    """FencedError when a lock file is not the one that is locked here: somebody removed it, and
    others may write at the same time. `seq` is the last event known here."""
    if disk.leads_to(path, fd):
        return
    raise FencedError(
        f"{path} was removed or replaced, so another writer may be at work. Nothing more is "
        f"written here; seq {seq} was the last event acknowledged here. Close and open again.",
        path=path,
        seq=seq,
    )


def owned_error(
    disk: files.Files, directory: str, sharing: Sequence[Holder | None] = ()
) -> SessionLockedError:
    """`owner` is locked in a way that does not go with what was asked for; `sharing` are those who
    share the session, when it is known."""
    holder = next(iter(sharing)) if sharing else read_holder(disk, directory)
    who = "another handle" if holder is None else str(holder)
    if len(sharing) > 1:
        who += f" and {len(sharing) - 1} more that share it"
    return SessionLockedError(
        f"{directory} is open for writing in {who}. "
        'Close it there, or open this one with mode="read".',
        holder=holder,
        path=directory,
    )


def busy_error(directory: str, waited_s: float) -> SessionLockedError:
    """Another writer did not end its turn in time."""
    return SessionLockedError(
        f"{directory}: another writer has held {paths.LOCK} for {waited_s:g} s. Nothing was "
        "written; try again, or find out what that process waits for.",
        path=paths.join(directory, paths.LOCK),
    )


def held(disk: files.Files, directory: str) -> bool:
    """Whether a writer owns the session right now; for those that share it see `workers`. Takes the
    lock shared for a moment, so that several may ask at once; a writer that opens in that moment
    tries again."""
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
    import socket

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
        return holder_at(disk, paths.join(directory, paths.OWNER))
    except OSError:
        return None


def holder_at(disk: files.Files, path: str) -> Holder | None:
    """What the holder of a lock file wrote into it, or None; OSError when it cannot be read."""
    fd = disk.open(path)
    try:
        fields = codec.control(_first_line(disk, fd, _MAX_HOLDER_BYTES))
        holder: Holder = codec.converted(fields, Holder, "owner")
        return holder
    except LineError:
        return None
    finally:
        disk.close(fd)


def write_anchor(disk: files.Files, fd: int, anchor: Anchor, *, width: int = ANCHOR_BYTES) -> int:
    """Overwrite the anchor in place with one write, without a sync; returns its length in bytes.
    Only spaces stand behind the first `width` bytes, so no more than those need to be covered."""
    # By formatting: this is on the path of every append, and no field needs an escape.
    text = (
        b'{"session_id":"%s","segment":%d,"offset":%d,"size":%d,"seq":%d,"chain":"%s","phase":"%s"'
    ) % (
        anchor.session_id.encode(),
        anchor.segment,
        anchor.offset,
        anchor.size,
        anchor.seq,
        anchor.chain.encode(),
        anchor.phase.encode(),
    )
    line = codec.with_crc(text, codec.CHAIN_START)
    publishing.write_all(disk, fd, line.ljust(width))
    return len(line)


def read_anchor(disk: files.Files, directory: str, session_id: str) -> Anchor | None:
    """The anchor, or None when it is missing, torn or another session's: it is only ever used to
    find that something is missing, so nothing depends on its being there."""
    try:
        fd = disk.open(paths.join(directory, paths.LOCK))
    except FileNotFoundError:
        return None
    try:
        return anchor_in(disk, fd, session_id)
    finally:
        disk.close(fd)


def anchor_in(disk: files.Files, fd: int, session_id: str) -> Anchor | None:
    """The anchor in the open `lock`, or None as above."""
    try:
        line = _first_line(disk, fd, ANCHOR_BYTES)
        anchor: Anchor = codec.typed(line, Anchor)
        codec.unhexed(anchor.chain)
    except LineError:
        return None
    return anchor if anchor.session_id == session_id else None


def _first_line(disk: files.Files, fd: int, limit: int) -> bytes:
    line = disk.read_at(fd, limit, 0).partition(b"\n")[0]
    codec.check(line, codec.CHAIN_START)
    return line
