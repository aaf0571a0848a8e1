"""The rounds of the agent drill: a harness works on a task, is killed, is started again, until the
task is done; then the session and the world are compared with those of an undisturbed harness."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator
from random import Random

import msgspec

from durasess.cli import drill_agent_checks, drill_agent_worker
from durasess.cli.blocks import Row, count, number
from durasess.cli.drill_agent_checks import Asked, Findings
from durasess.cli.drill_agent_process import AgentProcess
from durasess.cli.drill_agent_worker import Orders
from durasess.cli.drill_agent_world import World
from durasess.cli.drill_process import LONGEST_WAIT
from durasess.cli.output import Step
from durasess.engine import paths
from durasess.engine.files import RealFiles
from durasess.errors import DurasessError, SessionNotFoundError
from durasess.session.session import Session

_LIVES = 3
"""An undisturbed task takes two; so many without a kill, and it goes round in circles."""

_MOMENTS = 12
"""A life that is ended at a boundary comes at most so far: then a task takes several."""


class AgentResult(msgspec.Struct, kw_only=True):
    """What a drill did and found. `kills_at_boundaries` were just before something was written or
    an effect began, the others at any instant. `tasks` came to their end."""

    kills: int = 0
    kills_at_boundaries: int = 0
    tasks: int = 0
    seconds: float = 0.0
    findings: Findings = msgspec.field(default_factory=Findings)

    @property
    def is_clean(self) -> bool:
        """Whether nothing was wrong."""
        return self.findings.is_clean

    @property
    def problems(self) -> list[str]:
        """The first findings in words."""
        return self.findings.problems


class AgentDrill:
    """One task after the other, each in a world of its own below `path`."""

    def __init__(self, path: str, rng: Random) -> None:
        self._path = path
        self._rng = rng
        self._result = AgentResult()
        self._findings = self._result.findings
        self._life_s = 0.0
        """The longest life so far that nobody ended, in seconds."""

    def run(self, kills: int, step: Step) -> AgentResult:
        """Kill so often, or less when something was found; `step` is called after each kill. The
        last task comes to its end."""
        started = time.perf_counter()
        with _quiet():
            self._rounds(kills, step)
        self._result.seconds = time.perf_counter() - started
        return self._result

    def _rounds(self, kills: int, step: Step) -> None:
        disk = RealFiles()
        disk.mkdir(self._path)
        reference = self._world("reference")
        self._undisturbed(reference)
        while self._result.kills < kills and self._findings.is_clean:
            world = self._world(f"task-{self._result.tasks + 1}")
            self._task(world, reference, kills, step)

    def _world(self, name: str) -> World:
        world = World(paths.join(self._path, name))
        world.make()
        return world

    def _undisturbed(self, world: World) -> None:
        """What it looks like, and how long it takes, when nothing is killed."""
        asked: list[Asked] = []
        while self._findings.is_clean:
            ended = self._life(Orders(world), asked, kill_after=None)
            if ended == "done":
                break
            self._approve(world)
        self._compare(world, world, asked)
        self._result.findings = self._findings = Findings(
            differences=self._findings.differences, problems=self._findings.problems
        )

    def _task(self, world: World, reference: World, kills: int, step: Step) -> None:
        asked: list[Asked] = []
        undisturbed = 0
        while self._findings.is_clean:
            before = self._result.kills
            ended = self._next_life(world, asked, may_kill=before < kills)
            if self._result.kills > before:
                step()
                undisturbed = 0
            undisturbed += 1
            if ended == "done":
                break
            if undisturbed > _LIVES:
                self._findings.wrong(f"the task is not done after {undisturbed} lives")
            self._look_again(world)
            self._approve(world)
        if self._findings.is_clean:
            self._compare(world, reference, asked)
            self._result.tasks += 1

    # -- one life ---------------------------------------------------------------------------

    def _next_life(self, world: World, asked: list[Asked], *, may_kill: bool) -> str:
        if not may_kill:
            return self._life(Orders(world), asked, kill_after=None)
        if self._rng.random() < 0.5:
            orders = Orders(world, stop_at=self._rng.randint(1, _MOMENTS))
            return self._life(orders, asked, kill_after=LONGEST_WAIT)
        # Rather early: a life that ends before its kill takes long and shows nothing.
        return self._life(Orders(world), asked, kill_after=self._life_s * self._rng.random() ** 2)

    def _life(self, orders: Orders, asked: list[Asked], *, kill_after: float | None) -> str:
        """How it ended by itself: "done", "waiting", or "" when it was killed."""
        worker = AgentProcess(orders)
        try:
            has_begun = worker.wait_for_begin()
            began = time.perf_counter()
            worker.wait_for_stop(LONGEST_WAIT if kill_after is None else kill_after)
            if kill_after is None:
                self._life_s = max(self._life_s, time.perf_counter() - began)
        finally:
            was_killed = worker.kill()
        asked += worker.asked
        if worker.failure:
            self._findings.wrong(f"the harness failed: {worker.failure.strip()}")
        elif not has_begun or (was_killed and kill_after is None):
            self._findings.wrong(f"the harness told nothing for {LONGEST_WAIT:.0f} s")
        elif not was_killed and not worker.ended:
            said = " / ".join(worker.last_words) or "it said nothing"
            self._findings.wrong(f"the harness ended before it was killed: {said}")
        elif was_killed:
            self._result.kills += 1
            self._result.kills_at_boundaries += orders.stop_at > 0
        return worker.ended

    # -- between two lives ------------------------------------------------------------------

    def _look_again(self, world: World) -> None:
        """Now and then somebody else recovers the session; opening again adds nothing to it."""
        if self._rng.random() < 0.5:
            return
        seqs = []
        for _ in range(2):
            try:
                with self._open(world) as session:
                    seqs.append(session.last_seq)
            except SessionNotFoundError:
                return
            except DurasessError as error:
                self._findings.wrong(f"the session could not be opened again: {error}")
                return
        if seqs[0] != seqs[1]:
            self._findings.wrong(f"opened again, the session went on from seq {seqs[0]} by itself")

    def _approve(self, world: World) -> None:
        """Whoever decides about calls is in another process than the harness."""
        try:
            with self._open(world) as session:
                for call in session.open_calls:
                    if call.status == "waiting":
                        call.approve(by="the drill")
        except SessionNotFoundError:
            return
        except DurasessError as error:
            self._findings.wrong(f"no call could be approved: {error}")

    def _compare(self, world: World, reference: World, asked: list[Asked]) -> None:
        try:
            with self._open(world) as session:
                before = session.last_seq
            with self._open(world) as session:
                if session.last_seq != before:
                    self._findings.wrong("a session that was closed did not stay as it was")
                drill_agent_checks.compare(session, world, reference, asked, self._findings)
        except DurasessError as error:
            self._findings.wrong(f"the session could not be read at the end: {error}")

    def _open(self, world: World) -> Session:
        store = drill_agent_worker.opened_store(world, lambda: None)
        # Its maker may have been killed before it said where the project is.
        return store.open(drill_agent_worker.SESSION, workspace=world.project)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Each opening would warn that the sessions of a drill lie in a place for temporary files."""
    logger = logging.getLogger("durasess")
    silent = logging.NullHandler()
    logger.addHandler(silent)
    try:
        yield
    finally:
        logger.removeHandler(silent)


def rows(result: AgentResult) -> Iterator[Row]:
    """The result as rows of a table: what, count, and what to know about it."""
    found = result.findings
    instants = result.kills - result.kills_at_boundaries
    boundaries = f"{result.kills_at_boundaries} at a boundary, {instants} at any instant"
    yield Row(("kills", number(result.kills), boundaries))
    yield Row(("tasks done", number(result.tasks), ""))
    yield Row(("runs interrupted", number(found.interrupted), ""))
    yield Row(("calls uncertain", number(found.uncertain), f"{found.offered} offered again"))
    yield Row(("calls not started", number(found.not_started), ""))
    yield Row(("calls settled", number(found.settled), "by a look at the files they wrote"))
    of = f"of {count(found.contexts, 'context')}"
    yield Row(("contexts with recovery", number(found.with_recovery), of))
    for name, value in (
        ("effects repeated", found.repeated),
        ("differences", found.differences),
    ):
        yield Row((name, number(value), ""), "bad" if value else "plain")
