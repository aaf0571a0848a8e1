"""What the synchronous and the asynchronous session share: drafts made ready, written, read back.

An operation is a generator: it yields what is to be written and gets the receipts, so that one text
serves callers that wait in a thread and callers that wait in an event loop. What each operation
writes is in run_operations, call_operations and session_operations.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn, TypeVar

from durasess.engine import values
from durasess.engine.drafting import MAX_NAME
from durasess.engine.engine import Engine
from durasess.engine.receipt import Receipt
from durasess.engine.types import Draft, Event
from durasess.errors import StorageError
from durasess.session import events, large_fields, out_of_line
from durasess.session.custom import Custom
from durasess.session.masking import Masked
from durasess.session.recorded import plain
from durasess.session.reducer import Reducer
from durasess.session.state import SessionState
from durasess.session.tasks import cancelled_behind, in_thread, undisturbed
from durasess.session.tools import Tool

Mask = Callable[[Any], Masked]
"""Takes data, returns it without its secrets and where they were."""

_NAMES = frozenset(
    [
        "key",
        "operation_id",
        "parent",
        "parent_call",
        "path",
        "resumes",
        "session_id",
        "worker",
        "worker_id",
        "writes",
    ]
)
"""Of known events: by these a session, a call, a worker or a file is found again."""

T = TypeVar("T")


def masked_with(mask: Mask | None, value: Any) -> Masked:
    """A value without its secrets; as it is where nothing is masked."""
    return Masked(value, []) if mask is None else mask(values.plain(value))


class Emission(NamedTuple):
    """Events to be written as one batch; without any, what was handed over before is waited for."""

    drafts: Sequence[Draft]
    durable: bool = True


Operation = Generator[Emission, list[Receipt], T]


class _Stopped(BaseException):
    """What an operation sees of a coroutine that is being closed; a GeneratorExit would end the
    operation itself."""


def draft(
    data: events.EventData,
    *,
    run_id: str | None = None,
    call_id: str | None = None,
    event_id: str | None = None,
) -> Draft:
    """An event of a known type. Providers make ids of any length; one that is too long for an event
    stands in the message that asked for the call, and the call's key says here which it is."""
    kind = events.TYPE_OF[type(data)]
    if call_id is not None and len(call_id) > MAX_NAME and getattr(data, "key", None):
        call_id = None
    return Draft(kind, plain(data), run_id or None, call_id or None, event_id)


class Core:
    """An open engine with all that a session adds to what it writes and reads.

    `originals` are arguments of calls as they were before they were masked, by key: a running tool
    gets them, the record does not. `unended` are ids of runs that nobody works on here though they
    may still be open: who began or ended them was interrupted. `recover()` says what became of what
    a dead worker left, and whether there was anything. `clock()` is in nanoseconds since 1970.
    """

    def __init__(
        self,
        engine: Engine,
        reducer: Reducer,
        tools: Mapping[str, Tool],
        *,
        mask: Mask | None,
        blob_bytes: int,
        worker: dict[str, Any],
        clock: Callable[[], int],
    ) -> None:
        self.engine = engine
        self.reducer = reducer
        self.tools = tools
        self.worker = worker
        self.clock = clock
        self.originals: dict[str, Any] = {}
        self.unended: set[str] = set()
        self.recover: Callable[[], bool] = lambda: False
        self._mask = mask
        self._blob_bytes = blob_bytes

    @property
    def state(self) -> SessionState:
        """After the newest durable event."""
        found: SessionState = self.engine.state
        return found

    @property
    def masks(self) -> bool:
        """Whether secrets are masked before they are written."""
        return self._mask is not None

    @property
    def custom(self) -> Custom:
        """The program's own reducers and versions."""
        return self.reducer.custom

    def run(self, operation: Operation[T]) -> T:
        """Carry an operation out, waiting in this thread."""
        try:
            self._write_all(operation, next(operation))
        except StopIteration as ended:
            result: T = ended.value
            return result

    def _write_all(self, operation: Operation[Any], emission: Emission) -> NoReturn:
        """This batch and those behind it, until the operation ends: StopIteration, or an error."""
        while True:
            try:
                receipts = self._append(emission)
            except BaseException as error:
                emission = operation.throw(error)
            else:
                emission = operation.send(receipts)

    def _append(self, emission: Emission) -> list[Receipt]:
        if not emission.drafts:
            self.engine.flush()
        drafts = [self.prepared(one) for one in emission.drafts]
        return self.engine.append_many(drafts, durable=emission.durable)

    async def run_async(self, operation: Operation[T], *, is_ending: bool = False) -> T:
        """Carry an operation out, waiting in this event loop. What an interruption makes it write,
        and all of it where it `is_ending` something that was stopped, is written although its task
        is cancelled again meanwhile."""
        if not is_ending:
            return await self._carried_out(operation, is_ending=False)
        # What stopped it may be an error that somebody catches: the cancellation is told too.
        with cancelled_behind():
            return await self._carried_out(operation, is_ending=True)

    async def end_async(self, operation: Operation[T], error: BaseException | None) -> T:
        """Carry out what says how something ended that `error` stopped, None that nothing did."""
        if isinstance(error, GeneratorExit):
            # The coroutine is being closed, perhaps with no loop: nothing can be awaited any more.
            return self.run(operation)
        return await self.run_async(operation, is_ending=error is not None)

    async def _carried_out(self, operation: Operation[T], *, is_ending: bool) -> T:
        try:
            emission = next(operation)
            while True:
                writing = self._append_async(emission)
                try:
                    receipts = await (undisturbed(writing) if is_ending else writing)
                except GeneratorExit:
                    self._stopped(operation)
                    raise
                except BaseException as error:
                    is_ending = is_ending or not isinstance(error, Exception)
                    emission = operation.throw(error)
                else:
                    emission = operation.send(receipts)
        except StopIteration as ended:
            result: T = ended.value
            return result

    def _stopped(self, operation: Operation[T]) -> None:
        """Write here what an interruption makes the operation write: the coroutine that carried it
        out is being closed."""
        with contextlib.suppress(StopIteration, _Stopped):
            self._write_all(operation, operation.throw(_Stopped()))

    async def _append_async(self, emission: Emission) -> list[Receipt]:
        if not emission.drafts:
            await in_thread(self.engine.flush)
        if any(out_of_line.may_be_large(one.data, self._blob_bytes) for one in emission.drafts):
            # It goes into files of its own, which would hold up every other task.
            drafts = await in_thread(lambda: [self.prepared(one) for one in emission.drafts])
        else:
            drafts = [self.prepared(one) for one in emission.drafts]
        return await self.engine.append_many_async(drafts, durable=emission.durable)

    def prepared(self, one: Draft) -> Draft:
        """The draft as it is recorded: secrets masked, large values out of line."""
        data = self._shown(one)
        if self._blob_bytes:
            data = large_fields.stored(
                one.type, data, self.engine.put_blob, threshold=self._blob_bytes
            )
        if data is one.data:
            return one
        return Draft(one.type, data, one.run_id, one.call_id, one.event_id)

    def _shown(self, one: Draft) -> Any:
        """The data without its secrets, but for names: by these it is found again."""
        if one.type not in events.TYPES or not isinstance(one.data, dict):
            return self.masked(one.data)
        names = {name: one.data[name] for name in one.data if name in _NAMES}
        rest = {name: one.data[name] for name in one.data if name not in names}
        shown = self.masked(rest)
        if shown is rest:
            return one.data
        calls = rest.get("tool_calls")
        if isinstance(calls, list | tuple):
            shown["tool_calls"] = list(map(_named, shown["tool_calls"], calls))
        return {**shown, **names}

    def masked(self, data: Any) -> Any:
        """The data without its secrets; an object says where they were."""
        if self._mask is None:
            return data
        found = self._mask(values.plain(data))
        if not found.paths:
            return data
        if not isinstance(found.value, dict):
            return found.value
        before = found.value.get("masked")
        paths = [*(before if isinstance(before, list) else []), *found.paths]
        return {**found.value, "masked": paths}

    def mask_arguments(self, arguments: Any) -> Masked:
        """What is recorded of a call's arguments."""
        return masked_with(self._mask, arguments)

    def resolved(self, value: Any) -> Any:
        """A value with what is out of line put back into it, read and verified."""
        return out_of_line.load(value, self.engine.read_blob)

    def events_left(self, after: int = 0) -> Iterator[Event]:
        """The events behind seq `after` that are still there; pruned ones are passed over."""
        return self.engine.events(after=max(after, self.engine.first_seq - 1))

    def event_at(self, seq: int) -> Event:
        """One event of the log. StorageError when it was pruned."""
        try:
            for event in self.engine.events(after=seq - 1):
                return event
        except ValueError as error:
            raise StorageError(
                f"{self.engine.path}: seq {seq} was pruned: {error}. Look for it in a copy of "
                "the session.",
                path=self.engine.path,
                seq=seq,
            ) from error
        raise StorageError(
            f"{self.engine.path}: there is no seq {seq}, the log ends with {self.engine.last_seq}. "
            "Give a seq that is there.",
            path=self.engine.path,
            seq=seq,
        )


def _named(shown: Any, call: Any) -> Any:
    if shown is call or not isinstance(call, Mapping):
        return shown
    return {**shown, **{name: call[name] for name in ("call_id", "name") if name in call}}
