"""What opening a session found, and what lists show of one. Plain values."""

from __future__ import annotations

from typing import Any

import msgspec

from durasess.engine.types import Recovery
from durasess.session import when
from durasess.session.out_of_line import is_reference, preview
from durasess.session.state import SessionState, ToolState

_TITLE_CHARACTERS = 80
"""Of the first request, which stands for a title that nobody gave."""

REQUEST_CHARACTERS = 200
"""Of a run's request that the state keeps; the message has all of it."""


class SessionReport(msgspec.Struct, frozen=True, kw_only=True):
    """What opening a session found, and what it wrote about it.

    `log` is the engine's report. `interrupted_run` is the id of the run that this opening found
    cut off, empty when there was none; `calls` are the calls of which it recorded what became of
    them. `workspace_missing`: the session's workspace is not there. `warnings` say in what way the
    place where the session lies may lose it.
    """

    log: Recovery
    interrupted_run: str = ""
    calls: tuple[ToolState, ...] = ()
    workspace_missing: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def was_interrupted(self) -> bool:
        """Whether this opening found something that was cut off."""
        return bool(self.interrupted_run or self.calls)

    def __str__(self) -> str:
        parts = [str(self.log)]
        if self.interrupted_run:
            parts.append(f"run {self.interrupted_run} was interrupted")
        parts += [f"call {call.name} ({call.call_id}): {call.status}" for call in self.calls]
        if self.workspace_missing:
            parts.append("the workspace is missing")
        parts += [f"warning: {warning}" for warning in self.warnings]
        return "; ".join(parts)


def beginning(content: Any) -> str:
    """The first characters of a message's text, on one line."""
    if is_reference(content):
        return preview(content)
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, dict)]
        content = " ".join(text for text in texts if isinstance(text, str))
    if not isinstance(content, str):
        return ""
    return " ".join(content[: REQUEST_CHARACTERS * 2].split())[:REQUEST_CHARACTERS]


def opening_request(state: SessionState) -> str:
    """The beginning of the first run's request; of a snapshot that was made before the state kept
    it, that of the oldest run that is known."""
    return state.first_request or next((one.request for one in state.runs if one.request), "")


def summary(state: SessionState) -> dict[str, Any]:
    """What `meta.json` says of a session, so that a list reads nothing else."""
    meta = state.meta
    last = state.runs[-1] if state.runs else None
    told = when.normalised(state.told_at)
    return {
        **({"active_at": told} if told else {}),
        "title": meta.title or opening_request(state)[:_TITLE_CHARACTERS],
        "status": meta.status,
        "workspace": meta.workspace,
        "user_id": meta.user_id,
        "model": _text(state.runtime_config.get("model")),
        "labels": meta.labels,
        "pinned": meta.pinned,
        "origin": meta.origin,
        "parent": meta.parent,
        "parent_seq": meta.parent_seq,
        "created_at": meta.created_at,
        "updated_at": state.updated_at,
        "last_run": None
        if last is None
        else {"run_id": last.run_id, "status": last.status, "started_at": last.started_at},
        "messages": state.counts.messages,
        "calls": state.counts.calls,
        "runs": state.counts.runs,
        "open_calls": sum(
            one.status in ("uncertain", "waiting") for one in state.tool_states.values()
        ),
        "usage": {
            "prompt": state.usage.prompt,
            "completion": state.usage.completion,
            "total": state.usage.total,
            "cost": state.usage.cost,
        },
    }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
