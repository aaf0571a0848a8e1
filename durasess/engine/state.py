"""State → JSON that comes back equal (P10), and back."""

from __future__ import annotations

from typing import Any

from durasess.engine import codec
from durasess.engine.depth import is_deeper
from durasess.engine.types import MAX_STATE_DEPTH, LineError
from durasess.errors import EventRejectedError


def decode(data: bytes, kind: Any) -> Any:
    """A stored state; `kind` is the msgspec type it is decoded into, or Any for plain values."""
    return codec.decode(data) if kind is Any else codec.typed(data, kind)


def encode(state: Any, kind: Any) -> bytes:
    """The JSON of a state that comes back equal (P10); EventRejectedError when it would not.

    `kind` is the type that the stored state is decoded into, or Any for plain values.
    """
    try:
        data = codec.encode(state)
        if is_deeper(data, MAX_STATE_DEPTH):
            raise ValueError(f"it has more than {MAX_STATE_DEPTH} containers inside each other")
        back = decode(data, kind)
    except (TypeError, ValueError, OverflowError, RecursionError, LineError) as error:
        raise EventRejectedError(
            f"the state cannot be stored: {error}. Nothing was written; keep plain JSON in it."
        ) from None
    odd = None if kind is not Any or back != state else _odd_type(state)
    if odd is not None:
        raise EventRejectedError(
            f"the state would not come back as it is: {odd}. Nothing was written; keep plain JSON "
            "in it, each container in one place, or give state_type."
        )
    if back != state:
        raise EventRejectedError(
            f"the state would not come back equal: {_difference(state, back, '$')}. Nothing was "
            "written; keep plain JSON values in it (no tuples, sets, dates, NaN or other keys)."
        )
    return data


_PLAIN = frozenset([dict, list, str, int, float, bool, type(None)])


def _odd_type(state: Any) -> str | None:
    """A value inside that is equal to what comes back and is of another type: a Counter, an
    IntEnum. `apply` would meet it before a restart and not after."""
    waiting = [state]
    seen: set[int] = set()
    while waiting:
        value = waiting.pop()
        if type(value) in (dict, list):
            if id(value) in seen:
                return f"a {type(value).__name__} that stands in two places ({value!r:.60})"
            seen.add(id(value))
        if type(value) not in _PLAIN:
            return f"{type(value).__name__} {value!r:.60}"
        if type(value) is dict:
            waiting += value
            waiting += value.values()
        elif type(value) is list:
            waiting += value
    return None


def _difference(given: Any, back: Any, path: str) -> str:
    if isinstance(given, dict) and isinstance(back, dict):
        for key, value in given.items():
            if key not in back:
                return f"the key {key!r} at {path}"
            if value != back[key]:
                return _difference(value, back[key], f"{path}.{key}")
    if isinstance(given, list) and isinstance(back, list):
        for index, (value, other) in enumerate(zip(given, back, strict=False)):
            if value != other:
                return _difference(value, other, f"{path}[{index}]")
    return f"{type(given).__name__} becomes {type(back).__name__} at {path}"
