"""When a writer may write: always, or in turns with others that share the session.

A turn is the time in which a writer holds `lock`. It begins with what the others wrote since, so
that seq, chain and state go on from there, and it ends when the last sync returned: over all
writers at most one write is in flight (R2), and the log has one order (P5). What the next holder
must know of this one is in the anchor: where the log ended, and whether a turn was begun and not
ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from durasess.engine import codec, files, lock, paths, publishing
from durasess.engine.log import Log
from durasess.engine.records import Record
from durasess.errors import DurasessError


class Turns(Protocol):
    """How a writer gets its turn."""

    def begin(self) -> None:
        """Nobody else writes from here on, and what the others wrote is taken over."""

    def end(self, failure: DurasessError | None) -> None:
        """Others may write."""

    def keep(self) -> bool:
        """Tell others how far the log is acknowledged, and keep the turn; False when that cannot be
        told."""

    answers_at_end: bool
    """Whether others write too: a turn is begun and ended, and callers are answered only when it
    has told the others, at its end or where it is kept."""

    def acknowledged(self) -> None:
        """A batch is about to be answered: the anchor may say so."""

    def look(self) -> bool:
        """Take over what others wrote and were acknowledged, without a turn; False when that takes
        a turn."""

    def unread(self) -> Iterable[tuple[int, list[Record]]]:
        """What is in the log before the place that was reached and not in the state: batches, with
        their schema version. LineError when the log does not lead there."""

    def is_last(self) -> bool:
        """Whether no other writer has the session, so that this one may seal it."""

    def tell(self, failure: DurasessError | None) -> None:
        """Say where the log ended, or that it must be settled."""

    def release(self, *, forked: bool = False) -> None:
        """Close every descriptor; a `forked` process has copies of them only, and nothing else of
        the session is its own."""


class Alone:
    """The turns of a writer that owns its session: every moment is its turn."""

    answers_at_end = False

    def __init__(
        self,
        disk: files.Files,
        session_id: str,
        log: Log,
        lock_fd: int,
        owner_fd: int,
        note: Callable[[str], None],
    ) -> None:
        self._disk = disk
        self._session_id = session_id
        self._log = log
        self._lock_fd = lock_fd
        self._held = [owner_fd, lock_fd]
        self._note = note
        self._anchor_width = lock.ANCHOR_BYTES

    def begin(self) -> None:
        """It is."""

    def end(self, failure: DurasessError | None) -> None:
        """It goes on."""

    def keep(self) -> bool:
        """It is kept in any case."""
        return True

    def acknowledged(self) -> None:
        """Say that everything up to here was acknowledged. Without a sync: see lock.Anchor."""
        anchor = anchor_of(self._session_id, self._log)
        # Nobody else writes there, so only the one before has to be covered.
        width, self._anchor_width = self._anchor_width, lock.ANCHOR_BYTES
        try:
            self._anchor_width = lock.write_anchor(self._disk, self._lock_fd, anchor, width=width)
        except OSError as error:
            # An older anchor claims less and is as true; the events themselves are durable.
            self._note(f"the anchor in {paths.LOCK} could not be written: {error}")

    def look(self) -> bool:
        """Nobody else writes."""
        return True

    def unread(self) -> Iterable[tuple[int, list[Record]]]:
        """Nothing."""
        return ()

    def is_last(self) -> bool:
        """Always."""
        return True

    def tell(self, failure: DurasessError | None) -> None:
        """There is nobody to tell."""

    def release(self, *, forked: bool = False) -> None:
        """The owner's descriptor last: that is what lets others in."""
        publishing.close_each(self._disk, self._held)


def anchor_of(session_id: str, log: Log, phase: str = lock.IDLE) -> lock.Anchor:
    """Where this log ends, for `lock`."""
    offset, size = (log.offset, log.size) if log.is_active else (0, 0)
    place = log.place
    return lock.Anchor(
        session_id, log.number, place.seq, codec.hexed(place.chain), phase, offset, size
    )
