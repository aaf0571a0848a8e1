"""What a session writes beside its runs and calls: names, config, task, compaction, positions.

Each operation is a generator that yields batches (core.Operation).
"""

from __future__ import annotations

import contextlib
import os
from typing import Any

from msgspec import UnsetType

from durasess.engine.receipt import Receipt
from durasess.engine.types import Draft
from durasess.errors import DurasessError, EventRejectedError, WorkspaceNotFoundError
from durasess.session import call_operations, events, pruning, run_operations
from durasess.session.core import Core, Emission, Operation, draft
from durasess.session.masking import Masked
from durasess.session.refusal import refuse
from durasess.session.state import SessionState, SessionStatus
from durasess.session.validation import blocking_compaction


def emit(core: Core, one: Draft, *, durable: bool) -> Operation[Receipt]:
    """One event of any type."""
    receipts = yield Emission([one], durable)
    return receipts[0]


def record(core: Core, data: events.EventData, **ids: str | None) -> Operation[Receipt]:
    """One event of a known type."""
    return emit(core, draft(data, **ids), durable=True)


def record_all(core: Core, data: list[events.EventData]) -> Operation[None]:
    """Events of known types as one batch."""
    yield Emission([draft(one) for one in data])


def change(
    core: Core,
    *,
    title: str | UnsetType,
    status: SessionStatus | UnsetType,
    labels: dict[str, str] | UnsetType,
    pinned: bool | UnsetType,
    user_id: str | UnsetType,
) -> Operation[Receipt]:
    """What lists show of the session."""
    return record(
        core,
        events.SessionChanged(
            title=title, status=status, labels=labels, pinned=pinned, user_id=user_id
        ),
    )


def bind_workspace(core: Core, path: str | os.PathLike[str]) -> Operation[Receipt]:
    """Where tools work from here on. WorkspaceNotFoundError when it is no directory."""
    return record(core, events.WorkspaceBound(path=workspace_path(path)))


def workspace_path(path: str | os.PathLike[str]) -> str:
    """The absolute path of an existing directory, links in it as they were given."""
    found = os.path.abspath(os.path.expanduser(os.fspath(path)))
    if not os.path.isdir(found):
        raise WorkspaceNotFoundError(
            f"{found} is no directory, expected the workspace of a session. Make it, or give "
            "another. Nothing was written.",
            path=found,
        )
    return found


def compact(core: Core, summary: str, through: int | None) -> Operation[Receipt]:
    """Let a summary tell the messages up to `through`, by default all that can be told without
    parting a call from its result."""
    if through is None:
        through = last_compactable(core.state)
        if through is None:
            raise EventRejectedError(
                "event rejected: no message can be compacted: the first one that is left asks for "
                "calls that are open, or is a reply that has not ended, or there is none. Nothing "
                "was written."
            )
    return (yield from record(core, events.ContextCompacted(summary=summary, through=through)))


def last_compactable(state: SessionState) -> int | None:
    """The newest seq that a compaction may go up to: before the first message with open calls, and
    before a reply that has not ended."""
    before = min((call.seq for call in blocking_compaction(state)), default=state.seq + 1)
    if state.partial is not None:
        before = min(before, state.partial.seq)
    seqs = [message.seq for message in state.messages if message.seq < before]
    after = state.compaction.through if state.compaction else 0
    newest = max(seqs, default=0)
    if not seqs and 0 < state.older_since < before:
        # What may go is only in the log: up to what the state has of it.
        newest = min([before, *(message.seq for message in state.messages[:1])]) - 1
    return newest if newest > after else None


def set_checkpoint(core: Core, dispatched: int | None, following: Any) -> Operation[Receipt]:
    """How far the agent loop has come; by default everything up to now is dispatched."""
    seq = core.state.seq if dispatched is None else dispatched
    return record(core, events.CheckpointSet(dispatched=seq, next=following))


def set_task(
    core: Core,
    *,
    goal: str | UnsetType,
    status: str | UnsetType,
    completed: list[Any] | UnsetType,
    pending: list[Any] | UnsetType,
) -> Operation[Receipt]:
    """The parts of the task that are given."""
    return record(
        core,
        events.TaskChanged(goal=goal, status=status, completed=completed, pending=pending),
    )


def start_child(
    core: Core, session_id: str, *, run_id: str | None, call_id: str | None
) -> Operation[str]:
    """Say that a child is about to be made; the key of the call it works for, or nothing."""
    if session_id == core.engine.session_id:
        refuse(f"{session_id!r:.80} is this session itself", "choose another id for its child")
    call = call_operations.find(core, call_id, ("running",)) if call_id else None
    key = call.key if call is not None else ""
    data = events.ChildStarted(session_id=session_id, key=key)
    before = core.state.seq
    try:
        yield from record(core, data, run_id=run_id, call_id=call_id)
    except (Exception, GeneratorExit):
        raise
    except BaseException:
        with contextlib.suppress(DurasessError):
            yield Emission([])
            child = core.state.children.get(session_id)
            if child is not None and child.seq > before:
                not_made = events.ChildFinished(session_id=session_id, status="not_made")
                yield from record(core, not_made, run_id=run_id)
        raise
    return key


class ChildEnding:
    """How a child ended, for its parent to record: "failed" unless it was looked at."""

    def __init__(self, core: Core, session_id: str, run_id: str | None) -> None:
        self._core = core
        self._session_id = session_id
        self._run_id = run_id
        self._status: str = "failed"
        self._answer: Any = None

    def look(self, child: Core) -> None:
        """Take status and answer from the child."""
        self._status, self._answer = outcome_of(child)

    def written(self) -> Operation[None]:
        """Say it, also where the caller is interrupted while it waits for that."""
        data = events.ChildFinished(
            session_id=self._session_id, status=self._status, result=self._answer
        )
        try:
            yield from record(self._core, data, run_id=self._run_id)
        except (Exception, GeneratorExit):
            raise
        except BaseException:
            with contextlib.suppress(DurasessError):
                yield Emission([])
                if self._core.state.children[self._session_id].status == "running":
                    yield from record(self._core, data, run_id=self._run_id)
            raise


def outcome_of(child: Core) -> tuple[str, Any]:
    """How a child ended: the status of its last run, or its own, and its last answer, whole: what
    the child keeps out of line, its parent cannot read."""
    state = child.state
    status = state.runs[-1].status if state.runs else state.meta.status
    answer = run_operations.last_answer(state)
    try:
        return status, child.resolved(answer)
    except DurasessError as error:
        return status, f"[its answer cannot be read: {error}]"


def refuse_credentials(found: Masked) -> None:
    """Credentials never enter config or custom state: they would be in every snapshot. `found` is
    what the store's mask makes of what is to be kept. EventRejectedError."""
    if found.paths:
        raise EventRejectedError(
            f"event rejected: {found.paths[0]} looks like a credential, which a session's config "
            "and custom state never hold. Keep it in the program. Nothing was written."
        )


def check_prunable(core: Core) -> None:
    """EventRejectedError while messages that count, or results of `once`, are only in the log."""
    found = list(pruning.only_in_log(core.state))
    if found:
        raise EventRejectedError(
            f"not pruned: {'; '.join(found)}. Compact the session first, or close it and let "
            '"durasess prune --even-live" delete them all the same. Nothing was deleted.'
        )
