"""Long runs by hand, before a release: as many seeds as fit into the time, totals into the ledger.

    python -m tools.soak calls --minutes 30
    python -m tools.soak fuzz-segment --minutes 30 [--ledger docs/ledger.md]

A run begins with the seed behind the last one that the ledger has for its method, so runs add up,
and one that is stopped (Ctrl-C) is recorded as far as it came. Exit code 1 when something was
found.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import re
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

# By name, because tests are not typed like the package.
fault_lab: Any = importlib.import_module("tests.support.fault_lab")
fault_plans: Any = importlib.import_module("tests.support.fault_plans")
fault_sessions: Any = importlib.import_module("tests.support.fault_sessions")
fuzz_readers: Any = importlib.import_module("tools.fuzz_readers")

LEDGER = Path(__file__).resolve().parents[1] / "docs" / "ledger.md"
PLANS = (
    "small filled append many loose flush rotate append close append kill read append",
    "often append many append kill append snapshot prune append repair append close",
    "append blob append snapshot blob prune close read append",
    "shared often append other many append loose append other rotate append close",
)
PAIRS = 200
"""Of failing calls, for each plan and seed."""

EXECUTIONS = 2000
"""Of a reader, for each seed."""


class Found(NamedTuple):
    """What one seed did: how many runs, and what they found, each with what shows it again."""

    runs: int
    problems: list[str]


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


METHODS: dict[str, Callable[[int], Found]] = {
    "calls": failing_calls,
    "session-calls": failing_session_calls,
    **{f"fuzz-{target}": fuzz(target) for target in fuzz_readers.TARGETS},
}


def next_seed(ledger: str, method: str) -> int:
    """Behind the last seed of this method; 1 in a ledger that has none."""
    rows = re.findall(rf"^\| [^|]* \| {re.escape(method)} \| (?:\d+–)?(\d+) \|", ledger, re.M)
    return max(map(int, rows), default=0) + 1


def row(method: str, first: int, last: int, runs: int, found: int, seconds: float) -> str:
    """One line of the ledger."""
    day = datetime.now(UTC).date().isoformat()
    return f"| {day} | {method} | {first}–{last} | {runs:,} | {found} | {seconds:,.0f} s |\n"


def soak(method: str, *, minutes: float, ledger: Path) -> int:
    """Seed after seed; returns how many problems were found."""
    first = seed = next_seed(ledger.read_text(), method)
    started = time.monotonic()
    runs = found = 0
    try:
        while time.monotonic() - started < minutes * 60:
            result = METHODS[method](seed)
            for problem in result.problems:
                print(f"seed {seed}: {problem}", flush=True)
            runs, found, seed = runs + result.runs, found + len(result.problems), seed + 1
    except KeyboardInterrupt:
        print(f"stopped in seed {seed}; the seeds before it count")
    if seed > first:
        with ledger.open("a") as target:
            target.write(row(method, first, seed - 1, runs, found, time.monotonic() - started))
    print(f"{method}: seeds {first} to {seed - 1}, {runs:,} runs, {found} found")
    return found


def main(arguments: list[str] | None = None) -> int:
    """Run one method for some time."""
    parser = argparse.ArgumentParser(prog="soak", description=__doc__.splitlines()[0])
    parser.add_argument("method", choices=METHODS)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--ledger", type=Path, default=LEDGER)
    options = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    return 1 if soak(options.method, minutes=options.minutes, ledger=options.ledger) else 0


if __name__ == "__main__":
    sys.exit(main())
