"""Where a committer runs: in a thread of its own, or in whoever calls, for tests.

There is one for each open handle: callers hand over work and wait, it runs in one place, in the
order it was handed over. Ctrl-C in a caller's thread never reaches a commit. What is handed over is
in tickets.py, what becomes of it in writer.py.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from durasess.engine.tickets import Ticket

_LOGGER = logging.getLogger("durasess")

MAX_TOGETHER = 1024
"""Tickets in one commit."""

COMES_BACK_S = 0.0002
"""A caller that has its answer and goes on hands over the next within this time."""

MAX_KEPT_S = 0.004
"""No longer than this is gone on with what comes more, so that others get their turn."""


class Scheduler(Protocol):
    """Where a committer runs."""

    def start(self, run: Callable[[Sequence[Ticket]], None]) -> None:
        """Begin; `run` gets the tickets that wait, in order, and settles all it claims."""

    def submit(self, ticket: Ticket) -> None:
        """Hand over one ticket. Atomic: an interruption leaves it handed over or not at all."""

    def expects_more(self) -> bool:
        """Whether `run`, once it has answered, should ask for `more` before it returns."""

    def more(self) -> Sequence[Ticket]:
        """What is handed over in this moment; nothing when nobody came."""

    def background(self, job: Callable[[], None]) -> None:
        """Run something slow beside the committer."""

    def is_committing(self) -> bool:
        """Whether the caller is the committer itself, which must never wait for itself."""

    def wait(self, ticket: Ticket) -> Any:
        """The ticket's result, when background jobs may have to run first."""

    def stop(self, *, wait: bool = True) -> None:
        """End after what was handed over before. What comes later is run by its caller, so that
        nobody waits for ever."""


class ThreadScheduler:
    """The committer as a daemon thread; background jobs in threads of their own."""

    def __init__(self, name: str = "durasess-committer") -> None:
        self._name = name
        self._waiting: queue.SimpleQueue[Ticket | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._run: Callable[[Sequence[Ticket]], None] | None = None
        self._stopped = False
        self._ends = False
        self._shared = 1
        self._come_back = False
        self._returned = 0.0
        self._until: float | None = None

    def start(self, run: Callable[[Sequence[Ticket]], None]) -> None:
        """Start the thread."""
        self._run = run
        thread = threading.Thread(target=self._loop, args=(run,), name=self._name, daemon=True)
        self._thread = thread
        thread.start()

    def submit(self, ticket: Ticket) -> None:
        """SimpleQueue.put is atomic and safe in signal handlers."""
        self._waiting.put(ticket)
        if self._stopped:
            self._run_rest()

    def expects_more(self) -> bool:
        """Callers that came back at once the last time will do so again."""
        if not self._come_back or self._ends:
            return False
        now = time.monotonic()
        if self._until is None:
            self._until = now + MAX_KEPT_S
        return now < self._until

    def more(self) -> Sequence[Ticket]:
        """From those who were answered just now."""
        try:
            return self._next(COMES_BACK_S)
        except queue.Empty:
            self._come_back = False
            return ()

    def background(self, job: Callable[[], None]) -> None:
        """Start a thread for the job. Where there is none to be had, as at the end of the program
        in Python 3.12, the caller waits for it: later than it might be is better than never."""
        is_taken = threading.Lock()

        def run() -> None:
            # A thread that began may be told as one that did not, for want of memory.
            if is_taken.acquire(blocking=False):
                job()

        thread = threading.Thread(target=run, name=f"{self._name}-background", daemon=True)
        with contextlib.suppress(RuntimeError):
            thread.start()
            return
        run()

    def is_committing(self) -> bool:
        """Whether this is the committer's thread."""
        return self._thread is threading.current_thread()

    def wait(self, ticket: Ticket) -> Any:
        """Other threads run by themselves."""
        return ticket.wait()

    def stop(self, *, wait: bool = True) -> None:
        """End the thread."""
        self._waiting.put(None)
        if wait and self._thread is not None and self._thread is not threading.current_thread():
            # An interruption inside start leaves a thread about to begin: it finds the mark.
            with contextlib.suppress(RuntimeError):
                self._thread.join()

    def _run_rest(self) -> None:
        """Whoever puts after the end, and the end itself, take what is there: between them nothing
        is left waiting."""
        assert self._run is not None
        while True:
            try:
                ticket = self._waiting.get_nowait()
            except queue.Empty:
                return
            if ticket is not None:
                self._run([ticket])

    def _let_others_in(self) -> None:
        """Those who shared the last batch were answered in this moment, and may hand over the next:
        as long as they do, they run first, so that they share a batch again."""
        seen, waiting = -1, self._waiting.qsize()
        while self._shared > 1 and seen < waiting < self._shared:
            time.sleep(0)
            seen, waiting = waiting, self._waiting.qsize()

    def _next(self, timeout: float | None = None) -> list[Ticket]:
        """What waits, as soon as something does; queue.Empty after `timeout` seconds. Nobody else
        takes from the queue while this thread lives."""
        self._let_others_in()
        tickets = []
        ticket = self._waiting.get(timeout=timeout)
        while ticket is not None:
            tickets.append(ticket)
            if self._waiting.empty() or len(tickets) == MAX_TOGETHER:
                break
            ticket = self._waiting.get()
        self._ends = ticket is None
        self._shared = len(tickets)
        return tickets

    def _loop(self, run: Callable[[Sequence[Ticket]], None]) -> None:
        while not self._ends:
            tickets = self._next()
            self._come_back = time.monotonic() - self._returned < COMES_BACK_S
            self._until = None
            try:
                run(tickets)
            except BaseException:
                # The tickets are settled and the handle is failed; the thread must go on to say so.
                _LOGGER.exception("%s: a commit was stopped", self._name)
            self._returned = time.monotonic()
            # A handle that nobody has any more must not live on in what was handed over last.
            del tickets
        self._stopped = True
        self._run_rest()


class InlineScheduler:
    """Everything in the calling thread, step by step, for tests: a commit runs inside the call
    that hands it over; background jobs wait, oldest first, until `run_background`."""

    def __init__(self) -> None:
        self.background_jobs: deque[Callable[[], None]] = deque()
        self._run: Callable[[Sequence[Ticket]], None] | None = None
        self._depth = 0

    def start(self, run: Callable[[Sequence[Ticket]], None]) -> None:
        """Keep what to run."""
        self._run = run

    def submit(self, ticket: Ticket) -> None:
        """Run the ticket now."""
        if self._run is not None:
            self._depth += 1
            try:
                self._run([ticket])
            finally:
                self._depth -= 1

    def is_committing(self) -> bool:
        """Whether a commit is running further up the stack."""
        return self._depth > 0

    def expects_more(self) -> bool:
        """Nothing comes meanwhile."""
        return False

    def more(self) -> Sequence[Ticket]:
        """Nothing."""
        return ()

    def background(self, job: Callable[[], None]) -> None:
        """Keep the job for later."""
        self.background_jobs.append(job)

    def run_background(self) -> bool:
        """Run the oldest waiting job; False when there is none."""
        if not self.background_jobs:
            return False
        self.background_jobs.popleft()()
        return True

    def wait(self, ticket: Ticket) -> Any:
        """Run waiting jobs until the ticket is settled."""
        while not ticket.is_settled and self.run_background():
            pass
        return ticket.wait()

    def stop(self, *, wait: bool = True) -> None:
        """Nothing to end."""
