"""Events as rows of the standard library's sqlite3 in WAL mode, in four ways: synchronous FULL and
NORMAL over one connection, a connection for each thread, and commits batched by one writer."""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.peers.peer import Events

NAME = "events.sqlite"
BUSY_S = 60.0
INSERT = "INSERT INTO events(type, data) VALUES (?, ?)"


def connect(path: Path, *, synchronous: str) -> sqlite3.Connection:
    """A connection in autocommit mode, for any thread, with the table made."""
    made = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
    made.execute("PRAGMA journal_mode=WAL")
    made.execute(f"PRAGMA synchronous={synchronous}")
    made.execute("CREATE TABLE IF NOT EXISTS events(seq INTEGER PRIMARY KEY, type TEXT, data BLOB)")
    return made


class Rows:
    """One connection under a lock; ready when every row is decoded. `synchronous` "NORMAL" may lose
    the newest commits in a power cut."""

    def __init__(self, directory: Path, *, synchronous: str = "FULL", newest: int = 0) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._path = directory / NAME
        self._synchronous = synchronous
        self._lock = threading.Lock()
        self._encode = msgspec.json.Encoder().encode
        self._db = connect(self._path, synchronous=synchronous)
        self._state = self.last(newest) if newest else self._all()

    def append(self, type: str, data: dict[str, Any]) -> None:
        """One row, one commit."""
        row = (type, self._encode(data))
        with self._lock:
            self._db.execute(INSERT, row)

    def load(self, events: Events) -> None:
        """All rows in one commit."""
        self._db.execute("BEGIN")
        self._db.executemany(INSERT, [(type, self._encode(data)) for type, data in events])
        self._db.execute("COMMIT")

    def count(self) -> int:
        """The newest row's number; none is ever deleted."""
        return int(self._db.execute("SELECT max(seq) FROM events").fetchone()[0] or 0)

    def history(self) -> int:
        """Every row."""
        return len(self._all())

    def last(self, count: int) -> list[Any]:
        """By the primary key, backwards."""
        found = self._db.execute(
            "SELECT type, data FROM events ORDER BY seq DESC LIMIT ?", (count,)
        ).fetchall()
        return [(type, msgspec.json.decode(data)) for type, data in reversed(found)]

    def close(self) -> None:
        """Close the connection, which moves the log into the database."""
        self._db.close()

    def _all(self) -> list[Any]:
        decode = msgspec.json.Decoder().decode
        rows = self._db.execute("SELECT type, data FROM events ORDER BY seq")
        return [(type, decode(data)) for type, data in rows]


class RowsByThread(Rows):
    """A connection for each thread; the database's own lock puts them in order."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._local = threading.local()
        self._opened: list[sqlite3.Connection] = []

    def append(self, type: str, data: dict[str, Any]) -> None:
        """One row, one commit, over this thread's connection."""
        if not hasattr(self._local, "db"):
            self._local.db = connect(self._path, synchronous=self._synchronous)
            self._opened.append(self._local.db)
        self._local.db.execute(INSERT, (type, self._encode(data)))

    def close(self) -> None:
        """Close every connection."""
        for one in (*self._opened, self._db):
            one.close()


class RowsBatched(Rows):
    """One thread writes; what waits together is one commit. The fair rival of group commit: a
    program can do this with any database."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._failure: BaseException | None = None
        self._waiting: queue.SimpleQueue[tuple[Any, Callable[[], object]] | None] = (
            queue.SimpleQueue()
        )
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def append(self, type: str, data: dict[str, Any]) -> None:
        """Hand the row over and wait for its commit."""
        done = threading.Lock()
        done.acquire()
        self._waiting.put(((type, self._encode(data)), done.release))
        done.acquire()
        self._check()

    async def append_async(self, type: str, data: dict[str, Any]) -> None:
        """The same for a task."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        wake = loop.call_soon_threadsafe
        self._waiting.put(((type, self._encode(data)), lambda: wake(_done, future)))
        await future
        self._check()

    def close(self) -> None:
        """End the writer, then as above."""
        self._waiting.put(None)
        self._thread.join()
        super().close()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _write(self) -> None:
        while True:
            batch = [self._waiting.get()]
            while batch[-1] is not None and not self._waiting.empty():
                batch.append(self._waiting.get())
            rows = [one for one in batch if one is not None]
            try:
                self._commit([row for row, _ in rows])
            except sqlite3.Error as error:
                self._failure = error
            for _, wake in rows:
                wake()
            if batch[-1] is None:
                return

    def _commit(self, rows: list[Any]) -> None:
        self._db.execute("BEGIN")
        self._db.executemany(INSERT, rows)
        self._db.execute("COMMIT")


def _done(future: asyncio.Future[None]) -> None:
    """A task that was cancelled waits no more."""
    if not future.done():
        future.set_result(None)
