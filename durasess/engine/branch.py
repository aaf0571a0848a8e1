"""A copy of a session up to a seq under another id: the same event lines, headers of its own.

A header and a seal advance no chain, so the copied lines keep every checksum; only a batch that the
cut goes through is marked anew. What the copy is for, and how it comes to its name, is decided
above the engine. The source is only read.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from durasess.engine import (
    blobs,
    codec,
    files,
    lock,
    meta,
    paths,
    publishing,
    segment,
    snapshot,
    survey,
)
from durasess.engine.records import Place, Record
from durasess.engine.types import Damage
from durasess.engine.walk import Walk
from durasess.errors import CorruptionError, StorageError


def copy(
    disk: files.Files,
    source: str,
    target: str,
    *,
    through: int,
    created: str,
    token: Callable[[], str],
) -> int:
    """Make the session directory `target`, which must not exist, of the events 1 to `through` of
    `source`, with the snapshots and blobs that belong to them; returns the last seq copied.

    `created` is a timestamp, `token()` a unique part of a file name. All of it is synced but the
    name of `target`. Raises SessionNotFoundError, CorruptionError when the source is damaged before
    `through`, StorageError when the events are pruned or the system refuses; what was made until
    then is left for the caller to remove.
    """
    claims = survey.look(disk, source, every_snapshot=True)
    if claims.damage:
        raise _damaged(claims.damage[0])
    try:
        return _Copy(disk, claims, target, through).make(created, token)
    except OSError as error:
        raise StorageError(
            f"{source} cannot be copied to {target}: {error}. The session was only read.",
            path=target,
            errno=error.errno,
        ) from error


class _Copy:
    def __init__(self, disk: files.Files, claims: survey.Claims, target: str, through: int) -> None:
        self._disk = disk
        self._claims = claims
        self._target = target
        self._through = through
        self._session_id = survey.session_id_of(target)
        # Of no use are those of a later state, and what meta does not know as the newest.
        self._snapshots = [one for one in claims.snapshots if one.trailer.seq <= through]
        self._named: dict[str, None] = {}
        self._open: _Segment | None = None
        self._header: segment.Header | None = None

    def make(self, created: str, token: Callable[[], str]) -> int:
        """All of it, the log first."""
        number, place = self._start()
        self._disk.mkdir(self._target)
        place, number = self._copy_log(number, place)
        hashes = self._copy_snapshots()
        self._copy_blobs(token)
        meta.publish(self._disk, self._target, self._meta(place, number, hashes, created))
        lock.create(self._disk, self._target)
        self._disk.sync_dir(self._target)
        return place.seq

    def _meta(self, end: Place, number: int, hashes: list[str], created: str) -> meta.Meta:
        newest = self._snapshots[0].trailer if self._snapshots else None
        baseline = meta.Baseline()
        if newest is not None:
            baseline = meta.Baseline(newest.seq, newest.segment, hashes[0])
        shown = self._claims.meta.summary if self._claims.meta else None
        return meta.Meta(
            session_id=self._session_id,
            schema_version=self._schema_version(),
            created=created,
            updated=created,
            epoch=self._header.epoch if self._header else 0,
            baseline=baseline,
            active=number,
            floor=meta.Floor(number, end.seq, codec.hexed(end.chain)),
            summary=shown if shown is not None and shown.seq <= end.seq else None,
        )

    def _schema_version(self) -> int:
        if self._header is not None:
            return self._header.schema_version
        if self._snapshots:
            return self._snapshots[0].trailer.schema_version
        return self._claims.meta.schema_version if self._claims.meta else 1

    # -- where it begins --------------------------------------------------------------------

    def _start(self) -> tuple[int, Place | None]:
        """The first segment that is copied, and the place before it."""
        numbers = [
            found.number
            for found in map(paths.parse, self._disk.listdir(self._claims.directory))
            if found.kind == "segment"
        ]
        if 1 in numbers or not self._claims.snapshots:
            return 1, survey.START
        oldest = self._claims.snapshots[-1]
        if not self._snapshots or self._snapshots[-1] is not oldest:
            raise StorageError(
                f"{self._claims.directory}: the events before seq {oldest.trailer.seq} were "
                f"pruned, so there is no seq {self._through} to copy up to. Choose "
                f"{oldest.trailer.seq} or a later one.",
                path=self._claims.directory,
                seq=self._through,
            )
        return oldest.trailer.segment, oldest.place

    # -- the log ----------------------------------------------------------------------------

    def _copy_log(self, number: int, place: Place | None) -> tuple[Place, int]:
        """The place it ends at, and the number of its last segment (0: none)."""
        walk = Walk(self._disk, self._claims, number=number, start=place)
        end, last = place or survey.START, number - 1
        try:
            for scan, batch in walk.batches():
                if end.seq >= self._through:
                    break
                if walk.damage or scan.damage:
                    raise _damaged((walk.damage + scan.damage)[0])
                header = scan.header
                assert header is not None
                last = self._reach(last, header, end)
                lines, end = self._cut(batch, end)
                self._add(lines)
            else:
                if walk.damage:
                    raise _damaged(walk.damage[0])
            if self._open is not None:
                self._open.finish(end)
                self._open = None
        finally:
            if self._open is not None:
                self._open.close()
        return end, last

    def _reach(self, last: int, header: segment.Header, end: Place) -> int:
        """Begin the segments up to this header's; one without events in between keeps its place."""
        while last < header.segment:
            if self._open is not None:
                self._open.finish(end)
            last += 1
            self._header = msgspec.structs.replace(
                header,
                segment=last,
                session_id=self._session_id,
                first_seq=end.seq + 1,
                chain=codec.hexed(end.chain),
            )
            self._open = _Segment(self._disk, self._target, last)
            self._open.write(segment.header_line(self._header), 0)
        return last

    def _cut(self, batch: list[Record], end: Place) -> tuple[list[bytes], Place]:
        """The lines of a batch up to the cut, and the place behind them."""
        kept = [record for record in batch if record.seq <= self._through]
        if len(kept) == len(batch):
            lines = [record.line + b"\n" for record in kept]
            return lines, Place(kept[-1].seq, kept[-1].crc)
        return _marked_anew(kept, end)

    def _add(self, lines: list[bytes]) -> None:
        assert self._open is not None
        self._open.write(b"".join(lines), len(lines))
        for line in lines:
            self._named.update(dict.fromkeys(blobs.named(line)))

    # -- beside the log ---------------------------------------------------------------------

    def _copy_snapshots(self) -> list[str]:
        """The hashes of their frames, the newest first."""
        names = (paths.SNAPSHOT, paths.SNAPSHOT_PREVIOUS)
        hashes = []
        for name, one in zip(names, self._snapshots, strict=False):
            state = bytes(one.document.state)
            self._named.update(dict.fromkeys(blobs.named(state)))
            content = snapshot.document(one.trailer.seq, one.document.event_ids, state)
            data = snapshot.encoded(
                content,
                session_id=self._session_id,
                seq=one.trailer.seq,
                chain=one.trailer.chain,
                segment=one.trailer.segment,
                schema_version=one.trailer.schema_version,
                ts=one.trailer.ts,
            )
            publishing.write_tmp(self._disk, paths.join(self._target, name), data)
            hashes.append(snapshot.parse(data, self._session_id)[0].frame)
        return hashes

    def _copy_blobs(self, token: Callable[[], str]) -> None:
        there = blobs.Blobs(self._disk, self._claims.directory, token)
        here = blobs.Blobs(self._disk, self._target, token)
        for name in self._named:
            here.put(there.read(name))


class _Segment:
    """A segment that is being written, its header first, sealed when it is finished."""

    def __init__(self, disk: files.Files, directory: str, number: int) -> None:
        self._disk = disk
        self._number = number
        self._digest = codec.hasher()
        self._offset = self._events = 0
        self._fd = disk.create(paths.join(directory, paths.segment(number)))

    def write(self, data: bytes, events: int) -> None:
        """Whole lines with so many events."""
        publishing.write_all(self._disk, self._fd, data, self._offset)
        self._digest.update(data)
        self._offset += len(data)
        self._events += events

    def finish(self, end: Place) -> None:
        """Seal, sync and close it; the log ends at `end`."""
        seal = segment.Seal(
            seal=self._number,
            last_seq=end.seq,
            events=self._events,
            blake2b=self._digest.hexdigest(),
        )
        line = segment.seal_line(seal, end.chain)
        publishing.write_all(self._disk, self._fd, line, self._offset)
        self._disk.sync(self._fd)
        self.close()

    def close(self) -> None:
        """Give the descriptor back; safe to call again."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            self._disk.close(fd)


def _marked_anew(kept: list[Record], end: Place) -> tuple[list[bytes], Place]:
    """The lines of the first events of a batch as a batch by themselves."""
    lines = []
    chain = end.chain
    for index, (ts, body) in enumerate(map(_parts, kept), 1):
        mark = None if len(kept) == 1 else (len(kept) if index == len(kept) else 0)
        line, chain = codec.event_line(kept[index - 1].seq, ts, mark, body, chain)
        lines.append(line)
    return lines, Place(kept[-1].seq, chain)


def _parts(record: Record) -> tuple[str, bytes]:
    """Time and body of a checked line."""
    line = record.line
    body = line[line.index(b',"type":') : len(line) - codec.CRC_SUFFIX]
    return codec.event(line).ts, body


def _damaged(found: Damage) -> CorruptionError:
    return CorruptionError(
        f'{found}. Nothing was copied; run "durasess repair" on it first.',
        path=found.path,
        offset=found.offset,
        seq=found.first_seq,
    )
