"""All figures in one run: `python -m benchmarks [DIRECTORY]`, on a disk, not on a tmpfs."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from benchmarks.bench_append import append_ratio
from benchmarks.bench_recovery import SIZES, recovery_memory, recovery_ratio
from benchmarks.bench_sharing import PROCESSES, events_a_second
from benchmarks.bench_snapshot_every import cost_of


def main(arguments: list[str]) -> int:
    """Measure and print ratios."""
    base = arguments[0] if arguments else None
    with tempfile.TemporaryDirectory(dir=base, prefix="durasess-bench-") as name:
        directory = Path(name)
        found = append_ratio(directory, rounds=2000)
        ratio = found["durasess"] / found["bare"]
        print(
            f"durable append: bare {found['bare'] * 1e6:.0f} µs, durasess "
            f"{found['durasess'] * 1e6:.0f} µs, ratio {ratio:.2f}"
        )
        rates = events_a_second(directory, count=300, rounds=3)
        print(
            f"{PROCESSES} processes on one session: bare {rates['bare']:.0f} a second, durasess "
            f"{rates['durasess']:.0f}, ratio {rates['durasess'] / rates['bare']:.2f}"
        )
        times = recovery_ratio(directory, SIZES, rounds=31)
        small, large = (times[size] for size in SIZES)
        print(
            f"open after a kill: {SIZES[0]} events {small * 1e3:.2f} ms, {SIZES[1]} events "
            f"{large * 1e3:.2f} ms, ratio {large / small:.2f}"
        )
        for size in SIZES:
            memory = recovery_memory(directory, size) / 1024 / 1024
            print(f"memory to open {size} events: {memory:.1f} MiB")
        for every in (100, 300, 1000, 3000):
            total, longest, reopen = cost_of(directory, every, 5000)
            print(
                f"snapshot_every={every}: 5000 appends {total:.2f} s, longest "
                f"{longest * 1e3:.1f} ms, reopen {reopen * 1e3:.1f} ms"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
