"""The one place that changes a session while a handle is open: commits, rotation, close.

Its methods run in the committer, one at a time, and in this writer's turn (turns.py). A commit is:
admit (validate, event ids) → encode → write → sync → the path still names this file → fold →
publish the new state → anchor → acknowledge. What is published is only what is durable.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from durasess.engine import codec, files, lock, paths, prune
from durasess.engine.admission import Admitted, Append, Prepared, admit, encode_batch, receipts
from durasess.engine.assembly import Tenure, assemble
from durasess.engine.blobs import Blobs
from durasess.engine.feeds import Feeds
from durasess.engine.fold import Fold
from durasess.engine.job import Job
from durasess.engine.outbox import Outbox
from durasess.engine.records import Place
from durasess.engine.recovery import Recovered
from durasess.engine.scheduler import Scheduler
from durasess.engine.snapshotter import SnapshotJob
from durasess.engine.tickets import Ticket, Work, needs_turn, settle_together
from durasess.engine.types import Holder, LineError, Settings
from durasess.errors import (
    DurasessError,
    FencedError,
    SessionClosedError,
    SessionFailedError,
    StorageError,
)

_LOGGER = logging.getLogger("durasess")

MAX_NOTICES = 100

MAX_COMMIT_BYTES = 64 * 1024 * 1024
"""Appends that wait together are written together up to this size; one alone may be larger."""


class Writer:
    """Owns the log and all that is said about it, from the settled open to the release."""

    def __init__(
        self,
        disk: files.Files,
        found: Recovered,
        fold: Fold,
        settings: Settings,
        scheduler: Scheduler,
        tenure: Tenure,
        holder: Holder,
    ) -> None:
        self._disk = disk
        self._directory = found.claims.directory
        self._session_id = found.claims.session_id
        self._fold = fold
        self._settings = settings
        self._owner_fd = tenure.owner_fd
        self._owner_path = paths.join(found.claims.directory, paths.OWNER)
        self._scheduler = scheduler
        self._closed = False
        self._closing = False
        self._answered = found.place.seq
        self.failure: DurasessError | None = None
        self.notices: list[str] = []
        self._live, self._log, self._ledger, self._snapshots, self._turns = assemble(
            disk,
            found,
            fold,
            settings,
            scheduler,
            holder,
            tenure,
            now=self._now,
            note=self._note,
            check=self._check_publish,
        )
        self._outbox = Outbox(self._live, self._log, self._turns)
        self.worker_id = tenure.worker.worker_id if tenure.worker else ""

    @property
    def state(self) -> Any:
        """The state after `place`."""
        return self._live.state

    @property
    def place(self) -> Place:
        """Where the log is, as far as it was published."""
        return self._live.place

    @property
    def feeds(self) -> Feeds:
        """Who is told of each event."""
        return self._live.feeds

    @property
    def snapshot_seq(self) -> int:
        """The seq that the newest snapshot is of."""
        return self._snapshots.seq

    @property
    def newest_segment(self) -> int:
        """The number of the newest segment, 0 before the first."""
        return self._log.number

    @property
    def is_released(self) -> bool:
        """Whether every descriptor is given back."""
        return self._closed

    # -- tickets, in this writer's turn ---------------------------------------------------

    def run(self, tickets: Sequence[Ticket]) -> None:
        """Do the work of these tickets, in order, in one turn; a caller may withdraw its ticket as
        long as the turn has not begun."""
        is_over = self._closed or self.failure is not None
        if is_over or not self._turns.answers_at_end or not any(map(needs_turn, tickets)):
            self._work(tickets)
            return
        try:
            self._turns.begin()
        except BaseException as error:
            self._no_turn(tickets, error)
            if not isinstance(error, Exception):
                raise
            return
        try:
            self._work(tickets, in_turn=True)
            while self._keeps_turn():
                self._work(self._scheduler.more(), in_turn=True)
        finally:
            try:
                if not self._closed:
                    self._turns.end(self.failure)
            except DurasessError as error:
                self._broken(error)
            finally:
                self._answer()

    def _keeps_turn(self) -> bool:
        """Answer within the turn, where callers are likely to go on at once: what begins and ends a
        turn costs as much as what is written in it."""
        if self._closed or self.failure is not None or not self._scheduler.expects_more():
            return False
        if self._is_caught_up() and self._turns.keep():
            self._outbox.answer(None)
            return True
        return False

    def _no_turn(self, tickets: Sequence[Ticket], error: BaseException) -> None:
        """What a close or a flag asks for is done all the same, and meets the failure."""
        if isinstance(error, (OSError, StorageError)):
            # What the system refuses now it may grant later.
            refusal = self._system_error(error) if isinstance(error, OSError) else error
            for ticket in tickets:
                if ticket.claim():
                    self._refused(ticket, refusal)
            return
        if isinstance(error, DurasessError):
            self.failure = self.failure or error
        else:
            self._broken(error)
        self._work(tickets)

    def _refused(self, ticket: Ticket, refusal: DurasessError) -> None:
        """There is no turn now; what must be done all the same is done."""
        work = ticket.work
        if isinstance(work, Work) and not work.needs_turn:
            self._command(ticket)
            return
        if isinstance(work, Work) and work.without_turn is not None:
            work.without_turn(refusal)
        settle_together([(ticket, None, refusal)])

    def _catch_up(self) -> None:
        """Bring the state up to this writer's place; a log that does not lead there fences it."""
        try:
            self._outbox.catch_up()
        except LineError as error:
            self.failure = FencedError(
                f"{self._directory}: the log changed behind seq {self.place.seq}: {error}. Nothing "
                "more is written here; close this handle and open the session again.",
                path=self._directory,
                seq=self.place.seq,
            )
            raise self.failure from error
        except DurasessError as error:
            self.failure = error
            raise

    def _is_caught_up(self) -> bool:
        """Whether those who wait can be answered; whatever stops it ends the handle."""
        try:
            self._catch_up()
        except BaseException as error:
            self._broken(error)
            if not isinstance(error, Exception):
                raise
        return self.failure is None

    def _answer(self) -> None:
        """Behind the turn: what takes time and needs no lock, then the answers."""
        try:
            if self.failure is None:
                self._is_caught_up()
        finally:
            self._outbox.answer(self.failure)

    def _work(self, tickets: Sequence[Ticket], *, in_turn: bool = False) -> None:
        together: list[Ticket] = []
        begun: list[Ticket] = []
        ids: set[str] = set()
        size = 0
        self._answered = self._log.place.seq
        try:
            if in_turn:
                # What was folded behind the last turn may have made one due.
                self._snapshot_when_due()
            for ticket in tickets:
                if not ticket.claim():
                    continue
                if isinstance(ticket.work, Append):
                    # The same event handed over twice: the second must find the first's receipt.
                    size += ticket.work.size
                    if size > MAX_COMMIT_BYTES or not ids.isdisjoint(ticket.work.event_ids):
                        together = self._commit(together)
                        ids.clear()
                        size = ticket.work.size
                    together.append(ticket)
                    ids |= ticket.work.event_ids
                    # A validator must see what the batch before it did to the state.
                    if self._settings.validate is not None:
                        together = self._commit(together)
                else:
                    begun.append(ticket)
                    together = self._commit(together)
                    if self.failure is None:
                        self._catch_up()
                    self._command(ticket)
            self._commit(together)
        except BaseException as error:
            self._broken(error)
            self._stopped([ticket for ticket in tickets if not ticket.is_settled], begun)
            if not isinstance(error, Exception):
                raise

    def _stopped(self, left: Sequence[Ticket], begun: Sequence[Ticket]) -> None:
        """The handle has failed before these were answered; a close lets go all the same. Those of
        `begun` were claimed here, others may have been withdrawn."""
        assert self.failure is not None
        try:
            for ticket in left:
                if isinstance(ticket.work, Work) and (ticket in begun or ticket.claim()):
                    self._refused(ticket, self.failure)
        finally:
            settle_together([(ticket, None, self.failure) for ticket in left])

    def _command(self, ticket: Ticket) -> None:
        try:
            result = ticket.work()
        except OSError as error:
            settle_together([(ticket, None, self._system_error(error))])
        except Exception as error:
            # A seal whose sync failed ends the handle, and the others must be told.
            self.failure = self.failure or self._log.failure
            settle_together([(ticket, None, error)])
        else:
            settle_together([(ticket, result, None)])

    def _system_error(self, error: OSError) -> StorageError:
        wrapped = StorageError(
            f"{self._directory}: the system refused: {error}. Seq {self.place.seq} is the last "
            "event acknowledged.",
            path=self._directory,
            seq=self.place.seq,
            errno=error.errno,
        )
        wrapped.__cause__ = error
        return wrapped

    def _broken(self, error: BaseException) -> None:
        """Something unforeseen stopped a commit half way: what is on disk is proven by the next
        open, never by this handle (R11)."""
        if self.failure is None:
            seq, end = min(self.place.seq, self._answered), self._log.end.seq
            outcome = f" The outcome of seq {seq + 1} to {end} is unknown." if end > seq else ""
            self.failure = self._log.failure or SessionFailedError(
                f"{self._directory}: a commit was stopped by {error!r}. Seq {seq} is the last "
                f"event acknowledged.{outcome} Close the handle and open the session again.",
                path=self._directory,
                seq=seq,
                unknown=(seq + 1, end) if end > seq else None,
            )
            self.failure.__cause__ = error

    # -- a commit -------------------------------------------------------------------------

    def _commit(self, tickets: list[Ticket]) -> list[Ticket]:
        """Commit the tickets as one batch and settle all of them; returns the empty rest."""
        if self._settings.validate is not None or any([one.work.event_ids for one in tickets]):
            self._catch_up()
        admitted: list[Admitted] = []
        fresh: list[Prepared] = []
        taken: set[str] = set()
        ids, validate = self._live.event_ids, self._settings.validate
        for ticket in tickets:
            try:
                self.check_usable()
                items = admit(ticket.work, taken, ids, self._session_id, validate, self.state)
            except Exception as error:
                settle_together([(ticket, None, error)])
                continue
            admitted.append((ticket, items))
            fresh += [item for item in items if isinstance(item, Prepared)]
        if fresh:
            self._write(admitted, fresh)
        else:
            settle_together([(ticket, items, None) for ticket, items in admitted])
        return []

    def _write(self, admitted: list[Admitted], fresh: list[Prepared]) -> None:
        try:
            self._make_room()
            batch = encode_batch(fresh, self._log.place, self._now())
            self._log.write(b"".join(batch.lines), batch.places[-1], len(batch.lines))
        except DurasessError as error:
            # A handle that was fenced stays fenced, whatever the log itself thinks.
            self.failure = self.failure or self._log.failure
            settle_together([(ticket, None, error) for ticket, _ in admitted])
            return
        outcomes = receipts(admitted, batch.events, self._session_id)
        waiting = [found for found in outcomes if found[0].work.durable]
        if len(waiting) < len(outcomes):
            settle_together([found for found in outcomes if not found[0].work.durable])
        try:
            self._log.sync()
            is_published = self._outbox.publish(batch, waiting)
        except DurasessError as error:
            self.failure = error
            settle_together([(ticket, None, error) for ticket, _, _ in waiting])
            return
        if not self._turns.answers_at_end:
            self._answered = self._log.place.seq
        if is_published:
            self._snapshot_when_due()

    def _make_room(self) -> None:
        """Rotate when the segment is full, and have one: files first, meta last."""
        if self._log.is_active and (
            self._log.offset >= self._settings.segment_bytes
            or self._log.schema_version != self._fold.schema_version
        ):
            self._catch_up()
            self._log.seal()
        self.check_owner()
        if not self._log.is_active:
            self._log.start_segment(self._now())
        if not self._ledger.knows_newest_segment():
            self._ledger.publish(self.state, self.place)

    def _snapshot_when_due(self) -> None:
        if self._snapshots.is_due():
            try:
                self._catch_up()
                self.begin_snapshot()
            except (DurasessError, OSError) as error:
                self._snapshots.postpone()
                self._note(f"no snapshot at seq {self.place.seq}: {error}")

    # -- what else is done to the session -------------------------------------------------

    def look(self) -> bool:
        """Take over what other writers appended, without a turn; False when that takes one."""
        self.check_usable()
        try:
            return self._turns.look()
        except DurasessError as error:
            self.failure = error
            raise

    def begin_snapshot(self) -> SnapshotJob | None:
        """Start one, or the one under way, or None when nothing happened since the last."""
        if self.failure is not None or self._closed:
            self.check_usable()
        self.check_owner()
        try:
            return self._snapshots.begin(
                self.state, list(self._live.event_ids.values()), self.place
            )
        finally:
            self.failure = self.failure or self._log.failure

    def snapshot_at_close(self) -> SnapshotJob | None:
        """The last snapshot, unless the tail is small against the one there is."""
        if self._closed or self.failure is not None:
            return None
        return self.begin_snapshot() if self._snapshots.is_worth_it_at_close() else None

    def publish_summary(self) -> None:
        """Bring what lists show of this session up to date."""
        self.check_usable()
        self.check_owner()
        self._ledger.publish_if_changed(self.state, self.place)

    def rotate(self) -> None:
        """Seal the active segment, if there is one."""
        self.check_usable()
        self.check_owner()
        if self._log.is_active:
            self._log.seal()

    def prune(self, blobs: Blobs) -> prune.Pruned:
        """Delete the sealed segments that both snapshots cover; and blobs, if no writer shares."""
        self.check_usable()
        self.check_owner()
        if not self._snapshots.names_are_durable:
            raise StorageError(
                f"{self._directory}: the last snapshot could not be published, so nothing is "
                "pruned. Take a snapshot first.",
                path=self._directory,
            )
        unshared = blobs if self._turns.is_last() else None
        return prune.prune(self._disk, self._directory, apply=True, blobs=unshared, fold=self._fold)

    def check_usable(self) -> None:
        """Raise what ended this handle, if anything did."""
        if self._closed or self._closing:
            raise closed_error(self._directory)
        if self.failure is not None:
            raise self.failure

    def check_owner(self) -> None:
        """FencedError when `owner` is not the file that is locked here: somebody removed it, and
        another writer may have the session."""
        try:
            lock.check_named(self._disk, self._owner_path, self._owner_fd, self.place.seq)
        except FencedError as error:
            self.failure = error
            raise

    def _check_publish(self) -> None:
        """A handle that failed or was fenced publishes nothing any more."""
        if self.failure is not None:
            raise self.failure
        self.check_owner()

    # -- the end --------------------------------------------------------------------------

    def set_closing(self, closing: bool) -> None:
        """While a close waits for a snapshot, nothing more is taken; an interrupted close ends."""
        self._closing = closing

    def finish(self) -> Job | None:
        """Seal, tell meta, let go of everything; a failed handle only lets go.

        Does nothing and returns the snapshot under way when there is one: wait for it first.
        """
        job = self._snapshots.job
        if self._closed or job is not None:
            return job
        try:
            if self.failure is None:
                self.check_owner()
                if self._turns.is_last():
                    if self._log.is_active:
                        self._log.seal()
                    self._ledger.publish_if_changed(self.state, self.place)
                self._turns.tell(self.failure)
        finally:
            self.release()
        return None

    def give_up(self) -> Job | None:
        """Let go without sealing; the snapshot under way when there is one, as `finish` does."""
        job = self._snapshots.job
        if job is None:
            self.release()
        return job

    def lose(self) -> None:
        """Nobody has the handle any more: let go as soon as that is safe."""
        self._snapshots.abandon(self.release)

    def release(self, *, forked: bool = False) -> None:
        """Close every descriptor; in a `forked` process they are copies of its parent's."""
        if self._closed:
            return
        self._closed = True
        try:
            self._let_go(forked)
        except MemoryError:
            # It was short for a moment. Given up here, the session would stay locked.
            self._let_go(forked)

    def _let_go(self, forked: bool) -> None:
        if not forked:
            # In a child the lock of a queue may be held by a thread that is not there.
            self._live.feeds.wake()
        for close in (self._log.close, lambda: self._turns.release(forked=forked)):
            try:
                close()
            except OSError as error:
                self._note(f"a descriptor could not be closed: {error}")

    def _note(self, notice: str) -> None:
        if notice not in self.notices:
            _LOGGER.warning("%s: %s", self._directory, notice)
            self.notices = [*self.notices[-MAX_NOTICES + 1 :], notice]

    def _now(self) -> str:
        return codec.timestamp(self._settings.clock())


def closed_error(directory: str) -> SessionClosedError:
    """The handle was closed."""
    return SessionClosedError(
        f"{directory}: this handle is closed. Open the session again.", path=directory
    )
