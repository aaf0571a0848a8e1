"""What of a session's events can be searched: who said what, without secrets and up to a length;
and how a search looks at a text. Where texts are kept is in index.py; search.py looks through
them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from durasess.engine import codec
from durasess.engine.types import Event
from durasess.errors import DurasessError
from durasess.session import out_of_line
from durasess.session.events import TYPES
from durasess.session.masking import mask_secrets

LONGEST = 65536
"""Characters of one text that are searched."""

_AROUND = 80
"""Characters of an excerpt before and behind what was found."""


class Text(NamedTuple):
    """`role` is user, assistant, tool, call (a tool call's name and arguments), summary or note;
    `is_cut` when only its first LONGEST characters are here."""

    role: str
    text: str
    is_cut: bool


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """A message that has every word: event `seq` of a session. `excerpt` is on one line, without
    secrets."""

    session_id: str
    title: str
    seq: int
    ts: str
    role: str
    excerpt: str


def texts(event: Event, read_blob: Callable[[str], bytes]) -> Iterator[Text]:
    """The texts of an event, but for what was said before. A large value that cannot be read is
    passed over."""
    data = event.data
    if not isinstance(data, dict) or (event.type in TYPES and data.get("again") is True):
        return
    for role, value in _values(event.type, data):
        whole = "\n".join(_strings(_loaded(value, read_blob), role))
        if whole:
            # Before the cut, which could go through a secret.
            masked = shown(whole)
            yield Text(role, masked[:LONGEST], len(masked) > LONGEST)


def _values(kind: str, data: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    place = _PLACES.get(kind)
    if place is not None:
        yield place[0], data.get(place[1])
    if kind == "assistant_message" and isinstance(data.get("tool_calls"), list):
        for call in data["tool_calls"]:
            if isinstance(call, dict):
                yield "call", {"name": call.get("name"), "arguments": call.get("arguments")}


_PLACES = {
    "run_started": ("user", "request"),
    "user_message": ("user", "content"),
    "assistant_message": ("assistant", "content"),
    "tool_result": ("tool", "output"),
    "context_compacted": ("summary", "summary"),
    "note": ("note", "text"),
}


def _loaded(value: Any, read_blob: Callable[[str], bytes]) -> Any:
    try:
        return out_of_line.load(value, read_blob)
    except (DurasessError, ValueError):
        return ""


def _strings(value: Any, role: str) -> Iterator[str]:
    """A text, the texts of content parts, or what else a tool gave as JSON."""
    if value is None:
        return
    if isinstance(value, str):
        yield value
    elif role in ("tool", "call"):
        yield codec.encode(value).decode("utf-8", "replace")
    elif isinstance(value, list):
        for part in value:
            text = part.get("text") if isinstance(part, dict) else part
            if isinstance(text, str):
                yield text


def shown(text: str) -> str:
    """A title or an error as it is shown: without secrets."""
    found: str = mask_secrets(text).value
    return found


def words_of(text: str) -> list[str]:
    """The words of a search: each must be somewhere in a message, case aside."""
    return list(dict.fromkeys(text.casefold().split()))


def has_all(text: str, words: list[str]) -> bool:
    """Whether a text has every word."""
    folded = text.casefold()
    return all(word in folded for word in words)


def excerpt(text: str, words: list[str]) -> str:
    """The text around the first of the words, on one line."""
    folded = text.casefold()
    # A folded text may be longer than the text; the excerpt may then be a little off.
    at = min((found for word in words if (found := folded.find(word)) >= 0), default=0)
    first, last = (
        max(0, at - _AROUND),
        min(len(text), at + len(words[0] if words else "") + _AROUND),
    )
    inside = " ".join(text[first:last].split())
    return f"{'… ' if first else ''}{inside}{' …' if last < len(text) else ''}"
