"""Text on its way to a model: cleaned, cut, escaped, counted. Nothing of messages or providers.

What is stored stays as it is; these functions make copies. "Characters" are code points.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from durasess.engine.types import MAX_DEPTH

REPLACEMENT = "\ufffd"
"""Stands for each half of a character whose other half is missing."""

CUT_MARK = "… (cut)"
"""Ends a text that was cut, inside its limit."""

TOKENS_EACH = 4
"""What the estimate adds for a message's role and its delimiters."""

TOKENS_IMAGE = 1600
"""What the estimate counts for an image, whatever its size."""

_HALF = re.compile("[\ud800-\udfff]")
_BREAKING = re.compile("[<>\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
_SECTION = re.compile(r"<(?=/?(?:summary|task|recovery)\b)", re.IGNORECASE)


class Cleaner:
    """Makes clean copies of values; `replaced` counts the halves of characters it met."""

    def __init__(self) -> None:
        self.replaced = 0

    def value(self, value: Any) -> Any:
        """A deep copy that strict UTF-8 and strict JSON can hold: lone surrogates become U+FFFD, in
        keys too, and numbers that are not finite null. NUL stays, JSON escapes it."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return self._object(value)
        if isinstance(value, list | tuple):
            return [self.value(one) for one in value]
        if isinstance(value, float):
            return value if math.isfinite(value) else None
        return value

    def text(self, text: str) -> str:
        """The text with two halves side by side joined and lone ones replaced."""
        if text.isascii() or not _HALF.search(text):
            return text
        # Two halves side by side mean one character in JSON; only what is left over is lone.
        joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        cleaned, count = _HALF.subn(REPLACEMENT, joined)
        self.replaced += count
        return cleaned

    def _object(self, value: dict[Any, Any]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for key, one in value.items():
            name = self.text(str(key))
            while name in made:
                name += REPLACEMENT
            made[name] = self.value(one)
        return made


def cut(text: str, characters: int) -> str:
    """At most this many characters of a text, the mark included; never half a character."""
    whole = Cleaner().text(text)
    if len(whole) <= characters:
        return whole
    return whole[: max(characters - len(CUT_MARK), 0)] + CUT_MARK[:characters]


def inert(text: str) -> str:
    """The text on one line, with nothing in it that could open, close or hide a section: angle
    brackets, control and direction characters are escaped as JSON escapes them."""
    return _BREAKING.sub(lambda found: f"\\u{ord(found[0]):04x}", Cleaner().text(text))


def quoted(value: Any, characters: int) -> str:
    """The value as inert JSON, its JSON text cut to this many characters before it is escaped."""
    return inert(cut(json_text(Cleaner().value(value)), characters))


def section(name: str, body: str) -> str:
    """A named part of the system text; a delimiter inside `body` becomes harmless."""
    harmless = _SECTION.sub("&lt;", body)
    return f"<{name}>\n{harmless}\n</{name}>"


def json_text(value: Any) -> str:
    """Compact JSON of a clean value; characters stand for themselves."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def as_text(value: Any) -> str:
    """A text as it is, nothing as the empty text, any other value as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json_text(value)


def read_json(text: str) -> Any:
    """The clean value of a JSON text; the text itself where it is not JSON, or nests deeper than a
    record may."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return text if _is_deep(value) else Cleaner().value(value)


def is_whole_json(text: str) -> bool:
    """Whether it is JSON without an escaped half of a character in it."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    cleaner = Cleaner()
    if not _is_deep(value):
        cleaner.value(value)
    return not _is_deep(value) and not cleaner.replaced


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
    return bool(level)


def estimate_tokens(message: dict[str, Any]) -> int:
    """The documented estimate of a neutral message: a quarter of the UTF-8 bytes of its content,
    calls and call id, rounded up, TOKENS_EACH more, and TOKENS_IMAGE for each image. Of a reply
    with its provider's own item the larger of the two counts."""
    said = _bytes(message["content"])
    said += sum(
        _bytes(call["name"]) + _bytes(call["arguments"]) + _bytes(call["call_id"])
        for call in message.get("tool_calls", ())
    )
    said += _bytes(message.get("call_id", ""))
    own = _bytes(message["raw"]["item"]) if "raw" in message else 0
    return math.ceil(max(said, own) / 4) + TOKENS_EACH + TOKENS_IMAGE * _images(message["content"])


def _bytes(value: Any) -> int:
    if isinstance(value, list):
        return sum(_bytes(one) for one in value if not _is_image(one))
    # Of an item that goes as it came, what is around its blocks was not cleaned.
    return len(as_text(value).encode("utf-8", "surrogatepass"))


def _images(content: Any) -> int:
    return sum(_is_image(one) for one in content) if isinstance(content, list) else 0


def _is_image(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "image"
