"""The state of a session: what its log means, bounded in size. Plain values, no behaviour.

A state is never changed: the reducer makes the next one, so whoever holds one may read it in any
thread. One exception is said at its field. Times are RFC 3339 in UTC and for people only; order is
by seq, the number of an event in its session.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

RESIDENT_MESSAGES = 200
"""Newest messages in the state, by default; older ones are read from the log on demand."""

RECENT_RUNS = 20
"""Finished runs that are kept beside the open one; all of them are in the log."""

COMPACTIONS_KEPT = 16
"""A rewind may go back behind as many compactions."""

OPERATIONS_KEPT = 4096
"""Operation ids of `once` that are kept; older ones are looked up in the log."""

CHILDREN_KEPT = 64
"""Children that ended, kept beside those that work; all of them are in the log and in the store."""

SessionStatus = Literal["active", "completed", "archived"]
RunStatus = Literal["running", "succeeded", "failed", "cancelled", "interrupted"]
CallStatus = Literal[
    "pending", "running", "completed", "failed", "uncertain", "waiting", "not_started"
]
Effect = Literal["read_only", "idempotent", "unsafe"]
Decision = Literal["applied", "not_applied", "abandoned"]
Role = Literal["user", "assistant", "tool"]

OPEN_CALLS = frozenset(["pending", "running", "uncertain", "waiting"])
"""Statuses of a call that something may still happen to."""

ANSWERABLE_CALLS = OPEN_CALLS | {"not_started"}
"""Statuses in which a result is taken: one that was never started may be answered from outside."""


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """What model calls used, added up: tokens, and `cost` in the currency the caller counts in."""

    prompt: int = 0
    completion: int = 0
    total: int = 0
    cost: float = 0.0


class Meta(msgspec.Struct, frozen=True, omit_defaults=True):
    """What lists show of a session. `parent` is a session id: with `parent_seq` the session that
    this one was forked from there, else the one that it works for; `parent_call` is the key of a
    call there."""

    title: str = ""
    status: SessionStatus = "active"
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    user_id: str = ""
    origin: str = ""
    pinned: bool = False
    workspace: str = ""
    parent: str = ""
    parent_call: str = ""
    parent_seq: int = 0
    created_at: str = ""


class SystemPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """A system message; one of the same name replaces it."""

    name: str
    content: Any
    seq: int


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message of the conversation, made by event `seq`.

    `content` is a text or a list of content parts. `calls` are the keys of an assistant message's
    tool calls, in its order. A tool message answers the call `key`; `ok` is False for an error.
    `raw` is the provider's own item, `{"provider": …, "item": …}`, opaque. `partial` marks a reply
    that was cut off; `late` is the key of the call whose result this tells as news.
    """

    seq: int
    role: Role
    content: Any
    run_id: str = ""
    calls: list[str] = msgspec.field(default_factory=list)
    key: str = ""
    late: str = ""
    ok: bool = True
    raw: Any = None
    partial: bool = False


class ToolState(msgspec.Struct, frozen=True, omit_defaults=True):
    """One tool call. `key` is unique in the session, `call_id` is the provider's and may repeat.

    `seq`, `started_seq`, `result_seq`, `recovery_seq` are the events that asked for it, started it,
    ended it, and said last what became of it without a result (0 when there is none). `worker_id`
    is that of the writer that runs it, empty for one that owns its session. `operation_id` stays
    the same when a call is offered again; `attempt` counts its executions. `reason` and `evidence`
    say why there is no result and what was found, `decision` what was decided about an unknown
    outcome, and by whom `decided_by`. `waits_for` is "approval" or "callback" while `status` is
    "waiting", `prompt` what is asked then, `approved` the answer, None before it. `child` is the
    session that works for the call. `writes` is what a write to the workspace was going to do:
    `{"path", "before", "after"}`, versions of the file. `masked` are the JSON paths of arguments
    that were masked before they were recorded. A `detached` call was asked for by the program
    itself (`once`) and is in no message.
    """

    key: str
    call_id: str
    name: str
    arguments: Any
    status: CallStatus
    seq: int
    run_id: str = ""
    started_seq: int = 0
    started_at: str = ""
    result_seq: int = 0
    recovery_seq: int = 0
    worker_id: str = ""
    operation_id: str = ""
    effect: Effect = "unsafe"
    timeout_s: float = 0.0
    attempt: int = 0
    reason: str = ""
    evidence: Any = None
    decision: str = ""
    waits_for: str = ""
    prompt: str = ""
    approved: bool | None = None
    decided_by: str = ""
    writes: list[dict[str, Any]] = msgspec.field(default_factory=list)
    masked: list[str] = msgspec.field(default_factory=list)
    child: str = ""
    detached: bool = False


Chunk = tuple[list[Message], dict[str, ToolState]]
"""Messages, oldest first, and the states of the calls they asked for, by key."""


class Run(msgspec.Struct, frozen=True, omit_defaults=True):
    """One execution: from a request (its beginning) to its answer. `worker` is what wrote
    `run_started`. `again`: nothing in it was new so far, and it is not counted."""

    run_id: str
    seq: int
    started_at: str
    status: RunStatus = "running"
    request: str = ""
    finished_at: str = ""
    finished_seq: int = 0
    error: str = ""
    worker: dict[str, Any] = msgspec.field(default_factory=dict)
    code_version: str = ""
    resumes: str = ""
    usage: Usage = Usage()
    messages: int = 0
    calls: int = 0
    again: bool = False


class Checkpoint(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where the agent loop is: all up to `dispatched` was handled, then `next`; `seq` said so."""

    dispatched: int = 0
    next: Any = None
    seq: int = 0


class Task(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the session is about; outlives every compaction."""

    goal: str = ""
    status: str = ""
    completed: list[Any] = msgspec.field(default_factory=list)
    pending: list[Any] = msgspec.field(default_factory=list)


class Child(msgspec.Struct, frozen=True, omit_defaults=True):
    """A session that was started from this one."""

    session_id: str
    seq: int
    key: str = ""
    run_id: str = ""
    status: str = "running"
    result: Any = None


class Compaction(msgspec.Struct, frozen=True, omit_defaults=True):
    """Messages of events up to `through` are told by `summary`."""

    seq: int
    through: int
    summary: str


class Notice(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the model must be told until it has answered: a run was interrupted.

    `keys` are calls whose fate was written then: uncertain, never started, waiting, or settled by a
    verifier; `finished` those of the same message that had ended before. `gaps` say in words what
    the record lacks, and that the workspace moved.
    """

    run_id: str
    seq: int
    reason: str = ""
    keys: list[str] = msgspec.field(default_factory=list)
    finished: list[str] = msgspec.field(default_factory=list)
    gaps: list[str] = msgspec.field(default_factory=list)


class Partial(msgspec.Struct, frozen=True, omit_defaults=True):
    """A reply that is being streamed. `chunks` grows in place: joining them for each delta would
    copy the whole reply each time."""

    run_id: str
    seq: int
    chunks: list[str] = msgspec.field(default_factory=list)


class Counts(msgspec.Struct, frozen=True, omit_defaults=True):
    """Of everything that ever was: `messages`, `calls`, `runs`; and what a reader should know of:
    `duplicates` (the same result twice), `orphans` (results of no call), `unreadable` (data of a
    known type that is not what the type holds), `masked` (secrets)."""

    messages: int = 0
    calls: int = 0
    runs: int = 0
    duplicates: int = 0
    orphans: int = 0
    unreadable: int = 0
    masked: int = 0


class SessionState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state after an event.

    `seq` and `updated_at` are of the last event. `messages`: the newest of those that count (live:
    after the last compaction, not rewound); live ones that are only in the log have seqs from
    `older_since` on, 0 when there are none. `tool_states`: calls by key, those of resident messages
    and open ones. `children`: those that work and the newest that ended, `children_left_out` more
    are in the log. `operations`: operation id of a `once` that has a result or was abandoned → seq
    of that; `operations_left_out` more are in the log. `hidden`: ranges of seqs that were rewound,
    [first, last]. `counters`: the last cumulative counters of each source of usage.
    `told_at` is when the newest part of an imported talk happened, as the foreign file says, "" for
    one that was recorded here. `first_request` is the beginning of the first run's, which stands
    for a title that nobody gave. `custom_version` is the version of the program's own events behind
    this state, `custom_state_version` that of `custom_state`; `passed_over`: types without reducer.
    """

    seq: int = 0
    updated_at: str = ""
    told_at: str = ""
    meta: Meta = Meta()
    system: list[SystemPart] = msgspec.field(default_factory=list)
    messages: list[Message] = msgspec.field(default_factory=list)
    older_since: int = 0
    tool_states: dict[str, ToolState] = msgspec.field(default_factory=dict)
    runs: list[Run] = msgspec.field(default_factory=list)
    first_request: str = ""
    checkpoint: Checkpoint = Checkpoint()
    usage: Usage = Usage()
    counters: dict[str, Usage] = msgspec.field(default_factory=dict)
    runtime_config: dict[str, Any] = msgspec.field(default_factory=dict)
    custom_state: dict[str, Any] = msgspec.field(default_factory=dict)
    custom_state_version: int = 1
    custom_version: int = 1
    passed_over: list[str] = msgspec.field(default_factory=list)
    task: Task = Task()
    children: dict[str, Child] = msgspec.field(default_factory=dict)
    children_left_out: int = 0
    operations: dict[str, int] = msgspec.field(default_factory=dict)
    operations_left_out: int = 0
    compactions: list[Compaction] = msgspec.field(default_factory=list)
    compactions_left_out: int = 0
    hidden: list[list[int]] = msgspec.field(default_factory=list)
    notice: Notice | None = None
    partial: Partial | None = None
    counts: Counts = Counts()

    @property
    def open_run(self) -> Run | None:
        """The run that is going on, or was when its worker died."""
        return self.runs[-1] if self.runs and self.runs[-1].status == "running" else None

    @property
    def compaction(self) -> Compaction | None:
        """The newest compaction, None before the first."""
        return self.compactions[-1] if self.compactions else None
