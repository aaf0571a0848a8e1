"""Bytes for each byte of payload: handed to the system while a session is written, and on disk when
it is closed. Each contender writes one durable event after the other in a fresh interpreter."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import measure
from benchmarks.findings import Findings, Picture, Sizes, Table
from benchmarks.histories import Histories
from benchmarks.peers.peer import bytes_below
from benchmarks.peers.registry import BARE, OWN, chosen
from durasess.cli.workload import generate_events

RIVALS = (
    BARE,
    OWN,
    "article",
    "jsonl",
    "sqlite full",
    "agents",
    "eventsourcing",
    "eventsourcing snapshots",
    "langgraph",
)
_WRITE = """
from benchmarks.peers.registry import PEERS
from durasess.cli.workload import generate_events
events = list(generate_events(1, count=int(sys.argv[3])))
start()
handle = PEERS[sys.argv[1]].open(Path(sys.argv[2]))
for type, data in events:
    handle.append(type, data)
handle.close()
"""
LANGGRAPH_EVENTS = 300
ALONE = (BARE, OWN)
"""Where the others would take too long."""


def measured(directory: Path, histories: Histories, sizes: Sizes) -> Findings:
    """Both ratios, by length."""
    counts = sorted({min(LANGGRAPH_EVENTS, *sizes.written), *sizes.written, sizes.written_alone})
    cells: dict[tuple[str, int], tuple[float, float]] = {}
    for count in counts:
        peers = chosen(*(ALONE if count > max(sizes.written) else RIVALS), events=count)
        for peer in peers:
            place = directory / f"{peer.name} {count}"
            written = measure.bytes_written(_WRITE, peer.name, str(place), str(count))
            cells[peer.name, count] = (float(written), float(bytes_below(place)))
        payload = cells[BARE, count][1]
        for peer in peers:
            written_bytes, kept = cells[peer.name, count]
            cells[peer.name, count] = (written_bytes / payload, kept / payload)
    most = max(counts)
    return Findings(
        [_table(cells, counts)],
        {"written": cells[OWN, most][0], "on_disk": cells[OWN, most][1]},
        [_picture(histories, sizes)],
    )


def _table(cells: dict[tuple[str, int], tuple[float, float]], counts: list[int]) -> Table:
    names = list(dict.fromkeys(name for name, _ in cells))
    rows = []
    for name in names:
        row = [name]
        for count in counts:
            found = cells.get((name, count))
            row += [f"{found[0]:.2f}", f"{found[1]:.2f}"] if found else ["–", "–"]
        rows.append(tuple(row))
    columns = ["contender"]
    for count in counts:
        columns += [f"{count:,} events: written", "on disk"]
    note = (
        "For each byte of what bare writes. Written is what was handed to the system in writes, "
        "which the disk sees in whole sectors; a file that grows ahead counts with its filler."
    )
    return Table("Bytes for each byte of payload", note, tuple(columns), rows)


def _picture(histories: Histories, sizes: Sizes) -> Picture:
    """Of the histories that were loaded in large batches."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for count in sizes.histories:
        for peer in chosen(*RIVALS, events=count):
            size = bytes_below(histories.path(peer.name, count)) / 1e6
            lines.setdefault(peer.name, []).append((count, size))
    return Picture("disk", "On disk", "events of history", "MB", lines)


@pytest.mark.parametrize("peer", chosen(*RIVALS), ids=lambda peer: peer.name)
def test_what_is_on_disk_was_written(tmp_path: Path, peer) -> None:
    written = measure.bytes_written(_WRITE, peer.name, str(tmp_path / "s"), "20")
    payload = sum(len(str(data)) for _, data in generate_events(1, count=20))
    assert written > 0.8 * payload
