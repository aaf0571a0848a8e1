"""What the verbs have to show, as blocks: facts, tables, lists, notes, values. No effects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

Tone = Literal["plain", "good", "warn", "bad", "dim"]


class Fact(NamedTuple):
    """A label, what is so, and what to know about it."""

    label: str
    value: str
    note: str = ""
    tone: Tone = "plain"


class Facts(NamedTuple):
    """A few facts under each other."""

    title: str
    rows: list[Fact]


class Column(NamedTuple):
    """A column's heading; numbers stand to the right. `width` in characters is for a Listing. One
    that is `whole` is never cut: what is in it is typed again."""

    name: str
    right: bool = False
    width: int = 0
    whole: bool = False


class Row(NamedTuple):
    """The cells of one row."""

    cells: tuple[str, ...]
    tone: Tone = "plain"


class Table(NamedTuple):
    """Rows under headings, as wide as they need to be."""

    title: str
    columns: tuple[Column, ...]
    rows: list[Row]


class Listing(NamedTuple):
    """Rows that are printed while they come; the last column takes what is left of the line."""

    title: str
    columns: tuple[Column, ...]
    rows: Iterable[Row]


class Notes(NamedTuple):
    """Sentences under a heading."""

    title: str
    lines: list[str]
    tone: Tone = "plain"


class Branch(NamedTuple):
    """A name in a tree, what it is, and what is inside."""

    name: str
    note: str = ""
    tone: Tone = "plain"
    inside: tuple[Branch, ...] = ()


class Tree(NamedTuple):
    """Names inside each other."""

    title: str
    root: Branch


class Value(NamedTuple):
    """A JSON value in full."""

    title: str
    value: Any


Block = Facts | Table | Listing | Notes | Tree | Value


def number(value: int) -> str:
    """An integer as people read it: 12,204."""
    return f"{value:,}"


def span(first: int, last: int) -> str:
    """A range of seqs as people read it: `401 to 1,117`; a first of 0 is not known."""
    if first == 0:
        return f"up to {number(last)}"
    return number(first) if first == last else f"{number(first)} to {number(last)}"


def count(value: int, noun: str) -> str:
    """`1 event`, `2,000 events`."""
    return f"{value:,} {noun}" if value == 1 else f"{value:,} {noun}s"


def to_second(ts: str) -> str:
    """A time in UTC without what is smaller than a second."""
    return ts.split(".")[0] + "Z" if "." in ts else ts


def shortened(text: str, width: int) -> str:
    """The text in at most `width` characters."""
    return text if len(text) <= width else text[: width - 1] + "…"


def printable(text: str) -> str:
    """The text with everything escaped that a terminal would act on instead of showing it."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
