"""An open session for programs that wait in a thread. Made by a Store; used in a `with` block.

What can be seen is in view.py, what is written in session_operations; async_session has the same
names as coroutines.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Protocol, Self

from msgspec import UNSET, UnsetType

from durasess.engine.prune import Pruned
from durasess.engine.receipt import Receipt
from durasess.engine.types import Draft
from durasess.session import call_operations, events, run_operations, session_operations
from durasess.session.call import once
from durasess.session.core import Core
from durasess.session.endings import ENDS_THE_HANDLE
from durasess.session.open_calls import OpenCall
from durasess.session.report import SessionReport
from durasess.session.run import Run
from durasess.session.state import SessionStatus, ToolState
from durasess.session.tools import Tool
from durasess.session.view import SessionView


class Family(Protocol):
    """How a session gets children; a store knows."""

    def new_id(self) -> str:
        """A session id that nobody has."""

    def create_child(
        self, session_id: str, *, parent: str, parent_call: str, options: dict[str, Any]
    ) -> Session:
        """Make and open the session."""


class Session(SessionView):
    """An open session. Every method that writes returns when the event is durable.

    Raises EventRejectedError (nothing was written), StorageError (the disk refused, nothing was
    kept, the handle lives), SessionFailedError or FencedError (close and open again),
    SessionClosedError; a handle of mode "read" StorageError.
    """

    def __init__(self, core: Core, report: SessionReport, family: Family) -> None:
        super().__init__(core, report)
        self.family = family

    # -- runs and calls -----------------------------------------------------------------------

    def run(self, request: Any, *, run_id: str | None = None, code_version: str = "") -> Run:
        """A run for a user's request, a text or a list of content parts; use it in a `with`
        block. Only one run is open in a session at a time, over all processes."""
        return Run(
            self,
            self._core,
            request,
            run_id=run_id,
            resumes="",
            code_version=code_version,
        )

    def resume_run(self, *, run_id: str | None = None, code_version: str = "") -> Run:
        """A run without a new request, which continues the last one: interrupted, cancelled or
        failed. Refused when there is none, or when it was continued already."""
        last = self.state.runs[-1].run_id if self.state.runs else "none"
        return Run(
            self,
            self._core,
            None,
            run_id=run_id,
            resumes=last,
            code_version=code_version,
        )

    @property
    def open_calls(self) -> list[OpenCall]:
        """Calls that have not ended or whose outcome is unknown, oldest first."""
        return [OpenCall(self._core, call) for call in self.call_states]

    def approve(self, call_id: str, *, by: str = "", comment: str = "") -> ToolState:
        """Let a call that waits for approval start; by its id or its key."""
        return self._core.run(
            call_operations.decide(self._core, call_id, approved=True, by=by, comment=comment)
        )

    def deny(self, call_id: str, *, by: str = "", comment: str = "") -> ToolState:
        """Refuse a call that waits for approval; that is its result."""
        return self._core.run(
            call_operations.decide(self._core, call_id, approved=False, by=by, comment=comment)
        )

    def answer(self, call_id: str, output: Any, *, ok: bool = True) -> ToolState:
        """The result of a call that ends outside of the process that started it."""
        return self._core.run(call_operations.answer(self._core, call_id, output, ok=ok))

    def once(
        self,
        operation_id: str,
        function: Callable[[], Any],
        *,
        name: str = "once",
        arguments: Any = None,
        tool: Tool | None = None,
    ) -> Any:
        """`Run.once`, outside of a run."""
        return once(
            self._core, "", operation_id, function, name=name, arguments=arguments, tool=tool
        )

    @contextlib.contextmanager
    def child(
        self, *, run_id: str | None = None, call_id: str | None = None, **options: Any
    ) -> Iterator[Session]:
        """See `Run.child`."""
        child_id = options.pop("session_id", None) or self.family.new_id()
        key = self._core.run(
            session_operations.start_child(self._core, child_id, run_id=run_id, call_id=call_id)
        )
        ending = session_operations.ChildEnding(self._core, child_id, run_id)
        try:
            made = self.family.create_child(
                child_id, parent=self.session_id, parent_call=key, options=options
            )
            with made:
                try:
                    yield made
                finally:
                    ending.look(made.core)
        except BaseException:
            with contextlib.suppress(*ENDS_THE_HANDLE):
                self._core.run(ending.written())
            raise
        self._core.run(ending.written())

    # -- events -------------------------------------------------------------------------------

    def emit(
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
        return self._core.run(session_operations.emit(self._core, one, durable=durable))

    # -- what the session is and knows --------------------------------------------------------

    def change(
        self,
        *,
        title: str | UnsetType = UNSET,
        status: SessionStatus | UnsetType = UNSET,
        labels: dict[str, str] | UnsetType = UNSET,
        pinned: bool | UnsetType = UNSET,
        user_id: str | UnsetType = UNSET,
    ) -> Receipt:
        """Change what lists show of the session; what is not given stays."""
        receipt = self._core.run(
            session_operations.change(
                self._core,
                title=title,
                status=status,
                labels=labels,
                pinned=pinned,
                user_id=user_id,
            )
        )
        self._core.engine.publish_summary()
        return receipt

    def complete(self) -> Receipt:
        """Mark the session as completed; a later run makes it active again."""
        return self.change(status="completed")

    def archive(self) -> Receipt:
        """Put the session away: it takes no run until its status is "active" again."""
        return self.change(status="archived")

    def configure(self, **config: Any) -> Receipt:
        """Merge into `state.runtime_config`; None removes a key. Credentials are refused."""
        session_operations.refuse_credentials(self._core.mask_arguments(config))
        return self._record(events.ConfigChanged(config=config))

    def system(self, content: Any, *, name: str = "prompt") -> Receipt:
        """Set a part of the system prompt. It replaces the one of the same name; None removes."""
        return self._record(events.SystemMessage(content=content, name=name))

    def set_task(
        self,
        *,
        goal: str | UnsetType = UNSET,
        status: str | UnsetType = UNSET,
        completed: list[Any] | UnsetType = UNSET,
        pending: list[Any] | UnsetType = UNSET,
    ) -> Receipt:
        """Set goal and steps, which outlive every compaction; what is not given stays."""
        return self._core.run(
            session_operations.set_task(
                self._core, goal=goal, status=status, completed=completed, pending=pending
            )
        )

    def set_state(self, name: str, value: Any) -> Receipt:
        """`custom_state[name] = value`; None removes it. Credentials are refused."""
        session_operations.refuse_credentials(self._core.mask_arguments({name: value}))
        return self._record(events.StateSet(name=name, value=value))

    def set_checkpoint(self, *, dispatched: int | None = None, next: Any = None) -> Receipt:
        """Record how far the agent loop has come: it has handled the events up to `dispatched`
        (default: all), and `next` says what it will do. `pending_events` begins behind them."""
        return self._core.run(session_operations.set_checkpoint(self._core, dispatched, next))

    def record_usage(self, reported: Any, *, counter: str = "") -> Receipt:
        """`Run.usage`, outside of a run."""
        return self._core.run(
            run_operations.record_usage(self._core, "", reported, counter=counter)
        )

    def note(self, text: str) -> Receipt:
        """Record a remark for people; no model sees it."""
        return self._record(events.Note(text=text))

    def rebind(self, path: str | os.PathLike[str]) -> Receipt:
        """Say where the project is now, if it moved: tools work there from here on."""
        return self._core.run(session_operations.bind_workspace(self._core, path))

    def compact(self, summary: str, *, through: int | None = None) -> Receipt:
        """Let the model see `summary` from here on instead of the messages up to seq `through`; by
        default of all that can go without parting a call from its result. The log keeps them."""
        return self._core.run(session_operations.compact(self._core, summary, through))

    def rewind(self, to: int) -> Receipt:
        """Take back what was said behind seq `to`: no model sees it any more. The events stay in
        the log, and files stay as they are."""
        return self._record(events.Rewound(to=to))

    def _record(self, data: events.EventData) -> Receipt:
        return self._core.run(session_operations.record(self._core, data))

    def begin(self, first: list[events.EventData]) -> None:
        """What a new session is, as its first events; a store does this."""
        self._core.run(session_operations.record_all(self._core, first))

    # -- the handle ---------------------------------------------------------------------------

    def refresh(self) -> int:
        """Take over what other processes wrote (modes "shared" and "read"); the newest seq."""
        return self._core.engine.refresh()

    def snapshot(self) -> int:
        """Take a snapshot, from which the next opening begins; returns the seq that it is of."""
        return self._core.engine.snapshot()

    def flush(self) -> None:
        """Return when everything that was written before is durable."""
        self._core.engine.flush()

    def prune(self) -> Pruned:
        """Delete history that snapshots cover, and large values that nothing names any more; says
        what went. Refused while older messages that count, or results of `once`, are only there,
        and while a snapshot is of a program that knows less of the session's own events."""
        session_operations.check_prunable(self._core)
        return self._core.engine.prune()

    def close(self) -> None:
        """Let go of the session; safe to call again. Callbacks get what was durable."""
        self._close()

    def abandon(self) -> None:
        """Let go as a kill would, without sealing: for tests of recovery."""
        self._core.engine.abandon()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
