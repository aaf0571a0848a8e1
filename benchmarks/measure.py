"""Measuring side by side: contenders take turns in one run, so that drift hits all alike."""

from __future__ import annotations

import gc
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

_PROGRAM = """
import sys
from pathlib import Path
def _number(path, name):
    for line in Path(path).read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1])
    raise SystemExit(f"{path} has no {name}")
def peak_memory():
    return _number("/proc/self/status", "VmHWM") * 1024
def bytes_written():
    return _number("/proc/self/io", "wchar")
base = [0]
def start():
    base[0] = READ()
CODE
print(READ() - base[0])
"""
"""VmHWM begins anew with each program; getrusage's maximum is handed down by a large parent."""


def interleaved(contenders: Mapping[str, Callable[[], object]], *, rounds: int) -> dict[str, float]:
    """The median time of one call of each contender, in seconds; they take turns."""
    times = samples(contenders, rounds=rounds)
    return {name: statistics.median(found) for name, found in times.items()}


def samples(
    contenders: Mapping[str, Callable[[], object]], *, rounds: int
) -> dict[str, list[float]]:
    """The times of all calls of each contender, in seconds; they take turns."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    gc.collect()
    for _ in range(rounds):
        for name, call in contenders.items():
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    return times


def medians(contenders: Mapping[str, Callable[[], float]], *, rounds: int) -> dict[str, float]:
    """The median of what each contender returns, one call of each in a round."""
    found: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, call in contenders.items():
            found[name].append(call())
    return {name: statistics.median(values) for name, values in found.items()}


def percentile(values: list[float], percent: float) -> float:
    """The value that `percent` per cent of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def peak_memory(code: str, *arguments: str) -> int:
    """Bytes by which `code`, run in a fresh interpreter, raised the peak resident size after its
    line `start()`. Linux only."""
    return _in_a_fresh_interpreter("peak_memory", code, arguments)


def bytes_written(code: str, *arguments: str) -> int:
    """Bytes that `code`, run in a fresh interpreter, handed to the system in writes after its line
    `start()`. Linux only."""
    return _in_a_fresh_interpreter("bytes_written", code, arguments)


def device_bytes(path: Path) -> int | None:
    """Bytes that the disk below `path` was sent since it was started, by whomever, with what waited
    in memory until now. None where the system has no count for it."""
    device = os.stat(path).st_dev
    try:
        counts = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat")
        os.sync()
        return int(counts.read_text().split()[6]) * 512
    except (OSError, AttributeError):
        return None


def import_time(code: str, bytecode: str) -> float:
    """Seconds that a fresh interpreter takes for `code`, from start to end. Compiled modules are
    kept below the directory `bytecode`, whatever this interpreter does with its own."""
    environment = {**_environment(), "PYTHONPYCACHEPREFIX": bytecode}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    return time.perf_counter() - begin


def _in_a_fresh_interpreter(read: str, code: str, arguments: tuple[str, ...]) -> int:
    program = _PROGRAM.replace("READ", read).replace("CODE", code)
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env=_environment(),
    )
    return int(done.stdout.split()[-1])


def _environment() -> dict[str, str]:
    """So that the fresh interpreter finds what this one does."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
