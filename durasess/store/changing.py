"""Names, marks and places of closed sessions: opened, changed, closed, and nothing else of them."""

from __future__ import annotations

import os
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from durasess.engine.files import Files
from durasess.engine.types import Draft
from durasess.errors import DurasessError
from durasess.session import events, session_operations
from durasess.session.amending import amend
from durasess.session.core import draft
from durasess.session.options import SessionOptions
from durasess.session.state import SessionState, SessionStatus
from durasess.session.workspace import same_place
from durasess.store import rows


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """A session of a project that moved: its workspace before and after. `problem` says why it was
    left as it was, empty when it was not."""

    session_id: str
    before: str
    after: str
    problem: str = ""


def change(
    path: str,
    options: SessionOptions,
    *,
    title: str | UnsetType = UNSET,
    status: SessionStatus | UnsetType = UNSET,
    pinned: bool | UnsetType = UNSET,
) -> None:
    """Change what lists show of a closed session. SessionLockedError, naming the holder, when it is
    open anywhere; what opening raises else. Changing to what is so already writes nothing."""
    given = {"title": title, "status": status, "pinned": pinned}

    def drafts(state: SessionState) -> list[Draft]:
        new: dict[str, Any] = {
            name: value
            for name, value in given.items()
            if value is not UNSET and getattr(state.meta, name) != value
        }
        return [draft(events.SessionChanged(**new))] if new else []

    amend(path, options, drafts)


def rewind(path: str, options: SessionOptions, *, to: int) -> None:
    """Take back what was said behind seq `to` in a closed session. Raises as `change`."""
    amend(path, options, lambda state: [draft(events.Rewound(to=to))])


def move_workspace(
    disk: Files, root: str, old: str, new: str, options: SessionOptions, *, dry_run: bool
) -> list[Moved]:
    """Bind the sessions of the project that was at `old`, or in a directory below it, to the same
    place at and below `new`. One that is open elsewhere, or whose new place is not there, is left
    and said. WorkspaceNotFoundError when `new` is no directory."""
    target = session_operations.workspace_path(new)
    found = []
    for row in rows.rows(disk, root):
        place = None if row.problem else _place_below(row.workspace, old, target)
        if place is None:
            continue
        problem = "" if os.path.isdir(place) else f"{place} is no directory"
        if not problem and not dry_run:
            problem = _rebind(row.path, place, options)
        found.append(
            Moved(session_id=row.session_id, before=row.workspace, after=place, problem=problem)
        )
    return sorted(found, key=lambda one: one.session_id)


def _place_below(workspace: str, old: str, new: str) -> str | None:
    """Where a workspace is now; None for one of another project."""
    below: list[str] = []
    place = workspace
    # Part by part, so that /a/b-c is not below /a/b.
    while place:
        if same_place(place, old):
            return os.path.join(new, *reversed(below))
        parent, name = os.path.split(place)
        if parent == place:
            return None
        below.append(name)
        place = parent
    return None


def _rebind(path: str, place: str, options: SessionOptions) -> str:
    try:
        amend(path, options, lambda state: [draft(events.WorkspaceBound(path=place))])
    except DurasessError as error:
        return str(error)
    return ""
