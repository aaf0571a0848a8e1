"""Events that are no messages, as marks with a title; and what can be seen of thinking."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from durasess.engine.types import Event
from durasess.interop.beside import FOREIGN
from durasess.interop.entries import Mark, MarkKind
from durasess.interop.survey import plain_data
from durasess.session.events import TYPES

_KINDS: dict[str, MarkKind] = {
    "session_created": "session",
    "session_changed": "session",
    "workspace_bound": "session",
    "config_changed": "session",
    "system_message": "system",
    "context_compacted": "compaction",
    "rewound": "rewind",
    "task_changed": "task",
    "child_started": "child",
    "child_finished": "child",
    "note": "note",
    "tool_started": "stray",
    "tool_result": "stray",
    "tool_recovery": "stray",
    "approval_requested": "stray",
    "approval_decided": "stray",
    "callback_requested": "stray",
    "run_started": "stray",
    "run_finished": "stray",
    "user_message": "stray",
    "assistant_message": "stray",
}
"""Of a type; all others are minor."""

_BESIDE = frozenset([FOREIGN, "at"])
"""What an import keeps beside the data."""

_PLAIN = frozenset(["custom_version"])
"""Of a session's beginning, what tells people nothing."""


def mark_of(event: Event, shown: Callable[[Any], Any], *, is_hidden: bool) -> Mark:
    """What people read of an event; `shown` makes a value ready for them."""
    data = {name: shown(value) for name, value in plain_data(event).items() if name not in _BESIDE}
    title, detail = _told(event, data)
    kind = _KINDS.get(event.type, "minor")
    if kind == "stray":
        title = f"{event.type}: of no call or run that is known, or not to be understood"
    if not isinstance(event.data, dict):
        detail = shown(event.data)
    return Mark(
        seq=event.seq, ts=event.ts, kind=kind, title=title, detail=detail, is_hidden=is_hidden
    )


def _told(event: Event, data: dict[str, Any]) -> tuple[str, Any]:
    """Title and detail."""
    match event.type:
        case "session_created":
            told = {name: value for name, value in data.items() if value and name not in _PLAIN}
            return "Session created", told or None
        case "session_changed":
            return "Session changed", data
        case "workspace_bound":
            return f"Workspace: {data.get('path')}", None
        case "config_changed":
            return "Configuration", data.get("config")
        case "system_message":
            removed = " removed" if data.get("content") is None else ""
            return f"System message: {data.get('name', 'prompt')}{removed}", data.get("content")
        case "context_compacted":
            title = f"Compacted: a summary tells what came up to seq {data.get('through')}"
            return title, data.get("summary")
        case "rewound":
            return f"Rewound: what came behind seq {data.get('to')} does not count any more", None
        case "task_changed":
            return "Task", data
        case "child_started":
            return f"Child session started: {data.get('session_id')}", None
        case "child_finished":
            title = f"Child session {data.get('session_id')} ended: {data.get('status')}"
            return title, data.get("result")
        case "note":
            return "Note", data.get("text")
        case kind if kind in TYPES:
            return kind, data
        case kind:
            return f"Event {kind[:80]}", data


def thinking_in(content: Any, raw: Any) -> list[str]:
    """What was thought aloud, from the content, else from the provider's own item."""
    found = _thoughts(content)
    if found or not isinstance(raw, dict):
        return found
    item = raw.get("item")
    if isinstance(item, dict):
        blocks = item.get("content") or item.get("output")
        return _thoughts(blocks) or _text_of(item.get("reasoning_content"))
    return _thoughts(item)


def _thoughts(blocks: Any) -> list[str]:
    found: list[str] = []
    for block in blocks if isinstance(blocks, list) else []:
        if not isinstance(block, dict):
            continue
        if block.get("type") == "thinking":
            found += _text_of(block.get("thinking"))
        elif block.get("type") == "reasoning":
            summary = block.get("summary")
            for part in summary if isinstance(summary, list) else []:
                found += _text_of(part.get("text") if isinstance(part, dict) else part)
    return found


def _text_of(value: Any) -> list[str]:
    return [value] if isinstance(value, str) and value.strip() else []
