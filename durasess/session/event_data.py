"""What the data of every type of event has, and a tool call in it."""

from __future__ import annotations

from typing import Any

import msgspec


class EventData(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The data of one type of event. `again`, in those that have it: an import says once more what
    it said before, since the conversation goes on from there; it counts for nothing."""


class RecordedCall(EventData):
    """One tool call of an assistant message. `arguments` is an object, or a text of other JSON.
    `masked`: JSON paths of values that are not the originals; `earlier`: the key it had before."""

    call_id: str
    name: str
    arguments: Any = msgspec.field(default_factory=dict)
    operation_id: str = ""
    masked: list[str] = msgspec.field(default_factory=list)
    earlier: str = ""
