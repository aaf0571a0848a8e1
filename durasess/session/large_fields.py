"""Which parts of an event's data go out of line when they are large: of a known type only fields
that may hold anything. The others keep their types, or nobody could read the event.

Where anything may stand, the program's own objects of a reference's shape are escaped.
"""

from __future__ import annotations

from typing import Any

from durasess.session import events
from durasess.session.out_of_line import Put, escaped, store_large

_OPEN = frozenset(
    [
        "arguments",
        "completed",
        "content",
        "evidence",
        "next",
        "output",
        "pending",
        "raw",
        "request",
        "result",
        "value",
    ]
)
"""Fields of known events; each may hold a reference to a large value."""


_INSIDE = frozenset(["config"])
"""Fields of known events that are objects, and hold anything under each name; it stays there."""


def stored(kind: str, data: Any, put: Put, *, threshold: int) -> Any:
    """The data of an event of type `kind` as it is recorded; see `out_of_line.store_large`."""
    if kind not in events.TYPES:
        return store_large(data, put, threshold=threshold)
    if not isinstance(data, dict):
        return data
    changed = {
        name: store_large(value, put, threshold=threshold)
        for name, value in data.items()
        if name in _OPEN
    }
    for name in data.keys() - _OPEN:
        if name in _INSIDE and isinstance(data[name], dict):
            changed[name] = {key: escaped(value) for key, value in data[name].items()}
        elif name not in events.TYPES[kind].__struct_fields__:
            # Of a newer version, or somebody's own.
            changed[name] = escaped(data[name])
    if isinstance(data.get("tool_calls"), list):
        changed["tool_calls"] = [_call(one, put, threshold) for one in data["tool_calls"]]
    return {**data, **changed}


def _call(call: Any, put: Put, threshold: int) -> Any:
    if not isinstance(call, dict) or "arguments" not in call:
        return call
    return {**call, "arguments": store_large(call["arguments"], put, threshold=threshold)}
