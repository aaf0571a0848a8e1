"""The bus: hands durable events to whoever subscribed, each to each at its own pace.

The events come from the engine, which reads from disk what a subscriber could not take at once:
nobody misses one, and nobody delays the session. What an event means is not known here; the thread
behind `async for` is in crossing.py.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Collection, Generator
from types import TracebackType
from typing import Any, Self, cast

import msgspec

from durasess.engine.engine import Engine
from durasess.engine.types import Event
from durasess.errors import SessionClosedError
from durasess.session.crossing import Crossing

_LOGGER = logging.getLogger("durasess")


class Delivery(msgspec.Struct, frozen=True):
    """One durable event as one subscriber gets it; no other subscriber has the same `event.data`.

    `replayed` says that it was durable before the subscription was made.
    """

    event: Event
    replayed: bool

    @property
    def seq(self) -> int:
        """The event's number, to be given as `after` when subscribing again."""
        return self.event.seq

    @property
    def type(self) -> str:
        """The event's type."""
        return self.event.type

    @property
    def data(self) -> Any:
        """The event's data, plain JSON."""
        return self.event.data

    @property
    def run_id(self) -> str | None:
        """The run that it belongs to."""
        return self.event.run_id

    @property
    def call_id(self) -> str | None:
        """The tool call that it is about."""
        return self.event.call_id

    def sse(self) -> str:
        """The delivery as a Server-Sent Event, a text in ASCII that ends with an empty line.

        `id` is the seq: what comes back as Last-Event-ID is the next `after`. `data` is one line
        of JSON: {"seq", "ts", "type", "run_id", "call_id", "replayed", "data"}.
        """
        event = self.event
        told = {
            "seq": event.seq,
            "ts": event.ts,
            "type": event.type,
            "run_id": event.run_id,
            "call_id": event.call_id,
            "replayed": self.replayed,
            "data": event.data,
        }
        # A type with a line break would begin a field of its own.
        name = " ".join(event.type.splitlines()).encode("ascii", "backslashreplace").decode()
        return f"id: {event.seq}\nevent: {name}\ndata: {json.dumps(told)}\n\n"


def subscribe(
    engine: Engine,
    *,
    after: int | None = None,
    types: Collection[str] | None = None,
    run_id: str | None = None,
    call_id: str | None = None,
    callback: Callable[[Delivery], None] | None = None,
    on_error: Callable[[BaseException, Delivery], None] | None = None,
) -> Subscription:
    """Subscribe to the durable events of an open session, those of other writers too.

    Without `after` nothing is replayed; else every event with a higher seq is, first, and marked.
    `types`, `run_id` and `call_id` leave out what is not asked for. With a `callback` a daemon
    thread calls it with each delivery; what it raises goes to `on_error`, or into the log, and the
    next event follows. Without, iterate over the subscription, with `for` or `async for`.

    Raises ValueError when the events after `after` were pruned or were never there, and what
    `Engine.refresh` raises: SessionClosedError, SessionFailedError, FencedError.
    """
    if isinstance(types, str):
        raise TypeError(f"types is a collection of types, not a text; pass [{types!r}]")
    newest = engine.refresh()
    if after is not None:
        _check_after(engine, after, newest)
    wanted = _Wanted(frozenset(types) if types is not None else None, run_id, call_id)
    return Subscription(engine, newest if after is None else after, newest, wanted).start(
        callback, on_error
    )


class Subscription:
    """Deliveries until it or the session is closed; of a session that was closed, all that was
    durable still arrives. Made by `subscribe`; a context manager.

    Iterating blocks until the next delivery. Several threads that iterate share the deliveries. An
    `async for` that is cancelled closes the subscription; one that is left by `break` can go on
    later. Errors of the engine (CorruptionError, StorageError, FencedError) are raised where it is
    iterated; with a callback they are logged, and `error` keeps them.
    """

    def __init__(self, engine: Engine, after: int, newest: int, wanted: _Wanted) -> None:
        self._path = engine.path
        self._newest = newest
        self._wanted = wanted
        self._stop = threading.Event()
        self._events = _events(engine, after, self._stop)
        self._taking = threading.Lock()
        self._thread: threading.Thread | None = None
        self._crossing: Crossing[Delivery] = Crossing(self.__next__, self._stop)
        self.error: BaseException | None = None

    def start(
        self,
        callback: Callable[[Delivery], None] | None,
        on_error: Callable[[BaseException, Delivery], None] | None,
    ) -> Self:
        """Begin to call `callback`, if there is one."""
        if callback is not None:
            self._thread = threading.Thread(
                target=self._call,
                args=(callback, on_error),
                name="durasess-subscriber",
                daemon=True,
            )
            self._thread.start()
        return self

    @property
    def closed(self) -> bool:
        """Whether it ended: closed, or the session was and everything is delivered."""
        return self._stop.is_set()

    def close(self) -> None:
        """End every iteration, within a moment; from any thread, any number of times. A callback
        that is running is not waited for."""
        self._stop.set()
        self._crossing.drop()
        self._let_go()

    def wait(self, timeout_s: float) -> bool:
        """Wait up to `timeout_s` seconds until the callback has had its last delivery, which it
        gets after a close; whether it has. Never waits in the callback itself."""
        if self._thread is None or self._thread is threading.current_thread():
            return self._stop.is_set()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Delivery:
        try:
            with self._taking:
                return self._take()
        finally:
            if self._stop.is_set():
                self._let_go()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Delivery:
        try:
            return await self._crossing.take()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _take(self) -> Delivery:
        while not self._stop.is_set():
            try:
                event = next(self._events)
            except BaseException as error:
                # The end too: what has ended stays so.
                self._stop.set()
                self.error = None if isinstance(error, StopIteration) else error
                raise
            if self._wanted.takes(event) and not self._stop.is_set():
                return Delivery(event, event.seq <= self._newest)
        raise StopIteration

    def _let_go(self) -> None:
        """Free the engine's queue, unless somebody is taking: whoever is, does it."""
        if self._taking.acquire(blocking=False):
            try:
                self._events.close()
            finally:
                self._taking.release()

    def _call(
        self,
        callback: Callable[[Delivery], None],
        on_error: Callable[[BaseException, Delivery], None] | None,
    ) -> None:
        try:
            for delivery in self:
                try:
                    callback(delivery)
                except BaseException as error:
                    self._report(error, delivery, on_error)
        except Exception as error:
            _LOGGER.error("%s: a subscription ended: %s", self._path, error)

    def _report(
        self,
        error: BaseException,
        delivery: Delivery,
        on_error: Callable[[BaseException, Delivery], None] | None,
    ) -> None:
        if on_error is not None:
            try:
                on_error(error, delivery)
                return
            except BaseException as second:
                error = second
        _LOGGER.error(
            "%s: a subscriber failed at seq %d: %r", self._path, delivery.seq, error, exc_info=error
        )


class _Wanted(msgspec.Struct, frozen=True):
    """Which events a subscriber asked for; None asks for all."""

    types: frozenset[str] | None
    run_id: str | None
    call_id: str | None

    def takes(self, event: Event) -> bool:
        return (
            (self.types is None or event.type in self.types)
            and (self.run_id is None or event.run_id == self.run_id)
            and (self.call_id is None or event.call_id == self.call_id)
        )


def _check_after(engine: Engine, after: int, newest: int) -> None:
    if not 0 <= after <= newest:
        raise ValueError(
            f"{engine.path}: after is a seq from 0 to {newest}, the newest event, not {after}. "
            "Whoever has seen a later one saw another log; subscribe with after=0."
        )
    first = engine.first_seq
    if after < newest and after + 1 < first:
        raise ValueError(
            f"{engine.path}: the events after seq {after} cannot be replayed: those before seq "
            f"{first} were pruned. Subscribe with after={first - 1} or later."
        )


def _events(engine: Engine, after: int, stop: threading.Event) -> Generator[Event, None, None]:
    """What `engine.follow` gives, and what it had not given when the engine was closed."""
    seq = after
    following = cast(Generator[Event, None, None], engine.follow(after, stop=stop))
    try:
        for event in following:
            seq = event.seq
            yield event
    except SessionClosedError:
        # Closed in the moment in which it looked for the events of others.
        pass
    finally:
        following.close()
    if not stop.is_set() and engine.last_seq > seq:
        yield from engine.events(after=seq)
