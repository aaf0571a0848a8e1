"""The live state of a handle: the fold of the log up to a place, and who is told of each event.

It moves on with events that are durable, this writer's own and those of others, and it is what a
recovery would find (P10). Touches no file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from durasess.engine import codec
from durasess.engine.admission import Batch
from durasess.engine.feeds import Feeds, Published
from durasess.engine.fold import Fold, migrated, remember
from durasess.engine.records import Place, Record
from durasess.engine.recovery import Recovered
from durasess.engine.types import Event, LineError
from durasess.errors import DurasessError, FormatVersionError, SessionFailedError


class Live:
    """`state` after `place`; `grew(events, size)` is called with what was added, `size` in bytes of
    their lines."""

    def __init__(self, found: Recovered, fold: Fold, grew: Callable[[int, int], None]) -> None:
        self._directory = found.claims.directory
        self._fold = fold
        self._grew = grew
        self.feeds = Feeds()
        self.state = found.state
        self.place = found.place
        self.event_ids = found.event_ids

    def publish(self, batch: Batch) -> None:
        """This writer's own batch, as it will be read back."""
        apply, state, done = self._fold.apply, self.state, 0
        try:
            for event in batch.events:
                returned = apply(state, event)
                if returned is not None:
                    state = returned
                done += 1
        except Exception as error:
            raise self._not_applied(event, error) from error
        finally:
            if done:
                self._moved_on(batch, state, done)

    def _moved_on(self, batch: Batch, state: Any, done: int) -> None:
        """`state` is that after the first `done` events of a batch."""
        self.state = state
        for line, event in zip(batch.lines[:done], batch.events, strict=False):
            if event.event_id is not None:
                remember(self.event_ids, line, event)
        self.place = batch.places[done - 1]
        self._grew(done, sum(map(len, batch.lines[:done])))
        if self.feeds.are_followed:
            version = self._fold.schema_version
            for line, place in zip(batch.lines[:done], batch.places, strict=False):
                self.feeds.offer(Published(place.seq, line[:-1], version))

    def take(self, batch: list[Record], version: int) -> None:
        """A batch of another writer, with events of schema version `version`."""
        if version > self._fold.schema_version:
            raise FormatVersionError(
                f"{self._directory}: another writer went on with schema version {version}, which "
                f"is newer than this program's {self._fold.schema_version}. Nothing more is "
                f"written here; seq {self.place.seq} is the last event in this state. Upgrade the "
                "program, then open again.",
                path=self._directory,
                seq=self.place.seq,
            )
        for record in batch:
            event = self._event(record, version)
            self._step(event, Place(record.seq, record.crc), len(record.line) + 1)
            self.feeds.offer(Published(record.seq, record.line, version))

    def _event(self, record: Record, version: int) -> Event:
        try:
            event = codec.event(record.line)
            remember(self.event_ids, record.line, event)
            if version < self._fold.schema_version:
                event = migrated(event, version, self._fold)
        except DurasessError:
            raise
        except LineError as error:
            raise self._unusable(record.seq, f"is no event: {error}") from error
        except Exception as error:
            what = f"is in the log, but the program's migration raised {error!r} for it"
            raise self._unusable(record.seq, what) from error
        return event

    def restart(self, found: Recovered) -> None:
        """Everything again, from what a new recovery found."""
        self.event_ids = found.event_ids
        self.state, self.place = found.state, found.place
        self.feeds.wake()

    def _step(self, event: Event, place: Place, size: int) -> None:
        try:
            self.state = self._fold.step(self.state, event)
        except Exception as error:
            raise self._not_applied(event, error) from error
        self.place = place
        self._grew(1, size)

    def _not_applied(self, event: Event, error: Exception) -> SessionFailedError:
        what = f"is in the log, but the program's apply raised {error!r} for it"
        return self._unusable(event.seq, what)

    def _unusable(self, seq: int, what: str) -> SessionFailedError:
        return SessionFailedError(
            f"{self._directory}: seq {seq} {what}. Correct the program, then open the session "
            "again.",
            path=self._directory,
            seq=seq,
        )
