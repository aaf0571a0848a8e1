"""The seam of importers: what one is, and the plain values it takes and gives. No effects.

An importer reads a foreign session line by line and says for each line what it means in events of
this library. How lines are read is in source.py, how what is said is written in recording.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from durasess.engine import codec
from durasess.engine.scratch import Scratch
from durasess.engine.types import Draft

Disposition = Literal["mapped", "kept", "reported"]
"""What became of a foreign line: it is in the events; it is no part of the conversation, or of a
kind that is not known, and is kept as it is; it could not be read, and is kept and reported."""

Path = tuple[str | int, ...]
"""Where something is in a JSON value: keys of objects, indexes of arrays."""


class Line(msgspec.Struct):
    """One line of a foreign file. `number` counts from 1; `raw` is without its line end.

    `item` is the object on it, without secrets; None when it could not be read, and `problem` says
    why. `masked` are the JSON paths of what was masked. `text` is the line as text, or as bytes
    when it is none, where `item` does not say all of it: also when a key stands twice in it.
    `note` says what is odd about a line that is mapped all the same. `encoded` is the JSON of
    `item` where that is the whole line, else empty; `depth` is how many containers are inside each
    other in it at most, 0 where that was not looked at.
    """

    number: int
    raw: bytes
    item: Any = None
    problem: str = ""
    masked: list[str] = []
    text: str | bytes | None = None
    note: str = ""
    encoded: bytes = b""
    depth: int = 0


class End:
    """Stands among the lines where an earlier import ended, and behind the last line: what an
    importer holds back is let go of there, and what is open is closed."""


class AtLine(NamedTuple):
    """In `rewound.to`, `context_compacted.through` and `session_changed.parent_seq`: the seq of the
    event that has this line; 0 for the seq of what was said before any line."""

    line: int


class KeyOf(NamedTuple):
    """In `key`: that of a call, counted from 0, of the assistant's message that this line made."""

    line: int
    call: int


class Taken(NamedTuple):
    """A part of a line that stands as it is in the data of its event, at `place`, and so need not
    be kept twice."""

    part: Path
    place: Path


class Mapped(msgspec.Struct):
    """What one foreign line means.

    `drafts` are the events that say it; the line is kept beside the assistant's message among them,
    else beside the last one, without what is `taken`. Without drafts, a mapped line belongs to the
    event of the line before it; any other is an event of its own. `again` marks events of a line
    that had its Mapped already: they are said once more and count for nothing.
    """

    line: Line
    drafts: list[Draft] = []
    disposition: Disposition = "mapped"
    reason: str = ""
    taken: tuple[Taken, ...] = ()
    again: bool = False

    @property
    def why(self) -> str:
        """The reason, or what is odd about the line."""
        return self.reason or self.line.note

    @property
    def line_number(self) -> int:
        """From 1."""
        return self.line.number

    @property
    def foreign(self) -> Any:
        """The line as it was read."""
        return self.line.item


class Identity(msgspec.Struct, kw_only=True):
    """What the first lines say of a session. `foreign_id` is its own id there; `parent` is the
    foreign id of the session that it works for. `custom_version` is of the program's own events in
    it, 0 where it has none of its own to say."""

    foreign_id: str
    parent: str = ""
    title: str = ""
    workspace: str = ""
    labels: dict[str, str] = {}
    config: dict[str, Any] = {}
    user_id: str = ""
    custom_version: int = 0


class Lines(Protocol):
    """The lines of one foreign file, in order, with an End where an earlier import ended and at the
    end. What an importer remembers of each is set aside in `scratch` (aside.py)."""

    scratch: Scratch

    def __iter__(self) -> Iterator[Line | End]: ...

    def reread(self, number: int, *, was_sound: bool = False) -> Line:
        """A line that was there before, and `was_sound`. StorageError when it is not any more."""

    def decoded(self, text: str) -> tuple[Any, list[str]]:
        """What a JSON text on a line stands for, without its secrets, and where they were;
        LineError when it is not JSON."""


class Importer(Protocol):
    """One foreign format. `name` is its word in commands and in session ids."""

    name: str

    def find(self, root: str | None, environment: Mapping[str, str]) -> Iterator[str]:
        """The session files below `root`, by default where the other tool keeps them."""

    def recognizes(self, first: list[Any]) -> bool:
        """Whether the objects on the first lines are of this format."""

    def identify(self, path: str, first: list[Any]) -> Identity:
        """Which session it is. ValueError when the lines do not say."""

    def read(self, lines: Lines) -> Iterator[Mapped]:
        """One Mapped for each line, each as soon as what it means is known. The same lines and Ends
        give the same again. Memory does not grow with the file."""


def session_id_for(format: str, foreign_id: str) -> str:
    """The id that a foreign session has in a store, always the same. `format` is the importer's
    name."""
    name = foreign_id
    if not _SAFE_ID.fullmatch(foreign_id):
        name = codec.digest(foreign_id.encode("utf-8", "surrogatepass"))
    return f"{format}-{name}"


_SAFE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}(?<!\.)")


def text(value: Any) -> str:
    """The value when it is a text; else nothing."""
    return value if isinstance(value, str) else ""


def member(value: Any, *names: str) -> Any:
    """What stands under these names inside each other; None when something is missing."""
    for name in names:
        if type(value) is not dict:
            return None
        value = value.get(name)
    return value


def dicts(value: Any) -> list[dict[str, Any]]:
    """The objects in a list; none when it is no list."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def number(value: Any) -> Any:
    """The value when it is a number of 0 or more; else 0."""
    return value if (type(value) is int or type(value) is float) and value >= 0 else 0


def texts(content: Any) -> list[str]:
    """The texts of a content: it is one, or has parts with some."""
    if isinstance(content, str):
        return [content]
    found: Iterable[str] = (text(part.get("text")) for part in dicts(content))
    return [one for one in found if one]


def between(drafts: list[Draft]) -> Mapped:
    """Events that no line says by itself: what is closed at an End, what is rewound."""
    return Mapped(Line(0, b""), drafts, again=True)


def kept(line: Line, reason: str) -> Mapped:
    """A line that is no part of the conversation."""
    return Mapped(line, disposition="kept", reason=reason)


def reported(line: Line) -> Mapped:
    """A line that could not be read."""
    return Mapped(line, disposition="reported", reason=line.problem)
