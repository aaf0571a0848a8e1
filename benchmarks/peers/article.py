"""The engine that articles on the subject write: a JSON snapshot beside a log of JSON lines.

Each event is a line with an fsync; every ten rounds (a user's request to its answer) the whole
state is written again as indented JSON. It recovers from the snapshot and the lines behind it.
Kinder than most: the snapshot remembers where the log was, so that nothing is read twice.
"""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

from benchmarks.peers.peer import Events

ROUNDS_BETWEEN_SNAPSHOTS = 10
LOG = "events.jsonl"
SNAPSHOT = "snapshot.json"


class Article:
    """State: every message, what became of each call, the sum of usage."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._lock = threading.Lock()
        self._rounds = 0
        self.state: dict[str, Any] = {"seq": 0, "messages": [], "calls": {}, "usage": 0}
        self.snapshots = 0
        self._is_loaded = False
        self._recover()
        self._log = open(directory / LOG, "a", encoding="utf-8")

    def append(self, type: str, data: dict[str, Any]) -> None:
        """Write the line, fsync, fold; a snapshot when it is due."""
        with self._lock:
            self._write(type, data)
            self._log.flush()
            os.fsync(self._log.fileno())
            self._fold(type, data)
            if type == "run_finished":
                self._rounds += 1
                if self._rounds % ROUNDS_BETWEEN_SNAPSHOTS == 0:
                    self.snapshot()

    def load(self, events: Events) -> None:
        """Write and fold all; the snapshot comes with the close."""
        for type, data in events:
            self._write(type, data)
            self._fold(type, data)
        self._is_loaded = True

    def snapshot(self) -> None:
        """The whole state, indented, to a temporary file, synced and renamed."""
        self._log.flush()
        document = {"log_bytes": os.fstat(self._log.fileno()).st_size, "state": self.state}
        path = self._directory / SNAPSHOT
        with open(f"{path}.tmp", "w", encoding="utf-8") as file:
            json.dump(document, file, indent=2)
            file.flush()
            os.fsync(file.fileno())
        os.replace(f"{path}.tmp", path)
        self.snapshots += 1

    def count(self) -> int:
        """As the state says."""
        return int(self.state["seq"])

    def history(self) -> int:
        """Every line of the log."""
        with open(self._directory / LOG, encoding="utf-8") as file:
            return len([json.loads(line) for line in file])

    def last(self, count: int) -> list[Any]:
        """The state holds all messages."""
        return list(self.state["messages"][-count:])

    def close(self) -> None:
        """Close the log; after a `load` with the snapshot that it would have."""
        if self._is_loaded:
            self.snapshot()
        self._log.close()

    def _recover(self) -> None:
        read_from = 0
        if (self._directory / SNAPSHOT).exists():
            with open(self._directory / SNAPSHOT, encoding="utf-8") as file:
                document = json.load(file)
            self.state, read_from = document["state"], document["log_bytes"]
        if (self._directory / LOG).exists():
            with open(self._directory / LOG, "rb") as log:
                log.seek(read_from)
                for line in log:
                    event = json.loads(line)
                    self._fold(event["type"], event["data"])

    def _write(self, type: str, data: dict[str, Any]) -> None:
        event = {"seq": self.state["seq"] + 1, "type": type, "data": data}
        self._log.write(json.dumps(event) + "\n")

    def _fold(self, type: str, data: dict[str, Any]) -> None:
        self.state["seq"] += 1
        if type in ("user_message", "assistant_message", "tool_result"):
            self.state["messages"].append({"type": type, **data})
        if type in ("tool_started", "tool_result"):
            self.state["calls"][data["call_id"]] = data.get("status", "running")
        self.state["usage"] += data.get("usage", {}).get("completion_tokens", 0)
