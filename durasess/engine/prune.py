"""Deleting sealed segments that both snapshots cover, then the blobs that nothing names any more;
explicit, oldest first, never by itself.

What remains is enough for either snapshot (R6), so a bad newest one still loses nothing. History
before the first segment that is left can't be read any more.
"""

from __future__ import annotations

import msgspec

from durasess.engine import blobs as blob_files
from durasess.engine import files, paths, segment, survey
from durasess.engine.blobs import Blobs
from durasess.engine.fold import Fold, stored_state
from durasess.engine.types import Damage
from durasess.engine.walk import Walk, unreached
from durasess.errors import CorruptionError, EventRejectedError


class Pruned(msgspec.Struct, frozen=True, kw_only=True):
    """Which segments went, or would go: their numbers and bytes; `first_seq` is the first event
    that is left. `blobs` are the hashes of the blobs that went, with their bytes in all; or
    `blobs_left` says why none was looked at."""

    segments: list[int]
    bytes: int
    first_seq: int
    applied: bool
    blobs: list[str] = []
    blob_bytes: int = 0
    blobs_left: str = ""


def prune(
    disk: files.Files,
    directory: str,
    *,
    apply: bool,
    blobs: Blobs | None = None,
    fold: Fold | None = None,
) -> Pruned:
    """Delete what can be deleted, or with `apply=False` say what that is.

    `blobs` are those of the only writer there is; None leaves them alone, because what another
    writer is about to name cannot be known. `fold` is the program's, where there is one.
    CorruptionError when a snapshot that would be leaned on is not valid, EventRejectedError when it
    is of a program that knows less than this one and the log has all the events. Unlinks reach the
    disk in any order, so a crash may leave older segments with gaps between them; no reader needs
    them.
    """
    claims = survey.look(disk, directory, every_snapshot=True)
    if claims.bad:
        names = ", ".join(sorted(claims.bad))
        raise CorruptionError(
            f"{directory}: {names} is not valid, so nothing is pruned. Take a snapshot first.",
            path=directory,
        )
    if fold is not None and segment.present(disk, directory, 1):
        _check_taken(claims, fold)
    pruned = _segments(disk, claims, apply=apply)
    return _with_blobs(disk, claims, pruned, blobs)


def _check_taken(claims: survey.Claims, fold: Fold) -> None:
    """Where this program replays the log because of a snapshot, the log has what that lacks."""
    if fold.takes is None:
        return
    for found in claims.snapshots:
        state = stored_state(found.document.state, found.trailer.schema_version, fold)
        if not fold.takes(state):
            path = paths.join(claims.directory, found.name)
            raise EventRejectedError(
                f"{path} was made by a program that knows less of the events than this one: what "
                "it lacks is only in the log, so nothing is pruned. Take two snapshots with this "
                "program, with an event between them, then prune. Nothing was deleted.",
                path=path,
                seq=found.trailer.seq,
            )


def _segments(disk: files.Files, claims: survey.Claims, *, apply: bool) -> Pruned:
    directory = claims.directory
    if len(claims.snapshots) < 2:
        return Pruned(segments=[], bytes=0, first_seq=1, applied=apply)
    oldest = min((found.trailer for found in claims.snapshots), key=lambda found: found.seq)
    numbers = _covered(disk, directory, oldest.segment)
    if apply and numbers:
        # What is leaned on must be durable under its name: a handle before this one may have failed
        # to make it so.
        disk.sync_dir(directory)
    size = 0
    for number in numbers:
        for compressed in (False, True):
            path = paths.join(directory, paths.segment(number, compressed=compressed))
            try:
                size += disk.stat(path).size
                if apply:
                    disk.unlink(path)
            except FileNotFoundError:
                continue
    lowest = 1 if segment.present(disk, directory, 1) else oldest.segment
    first_seq = oldest.seq + 1 if apply or lowest > 1 else 1
    return Pruned(segments=numbers, bytes=size, first_seq=first_seq, applied=apply)


def _covered(disk: files.Files, directory: str, before: int) -> list[int]:
    """Segments below number `before`, oldest first. Leftovers of an interrupted prune count, so
    the directory is listed."""
    names = (paths.parse(name) for name in disk.listdir(directory))
    found = {name.number for name in names if name.kind == "segment" and name.number < before}
    return [number for number in sorted(found) if segment.present(disk, directory, number)]


def _with_blobs(
    disk: files.Files, claims: survey.Claims, pruned: Pruned, blobs: Blobs | None
) -> Pruned:
    found = blob_files.stored(disk, claims.directory)
    if blobs is None:
        reason = "another writer shares the session" if found else ""
        return msgspec.structs.replace(pruned, blobs_left=reason)
    named, damage = _named(disk, claims, pruned, frozenset(found)) if found else (set(), [])
    if damage:
        return msgspec.structs.replace(pruned, blobs_left=str(damage[0]))
    gone = [name for name in found if name not in named and not blobs.is_in_use(name)]
    if pruned.applied:
        if gone:
            # An event that is deleted and comes back after a crash must not name what is gone.
            disk.sync_dir(claims.directory)
        gone = [name for name in gone if blobs.discard(name)]
        blobs.sweep()
    size = sum(found[name] for name in gone)
    return msgspec.structs.replace(pruned, blobs=gone, blob_bytes=size)


def _named(
    disk: files.Files, claims: survey.Claims, pruned: Pruned, among: frozenset[str]
) -> tuple[set[str], list[Damage]]:
    """Which blobs the log that stays and both snapshots mention, however they do. What cannot be
    proven could hide a name, so it counts as damage (P3)."""
    oldest = min(claims.snapshots, key=lambda one: one.trailer.seq, default=None)
    number = 1 if oldest is None else oldest.trailer.segment
    if not pruned.segments:
        number = segment.lowest(disk, claims.directory, number)
    start = survey.START if number == 1 else None
    if oldest is not None and number == oldest.trailer.segment:
        start = oldest.place
    named: set[str] = set()
    for one in claims.snapshots:
        named.update(blob_files.mentioned(bytes(one.document.state), among))
    walk = Walk(disk, claims, number=number, start=start)
    for _, batch in walk.batches():
        for record in batch:
            named.update(blob_files.mentioned(record.line, among))
    # Of the write in flight at a crash, the next writer keeps what is whole.
    for record in walk.kept:
        named.update(blob_files.mentioned(record.line, among))
    start = start or (oldest.place if oldest is not None else survey.START)
    damage = claims.damage + walk.damage
    if not damage:
        end = walk.place or start
        damage = unreached(claims, start=start, end=end, watched=walk.watched)
    return named, damage
