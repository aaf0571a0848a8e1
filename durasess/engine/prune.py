"""Deleting sealed segments that both snapshots cover; explicit, oldest first, never by itself.

What remains is enough for either snapshot (R6), so a bad newest one still loses nothing. History
before the first segment that is left can't be read any more.
"""

from __future__ import annotations

import msgspec

from durasess.engine import files, paths, segment, survey
from durasess.errors import CorruptionError


class Pruned(msgspec.Struct, frozen=True, kw_only=True):
    """Which segments went, or would go: their numbers, events and bytes; `first_seq` is the first
    event that is left."""

    segments: list[int]
    bytes: int
    first_seq: int
    applied: bool


def prune(disk: files.Files, directory: str, *, apply: bool) -> Pruned:
    """Delete what can be deleted, or with `apply=False` say what that is.

    CorruptionError when a snapshot that would be leaned on is not valid. Unlinks reach the disk in
    any order, so a crash may leave older segments with gaps between them; no reader needs them.
    """
    claims = survey.look(disk, directory, every_snapshot=True)
    if claims.bad:
        names = ", ".join(sorted(claims.bad))
        raise CorruptionError(
            f"{directory}: {names} is not valid, so nothing is pruned. Take a snapshot first.",
            path=directory,
        )
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
