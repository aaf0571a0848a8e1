"""The one place that changes a session while a handle is open: commits, rotation, close.

Its methods run in the committer, one at a time. A commit is: admit (validate, event ids) → encode
→ write → sync → the path still names this file → fold → publish the new state → anchor →
acknowledge. What is published is only what is durable.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from durasess.engine import codec, files, paths, prune
from durasess.engine.admission import (
    Admitted,
    Append,
    Batch,
    Prepared,
    admit,
    encode_batch,
    receipts,
)
from durasess.engine.assembly import assemble
from durasess.engine.commit import Scheduler, Ticket, settle_together
from durasess.engine.fold import Fold, remember
from durasess.engine.recovery import Recovered
from durasess.engine.snapshotter import SnapshotJob
from durasess.engine.types import Holder, Settings
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
        *,
        owner_fd: int,
        anchor_fd: int,
        holder: Holder,
    ) -> None:
        self._disk = disk
        self._directory = found.claims.directory
        self._session_id = found.claims.session_id
        self._fold = fold
        self._settings = settings
        self._owner_fd = owner_fd
        self._owner_path = paths.join(found.claims.directory, paths.OWNER)
        self._event_ids = found.event_ids
        self._closed = False
        self._closing = False
        self.state = found.state
        self.place = found.place
        self.failure: DurasessError | None = None
        self.notices: list[str] = []
        self._log, self._ledger, self._snapshots = assemble(
            disk,
            found,
            fold,
            settings,
            scheduler,
            holder,
            anchor_fd=anchor_fd,
            now=self._now,
            note=self._note,
            check=self.check_owner,
        )

    def run(self, tickets: Sequence[Ticket]) -> None:
        """Do the work of these tickets, in order; appends that stand together share a batch."""
        together: list[Ticket] = []
        ids: set[str] = set()
        size = 0
        try:
            for ticket in tickets:
                if not ticket.claim():
                    continue
                if isinstance(ticket.work, Append):
                    # The same event handed over twice: the second must find the first's receipt.
                    size += ticket.work.size()
                    if size > MAX_COMMIT_BYTES or not ids.isdisjoint(ticket.work.event_ids()):
                        together = self._commit(together)
                        ids.clear()
                        size = ticket.work.size()
                    together.append(ticket)
                    ids |= ticket.work.event_ids()
                    # A validator must see what the batch before it did to the state.
                    if self._settings.validate is not None:
                        together = self._commit(together)
                else:
                    together = self._commit(together)
                    self._command(ticket)
            self._commit(together)
        except BaseException as error:
            self._broken(error)
            refusals = [ticket for ticket in tickets if not ticket.is_settled]
            settle_together([(ticket, None, self.failure) for ticket in refusals])
            if not isinstance(error, Exception):
                raise

    def _command(self, ticket: Ticket) -> None:
        try:
            result = ticket.work()
        except OSError as error:
            settle_together([(ticket, None, self._system_error(error))])
        except Exception as error:
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
            self.failure = self._log.failure or SessionFailedError(
                f"{self._directory}: a commit was stopped by {error!r}. Seq {self.place.seq} is "
                "the last event acknowledged. Close the handle and open the session again.",
                path=self._directory,
                seq=self.place.seq,
            )
            self.failure.__cause__ = error

    def _commit(self, tickets: list[Ticket]) -> list[Ticket]:
        """Commit the tickets as one batch and settle all of them; returns the empty rest."""
        admitted: list[Admitted] = []
        fresh: list[Prepared] = []
        for ticket in tickets:
            try:
                self.check_usable()
                items = admit(
                    ticket.work,
                    fresh,
                    self._event_ids,
                    self._session_id,
                    self._settings.validate,
                    self.state,
                )
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
        settle_together([found for found in outcomes if not found[0].work.durable])
        waiting = [found for found in outcomes if found[0].work.durable]
        try:
            self._log.sync()
            self._publish(batch)
            self._ledger.write_anchor(self.place)
        except DurasessError as error:
            self.failure = error
            settle_together([(ticket, None, error) for ticket, _, _ in waiting])
            return
        settle_together(waiting)
        self._snapshot_when_due()

    def _make_room(self) -> None:
        """Rotate when the segment is full, and have one: files first, meta last."""
        if self._log.is_active and self._log.offset >= self._settings.segment_bytes:
            self._log.seal()
        self.check_owner()
        if not self._log.is_active:
            self._log.start_segment(self._now())
        if not self._ledger.knows_newest_segment():
            self._ledger.publish(self.state, self.place)

    def _publish(self, batch: Batch) -> None:
        """Fold what was written, as it will be read back (P10), and make it visible."""
        for line, event, place in zip(batch.lines, batch.events, batch.places, strict=True):
            remember(self._event_ids, line, event)
            try:
                self.state = self._fold.step(self.state, event)
            except Exception as error:
                raise SessionFailedError(
                    f"{self._directory}: seq {event.seq} is in the log, but the program's apply "
                    f"raised {error!r} for it. Correct the program, then open the session again.",
                    path=self._directory,
                    seq=event.seq,
                ) from error
            self.place = place
            self._snapshots.tail_events += 1
            self._snapshots.tail_bytes += len(line)

    def _snapshot_when_due(self) -> None:
        if self._snapshots.is_due():
            try:
                self.begin_snapshot()
            except DurasessError as error:
                self._snapshots.postpone()
                self._note(f"no snapshot at seq {self.place.seq}: {error}")

    def begin_snapshot(self) -> SnapshotJob | None:
        """Start one, or the one under way, or None when nothing happened since the last."""
        if self.failure is not None or self._closed:
            self.check_usable()
        self.check_owner()
        try:
            return self._snapshots.begin(self.state, list(self._event_ids.values()), self.place)
        finally:
            self.failure = self.failure or self._log.failure

    def snapshot_at_close(self) -> SnapshotJob | None:
        """The last snapshot, unless the tail is small against the one there is."""
        if self._closed or self.failure is not None:
            return None
        return self.begin_snapshot() if self._snapshots.is_worth_it_at_close() else None

    @property
    def snapshot_seq(self) -> int:
        """The seq that the newest snapshot is of."""
        return self._snapshots.seq

    @property
    def newest_segment(self) -> int:
        """The number of the newest segment, 0 before the first."""
        return self._log.number

    def rotate(self) -> None:
        """Seal the active segment, if there is one."""
        self.check_usable()
        self.check_owner()
        if self._log.is_active:
            self._log.seal()

    def prune(self) -> prune.Pruned:
        """Delete the sealed segments that both snapshots cover."""
        self.check_usable()
        self.check_owner()
        if not self._snapshots.names_are_durable:
            raise StorageError(
                f"{self._directory}: the last snapshot could not be published, so nothing is "
                "pruned. Take a snapshot first.",
                path=self._directory,
            )
        return prune.prune(self._disk, self._directory, apply=True)

    def check_usable(self) -> None:
        """Raise what ended this handle, if anything did."""
        if self._closed or self._closing:
            raise closed_error(self._directory)
        if self.failure is not None:
            raise self.failure

    @property
    def is_released(self) -> bool:
        """Whether every descriptor is given back."""
        return self._closed

    def set_closing(self, closing: bool) -> None:
        """While a close waits for a snapshot, nothing more is taken; an interrupted close ends."""
        self._closing = closing

    def check_owner(self) -> None:
        """FencedError when `owner` is not the file that is locked here: somebody removed it, and
        another writer may have the session."""
        path = self._owner_path
        if self._disk.leads_to(path, self._owner_fd):
            return
        self.failure = FencedError(
            f"{path} was removed or replaced, so another writer may have the session. Nothing "
            f"more is written here; seq {self.place.seq} was the last event acknowledged.",
            path=path,
            seq=self.place.seq,
        )
        raise self.failure

    def finish(self) -> SnapshotJob | None:
        """Seal, tell meta, let go of everything; a failed handle only lets go.

        Does nothing and returns the snapshot under way when there is one: wait for it first.
        """
        if self._closed or self._snapshots.job is not None:
            return self._snapshots.job
        try:
            if self.failure is None:
                self.check_owner()
                if self._log.is_active:
                    self._log.seal()
                self._ledger.publish_if_changed(self.state, self.place)
        finally:
            self.release()
        return None

    def give_up(self) -> SnapshotJob | None:
        """Let go without sealing; the snapshot under way when there is one, as `finish` does."""
        if self._snapshots.job is None:
            self.release()
        return self._snapshots.job

    def lose(self) -> None:
        """Nobody has the handle any more: let go as soon as that is safe."""
        self._snapshots.abandon(self.release)

    def release(self) -> None:
        """Close every descriptor, the owner's last: that is what lets others in."""
        if self._closed:
            return
        self._closed = True
        for close in (
            self._log.close,
            self._ledger.close,
            lambda: self._disk.close(self._owner_fd),
        ):
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
