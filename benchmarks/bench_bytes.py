"""Bytes for each byte of payload: handed to the system while a session is written, and on disk when
it is closed. Each contender writes one durable event after the other in a fresh interpreter."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from benchmarks import measure
from benchmarks.findings import Findings, Picture, Sizes, Table
from benchmarks.histories import Histories
from benchmarks.peers.peer import bytes_below
from benchmarks.peers.registry import BARE, OWN, chosen
from benchmarks.workload import open_engine
from durasess.cli.workload import generate_events
from durasess.engine import paths
from durasess.engine.files import RealFiles
from durasess.engine.types import FILLER

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
    device: dict[tuple[str, int], float | None] = {}
    counts = sorted({min(LANGGRAPH_EVENTS, *sizes.written), *sizes.written, sizes.written_alone})
    cells: dict[tuple[str, int], tuple[float, float]] = {}
    for count in counts:
        peers = chosen(*(ALONE if count > max(sizes.written) else RIVALS), events=count)
        for peer in peers:
            place = directory / f"{peer.name} {count}"
            before = measure.device_bytes(directory)
            written = measure.bytes_written(_WRITE, peer.name, str(place), str(count))
            after = measure.device_bytes(directory)
            device[peer.name, count] = None if before is None else float((after or 0) - before)
            cells[peer.name, count] = (float(written), float(bytes_below(place)))
        payload = cells[BARE, count][1]
        for peer in peers:
            sent = device[peer.name, count]
            device[peer.name, count] = None if sent is None else sent / payload
            written_bytes, kept = cells[peer.name, count]
            cells[peer.name, count] = (written_bytes / payload, kept / payload)
    most = max(counts)
    figures = {"written": cells[OWN, most][0], "on_disk": cells[OWN, most][1]}
    sent, bare = device[OWN, most], device[BARE, most]
    if sent and bare:
        figures["device_bare"] = sent / bare
    return Findings(
        [
            _table(cells, counts),
            _device_table(device, counts),
            _parts(directory, max(sizes.written)),
        ],
        figures,
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


def _device_table(cells: dict[tuple[str, int], float | None], counts: list[int]) -> Table:
    rows = []
    for name in dict.fromkeys(name for name, _ in cells):
        found = [cells.get((name, count)) for count in counts]
        rows.append((name, *("–" if one is None else f"{one:.1f}" for one in found)))
    columns = ("contender", *(f"{count:,} events" for count in counts))
    note = (
        "What the disk was sent for each byte of payload, by its own count: whole blocks, and what "
        "the file system writes of its own, with whatever other programs wrote meanwhile."
    )
    return Table("Bytes that the disk was sent", note, columns, rows)


class _CountedFiles(RealFiles):
    """Counts what it is given to write, by what it is for."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self._parts: dict[int, str] = {}

    def create(self, path: str) -> int:
        return self._seen(super().create(path), path)

    def open(self, path: str, *, write: bool = False) -> int:
        return self._seen(super().open(path, write=write), path)

    def _seen(self, fd: int, path: str) -> int:
        name = paths.base(path)
        kind = paths.parse(name.removesuffix(paths.TMP)).kind
        self._parts[fd] = "compressed segments" if name == paths.COMPRESSING else _PARTS[kind]
        return fd

    def write_at(self, fd: int, data: bytes, offset: int) -> int:
        part = self._parts[fd]
        lines = len(data.rstrip(FILLER)) if part == _PARTS["segment"] else len(data)
        self._count(part, lines)
        if lines < len(data):
            self._count("filler", len(data) - lines)
        return super().write_at(fd, data, offset)

    def _count(self, part: str, size: int) -> None:
        self.bytes[part] += size
        self.calls[part] += 1


_PARTS = {
    "segment": "lines of segments",
    "lock": "anchor",
    "snapshot": "snapshots",
    "meta": "meta, owner",
    "owner": "meta, owner",
    "foreign": "meta, owner",
}


def _parts(directory: Path, count: int) -> Table:
    """What durasess writes, one durable event after the other."""
    disk = _CountedFiles()
    events = list(generate_events(1, count=count))
    encode = msgspec.json.Encoder().encode
    payload = sum(len(encode({"type": type, "data": data})) + 1 for type, data in events)
    with open_engine(os.path.realpath(directory / "parts"), files=disk) as engine:
        for type, data in events:
            engine.append(type, data)
    rows = [
        (part, f"{size / payload:.3f}", f"{disk.calls[part]:,}")
        for part, size in disk.bytes.most_common()
    ]
    rows.append(("together", f"{sum(disk.bytes.values()) / payload:.3f}", ""))
    note = (
        f"{count:,} events, for each byte of payload. Filler lies in blocks that are sent anyway."
    )
    return Table("What durasess writes", note, ("part", "bytes", "writes"), rows)


def _picture(histories: Histories, sizes: Sizes) -> Picture:
    """Of the histories that were loaded in large batches."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for count in sizes.histories:
        for peer in chosen(*RIVALS, events=count):
            size = bytes_below(histories.path(peer.name, count)) / 1e6
            lines.setdefault(peer.name, []).append((count, size))
    return Picture("disk", "On disk", "events of history", "MB", lines)


def test_the_parts_are_all_that_is_written(tmp_path: Path) -> None:
    table = _parts(tmp_path, 20)
    parts = [float(row[1]) for row in table.rows]
    assert sum(parts[:-1]) == pytest.approx(parts[-1], abs=0.01)
    assert {"lines of segments", "filler", "anchor"} <= {row[0] for row in table.rows}


@pytest.mark.parametrize("peer", chosen(*RIVALS), ids=lambda peer: peer.name)
def test_what_is_on_disk_was_written(tmp_path: Path, peer) -> None:
    written = measure.bytes_written(_WRITE, peer.name, str(tmp_path / "s"), "20")
    payload = sum(len(str(data)) for _, data in generate_events(1, count=20))
    assert written > 0.8 * payload
