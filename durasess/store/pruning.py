"""Which whole sessions are old or large enough to go, and removing them when that is asked for.

Never by itself: there is no age at which a session goes, a criterion must be given, and the default
is to say what would go. What is pinned, open, or cannot be read stays.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import get_args

import msgspec

from durasess.engine import workers
from durasess.engine.engine import Engine
from durasess.engine.files import Files
from durasess.errors import DurasessError, StorageError
from durasess.session.state import SessionStatus
from durasess.store import deleting, listing, rows
from durasess.store.rows import Row


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A session that fits and stays: `reason` says why, `is_refused` that the system did not let it
    go."""

    session_id: str
    title: str
    reason: str
    is_refused: bool = False


class PrunedSessions(msgspec.Struct, frozen=True, kw_only=True):
    """`sessions` go, or with `dry_run` False went, `size_bytes` in all; `kept` fit too and stay."""

    dry_run: bool
    sessions: tuple[Row, ...]
    size_bytes: int
    kept: tuple[Kept, ...]


def prune(
    disk: Files,
    root: str,
    *,
    older_than: datetime.timedelta | None,
    larger_than: int | None,
    status: str | None,
    now: datetime.datetime,
    token: Callable[[], str],
    dry_run: bool,
) -> PrunedSessions:
    """Remove the sessions that fit every criterion that is given: the last event is older than
    `older_than`, the files are larger than `larger_than` bytes together, the status is `status`.

    A session's last event is looked up in its log, since its summary may be older. ValueError when
    no criterion is given, and like TypeError for a value that cannot be one.
    """
    _check(older_than, larger_than, status)
    gone: list[Row] = []
    kept: list[Kept] = []
    for row in rows.rows(disk, root):
        if not _may_fit(row, older_than, status, now):
            continue
        is_refused = False
        try:
            size = rows.size_of(disk, row.path)
            if larger_than is not None and size <= larger_than:
                continue
            reason = _reason_to_keep(disk, row, older_than, now)
            if not reason and not dry_run:
                deleting.delete(disk, root, row.session_id, token=token(), even_pinned=False)
        except (DurasessError, OSError) as error:
            reason = str(error)
            size = 0
            is_refused = isinstance(error, StorageError | OSError)
        if reason:
            kept.append(
                Kept(
                    session_id=row.session_id,
                    title=row.title,
                    reason=reason,
                    is_refused=is_refused,
                )
            )
        else:
            gone.append(msgspec.structs.replace(row, size_bytes=size))
    gone.sort(key=lambda row: (row.updated_at, row.session_id))
    return PrunedSessions(
        dry_run=dry_run,
        sessions=tuple(gone),
        size_bytes=sum(row.size_bytes or 0 for row in gone),
        kept=tuple(sorted(kept, key=lambda one: one.session_id)),
    )


def _check(older_than: object, larger_than: object, status: str | None) -> None:
    if older_than is None and larger_than is None and status is None:
        raise ValueError("say which sessions: give older_than, larger_than or status")
    if older_than is not None:
        if not isinstance(older_than, datetime.timedelta):
            raise TypeError(f"older_than is a datetime.timedelta, not {older_than!r}")
        if older_than < datetime.timedelta():
            raise ValueError(f"older_than is a period that has passed, not {older_than}")
    if larger_than is not None:
        if not isinstance(larger_than, int):
            raise TypeError(f"larger_than is a number of bytes, not {larger_than!r}")
        if larger_than < 0:
            raise ValueError(f"larger_than is a number of bytes, not {larger_than}")
    if status is not None and status not in get_args(SessionStatus):
        known = ", ".join(get_args(SessionStatus))
        raise ValueError(f"status is one of {known}, not {status!r}")


def _may_fit(
    row: Row, older_than: datetime.timedelta | None, status: str | None, now: datetime.datetime
) -> bool:
    """By its summary, which is never newer than the log. One that cannot be read is told of."""
    if row.problem:
        return True
    if status is not None and row.status != status:
        return False
    return older_than is None or _is_older(row.updated_at, older_than, now)


def _is_older(ts: str, older_than: datetime.timedelta, now: datetime.datetime) -> bool:
    at = listing.moment(ts)
    return at is not None and now - at > older_than


def _reason_to_keep(
    disk: Files, row: Row, older_than: datetime.timedelta | None, now: datetime.datetime
) -> str:
    if row.problem:
        return f"it cannot be read: {row.problem}"
    if row.pinned:
        return "it is pinned"
    link = deleting.link_problem(row)
    if link:
        return link
    held = workers.held_as(disk, row.path)
    if held is not None:
        return "it is open in a writer"
    if older_than is not None and not _is_older(_last_event(row), older_than, now):
        return "its last event is newer than its summary says"
    return ""


def _last_event(row: Row) -> str:
    with Engine.open(row.path, mode="read") as engine:
        if engine.damage:
            return ""
        last = engine.last_seq
        for event in engine.events(after=max(last - 1, 0)):
            return event.ts
    return row.updated_at
