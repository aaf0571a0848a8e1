"""The one place that prints: a report as blocks for people, or as one JSON document.

On a terminal, blocks become panels and tables with colour (panels.py). Piped, the same blocks are
aligned text without an escape code (plain.py). What comes from a session is shown with its control
characters escaped, so that a file's name or an event cannot drive the terminal.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TextIO

import msgspec

from durasess.cli import plain
from durasess.cli.blocks import Block, Column, Row, printable

if TYPE_CHECKING:
    from durasess.cli.panels import Panels

SOUND = 0
DAMAGE = 1
USAGE = 2
UNREADABLE = 3
"""Exit statuses of every verb."""


class Step(Protocol):
    """Says how much of a long work was done."""

    def __call__(self, amount: int = 1, /) -> None:
        """So much more is done."""


class Items(NamedTuple):
    """A last member `name` of a JSON report, written while its `values` come; then the members that
    `behind` gives, which are known only afterwards."""

    name: str
    values: Iterable[Any]
    behind: Callable[[], dict[str, Any]] = dict


class Output:
    """Where the reports of a command go: people's text, or JSON, on `stream`. With `as_lines` JSON
    is one line for each report."""

    def __init__(
        self,
        stream: TextIO,
        *,
        as_json: bool,
        as_lines: bool = False,
        terminal: bool | None = None,
    ) -> None:
        self._stream = stream
        self._as_json = as_json
        self._as_lines = as_lines
        self._terminal = stream.isatty() if terminal is None else terminal
        self._opened: Panels | None = None

    def report(
        self,
        report: Any,
        blocks: Callable[[], Iterable[Block]],
        items: Callable[[], Items] | None = None,
    ) -> None:
        """Print `report`, and `items` if given, as JSON, or the `blocks` that say the same."""
        if self._as_json:
            self._print_json(report, items() if items is not None else None)
            return
        for index, block in enumerate(blocks()):
            if index and not self._terminal:
                self._line()
            if self._terminal:
                self._panels().show(block)
            else:
                for line in plain.lines(block, self._rails()):
                    self._line(line)

    def follow(
        self, columns: tuple[Column, ...], rounds: Iterable[Iterable[tuple[Row, Any]]]
    ) -> None:
        """Print rows, or their values as JSON, as they come; what is read at the other end of a
        pipe is complete after each round."""
        if not self._as_json:
            self._listed(columns, None)
        self._stream.flush()
        for rows in rounds:
            for row, value in rows:
                if self._as_json:
                    self._line(self._json(msgspec.to_builtins(value)))
                else:
                    self._listed(columns, row)
            self._stream.flush()

    def script(self, name: str, text: str) -> None:
        """Print what is meant for a program, as it is; as JSON under a name."""
        if self._as_json:
            self._print_json({name: text}, None)
        else:
            self._stream.write(text)

    def remark(self, message: str) -> None:
        """Say something on stderr that is no part of what was asked for."""
        print(f"durasess: {printable(message)}", file=sys.stderr)

    def failure(self, error: BaseException, message: str) -> None:
        """Say on stderr what stopped the command; JSON readers get it on `stream` too."""
        self.remark(message)
        if self._as_json:
            places = {name: getattr(error, name, None) for name in ("path", "offset", "seq")}
            said = {"kind": type(error).__name__, "message": message, **places}
            self._print_json({"error": said}, None)

    @contextmanager
    def progress(self, label: str, total: int, *, in_bytes: bool = False) -> Iterator[Step]:
        """A bar on a terminal, nothing otherwise; call what it yields after each step. What is read
        twice fills it no further."""
        if self._as_json or not self._terminal or not total:
            yield _ignore
            return
        with self._panels().bar(label, total, in_bytes=in_bytes) as bar:
            task = bar.task_ids[0]

            def step(amount: int = 1, /) -> None:
                done = bar.tasks[0].completed + amount
                bar.update(task, completed=min(done, total))

            yield step

    # -- JSON -------------------------------------------------------------------------------

    def _print_json(self, report: Any, items: Items | None) -> None:
        plain_report = msgspec.to_builtins(report)
        if self._as_lines:
            self._line(self._json(plain_report))
            return
        text = self._json(plain_report, indent=2)
        if items is None:
            self._line(text)
            return
        head = text[: text.rindex("\n")]
        self._stream.write(f"{head},\n  {self._json(items.name)}: [")
        for index, value in enumerate(items.values):
            between = ",\n    " if index else "\n    "
            self._stream.write(between + self._json(msgspec.to_builtins(value)))
        self._stream.write("\n  ]")
        for name, value in items.behind().items():
            self._stream.write(f",\n  {self._json(name)}: {self._json(value)}")
        self._line("\n}")

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

    def _listed(self, columns: tuple[Column, ...], row: Row | None) -> None:
        """One row of a listing, or its head."""
        if self._terminal:
            panels = self._panels()
            if row is None:
                panels.row(plain.listing_head(columns))
            else:
                panels.listed(columns, row)
        elif row is None:
            self._line(plain.listing_head(columns).cells[0])
        else:
            for line in plain.listing_rows(columns, [row]):
                self._line(line.cells[0])

    def _rails(self) -> plain.Rails:
        try:
            "".join(plain.LINES).encode(self._stream.encoding or "utf-8")
        except UnicodeEncodeError:
            return plain.ASCII
        return plain.LINES

    def _panels(self) -> Panels:
        if self._opened is None:
            from durasess.cli.panels import Panels

            self._opened = Panels(self._stream)
        return self._opened


def _ignore(amount: int = 1, /) -> None:
    """Nobody watches."""
