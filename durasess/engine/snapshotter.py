"""When a snapshot is taken, and how: encoded between two commits, made beside them, swapped in.

The log is sealed first, so that a snapshot is always at the end of a segment. A failed snapshot is
reported and stops nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from durasess.engine import codec, files, meta, paths, publishing, snapshot
from durasess.engine.compression import Compressor
from durasess.engine.job import Finish, Job, died
from durasess.engine.ledger import Ledger
from durasess.engine.log import Log
from durasess.engine.records import Place
from durasess.engine.recovery import Recovered
from durasess.engine.scheduler import Scheduler
from durasess.engine.state import encode
from durasess.errors import DurasessError, StorageError

EVENT_BYTES = 4096
"""As much of a tail counts as one event where events are larger: what is replayed is bytes then."""

LARGE_TAIL = 4
"""Times the size of the last state that a tail must have before its bytes alone ask for the next:
so snapshots add at most a quarter to what is written, before they are compressed."""


class SnapshotJob(Job):
    """A snapshot on its way; `ticket` is settled with its seq when it is in place."""

    def __init__(
        self,
        scheduler: Scheduler,
        finish: Finish,
        *,
        place: Place,
        segment: int,
        content: bytes,
        state_bytes: int,
        tail_bytes: int,
    ) -> None:
        super().__init__(scheduler, finish)
        self.place = place
        self.segment = segment
        self.content = content
        self.state_bytes = state_bytes
        self.tail_bytes = tail_bytes


class Snapshotter:
    """Takes snapshots of what the writer hands in; `tail_events` and `tail_bytes` are what was
    appended since the newest one. `names_are_durable` is False after a swap that failed: until the
    next one succeeds nothing may be deleted that an older snapshot needs."""

    def __init__(
        self,
        disk: files.Files,
        found: Recovered,
        log: Log,
        ledger: Ledger,
        scheduler: Scheduler,
        *,
        schema_version: int,
        state_type: Any,
        every: int,
        compress: bool,
        now: Callable[[], str],
        note: Callable[[str], None],
        check: Callable[[], None],
        worker_id: str | None,
    ) -> None:
        self._disk = disk
        self._directory = found.claims.directory
        self._session_id = found.claims.session_id
        self._log = log
        self._ledger = ledger
        self._scheduler = scheduler
        self._schema_version = schema_version
        self._state_type = state_type
        self._every = every
        self._now = now
        self._note = note
        self._check = check
        self._tmp = paths.snapshot_tmp(worker_id)
        self._claimed_at_open = ledger.baseline
        self._newest_is_good = found.claims.newest_is_good()
        self._newest_segment = found.claims.first_unsealed()
        self._state_bytes = found.state_bytes
        self._job: SnapshotJob | None = None
        self.tail_bytes = found.tail_bytes
        self.tail_events = found.tail_events
        self._due_bytes = found.tail_bytes
        self.seq = _newest_seq(found)
        self.names_are_durable = True
        self._abandoned: Callable[[], None] | None = None
        self._compresses = compress
        self._compressor = Compressor(
            disk, self._directory, scheduler, check=self._check_alive, note=note, then=self._let_go
        )
        self.is_alone: Callable[[], bool] = lambda: True

    @property
    def job(self) -> Job | None:
        """What is under way: until it is settled, this process may still write its file."""
        return self._under_way() or self._compressor.under_way()

    def abandon(self, then: Callable[[], None]) -> None:
        """Do `then` as soon as no job can touch a file any more."""
        self._abandoned = then
        self._let_go()

    def _let_go(self) -> None:
        if self._abandoned is None:
            return
        job = self.job
        if job is None:
            self._abandoned()
        else:
            job.watch()

    def _check_alive(self) -> None:
        """Raise when nothing may be published any more."""
        if self._abandoned is not None:
            raise RuntimeError("the handle is gone")
        if self._log.failure is not None:
            raise self._log.failure
        self._check()

    def grew(self, events: int, size: int) -> None:
        """Events of `size` bytes together came after the newest snapshot."""
        self.tail_events += events
        self.tail_bytes += size
        self._due_bytes += size

    def is_due(self) -> bool:
        """Every N events, or as soon as large ones would take longer to replay; but not while the
        tail is small against the last snapshot: a state that grows with the history would otherwise
        be rewritten again and again."""
        if self._under_way() is not None or self.tail_bytes < self._state_bytes:
            return False
        if self.tail_events >= self._every:
            return True
        most = max(self._every * EVENT_BYTES, LARGE_TAIL * self._state_bytes)
        return self._due_bytes >= most

    def follow(self, baseline: meta.Baseline) -> None:
        """Another writer sealed a segment, as one does before a snapshot: it may have taken one, or
        be about to, so the next is due after N more events."""
        self.tail_events = self.tail_bytes = self._due_bytes = 0
        if self._is_of_another(baseline):
            self.seq = baseline.seq
            self._newest_segment = baseline.segment
            self._newest_is_good = self.names_are_durable = True

    def _is_of_another(self, baseline: meta.Baseline) -> bool:
        """Whether another writer published this since; what meta claimed before may be a snapshot
        that was found bad."""
        return baseline.seq > self.seq and baseline != self._claimed_at_open

    def start_again(self, found: Recovered) -> None:
        """After a new recovery."""
        newest = _newest_seq(found)
        if newest > self.seq:
            self.seq = newest
            self._newest_segment = found.claims.first_unsealed()
        self.tail_events, self.tail_bytes = found.tail_events, found.tail_bytes
        self._due_bytes = found.tail_bytes
        self._newest_is_good = found.claims.newest_is_good()

    def postpone(self) -> None:
        """After a failure: not again with every append, but after N more events, or as many
        bytes."""
        self.tail_events = self._due_bytes = 0

    def is_worth_it_at_close(self) -> bool:
        """Whether the next open would gain from a snapshot of what was appended since the last."""
        return self.tail_bytes > 0 and self.tail_bytes >= self._state_bytes

    def begin(
        self, state: Any, event_ids: list[snapshot.RememberedId], place: Place
    ) -> SnapshotJob | None:
        """Encode the state and hand the rest to a background job; the one that is under way when
        there is one, None when nothing happened since the last."""
        if self._under_way() is not None:
            return self._job
        if place.seq <= self.seq:
            return None
        encoded = encode(state, self._state_type)
        content = snapshot.document(place.seq, event_ids, encoded)
        if self._log.is_active:
            self._log.seal()
        job = self._job = SnapshotJob(
            self._scheduler,
            self._finish,
            place=place,
            segment=self._log.next_number,
            content=content,
            state_bytes=len(encoded),
            tail_bytes=self.tail_bytes,
        )
        self.tail_bytes = self.tail_events = self._due_bytes = 0
        try:
            job.start(lambda: self._make(job))
        except Exception as error:
            self._finish(job, None, error)
        return job

    def _under_way(self) -> SnapshotJob | None:
        """In the committer: the job that is not done, unless its thread is gone."""
        job = self._job
        if job is not None and job.is_lost():
            self._finish(job, None, died())
        return self._job

    def _make(self, job: SnapshotJob) -> snapshot.Trailer:
        """The slow part, beside the committer: touches only the temporary file."""
        data = snapshot.encoded(
            job.content,
            session_id=self._session_id,
            seq=job.place.seq,
            chain=codec.hexed(job.place.chain),
            segment=job.segment,
            schema_version=self._schema_version,
            ts=self._now(),
        )
        return snapshot.write_tmp(self._disk, self._directory, data, self._session_id, self._tmp)

    def _finish(
        self, job: SnapshotJob, trailer: snapshot.Trailer | None, error: BaseException | None
    ) -> None:
        """In the committer again: swap the files, or report."""
        if self._job is not job:
            return
        self._job = None
        if self._abandoned is not None:
            try:
                job.ticket.settle(error=self._explained(job, RuntimeError("the handle is gone")))
            finally:
                self._let_go()
            return
        try:
            if error is not None:
                raise error
            assert trailer is not None
            self._swap(job, trailer)
        except Exception as failure:
            self._note(f"the snapshot at seq {job.place.seq} failed: {failure}")
            self.tail_bytes += job.tail_bytes
            job.ticket.settle(error=self._explained(job, failure))
        else:
            job.ticket.settle(job.place.seq)
        finally:
            # Only where what was to be said could not be: whoever waits looks again.
            job.ticket.settle()

    def _swap(self, job: SnapshotJob, trailer: snapshot.Trailer) -> None:
        self._check_alive()
        has_newer = self._ledger.has_newer_snapshot(job.place.seq)
        if self._is_of_another(self._ledger.baseline):
            self.follow(self._ledger.baseline)
        if has_newer and self.seq >= job.place.seq:
            publishing.discard(self._disk, paths.join(self._directory, self._tmp))
            return
        good, self._newest_is_good = self._newest_is_good, False
        self.names_are_durable = False
        snapshot.publish(self._disk, self._directory, tmp=self._tmp, newest_is_good=good)
        self._newest_is_good = self.names_are_durable = True
        self.seq = job.place.seq
        self._state_bytes = job.state_bytes
        self._ledger.set_baseline(meta.Baseline(trailer.seq, trailer.segment, trailer.frame))
        self._ledger.publish_baseline()
        covered, self._newest_segment = self._newest_segment, trailer.segment
        # Without a good one before, the older of the two is one that nothing is known of; beside
        # other writers two might compress the same segment.
        if self._compresses and good and self.is_alone():
            self._compressor.begin(covered)

    def _explained(self, job: SnapshotJob, error: Exception) -> DurasessError:
        if isinstance(error, DurasessError):
            return error
        path = paths.join(self._directory, paths.SNAPSHOT)
        wrapped = StorageError(
            f"{path}: the snapshot at seq {job.place.seq} could not be made: {error}. "
            "The log is whole; appends go on.",
            path=path,
            seq=job.place.seq,
            errno=getattr(error, "errno", None),
        )
        wrapped.__cause__ = error
        return wrapped


def _newest_seq(found: Recovered) -> int:
    """The seq of the newest snapshot that is there, gone on with or not: there is one of a seq."""
    return max((one.trailer.seq for one in found.claims.snapshots), default=0)
