"""Durable events on their way to whoever follows a handle: one bounded queue for each.

A follower that is slow or stuck harms nobody: its queue drops its oldest events, and it reads what
it missed from disk. It gets lines, not the objects that the state is made of (P10).
"""

from __future__ import annotations

import threading
from collections import deque
from typing import NamedTuple

FEED_EVENTS = 1024
"""Events that wait in one queue before the oldest give way."""


class Published(NamedTuple):
    """A durable event: its line, without a line feed, and the schema version of its segment."""

    seq: int
    line: bytes
    version: int


class Feed:
    """One follower's queue."""

    def __init__(self) -> None:
        self._events: deque[Published] = deque(maxlen=FEED_EVENTS)
        self._arrived = threading.Event()

    def offer(self, event: Published) -> None:
        """Queue an event; never waits."""
        self._events.append(event)
        self._arrived.set()

    def wake(self) -> None:
        """End a wait without an event."""
        self._arrived.set()

    def take(self, timeout: float) -> list[Published]:
        """What arrived, oldest first; waits up to `timeout` seconds for the first."""
        self._arrived.wait(timeout)
        self._arrived.clear()
        found = []
        while self._events:
            found.append(self._events.popleft())
        return found


class Feeds:
    """All queues of a handle."""

    def __init__(self) -> None:
        self._feeds: tuple[Feed, ...] = ()
        # The collector may close a queue that nobody has any more while this thread changes them.
        self._changing = threading.RLock()

    @property
    def are_followed(self) -> bool:
        """Whether anybody has a queue. Whoever opens one meanwhile reads from disk first."""
        return bool(self._feeds)

    def open(self) -> Feed:
        """A queue for what is published from now on."""
        feed = Feed()
        with self._changing:
            self._feeds = (*self._feeds, feed)
        return feed

    def close(self, feed: Feed) -> None:
        """Nobody takes from this queue any more."""
        with self._changing:
            self._feeds = tuple(other for other in self._feeds if other is not feed)

    def offer(self, event: Published) -> None:
        """Queue an event for everybody."""
        for feed in self._feeds:
            feed.offer(event)

    def wake(self) -> None:
        """The handle ends."""
        for feed in self._feeds:
            feed.wake()
