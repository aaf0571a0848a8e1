"""How tasks of an event loop wait for what blocks. asyncio is imported only where a loop runs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

T = TypeVar("T")


async def in_thread(function: Callable[[], T]) -> T:
    """Do in a thread what would block; the event loop goes on."""
    import asyncio

    return await asyncio.to_thread(function)


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
    try:
        yield
    finally:
        if task is not None and task.cancelling() > before:
            raise asyncio.CancelledError
