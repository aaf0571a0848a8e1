"""Crosses from a thread into an event loop: coroutines take from what blocks, in bounded memory.

What is taken, and when that ends, whoever makes a crossing decides.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")

CROSSING_ITEMS = 16
"""Items on their way; the thread takes no more before one of them was taken by a coroutine."""

_LOOK_EVERY_S = 1.0
"""Seconds after which a thread that found no room looks whether its loop is still there."""


class Crossing(Generic[T]):
    """Items of `take_next()`, which blocks and ends with StopIteration; ends early once `stop` is
    set. Its daemon thread begins with the first `take`, and ends when the loop is closed; a `take`
    in another loop goes on where the first one stopped."""

    def __init__(self, take_next: Callable[[], T], stop: threading.Event) -> None:
        self._take_next = take_next
        self._stop = stop
        self._items: deque[T] = deque()
        self._room = threading.Semaphore(CROSSING_ITEMS)
        self._changing = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._arrived: asyncio.Event | None = None
        self._has_thread = False
        self._has_ended = False
        self._error: BaseException | None = None

    async def take(self) -> T:
        """The next item; StopAsyncIteration at the end, or, once, what `take_next` raised."""
        arrived = self._attach()
        while not self._items:
            if self._has_ended:
                error, self._error = self._error, None
                raise error or StopAsyncIteration
            arrived.clear()
            # What came between the look and the clearing is told again behind it.
            await arrived.wait()
        self._room.release()
        return self._items.popleft()

    def drop(self) -> None:
        """End now; what is on its way is not for anybody any more."""
        with self._changing:
            self._has_ended = True
            self._items.clear()
            self._room.release()
            self._tell()

    def _attach(self) -> asyncio.Event:
        """Go on in the running loop; what tells it that something arrived."""
        import asyncio

        loop = asyncio.get_running_loop()
        with self._changing:
            if self._loop is not loop or self._arrived is None:
                self._loop, self._arrived = loop, asyncio.Event()
            if not self._has_thread and not self._has_ended:
                self._has_thread = True
                threading.Thread(target=self._run, name="durasess-crossing", daemon=True).start()
            return self._arrived

    def _run(self) -> None:
        error = None
        while self._waits_for_room():
            try:
                item = self._take_next()
            except StopIteration:
                break
            except BaseException as raised:
                error = raised
                break
            with self._changing:
                self._items.append(item)
                self._tell()
        else:
            return
        with self._changing:
            self._has_ended, self._error = True, error
            self._tell()

    def _waits_for_room(self) -> bool:
        """True when an item may be taken; False when nobody is there any more to take it."""
        while not self._room.acquire(timeout=_LOOK_EVERY_S):
            if self._stop.is_set():
                # Taking tells that it is over.
                return True
            if self._is_abandoned():
                return False
        if self._is_abandoned():
            self._room.release()
            return False
        return True

    def _is_abandoned(self) -> bool:
        with self._changing:
            if self._loop is not None and self._loop.is_closed():
                self._has_thread = False
                return True
        return False

    def _tell(self) -> None:
        if self._loop is None or self._arrived is None:
            return
        try:
            self._loop.call_soon_threadsafe(self._arrived.set)
        except RuntimeError:
            # The loop was closed.
            pass
