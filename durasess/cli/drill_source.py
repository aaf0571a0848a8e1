"""What a drill appends, so that both sides know it: event for event, from seed or file alone.

There are a few streams; each is appended in order by one thread. The event at `position` of a
stream carries the event id "stream:position" and is the same whoever asks, so everything that is
found after a crash can be compared, what was never acknowledged too.
"""

from __future__ import annotations

import zlib
from functools import lru_cache
from typing import Any

import msgspec

from durasess.cli.workload import generate_events
from durasess.engine import codec
from durasess.engine.drafting import Drafting
from durasess.engine.types import Draft, Event, LineError
from durasess.errors import EventRejectedError

STREAMS = 3
"""Of each writer; those of writer n begin at n * STREAMS."""

WRITERS_MAX = 16
SNAPSHOT_EVERY = 60
SEGMENT_BYTES = 192 * 1024
"""Small, so that snapshots and rotations happen often."""

_BLOCK = 64
"""Generated events are made in blocks, so that a later one costs no walk through all before."""


class Source(msgspec.Struct, frozen=True):
    """Where events come from: lines of `input` (a path), over and over, or the generator."""

    seed: int
    input: str | None = None

    def draft(self, stream: int, position: int) -> Draft:
        """The event at `position` (1, 2, 3 …) of a stream."""
        if self.input is not None:
            lines = input_lines(self.input)
            line = lines[((position - 1) * STREAMS + stream) % len(lines)]
            kind, data = "line", value_of(line)
        else:
            block, index = divmod(position - 1, _BLOCK)
            kind, data = _generated(self.seed, stream, block)[index]
        return Draft(kind, data, event_id=f"{stream}:{position}")


@lru_cache(maxsize=8)
def _generated(seed: int, stream: int, block: int) -> list[tuple[str, dict[str, Any]]]:
    mixed = zlib.crc32(b"%d:%d:%d" % (seed, stream, block))
    return list(generate_events(mixed, count=_BLOCK))


@lru_cache(maxsize=1)
def input_lines(path: str) -> list[bytes]:
    """The lines of a file, split at line feeds. OSError when it cannot be read."""
    with open(path, "rb") as source:
        lines = source.read().split(b"\n")
    return lines[:-1] if lines[-1] == b"" else lines


def value_of(line: bytes) -> Any:
    """The JSON value of a line; the line as a string when it is not JSON, or cannot be kept."""
    try:
        value = codec.decode(line)
        Drafting().prepared(Draft("line", value))
    except (LineError, EventRejectedError):
        return line.decode("utf-8", "surrogateescape")
    return value


def fold(state: dict[str, Any], event: Event) -> None:
    """The drill's state: of each stream the last position and its seq, and a checksum of all
    events, so that a state which missed one or got one twice is not equal."""
    place = place_of(event)
    if place is not None:
        state.setdefault("streams", {})[str(place[0])] = [place[1], event.seq]
    said = codec.encode([event.seq, event.event_id, event.type, event.data])
    state["checksum"] = zlib.crc32(said, state.get("checksum", 0))


def place_of(event: Event) -> tuple[int, int] | None:
    """(stream, position) of an event that a drill may have written; None for any other."""
    stream, _, position = (event.event_id or "").partition(":")
    is_ours = event.event_id is not None and event.event_id.isascii()
    if (
        not (is_ours and stream.isdigit() and position.isdigit())
        or int(stream) >= STREAMS * WRITERS_MAX
    ):
        return None
    return int(stream), int(position)


def problem_of(line: bytes) -> str | None:
    """Why a line cannot be an event even as a string, or None."""
    try:
        Drafting().prepared(Draft("line", value_of(line)))
    except EventRejectedError as error:
        return str(error)
    return None
