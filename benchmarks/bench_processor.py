"""Processor time of a durable append beyond the system calls: alone, and where many share a batch.

Goal: 60 µs alone, 30 µs in a full batch. The hand-over to a thread and back is in all of them; what
it costs by itself, around a bare write and sync, stands beside them.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from benchmarks.bench_append import HANDED_OVER, encoded_lines, in_a_thread
from benchmarks.findings import TINY, Findings, Sizes, Table, microseconds
from benchmarks.peers.peer import Events
from benchmarks.workload import open_engine
from durasess import Engine
from durasess.cli.workload import generate_events
from durasess.engine.files import RealFiles

BATCH = 64
NEVER = 1 << 40
"""Snapshots have benchmarks of their own."""


class Timed(RealFiles):
    """The disk; `spent` is the processor time in seconds of the calls that an append makes."""

    def __init__(self) -> None:
        super().__init__()
        self.spent = 0.0

    def write_at(self, fd: int, data: bytes, offset: int) -> int:
        """Of the batch and of the anchor."""
        begin = time.thread_time()
        taken = super().write_at(fd, data, offset)
        self.spent += time.thread_time() - begin
        return taken

    def sync(self, fd: int) -> None:
        """Once for each batch."""
        begin = time.thread_time()
        super().sync(fd)
        self.spent += time.thread_time() - begin

    def size(self, fd: int) -> int:
        """Before each write."""
        begin = time.thread_time()
        found = super().size(fd)
        self.spent += time.thread_time() - begin
        return found

    def leads_to(self, path: str, fd: int) -> bool:
        """Of `owner` and of the segment."""
        begin = time.thread_time()
        found = super().leads_to(path, fd)
        self.spent += time.thread_time() - begin
        return found


def measured(directory: Path, sizes: Sizes) -> Findings:
    """The median of the rounds, the ways in turns."""
    events = list(generate_events(1, count=max(BATCH, sizes.appends // BATCH * BATCH)))
    lines = encoded_lines(len(events))
    ways: dict[str, Callable[[Engine, Events], None]] = {
        "alone": _alone,
        f"append_many of {BATCH}": _many,
        f"{BATCH} asyncio tasks": _tasks,
    }
    found: dict[str, list[float]] = {name: [] for name in (HANDED_OVER, *ways)}
    for number in range(sizes.rounds):
        found[HANDED_OVER].append(_handed_over(directory / f"bare{number}", lines))
        for index, (name, way) in enumerate(ways.items()):
            found[name].append(beyond_the_calls(directory / f"s{number}-{index}", events, way))
    medians = {name: statistics.median(values) for name, values in found.items()}
    note = (
        f"{len(events):,} events in each of {sizes.rounds} rounds; processor time of all threads "
        "without that of write, sync and looking at names. Encoding, decoding and the program's "
        "reducer are in it. After each wait for the disk the processor begins cold."
    )
    rows = [(name, microseconds(value)) for name, value in medians.items()]
    table = Table("Processor time of an event", note, ("", "each event"), rows)
    figures = {
        "processor_alone_us": medians["alone"] * 1e6,
        "processor_batch_us": medians[f"{BATCH} asyncio tasks"] * 1e6,
    }
    return Findings([table], figures)


def beyond_the_calls(
    directory: Path, events: Events, way: Callable[[Engine, Events], None]
) -> float:
    """Seconds of processor time for each event, in a new session."""
    disk = Timed()
    with open_engine(directory, snapshot_every=NEVER, files=disk) as engine:
        engine.append(*events[0])
        disk.spent, begin = 0.0, time.process_time()
        way(engine, events)
        found = time.process_time() - begin - disk.spent
        assert engine.last_seq == len(events) + 1
    return found / len(events)


def _alone(engine: Engine, events: Events) -> None:
    for type, data in events:
        engine.append(type, data)


def _many(engine: Engine, events: Events) -> None:
    following = iter(events)
    while batch := list(itertools.islice(following, BATCH)):
        engine.append_many(batch)


def _tasks(engine: Engine, events: Events) -> None:
    async def append_all(own: Events) -> None:
        for type, data in own:
            await engine.append_async(type, data)

    async def all_tasks() -> None:
        await asyncio.gather(*[append_all(events[first::BATCH]) for first in range(BATCH)])

    asyncio.run(all_tasks())


def _handed_over(path: Path, lines: list[bytes]) -> float:
    """Seconds of processor time for each line, written and synced by another thread."""
    disk = Timed()
    fd = disk.create(str(path))
    following = enumerate(lines)

    def write() -> None:
        number, line = next(following)
        disk.write_at(fd, line, number * len(line))
        disk.sync(fd)

    with ExitStack() as stack:
        hand_over = in_a_thread(stack, write)
        disk.spent, begin = 0.0, time.process_time()
        for _ in lines:
            hand_over()
        found = time.process_time() - begin - disk.spent
    disk.close(fd)
    return found / len(lines)


def test_every_way_is_measured(tmp_path: Path) -> None:
    found = measured(tmp_path, TINY)
    assert [row[0] for row in found.tables[0].rows] == [
        HANDED_OVER,
        "alone",
        "append_many of 64",
        "64 asyncio tasks",
    ]
    assert all(value > 0 for value in found.figures.values())
