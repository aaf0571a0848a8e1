"""What `durasess inspect` shows of a session in the terms of the session layer, as one report.
Reads only; never fails for what is in a session, but says what could not be made of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import msgspec

from durasess.cli import session_context, session_fold, session_next, session_runs, states
from durasess.cli.examine import Inspected
from durasess.cli.output import Step
from durasess.cli.session_fold import SessionFolding
from durasess.cli.session_next import NextOpen
from durasess.cli.session_runs import CallLook, RunLook
from durasess.engine.types import Event
from durasess.session import selfcheck
from durasess.session.report import summary
from durasess.session.state import (
    Checkpoint,
    Child,
    Compaction,
    Counts,
    Notice,
    SessionState,
    Task,
    Usage,
)


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """What lists show of a session. `title` is the beginning of the first request when there is
    none of its own."""

    title: str
    status: str
    model: str
    labels: dict[str, str]
    user_id: str
    origin: str
    pinned: bool
    parent: str
    parent_call: str
    created_at: str
    updated_at: str


class WorkspaceLook(msgspec.Struct, frozen=True):
    """Where the tools work, and whether that directory is there."""

    path: str
    exists: bool


class CustomLook(msgspec.Struct, frozen=True):
    """The program's own state: its keys, its version, and that of the program's events."""

    keys: list[str]
    version: int
    events_version: int


class PendingEvent(msgspec.Struct, frozen=True):
    """An event that the next writer would write first."""

    type: str
    run_id: str | None
    call_id: str | None
    data: Any


class RecoveryLook(msgspec.Struct, frozen=True):
    """`notice` is what the model is still to be told; `pending` what the next writer would write
    about what is open, `remarks` what to know of that."""

    notice: Notice | None
    pending: list[PendingEvent]
    remarks: list[str]


class SessionLook(msgspec.Struct, frozen=True, kw_only=True):
    """A session after seq `seq`, which is less than the last one where events cannot be read.

    `runs` are the newest ones, oldest first, and `runs_left_out` the number of older ones;
    `other_calls` are in none of them. `open_calls` are keys. `rewound` are ranges of seqs that do
    not count any more. `findings` are of the self-check: with any, no writer may open it.
    """

    seq: int
    identity: Identity
    workspace: WorkspaceLook | None
    usage: Usage
    counts: Counts
    runs: list[RunLook]
    runs_left_out: int
    other_calls: list[CallLook]
    open_calls: list[str]
    children: list[Child]
    children_left_out: int
    checkpoint: Checkpoint
    task: Task
    compactions: list[Compaction]
    compactions_left_out: int
    rewound: list[list[int]]
    resident_messages: int
    older_since: int
    system: list[str]
    config: list[str]
    custom: CustomLook
    recovery: RecoveryLook
    findings: list[str]
    remarks: list[str]


class View:
    """A session that is one of the session layer's, read once for all that is asked of it.

    `look` is None when its state cannot be computed; `problem` says why.
    """

    def __init__(self, found: Inspected, step: Step, *, runs: int | None, now: int) -> None:
        self._found = found
        self.folding = SessionFolding()
        self.look: SessionLook | None = None
        self.problem: str | None = None
        self._next: NextOpen | None = None
        try:
            state, remarks = session_fold.newest(found, self.folding, step)
            self._next = _next(found, state, self.folding, now)
            self.look = self._looked_at(state, remarks, self._next, runs)
        except states.UnusableError as error:
            self.problem = f"{error}."
        except Exception as error:
            # Whatever was made of this session, the engine's part of it is shown.
            self.problem = f"it cannot be shown as a session: {error!r}."

    def events(self, after: int) -> Iterator[Event]:
        """The events behind a seq that can be read."""
        return session_fold.after(self._found, self.folding, after)

    def context(
        self, form: session_context.Format, max_tokens: int | None
    ) -> session_context.ContextLook:
        """What the next model call would receive; consumes nothing."""
        if self._next is None:
            said = [self.problem or ""]
            return session_context.ContextLook(format=form, max_tokens=max_tokens, remarks=said)
        return session_context.look(
            self._found.path,
            self._next,
            self.events,
            self.folding.reducer,
            form=form,
            max_tokens=max_tokens,
        )

    def _looked_at(
        self, state: SessionState, remarks: list[str], following: NextOpen, limit: int | None
    ) -> SessionLook:
        runs = session_runs.newest_runs(state, self.events, self.folding.reducer, limit=limit)
        calls = [*runs.other_calls, *(call for run in runs.shown for call in run.calls)]
        return SessionLook(
            seq=state.seq,
            identity=_identity(state),
            workspace=_workspace(state.meta.workspace),
            usage=state.usage,
            counts=state.counts,
            runs=runs.shown,
            runs_left_out=runs.left_out,
            other_calls=runs.other_calls,
            open_calls=[call.key for call in calls if call.is_open],
            children=list(state.children.values()),
            children_left_out=state.children_left_out,
            checkpoint=state.checkpoint,
            task=state.task,
            compactions=state.compactions,
            compactions_left_out=state.compactions_left_out,
            rewound=state.hidden,
            resident_messages=len(state.messages),
            older_since=state.older_since,
            system=[part.name for part in state.system],
            config=sorted(state.runtime_config),
            custom=CustomLook(
                sorted(state.custom_state), state.custom_state_version, state.custom_version
            ),
            recovery=RecoveryLook(
                state.notice,
                [
                    PendingEvent(one.type, one.run_id, one.call_id, one.data)
                    for one in following.pending
                ],
                following.remarks,
            ),
            findings=selfcheck.findings(state),
            remarks=remarks,
        )


def values(look: Any) -> Any:
    """A report as plain JSON values with every key, also those of empty parts."""
    if isinstance(look, msgspec.Struct):
        return {name: values(getattr(look, name)) for name in look.__struct_fields__}
    return [values(one) for one in look] if isinstance(look, list) else look


def _next(found: Inspected, state: SessionState, folding: SessionFolding, now: int) -> NextOpen:
    try:
        return session_next.next_open(found, state, folding.reducer, now=now)
    except Exception as error:
        # What is open is shown all the same.
        return NextOpen([], state, [f"What the next writer would write is not known: {error!r}."])


def _identity(state: SessionState) -> Identity:
    meta = state.meta
    shown = summary(state)
    return Identity(
        title=shown["title"],
        status=meta.status,
        model=shown["model"],
        labels=meta.labels,
        user_id=meta.user_id,
        origin=meta.origin,
        pinned=meta.pinned,
        parent=meta.parent,
        parent_call=meta.parent_call,
        created_at=meta.created_at,
        updated_at=state.updated_at,
    )


def _workspace(path: str) -> WorkspaceLook | None:
    return WorkspaceLook(path, os.path.isdir(path)) if path else None
