"""Opening a session by length of its history: time and memory must not depend on it (P8).

Goal: 100,000 events within 1.5 times of 1,000, with a state that does not grow.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from benchmarks import measure
from benchmarks.workload import build_session, open_engine

SIZES = (1_400, 100_400)
_OPEN = """
import sys
from pathlib import Path
from benchmarks.workload import open_engine
from durasess.engine import codec, frames, opening
import portalocker
start()
engine = open_engine(Path(sys.argv[1]), mode="read")
assert engine.last_seq == int(sys.argv[2])
"""


def reopened(directory: Path) -> int:
    """Open for writing as after a kill, and let go again as a kill would."""
    engine = open_engine(directory)
    seq = engine.last_seq
    engine.abandon()
    return seq


def recovery_ratio(directory: Path, sizes: tuple[int, ...], *, rounds: int) -> dict[int, float]:
    """Median seconds until ready, by history length, taking turns."""
    for size in sizes:
        build_session(directory / f"s{size}", size)
        assert reopened(directory / f"s{size}") == size
    found = measure.interleaved(
        {str(size): (lambda size=size: reopened(directory / f"s{size}")) for size in sizes},
        rounds=rounds,
    )
    return {int(name): seconds for name, seconds in found.items()}


def recovery_memory(directory: Path, size: int) -> int:
    """Bytes of memory that opening for reading takes, in a fresh interpreter."""
    return measure.peak_memory(_OPEN, str(directory / f"s{size}"), str(size))


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


def test_every_size_recovers_whole(tmp_path: Path) -> None:
    found = recovery_ratio(tmp_path, (50, 500), rounds=2)
    assert set(found) == {50, 500}
    assert recovery_memory(tmp_path, 500) >= 0
