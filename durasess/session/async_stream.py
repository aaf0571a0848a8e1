"""A reply that comes in pieces, as a context manager, for tasks of an event loop; see stream.py."""

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


class AsyncStream:
    """`Stream` with coroutines for methods; in an `async with` block."""

    def __init__(self, core: Core, run_id: str) -> None:
        self._core = core
        self._run_id = run_id
        self._pieces: list[str] = []
        self._held = HeldBack() if core.masks else None
        self.is_ended = False

    async def __aenter__(self) -> Self:
        return self

    async def delta(self, text: str) -> None:
        """Record the next piece. An end of it that may begin a secret waits for the next piece."""
        held = self._held if isinstance(text, str) else None
        ready = text if held is None else held.ready(text)
        try:
            if ready or not text:
                await self._core.run_async(run_operations.delta(self._core, self._run_id, ready))
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

    async def finish(
        self,
        content: Any = None,
        *,
        tool_calls: Iterable[Any] | None = None,
        usage: Any = None,
        raw: Any = None,
        model: str = "",
    ) -> list[ToolState]:
        """The whole reply: `content`, or else the pieces; the rest as in `Run.assistant`."""
        return await self._finish(content, tool_calls, usage, raw, model, stopped_by=None)

    async def _finish(
        self,
        content: Any,
        calls: Any,
        usage: Any,
        raw: Any,
        model: str,
        *,
        stopped_by: BaseException | None,
    ) -> list[ToolState]:
        found = await self._core.end_async(
            run_operations.reply(
                self._core,
                self._run_id,
                self.text if content is None else content,
                tool_calls=calls,
                reported=usage,
                raw=raw,
                model=model,
                streamed=True,
                partial=stopped_by is not None,
            ),
            stopped_by,
        )
        self.is_ended = True
        return found

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.is_ended or isinstance(error, ENDS_THE_HANDLE):
            return
        if error is None:
            await self.finish()
        elif self._pieces:
            with contextlib.suppress(*ENDS_THE_HANDLE):
                await self._finish(None, None, None, None, "", stopped_by=error)
