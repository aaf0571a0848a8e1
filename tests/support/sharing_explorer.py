"""Runs plans of several writers under every schedule with few preemptions, and asks the oracle.

    python -m tests.support.sharing_explorer --case "append,many2|rotate,append" [--preemptions 2]
    python -m tests.support.sharing_explorer --case "append|append@kill0.3" --schedule "12>1,40>0"
    python -m tests.support.sharing_explorer --case … --schedule … --cut POINT:KEY
    python -m tests.support.sharing_explorer --all [--jobs 2] [--level 2]

The first explores one case, the second shows one run of it (what a failure prints), the third one
state of a power cut in it, the last runs the cases of the suite (level 1), or more.

A preemption takes the baton from a writer that could go on; who waits for a lock or has ended gives
it up for nothing. A preemption is left out when the call before it touches nothing that the others
touch until the first goes on, in any schedule that begins like that: then the schedules that
preempt before that call are the same ones. What is left out is counted, and of what runs, the
different orders.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import multiprocessing
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.support.crash_oracle import describe
from tests.support.interleave import Decision, Schedule, Threads, conflicts, order_of
from tests.support.sharing_oracle import Oracle, points
from tests.support.sharing_run import (
    DEADLY,
    Case,
    Run,
    Trouble,
    parse_case,
    parse_schedule,
    pinned,
    schedule_line,
)

MAX_FAILURES = 20


class Task(NamedTuple):
    """A case with its number of preemptions. With `everywhere` its trouble comes at every call that
    it can come at, beginning with the first; about one run in `cut_every` is cut off from power
    (0: none), at one point."""

    case: Case
    preemptions: int
    everywhere: bool = False
    cut_every: int = 0


@dataclass
class Failure:
    """One bad run, and the command that shows it again."""

    case: Case
    schedule: dict[int, int]
    problems: list[str]
    cut: tuple[int, int] | None = None

    def command(self) -> str:
        """The line that reproduces it."""
        line = f'python -m tests.support.sharing_explorer --case "{self.case}"'
        line += f' --schedule "{schedule_line(self.schedule)}"'
        return line + (f" --cut {self.cut[0]}:{self.cut[1]:032x}" if self.cut else "")

    def __str__(self) -> str:
        return "\n    ".join([self.command(), *self.problems])


@dataclass
class Totals:
    """Counts over many cases. `orders` are the different ones, `left_out` the schedules that are
    the same as one that ran, `cuts` the states of power cuts, `ends` the different logs."""

    cases: int = 0
    runs: int = 0
    left_out: int = 0
    ends: int = 0
    cuts: int = 0
    agreed: int = 0
    bad: int = 0
    orders: set[int] = field(default_factory=set)
    by_kind: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    failures: dict[str, Failure] = field(default_factory=dict)

    @property
    def schedules(self) -> int:
        """Those that ran, and those that are the same as one of them."""
        return self.runs + self.left_out

    def add(self, other: Totals) -> None:
        """Take another process's counts."""
        for name in ("cases", "runs", "left_out", "ends", "cuts", "agreed", "bad"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.orders |= other.orders
        self.by_kind.update(other.by_kind)
        self.reasons.update(other.reasons)
        for reason, failure in other.failures.items():
            if len(self.failures) < MAX_FAILURES:
                self.failures.setdefault(reason, failure)

    def note(self, failure: Failure) -> None:
        """Count a bad run or state."""
        self.bad += 1
        reason = _reason(failure.problems)
        self.reasons[reason] += 1
        if len(self.failures) < MAX_FAILURES:
            self.failures.setdefault(reason, failure)

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.by_kind.items()))
        lines = [
            f"{self.cases} cases, {self.runs} runs in {len(self.orders)} different orders "
            f"({self.left_out} schedules left out, each the same as one of them): {kinds}",
            f"{self.ends} different logs recovered, {self.agreed} read by the second reader; "
            f"{self.cuts} states of power cuts; {self.bad} bad",
        ]
        lines += [
            f"  {self.reasons[reason]} like {failure}" for reason, failure in self.failures.items()
        ]
        return "\n".join(lines)


def _reason(problems: list[str]) -> str:
    return " | ".join(re.sub(r"[0-9a-f]*[0-9][0-9a-f]*", "#", text)[:120] for text in problems)


@dataclass
class _Block:
    """What others touched behind decision `number` until its process went on, and what they waited
    for, in all runs that begin with the same schedule; `size` counts the schedules."""

    number: int
    touched: dict[str, bool]
    size: int = 0

    def add(self, run: Run) -> None:
        """Take what they did in this run."""
        decisions, accesses = run.baton.decisions, run.baton.accesses
        process, at = decisions[self.number].process, decisions[self.number].at
        touched = self.touched
        while at < len(accesses) and accesses[at].process != process:
            access = accesses[at]
            touched[access.object] = touched.get(access.object, False) or access.changes
            at += 1
        for decision in decisions[self.number + 1 :]:
            if decision.at > at:
                break
            if decision.awaited and decision.process != process:
                touched[decision.awaited] = True


class Explorer:
    """Explores one case after the other."""

    def __init__(
        self,
        *,
        directory: Path | None = None,
        agree_every: int = 1,
        stop_at_first: bool = False,
        max_runs: int = 1_000_000,
        leave_out: bool = True,
    ) -> None:
        self.totals = Totals()
        self._oracle = Oracle(directory, agree_every)
        self._threads: dict[int, Threads] = {}
        self._blocks: list[_Block] = []
        self._stop_at_first = stop_at_first
        self._max_runs = max_runs
        self._leave_out = leave_out

    def explore(self, task: Task) -> None:
        """Every schedule of a case, or of each of its troubles."""
        with pinned():
            if not task.everywhere:
                self._explore_case(task)
                return
            assert task.case.trouble is not None
            nth = 1
            while not self._is_done():
                case = task.case._replace(trouble=task.case.trouble._replace(nth=nth))
                if not self._explore_case(task._replace(case=case)):
                    return
                nth += 1

    def _explore_case(self, task: Task) -> bool:
        """Whether the trouble came, where nobody was preempted."""
        run = self._run(task, {})
        if run.trouble_came:
            self.totals.cases += 1
            self._branch(task, run, {}, -1, task.preemptions)
        return run.trouble_came

    def _branch(
        self, task: Task, run: Run, schedule: dict[int, int], last: int, budget: int
    ) -> None:
        """The schedules that go on differently behind decision `last` of this run."""
        decisions, accesses = run.baton.decisions, run.baton.accesses
        blocks: dict[int, _Block] = {}
        for number in range(last + 1, len(decisions)):
            decision = decisions[number]
            if number and not _goes_on(decisions[number - 1], decision):
                blocks = {}
            left = budget if decision.forced else budget - 1
            for target in decision.others:
                if target == decision.chosen or left < 0 or self._is_done():
                    continue
                call = accesses[decisions[number - 1].at : decision.at] if number else []
                block = blocks.get(target)
                if block is not None and not conflicts(call, block.touched):
                    # One decision less behind it than behind the one before.
                    block.size = max(1, block.size - min(left, 1))
                    self.totals.left_out += block.size
                    continue
                before = self.totals.schedules
                block = _Block(number, {})
                self._blocks.append(block)
                chosen = {**schedule, number: target}
                self._branch(task, self._run(task, chosen), chosen, number, left)
                self._blocks.pop()
                block.size = self.totals.schedules - before
                if self._leave_out and not decision.forced:
                    blocks[target] = block

    def _run(self, task: Task, schedule: dict[int, int]) -> Run:
        case = task.case
        count = len(case.plans)
        threads = self._threads.get(count)
        if threads is None:
            threads = self._threads[count] = Threads(count)
        run = Run(case, schedule, threads)
        for block in self._blocks:
            block.add(run)
        order = order_of(run.baton.accesses)
        totals = self.totals
        totals.runs += 1
        totals.by_kind[_kind(case)] += 1
        totals.orders.add(hash((_number(str(case)), order)))
        problems = self._oracle.problems(run)
        if problems:
            totals.note(Failure(case, schedule, problems))
        elif task.cut_every and order % task.cut_every == 0:
            self._cut(run, order // task.cut_every)
        run.let_go()
        for name in ("ends", "cuts", "agreed"):
            setattr(totals, name, getattr(self._oracle, name))
        return run

    def _cut(self, run: Run, salt: int) -> None:
        candidates = points(run)
        if not candidates:
            return
        point = candidates[salt % len(candidates)]
        for key, problems in self._oracle.cut_problems(run, point):
            if problems:
                self.totals.note(Failure(run.case, dict(run.schedule), problems, (point, key)))

    def _is_done(self) -> bool:
        totals = self.totals
        return totals.runs >= self._max_runs or (self._stop_at_first and totals.bad > 0)

    def end(self) -> None:
        """Let the threads end."""
        for threads in self._threads.values():
            threads.end()


def _goes_on(before: Decision, decision: Decision) -> bool:
    """Whether between the two is one call of the same process, and nothing else."""
    return (
        not decision.forced
        and before.chosen == decision.process
        and decision.chosen == decision.process
        and (before.forced or before.process == decision.process)
    )


def _kind(case: Case) -> str:
    writers = f"{len(case.plans)} writers"
    if case.trouble is None:
        return writers
    kind = "a kill" if case.trouble.kind in DEADLY else "a failing call"
    return f"{writers} and {kind}"


def _number(text: str) -> int:
    """The same in every process."""
    return int.from_bytes(text.encode(), "big") % (2**61 - 1)


# Many cases on several processes


def tasks_of(texts: Iterable[str], preemptions: int, cut_every: int = 0) -> list[Task]:
    """A task for each case."""
    return [Task(parse_case(text), preemptions, cut_every=cut_every) for text in texts]


def troubled(
    texts: Iterable[str], kinds: Iterable[str], preemptions: int, cut_every: int = 0
) -> Iterator[Task]:
    """Each case with each kind of trouble (`kill0`, `half1+`) at every call."""
    for text in texts:
        for kind in kinds:
            name, returns = kind.rstrip("+"), kind.endswith("+")
            trouble = Trouble(name[:-1], int(name[-1]), 1, returns)
            case = parse_case(text)._replace(trouble=trouble)
            yield Task(case, preemptions, everywhere=True, cut_every=cut_every)


def explore_all(tasks: Sequence[Task], *, jobs: int = 2, agree_every: int = 20) -> Totals:
    """Explore all on `jobs` processes."""
    totals = Totals()
    if jobs == 1:
        for task in tasks:
            totals.add(_explore(task, agree_every))
        return totals
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(jobs, mp_context=context) as pool:
        waiting = [pool.submit(_explore, task, agree_every) for task in tasks]
        for found in concurrent.futures.as_completed(waiting):
            totals.add(found.result())
    return totals


def _explore(task: Task, agree_every: int) -> Totals:
    with tempfile.TemporaryDirectory() as directory:
        explorer = Explorer(directory=Path(directory), agree_every=agree_every)
        try:
            explorer.explore(task)
        finally:
            explorer.end()
        return explorer.totals


# One run again


def show(case: Case, schedule: Schedule, cut: tuple[int, int] | None) -> int:
    """Print one run and what the oracle finds; 1 when something is wrong."""
    threads = Threads(len(case.plans))
    oracle = Oracle()
    with pinned():
        run = Run(case, schedule, threads)
        threads.end()
        last = None
        for access in run.baton.accesses:
            if access.process != last:
                print(f"writer {access.process}")
                last = access.process
            print(f"    {'changes' if access.changes else 'reads'} {access.object}")
        problems = oracle.problems(run)
        print("\n".join(str(call) for call in run.calls))
        if cut is not None:
            found = list(oracle.cut_problems(run, cut[0], only=cut[1]))
            if not found:
                print(f"no state {cut[1]:032x} at {cut[0]}", file=sys.stderr)
                return 2
            problems = [problem for _, some in found for problem in some]
        live = run.disk.tree()
        print("\n".join(describe(live, live)))
        run.let_go()
    print("\n".join(problems) or "sound")
    return 1 if problems else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Explore schedules of writers that share.")
    parser.add_argument("--case", help="one case")
    parser.add_argument("--schedule", help="show one run of it")
    parser.add_argument("--cut", help="and one state of a power cut in it, POINT:KEY")
    parser.add_argument("--preemptions", type=int, default=2)
    parser.add_argument("--everywhere", action="store_true", help="its trouble at every call")
    parser.add_argument("--cut-every", type=int, default=0, help="cut about one run in so many")
    parser.add_argument("--all", action="store_true", help="all cases")
    parser.add_argument("--level", type=int, default=1, help="of all cases: 1 as the suite, 2 more")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args(arguments)
    if given.case and given.schedule is not None:
        point, _, key = (given.cut or "").partition(":")
        cut = (int(point), int(key, 16)) if given.cut else None
        return show(parse_case(given.case), parse_schedule(given.schedule), cut)
    if given.case:
        case = parse_case(given.case)
        tasks = [Task(case, given.preemptions, given.everywhere, given.cut_every)]
    elif given.all:
        from tests.support.sharing_cases import tasks as all_tasks

        tasks = all_tasks(given.level)
    else:
        parser.error("give --case or --all")
    begin = time.monotonic()
    totals = explore_all(tasks, jobs=1 if given.case else given.jobs)
    seconds = time.monotonic() - begin
    print(totals)
    print(f"{seconds:.1f} s, {totals.runs / max(seconds, 0.001):.0f} runs/s")
    return 1 if totals.bad else 0


if __name__ == "__main__":
    sys.exit(main())
