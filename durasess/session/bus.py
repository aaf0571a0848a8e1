"""The bus: hands durable events to whoever subscribed, each to each at its own pace.

The events come from the engine, which reads from disk what a subscriber could not take at once:
nobody misses one, and nobody delays the session. What an event means is not known here; the thread
behind `async for` is in crossing.py.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from types import TracebackType
from typing import Self

from durasess.engine.engine import Engine
from durasess.session.crossing import Crossing
from durasess.session.deliveries import Delivery, Source, Wanted

_LOGGER = logging.getLogger("durasess")


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
    wanted = Wanted(frozenset(types) if types is not None else None, run_id, call_id)
    source = Source(engine, newest if after is None else after, newest, wanted)
    return Subscription(source, engine.path).start(callback, on_error)


class Subscription:
    """Deliveries until it or the session is closed; of a session that was closed, all that was
    durable still arrives. Made by `subscribe`; a context manager.

    Iterating blocks until the next delivery. Several threads that iterate share the deliveries. An
    `async for` that is cancelled closes the subscription; one that is left by `break` can go on
    later, as long as somebody has the subscription. Errors of the engine (CorruptionError,
    StorageError, FencedError) are raised where it is iterated; with a callback they are logged, and
    `error` keeps them.
    """

    def __init__(self, source: Source, path: str) -> None:
        self._path = path
        self._source = source
        self._thread: threading.Thread | None = None
        self._crossing: Crossing[Delivery] = Crossing(source.take, source.stop)

    @property
    def error(self) -> BaseException | None:
        """What the engine raised, if that ended it."""
        return self._source.error

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
        return self._source.stop.is_set()

    def close(self) -> None:
        """End every iteration, within a moment; from any thread, any number of times. A callback
        that is running is not waited for."""
        self._source.stop.set()
        self._crossing.drop()
        self._source.let_go()

    def wait(self, timeout_s: float) -> bool:
        """Wait up to `timeout_s` seconds until the callback has had its last delivery, which it
        gets after a close; whether it has. Never waits in the callback itself."""
        if self._thread is None or self._thread is threading.current_thread():
            return self._source.stop.is_set()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Delivery:
        return self._source.take()

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

    def __del__(self) -> None:
        # Left by `break` and forgotten: nobody can go on with it.
        self.close()

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
