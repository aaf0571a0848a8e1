"""The drill's harness in this process, with lives that end where a test wants.

A life ends as by a kill: what was written is on disk, nothing is sealed, and nothing is written by
the blocks that it leaves.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from durasess import Session
from durasess.cli import drill_agent_checks, drill_agent_worker
from durasess.cli.drill_agent_checks import Asked, Findings
from durasess.cli.drill_agent_world import World


class Killed(BaseException):
    """Here the process died."""


class Life:
    """One life of the harness: dies at its moment number `stop_at`, 0 for never."""

    def __init__(self, stop_at: int) -> None:
        self.moments = 0
        self._stop_at = stop_at

    @property
    def is_over(self) -> bool:
        return 0 < self._stop_at <= self.moments

    def moment(self) -> None:
        if not self.is_over:
            self.moments += 1
        if self.is_over:
            raise Killed


class Agent:
    """A task in a world of its own, worked on in as many lives as it takes."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world = World(str(folder))
        self.world.make()
        self.asked: list[Asked] = []
        self.moments = 0
        self.waited_at = 0
        self._life = Life(0)
        close = Session.close

        def let_go(session: Session) -> None:
            if self._life.is_over:
                session.core.engine.abandon()
            else:
                close(session)

        monkeypatch.setattr(Session, "close", let_go)

    def live(self, stop_at: int = 0) -> str:
        """ "done", "waiting", or "" for a life that ended before."""
        self._life = Life(stop_at)
        try:
            return drill_agent_worker.live(self.world, say=self._hear, moment=self._life.moment)
        except Killed:
            return ""
        finally:
            self.moments += self._life.moments
            self._life = Life(0)

    def finish(self) -> None:
        """Live on, undisturbed, until the task is done."""
        for _ in range(4):
            if self.live() == "done":
                return
            self.approve()
        raise AssertionError("the task does not come to its end")

    def approve(self) -> None:
        """What the person says who is asked."""
        with self.open() as session:
            self.waited_at = session.last_seq
            for call in session.open_calls:
                if call.status == "waiting":
                    call.approve(by="a test")

    def open(self, **options: Any) -> Session:
        store = drill_agent_worker.opened_store(self.world, lambda: None)
        return store.open(drill_agent_worker.SESSION, **options)

    def problems(self, reference: World) -> list[str]:
        """What is not as it must be, in words."""
        findings = Findings()
        with self.open() as session:
            drill_agent_checks.compare(session, self.world, reference, self.asked, findings)
        return findings.problems

    def _hear(self, told: dict[str, Any]) -> None:
        if "context" in told:
            heard = told["told"]
            calls = None if heard is None else [list(one) for one in heard]
            self.asked.append(Asked(told["context"], calls))
