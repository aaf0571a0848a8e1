"""Four processes on one session beside four processes that do the least, flock, write, fsync, and
beside four on one SQLite database.

Goal: not below the bare loop. They take turns, in rounds, so that drift hits all alike.
"""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import time
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

import durasess
from benchmarks import measure
from benchmarks.bench_append import encoded_lines
from benchmarks.findings import Findings, Sizes, Table, rate_rows
from benchmarks.peers.sqlite_rows import Rows
from durasess.cli.workload import generate_events

PROCESSES = 4
ROUNDS = 3


def measured(directory: Path, sizes: Sizes) -> Findings:
    """Appends a second over all processes."""
    rates = events_a_second(directory, count=sizes.each_writer * 4, rounds=ROUNDS)
    note = (
        f"{sizes.each_writer * 4} appends of each process in each of {ROUNDS} rounds. bare takes "
        "flock, writes a line that was encoded before, and syncs inside the lock."
    )
    columns = ("contender", "appends a second", "to bare")
    rows = rate_rows(rates, "bare")
    return Findings(
        [Table(f"{PROCESSES} processes on one session", note, columns, rows)],
        {
            "processes_bare": rates["durasess"] / rates["bare"],
            "processes_sqlite": rates["durasess"] / rates["sqlite full"],
        },
    )


def _bare(path: str, count: int, barrier: Barrier) -> None:
    import fcntl

    lines = encoded_lines(count)
    lock = os.open(f"{path}.lock", os.O_CREAT | os.O_RDWR, 0o600)
    fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    barrier.wait()
    for line in lines:
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.write(fd, line)
        os.fsync(fd)
        fcntl.flock(lock, fcntl.LOCK_UN)
    barrier.wait()


def _durasess(path: str, count: int, barrier: Barrier) -> None:
    events = list(generate_events(1, count=count))
    with durasess.Engine.open(
        path, initial=int, apply=lambda state, event: state + 1, mode="shared"
    ) as engine:
        barrier.wait()
        for kind, data in events:
            engine.append(kind, data)
        barrier.wait()


def _sqlite(path: str, count: int, barrier: Barrier) -> None:
    events = list(generate_events(1, count=count))
    with contextlib.closing(Rows(Path(path))) as rows:
        barrier.wait()
        for kind, data in events:
            rows.append(kind, data)
        barrier.wait()


def events_a_second(directory: Path, *, count: int, rounds: int) -> dict[str, float]:
    """Appends a second over all processes, the median of the rounds."""
    number = itertools.count()
    contenders = {"bare": _bare, "durasess": _durasess, "sqlite full": _sqlite}
    return measure.medians(
        {
            name: lambda name=name, work=work: _rate(
                work, str(directory / f"{name}-{next(number)}"), count
            )
            for name, work in contenders.items()
        },
        rounds=rounds,
    )


def _rate(work: object, path: str, count: int) -> float:
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(PROCESSES + 1)
    workers = [
        context.Process(target=work, args=(path, count, barrier))  # type: ignore[arg-type]
        for _ in range(PROCESSES)
    ]
    for worker in workers:
        worker.start()
    barrier.wait()
    started = time.perf_counter()
    barrier.wait()
    taken = time.perf_counter() - started
    for worker in workers:
        worker.join()
    return PROCESSES * count / taken


@pytest.mark.benchmark(group="sharing")
def test_four_processes_append_what_they_are_given(tmp_path: Path) -> None:
    found = events_a_second(tmp_path, count=5, rounds=1)
    assert min(found.values()) > 0
    with durasess.Engine.open(tmp_path / "durasess-1", mode="read") as engine:
        assert engine.last_seq == PROCESSES * 5
