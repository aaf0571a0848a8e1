"""Something on its way beside the commits, and how whoever waits for it learns that it ended."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from durasess.engine.commit import Ticket
from durasess.engine.records import Place

_LOOK_S = 0.5
"""How often who waits looks whether the job is still there."""


class Job:
    """Work of a thread of its own, which the committer ends; `ticket` is settled then."""

    def __init__(self, see_to_it: Callable[[Any], None]) -> None:
        self.ticket = JobTicket(lambda: see_to_it(self))
        self.handed_back: Ticket | None = None
        self.is_over = False
        self._make: weakref.ref[Callable[[], None]] | None = None

    def starts(self, make: Callable[[], None]) -> None:
        """`make` is run beside the committer. It says when it `is_over`; nobody else keeps it, so
        it is gone when its thread died before that for want of memory."""
        self._make = weakref.ref(make)

    def is_lost(self) -> bool:
        """Whether it ended without a word, so that nothing touches its file any more: its thread
        is gone, or the committer had no memory to hear it."""
        if self.ticket.is_settled:
            return False
        if self.handed_back is not None:
            return self.handed_back.is_settled
        return self.is_over or (self._make is not None and self._make() is None)


class SnapshotJob(Job):
    """A snapshot on its way; `ticket` is settled with its seq when it is in place."""

    def __init__(
        self,
        place: Place,
        segment: int,
        content: bytes,
        state_bytes: int,
        tail_bytes: int,
        see_to_it: Callable[[SnapshotJob], None],
    ) -> None:
        super().__init__(see_to_it)
        self.place = place
        self.segment = segment
        self.content = content
        self.state_bytes = state_bytes
        self.tail_bytes = tail_bytes


def died() -> BaseException:
    """What is said of a job that was lost."""
    return MemoryError("its thread ended before it could say how")


class JobTicket(Ticket):
    """The ticket of a job. Who waits for it looks after the job, by calling `see_to_it` again and
    again: from a thread that died nothing comes."""

    __slots__ = ("see_to_it",)

    def __init__(self, see_to_it: Callable[[], None]) -> None:
        super().__init__(None)
        self.see_to_it = see_to_it
        # Nobody can withdraw a job: it is claimed from the start.
        self.claim()

    def wait(
        self, submit: Callable[[Ticket], None] | None = None, timeout: float | None = None
    ) -> Any:
        """As that of a ticket."""
        return super().wait(self._until_settled)

    def _until_settled(self, ticket: Ticket) -> None:
        while not self.is_settled:
            if self._settled.acquire(timeout=_LOOK_S):
                # Others may wait for the same outcome.
                self._settled.release()
            else:
                self.see_to_it()
