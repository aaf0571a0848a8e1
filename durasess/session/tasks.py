"""How tasks of an event loop wait for what blocks. asyncio is imported only where a loop runs."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Protocol, TypeVar


class Closable(Protocol):
    """What is open until it is closed."""

    def close(self) -> None:
        """Let go of it."""


T = TypeVar("T")
C = TypeVar("C", bound=Closable)


async def in_thread(function: Callable[[], T]) -> T:
    """Do in a thread what would block; the event loop goes on."""
    import asyncio

    return await asyncio.to_thread(function)


async def opened_in_thread(open_now: Callable[[], C]) -> C:
    """Open something in a thread. Where the task is stopped meanwhile, nobody gets it, and it is
    closed again, by whoever is later."""
    lock = threading.Lock()
    opened: list[C] = []
    is_given_up = False

    def in_background() -> C:
        made = open_now()
        with lock:
            opened.append(made)
            is_for_nobody = is_given_up
        if is_for_nobody:
            made.close()
        return made

    try:
        return await in_thread(in_background)
    except BaseException:
        with lock:
            is_given_up = True
            for_nobody = list(opened)
        for made in for_nobody:
            made.close()
        raise


async def undisturbed(writing: Coroutine[Any, Any, T]) -> T:
    """Wait for a write whatever cancels the task meanwhile: a cancellation would take back what the
    committer has not begun with. It waits as long as one write takes. For a task that passes on an
    interruption already; where it may not, see `cancelled_behind`."""
    import asyncio

    task = asyncio.ensure_future(writing)
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([task])
    return task.result()


@contextlib.contextmanager
def cancelled_behind() -> Iterator[None]:
    """A cancellation that came while `undisturbed` waited is raised at the end of the block."""
    import asyncio

    task = asyncio.current_task()
    before = task.cancelling() if task is not None else 0
    is_closed = False
    try:
        yield
    except GeneratorExit:
        is_closed = True
        raise
    finally:
        if not is_closed and task is not None and task.cancelling() > before:
            raise asyncio.CancelledError
