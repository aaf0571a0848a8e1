"""A session as JSON lines that any program can read, and back: one event a line, values in full.

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

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from durasess.engine import codec
from durasess.engine.types import Draft, Event, LineError, Migration
from durasess.errors import EventRejectedError, FormatVersionError
from durasess.interop.resolving import Resolver, as_it_is
from durasess.interop.survey import events_of
from durasess.session import events
from durasess.session.masking import Masker
from durasess.session.migrations import MIGRATIONS
from durasess.session.pairing import call_key, call_place
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


def read(exported: Iterable[str | bytes], *, first_seq: int = 1) -> Iterator[Draft]:
    """The events as drafts for a session whose next seq is `first_seq`, one for each line: what
    names another event by its seq names it by its new one.

    Events of an older schema version are migrated. Raises EventRejectedError for a line that is
    none, and at the end for a file that was cut short; FormatVersionError for a newer format.
    """
    numbered = Renumbering(first_seq)
    for event in read_events(exported):
        data = numbered.taken(event)
        yield Draft(event.type, data, event.run_id, event.call_id, event.event_id)


def read_events(exported: Iterable[str | bytes]) -> Iterator[Event]:
    """The events as they were, with their seqs and times. Raises as `read`."""
    version, number, count = 0, 0, 0
    for number, line in enumerate(exported, 1):
        item = _object(line, number)
        if number == 1:
            version = check_head(item)
        elif "end" in item:
            _check_end(item["end"], count)
            return
        else:
            count += 1
            yield event_of(item, number, version)
    raise EventRejectedError(
        f"line {number}: expected a last line with `end`, found the end of the file after "
        f"{count} events. It was cut short: export the session again."
    )


def check_head(item: dict[str, Any]) -> int:
    """The schema version that the first line names. EventRejectedError when it is none of this
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
    """The event of a line, migrated from a schema version. EventRejectedError when it is none."""
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


def _object(line: str | bytes, number: int) -> dict[str, Any]:
    raw = line.encode("utf-8", "surrogatepass") if isinstance(line, str) else line
    try:
        item = codec.decode(raw.rstrip(b"\r\n"))
    except LineError as error:
        raise EventRejectedError(
            f"line {number}: expected a JSON object, found {raw[:60]!r}: {error}. The file is "
            "damaged or was cut short: export the session again."
        ) from None
    if not isinstance(item, dict):
        raise EventRejectedError(
            f"line {number}: expected a JSON object, found {type(item).__name__}."
        )
    return item


def _check_end(end: Any, count: int) -> None:
    said = end.get("events") if isinstance(end, dict) else None
    if said != count:
        raise EventRejectedError(
            f"the last line says that there are {said} events, {count} were found. Lines are "
            "missing: export the session again."
        )


class Renumbering:
    """Old seqs → new ones, which have no gaps."""

    def __init__(self, first_seq: int) -> None:
        self._next = first_seq
        self._shifts: list[tuple[int, int]] = []

    def taken(self, event: Event) -> Any:
        """The data of the next event, with new seqs in it."""
        shift = self._next - event.seq
        if not self._shifts or self._shifts[-1][1] != shift:
            self._shifts.append((event.seq, shift))
        self._next += 1
        return self._data(event)

    def _data(self, event: Event) -> Any:
        data = event.data
        if event.type not in events.TYPES or not isinstance(data, dict):
            return data
        changed: dict[str, Any] = {
            name: self.seq(data[name])
            for name in ("to", "through", "dispatched")
            if type(data.get(name)) is int
        }
        if isinstance(data.get("key"), str):
            changed["key"] = self._key(data["key"])
        return {**data, **changed} if changed else data

    def _key(self, key: str) -> str:
        """`seq.index` of a call that a message asked for; other keys have no seq in them."""
        place = call_place(key)
        return call_key(self.seq(place[0]), place[1]) if place is not None else key

    def seq(self, old: int) -> int:
        """The new seq of an event; of one that is missing, that of the one before it."""
        for first, shift in reversed(self._shifts):
            if old >= first:
                behind = self._first_behind(first)
                return min(old + shift, behind - 1) if behind else old + shift
        return max(old + self._shifts[0][1], 0) if self._shifts else old

    def _first_behind(self, first: int) -> int:
        """The new seq with which the next stretch begins; 0 for the last."""
        behind = [(old, shift) for old, shift in self._shifts if old > first]
        return behind[0][0] + behind[0][1] if behind else 0
