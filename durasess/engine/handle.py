"""The life of a handle: opened in its committer, work handed over, closed, lost, or forked.

What the work is, engine.py says; what it does to the disk, writer.py.
"""

from __future__ import annotations

import functools
import logging
import warnings
from collections.abc import Callable, Coroutine, Sequence
from types import TracebackType
from typing import Any, Self

from durasess.engine import lifetime
from durasess.engine.admission import Append
from durasess.engine.job import Job
from durasess.engine.lock import busy_error
from durasess.engine.opening import (
    Opened,
    Options,
    open_for_reading,
    open_for_sharing,
    open_for_writing,
)
from durasess.engine.receipt import Receipt
from durasess.engine.recovery import Recovered
from durasess.engine.scheduler import Scheduler, ThreadScheduler
from durasess.engine.tickets import Ticket, Withdrawn, Work
from durasess.engine.types import Recovery
from durasess.engine.writer import Writer, closed_error
from durasess.errors import (
    DurasessError,
    EventRejectedError,
    SessionClosedError,
    StorageError,
)

_LOGGER = logging.getLogger("durasess")


class Handle:
    """What an open session is, whatever is done with it: a context manager around a committer."""

    def __init__(self, options: Options, found: Recovered, writer: Writer | None) -> None:
        self._options = options
        self._found = found
        self._writer = writer
        self._scheduler: Scheduler | None = None
        self._closed = False
        self.session_id = found.claims.session_id
        self.path = options.directory
        self.recovery: Recovery = found.report

    @classmethod
    def opened(cls, options: Options, scheduler: Scheduler | None) -> Self:
        """A handle as `options` say; a writer has a thread of its own without a `scheduler`."""
        if options.mode == "read":
            return cls(options, open_for_reading(options), None)
        return cls.start_writing(options, scheduler or ThreadScheduler())

    @classmethod
    def start_writing(cls, options: Options, scheduler: Scheduler) -> Self:
        """Open for writing, in the committer: Ctrl-C in the caller cannot stop it half way."""
        opening = open_for_writing if options.mode == "own" else open_for_sharing
        opened = Opened()
        handles: list[Self] = []

        def run(tickets: Sequence[Ticket]) -> None:
            if opened.writer is not None:
                opened.writer.run(tickets)
            else:
                _open_in_committer(tickets)

        def open_now() -> None:
            opening(options, scheduler, opened)
            assert opened.found is not None
            engine = cls(options, opened.found, opened.writer)
            engine._scheduler = scheduler
            lifetime.add(engine)
            handles.append(engine)

        try:
            scheduler.start(run)
            Ticket(open_now).wait(scheduler.submit)
            return handles.pop()
        except BaseException:
            _release_in_committer(scheduler, opened)
            raise

    def close(self) -> None:
        """Take a last snapshot if it is due, seal the log, let go of the session.

        Safe to call again, also after an interruption. Errors are raised after everything was let
        go of; what was acknowledged is durable in any case.
        """
        if self._closed:
            return
        if self._writer is None or self._scheduler is None:
            self._closed = True
            return
        writer = self._usable_writer()
        try:
            self._hand_over(_always(lambda: writer.set_closing(True)))
            problem = self._last_snapshot(writer)
            self._until_idle(Work(writer.finish, lambda _: writer.release()))
        except SessionClosedError:
            # Another thread closed it meanwhile.
            problem = None
        except BaseException:
            self._after_failed_close(writer)
            raise
        self._end()
        if problem is not None and writer.failure is not None:
            # It was more than the snapshot that failed.
            raise problem
        if problem is not None:
            _LOGGER.warning("%s: no snapshot at close: %s", self.path, problem)

    def _after_failed_close(self, writer: Writer) -> None:
        """An error comes after everything was let go of; an interruption leaves a usable handle."""
        if writer.is_released:
            self._end()
        else:
            assert self._scheduler is not None
            self._scheduler.submit(Ticket(_always(lambda: writer.set_closing(False))))

    def _last_snapshot(self, writer: Writer) -> DurasessError | None:
        try:
            job = self._hand_over(writer.snapshot_at_close)
            if job is not None:
                self._waiting(job.ticket)
        except DurasessError as error:
            return error
        return None

    def abandon(self) -> None:
        """Let go without sealing, as a crash would: for tests of recovery."""
        if not self._closed and self._writer is not None:
            writer = self._writer
            self._until_idle(_always(writer.give_up))
            self._end()

    def _until_idle(self, work: Callable[[], Job | None]) -> None:
        """Repeat `work` until no background job of this handle can touch a file any more."""
        while (job := self._hand_over(work)) is not None:
            try:
                self._waiting(job.ticket)
            except DurasessError as error:
                _LOGGER.warning("%s: %s", self.path, error)

    def _end(self) -> None:
        assert self._scheduler is not None
        # The mark first: an interruption behind it finds a thread that ends by itself.
        self._scheduler.stop(wait=False)
        self._closed = True
        lifetime.discard(self)
        self._scheduler.stop()

    def _usable_writer(self) -> Writer:
        if self._writer is None:
            raise StorageError(
                f'{self.path} is open with mode="read"; open it with mode="own" to change it.',
                path=self.path,
            )
        if self._closed:
            raise closed_error(self.path)
        if self._scheduler is not None and self._scheduler.is_committing():
            raise EventRejectedError(
                f"{self.path}: apply, validate and summary run in the commit and cannot use the "
                "handle: it would wait for itself. Nothing was written."
            )
        return self._writer

    def _hand_over(self, work: Any) -> Any:
        self._usable_writer()
        assert self._scheduler is not None
        try:
            return Ticket(work).wait(self._scheduler.submit, self._options.patience)
        except Withdrawn:
            raise busy_error(self.path, self._options.lock_timeout) from None

    def _hand_over_async(self, work: Append) -> Coroutine[Any, Any, list[Receipt]]:
        self._usable_writer()
        assert self._scheduler is not None
        ticket = Ticket(work, _asyncio().get_running_loop().create_future())
        patience = self._options.patience
        if patience is None:
            return ticket.wait_async(self._scheduler.submit)
        return self._wait_patiently(ticket, self._scheduler.submit, patience)

    async def _wait_patiently(
        self, ticket: Ticket, submit: Callable[[Ticket], None], patience: float
    ) -> list[Receipt]:
        try:
            receipts: list[Receipt] = await ticket.wait_async(submit, patience)
        except Withdrawn:
            raise busy_error(self.path, self._options.lock_timeout) from None
        return receipts

    def _waiting(self, ticket: Ticket) -> Any:
        assert self._scheduler is not None
        return self._scheduler.wait(ticket)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_closed", True) or self._writer is None or self._scheduler is None:
            return
        try:
            message = f"{self.path} was not closed"
            warnings.warn(message, ResourceWarning, source=self, stacklevel=1)
        finally:
            self._scheduler.submit(Ticket(_always(self._writer.lose)))
            self._scheduler.stop(wait=False)

    def forget(self) -> None:
        """In a forked child: only close the copies of the descriptors. The lock is the parent's,
        and unlocking here would take it from the parent."""
        self._closed = True
        if self._writer is not None:
            self._writer.release(forked=True)


@functools.cache
def _asyncio() -> Any:
    """Imported when the first coroutine appends: it is a large part of a start."""
    import asyncio

    return asyncio


def _always(do: Callable[[], Any]) -> Work:
    """What writes nothing needs no turn."""
    return Work(do, needs_turn=False)


def _open_in_committer(tickets: Sequence[Ticket]) -> None:
    for ticket in tickets:
        if ticket.claim():
            try:
                ticket.settle(ticket.work())
            except BaseException as error:
                ticket.settle(error=error)


def _release_in_committer(scheduler: Scheduler, opened: Opened) -> None:
    """The open failed, or its caller was interrupted: whatever it got to is given back."""
    scheduler.submit(Ticket(_always(lambda: _lose(opened))))
    scheduler.stop()


def _lose(opened: Opened) -> None:
    if opened.writer is not None:
        opened.writer.lose()
