"""The engine's handle: an ordered durable log of events and the state they fold into.

    with Engine.open("counter", initial=int, apply=lambda state, event: state + 1) as engine:
        receipt = engine.append("counted", {"n": 1})

What a caller does with a handle is here; what changes the disk is in writer.py.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any

from durasess.engine import history, lifetime, segment
from durasess.engine.admission import Append
from durasess.engine.commit import Scheduler, ThreadScheduler, Ticket
from durasess.engine.drafting import Drafting
from durasess.engine.files import Files, RealFiles
from durasess.engine.fold import Fold
from durasess.engine.opening import Options, open_for_reading, open_for_writing
from durasess.engine.prune import Pruned
from durasess.engine.receipt import Receipt
from durasess.engine.recovery import Recovered
from durasess.engine.snapshotter import SnapshotJob
from durasess.engine.types import (
    MAX_EVENT_BYTES,
    MAX_PREALLOCATE,
    PREALLOCATE,
    SECTOR,
    SEGMENT_BYTES,
    SNAPSHOT_EVERY,
    Damage,
    Draft,
    Event,
    Migrations,
    Mode,
    Recovery,
    Settings,
)
from durasess.engine.writer import Writer, closed_error
from durasess.errors import (
    DurasessError,
    EventRejectedError,
    SessionClosedError,
    SessionNotFoundError,
    StorageError,
)

_LOGGER = logging.getLogger("durasess")


class Engine:
    """A session's log and state. Make one with `open`; use it as a context manager.

    `state` is the state after `last_seq`, live: what was acknowledged is in it. Treat it as
    read-only, and read it where no append runs at the same time if `apply` changes it in place.
    `recovery` tells what opening found.

    Parameters of `open`:

    * `path`: the session's directory; its last part is the session id.
    * `initial()` makes the state before event 1; `apply(state, event)` returns the next state, or
      None when it changed the one it got. It must be total.
    * `mode`: "own" for one writer; "read" takes no lock and changes nothing, works beside a writer,
      and shows what is written up to the first damage.
    * `create`: whether mode "own" makes a session that is missing.
    * `at_least`: a receipt that the log must reach.
    * `snapshot_every` (events), `segment_bytes`, `max_event_bytes` (bytes).
    * `preallocate`: the step in bytes, a multiple of 512, by which the newest segment's file grows
      ahead of what is in it; tabs fill the rest. 0 for none, which makes a durable append slower.
    * `strict`: refuse data that would not come back equal.
    * `validate(state, draft)` may raise to refuse a draft before anything is written; it sees the
      state before its batch.
    * `schema_version`, `migrations`: `migrations[v]` leads from version v to v + 1.
    * `state_type`: the msgspec type of a state that is not plain JSON.
    * `summary(state)` makes what lists of sessions show.
    * `clock()`: nanoseconds since 1970. `files`, `scheduler`: for tests.
    """

    def __init__(self, options: Options, found: Recovered, writer: Writer | None) -> None:
        self._options = options
        self._found = found
        self._writer = writer
        self._scheduler: Scheduler | None = None
        self._drafting = Drafting()
        self._damage: list[Damage] = []
        self._closed = False
        self.session_id = found.claims.session_id
        self.path = options.directory
        self.recovery: Recovery = found.report

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        initial: Callable[[], Any] = dict,
        apply: Callable[[Any, Event], Any] | None = None,
        mode: Mode = "own",
        create: bool = True,
        at_least: Receipt | None = None,
        snapshot_every: int = SNAPSHOT_EVERY,
        segment_bytes: int = SEGMENT_BYTES,
        preallocate: int = PREALLOCATE,
        max_event_bytes: int = MAX_EVENT_BYTES,
        strict: bool = False,
        validate: Callable[[Any, Draft], None] | None = None,
        schema_version: int = 1,
        migrations: Migrations | None = None,
        state_type: Any = Any,
        summary: Callable[[Any], Any] | None = None,
        files: Files | None = None,
        clock: Callable[[], int] = time.time_ns,
        scheduler: Scheduler | None = None,
    ) -> Engine:
        """Open a session directory, or with mode "own" and `create` make it.

        Raises SessionNotFoundError, SessionLockedError, CorruptionError, FormatVersionError or
        StorageError; a failed open changes nothing on disk.
        """
        if mode not in ("own", "read"):
            raise ValueError(f'mode is "own" or "read", not {mode!r}')
        options = Options(
            disk=files or RealFiles(),
            directory=_directory(path, files),
            fold=Fold(
                initial=initial,
                apply=apply or _keep,
                schema_version=schema_version,
                migrations=migrations or {},
                state_type=state_type,
            ),
            settings=Settings(
                snapshot_every=max(1, snapshot_every),
                segment_bytes=segment_bytes,
                preallocate=_step(preallocate),
                clock=clock,
                validate=validate,
                summary=summary,
            ),
            at_least=at_least,
            # A receipt says that there is a session: a new one could only fail to reach it.
            create=create and at_least is None,
            token=lambda: f"{os.getpid()}-{clock()}",
        )
        if mode == "read":
            return cls(options, open_for_reading(options), None)
        engine = cls._own(options, scheduler or ThreadScheduler())
        engine._drafting = Drafting(strict=strict, max_event_bytes=max_event_bytes)
        return engine

    @classmethod
    def _own(cls, options: Options, scheduler: Scheduler) -> Engine:
        """Open in the committer, so that Ctrl-C in the caller cannot stop it half way."""
        opened: list[Writer] = []
        handles: list[Engine] = []

        def run(tickets: Sequence[Ticket]) -> None:
            if opened:
                opened[0].run(tickets)
            else:
                _open_in_committer(tickets)

        def open_now() -> None:
            writer, found = open_for_writing(options, scheduler)
            opened.append(writer)
            engine = cls(options, found, writer)
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

    # -- what is there ----------------------------------------------------------------------

    @property
    def state(self) -> Any:
        """The state after `last_seq`."""
        return self._found.state if self._writer is None else self._writer.state

    @property
    def last_seq(self) -> int:
        """The seq of the newest event that is acknowledged (mode "read": that was readable)."""
        return self._found.place.seq if self._writer is None else self._writer.place.seq

    @property
    def first_seq(self) -> int:
        """The seq of the oldest event that is left; later than 1 after a prune."""
        number = max(self._newest_segment(), 1)
        try:
            lowest = segment.lowest(self._options.disk, self.path, number)
            found = segment.first_seq_of(self._options.disk, self.path, lowest)
        except OSError as error:
            raise StorageError(
                f"{self.path} cannot be read: {error}.", path=self.path, errno=error.errno
            ) from error
        return found or self.last_seq + 1

    @property
    def damage(self) -> tuple[Damage, ...]:
        """What opening and `events` found damaged, in the order it was found."""
        return (*self.recovery.damage, *self._damage)

    @property
    def notices(self) -> tuple[str, ...]:
        """What went wrong without costing an event: at opening, and with snapshots since."""
        later = self._writer.notices if self._writer is not None else []
        return (*self.recovery.notices, *later)

    def events(self, after: int = 0) -> Iterator[Event]:
        """The events with seq > `after`, up to what is acknowledged now, from disk, in order.

        Raises CorruptionError at damage; in mode "read" goes on behind it instead, with `proven`
        False on the first event behind a gap, and `damage` says what was passed. ValueError when
        the events after `after` were pruned.
        """
        reading = self._writer is None
        damaged = reading and self.recovery.damage
        through = history.EVERYTHING if damaged else self.last_seq
        self._found.claims.highest = max(self._found.claims.highest, self._newest_segment())
        return history.events(
            self._options.disk,
            self._found.claims,
            self._options.fold,
            after=after,
            through=through,
            on_damage=self._note_damage if reading else None,
        )

    def _newest_segment(self) -> int:
        return self._found.next_segment - 1 if self._writer is None else self._writer.newest_segment

    def _note_damage(self, damage: Damage) -> None:
        if damage not in self.damage:
            self._damage.append(damage)

    # -- appending --------------------------------------------------------------------------

    def append(
        self,
        type: str,
        data: Any = None,
        *,
        run_id: str | None = None,
        call_id: str | None = None,
        event_id: str | None = None,
        durable: bool = True,
    ) -> Receipt:
        """Append one event; when this returns, it survives power loss.

        With `durable=False` it returns when the event is written, and the sync follows at once,
        before the next write; the receipt then proves nothing. An `event_id` used again for the
        same content returns the first receipt and writes nothing.

        Raises EventRejectedError (nothing was written), StorageError (the disk refused, nothing
        was kept, the handle lives), SessionFailedError or FencedError (close and open again).
        """
        draft = Draft(type, data, run_id, call_id, event_id)
        receipts: list[Receipt] = self._hand_over(Append([self._drafting.prepared(draft)], durable))
        return receipts[0]

    def append_many(
        self, events: Iterable[tuple[str, Any] | Draft], *, durable: bool = True
    ) -> list[Receipt]:
        """Append events as one batch: after any crash all of them are there or none."""
        work = self._drafting.batch(events, durable)
        if not work.items:
            return []
        receipts: list[Receipt] = self._hand_over(work)
        return receipts

    async def append_async(
        self,
        type: str,
        data: Any = None,
        *,
        run_id: str | None = None,
        call_id: str | None = None,
        event_id: str | None = None,
        durable: bool = True,
    ) -> Receipt:
        """`append` for coroutines: many tasks share one write and one sync."""
        draft = Draft(type, data, run_id, call_id, event_id)
        receipts = await self._hand_over_async(Append([self._drafting.prepared(draft)], durable))
        return receipts[0]

    async def append_many_async(
        self, events: Iterable[tuple[str, Any] | Draft], *, durable: bool = True
    ) -> list[Receipt]:
        """`append_many` for coroutines."""
        work = self._drafting.batch(events, durable)
        return await self._hand_over_async(work) if work.items else []

    # -- the rest of a handle's life --------------------------------------------------------

    def flush(self) -> None:
        """Return when everything that was appended before is durable."""
        self._hand_over(self._usable_writer().check_usable)

    def rotate(self) -> None:
        """Seal the active segment now; the next append begins another."""
        self._hand_over(self._usable_writer().rotate)

    def snapshot(self) -> int:
        """Snapshot the state as it is now or later; returns the seq it is of.

        Raises what kept the snapshot from being made; the log is whole all the same.
        """
        writer = self._usable_writer()
        wanted = self.last_seq
        while writer.snapshot_seq < wanted:
            job = self._hand_over(writer.begin_snapshot)
            if job is not None:
                self._waiting(job.ticket)
        return writer.snapshot_seq

    def prune(self) -> Pruned:
        """Delete the segments that both snapshots cover; says what went. History before
        `first_seq` of the result can't be read any more."""
        pruned: Pruned = self._hand_over(self._usable_writer().prune)
        return pruned

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
            self._hand_over(lambda: writer.set_closing(True))
            problem = self._last_snapshot(writer)
            self._until_idle(writer.finish)
        except SessionClosedError:
            # Another thread closed it in this moment.
            problem = None
        except BaseException:
            self._after_failed_close(writer)
            raise
        self._end()
        if problem is not None:
            _LOGGER.warning("%s: no snapshot at close: %s", self.path, problem)

    def _after_failed_close(self, writer: Writer) -> None:
        """An error comes after everything was let go of; an interruption leaves a usable handle."""
        if writer.is_released:
            self._end()
        elif self._scheduler is not None:
            self._scheduler.submit(Ticket(lambda: writer.set_closing(False)))

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
            self._until_idle(self._writer.give_up)
            self._end()

    def _until_idle(self, work: Callable[[], SnapshotJob | None]) -> None:
        """Repeat `work` until no background job of this handle can touch a file any more."""
        while (job := self._hand_over(work)) is not None:
            try:
                self._waiting(job.ticket)
            except DurasessError as error:
                _LOGGER.warning("%s: %s", self.path, error)

    def _end(self) -> None:
        # The mark first: an interruption behind it finds a thread that ends by itself.
        if self._scheduler is not None:
            self._scheduler.stop(wait=False)
        self._closed = True
        lifetime.discard(self)
        if self._scheduler is not None:
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
        return Ticket(work).wait(self._scheduler.submit)

    async def _hand_over_async(self, work: Append) -> list[Receipt]:
        self._usable_writer()
        assert self._scheduler is not None
        future = asyncio.get_running_loop().create_future()
        receipts: list[Receipt] = await Ticket(work, future).wait_async(self._scheduler.submit)
        return receipts

    def _waiting(self, ticket: Ticket) -> Any:
        assert self._scheduler is not None
        return self._scheduler.wait(ticket)

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if not getattr(self, "_closed", True) and self._writer is not None:
            try:
                message = f"{self.path} was not closed"
                warnings.warn(message, ResourceWarning, source=self, stacklevel=1)
            finally:
                if self._scheduler is not None:
                    self._scheduler.submit(Ticket(self._writer.lose))
                    self._scheduler.stop(wait=False)

    def forget(self) -> None:
        """In a forked child: only close the copies of the descriptors. The lock is the parent's,
        and unlocking here would take it from the parent."""
        self._closed = True
        if self._writer is not None:
            self._writer.release()

    def __repr__(self) -> str:
        return f"<Engine {self.path} at seq {self.last_seq}>"


def _open_in_committer(tickets: Sequence[Ticket]) -> None:
    for ticket in tickets:
        if ticket.claim():
            try:
                ticket.settle(ticket.work())
            except BaseException as error:
                ticket.settle(error=error)


def _release_in_committer(scheduler: Scheduler, opened: list[Writer]) -> None:
    """The open failed, or its caller was interrupted: whatever it got to is given back."""
    scheduler.submit(Ticket(lambda: _lose(opened)))
    scheduler.stop()


def _lose(opened: list[Writer]) -> None:
    for writer in opened:
        writer.lose()


def _directory(path: str | os.PathLike[str], files: Files | None) -> str:
    """One name for one session: links resolved, so two paths cannot be two writers (R22)."""
    text = os.fsdecode(path)
    try:
        text.encode("utf-8", "surrogateescape")
        found = os.path.realpath(os.path.expanduser(text)) if files is None else text
    except OSError as error:
        raise StorageError(
            f"{text!r} cannot be looked up: {error}.", path=text, errno=error.errno
        ) from error
    except ValueError as error:
        raise SessionNotFoundError(f"{text!r} is no path: {error}.") from None
    if "\0" in found:
        raise SessionNotFoundError(f"{text!r} is no path: it has a NUL character.")
    return found


def _step(preallocate: int) -> int:
    if preallocate not in range(0, MAX_PREALLOCATE + 1, SECTOR):
        raise ValueError(
            f"preallocate is a multiple of {SECTOR} up to {MAX_PREALLOCATE} bytes, "
            f"not {preallocate!r}"
        )
    return int(preallocate)


def _keep(state: Any, event: Event) -> Any:
    return state
