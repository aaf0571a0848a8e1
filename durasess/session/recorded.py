"""The data of an event → the object that is recorded: without what is left at its default.

Values that a caller gave stay the caller's. What becomes of them, and what is refused, is the
engine's to say (values.py); here they are not looked at.
"""

from __future__ import annotations

import functools
from typing import Any

import msgspec

from durasess.session.events import EventData

_FACTORY = object()
"""Stands for the default of a field that is an empty list or dict."""


def plain(data: EventData) -> dict[str, Any]:
    """The fields of `data` as an object."""
    made: dict[str, Any] = {}
    for name, default in _defaults(type(data)):
        value = getattr(data, name)
        if not _is_default(value, default):
            made[name] = [plain(one) for one in value] if name == "tool_calls" else value
    return made


@functools.cache
def _defaults(kind: type[EventData]) -> tuple[tuple[str, Any], ...]:
    fields = msgspec.structs.fields(kind)
    return tuple(
        (one.name, one.default if one.default_factory is msgspec.NODEFAULT else _FACTORY)
        for one in fields
    )


def _is_default(value: Any, default: Any) -> bool:
    if default is _FACTORY:
        return type(value) in (list, dict) and not value
    if value is default:
        return True
    return (
        type(value) is type(default) and type(value) in (str, int, float) and bool(value == default)
    )
