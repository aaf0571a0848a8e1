"""A run as a context manager, for tasks of an event loop; see run.py."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from durasess.engine.receipt import Receipt
from durasess.errors import StorageError
from durasess.session import call_operations, run_operations
from durasess.session.async_call import AsyncToolCall, once
from durasess.session.async_stream import AsyncStream
from durasess.session.core import Core
from durasess.session.endings import ENDS_THE_HANDLE, run_ending
from durasess.session.planned_write import PlannedWrite
from durasess.session.refusal import begun, check_unstarted
from durasess.session.state import RunStatus, ToolState
from durasess.session.tasks import in_thread
from durasess.session.tools import Tool

if TYPE_CHECKING:
    from durasess.session.async_session import AsyncSession


class AsyncRun:
    """`Run` with coroutines for methods; in an `async with` block."""

    def __init__(
        self,
        session: AsyncSession,
        core: Core,
        request: Any,
        *,
        run_id: str | None,
        resumes: str,
        code_version: str,
    ) -> None:
        self._session = session
        self._core = core
        self._request = request
        self._wanted_id = run_id
        self._resumes = resumes
        self._code_version = code_version
        self._ended = False
        self.run_id = ""

    async def start(self) -> Self:
        """Begin the run outside of an `async with` block; `finish` ends it."""
        check_unstarted(bool(self.run_id), "run")
        self.run_id = await self._core.run_async(
            run_operations.start(
                self._core,
                self._request,
                run_id=self._wanted_id,
                resumes=self._resumes,
                code_version=self._code_version,
            )
        )
        try:
            await self._publish()
        except BaseException as error:
            # Nobody gets the run, so it ends here.
            await self.__aexit__(type(error), error, error.__traceback__)
            raise
        return self

    async def __aenter__(self) -> Self:
        return self if self.run_id and not self._ended else await self.start()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._ended or isinstance(error, ENDS_THE_HANDLE):
            return
        status, text, reason = run_ending(error)
        try:
            await self._finish(status, text, reason, stopped_by=error)
        except ENDS_THE_HANDLE:
            # The next open finds the run open and says what became of it.
            if error is None:
                raise

    async def finish(
        self, status: RunStatus = "succeeded", *, error: str = "", reason: str = ""
    ) -> None:
        """End the run before the block does."""
        await self._finish(status, error, reason, stopped_by=None)

    async def _finish(
        self, status: RunStatus, error: str, reason: str, *, stopped_by: BaseException | None
    ) -> None:
        ending = run_operations.finish(
            self._core, begun(self.run_id), status, error=error, reason=reason
        )
        try:
            await self._core.end_async(ending, stopped_by)
        except Exception:
            if isinstance(stopped_by, GeneratorExit):
                # The collector may close it where nothing can be written, in a commit.
                self._core.unended.add(self.run_id)
            raise
        except BaseException:
            self._core.unended.add(self.run_id)
            self._ended = True
            raise
        self._ended = True
        if not isinstance(stopped_by, GeneratorExit):
            await self._publish()

    async def _publish(self) -> None:
        """Lists show the run at once. They can do without: the log has it."""
        with contextlib.suppress(StorageError):
            await in_thread(self._core.engine.publish_summary)

    async def user(self, content: Any, *, event_id: str | None = None) -> Receipt:
        """Another message of the user: a text, or a list of content parts."""
        return await self._core.run_async(
            run_operations.say(self._core, begun(self.run_id), content, event_id=event_id)
        )

    async def assistant(
        self,
        content: Any = "",
        *,
        tool_calls: Iterable[Any] | None = None,
        usage: Any = None,
        raw: Any = None,
        model: str = "",
        event_id: str | None = None,
    ) -> list[ToolState]:
        """The model's reply; returns the calls it asks for, pending.

        `tool_calls`: {"call_id", "name", "arguments"} or a provider's own shape. `usage`: what the
        provider counted for this reply, in its own names. `raw`: {"provider", "item"}, the item
        that it sent, to be sent back as it is.
        """
        return await self._core.run_async(
            run_operations.reply(
                self._core,
                begun(self.run_id),
                content,
                tool_calls=tool_calls,
                reported=usage,
                raw=raw,
                model=model,
                event_id=event_id,
            )
        )

    def stream(self) -> AsyncStream:
        """A reply that comes in pieces, folded into one message."""
        return AsyncStream(self._core, begun(self.run_id))

    def tool(
        self, call_id: str, *, tool: Tool | None = None, plan: PlannedWrite | None = None
    ) -> AsyncToolCall:
        """The execution of a call, found by its id (the newest pending one) or its key.

        `tool` stands for the store's declaration. `plan` is a write to the workspace that the body
        will apply: what it is going to do is recorded before, so that recovery can tell whether it
        happened.
        """
        writes = [plan.record()] if plan is not None else []
        return AsyncToolCall(self._core, begun(self.run_id), call_id, tool, writes)

    async def ask_approval(self, call_id: str, prompt: str = "") -> None:
        """The call may not start before `session.approve` or `session.deny`, in any process, also
        after a restart."""
        await self._core.run_async(
            call_operations.ask_approval(self._core, begun(self.run_id), call_id, prompt)
        )

    async def once(
        self,
        operation_id: str,
        function: Callable[[], Awaitable[Any]],
        *,
        name: str = "once",
        arguments: Any = None,
        tool: Tool | None = None,
    ) -> Any:
        """Call `function` once in this session's life and return its result, as it was recorded;
        later calls return that. Raises what it raises (then it may be tried again), and
        OutcomeUnknownError when it was begun and nobody knows how it ended."""
        return await once(
            self._core,
            begun(self.run_id),
            operation_id,
            function,
            name=name,
            arguments=arguments,
            tool=tool,
        )

    async def usage(self, reported: Any, *, counter: str = "") -> Receipt:
        """Record usage that belongs to no reply. With the name of a `counter`, `reported` is where
        that counter stands, which may start again from 0."""
        return await self._core.run_async(
            run_operations.record_usage(self._core, begun(self.run_id), reported, counter=counter)
        )

    @contextlib.asynccontextmanager
    async def child(
        self, *, call_id: str | None = None, **options: Any
    ) -> AsyncIterator[AsyncSession]:
        """A session of its own that works for this run; its id is recorded here before it is made.

        `options` are those of `Store.create`. When the block ends, how its last run ended and its
        last answer are recorded here.
        """
        async with self._session.child(
            run_id=begun(self.run_id), call_id=call_id, **options
        ) as made:
            yield made
