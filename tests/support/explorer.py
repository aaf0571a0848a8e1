"""Runs plans, enumerates every state a crash may leave, and asks the oracle about each.

    python -m tests.support.explorer --plan "append,many3,close" [--profile weakest] [--every-byte]
    python -m tests.support.explorer --plan "append,many3,close" --state 1f…  [--nested 2c…]
    python -m tests.support.explorer --all --length 4 --jobs 2 [--nested-every 200] [--filler]

The first explores one plan, the second shows one state of it (what a failure prints), the third
runs every plan up to a length and prints totals.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import itertools
import multiprocessing
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from durasess.errors import DurasessError
from tests.support.crash_driver import (
    Driver,
    Moment,
    Plan,
    PlanFailure,
    StepTooShort,
    grain_of,
    identity,
    options_of,
    parse_plan,
    pinned_identity,
)
from tests.support.crash_oracle import Oracle, describe
from tests.support.crash_states import PROFILES, CrashState, Settings, crash_states
from tests.support.scan_memory import remembered_scans
from tests.support.sim_files import SimFiles

QUICK = Settings(grain=grain_of)
THOROUGH = Settings(grain=grain_of, every_byte=True)
MAX_FAILURES = 20
"""So many kinds of failure are kept and printed with one example each; all are counted."""

ALPHABET = (
    "append",
    "many3",
    "big",
    "loose",
    "flush",
    "snapshot",
    "rotate",
    "prune",
    "kill",
    "torn",
    "torn3",
    "reopen",
    "repair",
    "short",
    "shortlf",
    "failsync",
    "dropsync",
    "background",
)
OPTIONS: tuple[Plan, ...] = ((), ("every2", "seg400"))

FILLER_ALPHABET = (*ALPHABET, "full", "shortfill", "failcut", "grown", "stale")
FILLER_OPTIONS: tuple[Plan, ...] = (("fill512",),)
"""With filler. Two events of the driver fit into 512 bytes behind a header, so that a segment grows
inside batches and between them."""


@dataclass
class Failure:
    """One bad state, and the command that shows it again."""

    plan: Plan
    profile: str
    every_byte: bool
    key: int
    nested: int | None
    problems: list[str]

    def command(self) -> str:
        """The line that reproduces it."""
        parts = [f'python -m tests.support.explorer --plan "{",".join(self.plan)}"']
        parts.append(f"--profile {self.profile}")
        if self.every_byte:
            parts.append("--every-byte")
        parts.append(f"--state {self.key:032x}")
        if self.nested is not None:
            parts.append(f"--nested {self.nested:032x}")
        return " ".join(parts)

    def __str__(self) -> str:
        return "\n    ".join([self.command(), *self.problems])


@dataclass
class Totals:
    """Counts over many plans. `distinct` holds 64 bits for each state: tree and acknowledged."""

    plans: int = 0
    states: int = 0
    nested: int = 0
    recovered: int = 0
    continued: int = 0
    bad: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    by_plan: dict[str, int] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)
    reasons: Counter[str] = field(default_factory=Counter)
    distinct: set[int] = field(default_factory=set)

    def add(self, other: Totals) -> None:
        """Take another process's counts."""
        for name in ("plans", "states", "nested", "recovered", "continued", "bad"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.kinds.update(other.kinds)
        self.by_plan.update(other.by_plan)
        self.reasons.update(other.reasons)
        for reason, failure in other.failures.items():
            self._keep(reason, failure)
        self.distinct |= other.distinct

    def note(self, failure: Failure) -> None:
        """Count a bad state."""
        self.bad += 1
        self.kinds.update({_kind(problem) for problem in failure.problems})
        reason = _reason(failure.problems)
        self.reasons[reason] += 1
        self._keep(reason, failure)

    def _keep(self, reason: str, failure: Failure) -> None:
        if len(self.failures) < MAX_FAILURES:
            self.failures.setdefault(reason, failure)

    def __str__(self) -> str:
        lines = [
            f"{self.plans} plans, {len(self.distinct)} distinct crash states ({self.states} "
            f"checked), {self.nested} nested; {self.recovered} recoveries, {self.continued} trees "
            f"written to afterwards",
            f"{self.bad} bad; " + ", ".join(f"{self.kinds[kind]} {kind}" for kind in KINDS),
        ]
        lines += [
            f"  {self.reasons[reason]} like {failure}" for reason, failure in self.failures.items()
        ]
        return "\n".join(lines)


_SPREAD = 0x9E37_79B9_7F4A_7C15


def _short(state: CrashState) -> int:
    """64 bits for a tree and what was acknowledged."""
    moment = state.mark or Moment()
    known = (moment.acked + 2) * 1_000_003 + moment.version
    return (state.key ^ known * _SPREAD) & 0xFFFF_FFFF_FFFF_FFFF


KINDS = ("lost", "phantom", "refused", "other")


def _reason(problems: list[str]) -> str:
    """What the same fault looks like in other states: the findings without numbers and hashes."""
    return " | ".join(re.sub(r"[0-9a-f]*[0-9][0-9a-f]*", "#", text)[:80] for text in problems)


def _kind(problem: str) -> str:
    if "LOST" in problem or "is not there" in problem:
        return "lost"
    if "PHANTOM" in problem or "WRONG" in problem:
        return "phantom"
    if "Error" in problem:
        return "refused"
    return "other"


class Explorer:
    """Explores plans one after the other; what they share is explored once.

    `nested_every`: about one state in so many is crashed again during its recovery (0: none).
    `readers_every`: about one in so many is shown to readers too; a writer recovers each.
    """

    def __init__(
        self,
        settings: Settings = QUICK,
        *,
        oracle: Oracle | None = None,
        nested_every: int = 0,
        readers_every: int = 1,
        stop_at_first: bool = False,
        profiles: Sequence[str] = PROFILES,
    ) -> None:
        self.settings = settings
        self.oracle = oracle or Oracle(readers_every=readers_every)
        self._oracles = {0: self.oracle}
        self.profiles = profiles
        self.totals = Totals()
        self._nested_every = nested_every
        self._readers_every = readers_every
        self._stop_at_first = stop_at_first
        self._seen: set[tuple[int, Any]] = set()
        self._explored: set[Plan] = set()

    def explore(self, plan: Plan) -> int:
        """Check every new state of one plan; how many there were."""
        try:
            driver = self._run(plan)
        except StepTooShort:
            return 0
        except (PlanFailure, DurasessError) as error:
            self._plan_failed(plan, error)
            return 0
        return self.explore_log(plan, driver.files, start=self._first_new(driver))

    def pass_over(self, plan: Plan) -> None:
        """What is common to this plan and a later one was explored elsewhere."""
        steps = options_of(plan)[1]
        head = plan[: len(plan) - len(steps)]
        self._explored.update((*head, *steps[:end]) for end in range(1, len(steps) + 1))

    def _run(self, plan: Plan) -> Driver:
        driver = Driver(plan)
        driver.run()
        return driver

    def explore_log(self, plan: Plan, files: SimFiles, *, start: int = 0) -> int:
        """Check the states of a log that a run of `plan` left."""
        count = 0
        oracle = self._oracle_for(plan)
        with pinned_identity():
            for profile in self.profiles:
                settings = replace(self.settings, profile=profile)
                for state in self._states(files, settings, start):
                    count += 1
                    self._check(oracle, plan, settings, state)
                    if self._stop_at_first and self.totals.bad:
                        break
        totals = self.totals
        totals.plans += 1
        totals.states += count
        totals.by_plan[",".join(plan)] = count
        for name in ("recovered", "continued", "nested"):
            done = getattr(oracle, name)
            setattr(totals, name, getattr(totals, name) + done)
            setattr(oracle, name, 0)
        return count

    def _oracle_for(self, plan: Plan) -> Oracle:
        """One that goes on with filler when the plan has it."""
        size = options_of(plan)[0].preallocate
        if size not in self._oracles:
            self._oracles[size] = Oracle(preallocate=size, readers_every=self._readers_every)
        return self._oracles[size]

    def _states(self, files: SimFiles, settings: Settings, start: int) -> Iterator[CrashState]:
        return crash_states(
            files.base, files.log, settings, start=start, seen=self._seen, identity=identity
        )

    def _first_new(self, driver: Driver) -> int:
        """Where the first step begins that no plan with the same beginning has had."""
        start = None
        options = driver.plan[: len(driver.plan) - len(driver.steps)]
        for index, begin in enumerate(driver.starts):
            prefix = (*options, *driver.steps[: index + 1])
            if prefix not in self._explored:
                self._explored.add(prefix)
                start = begin if start is None else start
        return len(driver.files.log) if start is None else start

    def _check(self, oracle: Oracle, plan: Plan, settings: Settings, state: CrashState) -> None:
        self.totals.distinct.add(_short(state))
        problems = oracle.problems(state)
        if problems:
            self._note(plan, settings, state.key, None, problems)
        elif self._nested_every and state.key % self._nested_every == 0:
            nested = replace(self.settings, profile="weakest", every_byte=False)
            for key, found in oracle.nested_problems(state, nested):
                if found:
                    self._note(plan, settings, state.key, key, found)

    def _note(
        self, plan: Plan, settings: Settings, key: int, nested: int | None, problems: list[str]
    ) -> None:
        self.totals.note(
            Failure(plan, settings.profile, settings.every_byte, key, nested, problems)
        )

    def _plan_failed(self, plan: Plan, error: Exception) -> None:
        self._note(plan, self.settings, 0, None, [f"the plan itself: {error}"])


# Many plans on several processes


def all_plans(
    length: int, alphabet: Sequence[str] = ALPHABET, options: Sequence[Plan] = OPTIONS
) -> list[Plan]:
    """Every plan of exactly `length` steps that says something a shorter one does not; its
    beginnings are explored with it."""
    plans = []
    for chosen in options:
        for steps in itertools.product(alphabet, repeat=length):
            if _is_sensible(steps):
                plans.append((*chosen, *steps))
    return plans


_IDLE_TWICE = frozenset(["flush", "snapshot", "rotate", "prune", "reopen", "kill", "repair"])
_NEEDS_EVENTS = frozenset(["flush", "rotate", "prune", "reopen", "repair", "background"])


def _is_sensible(steps: Plan) -> bool:
    """Not beginning with a step that needs events, nor doing an idle step twice in a row."""
    if steps[0] in _NEEDS_EVENTS:
        return False
    return all(a != b or a not in _IDLE_TWICE for a, b in itertools.pairwise(steps))


def explore_all(
    plans: Iterable[Plan],
    *,
    jobs: int = 2,
    settings: Settings = QUICK,
    nested_every: int = 0,
    readers_every: int = 1,
    profiles: Sequence[str] = PROFILES,
) -> Totals:
    """Explore plans on `jobs` processes. Plans with the same beginning go to the same one."""
    chunks = _chunks(sorted(set(plans), key=_sort_key), jobs)
    totals = Totals()
    arguments = [(chunk, settings, nested_every, readers_every, profiles) for chunk in chunks]
    if jobs == 1:
        for argument in arguments:
            totals.add(_explore_chunk(*argument))
        return totals
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(jobs, mp_context=context) as pool:
        for found in pool.map(_explore_chunk, *zip(*arguments, strict=True)):
            totals.add(found)
    return totals


def _sort_key(plan: Plan) -> tuple[Plan, Plan]:
    steps = options_of(plan)[1]
    return plan[: len(plan) - len(steps)], steps


def _chunks(plans: list[Plan], jobs: int) -> list[list[Plan]]:
    """Runs of neighbours, several for each process so that none is left waiting long."""
    count = max(1, min(len(plans), jobs * 8 if jobs > 1 else 1))
    edges = [len(plans) * index // count for index in range(count + 1)]
    return [plans[a:b] for a, b in itertools.pairwise(edges) if b > a]


def _explore_chunk(plans: list[Plan], *what: Any) -> Totals:
    """The explorer stays for the next chunk, so this process explores nothing twice."""
    explorer = _EXPLORERS.get(what)
    if explorer is None:
        settings, nested_every, readers_every, profiles = what
        explorer = Explorer(
            settings, nested_every=nested_every, readers_every=readers_every, profiles=profiles
        )
        _EXPLORERS[what] = explorer
    explorer.totals = Totals()
    with remembered_scans():
        for plan in plans:
            explorer.explore(plan)
    return explorer.totals


_EXPLORERS: dict[Any, Explorer] = {}


# One state again


def show_state(plan: Plan, settings: Settings, key: int, nested: int | None) -> int:
    """Print one state of a plan and what the oracle finds; 1 when something is wrong."""
    driver = Driver(plan)
    files = driver.run()
    oracle = Oracle(preallocate=driver.options.preallocate)
    with pinned_identity():
        states = crash_states(files.base, files.log, settings, identity=identity)
        found = [state for state in states if state.key == key]
        if not found:
            print(f"no state {key:032x} in this plan with this profile", file=sys.stderr)
            return 2
        bad = 0
        for state in found:
            moment = state.mark
            print(
                f"crash before operation {state.point} of {len(files.log)}: {moment_line(moment)}"
            )
            print("\n".join(f"  {line}" for line in describe(state.tree, files.tree())))
            if nested is None:
                problems = oracle.problems(state)
            else:
                pairs = oracle.nested_problems(state, QUICK)
                problems = next((what for number, what in pairs if number == nested), [])
            bad += bool(problems)
            print("\n".join(problems) or "sound")
    return 1 if bad else 0


def moment_line(moment: Any) -> str:
    """What was known at the crash, in a line."""
    if moment is None:
        return "nothing acknowledged"
    return f"{moment.acked} acknowledged, {len(moment.issued)} issued, batches end at {moment.ends}"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Explore crash states of the engine.")
    parser.add_argument("--plan", help="one plan: options and steps with commas")
    parser.add_argument("--state", help="show the state with this key")
    parser.add_argument("--nested", help="and the state of a second crash, in its recovery")
    parser.add_argument("--profile", choices=[*PROFILES, "all"], default="all")
    parser.add_argument("--every-byte", action="store_true", help="tear writes at every byte")
    parser.add_argument("--all", action="store_true", help="every plan of --length steps")
    parser.add_argument("--filler", action="store_true", help="plans with filler instead")
    parser.add_argument("--length", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--nested-every", type=int, default=500, help="0: no second crashes")
    given = parser.parse_args(arguments)
    profiles = PROFILES if given.profile == "all" else (given.profile,)
    settings = replace(THOROUGH if given.every_byte else QUICK, profile=profiles[0])
    if given.plan and given.state:
        nested = int(given.nested, 16) if given.nested else None
        return show_state(parse_plan(given.plan), settings, int(given.state, 16), nested)
    if not (given.plan or given.all):
        parser.error("give --plan or --all")
    if given.plan:
        plans = [parse_plan(given.plan)]
    elif given.filler:
        plans = all_plans(given.length, FILLER_ALPHABET, FILLER_OPTIONS)
    else:
        plans = all_plans(given.length)
    begin = time.monotonic()
    totals = explore_all(
        plans,
        jobs=1 if given.plan else given.jobs,
        settings=settings,
        nested_every=given.nested_every,
        profiles=profiles,
    )
    seconds = time.monotonic() - begin
    print(totals)
    print(f"{seconds:.1f} s, {totals.states / max(seconds, 0.001):.0f} states/s")
    return 1 if totals.bad else 0


if __name__ == "__main__":
    sys.exit(main())
