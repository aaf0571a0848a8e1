"""The execution of a tool call as a context manager, for tasks of an event loop; see call.py."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Self

from durasess.session import call_operations, once_operations
from durasess.session.core import Core
from durasess.session.endings import ENDS_THE_HANDLE, call_ending
from durasess.session.refusal import check_unstarted
from durasess.session.started_call import StartedCall
from durasess.session.tools import Tool


class AsyncToolCall(StartedCall):
    """`ToolCall` with coroutines for methods; in an `async with` block."""

    async def start(self) -> Self:
        """Begin the call outside of an `async with` block; `result`, `fail` or `unknown` end it."""
        check_unstarted(self._call is not None, "call")
        self._call = await self._core.run_async(
            call_operations.start(
                self._core, self._run_id, self._wanted, tool=self._tool, writes=self._writes
            )
        )
        self._began = self._core.clock()
        return self

    async def __aenter__(self) -> Self:
        return self if self._call is not None and not self.is_ended else await self.start()

    async def result(self, output: Any = None) -> None:
        """The call's result. EventRejectedError when it cannot be recorded; the call is failed
        then, and says so."""
        await self._end(output, ok=True)

    async def fail(self, output: Any) -> None:
        """The call's result is this error."""
        await self._end(output, ok=False)

    async def _end(self, output: Any, *, ok: bool) -> None:
        call = self.call
        self.is_ended = True
        await self._core.run_async(call_operations.finish(self._core, call, output, ok=ok))

    async def unknown(self, reason: str) -> None:
        """Nobody knows whether the effect happened: the call is uncertain."""
        call = self.call
        self.is_ended = True
        await self._core.run_async(call_operations.unknown(self._core, call, reason, by="caller"))

    async def wait_for_callback(self, prompt: str = "") -> None:
        """The result will come from outside: `session.answer(call_id, output)`, in any process,
        also after a restart."""
        call = self.call
        await self._core.run_async(call_operations.wait_for_callback(self._core, call, prompt))
        self.is_ended = True

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if self.is_ended or isinstance(error, ENDS_THE_HANDLE):
            return False
        call = self.call
        self.is_ended = True
        if error is None:
            output = call_operations.NO_RESULT
            await self._core.run_async(call_operations.finish(self._core, call, output, ok=False))
            return False
        ending, reason = call_ending(error, call, seconds=(self._core.clock() - self._began) / 1e9)
        if ending == "failed" and isinstance(error, Exception):
            self.error = error
            await self._core.run_async(call_operations.fail(self._core, call, error))
            return True
        with contextlib.suppress(*ENDS_THE_HANDLE):
            await self._core.end_async(
                call_operations.unknown(self._core, call, reason, by="interrupt"), error
            )
        return False


async def once(
    core: Core,
    run_id: str,
    operation_id: str,
    function: Callable[[], Awaitable[Any]],
    *,
    name: str,
    arguments: Any,
    tool: Tool | None,
) -> Any:
    """See `AsyncRun.once`."""
    declared = tool or core.tools.get(name) or Tool(name=name)
    begun = await core.run_async(
        once_operations.start_once(
            core, run_id, operation_id, name=name, tool=declared, arguments=arguments
        )
    )
    if isinstance(begun, int):
        return once_operations.recorded_output(core, begun)
    try:
        output = await function()
    except Exception as error:
        await core.run_async(call_operations.fail(core, begun, error))
        raise
    except BaseException as error:
        _, reason = call_ending(error, begun, seconds=0.0)
        with contextlib.suppress(*ENDS_THE_HANDLE):
            await core.end_async(
                call_operations.unknown(core, begun, reason, by="interrupt"), error
            )
        raise
    await core.run_async(call_operations.finish(core, begun, output, ok=True))
    return once_operations.recorded_output(core, core.state.operations[operation_id])
