"""Rounds of writers that are stopped at random moments: by the power, or one after the other by
SIGKILL. What they had said is compared with what is there afterwards.

    python -m tests.support.cut_lab ext4 7 [--rounds 25] [--plant syncs|names]
    python -m tests.support.cut_lab storm 7 [--rounds 50] [--plant turns]

runs one seed again. The seed decides on workers, sessions and moments; how far they come until then
the machine decides, so a failure keeps the sessions as they were found and says where.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import selectors
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support import cut_workers
from tests.support.cut_oracle import Agents, Log, before
from tests.support.cut_workers import Job, Said, Worker
from tests.support.loop_disk import KINDS, Kind, LoopDisk, loop_disk, memory_or

PATIENCE_S = 60
MAX_DELAY_S = 0.004
"""Between what a worker said and the stop: some appends, or a snapshot."""

ROUNDS = 25
"""Of one seed, on one new file system."""

WRITERS = 4
KILLS = 50
"""Of one seed, on one session."""

PLANTED: dict[str, Callable[[], contextlib.AbstractContextManager[Any]]] = {
    "nothing": contextlib.nullcontext,
    "syncs": cut_workers.syncs_left_out,
    "names": cut_workers.names_not_synced,
    "turns": cut_workers.turns_not_taken,
}


@dataclass
class Totals:
    """What rounds came to. `lines` is how much workers said, `last` counts their last words."""

    rounds: int = 0
    lines: int = 0
    acked: int = 0
    last: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def hear(self, said: Sequence[Said]) -> None:
        """Count what one worker said."""
        self.lines += len(said)
        self.acked += sum(one[0] in ("acked", "done") for one in said)
        words = [one for one in said if one[0] != "failed"]
        if words:
            what = words[-1]
            self.last[what[1] if what[0] == "phase" else what[0]] += 1

    def add(self, other: Totals) -> None:
        """Another seed's."""
        self.rounds += other.rounds
        self.lines += other.lines
        self.acked += other.acked
        self.last.update(other.last)
        self.problems += other.problems

    def __str__(self) -> str:
        return (
            f"{self.rounds} rounds, {self.acked} acknowledgements, {len(self.problems)} problems; "
            f"last words: {dict(self.last)}"
        )


class Silence(Exception):
    """A worker went on no more, or failed, before it was stopped."""


def listen(workers: Sequence[Worker], lines: int) -> None:
    """Until they said so many lines together."""
    wanted = sum(len(worker.said) for worker in workers) + lines
    # Seconds of silence are counted, not the clock: a lab may be stopped for a while.
    silent = 0
    with selectors.DefaultSelector() as selector:
        for worker in workers:
            selector.register(worker.pipe, selectors.EVENT_READ, worker)
        while sum(len(worker.said) for worker in workers) < wanted:
            heard = selector.select(timeout=1.0)
            silent = 0 if heard else silent + 1
            for key, _ in heard:
                if not key.data.hear() or key.data.failure:
                    raise Silence(key.data.failure or f"it ended: {key.data.said[-1:]}")
            if silent > PATIENCE_S:
                raise Silence(f"the workers do not get on: {[one.said[-1:] for one in workers]}")


class PowerCuts:
    """Rounds on one file system, each ended by a power cut."""

    def __init__(self, disk: LoopDisk, seed: int, *, planted: str = "nothing") -> None:
        self.totals = Totals()
        self._disk = disk
        self._chance = random.Random(f"{disk.kind.name} {seed}")
        self._breaks = PLANTED[planted]
        self._options = disk.kind.options[seed % len(disk.kind.options)]
        self._sessions: dict[str, Log | Agents] = {}
        self._said: dict[Path, list[Said]] = {}
        self._waiting: dict[Path, Log | Agents] = {}
        self._made = 0

    def run(self, rounds: int, *, until_problem: bool = False) -> Totals:
        """So many, on sessions that go on from round to round."""
        self._disk.mount(self._options)
        for number in range(rounds):
            before = len(self.totals.problems)
            self._round(number)
            if len(self.totals.problems) > before:
                if until_problem:
                    break
                # What is wrong once stays wrong.
                self._keep(number)
                self._sessions.clear()
                self._waiting.clear()
        for session in self._waiting.values():
            found = session.problems(self._said[session.path])
            self.totals.problems += [f"at the end: {problem}" for problem in found if problem]
        self._disk.unmount()
        return self.totals

    def _round(self, number: int) -> None:
        kind = self._chance.choice(("own", "own, no filler", "shared", "agent", "agents"))
        session = self._session(kind)
        jobs = self._jobs(kind, session.path, f"r{number}")
        workers = [Worker(job._replace(breaks=self._breaks)) for job in jobs]
        try:
            listen(workers, self._chance.randint(1, 90))
            time.sleep(self._chance.uniform(0, MAX_DELAY_S))
        except Silence as silence:
            self.totals.problems.append(f"round {number}, {kind}: {silence}")
        finally:
            moment = time.monotonic_ns()
            self._disk.cut()
            for worker in workers:
                worker.stop()
        self._disk.unmount()
        self._disk.mount(self._options)
        said = self._said.setdefault(session.path, [])
        for worker in workers:
            self.totals.hear(worker.said)
            said += before(worker.said, moment)
        self.totals.rounds += 1
        # Now and then the next worker recovers it, and the next cut may come while it does.
        if self._chance.randrange(3) == 0:
            self._waiting[session.path] = session
            return
        self._waiting.pop(session.path, None)
        found = [problem for problem in session.problems(said) if problem]
        said.clear()
        self.totals.problems += [f"round {number}, {kind}: {problem}" for problem in found]

    def _session(self, kind: str) -> Log | Agents:
        """The one of this kind; now and then a new one."""
        kind = kind.removesuffix("s")
        if kind not in self._sessions or self._chance.randrange(8) == 0:
            self._made += 1
            path = self._disk.root / f"{kind.split(',')[0]}{self._made}"
            self._sessions[kind] = Agents(path) if kind == "agent" else Log(path)
        return self._sessions[kind]

    def _jobs(self, kind: str, path: Path, name: str) -> list[Job]:
        seed = f"{self._chance.random()}"
        if kind.startswith("own"):
            options = {"preallocate": 0} if kind == "own, no filler" else {}
            return [cut_workers.own(str(path), name, seed, **options)]
        if kind == "shared":
            threads = self._chance.choice((1, 2))
            return [
                cut_workers.shared(str(path), f"{name}.{one}", f"{seed} {one}", threads=threads)
                for one in range(2)
            ]
        mode = "own" if kind == "agent" else "shared"
        return [cut_workers.agent(str(path), name, seed, mode=mode)]

    def _keep(self, number: int) -> None:
        kept = Path(tempfile.mkdtemp(prefix=f"durasess-cut-{number}-"))
        shutil.copytree(self._disk.root, kept, dirs_exist_ok=True, ignore_dangling_symlinks=True)
        self.totals.problems[-1] += f" (kept in {kept})"


class Storm:
    """Four writers on one session; each round kills one of them, sometimes all at once."""

    def __init__(self, directory: Path, seed: int, *, planted: str = "nothing") -> None:
        self.totals = Totals()
        self._breaks = PLANTED[planted]
        self._log = Log(directory / "storm")
        self._chance = random.Random(f"storm {seed}")
        self._said: list[Said] = []
        self._names = 0
        self._workers: list[Worker] = []

    def run(self, rounds: int) -> Totals:
        """So many kills; then all are killed and the session is checked."""
        try:
            self._workers = [self._start() for _ in range(WRITERS)]
            for _ in range(rounds):
                self._round()
        except Silence as silence:
            self.totals.problems.append(f"round {self.totals.rounds}: {silence}")
        finally:
            for worker in self._workers:
                self._stop(worker)
        self.totals.problems += self._log.problems(self._said)
        return self.totals

    def _start(self) -> Worker:
        self._names += 1
        name = f"w{self._names}"
        threads = self._chance.choice((1, 1, 2, 3))
        seed = f"{self._chance.random()}"
        job = cut_workers.shared(str(self._log.path), name, seed, threads=threads)
        return Worker(job._replace(breaks=self._breaks))

    def _round(self) -> None:
        listen(self._workers, self._chance.randint(1, 25))
        time.sleep(self._chance.uniform(0, MAX_DELAY_S / 2))
        everybody = self._chance.randrange(10) == 0
        chosen = range(WRITERS) if everybody else [self._chance.randrange(WRITERS)]
        for index in chosen:
            self._stop(self._workers[index])
        for index in chosen:
            self._workers[index] = self._start()
        self.totals.rounds += 1

    def _stop(self, worker: Worker) -> None:
        if worker.is_dead:
            return
        worker.stop()
        self._said += worker.said
        self.totals.hear(worker.said)
        if worker.failure:
            self.totals.problems.append(f"round {self.totals.rounds}: {worker.failure}")


def power_cuts(
    kind: Kind,
    seed: int,
    directory: Path,
    *,
    rounds: int = ROUNDS,
    planted: str = "nothing",
    until_problem: bool = False,
) -> Totals:
    """One seed of power cuts on a new file system."""
    with loop_disk(kind, directory) as disk:
        return PowerCuts(disk, seed, planted=planted).run(rounds, until_problem=until_problem)


@contextlib.contextmanager
def _place(directory: Path) -> Iterator[Path]:
    place = memory_or(directory)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def storm(seed: int, directory: Path, *, rounds: int = KILLS, planted: str = "nothing") -> Totals:
    """One seed of kills among four writers, on one new session."""
    with _place(directory) as place:
        totals = Storm(place, seed, planted=planted).run(rounds)
        if totals.problems and planted == "nothing":
            kept = tempfile.mkdtemp(prefix="durasess-storm-")
            shutil.copytree(place, kept, dirs_exist_ok=True)
            totals.problems[-1] += f" (kept in {kept})"
        return totals


def main(arguments: Sequence[str] | None = None) -> int:
    """One seed again."""
    parser = argparse.ArgumentParser(description="Stop writers at random moments.")
    parser.add_argument("method", choices=[*KINDS, "storm"])
    parser.add_argument("seed", type=int)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--plant", choices=PLANTED, default="nothing")
    chosen = parser.parse_args(arguments)
    here = Path(tempfile.gettempdir())
    if chosen.method == "storm":
        rounds = chosen.rounds or KILLS
        totals = storm(chosen.seed, here, rounds=rounds, planted=chosen.plant)
    else:
        kind = KINDS[chosen.method]
        rounds = chosen.rounds or ROUNDS
        totals = power_cuts(kind, chosen.seed, here, rounds=rounds, planted=chosen.plant)
    print("\n".join([str(totals), *totals.problems]))
    return 1 if totals.problems else 0


if __name__ == "__main__":
    sys.exit(main())
