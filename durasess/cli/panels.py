"""Blocks on a terminal: panels, tables and trees with colour. Imported only then, as rich is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, TextIO

from rich import box
from rich.console import Console, RenderableType
from rich.panel import Panel
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
)
from rich.table import Table as RichTable
from rich.text import Text
from rich.tree import Tree as RichTree

from durasess.cli import plain
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
    Tone,
    Tree,
    Value,
    printable,
)

STYLES: dict[Tone, str] = {
    "plain": "",
    "good": "green",
    "warn": "yellow",
    "bad": "bold red",
    "dim": "dim",
}


class Panels:
    """A terminal. NO_COLOR in the environment takes the colours away, not the panels."""

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(
            file=stream,
            force_terminal=True,
            highlight=False,
            markup=False,
            emoji=False,
            no_color=bool(os.environ.get("NO_COLOR")),
        )

    def show(self, block: Block) -> None:
        """Print a block."""
        console = self._console
        match block:
            case Facts():
                console.print(_panel(_grid(block.rows), block.title))
            case Table() if _is_too_wide(block, console.width):
                for row in plain.stacked(block, console.width):
                    self.row(row)
                console.print()
            case Table():
                console.print(_table(block))
            case Notes():
                body = "\n".join(printable(line) for line in block.lines)
                console.print(_panel(body, block.title, STYLES[block.tone]))
            case Tree():
                console.print(_tree(block.root))
            case Value():
                console.rule(printable(block.title), style="dim")
                for line in plain.json_lines(block.value):
                    console.print(line, soft_wrap=True)
            case Listing():
                self.row(plain.listing_head(block.columns))
                for row in block.rows:
                    self.listed(block.columns, row)

    def listed(self, columns: tuple[Column, ...], row: Row) -> None:
        """Print one row of a listing, cut at the terminal's width."""
        for line in plain.listing_rows(columns, [row], self._console.width):
            self.row(line)

    def row(self, row: Row) -> None:
        """Print a row of one cell."""
        self._console.print(row.cells[0], style=STYLES[row.tone], no_wrap=True, overflow="ellipsis")

    @contextmanager
    def bar(self, label: str, total: int, *, in_bytes: bool) -> Iterator[Progress]:
        """A progress bar that goes away when it is done; its only task has id 0."""
        count: ProgressColumn = DownloadColumn() if in_bytes else MofNCompleteColumn()
        columns = (TextColumn("{task.description}"), BarColumn(), count)
        with Progress(*columns, console=self._console, transient=True) as progress:
            progress.add_task(label, total=total)
            yield progress


def _panel(body: RenderableType, title: str, style: str = "") -> RenderableType:
    return Panel(body, title=title or None, title_align="left", border_style=style or "dim")


def _grid(rows: list[Fact]) -> RenderableType:
    grid = RichTable.grid(padding=(0, 2))
    for fact in rows:
        value = Text(printable(fact.value), style=STYLES[fact.tone])
        grid.add_row(Text(fact.label, style="bold"), value, Text(printable(fact.note)))
    return grid


def _is_too_wide(block: Table, width: int) -> bool:
    """Whether what is never cut would leave the other columns of a table no room."""
    if not any(column.whole for column in block.columns):
        return False
    rows = [[column.name for column in block.columns], *(row.cells for row in block.rows)]
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return sum(widths) + 3 * len(widths) > width


def _table(block: Table) -> RenderableType:
    table = RichTable(box=box.SIMPLE_HEAD, title=block.title or None, title_justify="left")
    for index, column in enumerate(block.columns):
        justify: Literal["left", "right"] = "right" if column.right else "left"
        widest = max((len(row.cells[index]) for row in block.rows), default=0)
        table.add_column(
            column.name,
            justify=justify,
            no_wrap=column.whole,
            min_width=widest if column.whole else None,
        )
    for row in block.rows:
        cells = [Text(printable(cell), style=STYLES[row.tone]) for cell in row.cells]
        table.add_row(*cells)
    return table


def _tree(root: Branch) -> RichTree:
    tree = RichTree(_branch_text(root), guide_style="dim")
    _grow(tree, root)
    return tree


def _grow(tree: RichTree, branch: Branch) -> None:
    for one in branch.inside:
        _grow(tree.add(_branch_text(one)), one)


def _branch_text(one: Branch) -> Text:
    text = Text(printable(one.name), style=STYLES[one.tone])
    if one.note:
        text.append(f"   {printable(one.note)}", style="dim" if one.tone == "plain" else "")
    return text
