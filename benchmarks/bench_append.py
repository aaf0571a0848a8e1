"""A durable append beside what it cannot be faster than: one write and one fdatasync.

Goal: within 1.5 times the bare loop's median. Not a goal: many writers at once.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import measure
from benchmarks.workload import open_engine
from durasess.cli.workload import generate_events
from durasess.engine import codec, values

EVENTS = 2000


def bare_loop(path: Path, lines: list[bytes]) -> Callable[[], None]:
    """One call: one write and one fdatasync of the next line."""
    fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    following = itertools.cycle(lines)

    def append() -> None:
        os.write(fd, next(following))
        os.fdatasync(fd)

    return append


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


def append_ratio(directory: Path, *, rounds: int) -> dict[str, float]:
    """Median seconds of a durable append and of the bare loop, taking turns."""
    events = list(generate_events(1, count=rounds))
    bare = bare_loop(directory / "bare.jsonl", encoded_lines(rounds))
    with open_engine(directory / "session") as engine:
        following = itertools.cycle(events)
        found = measure.interleaved(
            {"bare": bare, "durasess": lambda: engine.append(*next(following))}, rounds=rounds
        )
        assert engine.last_seq == rounds
    return found


@pytest.mark.benchmark(group="append")
def test_append_one_writer(benchmark, tmp_path: Path) -> None:
    events = itertools.cycle(list(generate_events(1, count=500)))
    with open_engine(tmp_path / "session") as engine:
        benchmark(lambda: engine.append(*next(events)))
        assert engine.last_seq >= 1


@pytest.mark.benchmark(group="append")
def test_bare_write_and_fdatasync(benchmark, tmp_path: Path) -> None:
    benchmark(bare_loop(tmp_path / "bare.jsonl", encoded_lines(500)))
    assert (tmp_path / "bare.jsonl").stat().st_size > 0


def test_both_append_what_they_are_given(tmp_path: Path) -> None:
    found = append_ratio(tmp_path, rounds=20)
    assert set(found) == {"bare", "durasess"}
