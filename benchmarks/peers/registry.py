"""The contenders by name, and which of them can run here."""

from __future__ import annotations

from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks.peers.agents_session import AgentsSession
from benchmarks.peers.article import Article
from benchmarks.peers.bare import BareFile
from benchmarks.peers.jsonl import JsonLines
from benchmarks.peers.langgraph_saver import LanggraphSaver
from benchmarks.peers.own import Own, OwnClosed
from benchmarks.peers.peer import Handle, Peer
from benchmarks.peers.sqlite_rows import Rows, RowsBatched, RowsByThread

OWN = "durasess"
BARE = "bare"
NEWEST = 200
"""Rows that a store is asked for when it is asked for its tail alone."""


def _eventsourced(directory: Path, *, snapshots: int = 0) -> Handle:
    """Imported when it is used: its classes need the library."""
    from benchmarks.peers.eventsourced import Eventsourced

    return Eventsourced(directory, snapshots=snapshots)


def _missing(package: str) -> str:
    """Looked up without an import, which every fresh interpreter of a benchmark would pay for."""
    try:
        version(package)
    except PackageNotFoundError:
        return f"{package} is not installed (pip install 'durasess[bench]')"
    return ""


_AGENTS = _missing("openai-agents")
_EVENTSOURCING = _missing("eventsourcing")
_LANGGRAPH = _missing("langgraph-checkpoint-sqlite")

PEERS = {
    peer.name: peer
    for peer in (
        Peer(
            name=BARE,
            open=BareFile,
            note="the floor: encode, write, fdatasync; read by msgspec, nothing checked",
        ),
        Peer(
            name=OWN,
            open=Own,
            note="Engine with its defaults: checksums, snapshots, a sync for all who wait",
            appends_async=True,
        ),
        Peer(
            name="durasess closed",
            open=OwnClosed,
            note="the same, closed; durasess itself is left as by a kill",
            appends_async=True,
        ),
        Peer(
            name="article",
            open=Article,
            note="JSON lines with fsync, and the whole state as indented JSON every 10 rounds",
            most_events=200_000,
        ),
        Peer(
            name="jsonl",
            open=JsonLines,
            note="JSON lines without a sync (not durable), all read at opening",
        ),
        Peer(
            name="sqlite full",
            open=Rows,
            note="standard library, WAL, synchronous=FULL, one connection, rows decoded by msgspec",
        ),
        Peer(
            name="sqlite normal",
            open=partial(Rows, synchronous="NORMAL"),
            note="as before, synchronous=NORMAL: a power cut may take the newest commits",
        ),
        Peer(
            name="sqlite by thread",
            open=RowsByThread,
            note="as sqlite full, a connection for each thread",
        ),
        Peer(
            name="sqlite batched",
            open=RowsBatched,
            note="as sqlite full, one thread writes and what waits together is one commit",
            appends_async=True,
        ),
        Peer(
            name="agents",
            open=AgentsSession,
            note="openai-agents, SQLiteSession",
            missing=_AGENTS,
            most_events=200_000,
            threads=False,
            appends_async=True,
        ),
        Peer(
            name="eventsourcing",
            open=_eventsourced,
            note="eventsourcing on SQLite, one aggregate, no snapshots",
            missing=_EVENTSOURCING,
            most_events=20_000,
            threads=False,
        ),
        Peer(
            name="eventsourcing snapshots",
            open=partial(_eventsourced, snapshots=1000),
            note="as before, a snapshot every 1,000 events",
            missing=_EVENTSOURCING,
            most_events=20_000,
            threads=False,
        ),
        Peer(
            name="langgraph",
            open=LanggraphSaver,
            note="langgraph-checkpoint-sqlite, SqliteSaver, a checkpoint for each event",
            missing=_LANGGRAPH,
            most_events=300,
            threads=False,
        ),
        Peer(
            name="sqlite newest",
            open=partial(Rows, newest=NEWEST),
            note=f"sqlite full that reads only its newest {NEWEST} rows at opening",
        ),
        Peer(
            name="agents newest",
            open=partial(AgentsSession, newest=NEWEST),
            note=f"agents that reads only its newest {NEWEST} items at opening",
            missing=_AGENTS,
            most_events=200_000,
            threads=False,
            appends_async=True,
        ),
    )
}


def chosen(*names: str, events: int = 0) -> list[Peer]:
    """These contenders, without those that are missing or can't hold so many events in time."""
    found = [PEERS[name] for name in names]
    return [peer for peer in found if not peer.missing and peer.most_events >= events]
