"""The turns of a writer that shares its session: `lock` taken, what others wrote taken over, the
anchor written, `lock` given up. What a turn is stands in turns.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from durasess.engine import codec, files, lock, meta, paths, publishing, workers
from durasess.engine.aftermath import settle_found
from durasess.engine.ledger import Ledger
from durasess.engine.records import Place, Record
from durasess.engine.recovery import Recovered
from durasess.engine.shared_log import SharedLog
from durasess.engine.turns import anchor_of
from durasess.engine.types import LineError
from durasess.errors import (
    CorruptionError,
    DurasessError,
    FencedError,
    SessionFailedError,
    SessionNotFoundError,
)


class Together:
    """The turns of a writer that shares its session.

    `take(batch, version)` folds what another wrote into the writer's state; `restart(found)` makes
    what a new recovery found the writer's state; `recover(place)` recovers, and proves that the log
    still holds what was acknowledged here.
    """

    answers_at_end = True

    def __init__(
        self,
        disk: files.Files,
        directory: str,
        session_id: str,
        *,
        log: SharedLog,
        ledger: Ledger,
        lock_fd: int,
        owner_fd: int,
        worker: workers.Worker,
        take: Callable[[list[Record], int], None],
        moved_on: Callable[[meta.Baseline], None],
        restart: Callable[[Recovered], None],
        recover: Callable[[Place], Recovered],
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._session_id = session_id
        self._log = log
        self._ledger = ledger
        self._lock_fd = lock_fd
        self._lock_path = paths.join(directory, paths.LOCK)
        self._owner_fd = owner_fd
        self._owner_path = paths.join(directory, paths.OWNER)
        self._worker = worker
        self._held = [lock_fd, owner_fd, worker.fd]
        self._take = take
        self._moved_on = moved_on
        self._restart = restart
        self._recover = recover
        self._is_turn = False

    def begin(self) -> None:
        """Wait for `lock`, in the kernel and for as long as it takes; read what others wrote; say
        that a turn has begun.

        Raises FencedError when the log is no longer the one this writer knows, FormatVersionError
        when another program took it to a newer schema, StorageError when the system refuses.
        """
        lock.locked(self._disk, self._lock_fd, self._lock_path, wait=True)
        self._is_turn = True
        try:
            self._check_names()
            anchor = lock.anchor_in(self._disk, self._lock_fd, self._session_id)
            if not self._has_caught_up(anchor):
                self._start_again(anchor)
            self._write_anchor(lock.COMMIT)
        except BaseException:
            self._unlock()
            raise

    def _unlock(self) -> None:
        self._is_turn = False
        try:
            self._disk.unlock(self._lock_fd)
        except OSError as error:
            raise SessionFailedError(
                f"{self._lock_path} could not be unlocked: {error}. No other writer gets a turn "
                "until this handle is closed; close it and open the session again.",
                path=self._lock_path,
                seq=self._log.place.seq,
            ) from error

    def end(self, failure: DurasessError | None) -> None:
        """Say where the log ended, and let others in."""
        try:
            self.tell(failure)
        finally:
            self._unlock()

    def keep(self) -> bool:
        """With the mark of a turn: who dies now leaves something to settle."""
        try:
            self._write_anchor(lock.COMMIT)
        except OSError:
            return False
        return True

    def tell(self, failure: DurasessError | None) -> None:
        """After a failure the anchor goes on to say that a turn was begun and not ended."""
        if not self._is_turn:
            # The anchor is somebody else's now.
            return
        try:
            if failure is None:
                self._write_anchor(lock.IDLE)
            elif self._log.failure is not None:
                self._write_anchor(lock.FAILED)
        except OSError:
            # As after a failure: the next writer settles the log.
            return

    def acknowledged(self) -> None:
        """The end of the turn says it."""

    def look(self) -> bool:
        """Only what the anchor says was acknowledged is looked for: what is being written may be
        withdrawn."""
        anchor = lock.anchor_in(self._disk, self._lock_fd, self._session_id)
        if anchor is None or not self._disk.leads_to(self._lock_path, self._lock_fd):
            return False
        if anchor.seq <= self._log.read.seq:
            return True
        # Whatever stops it, the next turn sees it again, and then nobody is writing.
        return (
            self._is_in_place() and self._read_on(anchor.seq) and self._log.place.seq >= anchor.seq
        )

    def unread(self) -> Iterable[tuple[int, list[Record]]]:
        """Others' batches, and this writer's own between them."""
        return () if self._log.is_read else self._log.passed_batches()

    def is_last(self) -> bool:
        """In a turn nobody joins or leaves."""
        return not workers.others(self._disk, self._directory, but=self._worker.worker_id)

    def release(self, *, forked: bool = False) -> None:
        """`lock` last: who gets it next must not find `owner` taken by a writer that has ended."""
        if not forked:
            workers.discard(self._disk, self._directory, self._worker)
        publishing.close_each(self._disk, self._held)

    def _check_names(self) -> None:
        """Before anything is done to the log: whoever locks another file may be writing."""
        seq = self._log.place.seq
        lock.check_named(self._disk, self._lock_path, self._lock_fd, seq)
        lock.check_named(self._disk, self._owner_path, self._owner_fd, seq)

    def _is_in_place(self) -> bool:
        return not self._log.is_active or self._log.is_in_place()

    def _has_caught_up(self, anchor: lock.Anchor | None) -> bool:
        """Whether the log goes on from what is known here up to where the anchor says it ended, and
        nobody died in a turn."""
        if anchor is None or anchor.phase != lock.IDLE:
            return False
        if not self._log.jump(anchor):
            if not self._is_in_place() or not self._read_on(None):
                return False
            place = self._log.place
            if (anchor.seq, anchor.chain) != (place.seq, codec.hexed(place.chain)):
                return False
        return self._log.ends_as_told(anchor.size)

    def _read_on(self, through: int | None) -> bool:
        """Whether what the others wrote could be read from here on."""
        number = self._log.number
        try:
            for version, batch in self._log.new_batches(through):
                self._take(batch, version)
        except (LineError, FileNotFoundError):
            return False
        if number != self._log.number:
            self._ledger.refresh()
            self._moved_on(self._ledger.baseline)
        return True

    def _start_again(self, anchor: lock.Anchor | None) -> None:
        """Recover as an open does. A log that a turn left unfinished is settled first (R12): after
        a failed sync the cache shows what the disk may lack."""
        before = self._log.place
        try:
            found = self._recover(before)
        except (CorruptionError, SessionNotFoundError) as error:
            raise FencedError(
                f"{self._directory}: the log no longer goes on from seq {before.seq}, which was "
                f"the last event known here: {error}{_first_finding(error)} Nothing more is "
                "written here; close this handle and open the session again.",
                path=error.path,
                offset=error.offset,
                seq=before.seq,
            ) from error
        if anchor is None or anchor.phase != lock.IDLE or found.report.torn is not None:
            settle_found(self._disk, found)
            scan = None
        else:
            # A turn that ended says that what it sealed is synced.
            scan = found.unsealed if found.unsealed and found.unsealed.seal is None else None
        self._log.go_on(scan, found.place, found.next_segment, found.epoch)
        self._ledger.refresh()
        self._restart(found)

    def _write_anchor(self, phase: str) -> None:
        lock.write_anchor(self._disk, self._lock_fd, anchor_of(self._session_id, self._log, phase))


def _first_finding(error: DurasessError) -> str:
    """What is wrong with the log itself, when the message is about where it ends."""
    damage = getattr(getattr(error, "report", None), "damage", None)
    return f" The first finding: {damage[0]}." if damage else ""
