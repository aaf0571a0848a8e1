"""The first events of a session, and where sessions are kept when nobody says."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from typing import Any

from durasess.errors import EventRejectedError, SessionExistsError, StorageError
from durasess.session import events, session_operations
from durasess.session.masking import mask_secrets
from durasess.session.session import Session


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


def begin(session: Session, first: Callable[[], list[events.EventData]]) -> bool:
    """Say what a session is; False when somebody else who shares it said so in this moment. A
    session that cannot be begun is closed."""
    try:
        session.begin(first())
    except BaseException as error:
        if isinstance(error, EventRejectedError) and session.refresh():
            return False
        session.close()
        raise
    # Lists show it at once. They can do without: the log has it.
    with contextlib.suppress(StorageError):
        session.core.engine.publish_summary()
    return True


def exists_error(path: str) -> SessionExistsError:
    """What is said when the id of a new session is taken."""
    return SessionExistsError(
        f"{path}: there is a session {os.path.basename(path)!r} already; it was left alone. Choose "
        "another id, or open it.",
        path=path,
    )


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
