"""Drafts → encoded bodies, in the caller's thread: every check of data comes before any write."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from durasess.engine import codec, values
from durasess.engine.admission import Append, Prepared
from durasess.engine.types import (
    MAX_BATCH_BYTES,
    MAX_BATCH_EVENTS,
    MAX_DEPTH,
    MAX_EVENT_BYTES,
    Draft,
)
from durasess.errors import EventRejectedError

MAX_NAME = 512
"""Characters of a type or an id."""


class Encoded(msgspec.Struct, frozen=True):
    """An event whose data was made of decoded JSON and is JSON again, so that its values need not
    be looked at one by one: what an importer hands over. Not for values of a caller.

    `data` is an object. `is_flat` says that there are too few containers for a depth that is
    refused. `beside` is more members of it, `"a":1,"b":2`, which the reducers of this
    log read in no event of its type: they are written, and nobody decodes them. `value` is what
    `data` was encoded from, where decoding that gives the same again (codec.encoded) and nobody
    changes it any more; else None.
    """

    type: str
    data: bytes
    beside: bytes = b""
    run_id: str | None = None
    call_id: str | None = None
    event_id: str | None = None
    value: Any = None
    is_flat: bool = False


class Drafting(msgspec.Struct, frozen=True, kw_only=True):
    """How this handle takes data."""

    strict: bool = False
    max_event_bytes: int = MAX_EVENT_BYTES

    def prepared(self, draft: Draft) -> Prepared:
        """The draft with its bytes, holding what they read back as and nothing of the caller's
        (P10); EventRejectedError when it cannot be stored."""
        type, run_id, call_id, event_id = (
            _name("type", draft.type) or "",
            _name("run_id", draft.run_id),
            _name("call_id", draft.call_id),
            _name("event_id", draft.event_id),
        )
        # A copy: nobody else has its containers.
        kept = values.plain(draft.data, strict=self.strict)
        data, is_read_back = codec.encoded(kept)
        if not is_read_back:
            kept = codec.decode(data)
        body = codec.body(type=type, data=data, run_id=run_id, call_id=call_id, event_id=event_id)
        self._check_size(body)
        return Prepared(Draft(type, kept, run_id, call_id, event_id), body)

    def encoded(self, one: Encoded) -> Prepared:
        """The same for data that is JSON already."""
        type = _name("type", one.type) or ""
        run_id, call_id, event_id = one.run_id, one.call_id, one.event_id
        if run_id is not None:
            run_id = _name("run_id", run_id)
        if call_id is not None:
            call_id = _name("call_id", call_id)
        if event_id is not None:
            event_id = _name("event_id", event_id)
        data = one.data
        if one.beside:
            data = b"".join((data[:-1], b"," if len(data) > 2 else b"", one.beside, b"}"))
        if not one.is_flat and _may_be_deep(data):
            values.plain(codec.decode(data), strict=self.strict)
        body = codec.body(type=type, data=data, run_id=run_id, call_id=call_id, event_id=event_id)
        self._check_size(body)
        value = codec.decode(one.data) if one.value is None else one.value
        return Prepared(Draft(type, value, run_id, call_id, event_id), body)

    def _check_size(self, body: bytes) -> None:
        if len(body) > self.max_event_bytes:
            raise EventRejectedError(
                f"event rejected: it is {len(body)} bytes, max_event_bytes is "
                f"{self.max_event_bytes}. Nothing was written."
            )

    def batch(self, events: Iterable[tuple[str, Any] | Draft], durable: bool) -> Append:
        """The work of an append_many."""
        drafts = [_draft(one) for one in events]
        if len(drafts) > MAX_BATCH_EVENTS:
            raise EventRejectedError(
                f"append_many got {len(drafts)} events; the limit is {MAX_BATCH_EVENTS}. "
                "Nothing was written."
            )
        return self.together([self.prepared(draft) for draft in drafts], durable)

    def together(self, items: list[Prepared], durable: bool) -> Append:
        """The work of an append of what was made ready."""
        size = sum(len(item.body) for item in items)
        if size > MAX_BATCH_BYTES:
            raise EventRejectedError(
                f"append_many got {size} bytes; the limit is {MAX_BATCH_BYTES}. "
                "Nothing was written."
            )
        return Append(items, durable)


_OPENINGS = (b":{", b":[", b",{", b",[", b"[{", b"[[")
"""How a container inside another begins in compact JSON."""


def _may_be_deep(data: bytes) -> bool:
    """False where there are too few containers for a depth that is refused. Those in texts are
    counted too, so this says yes where a look at the values says no."""
    if data.count(b"{") + data.count(b"[") <= MAX_DEPTH:
        return False
    # Of brackets in a row count() passes over every second.
    return 1 + sum(map(data.count, _OPENINGS)) + data.count(b"[[") > MAX_DEPTH


def _draft(one: Any) -> Draft:
    if isinstance(one, Draft):
        return one
    if isinstance(one, (tuple, list)) and len(one) == 2:
        return Draft(one[0], one[1])
    raise EventRejectedError(
        f"append_many takes (type, data) pairs or Drafts, not {one!r:.60}. Nothing was written."
    )


def _name(name: str, value: Any) -> str | None:
    """The text of a type (which must be there) or of an id; subclasses of str become str."""
    if value is None and name != "type":
        return None
    if type(value) is str and 0 < len(value) <= MAX_NAME and value.isascii():
        return value
    if not isinstance(value, str) or not 0 < len(value) <= MAX_NAME:
        raise EventRejectedError(
            f"event rejected: {name} is 1 to {MAX_NAME} characters, not {value!r:.60}. "
            "Nothing was written."
        )
    text = str.__str__(value)
    return text if text.isascii() else values.as_read_back(text)
