"""openai-agents: its SQLiteSession, an item for each event."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from benchmarks.peers.peer import Events


class AgentsSession:
    """Coroutines that work in threads; callers without a loop share one of this handle's own."""

    def __init__(self, directory: Path, *, newest: int = 0) -> None:
        from agents.memory.sqlite_session import SQLiteSession

        directory.mkdir(parents=True, exist_ok=True)
        self._loop = asyncio.new_event_loop()
        self._session = SQLiteSession("session", directory / "agents.sqlite")
        self._items = self._get(newest or None)

    def append(self, type: str, data: dict[str, Any]) -> None:
        """One item."""
        self._loop.run_until_complete(self.append_async(type, data))

    async def append_async(self, type: str, data: dict[str, Any]) -> None:
        """One item."""
        await self._session.add_items([_item(type, data)])

    def load(self, events: Events) -> None:
        """All items in one call."""
        items = [_item(type, data) for type, data in events]
        self._loop.run_until_complete(self._session.add_items(items))

    def count(self) -> int:
        """Asked for again."""
        return self.history()

    def history(self) -> int:
        """Every item."""
        return len(self._get(None))

    def last(self, count: int) -> list[Any]:
        """By its own limit."""
        return self._get(count)

    def close(self) -> None:
        """Close it and the loop."""
        self._session.close()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def _get(self, limit: int | None) -> list[Any]:
        return list(self._loop.run_until_complete(self._session.get_items(limit)))


def _item(type: str, data: dict[str, Any]) -> Any:
    return {"type": type, "data": data}
