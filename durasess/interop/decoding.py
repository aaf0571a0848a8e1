"""The bytes of a foreign line → its object, without secrets. Knows no format."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from durasess.engine import codec
from durasess.engine.types import LineError
from durasess.interop.importer import Line
from durasess.session.core import Mask
from durasess.session.masking import SHORTEST, is_credential_name, mask_secrets

_BOM = b"\xef\xbb\xbf"


class Decoding:
    """Makes lines; `mask` takes secrets out of what is on them."""

    def __init__(self, mask: Mask | None) -> None:
        self._mask = mask

    def __call__(self, number: int, raw: bytes) -> Line:
        """The line with its object, or with what is wrong with it."""
        content = raw.removeprefix(_BOM) if number == 1 else raw
        content = content.removesuffix(b"\r")
        try:
            item = codec.decode(content)
        except LineError as error:
            return self._unread(number, raw, str(error))
        if not isinstance(item, dict):
            return self._unread(number, raw, f"expected an object, found {type(item).__name__}")
        repeats = _repeats_a_key(content, item)
        item, masked = self.masked(item)
        return Line(number, raw, item, "", masked, self.text(raw) if repeats else None)

    def _unread(self, number: int, raw: bytes, problem: str) -> Line:
        return Line(number, raw, problem=problem, text=self.text(raw))

    def text(self, raw: bytes) -> str | bytes:
        """A line as text without its secrets; as bytes when it is no text."""
        try:
            shown: str = self.masked(raw.decode())[0]
        except UnicodeDecodeError:
            return raw
        return shown

    def masked(self, value: Any) -> tuple[Any, list[str]]:
        """The value without its secrets, and where they were."""
        if self._mask is None or (self._mask is mask_secrets and not _may_hold_secrets(value)):
            return value, []
        found = self._mask(value)
        return found.value, found.paths


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
            for key in one:
                if not _is_harmless(key):
                    return True
            waiting += one.values()
        elif kind is list:
            waiting += one
    return bool(mask_secrets("\n".join(found)).paths)


@lru_cache(maxsize=8192)
def _is_harmless(key: str) -> bool:
    return not is_credential_name(key) and not mask_secrets(key).paths


def _repeats_a_key(content: bytes, item: Any) -> bool:
    """Whether an object of the line has a key twice: then only one of its values is in `item`."""
    try:
        if len(codec.encode(item)) == len(content):
            return False
        json.loads(content, object_pairs_hook=_distinct)
    except _RepeatedKey:
        return True
    except (ValueError, RecursionError):
        # What is wrong with it otherwise was found before.
        return False
    return False


class _RepeatedKey(Exception):
    pass


def _distinct(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) != len(pairs):
        raise _RepeatedKey
