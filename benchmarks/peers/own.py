"""durasess as a contender, with its defaults; left as by a kill, or closed."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from benchmarks.peers.peer import Events
from benchmarks.workload import open_engine
from durasess import Engine

BATCH = 250
"""Events in one batch of a load."""


class Own:
    """An engine with a small bounded state."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.engine: Engine = open_engine(directory / "session")
        self.append_async = self.engine.append_async

    def append(self, type: str, data: dict[str, Any]) -> None:
        """Durable."""
        self.engine.append(type, data)

    def load(self, events: Events) -> None:
        """In batches."""
        following = iter(events)
        while batch := list(itertools.islice(following, BATCH)):
            self.engine.append_many(batch)

    def count(self) -> int:
        """As the state says."""
        return int(self.engine.state["events"])

    def history(self) -> int:
        """Every event, checked and decoded."""
        return len(list(self.engine.events()))

    def last(self, count: int) -> list[Any]:
        """Read from the log, not from the state."""
        return list(self.engine.events(after=max(0, self.engine.last_seq - count)))

    def close(self) -> None:
        """Nothing is sealed, no last snapshot is made."""
        self.engine.flush()
        self.engine.abandon()


class OwnClosed(Own):
    """The same, closed as a program does that ends by itself."""

    def close(self) -> None:
        """Sealed, with a last snapshot when it pays."""
        self.engine.close()
