"""How events become state: the program's reducer, its migrations, the window of event ids."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from durasess.engine import codec, snapshot, state
from durasess.engine.records import Record
from durasess.engine.types import EVENT_ID_WINDOW, Event, LineError, Migration, Migrations
from durasess.errors import FormatVersionError

_AT_ONCE = 32
"""Lines of a batch."""

_MOST_AT_ONCE = 256 * 1024
"""Bytes of them; longer ones are decoded one by one."""


class Fold(msgspec.Struct, frozen=True, kw_only=True):
    """How the application turns events into state.

    `initial()` makes the state before event 1; `apply(state, event)` returns the next state, or
    None when it changed the one it got. `state_type` is what msgspec decodes a stored state into.
    `takes(state)` is whether the state of a snapshot may be gone on with: another program may have
    made it, that knows less.
    """

    initial: Callable[[], Any]
    apply: Callable[[Any, Event], Any]
    schema_version: int = 1
    migrations: Migrations = msgspec.field(default_factory=dict)
    state_type: Any = Any
    takes: Callable[[Any], bool] | None = None

    def step(self, before: Any, event: Event) -> Any:
        """The state after one event."""
        returned = self.apply(before, event)
        return before if returned is None else returned


def stored_state(raw: msgspec.Raw, version: int, fold: Fold) -> Any:
    """The state of a snapshot, brought from its schema version to the program's."""
    if version >= fold.schema_version:
        return state.decode(bytes(raw), fold.state_type)
    value = codec.decode(bytes(raw))
    for step in range(version, fold.schema_version):
        migrate = _migration(fold, step).state
        value = migrate(value) if migrate is not None else value
    return state.decode(codec.encode(value), fold.state_type)


def _migration(fold: Fold, version: int) -> Migration:
    step = fold.migrations.get(version)
    if step is None:
        raise FormatVersionError(
            f"this session has schema version {version}, the program {fold.schema_version}, and "
            f"migrations[{version}] is missing. Nothing was changed."
        )
    return step if isinstance(step, Migration) else Migration(state=step)


def migrated(event: Event, version: int, fold: Fold) -> Event:
    """An event as the program's schema version has it."""
    for step in range(version, fold.schema_version):
        migrate = _migration(fold, step).event
        event = migrate(event) if migrate is not None else event
    return event


def event_of(line: bytes, version: int, fold: Fold) -> Event:
    """The event of a checked line that was written with this schema version."""
    event = codec.event(line)
    return migrated(event, version, fold) if version < fold.schema_version else event


def events_of(batch: list[Record]) -> Iterator[Event]:
    """The events of checked lines, some decoded at once, which takes a third less time. LineError
    in the place of a line that is no event."""
    for first in range(0, len(batch), _AT_ONCE):
        records = batch[first : first + _AT_ONCE]
        for record, event in zip(records, _decoded(records), strict=True):
            if event.seq != record.seq:
                raise LineError("json", f"seq stands twice: {record.seq} and {event.seq}")
            yield event


def _decoded(records: list[Record]) -> Iterable[Event]:
    lines = [record.line for record in records]
    if len(lines) > 1 and sum(map(len, lines)) <= _MOST_AT_ONCE:
        with contextlib.suppress(LineError):
            found = codec.events(b"\n".join([*lines, b""]))
            # It makes two events of a line with two objects; by itself, such a line is refused.
            if len(found) == len(lines):
                return found
    return map(codec.event, lines)


def remember(event_ids: dict[str, snapshot.RememberedId], line: bytes, event: Event) -> None:
    """Keep an event's id in the window of the newest ones; `line` may have its line feed."""
    if event.event_id is None:
        return
    body = line[line.index(b',"type":') : line.rindex(b',"crc":"')]
    event_ids.pop(event.event_id, None)
    event_ids[event.event_id] = snapshot.RememberedId(
        event.event_id, event.seq, event.crc, codec.digest(body)
    )
    while len(event_ids) > EVENT_ID_WINDOW:
        del event_ids[next(iter(event_ids))]
