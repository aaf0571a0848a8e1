"""An open session as it is seen: its state, its events, what others append. Changes nothing.

What a caller changes is in engine.py; how a handle lives and ends is in handle.py.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import msgspec

from durasess.engine import history, segment, survey, workers
from durasess.engine.blobs import Blobs
from durasess.engine.feeds import Feed
from durasess.engine.fold import event_of
from durasess.engine.handle import Handle
from durasess.engine.opening import Options, open_for_reading
from durasess.engine.recovery import Recovered
from durasess.engine.tickets import Work
from durasess.engine.types import Damage, Event, Holder
from durasess.engine.walk import EVERYTHING
from durasess.engine.writer import Writer
from durasess.errors import SessionClosedError, StorageError


class EngineView(Handle):
    """What can be seen of an open session, the same for a reader and for a writer."""

    def __init__(self, options: Options, found: Recovered, writer: Writer | None) -> None:
        super().__init__(options, found, writer)
        self._blobs = Blobs(options.disk, options.directory, options.token)
        self._damage: list[Damage] = []

    @property
    def state(self) -> Any:
        """The state after `last_seq`."""
        return self._found.state if self._writer is None else self._writer.state

    @property
    def last_seq(self) -> int:
        """The seq of the newest event that is acknowledged (mode "read": that was readable)."""
        return self._found.place.seq if self._writer is None else self._writer.place.seq

    @property
    def worker_id(self) -> str:
        """This writer's name among those that share the session; empty when it is alone."""
        return self._writer.worker_id if self._writer is not None else ""

    def live_workers(self) -> dict[str, Holder | None]:
        """The writers that share the session now, by worker id, this one among them; the kernel
        says who is alive. Raises StorageError when that cannot be told."""
        try:
            found = workers.others(self._options.disk, self.path)
        except OSError as error:
            raise StorageError(
                f"{self.path}: who else works here cannot be told: {error}.",
                path=self.path,
                errno=error.errno,
            ) from error
        return {seen.worker_id: seen.holder for seen in found}

    @property
    def first_seq(self) -> int:
        """The seq of the oldest event that is left; later than 1 after a prune."""
        number = max(self._newest_segment(), 1)
        try:
            lowest = segment.lowest(self._options.disk, self.path, number)
            found = segment.first_seq_of(self._options.disk, self.path, lowest)
        except OSError as error:
            raise survey.unreadable(self.path, error) from error
        return found or self.last_seq + 1

    @property
    def damage(self) -> tuple[Damage, ...]:
        """What opening and `events` found damaged, in the order it was found."""
        return (*self.recovery.damage, *self._damage)

    @property
    def notices(self) -> tuple[str, ...]:
        """What went wrong without costing an event: at opening, with snapshots and blobs since."""
        later = self._writer.notices if self._writer is not None else []
        return (*self.recovery.notices, *later, *self._blobs.notices)

    def events(self, after: int = 0) -> Iterator[Event]:
        """The events with seq > `after`, up to what is acknowledged now, from disk, in order.

        Raises CorruptionError at damage; in mode "read" goes on behind it instead, with `proven`
        False on the first event behind a gap, and `damage` says what was passed. ValueError when
        the events after `after` were pruned.
        """
        reading = self._writer is None
        damaged = reading and self.recovery.damage
        end = self._found.place if self._writer is None else self._writer.place
        through = EVERYTHING if damaged else end.seq
        highest = max(self._found.claims.highest, self._newest_segment())
        return history.events(
            self._options.disk,
            msgspec.structs.replace(self._found.claims, highest=highest),
            self._options.fold,
            after=after,
            through=through,
            on_damage=self._note_damage if reading else None,
            end=None if damaged else end,
        )

    def refresh(self) -> int:
        """Take over what others appended (modes "shared" and "read"); returns `last_seq`.

        An append does this too. Raises what ends the handle: FencedError, FormatVersionError.
        """
        if self._writer is None:
            self._found = open_for_reading(self._options)
            self.recovery = self._found.report
            return self.last_seq
        writer = self._usable_writer()
        if not self._hand_over(Work(writer.look, needs_turn=False)):
            # With a turn: that begins with what others wrote.
            self._hand_over(writer.check_usable)
        return self.last_seq

    def follow(
        self,
        after: int | None = None,
        *,
        interval: float = 0.1,
        stop: threading.Event | None = None,
    ) -> Iterator[Event]:
        """The events after seq `after` (default: the newest), then each that is appended later by
        anybody, once it is durable; ends when the handle is closed or `stop` is set.

        What others append is looked for every `interval` seconds. A slow consumer misses nothing
        and delays nobody: it reads from disk what it could not take at once.
        """
        if self._options.mode != "own":
            self.refresh()
        seq = self.last_seq if after is None else after
        feed = self._writer.feeds.open() if self._writer is not None else Feed()
        try:
            yield from self._follow(feed, seq, interval, stop or threading.Event())
        finally:
            if self._writer is not None:
                self._writer.feeds.close(feed)

    def read_blob(self, hash: str) -> bytes:
        """The bytes of a blob, proven by the hash that `put_blob` returned for them.

        Raises CorruptionError when it is missing or has other bytes, StorageError when the system
        cannot read it, ValueError when `hash` is not what `put_blob` returns.
        """
        return self._blobs.read(hash)

    def _follow(
        self, feed: Feed, seq: int, interval: float, stop: threading.Event
    ) -> Iterator[Event]:
        while True:
            for event in self.events(after=seq):
                seq = event.seq
                yield event
            while seq >= self.last_seq:
                if self._closed or stop.is_set() or self._is_released:
                    return
                for published in feed.take(interval):
                    if published.seq == seq + 1:
                        seq = published.seq
                        yield event_of(published.line, published.version, self._options.fold)
                if not self._closed and self._options.mode != "own":
                    # Closed meanwhile: what was durable until then is still to come.
                    with contextlib.suppress(SessionClosedError):
                        self.refresh()

    @property
    def _is_released(self) -> bool:
        """Whether a close has come so far that nothing can arrive any more."""
        return self._writer is not None and self._writer.is_released

    def _newest_segment(self) -> int:
        return self._found.next_segment - 1 if self._writer is None else self._writer.newest_segment

    def _note_damage(self, damage: Damage) -> None:
        if damage not in self.damage:
            self._damage.append(damage)
