"""The store's derived index, `.index.sqlite`: its tables, how they are opened and asked.

A cache: what it says is made from the sessions and can be made again, so whatever is wrong with
it raises IndexUnusable, which its callers answer by doing without. What goes into it is in
indexing.py.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import sys
import urllib.parse
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from durasess.engine import paths
from durasess.engine.files import Files
from durasess.store import texts

NAME = ".index.sqlite"
VERSION = 3
TIMEOUT_S = 2.0
"""Seconds that one waits for another process that writes the index."""

By = Literal["day", "model", "workspace"]

_TABLES = """
CREATE TABLE sessions(
    session_id TEXT PRIMARY KEY, mark TEXT, seq INTEGER, crc TEXT, model TEXT, workspace TEXT,
    title TEXT, updated_at TEXT);
CREATE TABLE runs(
    session_id TEXT, seq INTEGER, run_id TEXT, started_at TEXT, finished_at TEXT, status TEXT,
    error TEXT, seconds REAL, model TEXT, workspace TEXT, prompt INTEGER, completion INTEGER,
    total INTEGER, cost REAL, PRIMARY KEY(session_id, seq));
CREATE INDEX runs_by_start ON runs(started_at);
CREATE TABLE usage(
    session_id TEXT, day TEXT, model TEXT, workspace TEXT, prompt INTEGER, completion INTEGER,
    total INTEGER, cost REAL, PRIMARY KEY(session_id, day, model, workspace));
"""
_TEXTS = """CREATE VIRTUAL TABLE texts USING fts5(
    text, session_id UNINDEXED, seq UNINDEXED, ts UNINDEXED, role UNINDEXED, tokenize='trigram')"""
_TOTALS = ", ".join(f"CAST(total({name}) AS INTEGER)" for name in ("prompt", "completion", "total"))
"""sum() fails where it is more than an integer of SQLite."""

_SHORTEST = 3
"""Characters of a word that the index of texts can find by itself."""


class IndexUnusable(Exception):
    """The index is missing, locked, of another version or damaged; the message says which.
    `is_locked`: another process has it, and it may be sound. `is_refused`: the system lets nobody
    make or write it here, as in a store of somebody else's."""

    def __init__(self, message: str, *, is_locked: bool = False, is_refused: bool = False) -> None:
        super().__init__(message)
        self.is_locked = is_locked
        self.is_refused = is_refused


class IndexedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run of any session. `seconds` is None while it goes on; the tokens and the cost are what
    was recorded in it."""

    session_id: str
    run_id: str
    started_at: str
    finished_at: str
    status: str
    error: str
    seconds: float | None
    model: str
    workspace: str
    prompt: int
    completion: int
    total: int
    cost: float


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """What runs of one day, model or workspace (`key`) came to. `mean_seconds` is of those that
    ended, None when none did."""

    key: str
    runs: int
    failed: int
    mean_seconds: float | None
    prompt: int
    completion: int
    total: int
    cost: float


def path_of(root: str) -> str:
    """Where a store's index is."""
    return paths.join(root, NAME)


@contextlib.contextmanager
def opened(disk: Files, root: str) -> Iterator[Index]:
    """The index for reading and writing, made when it is missing, emptied when another version
    made it; of a store that is not there yet an empty one, in memory. IndexUnusable when it cannot
    be used."""
    path = place = path_of(root)
    try:
        try:
            # So that it is for this user alone, as all of a store.
            disk.close(disk.create(path))
        except FileExistsError:
            pass
        except FileNotFoundError:
            place = ":memory:"
        connection = sqlite3.connect(place, timeout=TIMEOUT_S, isolation_level=None)
    except (OSError, sqlite3.Error) as error:
        raise _unusable(path, error) from error
    try:
        yield Index(connection)
    except sqlite3.Error as error:
        raise _unusable(path, error) from error
    finally:
        connection.close()


@contextlib.contextmanager
def in_memory() -> Iterator[Index]:
    """An empty one without texts that nobody keeps."""
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        made = Index(connection)
        made.has_texts = False
        yield made


def _unusable(path: str, error: OSError | sqlite3.Error) -> IndexUnusable:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK)
    # The upper bits of an extended code tell why it is busy.
    is_locked = code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    is_refused = code & 0xFF in _REFUSED or getattr(error, "errno", None) in _REFUSALS
    return IndexUnusable(f"{path}: {error}", is_locked=is_locked, is_refused=is_refused)


_REFUSED = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM)
_REFUSALS = (errno.EACCES, errno.EPERM, errno.EROFS)


def problem(root: str) -> str | None:
    """Why the index that is there cannot be used, None when it can. Changes nothing."""
    path = path_of(root)
    try:
        # Read-only: a look at a store leaves no file behind.
        place = urllib.parse.quote(os.fsencode(path))
        with contextlib.closing(sqlite3.connect(f"file:{place}?mode=ro", uri=True)) as connection:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            told = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    except sqlite3.Error as error:
        return f"it cannot be read: {error}"
    if version not in (0, VERSION):
        return f"it has version {version}, expected {VERSION}"
    return None if told == "ok" else f"it is damaged: {told}"


class Index:
    """An open index. Every method raises sqlite3.Error, which `opened` makes IndexUnusable."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.db = connection
        self.db.execute("PRAGMA synchronous=NORMAL")
        if self._version() != VERSION:
            self.clear()
        found = self.db.execute("SELECT 1 FROM sqlite_master WHERE name='texts'").fetchone()
        self.has_texts = found is not None

    def _version(self) -> int:
        return int(self.db.execute("PRAGMA user_version").fetchone()[0])

    def clear(self) -> None:
        """Empty it: no tables but this version's."""
        with self.writing():
            for kind, name in self.db.execute(
                "SELECT type, name FROM sqlite_master WHERE type IN ('table', 'view') "
                "AND name NOT LIKE 'sqlite_%' AND name NOT LIKE 'texts_%'"
            ).fetchall():
                quoted = name.replace('"', '""')
                self.db.execute(f'DROP {kind} "{quoted}"')
            for statement in _TABLES.split(";"):
                self.db.execute(statement)
            self.has_texts = self._make_texts()
            self.db.execute(f"PRAGMA user_version={VERSION}")

    def _make_texts(self) -> bool:
        try:
            self.db.execute(_TEXTS)
        except sqlite3.OperationalError as error:
            # This SQLite has no full-text search, or none of parts of words.
            if "fts5" in str(error) or "tokenizer" in str(error):
                return False
            raise
        return True

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """A transaction: all of it or nothing."""
        self.db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.db.execute("ROLLBACK")
            raise
        self.db.execute("COMMIT")

    # -- asking -----------------------------------------------------------------------------

    def runs(self, *, limit: int | None, statuses: tuple[str, ...]) -> list[IndexedRun]:
        """The newest runs, of these statuses or of any."""
        marks = ",".join("?" * len(statuses))
        where = f"WHERE status IN ({marks})" if statuses else ""
        names = IndexedRun.__struct_fields__
        found = self.db.execute(
            f"SELECT {','.join(names)} FROM runs {where} "
            "ORDER BY started_at DESC, session_id, seq DESC LIMIT ?",
            (*statuses, -1 if limit is None else limit),
        )
        return [IndexedRun(**dict(zip(names, one, strict=True))) for one in found]

    def groups(self, by: By) -> list[Group]:
        """What was run and used, by day, model or workspace; in the order of these."""
        run_key = {"day": "substr(started_at, 1, 10)"}.get(by, by)
        runs = self.db.execute(
            f"SELECT {run_key}, count(*), sum(status='failed'), avg(seconds) FROM runs GROUP BY 1"
        )
        told = {key: (count, failed, mean) for key, count, failed, mean in runs}
        used = self.db.execute(
            f"SELECT {by}, {_TOTALS}, min(total(cost), ?) FROM usage GROUP BY 1",
            (sys.float_info.max,),
        )
        sums = {key: tuple(values) for key, *values in used}
        return [
            _group(key, told.get(key, (0, 0, None)), sums.get(key, (0, 0, 0, 0.0)))
            for key in sorted(told.keys() | sums.keys())
        ]

    def search(self, words: list[str], only: set[str] | None, limit: int) -> list[texts.Hit]:
        """The newest messages with every word, one more than `limit` if there are as many; of the
        sessions in `only`, or of all."""
        long = [word for word in words if len(word) >= _SHORTEST]
        where = "WHERE texts MATCH ?" if long else ""
        query = " AND ".join('"' + word.replace('"', '""') + '"' for word in long)
        found = self.db.execute(
            "SELECT texts.session_id, sessions.title, texts.seq, texts.ts, texts.role, texts.text "
            f"FROM texts LEFT JOIN sessions USING (session_id) {where} "
            "ORDER BY texts.ts DESC, texts.session_id, texts.seq DESC",
            (query,) if long else (),
        )
        hits: list[texts.Hit] = []
        for session_id, title, seq, ts, role, text in found:
            if (only is None or session_id in only) and texts.has_all(text, words):
                hits.append(
                    texts.Hit(
                        session_id=session_id,
                        title=title or "",
                        seq=seq,
                        ts=ts,
                        role=role,
                        excerpt=texts.excerpt(text, words),
                    )
                )
                if len(hits) > limit:
                    break
        return hits


def _group(key: str, told: tuple[Any, ...], sums: tuple[Any, ...]) -> Group:
    count, failed, mean = told
    prompt, completion, total, cost = sums
    return Group(
        key=key,
        runs=count,
        failed=failed or 0,
        mean_seconds=mean,
        prompt=prompt,
        completion=completion,
        total=total,
        cost=cost,
    )
