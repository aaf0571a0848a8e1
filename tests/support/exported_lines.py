"""A second reader of exports as JSON lines, beside the importer: the events as drafts, line by
line, so that a test can make the session anew and compare."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from durasess.engine import codec
from durasess.engine.types import Draft, Event, LineError
from durasess.errors import EventRejectedError
from durasess.interop.jsonl import check_head, event_of
from durasess.session import events
from durasess.session.pairing import call_key, call_place


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
