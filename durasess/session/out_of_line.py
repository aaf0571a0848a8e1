"""Large values of an event's data in blobs of their own, and back: references, escapes, previews.

Storing and reading the bytes is the engine's; which fields of an event go through here, its caller
decides.

| in the data                      | stored                                                 |
|----------------------------------|--------------------------------------------------------|
| a large text                     | `{"$blob": {"hash", "size", "kind": "text"}}`          |
| large bytes                      | `{"$blob": {"hash", "size", "kind": "bytes"}}`         |
| an array or object, huge though  | `{"$blob": {"hash", "size", "kind": "json", "names"}}` |
| its parts are small              |                                                        |
| the program's own `{"$blob": x}` | `{"$blob": {"literal": x}}`                            |
"""

from __future__ import annotations

import base64
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any

from durasess.engine import codec, values
from durasess.engine.types import MAX_DEPTH, LineError
from durasess.errors import CorruptionError, EventRejectedError

THRESHOLD = 65536
"""Bytes of a text from which a file of its own is the better place."""

HUGE = 4
"""Data is huge when what is left in it is more than so many thresholds."""

KEY = "$blob"
_LITERAL = "literal"
_KINDS = frozenset(["text", "bytes", "json"])
_HASH = re.compile(r"[0-9a-f]{64}", re.ASCII)
_REFERENCE_DEPTH = 3
"""Containers inside each other in a reference, and the engine takes only so many."""

_LOOKED_AT = 1000
"""Values; data with more of them counts as large."""

_SCALAR = 8
"""Bytes that a number counts for, or the punctuation of a text or an entry."""

Put = Callable[[bytes], str]
Read = Callable[[str], bytes]


def store_large(data: Any, put: Put, *, threshold: int = THRESHOLD) -> Any:
    """The data with each text and each bytes value larger than `threshold` bytes replaced by a
    reference, at any depth; `put(bytes)` stores a value durably and returns its hash.

    When what is left is still more than four thresholds, the innermost arrays and objects that are
    larger than one are moved too, but not an object that is the data itself: its fields stay
    where readers look for them. The argument is never changed; what holds nothing large is returned
    as it is. What `put` raises goes through.
    """
    store = _Storing(put, threshold)
    small, size = store.leaves(data, 0)
    if size <= HUGE * threshold:
        return small
    return store.containers(small, 0)[0]


def escaped(data: Any) -> Any:
    """The data with the program's own objects of the reference's shape escaped, and nothing moved;
    itself where there are none."""
    return _Storing(_kept, sys.maxsize).leaves(data, 0)[0]


def _kept(data: bytes) -> str:
    raise AssertionError("nothing is larger than the largest size")


def may_be_large(data: Any, threshold: int) -> bool:
    """Whether `store_large` may move something of it; rather yes than a long look."""
    waiting = [data]
    looked = 0
    while waiting:
        value = waiting.pop()
        looked += 1
        if looked > _LOOKED_AT:
            return True
        if isinstance(value, str | bytes | bytearray | memoryview):
            # A character takes up to four bytes.
            if len(value) * 4 > threshold:
                return True
        elif isinstance(value, Mapping):
            waiting += value.values()
        elif isinstance(value, list | tuple):
            waiting += value
    return False


def load(value: Any, read: Read) -> Any:
    """The value with every reference replaced by what it stands for, escapes undone: what would
    have come back if nothing had been moved, so bytes come back as text in base64.

    `read(hash)` gives the bytes of a blob and proves them; each is read once, and only where there
    is a reference. Raises what `read` does, and CorruptionError when a blob is not of its kind.
    """
    return _Loading(read).loaded(value)


def references(value: Any) -> set[str]:
    """The hashes of all blobs that a stored value needs, those inside of blobs too."""
    found: set[str] = set()
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if is_reference(one):
            found.add(one[KEY]["hash"])
            found.update(one[KEY].get("names", []))
        elif isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, (list, tuple)):
            waiting += one
    return found


def is_reference(value: Any) -> bool:
    """Whether a stored value stands for one in a blob; what a newer writer means is not known."""
    if not isinstance(value, dict) or len(value) != 1:
        return False
    members = value.get(KEY)
    return (
        isinstance(members, dict)
        and isinstance(members.get("kind"), str)
        and members["kind"] in _KINDS
        and type(members.get("size")) is int
        and isinstance(members.get("hash"), str)
        and _HASH.fullmatch(members["hash"]) is not None
        and isinstance(members.get("names", []), list)
        and all(isinstance(name, str) for name in members.get("names", []))
    )


def preview(ref: Mapping[str, Any]) -> str:
    """One line for people about a reference: kind, size in bytes, where. ValueError for another
    value."""
    if not is_reference(ref):
        raise ValueError(f'expected a reference, {{"{KEY}": {{"hash", …}}}}, found {ref!r:.80}')
    members = ref[KEY]
    return f"{members['kind']}, {members['size']:,} bytes, in blob {members['hash'][:12]}…"


class _Storing:
    """One `store_large`. Each method returns the stored value and about its size in bytes."""

    def __init__(self, put: Put, threshold: int) -> None:
        self._put = put
        self._threshold = threshold

    def leaves(self, value: Any, depth: int) -> tuple[Any, int]:
        """Texts and bytes moved, the program's own objects of the reference's shape escaped."""
        if isinstance(value, str):
            return self._text(value, depth)
        if isinstance(value, (bytes, bytearray, memoryview)):
            return self._bytes(value, depth)
        # Deeper than the engine takes: it will say so, and a cycle has no end.
        if depth > MAX_DEPTH or not isinstance(value, (dict, list, tuple)):
            return value, _SCALAR
        if not isinstance(value, dict):
            return _array(value, [self.leaves(one, depth + 1) for one in value])
        if len(value) == 1 and KEY in value:
            inside, size = self.leaves(value[KEY], depth + 2)
            return {KEY: {_LITERAL: inside}}, size + 2 * _SCALAR
        return _object(value, [self.leaves(one, depth + 1) for one in value.values()])

    def containers(self, value: Any, depth: int) -> tuple[Any, int]:
        """Arrays and objects moved from the inside out, as long as one is too large."""
        if depth > MAX_DEPTH or is_reference(value) or not isinstance(value, (dict, list, tuple)):
            return value, _size(value)
        stored: Any
        if isinstance(value, dict) and _is_escape(value):
            # The object inside is half of an escape: it must not be moved without the other half.
            inside, size = self.containers(value[KEY][_LITERAL], depth + 2)
            stored, size = {KEY: {_LITERAL: inside}}, size + 2 * _SCALAR
        elif isinstance(value, dict):
            stored, size = _object(value, [self.containers(it, depth + 1) for it in value.values()])
        else:
            stored, size = _array(value, [self.containers(one, depth + 1) for one in value])
        is_data = depth == 0 and isinstance(value, dict)
        if size <= self._threshold or is_data or depth + _REFERENCE_DEPTH > MAX_DEPTH:
            return stored, size
        return self._json(stored, size)

    def _text(self, value: str, depth: int) -> tuple[Any, int]:
        if len(value) <= self._threshold and value.isascii():
            return value, len(value) + _SCALAR
        data = value.encode("utf-8", "surrogatepass")
        return self._leaf(value, data, "text", depth)

    def _bytes(self, value: bytes | bytearray | memoryview, depth: int) -> tuple[Any, int]:
        return self._leaf(value, bytes(value), "bytes", depth)

    def _leaf(self, value: Any, data: bytes, kind: str, depth: int) -> tuple[Any, int]:
        if len(data) <= self._threshold or depth + _REFERENCE_DEPTH > MAX_DEPTH:
            return value, len(data) + _SCALAR
        return self._reference(data, kind)

    def _json(self, value: Any, size: int) -> tuple[Any, int]:
        try:
            data = codec.encode(values.plain(value))
        except EventRejectedError:
            # The engine will say what is wrong with it, and where.
            return value, size
        return self._reference(data, "json", sorted(references(value)))

    def _reference(self, data: bytes, kind: str, names: list[str] | None = None) -> tuple[Any, int]:
        members: dict[str, Any] = {"hash": self._put(data), "size": len(data), "kind": kind}
        if names:
            members["names"] = names
        reference = {KEY: members}
        return reference, _size(reference)


class _Loading:
    """One `load`. Texts are kept, so the same image in fifty places is read and decoded once."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._texts: dict[tuple[str, str], str] = {}

    def loaded(self, value: Any) -> Any:
        """The value itself where nothing in it is stored elsewhere or escaped."""
        if isinstance(value, dict):
            if is_reference(value):
                return self._resolved(value[KEY])
            if _is_escape(value):
                return {KEY: self.loaded(value[KEY][_LITERAL])}
            return _object(value, [(self.loaded(one), 0) for one in value.values()])[0]
        if isinstance(value, (list, tuple)):
            return _array(value, [(self.loaded(one), 0) for one in value])[0]
        return value

    def _resolved(self, members: dict[str, Any]) -> Any:
        name, kind = members["hash"], members["kind"]
        if kind == "json":
            return self.loaded(_decoded(name, kind, self._read(name)))
        if (name, kind) not in self._texts:
            self._texts[name, kind] = _decoded(name, kind, self._read(name))
        return self._texts[name, kind]


def _decoded(name: str, kind: str, data: bytes) -> Any:
    try:
        if kind == "text":
            return data.decode("utf-8", "surrogatepass")
        return base64.b64encode(data).decode() if kind == "bytes" else codec.decode(data)
    except (UnicodeDecodeError, LineError) as error:
        raise CorruptionError(
            f"blob {name}: expected {kind}, as the event says, found {len(data)} bytes that are "
            f"none: {error}. Read them with read_blob."
        ) from None


def _is_escape(value: Any) -> bool:
    if not isinstance(value, dict) or len(value) != 1:
        return False
    members = value.get(KEY)
    return isinstance(members, dict) and members.keys() == {_LITERAL}


def _array(value: Any, parts: list[tuple[Any, int]]) -> tuple[Any, int]:
    """The array of these parts, which is `value` itself when they are its own."""
    size = sum(part[1] for part in parts) + _SCALAR
    if all(part[0] is one for part, one in zip(parts, value, strict=True)):
        return value, size
    return [part[0] for part in parts], size


def _object(value: Any, parts: list[tuple[Any, int]]) -> tuple[Any, int]:
    """The object with these parts, which is `value` itself when they are its own."""
    size = sum(part[1] for part in parts) + sum(map(_size, value)) + _SCALAR
    if all(part[0] is one for part, one in zip(parts, value.values(), strict=True)):
        return value, size
    return dict(zip(value, (part[0] for part in parts), strict=True)), size


def _size(value: Any) -> int:
    """About how many bytes a key, a scalar or a reference takes on its line."""
    if isinstance(value, str):
        return len(value if value.isascii() else value.encode("utf-8", "surrogatepass")) + _SCALAR
    if isinstance(value, (bytes, bytearray, memoryview)):
        return len(value) + _SCALAR
    if is_reference(value):
        return sum(map(_size, value[KEY].get("names", []))) + 16 * _SCALAR
    return _SCALAR
