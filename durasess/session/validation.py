"""What a session refuses before anything is written: events that do not fit its state.

It runs in the commit, so what it finds is true for every thread and process that writes. The
reducer, which must take whatever a log holds, trusts nothing of this.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from durasess.engine import paths
from durasess.engine.types import Draft
from durasess.session import events, usage, validate_calls
from durasess.session.out_of_line import KEY
from durasess.session.pairing import answered_seq
from durasess.session.refusal import check_run, refuse
from durasess.session.state import OPEN_CALLS, SessionState, ToolState

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
_TYPE = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]{0,127}")

COUNTERS_MOST = 1024
"""Sources of cumulative counters; what was counted of a forgotten one would count twice."""

_FIRST = frozenset(["session_created", "workspace_bound", "config_changed", "system_message"])
"""What a session is made with, in one batch."""

MAX_CALLS = 1024
"""Tool calls in one message."""


def validate(state: SessionState, draft: Draft) -> None:
    """Raise EventRejectedError when `draft` does not fit `state`."""
    if draft.type not in events.TYPES:
        if not _TYPE.fullmatch(draft.type):
            refuse(
                f"the type {draft.type!r:.80} is no name",
                "use letters, digits and _ . : - and begin with a letter",
            )
        return
    if draft.type == "session_created" and state.seq:
        refuse(f"session_created is event {state.seq + 1}", "it is the first event, once")
    if not state.seq and draft.type not in _FIRST:
        refuse(f"{draft.type} comes before session_created", "create the session with a Store")
    data = _data(draft)
    check = _CHECKS.get(draft.type)
    if check is not None:
        check(state, draft, data)


def _data(draft: Draft) -> Any:
    try:
        # Strict here, lenient when it is read: what is written must be right.
        return msgspec.convert(draft.data, events.TYPES[draft.type], strict=True)
    except (msgspec.ValidationError, UnicodeError) as error:
        refuse(f"the data of {draft.type} is not what it holds: {error}", "correct the data")


# -- runs and messages --------------------------------------------------------------------


def _run_started(state: SessionState, draft: Draft, data: events.RunStarted) -> None:
    if draft.run_id is None or not _RUN_ID.fullmatch(draft.run_id):
        refuse(
            f"the run id {draft.run_id!r:.80} is no name",
            "use up to 128 letters, digits and . _ : - and begin with a letter or digit",
        )
    run = state.open_run
    if run is not None:
        refuse(
            f"run {run.run_id} is going on since {run.started_at}, worked on by "
            f"{_worker(run.worker)}",
            "finish it first; a session has one run at a time",
        )
    if any(one.run_id == draft.run_id for one in state.runs):
        refuse(f"there was a run {draft.run_id} before", "choose another id, or none")
    if state.meta.status == "archived":
        refuse("the session is archived", 'set its status to "active" first')
    if data.resumes:
        _check_resumed(state, data.resumes)


def _check_resumed(state: SessionState, resumes: str) -> None:
    last = state.runs[-1] if state.runs else None
    if last is None or last.run_id != resumes:
        refuse(
            f"run {resumes} is not the last run of this session", "start a run with a new request"
        )
    if last.status == "succeeded":
        refuse(f"run {resumes} succeeded", "start a run with a new request")


def _worker(worker: dict[str, Any]) -> str:
    pid, host = worker.get("pid"), worker.get("host")
    return f"process {pid} on host {host}" if pid else "another worker"


def _run_finished(state: SessionState, draft: Draft, data: events.RunFinished) -> None:
    if draft.run_id is None:
        refuse("run_finished has no run_id", "name the run")
    check_run(state, draft, data)
    if data.status == "running":
        refuse("a run cannot finish as running", "say how it ended")


def _assistant_message(state: SessionState, draft: Draft, data: events.AssistantMessage) -> None:
    check_run(state, draft, data)
    if len(data.tool_calls) > MAX_CALLS:
        refuse(
            f"the message has {len(data.tool_calls)} tool calls",
            f"{MAX_CALLS} are the most in one message",
        )
    for asked in data.tool_calls:
        if not asked.name:
            refuse(f"tool call {asked.call_id!r:.80} has no name", "name the tool")
        if not isinstance(asked.arguments, dict | str):
            refuse(
                f"the arguments of {asked.call_id!r:.80} are {type(asked.arguments).__name__}",
                "they are an object, or a text of other JSON",
            )
    _check_numbers("usage", data.usage)


def _usage_recorded(state: SessionState, draft: Draft, data: events.UsageRecorded) -> None:
    _check_numbers("usage", data.usage)
    _check_numbers("counters", data.counters)
    if data.source and data.source not in state.counters and len(state.counters) >= COUNTERS_MOST:
        refuse(
            f"the session has {COUNTERS_MOST} counters, {data.source!r:.80} is one more",
            "name a counter after what reports it, not after a run or a call",
        )
    before = state.counters.get(data.source)
    counters = usage.from_data(data.counters)
    since = usage.since(counters, before) if before is not None else counters
    if data.source and usage.from_data(data.usage) != usage.from_data(usage.as_data(since)):
        refuse(
            f"the deltas are not made from where counter {data.source!r:.80} stands, {before}",
            "report it again",
        )


def _check_numbers(name: str, numbers: dict[str, float]) -> None:
    for field, value in numbers.items():
        if value < 0:
            refuse(f"{name} {field} is {value!r}", "usage is recorded as deltas of 0 or more")


# -- the rest -----------------------------------------------------------------------------


def _context_compacted(state: SessionState, draft: Draft, data: events.ContextCompacted) -> None:
    before = state.compaction
    if before is not None and data.through <= before.through:
        refuse(
            f"messages up to seq {before.through} are compacted already, not only up to "
            f"{data.through}",
            "give a later seq",
        )
    if not 0 < data.through <= state.seq:
        refuse(f"there is no seq {data.through}", f"the last one is {state.seq}")
    if state.partial is not None and state.partial.seq <= data.through:
        refuse(
            f"the reply that comes in pieces since seq {state.partial.seq} has not ended",
            "compact up to before it, or wait for its end",
        )
    for call in blocking_compaction(state):
        if call.seq <= data.through:
            refuse(
                f"the call {call.call_id!r:.80} of seq {call.seq} is {call.status}",
                "compact up to before it, or wait for its result",
            )


def blocking_compaction(state: SessionState) -> list[ToolState]:
    """The calls that no compaction may part from their results: open ones, unless the model knows
    already that nobody knows their outcome (P9)."""
    told = answered_seq(state)
    return [
        call
        for call in state.tool_states.values()
        if call.status in OPEN_CALLS
        and not call.detached
        and (call.status != "uncertain" or call.recovery_seq > told)
    ]


def _rewound(state: SessionState, draft: Draft, data: events.Rewound) -> None:
    run = state.open_run
    if run is not None:
        refuse(f"run {run.run_id} is going on", "finish it before you rewind")
    if not 0 < data.to < state.seq:
        refuse(f"seq {data.to} is not before the last event, {state.seq}", "give an earlier seq")
    if state.compactions_left_out and data.to < state.compactions[0].seq:
        refuse(
            f"seq {data.to} lies behind more compactions than are kept",
            f"rewind to {state.compactions[0].seq} or later, or fork the session there",
        )


def _config_changed(state: SessionState, draft: Draft, data: events.ConfigChanged) -> None:
    for name in data.config:
        _check_name(name, "config")


def _state_set(state: SessionState, draft: Draft, data: events.StateSet) -> None:
    _check_name(data.name, "custom state")


def _check_name(name: str, where: str) -> None:
    """Alone in its object, the key of a reference makes a reference of it."""
    if name == KEY:
        refuse(f"{name!r} is no name for a value of the {where}", "choose another one")


def _checkpoint(state: SessionState, draft: Draft, data: events.CheckpointSet) -> None:
    if not 0 <= data.dispatched <= state.seq:
        refuse(f"there is no seq {data.dispatched}", f"the last one is {state.seq}")


def _child_started(state: SessionState, draft: Draft, data: events.ChildStarted) -> None:
    problem = paths.session_id_problem(data.session_id)
    if problem is not None:
        refuse(f"{data.session_id!r:.80} is no session id: {problem}", "choose another id")
    if data.session_id in state.children:
        refuse(f"the child {data.session_id!r:.80} was started before", "choose another id")
    if data.key or draft.call_id is not None:
        validate_calls.call_of(state, draft, data.key, ("running", "pending"))


def _child_finished(state: SessionState, draft: Draft, data: events.ChildFinished) -> None:
    child = state.children.get(data.session_id)
    if child is None:
        refuse(f"there is no child {data.session_id!r:.80}", "start it first")
    if child.status != "running":
        refuse(f"the child {data.session_id!r:.80} is {child.status}", "it ends once")


_CHECKS: dict[str, Callable[[SessionState, Draft, Any], None]] = {
    "run_started": _run_started,
    "run_finished": _run_finished,
    "user_message": check_run,
    "message_delta": check_run,
    "assistant_message": _assistant_message,
    "usage_recorded": _usage_recorded,
    "approval_requested": validate_calls.approval_requested,
    "approval_decided": validate_calls.approval_decided,
    "callback_requested": validate_calls.callback_requested,
    "tool_started": validate_calls.tool_started,
    "tool_result": validate_calls.tool_result,
    "tool_recovery": validate_calls.tool_recovery,
    "config_changed": _config_changed,
    "state_set": _state_set,
    "context_compacted": _context_compacted,
    "rewound": _rewound,
    "checkpoint": _checkpoint,
    "child_started": _child_started,
    "child_finished": _child_finished,
}
