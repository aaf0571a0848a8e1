"""The types of a session's events and what the data of each holds.

A reader takes what it knows of: fields of a newer writer are passed over, types it does not know
are kept in the log and change no state. Every event may carry run_id, call_id and event_id beside
its data; `key` in the data tells calls apart whose call_id is the same.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from durasess.session.event_data import EventData as EventData
from durasess.session.event_data import RecordedCall as RecordedCall
from durasess.session.state import Effect, RunStatus, SessionStatus

SCHEMA_VERSION = 2
"""Of these types and of the state; migrations.py leads from each older one to the next."""


class SessionCreated(EventData):
    """`session_created`: always event 1. `custom_version` is of the program's own events."""

    title: str = ""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    user_id: str = ""
    origin: str = ""
    parent: str = ""
    parent_call: str = ""
    custom_version: int = 1


class SessionChanged(EventData):
    """`session_changed`: the fields that are there. A fork says that its events up to `parent_seq`
    are those of `parent`."""

    title: str | UnsetType = UNSET
    status: SessionStatus | UnsetType = UNSET
    labels: dict[str, str] | UnsetType = UNSET
    pinned: bool | UnsetType = UNSET
    user_id: str | UnsetType = UNSET
    parent: str | UnsetType = UNSET
    parent_call: str | UnsetType = UNSET
    parent_seq: int | UnsetType = UNSET


class WorkspaceBound(EventData):
    """`workspace_bound`: the absolute path that tools work in from here on."""

    path: str


class ConfigChanged(EventData):
    """`config_changed`: merged into runtime_config; null removes a key."""

    config: dict[str, Any]


class SystemMessage(EventData):
    """`system_message`: replaces the part of the same name; content null removes it."""

    content: Any
    name: str = "prompt"


class RunStarted(EventData):
    """`run_started`: `request` is what the user asked for, null when an interrupted run, `resumes`,
    is continued. `worker` says who works: {"worker_id", "pid", "host", "boot_id"}."""

    request: Any = None
    worker: dict[str, Any] = msgspec.field(default_factory=dict)
    code_version: str = ""
    resumes: str = ""
    again: bool = False


class UserMessage(EventData):
    """`user_message`."""

    content: Any
    raw: Any = None
    again: bool = False


class MessageDelta(EventData):
    """`message_delta`: a piece of a streamed reply, not synced by itself."""

    text: str


class AssistantMessage(EventData):
    """`assistant_message`: `raw` is {"provider", "item"}, stored as it came. `usage` holds deltas:
    prompt, completion, total, cost. `streamed` says that deltas came before it, `partial` that the
    reply was cut off, `part` that it is the rest of one that is counted, `goes_on` that it is the
    first new one in a run that was said again, which is counted."""

    content: Any = ""
    tool_calls: list[RecordedCall] = msgspec.field(default_factory=list)
    usage: dict[str, float] = msgspec.field(default_factory=dict)
    raw: Any = None
    model: str = ""
    streamed: bool = False
    partial: bool = False
    again: bool = False
    part: bool = False
    goes_on: bool = False


class ApprovalRequested(EventData):
    """`approval_requested`: the call may not start before somebody decided."""

    key: str = ""
    prompt: str = ""


class ApprovalDecided(EventData):
    """`approval_decided`."""

    approved: bool
    key: str = ""
    by: str = ""
    comment: str = ""


class CallbackRequested(EventData):
    """`callback_requested`: the call was started and its result will come from outside."""

    key: str = ""
    prompt: str = ""


class ToolStarted(EventData):
    """`tool_started`: durable before the body runs. A call that no message asked for (`once`) says
    what it is: `detached`, `name`, `arguments`."""

    key: str = ""
    operation_id: str = ""
    effect: Effect = "unsafe"
    timeout_s: float = 0.0
    attempt: int = 1
    writes: list[dict[str, Any]] = msgspec.field(default_factory=list)
    worker_id: str = ""
    detached: bool = False
    name: str = ""
    arguments: Any = None


class ToolResult(EventData):
    """`tool_result`: `error` is {"type", "message", "traceback"} when it is not ok."""

    output: Any = None
    ok: bool = True
    key: str = ""
    error: dict[str, str] | None = None
    again: bool = False


class ToolRecovery(EventData):
    """`tool_recovery`: what became of a call without its result. `outcome` is "uncertain",
    "not_started", "applied", "not_applied", "abandoned" or "rerun"; `by` who said so: "recovery",
    "verifier", "interrupt", "run", "fork", "import", "caller", or a name that the caller gave.
    `output` is what the model sees of one that was applied."""

    outcome: str
    key: str = ""
    reason: str = ""
    by: str = ""
    evidence: Any = None
    output: Any = None


class RunFinished(EventData):
    """`run_finished`. `gaps` say in words what the record of it lacks."""

    status: RunStatus
    error: str = ""
    reason: str = ""
    gaps: list[str] = msgspec.field(default_factory=list)


class CheckpointSet(EventData):
    """`checkpoint`."""

    dispatched: int
    next: Any = None


class ContextCompacted(EventData):
    """`context_compacted`: messages up to seq `through` are told by `summary`."""

    summary: str
    through: int
    again: bool = False


class UsageRecorded(EventData):
    """`usage_recorded`: deltas in `usage`. With a `source`, `counters` are its cumulative counters
    at this moment, from which the deltas were made."""

    usage: dict[str, float]
    source: str = ""
    counters: dict[str, float] = msgspec.field(default_factory=dict)


class TaskChanged(EventData):
    """`task_changed`: the fields that are there."""

    goal: str | UnsetType = UNSET
    status: str | UnsetType = UNSET
    completed: list[Any] | UnsetType = UNSET
    pending: list[Any] | UnsetType = UNSET


class StateSet(EventData):
    """`state_set`: custom_state[name] = value; null removes it."""

    name: str
    value: Any = None


class ChildStarted(EventData):
    """`child_started`: recorded before the child session is made."""

    session_id: str
    key: str = ""


class ChildFinished(EventData):
    """`child_finished`."""

    session_id: str
    status: str
    result: Any = None


class Rewound(EventData):
    """`rewound`: messages behind seq `to` do not count any more. Files stay as they are."""

    to: int


class Note(EventData):
    """`note`: for people; changes no state."""

    text: str


class CustomSchemaChanged(EventData):
    """`custom_schema_changed`: the version of custom state and of custom events behind this."""

    version: int


TYPES: dict[str, type[EventData]] = {
    "session_created": SessionCreated,
    "session_changed": SessionChanged,
    "workspace_bound": WorkspaceBound,
    "config_changed": ConfigChanged,
    "system_message": SystemMessage,
    "run_started": RunStarted,
    "user_message": UserMessage,
    "message_delta": MessageDelta,
    "assistant_message": AssistantMessage,
    "approval_requested": ApprovalRequested,
    "approval_decided": ApprovalDecided,
    "callback_requested": CallbackRequested,
    "tool_started": ToolStarted,
    "tool_result": ToolResult,
    "tool_recovery": ToolRecovery,
    "run_finished": RunFinished,
    "checkpoint": CheckpointSet,
    "context_compacted": ContextCompacted,
    "usage_recorded": UsageRecorded,
    "task_changed": TaskChanged,
    "state_set": StateSet,
    "child_started": ChildStarted,
    "child_finished": ChildFinished,
    "rewound": Rewound,
    "note": Note,
    "custom_schema_changed": CustomSchemaChanged,
}
"""Every type this layer knows."""

TYPE_OF = {data: name for name, data in TYPES.items()}


def read(type: str, data: Any) -> EventData:
    """The data of a known type, leniently: numbers may be texts. ValueError when it cannot be."""
    try:
        return msgspec.convert(data, TYPES[type], strict=False)
    except (msgspec.ValidationError, UnicodeError) as error:
        raise ValueError(f"the data of {type} is not what it holds: {error}") from None
