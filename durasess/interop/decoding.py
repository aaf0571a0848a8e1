"""The bytes of a foreign line → its object, without secrets. Knows no format."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from itertools import chain
from typing import Any

import msgspec

from durasess.engine import codec
from durasess.engine.types import MAX_DEPTH, LineError
from durasess.interop.importer import Line
from durasess.interop.suspects import is_suspect
from durasess.session.core import Mask
from durasess.session.masking import SHORTEST, is_credential_name, mask_secrets

FLAT = MAX_DEPTH // 2
"""With fewer containers inside each other, what is made of a line is not deep, whatever is around
it."""

_DECODE_LINES = msgspec.json.Decoder().decode_lines
_ENCODE_LINES = msgspec.json.Encoder().encode_lines

_BOM = b"\xef\xbb\xbf"

_MOST_KEYS = 8192
"""Different keys that are remembered as harmless."""


class Decoding:
    """Makes lines; `mask` takes secrets out of what is on them. `had_deep` once a JSON text was
    decoded that has many containers, perhaps inside each other."""

    had_deep = False

    def __init__(self, mask: Mask | None) -> None:
        self._mask = mask
        self._is_default = mask is mask_secrets

    def __call__(self, number: int, raw: bytes, *, is_suspect: bool = True) -> Line:
        """The line with its object, or with what is wrong with it. Where it is no suspect, none of
        its texts holds a secret (suspects.py)."""
        content = raw
        if number == 1:
            content = content.removeprefix(_BOM)
        if content.endswith(b"\r"):
            content = content[:-1]
        try:
            item = codec.decode(content)
        except LineError as error:
            return self._unread(number, raw, str(error))
        if type(item) is not dict:
            return self._unread(number, raw, f"expected an object, found {type(item).__name__}")
        encoded = _encoded(item)
        shown = None
        if encoded != content and _repeats_a_key(content, encoded):
            shown, encoded = self.text(raw), b""
        masked: list[str] = []
        depth = 0 if is_suspect or not self._is_default else harmless([item])
        if not depth:
            item, masked = self.masked(item)
            encoded = b"" if masked else encoded
        return Line(number, raw, item, "", masked, shown, "", encoded, depth)

    def together(self, lines: list[bytes]) -> tuple[list[Any], int]:
        """What is on these lines and the depth of the deepest, several times as fast as one by one,
        where all are objects that read back as they stand and have no key that names a credential;
        no items where one is not. Their texts were not looked at."""
        if self._mask is not None and not self._is_default:
            return [], 0
        items = _as_encoded(lines)
        if items is None or set(map(type, items)) != {dict}:
            return [], 0
        depth = harmless(items)
        return (items, depth) if depth else ([], 0)

    def _unread(self, number: int, raw: bytes, problem: str) -> Line:
        return Line(number, raw, problem=problem, text=self.text(raw))

    def text(self, raw: bytes) -> str | bytes:
        """A line as text without its secrets; as bytes without them when it is no text."""
        try:
            shown: str = self.masked(raw.decode())[0]
        except UnicodeDecodeError:
            # Each byte that is no text stands for itself, and a secret beside it is found.
            found, paths = self.masked(raw.decode("utf-8", "surrogateescape"))
            return found.encode("utf-8", "surrogateescape") if paths else raw
        return shown

    def masked(self, value: Any) -> tuple[Any, list[str]]:
        """The value without its secrets, and where they were."""
        if self._mask is None or (self._is_default and not _may_hold_secrets(value)):
            return value, []
        found = self._mask(value)
        return found.value, found.paths

    def decoded(self, text: str) -> tuple[Any, list[str]]:
        """What a JSON text inside a line stands for, without its secrets, and where they were;
        LineError when it is not JSON."""
        data = text.encode("utf-8", "surrogatepass")
        value = codec.decode(data)
        if data.count(b"{") + data.count(b"[") >= FLAT:
            self.had_deep = True
        if self._is_default and not is_suspect(data) and harmless([value]):
            return value, []
        return self.masked(value)


def _as_encoded(lines: list[bytes]) -> list[Any] | None:
    """The values of lines when each line is to the byte what encoding its value gives, so that no
    key stands twice in one and nothing reads back differently; else None."""
    data = b"\n".join([*lines, b""])
    try:
        found: list[Any] = _DECODE_LINES(data)
        again = _ENCODE_LINES(found)
    except (ValueError, RecursionError):
        return None
    # A value on two lines, or two on one, makes other lines too.
    return found if codec.on_one_line(again) == data else None


def _may_hold_secrets(value: Any) -> bool:
    """One look at all texts together instead of one at each. A line feed between them is for every
    shape what the end of a text is."""
    waiting = [value]
    found: list[str] = []
    while waiting:
        one = waiting.pop()
        kind = type(one)
        if kind is str:
            if len(one) >= SHORTEST:
                found.append(one)
        elif kind is dict:
            if not _harmless.issuperset(one) and not _are_harmless(one):
                return True
            waiting += one.values()
        elif kind is list:
            waiting += one
    return bool(mask_secrets("\n".join(found)).paths)


def harmless(values: list[Any]) -> int:
    """How many containers are inside each other at most; 0 when an object in one of the values has
    a key that names a credential or holds a secret."""
    depth = 0
    level = values
    while level:
        depth += 1
        objects = [one for one in level if type(one) is dict]
        keys = set(chain.from_iterable(objects))
        if not keys <= _harmless and not _are_harmless(keys):
            return 0
        inside = chain.from_iterable(map(dict.values, objects))
        if len(objects) < len(level):
            inside = chain(inside, *[one for one in level if type(one) is list])
        level = [one for one in inside if type(one) is dict or type(one) is list]
    return depth


_harmless: set[str] = set()


def _are_harmless(keys: Iterable[str]) -> bool:
    """Looks at keys that were not seen before, and remembers them."""
    for key in keys:
        if key in _harmless:
            continue
        if is_credential_name(key) or mask_secrets(key).paths:
            return False
        if len(_harmless) >= _MOST_KEYS:
            _harmless.clear()
        _harmless.add(key)
    return True


def _encoded(item: Any) -> bytes:
    """The JSON of an object; empty where it has a value that cannot be written."""
    try:
        return codec.encode(item)
    except (ValueError, RecursionError):
        return b""


def _repeats_a_key(content: bytes, encoded: bytes) -> bool:
    """Whether an object of the line has a key twice: then only one of its values is in the object
    that it was decoded to, which is encoded again here."""
    try:
        if not encoded or _keys(encoded) == _keys(content) > 0:
            return False
        json.loads(content, object_pairs_hook=_distinct)
    except _RepeatedKey:
        return True
    except (ValueError, RecursionError):
        # What is wrong with it otherwise was found before.
        return False
    return False


def _keys(data: bytes) -> int:
    """How many keys there are; -1 when that takes more than counting. In a text a quote has a
    backslash before it."""
    if _ODD_KEY.search(data) is not None:
        return -1
    return data.count(b'":') - data.count(b'\\":')


_ODD_KEY = re.compile(rb'"[ \t\r]+:|\\\\":')
"""A blank behind a key, or a backslash at its end."""


class _RepeatedKey(Exception):
    pass


def _distinct(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) != len(pairs):
        raise _RepeatedKey
