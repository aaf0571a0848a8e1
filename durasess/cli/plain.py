"""Blocks as aligned text for pipes and files: no escape code, nothing cut. No effects."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from durasess.cli.blocks import (
    Block,
    Branch,
    Column,
    Fact,
    Facts,
    Listing,
    Notes,
    Row,
    Table,
    Tree,
    Value,
    printable,
)


class Rails(NamedTuple):
    """What leads to a name in a tree: one of several, the last one, and below each of them."""

    several: str
    last: str
    below: str
    below_last: str


_NARROWEST = 8
"""Characters of a column that is cut."""

LINES = Rails("├── ", "└── ", "│   ", "    ")
ASCII = Rails("|-- ", "`-- ", "|   ", "    ")


def lines(block: Block, rails: Rails = LINES) -> Iterator[str]:
    """The lines of a block."""
    match block:
        case Facts():
            yield from _facts(block.rows)
        case Table():
            names = tuple(column.name for column in block.columns)
            rows = [names, *(tuple(map(printable, row.cells)) for row in block.rows)]
            widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
            for cells in rows:
                yield _aligned(cells, block.columns, widths, "   ")
        case Listing():
            yield listing_head(block.columns).cells[0]
            yield from (row.cells[0] for row in listing_rows(block.columns, block.rows))
        case Notes():
            yield block.title
            yield from (f"  {printable(line)}" for line in block.lines)
        case Tree():
            yield from _tree(block.root, rails)
        case Value():
            yield block.title
            yield from json_lines(block.value)


def stacked(table: Table, width: int) -> Iterator[Row]:
    """The rows of a table that is wider than `width`, of two lines each: what is never cut, and
    below it the other columns, the widest texts of them cut so that all fit."""
    first = next(at for at, column in enumerate(table.columns) if column.whole)
    columns = tuple(column for column in table.columns if column is not table.columns[first])
    heading = Row(tuple(column.name for column in table.columns), "dim")
    rows = [heading, *(Row(tuple(map(printable, row.cells)), row.tone) for row in table.rows)]
    others = [tuple(cell for at, cell in enumerate(row.cells) if at != first) for row in rows]
    widths = [max(map(len, cells)) for cells in zip(*others, strict=True)]
    texts = [at for at, column in enumerate(columns) if not column.right]
    while sum(widths) + 2 * len(widths) > width:
        widest = max(texts, key=lambda at: widths[at], default=0)
        if not texts or widths[widest] <= _NARROWEST:
            break
        widths[widest] -= 1
    for row, cells in zip(rows, others, strict=True):
        yield Row((row.cells[first],), row.tone)
        short = [cut_to(cell, limit) for cell, limit in zip(cells, widths, strict=True)]
        yield Row(("  " + _aligned(tuple(short), columns, widths, "  "),), row.tone)


def cut_to(text: str, width: int) -> str:
    """The text in so many characters, with a mark where it was cut."""
    return text if len(text) <= width else text[: width - 1] + "…"


def listing_head(columns: tuple[Column, ...]) -> Row:
    """The headings of a listing in one cell."""
    names = tuple(column.name for column in columns)
    return Row((_aligned(names, columns, [column.width for column in columns], "  "),), "dim")


def listing_rows(
    columns: tuple[Column, ...], rows: Iterable[Row], line_width: int = 0
) -> Iterator[Row]:
    """The rows of a listing in one cell each; with a `line_width` the line is cut there."""
    widths = [column.width for column in columns]
    for row in rows:
        line = _aligned(tuple(map(printable, row.cells)), columns, widths, "  ")
        if line_width and len(line) > line_width:
            line = line[: line_width - 1] + "…"
        yield Row((line,), row.tone)


def json_lines(value: Any) -> list[str]:
    """A JSON value as people read it."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return [printable(line) for line in text.split("\n")]


def tree_rows(root: Branch, rails: Rails) -> Iterator[tuple[str, Branch]]:
    """Each name with what leads to it."""
    yield printable(root.name), root
    yield from _below(root, "", rails)


def _below(branch: Branch, lead: str, rails: Rails) -> Iterator[tuple[str, Branch]]:
    for index, one in enumerate(branch.inside, 1):
        is_last = index == len(branch.inside)
        yield lead + (rails.last if is_last else rails.several) + printable(one.name), one
        yield from _below(one, lead + (rails.below_last if is_last else rails.below), rails)


def _tree(root: Branch, rails: Rails) -> Iterator[str]:
    rows = list(tree_rows(root, rails))
    # A name that somebody made very long does not push the others' notes aside.
    width = max((len(name) for name, one in rows if one.note and len(name) < 60), default=0)
    for name, one in rows:
        yield f"{name:{width}}   {printable(one.note)}".rstrip()


def _facts(rows: list[Fact]) -> Iterator[str]:
    label_width = max(len(fact.label) for fact in rows) + 3
    # A value without a note may be long (a path); it does not push the notes aside.
    value_width = max((len(printable(fact.value)) for fact in rows if fact.note), default=0) + 3
    for fact in rows:
        line = f"{fact.label:{label_width}}{printable(fact.value):{value_width}}"
        yield (line + printable(fact.note)).rstrip()


def _aligned(
    cells: tuple[str, ...], columns: tuple[Column, ...], widths: list[int], gap: str
) -> str:
    padded = [
        cell.rjust(width) if column.right else cell.ljust(width)
        for cell, column, width in zip(cells, columns, widths, strict=True)
    ]
    return gap.join(padded).rstrip()
