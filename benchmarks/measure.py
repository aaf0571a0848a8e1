"""Measuring side by side: contenders take turns in one run, so that drift hits all alike."""

from __future__ import annotations

import gc
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping


def interleaved(contenders: Mapping[str, Callable[[], object]], *, rounds: int) -> dict[str, float]:
    """The median time of one call of each contender, in seconds; they take turns."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    gc.collect()
    for _ in range(rounds):
        for name, call in contenders.items():
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(found) for name, found in times.items()}


def peak_memory(code: str, *arguments: str) -> int:
    """Bytes by which `code`, run in a fresh interpreter, raised the peak resident size after its
    line `start()`."""
    program = (
        "import resource, sys\n"
        "def peak():\n"
        "    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024\n"
        "base = [0]\n"
        "def start():\n"
        "    base[0] = peak()\n"
        f"{code}\n"
        "print(peak() - base[0])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True
    )
    return int(done.stdout.split()[-1])
