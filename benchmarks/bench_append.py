"""One writer's append beside what it cannot be faster than, one write and one fdatasync of the same
bytes, and beside other stores; in an empty session and behind a long history.

Goal: within 1.35 times the bare loop's median. Many writers at once are in bench_writers.py.
"""

from __future__ import annotations

import itertools
import os
import queue
import statistics
import threading
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from benchmarks import measure
from benchmarks.findings import TINY, Findings, Picture, Sizes, Table, microseconds, times
from benchmarks.histories import Histories
from benchmarks.peers.peer import Events
from benchmarks.peers.registry import BARE, OWN, PEERS, chosen
from durasess.cli.workload import generate_events
from durasess.engine import codec, values

RIVALS = (OWN, "article", "sqlite full", "sqlite normal", "agents", "eventsourcing", "jsonl")
HANDED_OVER = "bare, handed over"
LONG = ("article", OWN, "sqlite full", "agents")
"""Contenders whose appends are measured behind a long history too."""
PERCENTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9)


def measured(directory: Path, sizes: Sizes) -> Findings:
    """Latency of one append: medians, the slowest in a hundred, and their distribution."""
    events = list(generate_events(1, count=sizes.appends))
    with ExitStack() as stack:
        lines = encoded_lines(sizes.appends)
        calls: dict[str, Callable[[], object]] = {
            BARE: bare_loop(directory / "bare.jsonl", lines),
            HANDED_OVER: in_a_thread(stack, bare_loop(directory / "handed.jsonl", lines)),
        }
        for peer in chosen(*RIVALS):
            handle = stack.enter_context(closing(peer.open(directory / peer.name)))
            calls[peer.name] = _append_next(handle.append, events)
        found = measure.samples(calls, rounds=sizes.appends)
    medians = {name: statistics.median(values) for name, values in found.items()}
    rows = [
        (
            name,
            microseconds(medians[name]),
            microseconds(measure.percentile(values, 99)),
            microseconds(max(values)),
            f"{len(values) / sum(values):,.0f}",
            times(medians[name], medians[BARE]),
        )
        for name, values in found.items()
    ]
    columns = ("contender", "median", "p99", "slowest", "a second", "median to bare")
    note = (
        f"{sizes.appends:,} appends each, call by call in turns. bare is one write and one "
        "fdatasync of lines that were encoded before; handed over is the same in another thread, "
        "which is the floor of one committer for all; jsonl and sqlite normal do not wait for the "
        "disk."
    )
    all_in_turns = Findings(
        [Table("Append, one thread", note, columns, rows)],
        {
            "append_one": medians[OWN] / medians[BARE],
            "append_sqlite": medians[OWN] / medians["sqlite full"],
        },
        [_distribution(found)],
    )
    all_in_turns.add(_in_a_loop(directory / "loop", sizes))
    return all_in_turns


def _in_a_loop(directory: Path, sizes: Sizes) -> Findings:
    """What the other contenders leave in the processor's caches is in the first table."""
    lines = encoded_lines(sizes.appends)
    events = list(generate_events(1, count=sizes.appends))
    directory.mkdir()
    with ExitStack() as stack:
        calls = {BARE: bare_loop(directory / "bare.jsonl", lines)}
        for peer in chosen(OWN, "sqlite full"):
            handle = stack.enter_context(closing(peer.open(directory / peer.name)))
            calls[peer.name] = _append_next(handle.append, events)
        found = measure.interleaved(calls, rounds=sizes.appends)
    rows = [(name, microseconds(value), times(value, found[BARE])) for name, value in found.items()]
    columns = ("contender", "median", "median to bare")
    note = "Call by call in turns, nothing else between them: nearer to what a loop of appends is."
    return Findings(
        [Table("The same, these three alone", note, columns, rows)],
        {
            "append_loop": found[OWN] / found[BARE],
            "append_loop_sqlite": found[OWN] / found["sqlite full"],
        },
    )


def behind_a_long_history(histories: Histories, sizes: Sizes) -> Findings:
    """Mean cost of an append behind the longest history against an empty session: what grows."""
    longest = max(sizes.histories)
    rows: list[tuple[str, ...]] = []
    figures: dict[str, float] = {}
    for peer in chosen(*LONG, events=longest):
        with (
            closing(peer.open(histories.directory / f"empty {peer.name}")) as empty,
            closing(peer.open(histories.copy(peer.name, longest))) as full,
        ):
            events = list(generate_events(2, count=sizes.appends))
            half = events[: len(events) // 4] if peer.name == "article" else events
            calls = {
                "empty": _append_next(empty.append, half),
                "full": _append_next(full.append, half),
            }
            found = measure.samples(calls, rounds=len(half))
        means = {name: statistics.mean(values) for name, values in found.items()}
        figures[f"append_long {peer.name}"] = means["full"] / means["empty"]
        if peer.name == OWN:
            figures["stall_long_ms"] = max(found["full"]) * 1e3
        rows.append(
            (
                peer.name,
                microseconds(means["empty"]),
                microseconds(means["full"]),
                times(means["full"], means["empty"]),
                microseconds(max(found["full"])),
            )
        )
    columns = ("contender", "empty", f"{longest:,} events", "ratio", "slowest of the latter")
    note = (
        f"Means with the snapshots in them, {sizes.appends:,} appends each, a quarter of that for "
        "article, the two in turns."
    )
    return Findings([Table("Mean append behind a long history", note, columns, rows)], figures)


def _append_next(append: Callable[..., object], events: Events) -> Callable[[], object]:
    following = itertools.cycle(events)
    return lambda: append(*next(following))


def _distribution(found: dict[str, list[float]]) -> Picture:
    lines = {
        name: [
            (index + 1.0, measure.percentile(values, percent) * 1e6)
            for index, percent in enumerate(PERCENTILES)
        ]
        for name, values in found.items()
    }
    return Picture(
        "latency",
        "Append, one thread: latency by percentile",
        "per cent of the appends that are not slower",
        "µs",
        lines,
        tuple((index + 1.0, f"{percent:g}") for index, percent in enumerate(PERCENTILES)),
    )


def bare_loop(path: Path, lines: list[bytes]) -> Callable[[], None]:
    """One call: one write and one fdatasync of the next line."""
    fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    following = itertools.cycle(lines)

    def append() -> None:
        os.write(fd, next(following))
        os.fdatasync(fd)

    return append


def in_a_thread(stack: ExitStack, work: Callable[[], None]) -> Callable[[], None]:
    """One call: the work, done by another thread while the caller waits."""
    waiting: queue.SimpleQueue[threading.Lock | None] = queue.SimpleQueue()

    def answer() -> None:
        while (one := waiting.get()) is not None:
            work()
            one.release()

    def hand_over() -> None:
        done = threading.Lock()
        done.acquire()
        waiting.put(done)
        done.acquire()

    threading.Thread(target=answer, daemon=True).start()
    stack.callback(waiting.put, None)
    return hand_over


def encoded_lines(count: int) -> list[bytes]:
    """The bytes that the engine would write for the generated events."""
    lines = []
    chain = 0
    for seq, (kind, data) in enumerate(generate_events(1, count=count), 1):
        body = codec.body(
            type=kind,
            data=codec.encode(values.plain(data)),
            run_id=None,
            call_id=None,
            event_id=None,
        )
        line, chain = codec.event_line(seq, "2026-01-01T00:00:00.000000Z", None, body, chain)
        lines.append(line)
    return lines


@pytest.mark.benchmark(group="append")
@pytest.mark.parametrize("name", PEERS)
def test_append(benchmark, tmp_path: Path, name: str) -> None:
    peer = PEERS[name]
    if peer.missing:
        pytest.skip(peer.missing)
    with closing(peer.open(tmp_path)) as handle:
        benchmark(_append_next(handle.append, list(generate_events(1, count=500))))
        assert handle.count() >= 1


@pytest.mark.benchmark(group="append")
def test_bare_write_and_fdatasync(benchmark, tmp_path: Path) -> None:
    benchmark(bare_loop(tmp_path / "bare.jsonl", encoded_lines(500)))
    assert (tmp_path / "bare.jsonl").stat().st_size > 0


def test_every_contender_here_is_in_the_table(tmp_path: Path) -> None:
    found = measured(tmp_path, TINY)
    assert [row[0] for row in found.tables[0].rows] == [
        BARE,
        HANDED_OVER,
        *[one.name for one in chosen(*RIVALS)],
    ]
