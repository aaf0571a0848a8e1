"""Which drafts of an append are written, which were written before, which are refused; receipts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from durasess.engine import codec, snapshot
from durasess.engine.receipt import Receipt
from durasess.engine.records import Place
from durasess.engine.tickets import Ticket
from durasess.engine.types import Draft, Event
from durasess.errors import EventRejectedError


class Prepared(msgspec.Struct, frozen=True, gc=False):
    """A draft that was checked and encoded in its caller's thread; its data is what the bytes read
    back as."""

    draft: Draft
    body: bytes


class Append:
    """The work of one append or append_many: all of it in one batch. `size` is in bytes, near
    enough; `event_ids` are those that its drafts have."""

    __slots__ = ("durable", "event_ids", "items", "size")

    def __init__(self, items: list[Prepared], durable: bool) -> None:
        self.items = items
        self.durable = durable
        size = 0
        ids = []
        for item in items:
            size += len(item.body)
            if item.draft.event_id is not None:
                ids.append(item.draft.event_id)
        self.size = size
        self.event_ids = frozenset(ids)


Admitted = tuple[Ticket, Sequence[Prepared | Receipt]]
"""A ticket, and for each of its drafts what is to be written or the receipt it got before."""


def admit(
    work: Append,
    taken: set[str],
    event_ids: dict[str, snapshot.RememberedId],
    session_id: str,
    validate: Callable[[Any, Draft], None] | None,
    state: Any,
) -> Sequence[Prepared | Receipt]:
    """What becomes of each draft. `taken` are the event ids of what is written before it in the
    same batch; its own are added.

    Raises EventRejectedError for an event id that means two things, and whatever `validate` raises.
    """
    if validate is None and not work.event_ids:
        return work.items
    items: list[Prepared | Receipt] = []
    seen: set[str] = set()
    for item in work.items:
        event_id = item.draft.event_id
        if event_id is not None:
            if event_id in seen or event_id in taken:
                raise EventRejectedError(
                    f"event rejected: event_id {event_id!r} is used by two events at once. "
                    "Nothing was written."
                )
            seen.add(event_id)
            known = event_ids.get(event_id)
            if known is not None:
                items.append(_repeated(item, known, session_id))
                continue
        if validate is not None:
            validate(state, _as_read_back(item))
        items.append(item)
    taken |= work.event_ids.difference(event_ids)
    return items


def _as_read_back(item: Prepared) -> Draft:
    """A copy for a validator: what it does to that must not reach the state (P10)."""
    data = codec.decode(b"{" + item.body[1:] + b"}")["data"]
    return msgspec.structs.replace(item.draft, data=data)


def _repeated(item: Prepared, known: snapshot.RememberedId, session_id: str) -> Receipt:
    if codec.digest(item.body) != known.digest:
        raise EventRejectedError(
            f"event rejected: event_id {known.event_id!r} was used for seq {known.seq} with "
            "other content. Nothing was written.",
            seq=known.seq,
        )
    return Receipt(session_id, known.seq, known.crc)


class Batch(msgspec.Struct, frozen=True, gc=False):
    """What is written at once: each event's line, the event as it is read back from that, and the
    place in the log after it."""

    lines: list[bytes]
    events: list[Event]
    places: list[Place]


def encode_batch(fresh: list[Prepared], after: Place, ts: str) -> Batch:
    """The batch that brings these drafts behind the place `after`."""
    lines, events, places = [], [], []
    seq, chain = after
    count = len(fresh)
    mark = None if count == 1 else 0
    for item in fresh:
        seq += 1
        if mark is not None and seq == after.seq + count:
            mark = count
        line, chain = codec.event_line(seq, ts, mark, item.body, chain)
        draft = item.draft
        event = Event(
            seq=seq,
            ts=ts,
            type=draft.type,
            data=draft.data,
            run_id=draft.run_id,
            call_id=draft.call_id,
            event_id=draft.event_id,
            crc=codec.hexed(chain),
        )
        lines.append(line)
        events.append(event)
        places.append(Place(seq, chain))
    return Batch(lines, events, places)


Outcome = tuple[Ticket, list[Receipt], None]
"""What a ticket is settled with."""


def receipts(admitted: list[Admitted], events: list[Event], session_id: str) -> list[Outcome]:
    """The outcome of each ticket, given what its drafts became."""
    following = iter(events)
    outcomes: list[Outcome] = []
    for ticket, items in admitted:
        durable = ticket.work.durable
        found: list[Receipt] = []
        for item in items:
            if type(item) is Receipt:
                found.append(item)
            else:
                event = next(following)
                found.append(Receipt(session_id, event.seq, event.crc, durable))
        outcomes.append((ticket, found, None))
    return outcomes
