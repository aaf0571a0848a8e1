"""A whole session as one file, and back into a store: checked on the way, merged with nothing."""

from __future__ import annotations

import itertools

import msgspec

from durasess.engine import branch, codec, lock, paths, verify
from durasess.engine.engine import Engine
from durasess.engine.files import Files
from durasess.engine.walk import EVERYTHING
from durasess.errors import (
    CorruptionError,
    DurasessError,
    SessionExistsError,
    StorageError,
)
from durasess.store import archive_file, rows, staging

_TRIES = 10
"""Attempts to find an id that is free, where others take ids in the same moment."""

_STEM = 120
"""Characters of the id that a copy's id begins with: with its number it is still an id."""


class Packed(msgspec.Struct, frozen=True, kw_only=True):
    """A session that was packed: the file, its size in bytes, the last seq in it, and the names in
    the session's directory that are not durasess's and were left out."""

    session_id: str
    file: str
    size_bytes: int
    last_seq: int
    left_out: tuple[str, ...] = ()


class Unpacked(msgspec.Struct, frozen=True, kw_only=True):
    """A session that came out of a file. `packed_id` is the id it had; `session_id` is another when
    that was taken by a session with other content. With `was_there` nothing was written: the store
    has all of it."""

    session_id: str
    packed_id: str
    path: str
    last_seq: int
    was_there: bool = False


def pack(disk: Files, root: str, session_id: str, target: str) -> Packed:
    """Write the session into the new file `target`, a zip archive; every byte is checked first.

    Raises SessionNotFoundError, SessionLockedError naming who has it open, CorruptionError for a
    damaged one, StorageError, also when `target` is there.
    """
    path = rows.required(disk, root, session_id).path
    try:
        lock.create(disk, path)
        owner = lock.acquire_owner(disk, path)
    except OSError as error:
        raise StorageError(
            f"{path} cannot be read: {error}.", path=path, errno=error.errno
        ) from error
    try:
        found = _sound(disk, path, 'Nothing was packed. Run "durasess repair" on it first')
        left_out = archive_file.write(disk, path, target)
    finally:
        disk.close(owner)
    return Packed(
        session_id=session_id,
        file=target,
        size_bytes=disk.stat(target).size,
        last_seq=found.last_seq,
        left_out=tuple(left_out),
    )


def unpack(disk: Files, root: str, file: str, *, now: int, token: str) -> Unpacked:
    """Bring the session of a packed file into the store, under its own id when that is free.

    Where another session has that id, it becomes a copy with an id of its own, `<id>.2` and so on;
    where the session there has all of its events, nothing is written. `now` in nanoseconds since
    1970. Raises SessionNotFoundError, CorruptionError, FormatVersionError, StorageError; nothing of
    it is kept then.
    """
    with archive_file.Packed(disk, file) as packed:
        packed_id = packed.session_id
        with staging.staged(disk, root, packed_id, token) as built:
            packed.extract(built)
            found = _sound(disk, built, f"{file} is damaged. Nothing was unpacked")
            chosen = packed_id
            if rows.row_of(disk, root, packed_id) is not None:
                if _holds(paths.join(root, packed_id), built):
                    return Unpacked(
                        session_id=packed_id,
                        packed_id=packed_id,
                        path=paths.join(root, packed_id),
                        last_seq=found.last_seq,
                        was_there=True,
                    )
                chosen = _free_id(disk, root, packed_id)
            path = _published(disk, root, built, chosen, now=now, token=token)
    return Unpacked(
        session_id=paths.base(path), packed_id=packed_id, path=path, last_seq=found.last_seq
    )


def _sound(disk: Files, path: str, meaning: str) -> verify.Verified:
    found = verify.verify(path, files=disk)
    if found.damage:
        first = found.damage[0]
        raise CorruptionError(
            f"{first}. {meaning}.", path=first.path, offset=first.offset, seq=first.first_seq
        )
    return found


def _holds(there: str, packed: str) -> bool:
    """Whether the session that is there has every event of the packed one: the checksums of a log
    are a chain, so the last one stands for all. What cannot be told is another session."""
    try:
        with Engine.open(packed, mode="read") as engine:
            last = engine.last_seq
            wanted = [event.crc for event in engine.events(after=last - 1)] if last else []
        with Engine.open(there, mode="read") as engine:
            found = next(engine.events(after=last - 1), None) if last else None
    except (DurasessError, ValueError):
        return False
    return not last or (found is not None and [found.crc] == wanted and found.proven)


def _published(disk: Files, root: str, built: str, session_id: str, *, now: int, token: str) -> str:
    for _ in range(_TRIES):
        try:
            if session_id == paths.base(built):
                return staging.publish(disk, built, root)
            return _copied(disk, root, built, session_id, now=now, token=token)
        except SessionExistsError:
            # Somebody made it meanwhile.
            session_id = _free_id(disk, root, paths.base(built))
    raise SessionExistsError(
        f"{root}: every id that was tried for {session_id} is taken. Try again.", path=root
    )


def _copied(disk: Files, root: str, built: str, session_id: str, *, now: int, token: str) -> str:
    with staging.staged(disk, root, session_id, token) as renamed:
        branch.copy(
            disk,
            built,
            renamed,
            through=EVERYTHING,
            created=codec.timestamp(now),
            token=lambda: token,
        )
        return staging.publish(disk, renamed, root)


def _free_id(disk: Files, root: str, session_id: str) -> str:
    taken = set(disk.listdir(root))
    stem = session_id[:_STEM]
    return next(name for number in itertools.count(2) if (name := f"{stem}.{number}") not in taken)
