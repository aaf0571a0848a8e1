"""What every contender of a benchmark can do; how each does it is in its own module."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

Events = list[tuple[str, dict[str, Any]]]
"""`(type, data)`, as durasess.cli.workload makes them."""


class Handle(Protocol):
    """An open session of a contender, its state ready."""

    def append(self, type: str, data: dict[str, Any]) -> None:
        """Record one event, as durably as this contender does."""

    def load(self, events: Events) -> None:
        """Record many events the fastest way there is; durable when the handle is closed."""

    def count(self) -> int:
        """The number of events that it knows of."""

    def history(self) -> int:
        """Read every event back, decoded and kept; the number of them."""

    def last(self, count: int) -> list[Any]:
        """The newest `count` events, decoded."""

    def close(self) -> None:
        """Let go."""


@dataclass(frozen=True, kw_only=True)
class Peer:
    """A contender. `open(directory)` makes or opens the session in that directory and returns when
    its state is ready.

    `missing` says why it cannot run here, empty when it can. `most_events`: the longest history it
    is measured with, since some grow too slow to wait for. `threads` and `appends_async` tell
    whether one handle takes appends of several threads, and whether it has `append_async`. `note`
    describes it in a report.
    """

    name: str
    open: Callable[[Path], Handle]
    note: str
    missing: str = ""
    most_events: int = 1_000_400
    threads: bool = True
    appends_async: bool = False


def bytes_below(directory: Path) -> int:
    """Bytes of all files below a directory."""
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
