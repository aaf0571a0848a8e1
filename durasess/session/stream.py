"""A reply that comes in pieces, as a context manager, for programs that wait in a thread."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

from durasess.session import run_operations
from durasess.session.core import Core
from durasess.session.endings import ENDS_THE_HANDLE
from durasess.session.held_back import HeldBack
from durasess.session.state import ToolState


class Stream:
    """A model's reply that comes in pieces; use it in a `with` block.

    A piece is written without waiting for its sync; `finish` makes one durable message of all. A
    block that ends without `finish` does the same. Where an exception ends the block, what came is
    kept as a reply that was cut off.
    """

    def __init__(self, core: Core, run_id: str) -> None:
        self._core = core
        self._run_id = run_id
        self._pieces: list[str] = []
        self._held = HeldBack() if core.masks else None
        self.is_ended = False

    def __enter__(self) -> Self:
        return self

    def delta(self, text: str) -> None:
        """Record the next piece. An end of it that may begin a secret waits for the next piece."""
        held = self._held if isinstance(text, str) else None
        ready = text if held is None else held.ready(text)
        try:
            if ready or not text:
                self._core.run(run_operations.delta(self._core, self._run_id, ready))
        except Exception:
            raise
        except BaseException:
            # It came, and may be in the log.
            self._keep(text, ready)
            raise
        self._keep(text, ready)

    def _keep(self, text: str, ready: str) -> None:
        if self._held is not None:
            self._held.keep(text, ready)
        self._pieces.append(text)

    @property
    def text(self) -> str:
        """What came so far."""
        return "".join(self._pieces)

    def finish(
        self,
        content: Any = None,
        *,
        tool_calls: Iterable[Any] | None = None,
        usage: Any = None,
        raw: Any = None,
        model: str = "",
    ) -> list[ToolState]:
        """The whole reply: `content`, or else the pieces; the rest as in `Run.assistant`."""
        return self._finish(content, tool_calls, usage, raw, model, partial=False)

    def _finish(
        self, content: Any, calls: Any, usage: Any, raw: Any, model: str, *, partial: bool
    ) -> list[ToolState]:
        found = self._core.run(
            run_operations.reply(
                self._core,
                self._run_id,
                self.text if content is None else content,
                tool_calls=calls,
                reported=usage,
                raw=raw,
                model=model,
                streamed=True,
                partial=partial,
            )
        )
        self.is_ended = True
        return found

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.is_ended or isinstance(error, ENDS_THE_HANDLE):
            return
        if error is None:
            self.finish()
        elif self._pieces:
            with contextlib.suppress(*ENDS_THE_HANDLE):
                self._finish(None, None, None, None, "", partial=True)
