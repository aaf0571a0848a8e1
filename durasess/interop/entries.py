"""What a conversation consists of, as people read it: plain values, secrets masked already.

An entry belongs to the run that began before it and has not ended. Times are RFC 3339 in UTC, ""
where they are not known.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from durasess.session.state import CallStatus, RunStatus, Usage

MarkKind = Literal[
    "compaction", "rewind", "system", "session", "task", "child", "note", "gap", "stray", "minor"
]
"""`minor` marks are for people who look for a fault: checkpoints, usage, the program's own events.
`stray` is of no call and no run that is known."""


class RunFacts(msgspec.Struct, kw_only=True):
    """One run, from the whole log. `number` counts runs of the session from 1. `worked_until` is of
    the last event before somebody found out that it was interrupted, else of its end. `reason` says
    why it did not succeed. `outcomes` counts its calls by status; `is_hidden`: it was rewound;
    `is_again`: an import said all of it once more."""

    number: int
    run_id: str
    seq: int
    started_at: str
    request: str = ""
    resumes: str = ""
    status: RunStatus = "running"
    finished_at: str = ""
    worked_until: str = ""
    reason: str = ""
    code_version: str = ""
    usage: Usage = Usage()
    messages: int = 0
    outcomes: dict[str, int] = msgspec.field(default_factory=dict)
    is_hidden: bool = False
    is_again: bool = False


class Remark(msgspec.Struct, frozen=True):
    """Something that happened to a call beside its start and its result."""

    seq: int
    ts: str
    kind: str
    text: str
    detail: Any = None


class CallEntry(msgspec.Struct, kw_only=True):
    """One tool call with what became of it as far as it is known.

    `output` counts when `has_output`; `ok` is False for an error. `ended_at` is of its result, ""
    when it has none. `traceback` is of the exception that was the result. `is_detached`: no message
    asked for it.
    """

    key: str
    call_id: str
    name: str
    arguments: Any
    seq: int
    run_id: str = ""
    status: CallStatus = "pending"
    started_at: str = ""
    ended_at: str = ""
    output: Any = None
    has_output: bool = False
    ok: bool = True
    traceback: str = ""
    attempt: int = 0
    effect: str = ""
    operation_id: str = ""
    waits_for: str = ""
    decision: str = ""
    masked: int = 0
    child: str = ""
    is_detached: bool = False
    remarks: list[Remark] = msgspec.field(default_factory=list)


class Began(msgspec.Struct, frozen=True):
    """A run begins."""

    run: RunFacts


class Ended(msgspec.Struct, frozen=True):
    """A run ended; it is the one that began last."""

    run: RunFacts


class Said(msgspec.Struct, kw_only=True):
    """A message. `role` is "user", "assistant", or "program" for a detached call alone.

    `thinking` is what the provider let be seen of it. `is_proven` is False behind damage.
    """

    seq: int
    ts: str
    role: Literal["user", "assistant", "program"]
    content: Any
    run_id: str = ""
    calls: list[CallEntry] = msgspec.field(default_factory=list)
    thinking: list[str] = msgspec.field(default_factory=list)
    model: str = ""
    usage: Usage = Usage()
    is_partial: bool = False
    is_hidden: bool = False
    is_proven: bool = True


class Late(msgspec.Struct, frozen=True, kw_only=True):
    """News of a call that was told already."""

    seq: int
    ts: str
    call: CallEntry
    is_hidden: bool = False


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is no message: `title` is text, `detail` any value, None for nothing."""

    seq: int
    ts: str
    kind: MarkKind
    title: str
    detail: Any = None
    is_hidden: bool = False


Entry = Began | Ended | Said | Late | Mark
