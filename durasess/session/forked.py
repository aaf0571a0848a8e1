"""What the first events of a fork say: where it comes from, and what is not run in it.

A call that was asked for and not started is not_started here. One that was started belongs to the
parent: here it is abandoned, which tells the model that it may have taken effect. A `once` that was
started stays uncertain, so that nothing runs it again by itself.
"""

from __future__ import annotations

from durasess.engine.types import Draft
from durasess.session import events
from durasess.session.core import draft
from durasess.session.state import OPEN_CALLS, SessionState, ToolState

NOT_HERE = "not run in this branch"
"""What every call that was open at the cut is told."""


def fork_drafts(state: SessionState, parent: str, parent_seq: int) -> list[Draft]:
    """The events that make a copy of `parent` up to `parent_seq` a session of its own."""
    changed = events.SessionChanged(
        parent=parent, parent_seq=parent_seq, parent_call="", pinned=False, status="active"
    )
    drafts = [draft(changed)]
    for child in state.children.values():
        if child.status == "running":
            ended = events.ChildFinished(session_id=child.session_id, status="not_in_branch")
            drafts.append(draft(ended, run_id=child.run_id))
    for call in sorted(state.tool_states.values(), key=lambda one: one.seq):
        if call.status in OPEN_CALLS:
            drafts += _closed(call, parent)
    run = state.open_run
    if run is not None:
        ended_run = events.RunFinished(
            status="interrupted", reason=f"{NOT_HERE}: the session was forked at seq {parent_seq}"
        )
        drafts.append(draft(ended_run, run_id=run.run_id))
    return drafts


def _closed(call: ToolState, parent: str) -> list[Draft]:
    if not call.started_seq and call.status != "uncertain":
        return [_recovery(call, "not_started", NOT_HERE)]
    # What was imported has calls of unknown outcome that nobody saw begin.
    began = "it was started" if call.started_seq else "its outcome was not known"
    reason = f"{NOT_HERE}; {began} before the fork, in session {parent}"
    if not call.detached:
        return [_recovery(call, "abandoned", reason)]
    return [] if call.status == "uncertain" else [_recovery(call, "uncertain", reason)]


def _recovery(call: ToolState, outcome: str, reason: str) -> Draft:
    data = events.ToolRecovery(outcome=outcome, key=call.key, reason=reason, by="fork")
    return draft(data, run_id=call.run_id, call_id=call.call_id)
