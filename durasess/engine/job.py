"""Work in a thread beside the commits, and how those who wait for it learn that it ended."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable
from typing import Any

from durasess.engine.scheduler import Scheduler
from durasess.engine.tickets import Ticket, Work

_LOOK_S = 0.5
"""Seconds between two looks of those who wait whether the job is still there."""

_ATTEMPTS = 3

Finish = Callable[[Any, Any, BaseException | None], None]
"""`finish(job, result, error)`, in the committer; perhaps more than once for a job."""


class Job:
    """Work in a thread of its own. What came of it goes to `finish`, which the committer calls and
    which settles `ticket`."""

    def __init__(self, scheduler: Scheduler, finish: Finish) -> None:
        self.ticket = JobTicket(self.see_to_it)
        self.handed_back: Ticket | None = None
        self._scheduler = scheduler
        self._finish = finish
        self._is_over = False
        self._run: weakref.ref[Callable[[], None]] | None = None

    def start(self, make: Callable[[], Any]) -> None:
        """Run `make` in another thread; `finish` gets what it returns or raises."""

        def run() -> None:
            try:
                self._work(make)
            finally:
                self._is_over = True

        # Nobody else keeps it, so it is gone when its thread died before it for want of memory.
        self._run = weakref.ref(run)
        self._scheduler.background(run)

    def watch(self) -> None:
        """For a job that nobody waits for any more, so that nobody would notice when it is lost:
        the end of its thread, even one before its first step, hands it back."""
        run = None if self._run is None else self._run()
        if run is None:
            self._tell_if_lost()
        else:
            self._run = weakref.ref(run, lambda gone: self._tell_if_lost())

    def is_lost(self) -> bool:
        """Whether it ended and the committer does not know, so that nothing touches its file any
        more: its thread is gone, or there was no memory to say so."""
        if self.ticket.is_settled:
            return False
        if self.handed_back is not None:
            return self.handed_back.is_settled
        return self._is_over or (self._run is not None and self._run() is None)

    def _work(self, make: Callable[[], Any]) -> None:
        result: Any = None
        error: BaseException | None = None
        try:
            result = make()
        except BaseException as failure:
            error = failure
        _insist(lambda: self._hand_back(result, error))

    def _tell_if_lost(self) -> None:
        _insist(self.see_to_it)

    def see_to_it(self) -> None:
        """Hand the job back if it is lost. Called by those who wait, or when its thread ended."""
        if self.is_lost():
            self._hand_back(None, died())

    def _hand_back(self, result: Any, error: BaseException | None) -> None:
        ticket = Ticket(
            Work(
                lambda: self._finish(self, result, error),
                lambda refusal: self._finish(self, None, refusal),
            )
        )
        self._scheduler.submit(ticket)
        self.handed_back = ticket


def _insist(do: Callable[[], None]) -> None:
    """Try again where memory is short for a moment: a close would wait for this for ever."""
    for _ in range(_ATTEMPTS):
        with contextlib.suppress(MemoryError):
            do()
            return


def died() -> BaseException:
    """What is said of a job that was lost."""
    return MemoryError("its thread ended before it could say how")


class JobTicket(Ticket):
    """The ticket of a job. Those who wait for it call `see_to_it` again and again, because a thread
    that died tells nobody."""

    __slots__ = ("see_to_it",)

    def __init__(self, see_to_it: Callable[[], None]) -> None:
        super().__init__(None)
        self.see_to_it = see_to_it
        # Nobody can withdraw a job: it is claimed from the start.
        self.claim()

    def wait(
        self, submit: Callable[[Ticket], None] | None = None, timeout: float | None = None
    ) -> Any:
        """As `Ticket.wait`; there is nothing to hand over."""
        return super().wait(self._until_settled)

    def _until_settled(self, ticket: Ticket) -> None:
        while not self.is_settled:
            if self._settled.acquire(timeout=_LOOK_S):
                # Others may wait for the same outcome.
                self._settled.release()
            else:
                self.see_to_it()
