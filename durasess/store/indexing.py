"""Bringing the index up to date with the sessions: what each has behind the seq that is in it.

A session whose log is not the one that was indexed (repaired, put back, made again) is indexed
anew.
"""

from __future__ import annotations

import contextlib
import datetime
import sqlite3
from collections.abc import Iterable
from typing import Any

from durasess.engine import lock
from durasess.engine.engine import Engine
from durasess.engine.files import Files
from durasess.engine.types import Event
from durasess.errors import DurasessError
from durasess.session import usage
from durasess.session.state import Usage
from durasess.session.when import happened_at
from durasess.store import reading, texts
from durasess.store.index import Index
from durasess.store.rows import Row


def update(index: Index, disk: Files, rows: Iterable[Row]) -> dict[str, str]:
    """Index what is new; sessions that are gone leave the index. Returns session id → why it could
    not be read. Each session is one transaction."""
    problems: dict[str, str] = {}
    there = set()
    for row in rows:
        there.add(row.session_id)
        if row.problem:
            problems[row.session_id] = row.problem
            continue
        try:
            found = _update_one(index, disk, row)
        except (DurasessError, ValueError, OSError) as error:
            problems[row.session_id] = str(error)
        else:
            if found:
                problems[row.session_id] = found
    for (session_id,) in index.db.execute("SELECT session_id FROM sessions").fetchall():
        if session_id not in there:
            with index.writing():
                _forget(index, session_id)
    return problems


def _update_one(index: Index, disk: Files, row: Row) -> str:
    """What is wrong with it; what can be read of it is indexed all the same."""
    mark = _mark(disk, row)
    known = _known(index, row)
    if known is not None and known[0] == mark:
        return ""
    with reading.opened(row.path) as engine, index.writing():
        # Again: another process may have done it meanwhile.
        known = _known(index, row)
        if known is not None and not _is_same_log(engine, known[1], known[2]):
            _forget(index, row.session_id)
            known = None
        fold = _Fold(index.db, row, engine, with_texts=index.has_texts)
        after = 0
        if known is not None:
            after, fold.model, fold.workspace = known[1], known[3], known[4]
        seq, crc = fold.add_all(max(after, engine.first_seq - 1))
        if not crc and known is not None:
            seq, crc = known[1], known[2]
        damage = reading.damage_of(engine)
        index.db.execute(
            "INSERT OR REPLACE INTO sessions VALUES(?,?,?,?,?,?,?,?)",
            (
                # Of a damaged one it is never said that all is known.
                *(row.session_id, "" if damage else mark, seq, crc, fold.model, fold.workspace),
                *(_text(texts.shown(row.title)), row.updated_at),
            ),
        )
    return damage


def _mark(disk: Files, row: Row) -> str:
    """Where the log is, without a look at it: what changes whenever the session does."""
    anchor = None
    with contextlib.suppress(OSError):
        anchor = lock.read_anchor(disk, row.path, row.session_id)
    end = f"{anchor.seq} {anchor.chain}" if anchor is not None else ""
    return f"{row.as_of} {row.updated_at} {end}"


def _known(index: Index, row: Row) -> tuple[Any, ...] | None:
    """mark, seq, crc, model, workspace."""
    found: tuple[Any, ...] | None = index.db.execute(
        "SELECT mark, seq, crc, model, workspace FROM sessions WHERE session_id=?",
        (row.session_id,),
    ).fetchone()
    return found


def _is_same_log(engine: Engine, seq: int, crc: str) -> bool:
    if not seq:
        return True
    if seq > engine.last_seq:
        return False
    if seq < engine.first_seq:
        # It was pruned; what was indexed of it stays true.
        return True
    found = next(engine.events(after=seq - 1), None)
    return found is not None and found.crc == crc


def _forget(index: Index, session_id: str) -> None:
    tables = ["sessions", "runs", "usage", *(["texts"] if index.has_texts else [])]
    for table in tables:
        index.db.execute(f"DELETE FROM {table} WHERE session_id=?", (session_id,))


class _Fold:
    """The rows that a session's events make. Runs and usage that a fork has from its parent are the
    parent's."""

    def __init__(
        self, db: sqlite3.Connection, row: Row, engine: Engine, *, with_texts: bool
    ) -> None:
        self._db = db
        self._row = row
        self._engine = engine
        self._with_texts = with_texts
        self.model = ""
        self.workspace = ""

    def add_all(self, after: int) -> tuple[int, str]:
        """Add the events behind seq `after`; seq and crc of the last one."""
        seq, crc = after, ""
        for event in self._engine.events(after=after):
            self._add(event)
            seq, crc = event.seq, event.crc
        return seq, crc

    def _add(self, event: Event) -> None:
        at = happened_at(event)
        if self._with_texts:
            for one in texts.texts(event, self._engine.read_blob):
                self._db.execute(
                    "INSERT INTO texts(text, session_id, seq, ts, role) VALUES(?,?,?,?,?)",
                    (
                        _storable(one.text),
                        self._row.session_id,
                        event.seq,
                        at,
                        one.role,
                    ),
                )
        data = event.data if isinstance(event.data, dict) else {}
        if event.type == "config_changed" and isinstance(data.get("config"), dict):
            self.model = _text(data["config"].get("model", self.model))
        elif event.type == "workspace_bound":
            self.workspace = _text(data.get("path"))
        elif event.seq > self._row.parent_seq:
            self._add_own(event, data)

    def _add_own(self, event: Event, data: dict[str, Any]) -> None:
        if event.type == "run_started":
            if data.get("again") is not True:
                self._begin_run(event)
        elif event.type == "run_finished":
            self._end_run(event, data)
        elif event.type in ("assistant_message", "usage_recorded"):
            if data.get("goes_on") is True:
                self._begin_run(event)
            found = data.get("usage")
            if isinstance(found, dict):
                self._use(event, usage.from_data(found), _text(data.get("model")) or self.model)

    def _begin_run(self, event: Event) -> None:
        self._db.execute(
            "INSERT OR REPLACE INTO runs VALUES(?,?,?,?,'','running','',NULL,?,?,0,0,0,0.0)",
            (
                *(self._row.session_id, event.seq, event.run_id or "", happened_at(event)),
                *(self.model, self.workspace),
            ),
        )

    def _end_run(self, event: Event, data: dict[str, Any]) -> None:
        ended_at = happened_at(event)
        for seq, started_at in self._db.execute(
            "SELECT seq, started_at FROM runs WHERE session_id=? AND status='running' "
            "ORDER BY seq DESC LIMIT 1",
            (self._row.session_id,),
        ).fetchall():
            self._db.execute(
                "UPDATE runs SET finished_at=?, status=?, error=?, seconds=? "
                "WHERE session_id=? AND seq=?",
                (
                    *(ended_at, _text(data.get("status")), texts.shown(_text(data.get("error")))),
                    *(_seconds(started_at, ended_at), self._row.session_id, seq),
                ),
            )

    def _use(self, event: Event, used: Usage, model: str) -> None:
        if used == Usage():
            return
        amounts = (used.prompt, used.completion, used.total, used.cost)
        session_id = self._row.session_id
        self._db.execute(
            "INSERT INTO usage VALUES(?,?,?,?,?,?,?,?) ON CONFLICT DO UPDATE SET "
            "prompt=prompt+excluded.prompt, completion=completion+excluded.completion, "
            "total=total+excluded.total, cost=cost+excluded.cost",
            (session_id, happened_at(event)[:10], model, self.workspace, *amounts),
        )
        if event.run_id:
            # What no configuration said, the first reply of the run does.
            self._db.execute(
                "UPDATE runs SET model=? WHERE model='' AND session_id=? AND seq=(SELECT max(seq) "
                "FROM runs WHERE session_id=? AND run_id=?)",
                (model, session_id, session_id, event.run_id),
            )
            self._db.execute(
                "UPDATE runs SET prompt=prompt+?, completion=completion+?, total=total+?, "
                "cost=cost+? WHERE session_id=? AND seq=(SELECT max(seq) FROM runs "
                "WHERE session_id=? AND run_id=?)",
                (*amounts, session_id, session_id, event.run_id),
            )


def _text(value: Any) -> str:
    return _storable(value) if isinstance(value, str) else ""


def _storable(text: str) -> str:
    """SQLite takes no lone surrogates, and ends a text at NUL."""
    return text.encode("utf-8", "replace").decode().replace("\0", " ")


def _seconds(started_at: str, finished_at: str) -> float | None:
    try:
        first, last = map(datetime.datetime.fromisoformat, (started_at, finished_at))
        return max(0.0, (last - first).total_seconds())
    except (ValueError, TypeError):
        return None
