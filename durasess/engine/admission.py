"""Which drafts of an append are written, which were written before, which are refused; receipts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from durasess.engine import codec, snapshot
from durasess.engine.commit import Ticket
from durasess.engine.receipt import Receipt
from durasess.engine.records import Place
from durasess.engine.types import Draft
from durasess.errors import EventRejectedError


class Prepared(msgspec.Struct, frozen=True):
    """A draft that was checked and encoded in its caller's thread."""

    draft: Draft
    body: bytes


class Append(msgspec.Struct, frozen=True):
    """The work of one append or append_many: all of it in one batch."""

    items: list[Prepared]
    durable: bool

    def size(self) -> int:
        """Bytes, near enough."""
        return sum(len(item.body) for item in self.items)

    def event_ids(self) -> set[str]:
        """The event ids in it."""
        return {item.draft.event_id for item in self.items if item.draft.event_id is not None}


Admitted = tuple[Ticket, list[Prepared | Receipt]]
"""A ticket, and for each of its drafts what is to be written or the receipt it got before."""


def admit(
    work: Append,
    before: list[Prepared],
    event_ids: dict[str, snapshot.RememberedId],
    session_id: str,
    validate: Callable[[Any, Draft], None] | None,
    state: Any,
) -> list[Prepared | Receipt]:
    """What becomes of each draft; `before` are those of the same batch.

    Raises EventRejectedError for an event id that means two things, and whatever `validate` raises.
    """
    items: list[Prepared | Receipt] = []
    seen = {item.draft.event_id for item in before if item.draft.event_id is not None}
    for item in work.items:
        event_id = item.draft.event_id
        if event_id is not None:
            if event_id in seen:
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
            validate(state, item.draft)
        items.append(item)
    return items


def _repeated(item: Prepared, known: snapshot.RememberedId, session_id: str) -> Receipt:
    if codec.digest(item.body) != known.digest:
        raise EventRejectedError(
            f"event rejected: event_id {known.event_id!r} was used for seq {known.seq} with "
            "other content. Nothing was written.",
            seq=known.seq,
        )
    return Receipt(session_id, known.seq, known.crc)


def encode_batch(fresh: list[Prepared], after: Place, ts: str) -> tuple[list[bytes], list[Place]]:
    """The lines of one write, and the place in the log after each."""
    lines = []
    places = []
    seq, chain = after
    count = len(fresh)
    for index, item in enumerate(fresh, 1):
        seq += 1
        batch = None if count == 1 else (count if index == count else 0)
        line, chain = codec.event_line(seq, ts, batch, item.body, chain)
        lines.append(line)
        places.append(Place(seq, chain))
    return lines, places


def receipts(
    admitted: list[Admitted], places: list[Place], session_id: str
) -> list[tuple[Ticket, list[Receipt], None]]:
    """The outcome of each ticket, given where its drafts went."""
    following = iter(places)
    outcomes: list[tuple[Ticket, list[Receipt], None]] = []
    for ticket, items in admitted:
        found = []
        for item in items:
            if isinstance(item, Prepared):
                seq, chain = next(following)
                item = Receipt(session_id, seq, codec.hexed(chain), ticket.work.durable)
            found.append(item)
        outcomes.append((ticket, found, None))
    return outcomes
