"""All figures in one run: `python -m benchmarks DIRECTORY`, on a disk, not on a tmpfs."""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks import (
    bench_append,
    bench_bytes,
    bench_import,
    bench_importing,
    bench_listing,
    bench_processor,
    bench_reading,
    bench_recovery,
    bench_sessions,
    bench_sharing,
    bench_snapshot_every,
    bench_writers,
    machine,
    report,
    targets,
)
from benchmarks.findings import FULL, QUICK, Findings, Sizes
from benchmarks.histories import Histories

MILLION = 1_000_400


def main(arguments: list[str]) -> int:
    """Measure, print the tables and the targets, and write the report when one is asked for."""
    asked = _parser().parse_args(arguments)
    sizes = QUICK if asked.quick else FULL
    if asked.million:
        sizes = dataclasses.replace(sizes, histories=(*sizes.histories, MILLION))
    asked.directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=asked.directory, prefix="durasess-bench-") as name:
        findings = measure_all(Path(name), sizes, only=asked.only)
    for row in targets.rows(findings.figures):
        print(": ".join(row))
    if asked.report is not None:
        command = " ".join(["python -m benchmarks DIRECTORY", *_shown(asked)])
        report.write(
            asked.report,
            findings,
            machine=machine.description(asked.directory),
            command=command,
        )
    return 0


def measure_all(directory: Path, sizes: Sizes, *, only: list[str]) -> Findings:
    """Every suite, or those in `only`, each in a directory of its own."""
    histories = Histories(_made(directory / "histories"))
    suites: dict[str, Callable[[], Findings]] = {
        "append": lambda: bench_append.measured(_made(directory / "append"), sizes),
        "processor": lambda: bench_processor.measured(_made(directory / "processor"), sizes),
        "writers": lambda: bench_writers.measured(_made(directory / "writers"), sizes),
        "sharing": lambda: bench_sharing.measured(_made(directory / "sharing"), sizes),
        "recovery": lambda: bench_recovery.measured(histories, sizes),
        "long": lambda: bench_append.behind_a_long_history(histories, sizes),
        "reading": lambda: bench_reading.measured(histories, sizes),
        "sessions": lambda: bench_sessions.measured(_made(directory / "sessions"), sizes),
        "snapshots": lambda: bench_snapshot_every.measured(_made(directory / "stalls"), sizes),
        "bytes": lambda: bench_bytes.measured(_made(directory / "bytes"), histories, sizes),
        "listing": lambda: bench_listing.measured(directory / "listing", sizes),
        "import": lambda: bench_import.measured(sizes),
        "importing": lambda: bench_importing.measured(_made(directory / "importing"), sizes),
    }
    wanted = [name for name in suites if not only or name in only]
    if {"long", "reading", "bytes"}.intersection(wanted) and "recovery" not in wanted:
        wanted.insert(0, "recovery")
    findings = Findings()
    for name in wanted:
        begin = time.perf_counter()
        found = suites[name]()
        _show(found, f"{name}, {time.perf_counter() - begin:.0f} s")
        findings.add(found)
    return findings


def _made(directory: Path) -> Path:
    directory.mkdir(parents=True)
    return directory


def _show(found: Findings, title: str) -> None:
    print(f"== {title}", flush=True)
    for table in found.tables:
        widths = [max(map(len, cells)) for cells in zip(table.columns, *table.rows, strict=True)]
        print(f"\n{table.title}")
        for row in (table.columns, *table.rows):
            print("  " + "  ".join(map(str.ljust, row, widths)).rstrip(), flush=True)
    print()


def _shown(asked: argparse.Namespace) -> list[str]:
    """The options as they are repeated in the report, which names no path."""
    found = [f"--{name}" for name in ("quick", "million") if getattr(asked, name)]
    return [*found, *[f"--only {name}" for name in asked.only], "--report docs/BENCHMARKS.md"]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("directory", type=Path, help="a directory on the disk to measure")
    parser.add_argument("--quick", action="store_true", help="small sizes, about a minute")
    parser.add_argument(
        "--million", action="store_true", help="histories of a million events too; 10 GB of disk"
    )
    parser.add_argument("--report", type=Path, help="write Markdown here, pictures beside it")
    parser.add_argument("--only", action="append", default=[], help="a suite; may be repeated")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
