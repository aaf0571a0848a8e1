"""LangGraph's SqliteSaver: a checkpoint of the whole state after each step."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from benchmarks.peers.peer import Events


class LanggraphSaver:
    """State: the list of messages in one channel, as graphs of agents keep it."""

    def __init__(self, directory: Path) -> None:
        from langgraph.checkpoint.sqlite import SqliteSaver

        directory.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(directory / "checkpoints.sqlite", check_same_thread=False)
        self._saver = SqliteSaver(self._db)
        self._config: Any = {"configurable": {"thread_id": "session", "checkpoint_ns": ""}}
        found = self._saver.get_tuple(self._config)
        values = found.checkpoint["channel_values"] if found else {}
        self._messages: list[Any] = values.get("messages", [])

    def append(self, type: str, data: dict[str, Any]) -> None:
        """One message, one checkpoint."""
        from langgraph.checkpoint.base import empty_checkpoint

        self._messages.append({"type": type, "data": data})
        step = len(self._messages)
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {"messages": self._messages}
        checkpoint["channel_versions"] = {"messages": step}
        metadata: Any = {"source": "loop", "step": step, "parents": {}}
        self._config = self._saver.put(self._config, checkpoint, metadata, {"messages": step})

    def load(self, events: Events) -> None:
        """There is no faster way."""
        for type, data in events:
            self.append(type, data)

    def count(self) -> int:
        """As the newest checkpoint says."""
        return len(self._messages)

    def history(self) -> int:
        """The newest checkpoint has all."""
        found = self._saver.get_tuple(self._config)
        return len(found.checkpoint["channel_values"]["messages"]) if found else 0

    def last(self, count: int) -> list[Any]:
        """The state holds all."""
        return self._messages[-count:]

    def close(self) -> None:
        """Close the database."""
        self._db.close()
