"""Which rows somebody wants to see, in which order, and a page of them; rows.py makes the rows."""

from __future__ import annotations

import datetime
import heapq
import ntpath
import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Literal

import msgspec

from durasess.engine import codec
from durasess.engine.files import Files
from durasess.errors import SessionNotFoundError, StorageError
from durasess.session.workspace import same_place
from durasess.store import families, heads, holders, looking
from durasess.store.rows import Listed, Row, listed_of, rows, session_ids, size_of

Sort = Literal["activity", "created", "title"]


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """A page of sessions. `total` counts all that fit, `hidden` those of them on other pages.
    `unreadable` counts the marked rows; those without any readable summary stand behind the first
    page, whatever was asked for."""

    rows: tuple[Row, ...]
    total: int
    hidden: int
    unreadable: int

    def __iter__(self) -> Iterator[Row]:
        """The rows of this page."""
        return iter(self.rows)

    def __len__(self) -> int:
        """How many rows this page has."""
        return len(self.rows)


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What a list is asked for. `since` and `until` are about `active_at`; `label` is `name` or
    `name=value`; `parent` a session id, "" for those without."""

    status: str | None = None
    workspace: str | None = None
    user_id: str | None = None
    since: datetime.datetime | None = None
    until: datetime.datetime | None = None
    label: str | None = None
    parent: str | None = None


def listing(
    disk: Files,
    root: str,
    wanted: Wanted,
    *,
    sort: Sort,
    descending: bool,
    limit: int | None,
    offset: int,
    tree: bool = False,
    with_sizes: bool = False,
) -> Listing:
    """The page of `limit` sessions behind the first `offset`. Memory grows with the page alone;
    with `tree` each session has its forks and children under it, and its id is kept too.

    Of the page itself, the first bytes of the files that opening begins with are looked at too, and
    where the last run has no end, whether a writer has the session open.
    Raises StorageError when the store cannot be read, ValueError for an unknown `sort`.
    """
    key = _key(sort)
    total = 0
    marked: list[Row] = []

    look = partial(_looked_at, disk, with_sizes=with_sizes)
    # With all on the page, each is looked at while the system has its directory at hand.
    is_all = limit is None and not offset and not tree

    def seen(session_id: str) -> tuple[Listed | None, bool]:
        found = listed_of(disk, root, session_id)
        if found is None or found.row.problem:
            return found, False
        if not fits(found.row, wanted):
            return None, False
        return look(found) if is_all else found, True

    def fitting() -> Iterator[Listed]:
        nonlocal total
        for found, is_wanted in looking.looked_at(session_ids(disk, root), seen):
            if found is not None and is_wanted:
                total += 1
                yield found
            elif found is not None:
                marked.append(found.row)

    choose = partial(_tree_page, disk, root) if tree else _page
    with codec.bulk():
        page = choose(fitting(), key, descending=descending, limit=limit, offset=offset)
        if not is_all:
            page = list(looking.looked_at(page, look))
        # Behind the reading of what they say of their runs: a lock that is older says nothing.
        locks = holders.Listed() if any(_has_open_run(one.row) for one in page) else None
        shown = tuple(_with_holder(disk, one.row, locks) for one in page)
    found = shown if offset else (*shown, *sorted(marked, key=lambda row: row.session_id))
    return Listing(
        rows=found,
        total=total + len(marked),
        hidden=total - len(page),
        unreadable=sum(bool(row.problem) for row in found),
    )


def _page(
    found: Iterator[Listed],
    key: Callable[[Listed], Any],
    *,
    descending: bool,
    limit: int | None,
    offset: int,
) -> list[Listed]:
    if limit is None:
        return sorted(found, key=key, reverse=descending)[offset:]
    choose = heapq.nlargest if descending else heapq.nsmallest
    return choose(offset + limit, found, key=key)[offset:]


def _tree_page(
    disk: Files,
    root: str,
    found: Iterator[Listed],
    key: Callable[[Listed], Any],
    *,
    descending: bool,
    limit: int | None,
    offset: int,
) -> list[Listed]:
    """A page of the tree; its rows are read again, so that of the others only the ids are kept."""
    members = (families.Member(key(one), one.row.session_id, one.row.parent) for one in found)
    placed = families.ordered(members, descending=descending)
    end = None if limit is None else offset + limit
    again = ((listed_of(disk, root, one.session_id), one.depth) for one in placed[offset:end])
    # One that is gone meanwhile is gone from the list.
    return [
        one._replace(row=msgspec.structs.replace(one.row, depth=depth))
        for one, depth in again
        if one is not None
    ]


def _key(sort: str) -> Callable[[Listed], Any]:
    """The id makes the order of equals the same every time."""
    if sort == "activity":
        return lambda one: (one.row.active_at, one.row.session_id)
    if sort == "created":
        return lambda one: (one.row.created_at, one.row.session_id)
    if sort == "title":
        return lambda one: (one.row.title.casefold(), one.row.session_id)
    raise ValueError(f'sort is "activity", "created" or "title", not {sort!r}')


def latest(disk: Files, root: str, workspace: str | os.PathLike[str] | None) -> str:
    """The id of the session with the newest event, for this workspace if one is given; archived
    ones and children don't count. SessionNotFoundError when there is none, StorageError when there
    are only such as cannot be read."""
    place = None if workspace is None else absolute(workspace)
    best: Row | None = None
    unreadable: Row | None = None
    for row in rows(disk, root):
        if row.problem:
            unreadable = row
        elif row.status != "archived" and not (row.parent and not row.parent_seq):
            fit = place is None or same_place(row.workspace, place)
            if fit and (best is None or _newness(row) > _newness(best)):
                best = row
    if best is not None:
        return best.session_id
    if unreadable is not None:
        # Not "there is none": who takes that for the truth begins anew beside what is there.
        raise StorageError(
            f"{root}: no session can be read, and there is one: {unreadable.session_id}: "
            f'{unreadable.problem}. Try again, or look with "durasess doctor".',
            path=unreadable.path,
        )
    where = "" if place is None else f" for the workspace {place}"
    raise SessionNotFoundError(f"there is no session in {root}{where}. Create one.", path=root)


def _newness(row: Row) -> tuple[str, str]:
    return row.active_at, row.session_id


def absolute(path: str | os.PathLike[str]) -> str:
    """A workspace as it is compared: absolute; one of another system's stays as it is."""
    text = os.fspath(path)
    if os.name != "nt" and ntpath.splitdrive(text)[0]:
        return text
    return os.path.abspath(os.path.expanduser(text))


def fits(row: Row, wanted: Wanted) -> bool:
    """Whether a readable row is one that was asked for."""
    if wanted.status is not None and row.status != wanted.status:
        return False
    if wanted.user_id is not None and row.user_id != wanted.user_id:
        return False
    if wanted.parent is not None and row.parent != wanted.parent:
        return False
    if wanted.label is not None and not _has_label(row, wanted.label):
        return False
    if wanted.since is not None or wanted.until is not None:
        at = moment(row.active_at)
        if at is None or (wanted.since is not None and at < wanted.since):
            return False
        if wanted.until is not None and at > wanted.until:
            return False
    return wanted.workspace is None or same_place(row.workspace, wanted.workspace)


def _has_label(row: Row, label: str) -> bool:
    name, given, value = label.partition("=")
    return name in row.labels and (not given or str(row.labels[name]) == value)


def moment(text: str | datetime.datetime | None) -> datetime.datetime | None:
    """A time as a datetime with its zone, UTC where it has none; None when it is no time."""
    if text is None or text == "":
        return None
    try:
        found = (
            text if isinstance(text, datetime.datetime) else datetime.datetime.fromisoformat(text)
        )
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=datetime.UTC)


def last_moment(text: str | datetime.datetime | None) -> datetime.datetime | None:
    """As `moment`, of a day its last microsecond: "until" a day is with that day."""
    found = moment(text)
    if found is None or not isinstance(text, str):
        return found
    try:
        datetime.date.fromisoformat(text)
    except ValueError:
        return found
    return found.replace(hour=23, minute=59, second=59, microsecond=999_999)


def _looked_at(disk: Files, one: Listed, *, with_sizes: bool) -> Listed:
    row = one.row
    try:
        problem = heads.problem(disk, row.path, active=one.active) or row.problem
        size = size_of(disk, row.path) if with_sizes else None
    except OSError as error:
        problem, size = f"{error}", None
    if not problem and size is None:
        return one
    return Listed(msgspec.structs.replace(row, problem=problem, size_bytes=size))


def _has_open_run(row: Row) -> bool:
    return row.last_run is not None and row.last_run.get("status") == "running"


def _with_holder(disk: Files, row: Row, locks: holders.Listed | None) -> Row:
    """What meta says is as of the run's start, so a run whose worker was killed says it goes on
    until the next writer says otherwise; the kernel knows now."""
    if not _has_open_run(row):
        return row
    is_open = holders.is_open(disk, row.path, locks)
    last_run = row.last_run
    if is_open is False:
        last_run = {**(last_run or {}), "status": "interrupted"}
    return msgspec.structs.replace(row, is_open=is_open, last_run=last_run)
