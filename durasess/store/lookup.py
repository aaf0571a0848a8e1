"""Which session somebody means: by its id, by the beginning of that, or by its title; and what it
comes from, parent by parent."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from durasess.engine import paths
from durasess.engine.files import Files
from durasess.errors import SessionNotFoundError
from durasess.store.rows import Row, row_of, rows

_CANDIDATES = 10
"""Sessions that a message names when several fit."""


def find(disk: Files, root: str, text: str) -> str:
    """The id of the one session with this id; else whose id begins so; else with this title, or
    with this text in its title, case aside.

    Raises SessionNotFoundError when none fits, and when several do: the message names them.
    """
    if paths.session_id_problem(text) is None and row_of(disk, root, text) is not None:
        return text
    wanted = " ".join(text.split()).casefold()
    found: dict[str, list[Row]] = {"prefix": [], "title": [], "part": []}
    for row in rows(disk, root):
        title = " ".join(row.title.split()).casefold()
        if text and row.session_id.startswith(text):
            found["prefix"].append(row)
        if wanted and title == wanted:
            found["title"].append(row)
        elif wanted and wanted in title:
            found["part"].append(row)
    for candidates in found.values():
        if len(candidates) == 1:
            return candidates[0].session_id
        if candidates:
            raise _ambiguous(root, text, candidates)
    raise SessionNotFoundError(
        f"{root}: no session has the id {text!r:.80}, an id that begins so, or such a title. "
        '"durasess list" shows them.',
        path=root,
    )


def _ambiguous(root: str, text: str, candidates: list[Row]) -> SessionNotFoundError:
    ordered = sorted(candidates, key=lambda row: row.active_at, reverse=True)
    named = [f"{row.session_id} ({row.title:.40})" for row in ordered[:_CANDIDATES]]
    more = f" and {len(ordered) - len(named)} more" if len(ordered) > len(named) else ""
    return SessionNotFoundError(
        f"{root}: {text!r:.80} may be {len(ordered)} sessions: {', '.join(named)}{more}. Give more "
        "of the id.",
        path=root,
    )


class Lineage(msgspec.Struct, frozen=True):
    """`ids`: the session itself first, then its parent, and so on. `problem` says why it ends
    before a session without a parent: one is missing, or comes twice; else it is empty."""

    ids: tuple[str, ...]
    problem: str = ""


def lineage(session_id: str, parent_of: Callable[[str], str | None]) -> Lineage:
    """Where a session comes from. `parent_of` gives a parent's id, "" for none, None when there is
    no such session."""
    seen: dict[str, None] = {}
    following = session_id
    while following:
        if following in seen:
            problem = f"{following} comes twice: its parents form a circle"
            return Lineage(tuple(seen), problem)
        parent = parent_of(following)
        if parent is None:
            return Lineage(tuple(seen), f"{following} is not there")
        seen[following] = None
        following = parent
    return Lineage(tuple(seen))
