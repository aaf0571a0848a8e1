"""The first events of a session, and what is said when its id is taken."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from typing import Any, TypedDict

from durasess.errors import EventRejectedError, SessionExistsError, StorageError
from durasess.session import events, session_operations
from durasess.session.core import Mask, masked_with
from durasess.session.masking import mask_secrets
from durasess.session.session import Session


class CreateOptions(TypedDict, total=False):
    """What `Store.create` may be told beside the session's id and its mode."""

    workspace: str | os.PathLike[str] | None
    model: str
    system: Any
    title: str
    labels: Mapping[str, str] | None
    user_id: str
    origin: str
    config: Mapping[str, Any] | None
    parent: str
    parent_call: str


def first_events(
    *,
    custom_version: int,
    mask: Mask | None = mask_secrets,
    workspace: str | os.PathLike[str] | None = None,
    model: str = "",
    system: Any = None,
    title: str = "",
    labels: Mapping[str, str] | None = None,
    user_id: str = "",
    origin: str = "",
    config: Mapping[str, Any] | None = None,
    parent: str = "",
    parent_call: str = "",
) -> list[events.EventData]:
    """What is said of a session when it is made; `mask` is the store's. Raises
    WorkspaceNotFoundError, and EventRejectedError for a credential in `config`."""
    said: list[events.EventData] = [
        events.SessionCreated(
            title=title,
            labels=dict(labels or {}),
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
    session_operations.refuse_credentials(masked_with(mask, merged))
    if merged:
        said.append(events.ConfigChanged(config=merged))
    if system is not None:
        said.append(events.SystemMessage(content=system))
    return said


def begin(session: Session, first: Callable[[], list[events.EventData]]) -> bool:
    """Say what a session is; False when somebody else who shares it said so meanwhile. A
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
