"""How deeply containers stand inside each other, without a call for each level. Decodes nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from durasess.engine.types import MAX_STATE_DEPTH

_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(set(range(256)) - set(b'[]{}"'))


def is_deeper(data: bytes, levels: int) -> bool:
    """Whether JSON has more than so many containers inside each other."""
    if data.count(b"[") + data.count(b"{") <= levels:
        return False
    # Without escaped quotes each quote begins or ends a text, so every second piece is outside.
    outside = data.replace(rb"\\", b"").replace(rb"\"", b"").translate(_BRACKETS, _NO_BRACKETS)
    brackets = b"".join(outside.split(b'"')[::2])
    for _ in range(levels):
        # The innermost ones; what was around them alone is innermost then.
        brackets = brackets.replace(b"[]", b"")
        if not brackets:
            return False
    return bool(brackets)


def is_value_deeper(value: Any, levels: int) -> bool:
    """The same of a value that was decoded from JSON."""
    level = _containers([value])
    for _ in range(levels):
        level = _containers(
            inner for one in level for inner in (one.values() if isinstance(one, dict) else one)
        )
        if not level:
            return False
    return bool(level)


def _containers(values: Iterable[Any]) -> list[Any]:
    return [one for one in values if isinstance(one, (dict, list))]


def check_stack(error: Exception, read: Any) -> None:
    """Raise a RecursionError again when it is the caller's: it left too few frames to read what
    nests no more deeply than a writer writes. `read` are the bytes, or the value made of them."""
    if isinstance(error, RecursionError):
        is_deep = is_deeper if isinstance(read, bytes) else is_value_deeper
        if not is_deep(read, MAX_STATE_DEPTH):
            raise error
