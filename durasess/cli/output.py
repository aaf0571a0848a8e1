"""The one place that prints: a report as blocks for people, or as one JSON document.

On a terminal, blocks become panels and tables with colour (rich, imported only then). Piped, the
same blocks are aligned text without an escape code. What comes from a session is shown with its
control characters escaped, so that a file's name or an event cannot drive the terminal.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

import msgspec

from durasess.cli.blocks import (
    Block,
    Column,
    Fact,
    Facts,
    Listing,
    Notes,
    Row,
    Table,
    Tone,
    Value,
    printable,
)

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

SOUND = 0
DAMAGE = 1
USAGE = 2
UNREADABLE = 3
"""Exit statuses of every verb."""

_STYLES: dict[Tone, str] = {
    "plain": "",
    "good": "green",
    "warn": "yellow",
    "bad": "bold red",
    "dim": "dim",
}


class Output:
    """Where the reports of a command go: people's text, or JSON, on `stream`."""

    def __init__(self, stream: TextIO, *, as_json: bool, terminal: bool | None = None) -> None:
        self._stream = stream
        self._as_json = as_json
        self._terminal = stream.isatty() if terminal is None else terminal
        self._opened: Console | None = None

    def report(
        self,
        report: Any,
        blocks: Callable[[], Iterable[Block]],
        items: Callable[[], tuple[str, Iterable[Any]]] | None = None,
    ) -> None:
        """Print `report` as JSON, or the `blocks` that say the same.

        `items` gives a name and values that JSON gets as a last member, written while they come.
        """
        if self._as_json:
            self._print_json(report, items)
            return
        for index, block in enumerate(blocks()):
            if index and not self._terminal:
                self._line()
            if self._terminal:
                self._print_rich(block)
            else:
                for line in _plain(block):
                    self._line(line)

    def failure(self, error: BaseException, message: str) -> None:
        """Say on stderr what stopped the command; JSON readers get it on `stream` too."""
        print(f"durasess: {printable(message)}", file=sys.stderr)
        if self._as_json:
            places = {name: getattr(error, name, None) for name in ("path", "offset", "seq")}
            said = {"kind": type(error).__name__, "message": message, **places}
            self._print_json({"error": said}, None)

    @contextmanager
    def progress(self, label: str, total: int) -> Iterator[Callable[[], None]]:
        """A bar on a terminal, nothing otherwise; call what it yields after each step."""
        if self._as_json or not self._terminal:
            yield lambda: None
            return
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        with Progress(*columns, console=self._console(), transient=True) as bar:
            task = bar.add_task(label, total=total)
            yield lambda: bar.advance(task)

    # -- JSON -------------------------------------------------------------------------------

    def _print_json(
        self, report: Any, items: Callable[[], tuple[str, Iterable[Any]]] | None
    ) -> None:
        text = self._json(msgspec.to_builtins(report), indent=2)
        if items is None:
            self._line(text)
            return
        name, values = items()
        head = text[: text.rindex("\n")]
        self._stream.write(f"{head},\n  {self._json(name)}: [")
        for index, value in enumerate(values):
            between = ",\n    " if index else "\n    "
            self._stream.write(between + self._json(msgspec.to_builtins(value)))
        self._line("\n  ]\n}")

    def _json(self, value: Any, indent: int | None = None) -> str:
        text = json.dumps(value, indent=indent, ensure_ascii=False)
        try:
            text.encode(self._stream.encoding or "utf-8")
        except UnicodeEncodeError:
            return json.dumps(value, indent=indent)
        return text

    # -- people -----------------------------------------------------------------------------

    def _line(self, text: str = "") -> None:
        print(text, file=self._stream)

    def _console(self) -> Console:
        if self._opened is None:
            from rich.console import Console

            self._opened = Console(
                file=self._stream,
                force_terminal=True,
                highlight=False,
                markup=False,
                emoji=False,
            )
        return self._opened

    def _print_rich(self, block: Block) -> None:
        console = self._console()
        match block:
            case Facts():
                console.print(_panel(_grid(block.rows), block.title))
            case Table():
                console.print(_table(block))
            case Notes():
                body = "\n".join(printable(line) for line in block.lines)
                console.print(_panel(body, block.title, _STYLES[block.tone]))
            case Value():
                console.rule(printable(block.title), style="dim")
                for line in _json_lines(block.value):
                    console.print(line, soft_wrap=True)
            case Listing():
                for row in _listing(block, console.width):
                    console.print(
                        row.cells[0], style=_STYLES[row.tone], no_wrap=True, overflow="ellipsis"
                    )


def _panel(body: RenderableType, title: str, style: str = "") -> RenderableType:
    from rich.panel import Panel

    return Panel(body, title=title or None, title_align="left", border_style=style or "dim")


def _grid(rows: list[Fact]) -> RenderableType:
    from rich.table import Table as RichTable
    from rich.text import Text

    grid = RichTable.grid(padding=(0, 2))
    for fact in rows:
        value = Text(printable(fact.value), style=_STYLES[fact.tone])
        grid.add_row(Text(fact.label, style="bold"), value, Text(printable(fact.note)))
    return grid


def _table(block: Table) -> RenderableType:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    table = RichTable(box=box.SIMPLE_HEAD, title=block.title or None, title_justify="left")
    for column in block.columns:
        table.add_column(column.name, justify="right" if column.right else "left")
    for row in block.rows:
        cells = [Text(printable(cell), style=_STYLES[row.tone]) for cell in row.cells]
        table.add_row(*cells)
    return table


def _plain(block: Block) -> Iterator[str]:
    match block:
        case Facts():
            yield from _plain_facts(block.rows)
        case Table():
            names = tuple(column.name for column in block.columns)
            rows = [names, *(tuple(map(printable, row.cells)) for row in block.rows)]
            widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
            for cells in rows:
                yield _aligned(cells, block.columns, widths, "   ")
        case Listing():
            yield from (row.cells[0] for row in _listing(block, 0))
        case Notes():
            yield block.title
            yield from (f"  {printable(line)}" for line in block.lines)
        case Value():
            yield block.title
            yield from _json_lines(block.value)


def _plain_facts(rows: list[Fact]) -> Iterator[str]:
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


def _listing(block: Listing, line_width: int) -> Iterator[Row]:
    """The rows as one cell each; with a `line_width` the line is cut there."""
    widths = [column.width for column in block.columns]
    names = tuple(column.name for column in block.columns)
    yield Row((_aligned(names, block.columns, widths, "  "),), "dim")
    for row in block.rows:
        cells = tuple(map(printable, row.cells))
        line = _aligned(cells, block.columns, widths, "  ")
        if line_width and len(line) > line_width:
            line = line[: line_width - 1] + "…"
        yield Row((line,), row.tone)


def _json_lines(value: Any) -> list[str]:
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return [printable(line) for line in text.split("\n")]
