"""The stream that a report is printed on: what it refuses is told apart from what the session's
disk refuses."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, TextIO, TypeVar

T = TypeVar("T")


class OutputLost(Exception):
    """The output took no more: its disk is full, for example."""


class Printed:
    """`stream`, whose errors are OutputLost; a pipe that nobody reads stays a BrokenPipeError."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str, /) -> int:
        """As the stream's."""
        return self._told(lambda: self._stream.write(text))

    def flush(self) -> None:
        """As the stream's."""
        self._told(self._stream.flush)

    @staticmethod
    def _told(call: Callable[[], T]) -> T:
        try:
            return call()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputLost(str(error)) from error


class Nowhere(io.TextIOBase):
    """In the place of a stream that the caller closed."""

    def write(self, text: str, /) -> int:
        """Keep nothing."""
        return len(text)
