"""eventsourcing on SQLite: a session is an aggregate, with or without its snapshots."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

from eventsourcing.application import AggregateNotFoundError, Application
from eventsourcing.domain import Aggregate, event

from benchmarks.peers.peer import Events

SESSION = UUID(int=1)


class Recorded(Aggregate):
    """At the top of the module, since stored events name their class by it."""

    @event("Begun")
    def __init__(self) -> None:
        self.events = 0
        self.recent: list[Any] = []

    @event("Recorded")
    def record(self, type: str, data: dict[str, Any]) -> None:
        """Count, and keep the newest twenty."""
        self.events += 1
        self.recent = [*self.recent[-19:], [type, data]]

    @staticmethod
    def create_id() -> UUID:
        """There is one session in each database."""
        return SESSION


class Recording(Application[UUID]):
    """One session of the library's own application."""


class Eventsourced:
    """State: the aggregate, which keeps a count and the newest twenty events."""

    def __init__(self, directory: Path, *, snapshots: int = 0) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        environment = {
            "PERSISTENCE_MODULE": "eventsourcing.sqlite",
            "SQLITE_DBNAME": str(directory / "events.sqlite"),
            "IS_SNAPSHOTTING_ENABLED": "y" if snapshots else "n",
        }
        self._app = Recording(env=environment)
        try:
            self._session = self._app.repository.get(SESSION)
        except AggregateNotFoundError:
            self._session = Recorded()
        self._every = snapshots

    def append(self, type: str, data: dict[str, Any]) -> None:
        """One event of the aggregate, saved; a snapshot when it is due."""
        self._session.record(type, data)
        self._app.save(self._session)
        if self._every and self._session.version % self._every == 0:
            self._app.take_snapshot(SESSION)

    def load(self, events: Events) -> None:
        """All events in one save."""
        for type, data in events:
            self._session.record(type, data)
        self._app.save(self._session)
        if self._every:
            self._app.take_snapshot(SESSION)

    def count(self) -> int:
        """As the aggregate says."""
        return int(self._session.events)

    def history(self) -> int:
        """Every stored event of the aggregate; the first one made it."""
        return len(list(self._app.events.get(SESSION))) - 1

    def last(self, count: int) -> list[Any]:
        """By its own limit."""
        return list(self._app.events.get(SESSION, desc=True, limit=count))

    def close(self) -> None:
        """Close the database."""
        self._app.close()
