"""When something happened: as the log says, or of what was imported as the foreign file says, which
importers keep in `at`. The log's own times say when it was recorded."""

from __future__ import annotations

import datetime
from typing import Any

from durasess.engine.types import Event
from durasess.session.events import TYPES

LONGEST = 40
"""Characters of a time; a longer text is not taken for one."""

TALK = frozenset(
    [
        *("run_started", "run_finished", "user_message", "message_delta", "assistant_message"),
        *("tool_started", "tool_result", "tool_recovery", "usage_recorded"),
    ]
)
"""Types of events that are part of what happened, not of how it is kept."""


def told(data: Any) -> str:
    """The time that an import kept beside an event, as it stands there; "" when there is none."""
    at = data.get("at") if isinstance(data, dict) else None
    return at if isinstance(at, str) and len(at) <= LONGEST else ""


def normalised(at: str) -> str:
    """A time as the log writes its own, UTC where it has no zone; "" for what is no time."""
    try:
        found = datetime.datetime.fromisoformat(at) if at else None
        if found is None:
            return ""
        if found.tzinfo is None:
            found = found.replace(tzinfo=datetime.UTC)
        found = found.astimezone(datetime.UTC)
    except (ValueError, OverflowError):
        return ""
    return f"{found:%Y-%m-%dT%H:%M:%S}.{found.microsecond:06d}Z".rjust(27, "0")


def happened_at(event: Event) -> str:
    """When an event happened. The program's own types may mean anything by `at`."""
    at = normalised(told(event.data)) if event.type in TYPES else ""
    return at or event.ts
