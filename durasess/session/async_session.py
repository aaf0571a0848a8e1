"""An open session for tasks of an event loop: the names of session.py as coroutines."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Any, Self

from msgspec import UNSET, UnsetType

from durasess.engine.prune import Pruned
from durasess.engine.receipt import Receipt
from durasess.engine.types import Draft
from durasess.session import call_operations, events, run_operations, session_operations
from durasess.session.async_call import once
from durasess.session.async_run import AsyncRun
from durasess.session.endings import ENDS_THE_HANDLE
from durasess.session.open_calls import AsyncOpenCall
from durasess.session.session import Session
from durasess.session.state import SessionStatus, ToolState
from durasess.session.tasks import in_thread, opened_in_thread
from durasess.session.tools import Tool
from durasess.session.view import SessionView


class AsyncSession(SessionView):
    """`Session` with coroutines for methods; in an `async with` block.

    What is only looked at (state, context, history, events) is read in the calling task; a context
    or history that needs the log reads files there.
    """

    def __init__(self, session: Session) -> None:
        super().__init__(session.core, session.recovery)
        self._family = session.family

    # -- runs and calls -----------------------------------------------------------------------

    def run(self, request: Any, *, run_id: str | None = None, code_version: str = "") -> AsyncRun:
        """A run for a user's request, a text or a list of content parts; use it in an `async with`
        block. Only one run is open in a session at a time, over all processes."""
        return AsyncRun(
            self,
            self._core,
            request,
            run_id=run_id,
            resumes="",
            code_version=code_version,
        )

    def resume_run(self, *, run_id: str | None = None, code_version: str = "") -> AsyncRun:
        """A run without a new request, which continues the last one: interrupted, cancelled or
        failed. Refused when there is none, or when it was continued already."""
        last = self.state.runs[-1].run_id if self.state.runs else "none"
        return AsyncRun(
            self,
            self._core,
            None,
            run_id=run_id,
            resumes=last,
            code_version=code_version,
        )

    @property
    def open_calls(self) -> list[AsyncOpenCall]:
        """Calls that have not ended or whose outcome is unknown, oldest first."""
        return [AsyncOpenCall(self._core, call) for call in self.call_states]

    async def approve(self, call_id: str, *, by: str = "", comment: str = "") -> ToolState:
        """Let a call that waits for approval start; by its id or its key."""
        return await self._core.run_async(
            call_operations.decide(self._core, call_id, approved=True, by=by, comment=comment)
        )

    async def deny(self, call_id: str, *, by: str = "", comment: str = "") -> ToolState:
        """Refuse a call that waits for approval; that is its result."""
        return await self._core.run_async(
            call_operations.decide(self._core, call_id, approved=False, by=by, comment=comment)
        )

    async def answer(self, call_id: str, output: Any, *, ok: bool = True) -> ToolState:
        """The result of a call that ends outside of the process that started it."""
        return await self._core.run_async(
            call_operations.answer(self._core, call_id, output, ok=ok)
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
        """`Run.once`, outside of a run."""
        return await once(
            self._core, "", operation_id, function, name=name, arguments=arguments, tool=tool
        )

    @contextlib.asynccontextmanager
    async def child(
        self, *, run_id: str | None = None, call_id: str | None = None, **options: Any
    ) -> AsyncIterator[AsyncSession]:
        """See `Run.child`."""
        child_id = options.pop("session_id", None) or self._family.new_id()
        key = await self._core.run_async(
            session_operations.start_child(self._core, child_id, run_id=run_id, call_id=call_id)
        )
        ending = session_operations.ChildEnding(self._core, child_id, run_id)
        try:
            made = await opened_in_thread(
                lambda: self._family.create_child(
                    child_id, parent=self.session_id, parent_call=key, options=options
                )
            )
            child = AsyncSession(made)
            async with child:
                try:
                    yield child
                finally:
                    ending.look(made.core)
        except BaseException as error:
            with contextlib.suppress(*ENDS_THE_HANDLE):
                await self._core.end_async(ending.written(), error)
            raise
        await self._core.run_async(ending.written())

    # -- events -------------------------------------------------------------------------------

    async def emit(
        self,
        type: str,
        data: Any = None,
        *,
        run_id: str | None = None,
        call_id: str | None = None,
        event_id: str | None = None,
        durable: bool = True,
    ) -> Receipt:
        """Record an event of any type: validated, durable, folded, then told to subscribers.

        An `event_id` used again for the same content returns the first receipt. With
        `durable=False` it returns after the write.
        """
        one = Draft(type, {} if data is None else data, run_id, call_id, event_id)
        return await self._core.run_async(session_operations.emit(self._core, one, durable=durable))

    # -- what the session is and knows --------------------------------------------------------

    async def change(
        self,
        *,
        title: str | UnsetType = UNSET,
        status: SessionStatus | UnsetType = UNSET,
        labels: dict[str, str] | UnsetType = UNSET,
        pinned: bool | UnsetType = UNSET,
        user_id: str | UnsetType = UNSET,
    ) -> Receipt:
        """Change what lists show of the session; what is not given stays."""
        receipt = await self._core.run_async(
            session_operations.change(
                self._core,
                title=title,
                status=status,
                labels=labels,
                pinned=pinned,
                user_id=user_id,
            )
        )
        await in_thread(self._core.engine.publish_summary)
        return receipt

    async def complete(self) -> Receipt:
        """Mark the session as completed; a later run makes it active again."""
        return await self.change(status="completed")

    async def archive(self) -> Receipt:
        """Put the session away: it takes no run until its status is "active" again."""
        return await self.change(status="archived")

    async def configure(self, **config: Any) -> Receipt:
        """Merge into `state.runtime_config`; None removes a key. Credentials are refused."""
        session_operations.refuse_credentials(self._core.mask_arguments(config))
        return await self._record(events.ConfigChanged(config=config))

    async def system(self, content: Any, *, name: str = "prompt") -> Receipt:
        """Set a part of the system prompt. It replaces the one of the same name; None removes."""
        return await self._record(events.SystemMessage(content=content, name=name))

    async def set_task(
        self,
        *,
        goal: str | UnsetType = UNSET,
        status: str | UnsetType = UNSET,
        completed: list[Any] | UnsetType = UNSET,
        pending: list[Any] | UnsetType = UNSET,
    ) -> Receipt:
        """Set goal and steps, which outlive every compaction; what is not given stays."""
        return await self._core.run_async(
            session_operations.set_task(
                self._core, goal=goal, status=status, completed=completed, pending=pending
            )
        )

    async def set_state(self, name: str, value: Any) -> Receipt:
        """`custom_state[name] = value`; None removes it. Credentials are refused."""
        session_operations.refuse_credentials(self._core.mask_arguments({name: value}))
        return await self._record(events.StateSet(name=name, value=value))

    async def set_checkpoint(self, *, dispatched: int | None = None, next: Any = None) -> Receipt:
        """Record how far the agent loop has come: it has handled the events up to `dispatched`
        (default: all), and `next` says what it will do. `pending_events` begins behind them."""
        return await self._core.run_async(
            session_operations.set_checkpoint(self._core, dispatched, next)
        )

    async def record_usage(self, reported: Any, *, counter: str = "") -> Receipt:
        """`Run.usage`, outside of a run."""
        return await self._core.run_async(
            run_operations.record_usage(self._core, "", reported, counter=counter)
        )

    async def note(self, text: str) -> Receipt:
        """Record a remark for people; no model sees it."""
        return await self._record(events.Note(text=text))

    async def rebind(self, path: str | os.PathLike[str]) -> Receipt:
        """Say where the project is now, if it moved: tools work there from here on."""
        return await self._core.run_async(session_operations.bind_workspace(self._core, path))

    async def compact(self, summary: str, *, through: int | None = None) -> Receipt:
        """Let the model see `summary` from here on instead of the messages up to seq `through`; by
        default of all that can go without parting a call from its result. The log keeps them."""
        return await self._core.run_async(session_operations.compact(self._core, summary, through))

    async def rewind(self, to: int) -> Receipt:
        """Take back what was said behind seq `to`: no model sees it any more. The events stay in
        the log, and files stay as they are."""
        return await self._record(events.Rewound(to=to))

    async def _record(self, data: events.EventData) -> Receipt:
        return await self._core.run_async(session_operations.record(self._core, data))

    # -- the handle ---------------------------------------------------------------------------

    async def refresh(self) -> int:
        """Take over what other processes wrote (modes "shared" and "read"); the newest seq."""
        return await in_thread(self._core.engine.refresh)

    async def snapshot(self) -> int:
        """Take a snapshot, from which the next opening begins; returns the seq that it is of."""
        return await in_thread(self._core.engine.snapshot)

    async def flush(self) -> None:
        """Return when everything that was written before is durable."""
        await in_thread(self._core.engine.flush)

    async def prune(self) -> Pruned:
        """Delete history that snapshots cover, and large values that nothing names any more; says
        what went. Refused while older messages that count, or results of `once`, are only there,
        and while a snapshot is of a program that knows less of the session's own events."""
        session_operations.check_prunable(self._core)
        return await in_thread(self._core.engine.prune)

    async def close(self) -> None:
        """Let go of the session; safe to call again. Callbacks get what was durable."""
        await in_thread(self._close)

    async def abandon(self) -> None:
        """Let go as a kill would, without sealing: for tests of recovery."""
        await in_thread(self._core.engine.abandon)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(error, GeneratorExit):
            # Nothing can be awaited any more.
            self._close()
        else:
            await self.close()
