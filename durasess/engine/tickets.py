"""Tickets: the work that callers hand over to a handle's committer, and how they wait for it.

A ticket is begun by the committer or withdrawn by its caller, never both: a caller that Ctrl-C
interrupts withdraws what was not begun, or learns that the outcome is unknown. Knows nothing of
logs and files; where a committer runs is in scheduler.py, what it does in writer.py.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from durasess.errors import DurasessError

if TYPE_CHECKING:
    import asyncio

_UNKNOWN = (
    "durasess: interrupted while waiting, the outcome of this call is unknown: what was handed "
    "over goes on. An event may be in the log; try again with the same event_id to be safe."
)
_WITHDRAWN = "durasess: interrupted before the write began; nothing was written."


class Withdrawn(TimeoutError):
    """Work was not begun in time, and will not be."""


class Ticket:
    """Work that was handed over, and its outcome. Either the committer claims it, to do it, or its
    caller, to withdraw it; the committer settles what it claimed."""

    __slots__ = ("_claimed", "_settled", "error", "future", "is_settled", "result", "work")

    def __init__(self, work: Any, future: asyncio.Future[Any] | None = None) -> None:
        self.work = work
        self.result: Any = None
        self.error: BaseException | None = None
        self.future = future
        self.is_settled = False
        self._claimed = threading.Lock()
        self._settled = threading.Lock()
        self._settled.acquire()

    def claim(self) -> bool:
        """Whether the caller of this method is the first; it alone may go on."""
        return self._claimed.acquire(blocking=False)

    def settle(self, result: Any = None, error: BaseException | None = None) -> None:
        """Set the outcome, once; a second call changes nothing."""
        if self.is_settled:
            return
        self.result = result
        self.error = error
        self.is_settled = True
        self._settled.release()

    def wait(
        self, submit: Callable[[Ticket], None] | None = None, timeout: float | None = None
    ) -> Any:
        """Hand over with `submit`, if given; then the result, or raises the error.

        When interrupted, a note on the exception says whether the work may have been done. Work
        that was not begun after `timeout` seconds is withdrawn: Withdrawn.
        """
        try:
            if submit is not None:
                submit(self)
            if not self.is_settled:
                if timeout is None:
                    self._settled.acquire()
                elif not self._settled.acquire(timeout=timeout):
                    if self.claim():
                        raise Withdrawn
                    self._settled.acquire()
                # Others may wait for the same outcome.
                self._settled.release()
        except Withdrawn:
            raise
        except BaseException as interruption:
            interruption.add_note(_WITHDRAWN if self.claim() else _UNKNOWN)
            raise
        return self.outcome()

    async def wait_async(
        self, submit: Callable[[Ticket], None], timeout: float | None = None
    ) -> Any:
        """The same for a coroutine; `future` is of its loop."""
        assert self.future is not None
        submit(self)
        try:
            if timeout is not None:
                import asyncio

                await asyncio.wait([self.future], timeout=timeout)
                if not self.future.done() and self.claim():
                    raise Withdrawn
            await self.future
        except Withdrawn:
            raise
        except BaseException as interruption:
            interruption.add_note(_WITHDRAWN if self.claim() else _UNKNOWN)
            raise
        return self.outcome()

    def outcome(self) -> Any:
        """The result of a settled ticket, or raises its error."""
        if isinstance(self.error, DurasessError):
            raise self.error.again()
        if self.error is not None:
            raise self.error
        return self.result


class Work:
    """Work that says what happens where a writer gets no turn. With `needs_turn=False` it is done
    all the same; else `without_turn(error)` is called in its place."""

    def __init__(
        self,
        do: Callable[[], Any],
        without_turn: Callable[[DurasessError], Any] | None = None,
        *,
        needs_turn: bool = True,
    ) -> None:
        self._do = do
        self.without_turn = without_turn
        self.needs_turn = needs_turn

    def __call__(self) -> Any:
        """Do it."""
        return self._do()


def needs_turn(ticket: Ticket) -> bool:
    """Whether its work is done in a writer's turn only."""
    return not isinstance(ticket.work, Work) or ticket.work.needs_turn


def settle_together(tickets: Sequence[tuple[Ticket, Any, BaseException | None]]) -> None:
    """Settle many tickets; coroutines of one loop are woken by one call into it."""
    loops: dict[asyncio.AbstractEventLoop, list[asyncio.Future[Any]]] = {}
    for ticket, result, error in tickets:
        ticket.settle(result, error)
        future = ticket.future
        if future is not None:
            loops.setdefault(future.get_loop(), []).append(future)
    for loop, futures in loops.items():
        try:
            loop.call_soon_threadsafe(_wake, futures)
        except RuntimeError:
            # The loop was closed: nobody is waiting any more.
            continue


def _wake(futures: list[asyncio.Future[Any]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)
