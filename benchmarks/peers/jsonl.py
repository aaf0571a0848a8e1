"""Append-only JSON lines without a sync, all of them read when a session is opened: what most
coding agents do. Not durable: a power cut takes what the system had not written yet."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

from benchmarks.peers.peer import Events

LOG = "events.jsonl"


class JsonLines:
    """State: the list of events."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._path = directory / LOG
        self._lock = threading.Lock()
        self._events: list[Any] = self._read() if self._path.exists() else []
        self._log = open(self._path, "a", encoding="utf-8")

    def append(self, type: str, data: dict[str, Any]) -> None:
        """Write and flush to the system."""
        event = {"type": type, "data": data}
        with self._lock:
            self._log.write(json.dumps(event) + "\n")
            self._log.flush()
            self._events.append(event)

    def load(self, events: Events) -> None:
        """As `append`, one flush for all."""
        made = [{"type": type, "data": data} for type, data in events]
        self._log.write("".join(json.dumps(event) + "\n" for event in made))
        self._log.flush()
        self._events += made

    def count(self) -> int:
        """As the state says."""
        return len(self._events)

    def history(self) -> int:
        """Every line."""
        return len(self._read())

    def last(self, count: int) -> list[Any]:
        """The state holds all."""
        return self._events[-count:]

    def close(self) -> None:
        """Close the file."""
        self._log.close()

    def _read(self) -> list[Any]:
        with open(self._path, encoding="utf-8") as file:
            return [json.loads(line) for line in file]
