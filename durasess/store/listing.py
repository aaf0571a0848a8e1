"""The sessions of a store as rows, from what `meta.json` says of each: never from its log.

One session that cannot be read is one marked row; it hides no other. What a row shows is as of a
seq: the log may have gone on since.
"""

from __future__ import annotations

import datetime
import heapq
import os
from collections.abc import Callable, Iterator
from typing import Any, Literal

import msgspec

from durasess.engine import meta, paths
from durasess.engine.files import Files
from durasess.engine.types import LineError
from durasess.errors import DurasessError, StorageError
from durasess.session.workspace import same_place
from durasess.store import heads

MAX_BYTES = 65536
"""Of a `meta.json` that a list reads."""

Sort = Literal["activity", "created", "title"]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One session. `updated_at` is the time of its last event as of seq `as_of`; `parent` is the
    session that it works for, or with `parent_seq` the one that it was forked from there. `messages`,
    `calls` and `runs` count all that ever were, `open_calls` those of unknown outcome or waiting.
    `size_bytes` is None unless it was asked for. `problem` says why a marked one cannot be used."""

    session_id: str
    path: str
    title: str = ""
    status: str = ""
    workspace: str = ""
    user_id: str = ""
    model: str = ""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    pinned: bool = False
    origin: str = ""
    parent: str = ""
    parent_seq: int = 0
    created_at: str = ""
    updated_at: str = ""
    last_run: dict[str, Any] | None = None
    messages: int = 0
    calls: int = 0
    runs: int = 0
    open_calls: int = 0
    usage: dict[str, float] = msgspec.field(default_factory=dict)
    as_of: int = 0
    size_bytes: int | None = None
    problem: str = ""


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """A page of sessions. `total` counts all that fit, `hidden` those of them on other pages.
    `unreadable` counts the marked rows; those without any readable summary stand behind the first
    page, whatever was asked for."""

    rows: tuple[Row, ...]
    total: int
    hidden: int
    unreadable: int


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What a list is asked for. `since` and `until` are about the last event, RFC 3339 or a
    datetime; `label` is `name` or `name=value`; `parent` a session id, "" for those without."""

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
    with_sizes: bool = False,
) -> Listing:
    """The page of `limit` sessions behind the first `offset`. Memory grows with the page alone.

    Of the page itself, the first bytes of the files that opening begins with are looked at too.
    Raises StorageError when the store cannot be read, ValueError for an unknown `sort`.
    """
    key = _key(sort)
    total = 0
    marked: list[Row] = []

    def fitting() -> Iterator[Row]:
        nonlocal total
        for row in rows(disk, root):
            if row.problem:
                marked.append(row)
            elif fits(row, wanted):
                total += 1
                yield row

    page = _page(fitting(), key, descending=descending, limit=limit, offset=offset)
    shown = tuple(_looked_at(disk, row, with_sizes=with_sizes) for row in page)
    found = shown if offset else (*shown, *sorted(marked, key=lambda row: row.session_id))
    return Listing(
        rows=found,
        total=total + len(marked),
        hidden=total - len(page),
        unreadable=sum(bool(row.problem) for row in found),
    )


def _page(
    found: Iterator[Row],
    key: Callable[[Row], Any],
    *,
    descending: bool,
    limit: int | None,
    offset: int,
) -> list[Row]:
    if limit is None:
        return sorted(found, key=key, reverse=descending)[offset:]
    choose = heapq.nlargest if descending else heapq.nsmallest
    return choose(offset + limit, found, key=key)[offset:]


def _key(sort: str) -> Callable[[Row], Any]:
    """The id makes the order of equals the same every time."""
    if sort == "activity":
        return lambda row: (row.updated_at, row.session_id)
    if sort == "created":
        return lambda row: (row.created_at, row.session_id)
    if sort == "title":
        return lambda row: (row.title.casefold(), row.session_id)
    raise ValueError(f'sort is "activity", "created" or "title", not {sort!r}')


def rows(disk: Files, root: str) -> Iterator[Row]:
    """A row for every session of the store, in no order. StorageError when the store itself cannot
    be read; none when it is not there."""
    try:
        names = disk.listdir(root)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StorageError(
            f"{root} cannot be read: {error}.", path=root, errno=error.errno
        ) from error
    for name in names:
        if paths.session_id_problem(name) is None:
            found = row_of(disk, root, name)
            if found is not None:
                yield found


def row_of(disk: Files, root: str, session_id: str) -> Row | None:
    """The row of one session; None for a name that is none of a session."""
    path = paths.join(root, session_id)
    try:
        found = _meta(disk, path)
    except NotADirectoryError:
        return None
    except FileNotFoundError:
        return _without_meta(disk, path, session_id)
    except (OSError, DurasessError) as error:
        return Row(session_id=session_id, path=path, problem=f"{error}")
    except LineError as error:
        place = paths.join(path, paths.META)
        return Row(session_id=session_id, path=path, problem=f"{place}: {error.reason}")
    if found.session_id != session_id:
        problem = f"{paths.META} says the session is {found.session_id!r}. Rename the directory"
        return Row(session_id=session_id, path=path, problem=problem)
    return _row(found, session_id, path)


def _meta(disk: Files, directory: str) -> meta.Meta:
    path = paths.join(directory, paths.META)
    fd = disk.open(path)
    try:
        data = disk.read_at(fd, MAX_BYTES + 1, 0)
    finally:
        disk.close(fd)
    if len(data) > MAX_BYTES:
        raise LineError("meta", f"it has more than the {MAX_BYTES} bytes that a list reads")
    return meta.parse(data, path)


def _without_meta(disk: Files, path: str, session_id: str) -> Row | None:
    """A directory without meta is marked when it has anything else of a session."""
    try:
        names = disk.listdir(path)
    except OSError:
        # Gone in this moment, or a broken link.
        return None
    kinds = {paths.parse(name).kind for name in names}
    if not kinds & {"segment", "snapshot", "previous", "owner", "lock"}:
        return None
    problem = f"{paths.META} is missing. Opening the session for writing makes it again"
    return Row(session_id=session_id, path=path, problem=problem)


def _row(found: meta.Meta, session_id: str, path: str) -> Row:
    """Whatever a summary holds that is not what lists show is left out, never an error."""
    shown = found.summary.data if found.summary is not None else None
    known = {
        name: value
        for name, value in (shown.items() if isinstance(shown, dict) else ())
        if name in _SHOWN and isinstance(value, _SHOWN[name])
    }
    known.setdefault("created_at", found.created)
    known.setdefault("updated_at", found.updated)
    as_of = found.summary.seq if found.summary is not None else 0
    return Row(session_id=session_id, path=path, as_of=as_of, **known)


_SHOWN: dict[str, Any] = {
    **dict.fromkeys(("title", "status", "workspace", "user_id", "model", "origin", "parent"), str),
    **dict.fromkeys(("created_at", "updated_at"), str),
    **dict.fromkeys(("parent_seq", "messages", "calls", "runs", "open_calls"), int),
    **dict.fromkeys(("labels", "usage", "last_run"), dict),
    "pinned": bool,
}


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
        at = moment(row.updated_at)
        if at is None or (wanted.since is not None and at < wanted.since):
            return False
        if wanted.until is not None and at > wanted.until:
            return False
    return wanted.workspace is None or same_place(row.workspace, wanted.workspace)


def _has_label(row: Row, label: str) -> bool:
    name, given, value = label.partition("=")
    return name in row.labels and (not given or str(row.labels[name]) == value)


def moment(text: str | datetime.datetime | None) -> datetime.datetime | None:
    """A time as a datetime with its zone, UTC where it has none; None when it is none."""
    if text is None or text == "":
        return None
    try:
        found = text if isinstance(text, datetime.datetime) else datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=datetime.UTC)


def _looked_at(disk: Files, row: Row, *, with_sizes: bool) -> Row:
    try:
        problem = heads.problem(disk, row.path) or ""
        size = size_of(disk, row.path) if with_sizes else None
    except OSError as error:
        problem, size = f"{error}", None
    if not problem and size is None:
        return row
    return msgspec.structs.replace(row, problem=problem, size_bytes=size)


def size_of(disk: Files, path: str) -> int:
    """Bytes of all files of a session; links and what is gone in this moment count nothing."""
    total = 0
    waiting = [path]
    while waiting:
        directory = waiting.pop()
        for name in disk.listdir(directory):
            inside = paths.join(directory, name)
            if os.path.islink(inside):
                continue
            try:
                found = disk.stat(inside)
            except FileNotFoundError:
                continue
            if found.directory:
                waiting.append(inside)
            else:
                total += found.size
    return total
