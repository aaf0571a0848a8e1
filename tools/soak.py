"""Long runs by hand, before a release: as many seeds as fit into the time, totals into the ledger.

    python -m tools.soak calls --minutes 30
    python -m tools.soak states --minutes 600 --part 1/2 [--ledger docs/ledger.md]

A run begins with the seed behind the last one that the ledger has for its method, so runs add up.
One that is stopped (Ctrl-C, SIGTERM) is recorded as far as it came; one that is killed goes on
where it was when it is called again (`--kept` says where that is remembered). `--part 1/2` is every
second seed, for as many processes. Exit code 1 when something was found.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import re
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from tools import soak_crash, soak_disks
from tools.soak_crash import Found

# By name, because tests are not typed like the package.
fault_lab: Any = importlib.import_module("tests.support.fault_lab")
fault_plans: Any = importlib.import_module("tests.support.fault_plans")
fault_sessions: Any = importlib.import_module("tests.support.fault_sessions")
fuzz_readers: Any = importlib.import_module("tools.fuzz_readers")

ROOT = Path(__file__).resolve().parents[1]
LEDGER = ROOT / "docs" / "ledger.md"
KEPT = ROOT / ".soak"
PLANS = (
    "small filled append many loose flush rotate append close append kill read append",
    "often append many append kill append snapshot prune append repair append close",
    "append blob append snapshot blob prune close read append",
    "shared often append other many append loose append other rotate append close",
)
PAIRS = 200
"""Of failing calls, for each plan and seed."""

UNLIMITED = 1 << 62
EXECUTIONS = 2000
"""Of a reader, for each seed."""


class Part(NamedTuple):
    """Every `of`-th seed; the ledger counts those of one part 1, 2, 3 …"""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Part:
        """`2/3` is the second of three."""
        number, _, of = text.partition("/")
        part = cls(int(number), int(of))
        if not 1 <= part.number <= part.of:
            raise ValueError(text)
        return part

    def seed(self, nth: int) -> int:
        """The seed that is the `nth` of this part."""
        return (nth - 1) * self.of + self.number


WHOLE = Part(1, 1)


def failing_calls(seed: int) -> Found:
    """Pairs of failing calls in engine plans."""
    found = Found(PAIRS * len(PLANS), [])
    for plan in PLANS:
        for faults in fault_plans.pairs(fault_lab.Lab(plan).calls(), count=PAIRS, seed=seed):
            try:
                fault_lab.Lab(plan).run(faults)
            except fault_lab.Broken as problem:
                found.problems.append(f'"{plan}" "{fault_plans.written(faults)}": {problem}')
    return found


def failing_session_calls(seed: int) -> Found:
    """Pairs of failing calls in an agent's session."""
    found = Found(PAIRS * len(fault_sessions.SCENARIOS), [])
    for scenario in fault_sessions.SCENARIOS:
        for faults in fault_plans.pairs(
            fault_sessions.Lab(scenario).calls(), count=PAIRS, seed=seed
        ):
            try:
                fault_sessions.Lab(scenario).run(faults)
            except fault_lab.Broken as problem:
                found.problems.append(
                    f'{scenario.__name__} "{fault_plans.written(faults)}": {problem}'
                )
    return found


def fuzz(target: str) -> Callable[[int], Found]:
    """Mutated bytes for one reader."""

    def run(seed: int) -> Found:
        totals = fuzz_readers.run(target, seed=seed, executions=EXECUTIONS)
        return Found(totals.executions, list(totals.failures))

    return run


METHODS: dict[str, Callable[[int], Found | None]] = {
    "states": soak_crash.states,
    "mutations": soak_crash.mutated,
    "calls": failing_calls,
    "session-calls": failing_session_calls,
    **soak_disks.METHODS,
    **{f"fuzz-{target}": fuzz(target) for target in fuzz_readers.TARGETS},
}
"""Name → what runs one seed; None when there are no more seeds."""


def next_seed(ledger: str, method: str) -> int:
    """Behind the last seed of this method; 1 in a ledger that has none."""
    rows = re.findall(rf"^\| [^|]* \| {re.escape(method)} \| (?:\d+–)?(\d+) \|", ledger, re.M)
    return max(map(int, rows), default=0) + 1


@dataclass
class Progress:
    """What was run and is not in the ledger yet; kept in a file after each seed, so that a soak
    that was killed goes on where it was."""

    first: int
    next: int
    runs: int = 0
    found: int = 0
    seconds: float = 0.0

    def add(self, result: Found, seconds: float) -> None:
        """One more seed is done."""
        self.next += 1
        self.runs += result.runs
        self.found += len(result.problems)
        self.seconds += seconds

    def row(self, method: str, runs: str) -> str:
        """One line of the ledger."""
        day = datetime.now(UTC).date().isoformat()
        seeds = f"{self.first}–{self.next - 1}"
        return f"| {day} | {method} | {seeds} | {runs} | {self.found} | {self.seconds:,.0f} s |\n"


def load(path: Path, first: int) -> Progress:
    """What a soak left that was killed; or the beginning of a new one."""
    if path.exists():
        kept = Progress(**json.loads(path.read_text()))
        if kept.first == first:
            return kept
    return Progress(first, first)


def save(path: Path, progress: Progress) -> None:
    """Whole or not at all."""
    beside = path.with_suffix(".tmp")
    beside.write_text(json.dumps(asdict(progress)))
    beside.replace(path)


def soak(
    method: str,
    *,
    minutes: float,
    ledger: Path,
    kept: Path,
    part: Part = WHOLE,
    most: int = UNLIMITED,
) -> int:
    """Seed after seed, until the time is up or there were `most` runs; returns how many problems
    were found."""
    kept.mkdir(parents=True, exist_ok=True)
    name = method if part == WHOLE else f"{method} ({part.number} of {part.of})"
    file = kept / f"{method}-{part.number}-{part.of}.json"
    progress = load(file, next_seed(ledger.read_text(), name))
    deadline = time.monotonic() + minutes * 60
    try:
        while time.monotonic() < deadline and progress.runs < most:
            started = time.monotonic()
            seed = part.seed(progress.next)
            result = METHODS[method](seed)
            if result is None:
                print("there are no more seeds")
                break
            for problem in result.problems:
                print(f"seed {seed}: {problem}", flush=True)
            if result.keys is not None:
                soak_crash.store(kept, f"{method}-{seed:06}", result.keys)
            progress.add(result, time.monotonic() - started)
            save(file, progress)
    except KeyboardInterrupt:
        print(f"stopped in seed {part.seed(progress.next)}; the seeds before it count")
    record(method, name, progress, ledger=ledger, kept=kept)
    file.unlink(missing_ok=True)
    return progress.found


def record(method: str, name: str, progress: Progress, *, ledger: Path, kept: Path) -> None:
    """A row of the ledger, when anything was run."""
    runs = f"{progress.runs:,}"
    if counted := list(kept.glob(f"{method}-*.keys")):
        runs += f"; with all before it {soak_crash.distinct(counted):,} distinct"
    if progress.next > progress.first:
        with ledger.open("a") as target:
            target.write(progress.row(name, runs))
    seeds = f"{progress.first} to {progress.next - 1}"
    print(f"{name}: seeds {seeds}, {runs} runs, {progress.found} found")


def main(arguments: list[str] | None = None) -> int:
    """Run one method for some time."""
    parser = argparse.ArgumentParser(prog="soak", description=__doc__.splitlines()[0])
    parser.add_argument("method", choices=METHODS)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--runs", type=int, default=UNLIMITED, help="at most about so many")
    parser.add_argument("--ledger", type=Path, default=LEDGER)
    parser.add_argument("--kept", type=Path, default=KEPT, help="where a soak keeps how far it is")
    parser.add_argument("--part", type=Part.parse, default=WHOLE, metavar="I/N")
    options = parser.parse_args(arguments)
    found = soak(
        options.method,
        minutes=options.minutes,
        ledger=options.ledger,
        kept=options.kept,
        part=options.part,
        most=options.runs,
    )
    return 1 if found else 0


if __name__ == "__main__":
    # Of the whole process, so not for whoever calls `main` in its own.
    logging.disable(logging.CRITICAL)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
