"""The row of a session: what `meta.json` says of it, read in bounded bytes and never from its log.

What cannot be read is a marked row; it hides no other. What a row shows is as of a seq: the log may
have gone on since.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import msgspec

from durasess.engine import meta, paths
from durasess.engine.files import Files
from durasess.engine.types import LineError
from durasess.errors import DurasessError, SessionNotFoundError, StorageError
from durasess.store import looking

MAX_BYTES = 65536
"""Of a `meta.json` that a list reads."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One session. `updated_at` is the time of its last event as of seq `as_of`, `active_at` that
    of what happened last: of an imported one when it happened, not when it was imported. `parent`
    is the session that it works for, or with `parent_seq` the one that it was forked from there.
    `messages`, `calls` and `runs` count all that ever were, `open_calls` those of unknown outcome
    or waiting. `size_bytes` is None unless it was asked for. `problem` says why a marked one cannot
    be used.

    Of a session whose last run has no end, `is_open` says whether a writer has it open (None: it
    cannot be told, or was not asked); one that nobody has open was cut off, and `last_run` says
    "interrupted" before the next writer records it. `depth` is that in a tree."""

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
    active_at: str = ""
    last_run: dict[str, Any] | None = None
    messages: int = 0
    calls: int = 0
    runs: int = 0
    open_calls: int = 0
    usage: dict[str, float] = msgspec.field(default_factory=dict)
    as_of: int = 0
    size_bytes: int | None = None
    is_open: bool | None = None
    depth: int = 0
    problem: str = ""


class Listed(NamedTuple):
    """A row, and the newest segment that its `meta.json` knows of; 0 for none."""

    row: Row
    active: int = 0


def rows(disk: Files, root: str) -> Iterator[Row]:
    """A row for every session of the store, in no order. StorageError when the store itself cannot
    be read; none when it is not there."""
    found = looking.looked_at(session_ids(disk, root), partial(row_of, disk, root))
    return (row for row in found if row is not None)


def session_ids(disk: Files, root: str) -> list[str]:
    """The names in a store that sessions may have. StorageError as for `rows`."""
    try:
        names = disk.listdir(root)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StorageError(
            f"{root} cannot be read: {error}.", path=root, errno=error.errno
        ) from error
    return [name for name in names if paths.session_id_problem(name) is None]


def row_of(disk: Files, root: str, session_id: str) -> Row | None:
    """The row of one session; None for a name that is not a session's."""
    found = listed_of(disk, root, session_id)
    return None if found is None else found.row


def listed_of(disk: Files, root: str, session_id: str) -> Listed | None:
    """The same, with the newest segment that its `meta.json` knows of."""
    path = paths.join(root, session_id)
    try:
        found = _meta(disk, path)
    except NotADirectoryError:
        return None
    except FileNotFoundError:
        marked = _without_meta(disk, path, session_id)
        return None if marked is None else Listed(marked)
    except (OSError, DurasessError) as error:
        problem = f"{error}"
    except LineError as error:
        problem = f"{paths.join(path, paths.META)}: {error.reason}"
    else:
        if found.session_id == session_id:
            return Listed(_row(found, session_id, path), found.active)
        problem = f"{paths.META} says the session is {found.session_id!r}. Rename the directory"
    return Listed(Row(session_id=session_id, path=path, problem=problem))


def required(disk: Files, root: str, session_id: str) -> Row:
    """The row of a session that is there. SessionNotFoundError, also for what is no session id."""
    path = path_of(root, session_id)
    row = row_of(disk, root, session_id)
    if row is None:
        raise SessionNotFoundError(
            f"there is no session at {path}. Give the id of one that is there; `durasess list` "
            "shows them.",
            path=path,
        )
    return row


def path_of(root: str, session_id: str) -> str:
    """Where a session of this id is, or would be. SessionNotFoundError for what is no id."""
    problem = paths.session_id_problem(session_id) if isinstance(session_id, str) else "no text"
    if problem is not None:
        raise SessionNotFoundError(
            f"{session_id!r:.80} is no session id: {problem}. Give the id of a session."
        )
    return paths.join(root, session_id)


def _meta(disk: Files, directory: str) -> meta.Meta:
    path = paths.join(directory, paths.META)
    data = disk.first_bytes(path, MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise LineError("meta", f"it has more than the {MAX_BYTES} bytes that a list reads")
    return meta.as_written(data, _Meta) or meta.parse(data, path)


def _without_meta(disk: Files, path: str, session_id: str) -> Row | None:
    """A directory without meta is marked when it has anything else of a session."""
    try:
        names = disk.listdir(path)
    except OSError:
        # Gone meanwhile, or a broken link.
        return None
    kinds = {paths.parse(name).kind for name in names}
    if not kinds & {"segment", "snapshot", "previous", "owner", "lock"}:
        return None
    problem = f"{paths.META} is missing. Opening the session for writing makes it again"
    return Row(session_id=session_id, path=path, problem=problem)


def _row(found: meta.Meta, session_id: str, path: str) -> Row:
    summary = found.summary
    shown = _Shown() if summary is None else summary.data
    if type(shown) is not _Shown:
        shown = _fitting(shown)
    updated_at = shown.updated_at or found.updated
    return Row(
        session_id=session_id,
        path=path,
        title=shown.title,
        status=shown.status,
        workspace=shown.workspace,
        user_id=shown.user_id,
        model=shown.model,
        labels=shown.labels,
        pinned=shown.pinned,
        origin=shown.origin,
        parent=shown.parent,
        parent_seq=shown.parent_seq,
        created_at=shown.created_at or found.created,
        updated_at=updated_at,
        active_at=shown.active_at or updated_at,
        last_run=shown.last_run,
        messages=shown.messages,
        calls=shown.calls,
        runs=shown.runs,
        open_calls=shown.open_calls,
        usage=shown.usage,
        as_of=0 if summary is None else summary.seq,
    )


class _Shown(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a row shows of a summary."""

    title: str = ""
    status: str = ""
    workspace: str = ""
    user_id: str = ""
    model: str = ""
    labels: dict[str, Any] = {}
    pinned: bool = False
    origin: str = ""
    parent: str = ""
    parent_seq: int = 0
    created_at: str = ""
    updated_at: str = ""
    active_at: str = ""
    last_run: dict[str, Any] | None = None
    messages: int = 0
    calls: int = 0
    runs: int = 0
    open_calls: int = 0
    usage: dict[str, Any] = {}


class _Summary(meta.Summary, frozen=True):
    data: _Shown


class _Meta(meta.Meta, frozen=True, kw_only=True):
    summary: _Summary | None = None


def _fitting(summary: Any) -> _Shown:
    """Whatever a summary holds that is not what lists show is left out, never an error."""
    known = {}
    for field in msgspec.structs.fields(_Shown) if isinstance(summary, dict) else ():
        with contextlib.suppress(KeyError, msgspec.ValidationError):
            known[field.name] = msgspec.convert(summary[field.name], field.type)
    return _Shown(**known)


def size_of(disk: Files, path: str) -> int:
    """Bytes of all files of a session; links and what is gone meanwhile count nothing."""
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
