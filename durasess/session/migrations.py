"""From older versions of this layer's events and state to the newest, one pure step each.

Version 1 had flat usage: `usage_recorded` and `assistant_message` held input_tokens and
output_tokens, and so did the state. Since version 2 usage is {prompt, completion, total, cost}, and
the state keeps the first request.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from durasess.engine.types import Event, Migration, Migrations


def _usage_2(data: dict[str, Any]) -> dict[str, Any]:
    prompt, completion = (_number(data.get(name)) for name in ("input_tokens", "output_tokens"))
    return {"prompt": prompt, "completion": completion, "total": prompt + completion}


def _number(value: Any) -> int:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
    return int(value) if is_number else 0


def _event_2(event: Event) -> Event:
    if event.type not in ("usage_recorded", "assistant_message"):
        return event
    data = event.data
    if not isinstance(data, dict) or not ("input_tokens" in data or "output_tokens" in data):
        return event
    kept = {
        name: value for name, value in data.items() if name not in ("input_tokens", "output_tokens")
    }
    return replace(event, data={**kept, "usage": _usage_2(data)})


def _state_2(state: Any) -> Any:
    usage = state.get("usage")
    runs = [
        {**run, "usage": _usage_2(run["usage"])} if isinstance(run.get("usage"), dict) else run
        for run in state.get("runs", [])
    ]
    migrated = {**state, "runs": runs}
    first = next((run["request"] for run in runs if isinstance(run.get("request"), str)), "")
    if first and "first_request" not in state:
        # Of the runs that are still in the state.
        migrated["first_request"] = first
    if isinstance(usage, dict):
        migrated["usage"] = _usage_2(usage)
    return migrated


MIGRATIONS: Migrations = {1: Migration(state=_state_2, event=_event_2)}
"""Version → the step to the next one."""
