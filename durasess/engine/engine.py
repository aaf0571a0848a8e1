"""The engine's handle: an ordered durable log of events and the state they fold into.

    with Engine.open("counter", initial=int, apply=lambda state, event: state + 1) as engine:
        receipt = engine.append("counted", {"n": 1})

How a session is opened and what a caller changes is here; what it sees is in view.py, how a handle
lives and ends in handle.py, what happens on the disk in writer.py.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterable
from typing import Any

from durasess.engine.admission import Append, Prepared
from durasess.engine.arguments import check_arguments, checked_step
from durasess.engine.drafting import Drafting, Encoded
from durasess.engine.files import Files, RealFiles
from durasess.engine.fold import Fold
from durasess.engine.opening import Options
from durasess.engine.prune import Pruned
from durasess.engine.receipt import Receipt
from durasess.engine.recovery import Recovered
from durasess.engine.scheduler import Scheduler
from durasess.engine.types import (
    LOCK_TIMEOUT_S,
    MAX_EVENT_BYTES,
    PREALLOCATE,
    SEGMENT_BYTES,
    SNAPSHOT_EVERY,
    Draft,
    Event,
    Migrations,
    Mode,
    Settings,
)
from durasess.engine.view import EngineView
from durasess.engine.writer import Writer
from durasess.errors import SessionNotFoundError, StorageError

_COUNT = itertools.count(1)
"""Makes what handles of one process are called different, whatever their clocks say."""


class Engine(EngineView):
    """A session's log and state. Make one with `open`; use it as a context manager.

    `state` is the state after `last_seq`, live: what was acknowledged is in it. Treat it as
    read-only, and read it where no append runs at the same time if `apply` changes it in place.
    `recovery` tells what opening found; `session_id` and `path` say which session it is.

    Parameters of `open`:

    * `path`: the session's directory; its last part is the session id.
    * `initial()` makes the state before event 1; `apply(state, event)` returns the next state, or
      None when it changed the one it got. It must take every event without raising.
    * `mode`: "own" for one writer; "shared" for several, in any number of processes, which append
      in turns; "read" takes no lock and changes nothing, works beside writers, and shows what is
      written up to the first damage.
    * `lock_timeout`: seconds that a call waits for the turns of others before it is withdrawn with
      SessionLockedError.
    * `create`: whether a session that is missing is made (not by mode "read").
    * `at_least`: a receipt that the log must reach.
    * `snapshot_every`: events between two snapshots, fewer where they have more than 4 KiB each.
    * `segment_bytes`, `max_event_bytes`: bytes.
    * `preallocate`: the step in bytes, a multiple of 512, by which the newest segment's file grows
      ahead of what is in it; tabs fill the rest. 0 for none, which makes a durable append slower.
    * `compress`: whether segments that both snapshots cover are compressed, a while after they were
      sealed; `zstd -d` reads them. A writer that shares the session does so while it is alone.
    * `strict`: refuse data that would not come back equal.
    * `validate(state, draft)` may raise to refuse a draft before anything is written; it sees the
      state before its batch.
    * `schema_version`, `migrations`: `migrations[v]` leads from version v to v + 1.
    * `state_type`: the msgspec type of a state that is not plain JSON.
    * `summary(state)` makes what lists of sessions show.
    * `check(state, seq)` may raise to refuse the recovered state before a writer changes anything.
    * `takes(state)`: whether to go on with the state of a snapshot. Where not, because a program
      that knows less of the events made it, the log is replayed from its beginning, if it is whole.
    * `clock()`: nanoseconds since 1970. `files`, `scheduler`: for tests.
    """

    def __init__(self, options: Options, found: Recovered, writer: Writer | None) -> None:
        super().__init__(options, found, writer)
        self._drafting = options.drafting

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
        compress: bool = True,
        lock_timeout: float = LOCK_TIMEOUT_S,
        max_event_bytes: int = MAX_EVENT_BYTES,
        strict: bool = False,
        validate: Callable[[Any, Draft], None] | None = None,
        schema_version: int = 1,
        migrations: Migrations | None = None,
        state_type: Any = Any,
        summary: Callable[[Any], Any] | None = None,
        check: Callable[[Any, int], None] | None = None,
        takes: Callable[[Any], bool] | None = None,
        files: Files | None = None,
        clock: Callable[[], int] = time.time_ns,
        scheduler: Scheduler | None = None,
    ) -> Engine:
        """Open a session directory, or `create` it; a failed open changes nothing. StorageError,
        SessionNotFoundError, SessionLockedError, CorruptionError or FormatVersionError."""
        check_arguments(mode, schema_version, at_least, (initial, apply, validate, summary, clock))
        options = Options(
            disk=files or RealFiles(),
            directory=_directory(path, files),
            fold=Fold(
                initial=initial,
                apply=apply or _keep,
                schema_version=schema_version,
                migrations=migrations or {},
                state_type=state_type,
                takes=takes,
            ),
            settings=Settings(
                snapshot_every=max(1, snapshot_every),
                segment_bytes=segment_bytes,
                preallocate=checked_step(preallocate),
                compress=compress,
                clock=clock,
                validate=validate,
                summary=summary,
            ),
            at_least=at_least,
            # A receipt says that there is a session: a new one could only fail to reach it.
            create=create and at_least is None,
            mode=mode,
            lock_timeout=lock_timeout,
            token=lambda: f"{os.getpid()}-{clock()}-{next(_COUNT)}",
            check=check,
            drafting=Drafting(strict=strict, max_event_bytes=max_event_bytes),
        )
        return cls.opened(options, scheduler)

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

    def prepared(self, one: Encoded | Draft) -> Prepared:
        """For importers: an event made ready for `append_prepared`, checked and encoded. Raises
        EventRejectedError as `append` does."""
        if isinstance(one, Draft):
            return self._drafting.prepared(one)
        return self._drafting.encoded(one)

    def append_prepared(self, events: list[Prepared]) -> None:
        """For importers: append events that `prepared` made ready, as one batch. It returns when
        they are written; the sync follows."""
        self._hand_over(self._drafting.together(events, durable=False))

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

    # -- large values -----------------------------------------------------------------------

    def put_blob(self, data: bytes) -> str:
        """Store bytes beside the log, once, and return the hash by which events name them.

        When this returns, they survive power loss. It runs in the calling thread and waits for no
        commit. `prune` keeps what was put through a handle until that is closed; after that, only
        what an event or the state names.

        Raises EventRejectedError (`data` is not bytes), StorageError (the disk refused; nothing was
        kept), or what ended the handle.
        """
        failure = self._usable_writer().failure
        if failure is not None:
            raise failure.again()
        return self._blobs.put(data)

    # -- the rest of a handle's life --------------------------------------------------------

    def flush(self) -> None:
        """Return when everything that was appended before is durable."""
        self._hand_over(self._usable_writer().check_usable)

    def rotate(self) -> None:
        """Seal the active segment now; the next append begins another."""
        self._hand_over(self._usable_writer().rotate)

    def snapshot(self) -> int:
        """Wait for a snapshot of the state as it is now or later; returns the seq that it is of.

        Raises what kept the snapshot from being made; the log is whole all the same.
        """
        writer = self._usable_writer()
        wanted = self.last_seq
        while writer.snapshot_seq < wanted:
            job = self._hand_over(writer.begin_snapshot)
            if job is not None:
                self._waiting(job.ticket)
        return writer.snapshot_seq

    def publish_summary(self) -> None:
        """Write what `summary` makes of the state now. Without this call, that is done at
        rotations, snapshots and the close."""
        self._hand_over(self._usable_writer().publish_summary)

    def prune(self) -> Pruned:
        """Delete the segments that both snapshots cover, then the blobs that nothing names any
        more; says what went. History before `first_seq` of the result can't be read any more.
        EventRejectedError while `takes` refuses a snapshot and the log is whole."""
        writer = self._usable_writer()
        pruned: Pruned = self._hand_over(lambda: writer.prune(self._blobs))
        return pruned

    def __repr__(self) -> str:
        return f"<Engine {self.path} at seq {self.last_seq}>"


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


def _keep(state: Any, event: Event) -> Any:
    return state
