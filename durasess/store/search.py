"""Searching what was said in all sessions: through the index where it can be used, else by reading
every session. A session that cannot be read is named."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from durasess.engine import paths
from durasess.engine.files import Files
from durasess.errors import DurasessError, StorageError
from durasess.session.when import happened_at
from durasess.store import holders, index, indexing, listing, reading, rows, texts
from durasess.store.index import By, Group, IndexedRun, IndexUnusable
from durasess.store.listing import Wanted
from durasess.store.rows import Row
from durasess.store.texts import Hit

FAILED = ("failed", "interrupted")

T = TypeVar("T")


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """The newest messages with every word. `is_cut` says that there are more than `limit`.
    `unreadable` has session id → reason for those that could not be searched; `notes` what else
    to know, such as why the index was not used."""

    hits: tuple[Hit, ...]
    limit: int
    is_cut: bool
    unreadable: dict[str, str]
    notes: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Hit]:
        """The hits."""
        return iter(self.hits)

    def __len__(self) -> int:
        """How many hits there are."""
        return len(self.hits)


class Indexed(msgspec.Struct, frozen=True, kw_only=True):
    """The index after it was brought up to date: how many sessions it has, and session id → reason
    for those that could not be read."""

    path: str
    sessions: int
    unreadable: dict[str, str]
    has_texts: bool


def search(disk: Files, root: str, text: str, wanted: Wanted, *, limit: int) -> Found:
    """The newest messages of the wanted sessions that have every word of `text`, case aside."""
    words = texts.words_of(text)
    if not words:
        raise ValueError("say what to search for: the text has no word")
    if limit < 1:
        raise ValueError(f"limit is 1 or more, not {limit}")
    every = list(rows.rows(disk, root))
    chosen = [row for row in every if row.problem or listing.fits(row, wanted)]
    notes = [f"of each message the first {texts.LONGEST:,} characters are searched"]
    try:
        with index.opened(disk, root) as opened:
            problems = indexing.update(opened, disk, every)
            if opened.has_texts:
                ids = {row.session_id for row in chosen}
                hits = opened.search(words, ids, limit)
                # One that cannot be read now may be in the index as it was.
                missed = {one: why for one, why in problems.items() if one in ids}
                return _found(hits, limit, missed, notes)
        notes.append("this SQLite has no full-text search, so every session was read")
    except IndexUnusable as error:
        notes.append(f"the index was not used, so every session was read: {error}")
    missed = {}
    hits = heapq.nsmallest(limit + 1, _scan(chosen, words, missed), key=_newest_first)
    return _found(hits, limit, missed, notes)


def _found(hits: Sequence[Hit], limit: int, unreadable: dict[str, str], notes: list[str]) -> Found:
    return Found(
        hits=tuple(hits[:limit]),
        limit=limit,
        is_cut=len(hits) > limit,
        unreadable=unreadable,
        notes=tuple(notes),
    )


def _newest_first(hit: Hit) -> tuple[Any, ...]:
    return ([-ord(one) for one in hit.ts], hit.session_id, -hit.seq)


def _scan(chosen: list[Row], words: list[str], problems: dict[str, str]) -> Iterator[Hit]:
    for row in chosen:
        if row.problem:
            problems[row.session_id] = row.problem
            continue
        try:
            yield from _scan_one(row, words, problems)
        except (DurasessError, ValueError, OSError) as error:
            problems[row.session_id] = str(error)


def _scan_one(row: Row, words: list[str], problems: dict[str, str]) -> Iterator[Hit]:
    with reading.opened(row.path) as engine:
        for event in engine.events(after=engine.first_seq - 1):
            for one in texts.texts(event, engine.read_blob):
                if texts.has_all(one.text, words):
                    yield Hit(
                        session_id=row.session_id,
                        title=texts.shown(row.title),
                        seq=event.seq,
                        ts=happened_at(event),
                        role=one.role,
                        excerpt=texts.excerpt(one.text, words),
                    )
        if damage := reading.damage_of(engine):
            problems[row.session_id] = damage


def runs(disk: Files, root: str, *, limit: int, failed: bool) -> list[IndexedRun]:
    """The newest `limit` runs of all sessions, or all that failed or were interrupted."""
    statuses = (*FAILED, "running") if failed else ()
    found = _asked(
        disk, root, lambda opened: opened.runs(limit=None if failed else limit, statuses=statuses)
    )
    listed = holders.Listed() if any(one.status == "running" for one in found) else None
    found = [_as_it_is_now(disk, root, one, listed) for one in found]
    return [one for one in found if one.status in FAILED] if failed else found


def _as_it_is_now(
    disk: Files, root: str, run: IndexedRun, listed: holders.Listed | None
) -> IndexedRun:
    """A run without an end whose session nobody has open was cut off, though no writer has said so
    yet."""
    if run.status == "running":
        is_open = holders.is_open(disk, paths.join(root, run.session_id), listed)
        if is_open is False:
            return msgspec.structs.replace(run, status="interrupted")
    return run


def groups(disk: Files, root: str, by: By) -> list[Group]:
    """What was run and used by day, model or workspace."""
    if by not in ("day", "model", "workspace"):
        raise ValueError(f'by is "day", "model" or "workspace", not {by!r}')
    return _asked(disk, root, lambda opened: opened.groups(by))


def _asked(disk: Files, root: str, ask: Callable[[index.Index], T]) -> T:
    """Brought up to date before it is asked; StorageError when it cannot be used. Where nobody may
    write it, one is made in memory from the sessions."""
    try:
        with index.opened(disk, root) as opened:
            indexing.update(opened, disk, rows.rows(disk, root))
            return ask(opened)
    except IndexUnusable as error:
        if not error.is_refused:
            raise _unusable(root, error) from error
    with index.in_memory() as opened:
        indexing.update(opened, disk, rows.rows(disk, root))
        return ask(opened)


def rebuild(disk: Files, root: str) -> Indexed:
    """Make the index again from the sessions, whatever is there; StorageError when another process
    has it."""
    path = index.path_of(root)
    try:
        try:
            with index.opened(disk, root) as opened:
                opened.clear()
        except IndexUnusable as error:
            if error.is_locked:
                raise
            _discard(disk, root)
        with index.opened(disk, root) as opened:
            problems = indexing.update(opened, disk, rows.rows(disk, root))
            count = opened.db.execute("SELECT count(*) FROM sessions").fetchone()[0]
            return Indexed(
                path=path, sessions=count, unreadable=problems, has_texts=opened.has_texts
            )
    except IndexUnusable as error:
        raise _unusable(root, error) from error


def _discard(disk: Files, root: str) -> None:
    """What is no index any more goes, with what SQLite keeps beside it."""
    path = index.path_of(root)
    for name in (path, f"{path}-journal", f"{path}-wal", f"{path}-shm"):
        try:
            disk.unlink(name)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise IndexUnusable(f"{name}: {error}") from error


def _unusable(root: str, error: IndexUnusable) -> StorageError:
    return StorageError(
        f"{error}. The index is made from the sessions and holds nothing of its own: try again, or "
        'make it anew with "durasess doctor --rebuild-index".',
        path=index.path_of(root),
    )
