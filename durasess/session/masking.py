"""Masks secrets in JSON values, before they are written or where they are shown; knows no events.

What a secret looks like is in secret_shapes.py. The original is for the tool that runs; the record
carries the masked value and the paths of what was masked.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from durasess.engine.types import MAX_DEPTH
from durasess.session.secret_shapes import (
    MASK,
    SHAPES,
    holds_credential,
    is_credential_name,
    is_placeholder,
)

__all__ = ("MASK", "SHORTEST", "Masked", "Masker", "is_credential_name", "mask_secrets")

SHORTEST = 8
"""Characters of the shortest text that is looked at."""

_MOST_PASSES = 8
"""Over a text with secrets in it; two or three do but for texts made to need more."""

_KEPT = rf"\g<keep>{MASK}"


class Masked(NamedTuple):
    """A value without its secrets, and where they were.

    `paths` has one JSON path for each text, number or key with a secret, in the order of the value:
    `$` is the value itself, `$.a[2].b` a place inside, `$['x-key']` for a key that is no
    identifier. A key that was masked stands in the path as it was masked. Empty when `value` is
    the very object that was given.
    """

    value: Any
    paths: list[str]


def mask_secrets(value: Any) -> Masked:
    """The value with `[masked]` for its secrets; the argument is never changed.

    Takes any object. Only texts, numbers, lists, tuples and dicts are looked at, and these only as
    deep as an event may be, since a deeper one is refused. What holds a secret is copied, a tuple
    as a list; the rest is shared with the argument.
    """
    masker = Masker()
    shown = masker.value(value)
    return Masked(shown, masker.paths)


class Masker:
    """Masks values; `count` is of secrets, several in one text; `paths` as in Masked."""

    def __init__(self) -> None:
        self.count = 0
        self.paths: list[str] = []
        self._steps: list[str | int] = []

    def value(self, value: Any, *, is_credential: bool = False) -> Any:
        """A value without its secrets, the same object when it has none; all of it is one when
        `is_credential`."""
        if isinstance(value, str):
            return self._whole(value) if is_credential else self.text(value)
        if isinstance(value, dict):
            return self._object(value, is_credential)
        if isinstance(value, list | tuple):
            return self._array(value, is_credential)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return self._whole(value) if is_credential and is_number else value

    def text(self, text: str) -> str:
        """A text without the secrets in it."""
        shown, found = _masked_text(text)
        if not found:
            return text
        self._note(found)
        return shown

    def _whole(self, value: Any) -> Any:
        if isinstance(value, str) and (not value or is_placeholder(value)):
            return value
        self._note(1)
        return MASK

    def _array(self, values: list[Any] | tuple[Any, ...], is_credential: bool) -> Any:
        if len(self._steps) >= MAX_DEPTH:
            return values
        copy: list[Any] | None = None
        for index, inside in enumerate(values):
            self._steps.append(index)
            shown = self.value(inside, is_credential=is_credential)
            self._steps.pop()
            if shown is not inside:
                copy = list(values) if copy is None else copy
                copy[index] = shown
        return values if copy is None else copy

    def _object(self, value: dict[Any, Any], all_credentials: bool) -> dict[Any, Any]:
        if len(self._steps) >= MAX_DEPTH:
            return value
        shown: dict[Any, Any] = {}
        is_changed = False
        for key, inside in value.items():
            shown_key = self._key(key, value, shown)
            self._steps.append(shown_key)
            is_one = all_credentials or holds_credential(shown_key, inside)
            hidden = self.value(inside, is_credential=is_one)
            self._steps.pop()
            shown[shown_key] = hidden
            is_changed = is_changed or hidden is not inside or shown_key is not key
        return shown if is_changed else value

    def _key(self, key: Any, value: dict[Any, Any], shown: dict[Any, Any]) -> Any:
        """A key without its secrets, unlike all others."""
        masked, found = _masked_text(key) if isinstance(key, str) else (key, 0)
        if not found:
            return key
        while masked in value or masked in shown:
            masked += "'"
        self._steps.append(masked)
        self._note(found)
        self._steps.pop()
        return masked

    def _note(self, found: int) -> None:
        self.count += found
        path = "$" + "".join(map(_step, self._steps))
        if not self.paths or self.paths[-1] != path:
            self.paths.append(path)


def _masked_text(text: str) -> tuple[str, int]:
    """The text and how many secrets were in it."""
    if len(text) < SHORTEST:
        return text, 0
    count = 0
    for _ in range(_MOST_PASSES):
        text, found = _one_pass(text)
        if not found:
            break
        # One that touched another now stands by itself.
        count += found
    return text, count


def _one_pass(text: str) -> tuple[str, int]:
    lowered = text.lower()
    count = 0
    # Plain loops: this runs over every text that is recorded.
    for shape in SHAPES:
        for literal in shape.literals:
            if literal in lowered:
                text, found = shape.pattern.subn(_KEPT, text)
                count += found
                break
    return text, count


def _step(step: Any) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if isinstance(step, str) and step.isidentifier() else f"[{step!r}]"
