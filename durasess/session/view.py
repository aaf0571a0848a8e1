"""What can be seen of an open session without writing: state, calls, context, history, events as
they come. The same for threads and tasks."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterator
from typing import Any

from msgspec.structs import replace

from durasess.engine.types import Event
from durasess.errors import WorkspaceNotFoundError
from durasess.session import bus
from durasess.session.context import Context, plan
from durasess.session.core import Core
from durasess.session.deliveries import Delivery
from durasess.session.report import SessionReport
from durasess.session.signals import LIMIT_S, SignalWatch
from durasess.session.state import (
    OPEN_CALLS,
    Checkpoint,
    Chunk,
    Message,
    Run,
    SessionState,
    Task,
    ToolState,
    Usage,
)
from durasess.session.transcript import history, older_chunks
from durasess.session.workspace import Workspace

LAST_DELIVERIES_S = 1.0
"""Seconds that a close waits for a callback to have what was durable."""


class SessionView:
    """An open session, to look at. `recovery` tells what opening found."""

    def __init__(self, core: Core, report: SessionReport) -> None:
        self._core = core
        self._workspace: Workspace | None = None
        self._subscriptions: weakref.WeakSet[bus.Subscription] = weakref.WeakSet()
        self.recovery = report

    @property
    def core(self) -> Core:
        """The open engine behind it, with what a session adds."""
        return self._core

    @property
    def session_id(self) -> str:
        """Its name in the store."""
        return self._core.engine.session_id

    @property
    def path(self) -> str:
        """Its directory."""
        return self._core.engine.path

    @property
    def state(self) -> SessionState:
        """After `last_seq`; never changes, a later one is another object."""
        return self._core.state

    @property
    def last_seq(self) -> int:
        """The seq of the newest durable event."""
        return self._core.engine.last_seq

    @property
    def title(self) -> str:
        """For lists."""
        return self.state.meta.title

    @property
    def status(self) -> str:
        """ "active", "completed" or "archived"."""
        return self.state.meta.status

    @property
    def labels(self) -> dict[str, str]:
        """The program's own names for it; a copy."""
        return dict(self.state.meta.labels)

    @property
    def usage(self) -> Usage:
        """Everything that was ever used in it."""
        return self.state.usage

    @property
    def task(self) -> Task:
        """Goal and steps; not touched by compaction."""
        return self.state.task

    @property
    def runs(self) -> list[Run]:
        """The newest runs, oldest first."""
        return list(self.state.runs)

    @property
    def checkpoint(self) -> Checkpoint:
        """How far the agent loop has come."""
        return self.state.checkpoint

    @property
    def custom_state(self) -> dict[str, Any]:
        """The program's own state, in the program's version; treat it as read-only."""
        return self._core.custom.migrated(self.state).custom_state

    @property
    def call_states(self) -> list[ToolState]:
        """Calls that something may still happen to, oldest first; until the model was told, those
        of an interrupted run that were never started, too."""
        state = self.state
        told = state.notice.keys if state.notice is not None else []
        calls = [
            call
            for call in state.tool_states.values()
            if call.status in OPEN_CALLS or (call.status == "not_started" and call.key in told)
        ]
        return sorted(calls, key=lambda call: call.seq)

    @property
    def notices(self) -> tuple[str, ...]:
        """What went wrong without costing an event."""
        return (*self.recovery.warnings, *self._core.engine.notices)

    @property
    def workspace(self) -> Workspace:
        """Where tools work. WorkspaceNotFoundError when the session has none."""
        path = self.state.meta.workspace
        if not path:
            raise WorkspaceNotFoundError(
                f"{self.path}: this session has no workspace. Give one to create, or rebind it.",
                path=self.path,
            )
        if self._workspace is None or self._workspace.root != path:
            self._workspace = Workspace(path)
        return self._workspace

    def events(self, after: int = 0) -> Iterator[Event]:
        """The durable events behind seq `after`, as they were recorded."""
        return self._core.engine.events(after=after)

    def pending_events(self) -> Iterator[Event]:
        """The events behind the checkpoint's position: not dispatched, for all that is known."""
        return self.events(after=self.state.checkpoint.dispatched)

    def resolved(self, value: Any) -> Any:
        """A value of an event or of the state, with large parts that are stored out of line read
        and verified."""
        return self._core.resolved(value)

    def context(
        self,
        max_tokens: int | None = None,
        *,
        count_tokens: Callable[[Any], int] | None = None,
    ) -> Context:
        """What the next model call receives. Consumes nothing.

        `max_tokens` is the budget; `count_tokens(message)` counts one neutral message or the system
        text, by default an estimate (context.plan). Without a budget it is all live messages.
        """
        state = self.state
        found = plan(
            state,
            older=self._older(state),
            max_tokens=max_tokens,
            count_tokens=count_tokens,
            resolve=self._core.resolved,
            workspace_note=self._workspace_note(state),
        )
        if state.older_since and state.older_since < self._core.engine.first_seq:
            # Messages that count were pruned with the log that held them.
            found = replace(found, left_out=replace(found.left_out, unread=True))
        return found

    def _older(self, state: SessionState) -> Iterator[Chunk]:
        return older_chunks(self._core.events_left, state, self._core.reducer)

    def _workspace_note(self, state: SessionState) -> str:
        path = state.meta.workspace
        if not path or self.workspace.exists:
            return ""
        return f"The workspace {path} is not there."

    def history(self) -> Iterator[Message]:
        """Every message from the first, compacted ones too, without what was rewound; read from the
        log, oldest first. What was pruned is not in it."""
        state = self.state
        for messages, _ in history(self._core.events_left(), state, self._core.reducer):
            yield from messages

    def subscribe(
        self,
        callback: Callable[[Delivery], None] | None = None,
        *,
        after: int | None = None,
        types: Collection[str] | None = None,
        run_id: str | None = None,
        call_id: str | None = None,
        on_error: Callable[[BaseException, Delivery], None] | None = None,
    ) -> bus.Subscription:
        """Get each event once it is durable: to iterate over, or for a callback in a thread of its
        own. With `after`, all events behind that seq come first.

        `types`, `run_id` and `call_id` leave out what is not asked for. What the callback raises
        goes to `on_error(error, delivery)`, or into the log, and the next event follows.
        """
        made = bus.subscribe(
            self._core.engine,
            after=after,
            types=types,
            run_id=run_id,
            call_id=call_id,
            callback=callback,
            on_error=on_error,
        )
        self._subscriptions.add(made)
        return made

    def save_on_signals(self, *, limit_s: float = LIMIT_S) -> SignalWatch:
        """On SIGTERM and SIGHUP, flush and snapshot before the program ends, which may take
        `limit_s` seconds; in the main thread only. Close what is returned, or use it in a `with`
        block."""
        return SignalWatch(self._save, limit_s=limit_s).start()

    def _close(self) -> None:
        self._core.engine.close()
        for subscription in list(self._subscriptions):
            # A callback that is stuck costs this much and no more.
            subscription.wait(LAST_DELIVERIES_S)

    def _save(self) -> None:
        self._core.engine.flush()
        self._core.engine.snapshot()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.session_id} at seq {self.last_seq}>"
