"""The first events of a session, and where sessions are kept when nobody says."""

from __future__ import annotations

import os
import sys
from typing import Any

from durasess.errors import EventRejectedError
from durasess.session import events, session_operations
from durasess.session.masking import mask_secrets


def first_events(
    *,
    custom_version: int,
    workspace: str | os.PathLike[str] | None = None,
    model: str = "",
    system: Any = None,
    title: str = "",
    labels: dict[str, str] | None = None,
    user_id: str = "",
    origin: str = "",
    config: dict[str, Any] | None = None,
    parent: str = "",
    parent_call: str = "",
) -> list[events.EventData]:
    """What is said of a session when it is made. Raises WorkspaceNotFoundError, and
    EventRejectedError for a credential in `config`."""
    said: list[events.EventData] = [
        events.SessionCreated(
            title=title,
            labels=labels or {},
            user_id=user_id,
            origin=origin,
            parent=parent,
            parent_call=parent_call,
            custom_version=custom_version,
        )
    ]
    if workspace is not None:
        said.append(events.WorkspaceBound(path=session_operations.workspace_path(workspace)))
    merged = {**(config or {}), **({"model": model} if model else {})}
    secret = mask_secrets(merged).paths
    if secret:
        raise EventRejectedError(
            f"event rejected: {secret[0]} of config looks like a credential, which a session never "
            "holds. Keep it in the program. Nothing was written."
        )
    if merged:
        said.append(events.ConfigChanged(config=merged))
    if system is not None:
        said.append(events.SystemMessage(content=system))
    return said


def data_directory() -> str:
    """The user's directory for sessions: as the system has it."""
    home = os.path.expanduser("~")
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.join(home, "AppData", "Local")
    elif sys.platform == "darwin":
        base = os.path.join(home, "Library", "Application Support")
    else:
        base = os.environ.get("XDG_DATA_HOME") or os.path.join(home, ".local", "share")
    return os.path.join(base, "durasess", "sessions")
