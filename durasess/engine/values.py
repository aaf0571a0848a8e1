"""Python values → plain JSON values: what comes back is what is said here, or it is refused.

| given                         | stored                  | strict            |
|-------------------------------|-------------------------|-------------------|
| None, bool, int, float, str   | itself                  | itself            |
| NaN, ±Infinity                | null                    | refused           |
| list, dict with str keys      | itself                  | itself            |
| tuple, set, frozenset         | array (sets are sorted) | refused           |
| datetime with a zone          | RFC 3339                | refused           |
| date, UUID, Path, Decimal     | string                  | refused           |
| Enum                          | its value               | refused           |
| bytes, bytearray, memoryview  | base64                  | refused           |
| dataclass, msgspec.Struct     | object                  | refused           |
| naive datetime or time, other keys, other types | refused, with the key path | refused |

Integers of any size are exact (up to the interpreter's own limit for decimal strings).
"""

from __future__ import annotations

import base64
import dataclasses
import datetime
import decimal
import enum
import math
import os
import uuid
from collections.abc import Iterator
from typing import Any

import msgspec

from durasess.engine.types import MAX_DEPTH
from durasess.errors import EventRejectedError

_SAME = frozenset([int, bool, type(None)])
_INT_LIMIT = 10**4000
"""Python refuses decimal strings beyond 4,300 digits; other readers stop far earlier."""


def plain(value: Any, *, strict: bool = False) -> Any:
    """The JSON value that will be stored for `value`; the argument is never changed.

    Raises EventRejectedError with the key path (`$.a[3].b`) for what cannot be stored.
    """
    try:
        return _plain(value, strict, 0)
    except _Refused as refused:
        path = "$" + "".join(reversed(refused.steps))
        raise EventRejectedError(
            f"event rejected: {refused.reason} at {path}. Nothing was written."
        ) from None


class _Refused(Exception):
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.steps: list[str] = []


def _plain(value: Any, strict: bool, depth: int) -> Any:
    kind = type(value)
    if kind is str:
        return value if value.isascii() or not strict else _strict_text(value)
    if kind in _SAME:
        return value if kind is not int else _int(value)
    if kind is float:
        return value if math.isfinite(value) else _not_finite(value, strict)
    if kind is dict:
        return _object(value.items(), strict, depth)
    if kind is list:
        return _array(value, strict, depth)
    return _converted(value, strict, depth)


def _object(items: Any, strict: bool, depth: int) -> dict[str, Any]:
    _check_depth(depth)
    result: dict[str, Any] = {}
    for key, value in items:
        if type(key) is not str:
            key = _key(key, strict)
        if not key.isascii():
            key = as_read_back(key)
        if key in result:
            raise _Refused(f"two keys become {key!r}")
        if type(value) is str and not strict:
            result[key] = value
            continue
        try:
            result[key] = _plain(value, strict, depth + 1)
        except _Refused as refused:
            refused.steps.append(f".{key}" if key.isidentifier() else f"[{key!r}]")
            raise
    return result


def _array(values: Any, strict: bool, depth: int) -> list[Any]:
    _check_depth(depth)
    result = []
    for index, value in enumerate(values):
        try:
            result.append(_plain(value, strict, depth + 1))
        except _Refused as refused:
            refused.steps.append(f"[{index}]")
            raise
    return result


def _check_depth(depth: int) -> None:
    if depth >= MAX_DEPTH:
        raise _Refused(f"more than {MAX_DEPTH} containers inside each other, or a cycle,")


def _key(key: Any, strict: bool) -> str:
    if isinstance(key, enum.Enum) and not strict and isinstance(key.value, str):
        return str.__str__(key.value)
    if isinstance(key, str) and not strict:
        return str.__str__(key)
    raise _Refused(f"the key {key!r} is {type(key).__name__}, not str,")


def as_read_back(text: str) -> str:
    """JSON has one escape for two halves of a character side by side and for the character."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _strict_text(text: str) -> str:
    if as_read_back(text) != text:
        raise _Refused("strict: two halves of a character would come back as one character,")
    return text


def _int(value: int) -> int:
    if -_INT_LIMIT < value < _INT_LIMIT:
        return value
    raise _Refused("an integer of more than 4,000 digits")


def _not_finite(value: float, strict: bool) -> None:
    if strict:
        raise _Refused(f"strict: {value!r} would come back as null,")


def _converted(value: Any, strict: bool, depth: int) -> Any:
    if strict:
        raise _Refused(f"strict: {type(value).__name__} would not come back equal,")
    try:
        return _other(value, strict, depth)
    except _Refused:
        raise
    except Exception as error:
        # The value's own code, not ours.
        raise _Refused(f"{type(value).__name__} cannot be read ({error!r})") from None


def _other(value: Any, strict: bool, depth: int) -> Any:
    if isinstance(value, enum.Enum):
        _check_depth(depth)
        return _plain(value.value, strict, depth + 1)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return _object(((f.name, getattr(value, f.name)) for f in fields), strict, depth)
    if isinstance(value, msgspec.Struct):
        return _object(_struct_items(value), strict, depth)
    if isinstance(value, (set, frozenset)):
        return _sorted(_array(list(value), strict, depth))
    return _builtin(value, strict, depth)


def _struct_items(value: msgspec.Struct) -> Iterator[tuple[str, Any]]:
    """As msgspec encodes it: a tag first, then the fields under their encoded names."""
    config = value.__struct_config__
    if config.tag is not None and config.tag_field is not None:
        yield config.tag_field, config.tag
    for name, out in zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True):
        yield out, getattr(value, name)


def _builtin(value: Any, strict: bool, depth: int) -> Any:
    for kinds, convert in _CONVERSIONS:
        if isinstance(value, kinds):
            converted = convert(value)
            if isinstance(converted, list):
                return _array(converted, strict, depth)
            if isinstance(converted, dict):
                return _object(converted.items(), strict, depth)
            return _plain(converted, strict, depth)
    raise _Refused(f"cannot store {type(value).__name__}")


def _datetime(value: datetime.datetime) -> str:
    if value.utcoffset() is None:
        raise _Refused("a datetime without a time zone")
    return value.isoformat()


def _time(value: datetime.time) -> str:
    if value.tzinfo is None:
        raise _Refused("a time without a time zone")
    return value.isoformat()


def _sorted(members: list[Any]) -> list[Any]:
    """Sets have no order of their own; a sorted array makes equal sets equal bytes."""
    if all(type(member) in (int, float) for member in members):
        return sorted(members)
    return sorted(members, key=repr)


def _decimal(value: decimal.Decimal) -> str:
    return str(value)


_CONVERSIONS: tuple[tuple[Any, Any], ...] = (
    (str, str.__str__),
    (bool, bool),
    (int, int.__int__),
    (float, float.__float__),
    (dict, dict),
    ((list, tuple), list),
    (datetime.datetime, _datetime),
    (datetime.date, datetime.date.isoformat),
    (datetime.time, _time),
    (uuid.UUID, str),
    (decimal.Decimal, _decimal),
    (os.PathLike, lambda path: os.fsdecode(path)),
    (memoryview, memoryview.tobytes),
    ((bytes, bytearray), lambda raw: base64.b64encode(raw).decode("ascii")),
)
