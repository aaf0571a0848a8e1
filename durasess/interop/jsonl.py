"""A session as JSON lines that any program can read: one event a line, values in full. own_lines.py
brings them back.

| line   | members                                                                                 |
|--------|-----------------------------------------------------------------------------------------|
| first  | `format` "durasess.events", `version` 1, `session_id`, `schema_version`, `first_seq`,   |
|        | `last_seq`                                                                              |
| each   | `seq`, `ts`, `type`, `data`; `run_id`, `call_id`, `event_id` where the event has them;  |
| event  | `proven` false for one behind damage                                                    |
| last   | `end`: `events` (how many), `masked` (secrets), `damage`, `missing` (sentences)         |

Types and data are those of durasess/session/events.py. Large values stand in their events; one that
could not be read is left as `{"$blob": …}`. Seqs have gaps where events could not be read, and
begin behind 1 when the log was pruned. Readers pass over members that they do not know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from durasess.engine import codec
from durasess.engine.types import Event, Migration
from durasess.errors import EventRejectedError, FormatVersionError
from durasess.interop.resolving import Resolver, as_it_is
from durasess.interop.survey import events_of
from durasess.session import events
from durasess.session.masking import Masker
from durasess.session.migrations import MIGRATIONS
from durasess.session.view import SessionView

FORMAT = "durasess.events"
VERSION = 1

_IDS = ("run_id", "call_id", "event_id")


def write(session: SessionView, send: Callable[[str], object], *, masker: Masker) -> None:
    """Send the lines one by one. `session` may be open in mode "read", damaged as well: the last
    line says what is missing. `masker` takes secrets out, and counts them.

    Raises StorageError when the disk refuses.
    """
    for line in lines(session, masker):
        send(line)


def lines(session: SessionView, masker: Masker) -> Iterator[str]:
    """The lines, each with its line feed."""
    resolver = Resolver(session, as_it_is)
    engine = session.core.engine
    last_seq = session.last_seq
    yield _line(
        {
            "format": FORMAT,
            "version": VERSION,
            "session_id": session.session_id,
            "schema_version": events.SCHEMA_VERSION,
            "first_seq": engine.first_seq,
            "last_seq": last_seq,
        }
    )
    count = 0
    for event in events_of(session):
        yield _line(masker.value(_plain(event, resolver)))
        count += 1
    damage = list(dict.fromkeys(map(str, engine.damage)))
    said = {"events": count, "masked": masker.count, "damage": damage}
    yield _line({"end": {**said, "missing": resolver.missing}})


def _plain(event: Event, resolver: Resolver) -> dict[str, Any]:
    made: dict[str, Any] = {"seq": event.seq, "ts": event.ts, "type": event.type}
    made |= {name: getattr(event, name) for name in _IDS if getattr(event, name) is not None}
    if not event.proven:
        made["proven"] = False
    return {**made, "data": resolver.value(event.data)}


def _line(value: dict[str, Any]) -> str:
    return codec.encode(value).decode() + "\n"


def check_head(item: dict[str, Any]) -> int:
    """The schema version that the first line names. EventRejectedError when it is not one of this
    format, FormatVersionError when it is of a newer version."""
    if item.get("format") != FORMAT:
        raise EventRejectedError(
            f'line 1: expected `format` "{FORMAT}", found {item.get("format")!r:.80}. This is no '
            "export of durasess; check the file."
        )
    schema = item.get("schema_version")
    for name, known in (("version", VERSION), ("schema_version", events.SCHEMA_VERSION)):
        found = item.get(name)
        if type(found) is not int or found < 1:
            raise EventRejectedError(f"line 1: expected a number as `{name}`, found {found!r:.80}.")
        if found > known:
            raise FormatVersionError(
                f"line 1: `{name}` is {found}, this durasess reads up to {known}. Nothing was "
                "imported. Upgrade durasess."
            )
    assert isinstance(schema, int)
    return schema


def event_of(item: dict[str, Any], number: int, version: int) -> Event:
    """The event of a line, migrated from a schema version. EventRejectedError when it has none."""
    try:
        event = msgspec.convert(item, Event)
    except msgspec.ValidationError as error:
        raise EventRejectedError(
            f"line {number}: expected an event with seq, ts, type and data, found "
            f"{codec.encode(item).decode()[:120]}: {error}. The file is damaged: export the "
            "session again."
        ) from None
    for step in range(version, events.SCHEMA_VERSION):
        migration = MIGRATIONS.get(step)
        migrate = migration.event if isinstance(migration, Migration) else None
        event = migrate(event) if migrate is not None else event
    return event
