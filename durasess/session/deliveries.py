"""What a subscriber gets, and where it comes from: the engine's events, one after the other.

Nothing here knows the subscription that hands the deliveries out: who waits for an event holds a
`Source`, so a subscription that nobody has any more can go.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from typing import Any, cast

import msgspec

from durasess.engine.engine import Engine
from durasess.engine.types import Event
from durasess.errors import SessionClosedError


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


class Wanted(msgspec.Struct, frozen=True):
    """Which events a subscriber asked for; None asks for all."""

    types: frozenset[str] | None
    run_id: str | None
    call_id: str | None

    def takes(self, event: Event) -> bool:
        """Whether this event was asked for."""
        return (
            (self.types is None or event.type in self.types)
            and (self.run_id is None or event.run_id == self.run_id)
            and (self.call_id is None or event.call_id == self.call_id)
        )


class Source:
    """The deliveries of one subscription, until `stop` is set or the session is closed.

    `error` is what ended it, None at its end. Threads may take from it at the same time.
    """

    def __init__(self, engine: Engine, after: int, newest: int, wanted: Wanted) -> None:
        self._newest = newest
        self._wanted = wanted
        self._events = _events(engine, after, stop := threading.Event())
        self._taking = threading.Lock()
        self.stop = stop
        self.error: BaseException | None = None

    def take(self) -> Delivery:
        """The next one, waiting for it; StopIteration at the end, or what the engine raises."""
        try:
            with self._taking:
                return self._take()
        finally:
            if self.stop.is_set():
                self.let_go()

    def _take(self) -> Delivery:
        while not self.stop.is_set():
            try:
                event = next(self._events)
            except BaseException as error:
                # The end too: what has ended stays so.
                self.stop.set()
                self.error = None if isinstance(error, StopIteration) else error
                raise
            if self._wanted.takes(event) and not self.stop.is_set():
                return Delivery(event, event.seq <= self._newest)
        raise StopIteration

    def let_go(self) -> None:
        """Free the engine's queue, unless somebody is taking: whoever is, does it."""
        if self._taking.acquire(blocking=False):
            try:
                self._events.close()
            finally:
                self._taking.release()


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
