"""Removing a whole session, on request only: away from its name at once, then file by file.

A crash leaves it whole under its name, or gone from every list; what is left of it then, the next
deletion in the same store removes.
"""

from __future__ import annotations

import contextlib
import os

from durasess.engine import lock, paths
from durasess.engine.files import Files
from durasess.errors import EventRejectedError, StorageError
from durasess.store import rows, staging

BUILDING_S = 3600
"""Seconds without a change after which nobody makes a session any more."""


def delete(disk: Files, root: str, session_id: str, *, token: str, even_pinned: bool) -> None:
    """Remove the session with everything in its directory.

    Raises SessionNotFoundError, SessionLockedError naming who has it open, EventRejectedError when
    it is pinned (or nobody can tell) and `even_pinned` is False, StorageError.
    """
    row = rows.required(disk, root, session_id)
    refuse_pinned(row, even_pinned=even_pinned)
    link = link_problem(row)
    if link:
        raise StorageError(f"{row.path}: {link}. Nothing was deleted.", path=row.path)
    try:
        _delete(disk, root, row.path, token)
    except OSError as error:
        raise StorageError(
            f"{row.path} cannot be removed: {error}. If it is gone from the list, deleting any "
            "session later removes the rest of it.",
            path=row.path,
            errno=error.errno,
        ) from error


def refuse_pinned(row: rows.Row, *, even_pinned: bool) -> None:
    """EventRejectedError for a session that is to be kept."""
    if even_pinned or not (row.pinned or row.problem):
        return
    reason = (
        f"whether it is pinned cannot be told ({row.problem})" if row.problem else "it is pinned"
    )
    raise EventRejectedError(
        f"{row.path}: {reason}. Nothing was deleted; unpin it first, or say that pinned ones may "
        "go too (even_pinned, --even-pinned).",
        path=row.path,
    )


def link_problem(row: rows.Row) -> str:
    """Why the session is none of this store's to remove; nothing when it is."""
    if not os.path.islink(row.path):
        return ""
    return (
        f"it is a link to {os.path.realpath(row.path)}; delete the session where it lies, or "
        "remove the link"
    )


def _delete(disk: Files, root: str, path: str, token: str) -> None:
    # A session without its lock files is nobody's; who opens it makes them again.
    lock.create(disk, path)
    owner = lock.acquire_owner(disk, path)
    doomed = staging.deleted_name(path, token)
    if os.name == "nt":
        # Windows renames no directory with an open file in it, ours or a writer's.
        disk.close(owner)
        disk.replace(path, doomed)
    else:
        try:
            # Held until the name is gone: who opens it then finds nothing.
            disk.replace(path, doomed)
        finally:
            disk.close(owner)
    disk.sync_dir(root)
    staging.remove_tree(disk, doomed)
    for name in leftovers(disk, root):
        with contextlib.suppress(OSError):
            staging.remove_tree(disk, paths.join(root, name))


def leftovers(disk: Files, root: str) -> list[str]:
    """Names of sessions whose removal was cut short."""
    return sorted(
        name
        for name in disk.listdir(root)
        if name.startswith(".") and name.endswith(staging.DELETED)
    )


def remove_leftovers(disk: Files, root: str, *, now: float) -> list[str]:
    """Remove what a deletion left that was cut short, and what was being made and in which nothing
    has changed for an hour; the paths that went. `now` in seconds since 1970.

    Whoever still makes a session there finds it gone, fails, and has lost nothing. StorageError
    when the system refuses.
    """
    gone = []
    try:
        for name in [*leftovers(disk, root), *building(disk, root)]:
            path = paths.join(root, name)
            if name.endswith(staging.DELETED) or now - _last_change(path) > BUILDING_S:
                staging.remove_tree(disk, path)
                gone.append(path)
    except OSError as error:
        raise StorageError(
            f"{error.filename or root} cannot be removed: {error}. What is left stays out of every "
            "list.",
            path=root,
            errno=error.errno,
        ) from error
    return gone


def building(disk: Files, root: str) -> list[str]:
    """Names of sessions that are being made, or were when their process was killed."""
    return sorted(
        name
        for name in disk.listdir(root)
        if name.startswith(".") and name.endswith(staging.BUILDING)
    )


def _last_change(path: str) -> float:
    """When something in a directory was written last, in seconds since 1970."""
    found = os.lstat(path).st_mtime
    for folder, folders, names in os.walk(path):
        for name in (*folders, *names):
            with contextlib.suppress(FileNotFoundError):
                found = max(found, os.lstat(os.path.join(folder, name)).st_mtime)
    return found
