"""From a closed session to its state, by length of its history: time and memory must not depend on
it (P8). Engines only; sessions of the session layer are in bench_sessions.py.

Goal: 100,000 events within 1.5 times of 1,000, with a state that does not grow.
"""

from __future__ import annotations

import shutil
import time
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks import measure
from benchmarks.findings import Findings, Picture, Sizes, Table, mebibytes, milliseconds
from benchmarks.histories import Histories
from benchmarks.peers.peer import Peer
from benchmarks.peers.registry import BARE, NEWEST, OWN, PEERS, chosen
from benchmarks.workload import build_session, open_engine

BUILT = (
    BARE,
    OWN,
    "durasess closed",
    "article",
    "jsonl",
    "sqlite full",
    "agents",
    "eventsourcing",
    "eventsourcing snapshots",
    "langgraph",
)
OPENED_ALONE = {"sqlite newest": "sqlite full", "agents newest": "agents"}
"""Contenders that open what another one built."""
FLAT = (OWN, "durasess closed", "eventsourcing snapshots")
"""With those, they take turns apart from the others, whose garbage would be in their way."""
LONG = 100_000
"""Events from which on factors against whole loads count."""
SLOW = 500_000
"""Events that are recovered in one measurement at most, over its rounds."""
_OPEN = """
import tempfile
from benchmarks.peers.registry import PEERS
open_session = PEERS[sys.argv[1]].open
with tempfile.TemporaryDirectory() as name:
    open_session(Path(name)).close()
start()
handle = open_session(Path(sys.argv[2]))
if sys.argv[1] == "bare":
    handle.history()
"""
"""The first opening is for what is imported late."""


def measured(histories: Histories, sizes: Sizes) -> Findings:
    """Build the histories, then time and memory to be ready again."""
    cells: dict[tuple[str, int], float] = {}
    for count in sizes.histories:
        peers = chosen(*BUILT, events=count)
        histories.build(peers, count)
        flat = [peer for peer in peers if peer.name in FLAT]
        whole = [peer for peer in peers if peer.name not in FLAT]
        flat += chosen(*OPENED_ALONE, events=count)
        for group, rounds in ((flat, sizes.rounds * 3), (whole, min(sizes.rounds, SLOW // count))):
            calls = {
                peer.name: lambda peer=peer, count=count: _ready(histories, peer, count)
                for peer in group
            }
            found = measure.medians(calls, rounds=max(1, rounds))
            cells |= {(name, count): seconds for name, seconds in found.items()}
    found = Findings([_table(cells, sizes)], {}, [_picture(cells, sizes)])
    found.figures |= _figures(histories, cells, sizes)
    found.add(_memory(histories, sizes))
    return found


def _ready(histories: Histories, peer: Peer, count: int) -> float:
    """Seconds until the state is ready; for the floor, until all its bytes are decoded."""
    path = histories.path(OPENED_ALONE.get(peer.name, peer.name), count)
    begin = time.perf_counter()
    handle = peer.open(path)
    if peer.name == BARE:
        handle.history()
    taken = time.perf_counter() - begin
    handle.close()
    return taken


def _table(cells: dict[tuple[str, int], float], sizes: Sizes) -> Table:
    names = [name for name in PEERS if any(name == one for one, _ in cells)]
    rows = [
        (
            name,
            *[
                milliseconds(cells[name, count]) if (name, count) in cells else "–"
                for count in sizes.histories
            ],
        )
        for name in names
    ]
    note = (
        "Medians. durasess was left as by a kill, 400 events behind its snapshot, so that each "
        "opening proves and copies its newest segment; durasess closed was closed. bare is msgspec "
        f"decoding the same bytes. The two rows of newest ask for {NEWEST} rows alone: flat too, "
        "without a snapshot, checks or recovery of open calls. Factors of hundreds hold against "
        "what loads everything, which is what those stores do by default. – would take too long."
    )
    return Table("Ready again, by events of history", note, _columns(sizes), rows)


def _columns(sizes: Sizes) -> tuple[str, ...]:
    return ("contender", *[f"{count:,} events" for count in sizes.histories])


def _picture(cells: dict[tuple[str, int], float], sizes: Sizes) -> Picture:
    lines: dict[str, list[tuple[float, float]]] = {}
    for (name, count), seconds in cells.items():
        lines.setdefault(name, []).append((count, seconds * 1e3))
    return Picture("recovery", "Ready again", "events of history", "ms", lines)


def _figures(
    histories: Histories, cells: dict[tuple[str, int], float], sizes: Sizes
) -> dict[str, float]:
    small, large = min(sizes.histories), sizes.longest
    own = {count: histories.path(OWN, count) / "session" for count in (small, large)}
    found = measure.interleaved(
        {str(count): lambda path=path: reopened(path) for count, path in own.items()},
        rounds=sizes.ready_rounds,
    )
    figures = {"recovery_growth": found[str(large)] / found[str(small)]}
    # Factors against what loads everything say nothing of short histories.
    for name in ("article", "jsonl", "sqlite full", "agents"):
        if large >= LONG and (name, large) in cells:
            figures[f"recovery_{name.split()[0]}"] = cells[name, large] / found[str(large)]
    figures["recovery_newest"] = cells["durasess closed", large] / cells["sqlite newest", large]
    return figures


def reopened(directory: Path) -> int:
    """Open for writing as after a kill, and let go again as a kill would."""
    engine = open_engine(directory)
    seq = engine.last_seq
    engine.abandon()
    return seq


def _memory(histories: Histories, sizes: Sizes) -> Findings:
    rows: list[tuple[str, ...]] = []
    figures = {}
    for peer in chosen(BARE, OWN, "article", "jsonl", "sqlite full", "sqlite newest", "agents"):
        cells = []
        for count in sizes.histories:
            built = OPENED_ALONE.get(peer.name, peer.name)
            if peer.most_events < count:
                cells.append("–")
                continue
            size = measure.peak_memory(_OPEN, peer.name, str(histories.path(built, count)))
            cells.append(mebibytes(size))
            if peer.name == OWN:
                figures[f"memory {count}"] = float(size)
        rows.append((peer.name, *cells))
    grown = figures[f"memory {sizes.longest}"] - figures[f"memory {min(sizes.histories)}"]
    note = "Peak resident memory above that of the imports, each in a fresh interpreter."
    return Findings(
        [Table("Memory to be ready again", note, _columns(sizes), rows)],
        {"memory_growth_mib": grown / 1024 / 1024},
    )


@pytest.mark.benchmark(group="recovery")
@pytest.mark.parametrize("size", [200, 2_000])
def test_recovery_after_a_kill(benchmark, tmp_path: Path, size: int) -> None:
    build_session(tmp_path / "s0", size)

    def copy() -> tuple[tuple[Path], dict[str, object]]:
        target = tmp_path / "copy" / "s0"
        shutil.rmtree(target.parent, ignore_errors=True)
        shutil.copytree(tmp_path / "s0", target)
        return (target,), {}

    assert benchmark.pedantic(reopened, setup=copy, rounds=5) == size


@pytest.mark.parametrize("name", PEERS)
def test_every_event_is_there_again(tmp_path: Path, name: str) -> None:
    peer = PEERS[name]
    if peer.missing:
        pytest.skip(peer.missing)
    histories = Histories(tmp_path)
    histories.build([PEERS[BARE], peer] if name != BARE else [peer], 60)
    with closing(peer.open(histories.path(name, 60))) as handle:
        assert (handle.count(), handle.history(), len(handle.last(20))) == (60, 60, 20)


def test_memory_is_measured_beside_a_large_parent() -> None:
    held = bytearray(200_000_000)
    code = (
        "start()\nheld = bytearray(40_000_000)\nfor at in range(0, len(held), 4096): held[at] = 1"
    )
    assert measure.peak_memory(code) > 30_000_000, len(held)
