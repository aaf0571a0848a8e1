"""Recovery of a session: what became of runs and calls whose worker is dead, as events.

Written once: when they are in the log, nothing is open any more that recovery would look at. A call
that was started and has no result is uncertain, unless its verifier can tell; it is never run
again here, and never closed as failed because of a crash (P9).
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from durasess.engine import values
from durasess.engine.types import Draft
from durasess.session import events
from durasess.session.core import draft
from durasess.session.pairing import unstarted_outcome
from durasess.session.state import Child, Run, SessionState, ToolState
from durasess.session.tools import Tool

ENDED = "the process that worked on it ended without finishing it"
TIME_LIMIT = ENDED + ", and its time limit of {seconds:g} s is over"


class ChildSeen(msgspec.Struct, frozen=True):
    """What a look at a child session found: `status` of its last run ("interrupted" when its worker
    died too, "running" when it is alive, "not_made", "unreadable"), its last answer, and the id of
    its parent, None when that was not looked at."""

    status: str
    answer: Any = None
    parent: str | None = None


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What recovery may ask.

    `is_dead(worker_id)`: whether that writer is gone; `is_alone`: whether all others are. `now` in
    nanoseconds since 1970.
    `resolved(value)` reads what is out of line.
    `gaps` say in words what the log lost at its end.
    `settle_writes(writes)` compares the workspace with what a write was going to do. `look_at` a
    child session by its id.
    """

    is_dead: Callable[[str], bool]
    is_alone: bool = True
    tools: Mapping[str, Tool]
    now: int
    settle_writes: Callable[[list[dict[str, Any]]], str | None]
    resolved: Callable[[Any], Any]
    look_at: Callable[[str], ChildSeen]
    gaps: tuple[str, ...] = ()


def recovery_drafts(state: SessionState, around: Surroundings) -> list[Draft]:
    """The events that say what became of what is open and whose worker is dead; one batch."""
    run = state.open_run
    is_over = run is not None and around.is_dead(_worker_of(run))
    drafts: list[Draft] = []
    seen: dict[str, ChildSeen] = {}
    for child in state.children.values():
        if child.status == "running" and _is_orphaned(state, child, around, is_over=is_over):
            seen[child.session_id] = found = _look(around, child)
            if found.status != "running":
                drafts.append(_child_finished(child, found))
    for call in state.tool_states.values():
        if call.status == "running" and around.is_dead(call.worker_id):
            drafts.append(_recovered(call, around, seen.get(call.child)))
        elif call.status == "pending" and is_over and run is not None and call.run_id == run.run_id:
            data = events.ToolRecovery(
                outcome=unstarted_outcome(call), key=call.key, reason=ENDED, by="recovery"
            )
            drafts.append(draft(data, run_id=call.run_id, call_id=call.call_id))
    if is_over and run is not None:
        ended = events.RunFinished(status="interrupted", reason=ENDED, gaps=list(around.gaps))
        drafts.append(draft(ended, run_id=run.run_id))
    return drafts


def _worker_of(run: Run) -> str:
    worker_id = run.worker.get("worker_id")
    return worker_id if isinstance(worker_id, str) else ""


def _is_orphaned(state: SessionState, child: Child, around: Surroundings, *, is_over: bool) -> bool:
    """Whether nobody is left who will say how the child ended."""
    run = state.open_run
    if run is not None and child.run_id == run.run_id:
        return is_over
    return around.is_alone


def _look(around: Surroundings, child: Child) -> ChildSeen:
    try:
        return around.look_at(child.session_id)
    except Exception as error:
        # Whatever is wrong with the child, its parent opens.
        return ChildSeen("unreadable", f"{type(error).__name__}: {error}")


def _child_finished(child: Child, found: ChildSeen) -> Draft:
    data = events.ChildFinished(
        session_id=child.session_id, status=found.status, result=found.answer
    )
    return draft(data, run_id=child.run_id)


def _recovered(call: ToolState, around: Surroundings, child: ChildSeen | None) -> Draft:
    verdict, output, evidence = _verified(call, around)
    if verdict is None and child is not None:
        evidence = {"child": call.child, "status": child.status, "answer": child.answer}
    data = events.ToolRecovery(
        outcome=verdict or "uncertain",
        key=call.key,
        reason=_reason(call, around.now),
        by="verifier" if verdict else "recovery",
        evidence=evidence,
        output=output,
    )
    return draft(data, run_id=call.run_id, call_id=call.call_id)


def _verified(call: ToolState, around: Surroundings) -> tuple[str | None, Any, Any]:
    """Verdict, output, evidence. A verifier that raises, or answers something else or something
    that cannot be stored, cannot tell."""
    if call.writes:
        found = around.settle_writes(call.writes)
        if found is not None:
            return found, None, {"files": found, "writes": call.writes}
    tool = around.tools.get(call.name)
    if tool is None or tool.verify is None:
        return None, None, None
    output = None
    try:
        whole = msgspec.structs.replace(call, arguments=around.resolved(call.arguments))
        verdict = tool.verify(whole)
        if isinstance(verdict, tuple) and len(verdict) == 2:
            verdict, output = verdict[0], values.plain(verdict[1])
    except Exception as error:
        return None, None, {"verifier": f"{type(error).__name__}: {error}"}
    if verdict in ("applied", "not_applied"):
        return str(verdict), output, {"verifier": verdict}
    return None, None, {"verifier": "cannot tell"}


def _reason(call: ToolState, now: int) -> str:
    if call.timeout_s and _seconds_since(call.started_at, now) > call.timeout_s:
        return TIME_LIMIT.format(seconds=call.timeout_s)
    return ENDED


def _seconds_since(ts: str, now: int) -> float:
    try:
        then = datetime.datetime.fromisoformat(ts)
        return now / 1e9 - then.timestamp()
    except (ValueError, TypeError, OverflowError):
        return 0.0
