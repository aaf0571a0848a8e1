"""A list of many sessions, from their meta files, beside one SQLite table and beside json."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from benchmarks import measure
from benchmarks.findings import TINY, Findings, Sizes, Table, milliseconds
from durasess import Store
from durasess.engine import meta

META = "meta.json"
PAGE = 50
FIRST = "s0"
FLOOR = "scandir + msgspec"
ALL = "durasess, all"
COLD = "durasess, all, cold"
DROP = Path("/proc/sys/vm/drop_caches")


def measured(directory: Path, sizes: Sizes) -> Findings:
    """The newest page and all of it, by the number of sessions."""
    directory.mkdir(parents=True)
    cells: dict[tuple[str, int], float | None] = {}
    for count in sizes.sessions:
        root = directory / str(count)
        store = _store_of(root, count)
        with _calls(store, root, count) as calls:
            found = measure.interleaved(calls, rounds=sizes.rounds)
        cells |= {(name, count): seconds for name, seconds in found.items()}
        cells[COLD, count] = _cold(store, rounds=sizes.rounds)
        shutil.rmtree(root)
    names = list(dict.fromkeys(name for name, _ in cells))
    rows = [(name, *[_told(cells[name, count]) for count in sizes.sessions]) for name in names]
    columns = ("", *[f"{count:,} sessions" for count in sizes.sessions])
    note = (
        f"{FLOOR} reads and decodes every meta.json and checks nothing. The table is what an index "
        "would answer, if nothing had to be looked at. Cold: the system's caches were dropped "
        "before, which only root may do."
    )
    newest, floor, whole = found[f"durasess, newest {PAGE}"], found[FLOOR], found[ALL]
    figures = {"list": newest / floor, "list_s": whole}
    return Findings([Table("A list of sessions", note, columns, rows)], figures)


def _cold(store: Store, *, rounds: int) -> float | None:
    """The median time of a list of all where the system has nothing of it in memory; None where it
    cannot be made to forget."""
    times = []
    for _ in range(rounds):
        try:
            os.sync()
            DROP.write_text("3")
        except OSError:
            return None
        start = time.perf_counter()
        store.list(limit=None)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def _told(seconds: float | None) -> str:
    return "not measured" if seconds is None else milliseconds(seconds)


def _store_of(root: Path, count: int) -> Store:
    """One session that was made and closed, and copies of it under names of their own."""
    store = Store(root)
    store.create(FIRST, title="a task", model="m-1", labels={"ticket": "T-7"}).close()
    first = meta.parse((root / FIRST / META).read_bytes(), META)
    for number in range(1, count):
        copied = root / f"s{number}"
        shutil.copytree(root / FIRST, copied)
        own = msgspec.structs.replace(first, session_id=copied.name)
        (copied / META).write_bytes(meta.encoded(own))
    return store


@contextlib.contextmanager
def _calls(store: Store, root: Path, count: int) -> Iterator[dict[str, Callable[[], object]]]:
    rows = store.list(limit=None).rows
    assert len(rows) == count
    assert not any(row.problem for row in rows)
    with contextlib.closing(sqlite3.connect(f"{root}.sqlite")) as table:
        table.execute("CREATE TABLE sessions(id TEXT PRIMARY KEY, updated TEXT, meta TEXT)")
        table.execute("CREATE INDEX newest ON sessions(updated)")
        values = [
            (row.session_id, str(row.updated_at), msgspec.json.encode(row).decode()) for row in rows
        ]
        with table:
            table.executemany("INSERT INTO sessions VALUES (?, ?, ?)", values)
        newest = "SELECT * FROM sessions ORDER BY updated DESC"
        yield {
            FLOOR: lambda: [msgspec.json.decode(data) for data in _metas(root)],
            "scandir + json": lambda: [json.loads(data) for data in _metas(root)],
            f"durasess, newest {PAGE}": lambda: store.list(limit=PAGE),
            ALL: lambda: store.list(limit=None),
            f"SQLite table, newest {PAGE}": lambda: table.execute(
                f"{newest} LIMIT {PAGE}"
            ).fetchall(),
            "SQLite table, all": lambda: table.execute(newest).fetchall(),
        }


def _metas(root: Path) -> list[bytes]:
    found = []
    for entry in os.scandir(root):
        with contextlib.suppress(FileNotFoundError), open(f"{entry.path}/{META}", "rb") as file:
            found.append(file.read())
    return found


def test_every_way_lists_every_session(tmp_path: Path) -> None:
    root = tmp_path / "store"
    with _calls(_store_of(root, 3), root, 3) as calls:
        assert [len(calls[name]()) for name in (FLOOR, "SQLite table, all")] == [3, 3]
    assert len(measured(tmp_path / "all", TINY).tables) == 1
