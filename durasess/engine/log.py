"""The writing end of the log: the active segment, its chain, its seal. One write in flight.

Knows nothing of states, snapshots or callers. Every method leaves either a whole log or a failed
object: what failed is raised as StorageError when it was cut back and may be tried again, and as
SessionFailedError or FencedError when this log is at its end (P4).
"""

from __future__ import annotations

from typing import NoReturn

from durasess.engine import codec, files, paths, publishing, segment
from durasess.engine.records import Place
from durasess.engine.types import FILLER
from durasess.errors import DurasessError, FencedError, SessionFailedError, StorageError


class Log:
    """Appends batches after `place`; the next segment to be made has number `next_number`."""

    def __init__(
        self,
        disk: files.Files,
        directory: str,
        session_id: str,
        *,
        place: Place,
        next_number: int,
        epoch: int,
        schema_version: int,
        preallocate: int,
        pid: int,
        boot_id: str,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._session_id = session_id
        self._epoch = epoch
        self._schema_version = schema_version
        self._step = preallocate
        self._pid = pid
        self._boot_id = boot_id
        self._fd = -1
        self._path = ""
        self._header: segment.Header
        self._hash = codec.hasher()
        self._events = 0
        self._made = False
        self._floor = (next_number - 1, place)
        self._unsynced: tuple[int, Place, int] | None = None
        self.place = place
        self.next_number = next_number
        self.offset = 0
        self._size = 0
        self.failure: DurasessError | None = None

    @property
    def is_active(self) -> bool:
        """Whether there is a segment to append to."""
        return self._fd >= 0

    @property
    def size(self) -> int:
        """Of the active segment's file, in bytes."""
        return self._size

    @property
    def is_read(self) -> bool:
        """Whether this writer knows every line before `place`: always, when it is alone."""
        return True

    @property
    def end(self) -> Place:
        """Behind everything that was written, synced or not."""
        return self.place if self._unsynced is None else self._unsynced[1]

    @property
    def epoch(self) -> int:
        """This writer's number among those that made segments."""
        return self._epoch

    @property
    def number(self) -> int:
        """The newest segment's number; 0 before the first."""
        return self.next_number - 1

    @property
    def wrote(self) -> bool:
        """Whether this writer made a segment."""
        return self._made

    def floor(self) -> tuple[int, Place]:
        """The newest sealed segment's number and end. Its seal is known to be synced, which a seal
        that can be read is not: after a failed sync the cache shows what the disk lacks (R9)."""
        return self._floor

    @property
    def schema_version(self) -> int:
        """Of the events in the active segment."""
        return self._header.schema_version

    def start_segment(self, ts: str) -> None:
        """Publish the next segment with its header (R3): synced under a temporary name, renamed,
        the directory synced, so a segment without a valid header is never a crash's doing."""
        path = paths.join(self._directory, paths.segment(self.next_number))
        header = segment.Header(
            segment=self.next_number,
            session_id=self._session_id,
            first_seq=self.place.seq + 1,
            chain=codec.hexed(self.place.chain),
            schema_version=self._schema_version,
            epoch=self._epoch,
            pid=self._pid,
            boot_id=self._boot_id,
            ts=ts,
        )
        line = segment.header_line(header)
        fd = -1
        try:
            fd = publishing.create_fresh(self._disk, path + paths.TMP)
            size = self._disk.write_at(fd, line.ljust(self._grown(len(line)), FILLER), 0)
            if size < len(line):
                publishing.write_all(self._disk, fd, line[size:], size)
                size = len(line)
            self._disk.sync(fd)
            if publishing.exists(self._disk, path):
                raise self._fenced(path, "it exists already, so another writer is at work")
        except BaseException as error:
            self._give_up_tmp(fd, path)
            if not isinstance(error, OSError):
                raise
            raise self._storage_error(error, path, "the next segment could not be made") from error
        try:
            self._disk.replace(path + paths.TMP, path)
            self._disk.sync_dir(self._directory)
        except BaseException as error:
            publishing.give_back(self._disk, fd)
            self._fail(error, path, "the next segment could not be published", None)
        self._fd, self._path, self._size, self._header = fd, path, size, header
        self._hash = codec.hasher(line)
        self._events = 0
        self._made = True
        self.offset = len(line)
        self.next_number += 1

    def _give_up_tmp(self, fd: int, path: str) -> None:
        if fd >= 0:
            publishing.give_back(self._disk, fd)
            publishing.discard(self._disk, path + paths.TMP)

    def write(self, lines: bytes, after: Place, events: int) -> None:
        """One write of a whole batch (R2), which `sync` must follow before the next.

        StorageError when the system took less than all of it (disk full, size limit) and the
        segment was cut back, so that nothing of it remains.
        """
        self._check_usable()
        if self._unsynced is not None:
            self.sync()
        self._check_size()
        end = self.offset + len(lines)
        unsynced = (len(lines), after, events)
        # Behind a seal nothing comes, so it brings no filler with it.
        size = self._grown(end) if events and end > self._size else end
        try:
            padded = lines.ljust(size - self.offset, FILLER)
            taken = self._disk.write_at(self._fd, padded, self.offset)
            if taken < len(lines):
                raise files.disk_full()
            self._size = max(self._size, self.offset + taken)
        except OSError as error:
            self._cut_back(error, after)
            raise self._storage_error(error, self._path, "the events were not written") from error
        except BaseException as error:
            self._fail(error, self._path, "a write was interrupted", after)
        self._unsynced = unsynced
        self._hashed(lines)

    def _grown(self, end: int) -> int:
        """The size of a file that holds `end` bytes: it grows by whole steps, because a sync of
        bytes inside a file is cheaper than one that has to make the file longer."""
        return -(-end // self._step) * self._step if self._step else end

    def _check_size(self) -> None:
        """R15: bytes that nobody here wrote are another writer's."""
        try:
            size = self._disk.size(self._fd)
        except OSError as error:
            self._fail(error, self._path, "its size could not be looked up", None)
        if size != self._size:
            raise self._fenced(
                self._path, f"its size is {size} bytes, not the {self._size} written here"
            )

    def _cut_back(self, error: OSError, after: Place) -> None:
        """Without the sync a crash could mix what was cut off with the next write (R10)."""
        try:
            self._disk.truncate(self._fd, self.offset)
            self._disk.sync(self._fd)
            self._size = self.offset
        except BaseException as second:
            what = f"a write failed ({error}) and could not be cut back"
            self._fail(second, self._path, what, after)

    def sync(self) -> None:
        """Make the written batch durable; then, and only then, `place` moves past it (R11).

        A failed sync is never retried: the kernel may have dropped the pages and say "done" the
        next time (R9).
        """
        if self._unsynced is None:
            return
        size, after, events = self._unsynced
        try:
            self._disk.sync(self._fd)
        except BaseException as error:
            self._fail(error, self._path, "a batch was written but not synced", after)
        self._check_named(after)
        self._moved(size, after, events)
        self._unsynced = None

    def _hashed(self, lines: bytes) -> None:
        self._hash.update(lines)

    def _moved(self, size: int, after: Place, events: int) -> None:
        self.offset += size
        self._events += events
        self.place = after

    def _check_named(self, after: Place) -> None:
        """What is synced in a file that has lost its name is not in the log."""
        try:
            is_named = self._disk.leads_to(self._path, self._fd)
        except OSError as error:
            self._fail(error, self._path, "its name could not be looked up", after)
        if not is_named:
            raise self._fenced(self._path, "the name leads to another file now")

    def seal(self) -> None:
        """End the active segment: seal line, sync. The next one is made with the next append."""
        self._check_usable()
        self.sync()
        line = segment.seal_line(
            segment.Seal(
                seal=self.number,
                last_seq=self.place.seq,
                events=self._events,
                blake2b=self._hash.hexdigest(),
            ),
            self.place.chain,
        )
        try:
            self.write(line, self.place, 0)
            self._cut_filler(len(line))
            self.sync()
            self._floor = (self.number, self.place)
            fd, self._fd = self._fd, -1
        except BaseException as error:
            if self.failure is None and not isinstance(error, StorageError):
                # Nothing may be written behind a seal that is there.
                self._fail(error, self._path, "a seal was interrupted", None)
            raise
        publishing.give_back_the_last(self._disk, fd)

    def _cut_filler(self, size: int) -> None:
        """A sealed segment ends with its seal, which is `size` bytes long."""
        end = self.offset + size
        if self._size == end:
            return
        try:
            self._disk.truncate(self._fd, end)
        except BaseException as error:
            self._fail(error, self._path, "what was set aside behind the seal stays", None)
        self._size = end

    def close(self) -> None:
        """Give the descriptor back, whatever state the segment is in."""
        if self._fd >= 0:
            try:
                self._disk.close(self._fd)
            except OSError:
                self._fd = -1
                raise
            self._fd = -1

    def _check_usable(self) -> None:
        if self.failure is not None:
            raise self.failure

    def _storage_error(self, error: OSError, path: str, what: str) -> StorageError:
        return StorageError(
            f"{path}: {what}: {error}. Nothing was kept; seq {self.place.seq} is the last durable "
            f"event and the next seq is still {self.place.seq + 1}. Make room and try again.",
            path=path,
            seq=self.place.seq,
            errno=error.errno,
        )

    def _fenced(self, path: str, what: str) -> FencedError:
        self.failure = FencedError(
            f"{path}: {what}. Something outside this handle changed the log; seq "
            f"{self.place.seq} was the last event acknowledged here. Close and open again.",
            path=path,
            offset=self.offset,
            seq=self.place.seq,
        )
        return self.failure

    def _fail(self, error: BaseException, path: str, what: str, after: Place | None) -> NoReturn:
        """From here on this log takes nothing more."""
        unknown = None
        if after is not None and after.seq > self.place.seq:
            unknown = (self.place.seq + 1, after.seq)
        outcome = f" The outcome of seq {unknown[0]} to {unknown[1]} is unknown." if unknown else ""
        self.failure = SessionFailedError(
            f"{path}: {what}: {error!r}. Seq {self.place.seq} is the last event known to be "
            f"durable.{outcome} The handle is failed; close it and open the session again.",
            path=path,
            offset=self.offset,
            seq=self.place.seq,
            unknown=unknown,
        )
        if isinstance(error, Exception):
            raise self.failure from error
        raise error
