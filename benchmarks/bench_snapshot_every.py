"""What `snapshot_every` costs appends and saves recovery: the figure behind its default.

Appends are not timed against a clock here but in turns; the sizes are small in tests.
"""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks.bench_recovery import reopened
from benchmarks.workload import open_engine
from durasess.cli.workload import generate_events


def cost_of(directory: Path, every: int, count: int) -> tuple[float, float, float]:
    """(seconds for `count` appends, longest append in seconds, seconds to reopen after a kill)."""
    events = list(generate_events(1, count=count))
    engine = open_engine(directory / f"every{every}", snapshot_every=every)
    longest = 0.0
    begin = time.perf_counter()
    for event in events:
        start = time.perf_counter()
        engine.append(*event)
        longest = max(longest, time.perf_counter() - start)
    total = time.perf_counter() - begin
    engine.abandon()
    start = time.perf_counter()
    assert reopened(directory / f"every{every}") == count
    return total, longest, time.perf_counter() - start


def test_both_settings_keep_every_event(tmp_path: Path) -> None:
    assert len(cost_of(tmp_path, 10, 30)) == 3
    assert len(cost_of(tmp_path, 1000, 30)) == 3
