"""Making a damaged session writable again, on request only; everything taken out is kept.

Strategy: the log is cut after the last whole batch before the first damage that recovery meets. The
damaged segment and all later ones go to quarantine whole, beside a file of the events in them that
can still be read. seqs are never renumbered and nothing is moved into the log. A second run finds
nothing to do. A crash in between leaves the session damaged or repaired, never something else:
copies come first, then meta claims no more than is kept, and the log itself is cut last.
"""

from __future__ import annotations

import contextlib

import msgspec

from durasess.engine import (
    codec,
    files,
    lock,
    meta,
    paths,
    publishing,
    quarantine,
    segment,
    settle,
    survey,
)
from durasess.engine.records import Place, Record
from durasess.engine.scan import Scan
from durasess.engine.types import Damage, LineError
from durasess.engine.walk import Walk, marks, unreached
from durasess.errors import StorageError

_NO_TIME = "1970-01-01T00:00:00.000000Z"


class Repaired(msgspec.Struct, kw_only=True):
    """What repair would do, or with `applied` did: `actions` in words, in order. The log ends at
    `kept_through` afterwards; `readable` counts events behind the damage that can still be read and
    are kept in `set_aside` (paths in quarantine), not in the log. `beyond_repair` says why nothing
    can be done, if so."""

    path: str
    applied: bool
    damage: list[Damage]
    actions: list[str]
    kept_through: int
    beyond_repair: str | None = None
    readable: int = 0
    set_aside: list[str] = msgspec.field(default_factory=list)


def repair(path: str, *, files: files.Files, apply: bool = False) -> Repaired:
    """Find what keeps a session from being opened for writing, and with `apply` settle it.

    Takes the owner's lock while it changes something: SessionLockedError when a writer has it.
    Raises SessionNotFoundError, FormatVersionError and StorageError as opening does.
    """
    try:
        if not apply:
            return _Repair(files, path).plan()
        # Look before anything is made: this may be no session at all.
        survey.look(files, path)
        lock.create(files, path)
        owner = lock.acquire_owner(files, path)
        try:
            return _Repair(files, path).apply()
        finally:
            files.close(owner)
    except OSError as error:
        raise StorageError(
            f"{path} cannot be repaired: {error}. What was done is safe to do again.",
            path=path,
            errno=error.errno,
        ) from error


class _End(msgspec.Struct, frozen=True):
    """Where the kept log ends: in segment `number`, byte `offset`, which has `events` up to it."""

    number: int
    offset: int
    events: int
    place: Place


class _Repair:
    def __init__(self, disk: files.Files, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._claims = survey.look(disk, directory, every_snapshot=True)
        self._damage = list(self._claims.damage)
        self._readable: list[Record] = []
        self._created = _NO_TIME
        self._end = self._read_log()
        self._report = Repaired(
            path=directory,
            applied=False,
            damage=self._damage,
            actions=[],
            kept_through=self._end.place.seq,
            readable=len(self._readable),
        )
        self._doomed = self._segments_behind_the_end()
        self._cut = self._cut_segment()

    def _read_log(self) -> _End:
        number, place = 1, survey.START
        if self._claims.snapshots:
            newest = self._claims.snapshots[0]
            number, place = newest.trailer.segment, newest.place
        end = _End(number - 1, 0, 0, place)
        watch = frozenset(seq for _, seq, _ in marks(self._claims))
        walk = Walk(self._disk, self._claims, number=number, start=place, watch=watch)
        for scan, batch in walk.batches():
            if not walk.damage and not scan.damage and self._are_events(walk, scan, batch):
                end = _End(scan.number, scan.end, scan.events, scan.place)
                self._created = scan.header.ts if scan.header else self._created
            else:
                self._readable += batch
        self._damage += walk.damage
        if not self._damage:
            self._damage += unreached(
                self._claims, start=place, end=end.place, watched=walk.watched
            )
        return end

    def _are_events(self, walk: Walk, scan: Scan, batch: list[Record]) -> bool:
        try:
            for record in batch:
                codec.event(record.line)
        except LineError as error:
            path = paths.join(self._directory, paths.segment(scan.number))
            walk.damage.append(
                Damage(
                    path=path,
                    offset=batch[0].offset,
                    first_seq=batch[0].seq,
                    last_seq=batch[-1].seq,
                    rule=error.rule,
                    reason=error.reason,
                )
            )
            return False
        return True

    def _is_beyond_repair(self) -> str | None:
        """Why nothing here can make the session writable, if so."""
        if self._claims.damage:
            return "the directory's name is not the session's id: rename it back"
        if not self._damage or self._claims.snapshots:
            return None
        if segment.present(self._disk, self._directory, 1):
            return None
        return (
            f"no snapshot can be read and {paths.segment(1)} is gone, so no state can be computed; "
            'the events that are left can be read with mode="read"'
        )

    def plan(self) -> Repaired:
        """Say what is to be done, without doing it."""
        beyond = self._is_beyond_repair()
        if beyond is not None:
            self._report.beyond_repair = beyond
            return self._report
        for name, reason in self._claims.bad.items():
            self._say(f"move {name} to quarantine, it is not valid: {reason}")
        if self._readable:
            self._say(f"keep the {len(self._readable)} events that can be read behind the damage")
        for number in self._doomed:
            self._say(f"move {paths.segment(number)} to quarantine, whole")
        if self._needs_meta():
            self._say(f"let {paths.META} say that the log ends at seq {self._end.place.seq}")
        if self._cut is not None:
            self._say(f"cut {paths.segment(self._end.number)} behind seq {self._end.place.seq}")
        return self._report

    def apply(self) -> Repaired:
        """Do it: copies first, then the claims, then the log itself."""
        self.plan()
        self._report.applied = True
        if not self._report.actions or self._is_beyond_repair() is not None:
            return self._report
        self._report.set_aside += settle.keep_bad_files(self._disk, self._claims)
        self._keep_copies()
        if self._needs_meta():
            self._publish_meta()
            self._write_anchor()
        for number in reversed(self._doomed):
            self._remove(*_names(number))
        self._remove(*(name for name in self._claims.bad if name != paths.META))
        self._disk.sync_dir(self._directory)
        if self._cut is not None:
            self._publish_cut(self._cut)
        return self._report

    def _needs_meta(self) -> bool:
        return bool(self._damage) or self._claims.meta is None

    def _segments_behind_the_end(self) -> list[int]:
        if not self._damage:
            return []
        names = (paths.parse(name) for name in self._disk.listdir(self._directory))
        numbers = {name.number for name in names if name.kind == "segment"}
        return sorted(number for number in numbers if number > self._end.number)

    def _cut_segment(self) -> bytes | None:
        """The new content of the segment in which the kept log ends, when that changes."""
        if not self._damage or not self._end.offset:
            return None
        old = self._content(self._end.number)
        whole = segment.without_edits(old[: self._end.offset])
        seal = segment.Seal(
            seal=self._end.number,
            last_seq=self._end.place.seq,
            events=self._end.events,
            blake2b=codec.digest(whole),
        )
        new = whole + segment.seal_line(seal, self._end.place.chain)
        return None if new == old else new

    def _content(self, number: int) -> bytes:
        source = segment.open_source(self._disk, self._directory, number)
        try:
            return source.read_at(self._disk, source.size, 0)
        finally:
            segment.close_source(self._disk, source)

    def _keep_copies(self) -> None:
        lines = b"".join(record.line + b"\n" for record in self._readable)
        if lines:
            self._aside(f"readable_after_{self._end.place.seq}.jsonl", lines)
        for number in self._doomed:
            for name in _names(number):
                with contextlib.suppress(FileNotFoundError):
                    path = paths.join(self._directory, name)
                    self._aside(name, publishing.read_whole(self._disk, path))
        if self._cut is not None:
            self._aside(paths.segment(self._end.number), self._content(self._end.number))

    def _publish_meta(self) -> None:
        """Only what is kept may be claimed, and durably before anything is cut."""
        claimed = self._claims.meta or meta.Meta(
            session_id=self._claims.session_id, created=self._created, updated=self._created
        )
        baseline = meta.Baseline()
        if self._claims.snapshots:
            newest = self._claims.snapshots[0].trailer
            baseline = meta.Baseline(newest.seq, newest.segment, newest.frame)
        number, place = self._end.number, self._end.place
        claimed = msgspec.structs.replace(
            claimed,
            active=number,
            floor=meta.Floor(number, place.seq, codec.hexed(place.chain)),
            baseline=baseline,
        )
        meta.publish(self._disk, self._directory, claimed)
        self._disk.sync_dir(self._directory)

    def _write_anchor(self) -> None:
        number, place = self._end.number, self._end.place
        anchor = lock.Anchor(self._claims.session_id, number, place.seq, codec.hexed(place.chain))
        fd = self._disk.open(paths.join(self._directory, paths.LOCK), write=True)
        try:
            lock.write_anchor(self._disk, fd, anchor)
            self._disk.sync(fd)
        finally:
            self._disk.close(fd)

    def _remove(self, *names: str) -> None:
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                self._disk.unlink(paths.join(self._directory, name))

    def _publish_cut(self, content: bytes) -> None:
        path = paths.join(self._directory, paths.segment(self._end.number))
        publishing.write_tmp(self._disk, path + paths.TMP, content)
        self._disk.replace(path + paths.TMP, path)
        self._disk.sync_dir(self._directory)

    def _say(self, action: str) -> None:
        self._report.actions.append(action)

    def _aside(self, name: str, data: bytes) -> None:
        self._report.set_aside.append(quarantine.keep(self._disk, self._directory, name, data))


def _names(number: int) -> tuple[str, str]:
    return paths.segment(number), paths.segment(number, compressed=True)
