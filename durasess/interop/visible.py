"""A session's values as text that shows every character: those that would hide or act are escaped.

For pages that people read. What a page's own language would act on is its writer's to escape.
"""

from __future__ import annotations

import datetime
import json
import re
from typing import Any, NamedTuple

from durasess.session.context_text import Cleaner

LONGEST = 200_000
"""Characters of one value that a page shows; the rest is counted."""

HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e007f]"
)
"""Characters that show nothing, or change how others are shown: control characters, directions,
breaks, blanks without width. Joiners of emoji and of scripts are not among them."""


class Shown(NamedTuple):
    """A text, and how many characters of the value it leaves out at its end."""

    text: str
    left_out: int = 0


def clean(text: str) -> str:
    """The text as UTF-8 can hold it, with line feeds alone: half characters are U+FFFD."""
    return Cleaner().text(text).replace("\r\n", "\n")


def visible(text: str) -> str:
    """The text with hidden characters as `name_of` has them."""
    return HIDDEN.sub(lambda found: name_of(found[0]), clean(text))


def name_of(character: str) -> str:
    """How a hidden character is shown: ␀ for U+0000, ⟨U+202E⟩ for a direction."""
    number = ord(character)
    if number < 0x20:
        return chr(0x2400 + number)
    return "␡" if number == 0x7F else f"⟨U+{number:04X}⟩"


def one_line(text: str, characters: int) -> str:
    """The beginning of a text on one line, hidden characters shown."""
    words = " ".join(visible(text[: characters * 4]).split())
    return words if len(words) <= characters else words[: characters - 1] + "…"


def as_shown(value: Any) -> Shown:
    """A text as it is, any other value as indented JSON; cut to LONGEST, hidden ones and all."""
    text = value if isinstance(value, str) else as_json(value)
    return Shown(text[:LONGEST], max(len(text) - LONGEST, 0))


def as_line(value: Any) -> str:
    """A value as JSON on one line."""
    return json.dumps(value, ensure_ascii=False)


def as_json(value: Any) -> str:
    """A value as people read JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def seconds(ts: str) -> float | None:
    """Seconds since 1970 of an event's time; None for a text that is no time."""
    try:
        return datetime.datetime.fromisoformat(ts).timestamp()
    except (ValueError, OverflowError):
        return None


def foreign_time(value: Any) -> str:
    """A time of another program, a text or a count of milliseconds since 1970, as RFC 3339 in UTC;
    "" for a text that is no time."""
    try:
        if isinstance(value, str):
            found = datetime.datetime.fromisoformat(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found = datetime.datetime.fromtimestamp(value / 1000, datetime.UTC)
        else:
            return ""
        if found.tzinfo is None:
            return ""
        return found.astimezone(datetime.UTC).isoformat(timespec="microseconds")[:-6] + "Z"
    except (ValueError, OverflowError, OSError):
        return ""


def seconds_between(first: str, last: str) -> float | None:
    """Seconds from one time to another, never below 0; None when one of them is not known."""
    begins, ends = seconds(first), seconds(last)
    return None if begins is None or ends is None else max(ends - begins, 0.0)


def duration(length: float | None) -> str:
    """Seconds as people say them: `0.42 s`, `3 min 12 s`, `2 h 05 min`; "" when not known."""
    if length is None:
        return ""
    if length < 10:
        return f"{length:.2f} s" if length >= 0.01 else f"{length * 1000:.0f} ms"
    whole = round(length)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    if whole < 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60:02} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3600:02} h"


def moment(ts: str) -> str:
    """Date and time to the second, in UTC, as far as it is one."""
    return f"{ts[:10]} {ts[11:19]}" if seconds(ts) is not None else visible(ts[:40])


def time_of_day(ts: str) -> str:
    """Time to the second, in UTC."""
    return ts[11:19] if seconds(ts) is not None else ""


def counted(value: int, noun: str) -> str:
    """`1 event`, `2,000 events`."""
    return f"{value:,} {noun}" if value == 1 else f"{value:,} {noun}s"
