"""Reading a long history: all of it, and its newest twenty messages."""

from __future__ import annotations

import json
import time
from contextlib import closing
from pathlib import Path

try:
    import orjson
except ImportError:  # installed by the extra `bench`
    orjson = None

from benchmarks import bench_sessions, measure
from benchmarks.findings import TINY, Findings, Sizes, Table, milliseconds, times
from benchmarks.histories import Histories
from benchmarks.peers import jsonl, sqlite_rows
from benchmarks.peers.peer import Peer
from benchmarks.peers.registry import BARE, OWN, chosen
from durasess import Store
from durasess.engine import codec

RIVALS = (BARE, OWN, "article", "jsonl", "sqlite full", "agents")
LAST = 20
ROUNDS = 3
"""At most; each opens a long history of every contender."""
SESSION = "long"
SQLITE_JSON = "sqlite full, json"
ORJSON = "orjson, JSON lines"
LIMIT = "bare, collector off"
ONE_BY_ONE = "durasess, one by one"


def measured(histories: Histories, sizes: Sizes) -> Findings:
    """Of the longest history that every contender has."""
    root = histories.directory / "session layer"
    root.mkdir()
    bench_sessions.build(root, SESSION, sizes.longest)
    bench_sessions.ready(Store(root), SESSION, sizes.longest)
    found = _whole(histories, root, sizes)
    found.add(_last(histories, root, sizes))
    return found


def _whole(histories: Histories, root: Path, sizes: Sizes) -> Findings:
    count, payload = sizes.longest, histories.payload[sizes.longest]
    calls = {
        peer.name: lambda peer=peer: _history(peer, histories.path(peer.name, count))
        for peer in chosen(*RIVALS, events=count)
    }
    calls["durasess session"] = lambda: _messages(root)
    calls[LIMIT] = lambda: _limit(histories.path(BARE, count))
    calls[ONE_BY_ONE] = lambda: _one_by_one(histories.path(OWN, count))
    calls[SQLITE_JSON] = lambda: _sqlite_json(histories.path("sqlite full", count))
    if orjson is not None:
        calls[ORJSON] = lambda: _orjson_lines(histories.path("jsonl", count))
    found = measure.medians(calls, rounds=min(sizes.rounds, ROUNDS))
    rows = [
        (
            name,
            milliseconds(seconds),
            "–" if name == "durasess session" else f"{payload / seconds / 1e6:,.0f} MB/s",
            times(seconds, found[BARE]),
        )
        for name, seconds in found.items()
    ]
    columns = ("contender", "time", "payload", "to bare")
    note = (
        f"{count:,} events, {payload / 1e6:,.0f} MB, all kept in memory; one by one they are "
        "looked at and let go. bare is msgspec over the bytes, unchecked, without the cyclic "
        "collector the limit of reading them here; durasess session makes messages of as many "
        "events of its own, which are shorter."
    )
    table = Table("Whole history, decoded", note, columns, rows)
    figures = {
        "history_bare": found[OWN] / found[BARE],
        "history_limit": found[OWN] / found[LIMIT],
        "history_sqlite": found[SQLITE_JSON] / found[OWN],
    }
    if ORJSON in found:
        figures["history_orjson"] = found[OWN] / found[ORJSON]
    return Findings([table], figures)


def _limit(path: Path) -> float:
    """What bare does, without the cyclic collector."""
    with codec.bulk():
        return _history(chosen(BARE)[0], path)


def _one_by_one(path: Path) -> float:
    """As a reader has it that keeps nothing."""
    with closing(chosen(OWN)[0].open(path)) as handle:
        begin = time.perf_counter()
        assert any(event.seq < 0 for event in handle.engine.events()) is False
        return time.perf_counter() - begin


def _sqlite_json(path: Path) -> float:
    """Every row, decoded by the standard library."""
    with closing(sqlite_rows.connect(path / sqlite_rows.NAME, synchronous="FULL")) as db:
        begin = time.perf_counter()
        rows = db.execute("SELECT type, data FROM events ORDER BY seq")
        found = [(type, json.loads(data)) for type, data in rows]
        assert found
        return time.perf_counter() - begin


def _orjson_lines(path: Path) -> float:
    """Every line of one file of JSON lines, unchecked."""
    begin = time.perf_counter()
    with open(path / jsonl.LOG, "rb") as file:
        found = [orjson.loads(line) for line in file]
    assert found
    return time.perf_counter() - begin


def _messages(root: Path) -> float:
    with Store(root).open(SESSION, mode="read") as session:
        begin = time.perf_counter()
        assert sum(1 for _ in session.history()) > 0
        return time.perf_counter() - begin


def _history(peer: Peer, path: Path) -> float:
    with closing(peer.open(path)) as handle:
        begin = time.perf_counter()
        handle.history()
        return time.perf_counter() - begin


def _last(histories: Histories, root: Path, sizes: Sizes) -> Findings:
    count = sizes.longest
    calls = {}
    for peer in chosen(*RIVALS, "sqlite newest", events=count):
        built = "sqlite full" if peer.name == "sqlite newest" else peer.name
        path = histories.path(built, count)
        calls[f"{peer.name} open"] = lambda peer=peer, path=path: _newest(peer, path)
        calls[f"{peer.name} anew"] = lambda peer=peer, path=path: _newest_anew(peer, path)
    found = measure.medians(calls, rounds=min(sizes.rounds, ROUNDS))
    names = list(dict.fromkeys(name.rsplit(" ", 1)[0] for name in found))
    rows = [
        (name, milliseconds(found[f"{name} open"]), milliseconds(found[f"{name} anew"]))
        for name in names
    ]
    layer = measure.medians(
        {
            "open": lambda: _newest_messages(root)[0],
            "anew": lambda: _newest_messages(root)[1],
        },
        rounds=min(sizes.rounds, ROUNDS),
    )
    rows.append(
        ("durasess session", milliseconds(layer["open"]), milliseconds(layer["anew"])),
    )
    note = (
        f"Of {count:,}. On an open handle, and of a session left as by a kill. bare reads its file "
        "backwards; article and jsonl hold everything; a durasess session holds its newest "
        "messages, the engine reads its log."
    )
    columns = ("contender", "open handle", "opened anew")
    return Findings(
        [Table(f"The newest {LAST} events", note, columns, rows)],
        {
            "last_ms": layer["anew"] * 1e3,
            "last_sqlite": layer["anew"] / found["sqlite newest anew"],
            "last_engine_sqlite": found[f"{OWN} open"] / found["sqlite full open"],
        },
    )


def _newest(peer: Peer, path: Path) -> float:
    with closing(peer.open(path)) as handle:
        begin = time.perf_counter()
        assert len(handle.last(LAST)) == LAST
        return time.perf_counter() - begin


def _newest_anew(peer: Peer, path: Path) -> float:
    begin = time.perf_counter()
    with closing(peer.open(path)) as handle:
        assert len(handle.last(LAST)) == LAST
        return time.perf_counter() - begin


def _newest_messages(root: Path) -> tuple[float, float]:
    """Seconds of taking the newest messages, and of that with opening the session for reading."""
    begin = time.perf_counter()
    session = Store(root).open(SESSION, mode="read")
    opened = time.perf_counter()
    assert len(session.state.messages[-LAST:]) == LAST
    end = time.perf_counter()
    session.close()
    return end - opened, end - begin


def test_both_ways_of_reading_are_measured(tmp_path: Path) -> None:
    histories = Histories(tmp_path)
    histories.build(chosen(*RIVALS, events=100), 100)
    assert len(measured(histories, TINY).tables) == 2
