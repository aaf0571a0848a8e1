"""What a writer does after recovery and before its first append: settle an unclean end.

It never appends to a segment that another process left unsealed. The valid batches are copied
forward into a new file with the same header, sealed, synced and published under the same name
(R12): that answers torn bytes, pages that a failed sync left newer than the disk, and a stale
writer that wakes up, all at once.
"""

from __future__ import annotations

import msgspec

from durasess.engine import codec, files, paths, publishing, quarantine, segment, survey
from durasess.engine.records import Place, Record
from durasess.engine.scan import Scan
from durasess.engine.types import FILLER
from durasess.errors import CorruptionError, FencedError


class Unsealed(msgspec.Struct, frozen=True, kw_only=True):
    """The active segment as recovery read it: `size` is all of it, `kept` the lines of a last
    batch that lacks only its line feed; `place` is where the log is with them."""

    path: str
    number: int
    inode: tuple[int, int]
    size: int
    scan: Scan
    kept: list[Record]
    place: Place


def leftovers(disk: files.Files, directory: str, next_segment: int) -> None:
    """Remove temporary files of a writer that stopped while it published. They were never read."""
    for name in (
        paths.META + paths.TMP,
        paths.SNAPSHOT + paths.TMP,
        paths.segment(max(1, next_segment - 1)) + paths.TMP,
        paths.segment(next_segment) + paths.TMP,
        paths.COMPRESSING,
        paths.SCRATCH,
    ):
        try:
            disk.unlink(paths.join(directory, name))
        except FileNotFoundError:
            continue


def keep_bad_files(disk: files.Files, claims: survey.Claims) -> list[str]:
    """Copies of meta or snapshots that are not valid, before a writer replaces them."""
    kept = []
    for name in claims.bad:
        data = publishing.read_whole(disk, paths.join(claims.directory, name))
        kept.append(quarantine.keep(disk, claims.directory, name, data))
    return kept


def copy_forward(disk: files.Files, directory: str, unsealed: Unsealed) -> list[str]:
    """Replace the unsealed segment by a sealed copy of its whole batches; returns the paths in
    quarantine where torn bytes are kept.

    FencedError when the old file changed since it was read, so its writer is still alive.
    """
    fd = disk.open(unsealed.path)
    try:
        data = disk.read_at(fd, unsealed.size, 0)
    finally:
        disk.close(fd)
    _refuse_if_changed(unsealed, data[unsealed.scan.end :])
    kept = _keep_torn(disk, directory, unsealed, data)
    sealed = b"".join([*_whole_batches(unsealed, data), _seal(unsealed)])
    publishing.write_tmp(disk, unsealed.path + paths.TMP, sealed)
    try:
        _refuse_if_replaced(disk, unsealed)
        disk.replace(unsealed.path + paths.TMP, unsealed.path)
    except BaseException:
        publishing.discard(disk, unsealed.path + paths.TMP)
        raise
    disk.sync_dir(directory)
    return kept


def _keep_torn(disk: files.Files, directory: str, unsealed: Unsealed, data: bytes) -> list[str]:
    if unsealed.scan.torn is None or unsealed.kept:
        return []
    torn = data[unsealed.scan.end :].rstrip(FILLER)
    name = paths.base(unsealed.path)
    return [quarantine.keep(disk, directory, name, torn, unsealed.scan.end)]


def _whole_batches(unsealed: Unsealed, data: bytes) -> list[bytes | memoryview]:
    """Header and whole batches, read again: the bytes that the scanner has checked."""
    content: bytes | memoryview = memoryview(data)[: unsealed.scan.end]
    reached = unsealed.kept[-1].crc if unsealed.kept else unsealed.scan.chain
    remembered = unsealed.scan.remembered.take(unsealed.scan.end)
    if remembered is not None:
        is_same = data.startswith(remembered)
    else:
        if unsealed.scan.edited:
            content = segment.without_edits(bytes(content))
        is_same = codec.digest(content) == unsealed.scan.midway().digest.hexdigest()
    if not is_same or reached != unsealed.place.chain:
        raise _changed(unsealed)
    return [content, *_kept(unsealed)]


def _kept(unsealed: Unsealed) -> list[bytes]:
    return [record.line + b"\n" for record in unsealed.kept]


def _changed(unsealed: Unsealed) -> CorruptionError:
    return CorruptionError(
        f"{unsealed.path} reads differently the second time: the disk or the memory is not to be "
        "trusted. Nothing was replaced.",
        path=unsealed.path,
    )


def _seal(unsealed: Unsealed) -> bytes:
    digest = unsealed.scan.midway().digest
    digest.update(b"".join(_kept(unsealed)))
    return segment.seal_line(
        segment.Seal(
            seal=unsealed.number,
            last_seq=unsealed.place.seq,
            events=unsealed.scan.events + len(unsealed.kept),
            blake2b=digest.hexdigest(),
        ),
        unsealed.place.chain,
    )


def _refuse_if_replaced(disk: files.Files, unsealed: Unsealed) -> None:
    """A last look before the old file loses its name, at the file that has the name now."""
    fd = disk.open(unsealed.path)
    try:
        found = disk.fstat(fd)
        behind = disk.read_at(fd, max(0, found.size - unsealed.scan.end), unsealed.scan.end)
    finally:
        disk.close(fd)
    if found.inode != unsealed.inode:
        raise _alive(unsealed, "another file has its name")
    _refuse_if_changed(unsealed, behind)


def _refuse_if_changed(unsealed: Unsealed, behind: bytes) -> None:
    """`behind` is all that stands behind the last whole batch: a writer at work changes it."""
    if codec.digest(behind) != unsealed.scan.behind:
        raise _alive(unsealed, f"what stands from byte {unsealed.scan.end} on changed")


def _alive(unsealed: Unsealed, what: str) -> FencedError:
    return FencedError(
        f"{unsealed.path} changed while it was being recovered: {what}. Another writer is at work; "
        "nothing was replaced.",
        path=unsealed.path,
        offset=unsealed.scan.end,
    )
