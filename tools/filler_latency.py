"""What filler in the active segment is worth: durable appends on freshly made file systems.

    python -m tools.filler_latency [--appends 1500] [--directory DIR]

One append after the other in turns, on a loop-mounted ext4 with its log and on XFS, whose images
lie in DIR; prints a Markdown table of medians. Needs root.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from durasess import Engine

# By name, because tests are not typed like the package.
loop_disk: Any = importlib.import_module("tests.support.loop_disk")

TEXT = "z" * 400
DATA = {"role": "assistant", "text": TEXT}
LINE = b'{"seq":1,"ts":"2026-01-01T00:00:00.000000Z","type":"n","data":{"text":"%s"}}\n' % (
    TEXT.encode()
)
WARM_UP = 50
FILLED = 64 * 1024 * 1024


@contextlib.contextmanager
def engine(path: Path, preallocate: int | None) -> Iterator[Callable[[], None]]:
    """Appends of the library; None: as it is by default."""
    more: dict[str, Any] = {} if preallocate is None else {"preallocate": preallocate}
    with Engine.open(path, snapshot_every=1_000_000, **more) as handle:
        yield lambda: _ignore(handle.append("n", DATA))


@contextlib.contextmanager
def sqlite(path: Path) -> Iterator[Callable[[], None]]:
    """One row and one commit, synchronous=FULL."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("CREATE TABLE events (seq INTEGER PRIMARY KEY, line TEXT)")
        line = LINE.decode()
        yield lambda: _ignore(connection.execute("INSERT INTO events (line) VALUES (?)", (line,)))


@contextlib.contextmanager
def bare(path: Path, filled: int) -> Iterator[Callable[[], None]]:
    """One write and one fdatasync, in a file that has `filled` bytes already."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    offset = 0
    try:
        os.pwrite(fd, b"\t" * filled, 0)
        os.fsync(fd)

        def append() -> None:
            nonlocal offset
            offset += os.pwrite(fd, LINE, offset)
            os.fdatasync(fd)

        yield append
    finally:
        os.close(fd)


def _ignore(result: Any) -> None:
    """Nothing is done with it."""


def medians(root: Path, appends: int) -> dict[str, float]:
    """Seconds of the median append of each contender, measured in turns."""
    with contextlib.ExitStack() as stack:
        calls = {
            "durasess, as it is by default": stack.enter_context(engine(root / "filler", None)),
            "durasess, `preallocate=0`": stack.enter_context(engine(root / "plain", 0)),
            "SQLite, WAL, FULL": stack.enter_context(sqlite(root / "db.sqlite")),
            "a file that grows, write + fdatasync": stack.enter_context(bare(root / "grows", 0)),
            "the same in a file filled before": stack.enter_context(bare(root / "filled", FILLED)),
        }
        samples: dict[str, list[float]] = {name: [] for name in calls}
        for turn in range(WARM_UP + appends):
            for name, call in calls.items():
                started = time.perf_counter()
                call()
                if turn >= WARM_UP:
                    samples[name].append(time.perf_counter() - started)
    return {name: statistics.median(values) for name, values in samples.items()}


def main(arguments: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="filler_latency", description=__doc__.splitlines()[0])
    parser.add_argument("--appends", type=int, default=1500)
    parser.add_argument("--directory", type=Path, default=Path(tempfile.gettempdir()))
    options = parser.parse_args(arguments)
    columns: dict[str, dict[str, float]] = {}
    for kind in (loop_disk.EXT4, loop_disk.XFS):
        with tempfile.TemporaryDirectory(dir=options.directory) as place:
            disk = loop_disk.LoopDisk(kind._replace(megabytes=400), Path(place))
            with contextlib.closing(disk):
                disk.make()
                disk.attach()
                disk.mount()
                columns[kind.name] = medians(disk.root, options.appends)
    print(f"| | {' | '.join(f'{name}, median µs | to durasess' for name in columns)} |")
    print("|---|" + "---:|---:|" * len(columns))
    first = {name: next(iter(column.values())) for name, column in columns.items()}
    for contender in next(iter(columns.values())):
        cells = [
            f"{column[contender] * 1e6:,.0f} | {column[contender] / first[name]:.2f}×"
            for name, column in columns.items()
        ]
        print(f"| {contender} | {' | '.join(cells)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
