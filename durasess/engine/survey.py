"""What stands beside the log in a session directory: meta, anchor, snapshots. Changes nothing.

The log itself is read in walk.py.
"""

from __future__ import annotations

import msgspec

from durasess.engine import codec, files, lock, meta, paths, snapshot
from durasess.engine.records import Place
from durasess.engine.types import Damage, LineError
from durasess.errors import SessionNotFoundError, StorageError

START = Place(0, codec.CHAIN_START)


class LoadedSnapshot(msgspec.Struct, frozen=True):
    """A snapshot that was proven."""

    name: str
    trailer: snapshot.Trailer
    document: snapshot.Document

    @property
    def place(self) -> Place:
        """Where the log is after it."""
        return Place(self.trailer.seq, codec.unhexed(self.trailer.chain))


class Claims(msgspec.Struct):
    """What stands beside the log. `bad` maps the names of unreadable files to the reason;
    `highest` is the segment number that the log must at least reach."""

    directory: str
    session_id: str
    meta: meta.Meta | None = None
    anchor: lock.Anchor | None = None
    snapshots: list[LoadedSnapshot] = msgspec.field(default_factory=list)
    bad: dict[str, str] = msgspec.field(default_factory=dict)
    damage: list[Damage] = msgspec.field(default_factory=list)
    notices: list[str] = msgspec.field(default_factory=list)
    highest: int = 0

    def first_unsealed(self) -> int:
        """The lowest number that a segment without a seal may have: a snapshot is published after
        the seal of the segment before its tail."""
        return max((found.trailer.segment for found in self.snapshots), default=1)

    def newest_is_good(self) -> bool:
        """Whether snapshot.json.zst is there, proven, and the newest of the two."""
        return bool(self.snapshots) and self.snapshots[0].name == paths.SNAPSHOT


def session_id_of(directory: str) -> str:
    """The directory's name, which must be a session id; no file is touched before that is known."""
    session_id = paths.base(directory)
    problem = paths.session_id_problem(session_id)
    if problem is not None:
        raise SessionNotFoundError(f"{session_id!r} is no session: {problem}.", path=directory)
    return session_id


def unreadable(directory: str, error: OSError) -> StorageError:
    """The system refused to read something of the session."""
    return StorageError(
        f"{directory} cannot be read: {error}. Nothing was changed.",
        path=directory,
        errno=error.errno,
    )


def look(disk: files.Files, directory: str, *, every_snapshot: bool = False) -> Claims:
    """Read meta, anchor and the newest good snapshot (both with `every_snapshot`).

    Raises SessionNotFoundError when there is no session, FormatVersionError when a newer durasess
    wrote it, StorageError when the system cannot read it: an error is never taken for "not there".
    """
    claims = Claims(directory, session_id_of(directory))
    try:
        if not disk.stat(directory).directory:
            raise SessionNotFoundError(f"{directory} is not a directory.", path=directory)
        _look_at_meta(disk, claims)
        claims.anchor = lock.read_anchor(disk, directory, claims.session_id)
        _look_at_snapshots(disk, claims, every_snapshot)
    except FileNotFoundError:
        raise SessionNotFoundError(f"there is no session at {directory}.", path=directory) from None
    except OSError as error:
        raise unreadable(directory, error) from error
    if claims.meta is not None:
        claims.highest = max(claims.highest, claims.meta.active)
    if claims.anchor is not None:
        claims.highest = max(claims.highest, claims.anchor.segment)
    claims.highest = min(claims.highest, paths.MAX_SEGMENT - 1)
    return claims


def _look_at_meta(disk: files.Files, claims: Claims) -> None:
    try:
        claims.meta = meta.read(disk, claims.directory)
    except FileNotFoundError:
        _list_segments(disk, claims, missing_meta=True)
        claims.notices.append(
            f"{paths.META} is missing: the floor is lost, identity and log come from other files"
        )
        return
    except LineError as error:
        _list_segments(disk, claims, missing_meta=False)
        claims.bad[paths.META] = error.reason
        claims.notices.append(f"{paths.META} is not valid, the floor is lost: {error.reason}")
        return
    if claims.meta.session_id != claims.session_id:
        claims.damage.append(
            Damage(
                path=paths.join(claims.directory, paths.META),
                offset=0,
                rule="session",
                reason=f"it says the session is {claims.meta.session_id!r}, the directory is "
                f"named {claims.session_id!r}. Rename the directory back",
            )
        )


def _list_segments(disk: files.Files, claims: Claims, *, missing_meta: bool) -> None:
    """Without meta the directory itself must say which segments there are."""
    names = [paths.parse(name) for name in disk.listdir(claims.directory)]
    numbers = [name.number for name in names if name.kind == "segment"]
    if missing_meta and not any(name.kind in _OF_A_SESSION for name in names):
        raise SessionNotFoundError(
            f"{claims.directory} holds no session: no meta, no snapshot, no segment.",
            path=claims.directory,
        )
    claims.highest = max(numbers, default=0)


_OF_A_SESSION = frozenset(["snapshot", "previous", "segment"])


def _look_at_snapshots(disk: files.Files, claims: Claims, every: bool) -> None:
    for name in (paths.SNAPSHOT, paths.SNAPSHOT_PREVIOUS):
        try:
            trailer, document = snapshot.read(disk, claims.directory, name, claims.session_id)
        except FileNotFoundError:
            continue
        except LineError as error:
            claims.bad[name] = error.reason
            claims.notices.append(f"{name} is not valid and was passed over: {error.reason}")
            continue
        if _is_a_stranger(claims, trailer):
            reason = f"it is not the snapshot at seq {trailer.seq} that {paths.META} knows"
            claims.bad[name] = reason
            claims.notices.append(f"{name} was passed over: {reason}")
            continue
        claims.snapshots.append(LoadedSnapshot(name, trailer, document))
        if not every and _is_surely_newest(claims, trailer):
            break
    # By seq, not by name: somebody may have put an older file back.
    claims.snapshots.sort(key=lambda found: found.trailer.seq, reverse=True)
    _compare_with_baseline(claims)


def _is_surely_newest(claims: Claims, trailer: snapshot.Trailer) -> bool:
    """Whether the other file need not be read: this one is what meta knows, or newer."""
    return claims.meta is not None and trailer.seq >= claims.meta.baseline.seq


def _is_a_stranger(claims: Claims, trailer: snapshot.Trailer) -> bool:
    """A valid snapshot at the baseline's seq that is not the baseline's: of another history."""
    if claims.meta is None or claims.meta.baseline.snapshot is None:
        return False
    baseline = claims.meta.baseline
    return trailer.seq == baseline.seq and trailer.frame != baseline.snapshot


def _compare_with_baseline(claims: Claims) -> None:
    if claims.meta is None or claims.meta.baseline.snapshot is None:
        return
    baseline = claims.meta.baseline
    newest = claims.snapshots[0].trailer if claims.snapshots else None
    if newest is None or newest.seq < baseline.seq:
        found = "none" if newest is None else f"seq {newest.seq}"
        claims.notices.append(
            f"{paths.META} knows a snapshot at seq {baseline.seq}; the newest that can be read is "
            f"{found}, so more of the log is replayed"
        )
