"""Many sessions looked at one after the other, or some at a time while the disk makes it wait.

What the system has in memory is there at once, and threads would only stand in each other's way.
What it has to read takes so long that most of the time goes into waiting: then eight wait at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from durasess.engine import files

if TYPE_CHECKING:
    from concurrent import futures

_Item = TypeVar("_Item")
_Found = TypeVar("_Found")

_CHUNK = 16
"""Items between two looks at whether the disk was read."""
_THREADS = 8
_AHEAD = 2 * _THREADS
"""Chunks that are looked at, or wait for it, before their turn: what this holds in memory."""


def looked_at(
    items: Sequence[_Item],
    look: Callable[[_Item], _Found],
    *,
    blocks_read: Callable[[], int] = files.blocks_read,
) -> Iterator[_Found]:
    """`look` of each, in order; it may be called by several threads. What it raises is raised here.
    `blocks_read()` says how much the calling thread has had read from a disk so far."""

    def looked(first: int) -> tuple[list[_Found], bool]:
        before = blocks_read()
        found = [look(item) for item in items[first : first + _CHUNK]]
        return found, blocks_read() > before

    firsts = iter(range(0, len(items), _CHUNK))
    for first in firsts:
        found, waited = looked(first)
        yield from found
        if waited:
            yield from _beside(looked, firsts)


def _beside(
    looked: Callable[[int], tuple[list[_Found], bool]], firsts: Iterator[int]
) -> Iterator[_Found]:
    """The same by threads, until a chunk was in memory as a whole."""
    # It imports a lot, which only this needs.
    from concurrent import futures

    pool = futures.ThreadPoolExecutor(_THREADS)
    chunks: deque[futures.Future[tuple[list[_Found], bool]]] = deque()
    is_waiting = True
    try:
        while True:
            while is_waiting and len(chunks) < _AHEAD:
                first = next(firsts, None)
                if first is None:
                    break
                chunks.append(pool.submit(looked, first))
            if not chunks:
                return
            found, waited = chunks.popleft().result()
            is_waiting = is_waiting and waited
            yield from found
    finally:
        pool.shutdown(cancel_futures=True)
