"""`durasess list`: the sessions of a store, the last used first. Reads what `meta.json` says."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import msgspec

from durasess.cli import options, stores
from durasess.cli.blocks import (
    Block,
    Column,
    Fact,
    Facts,
    Notes,
    Row,
    Table,
    count,
    number,
    shortened,
)
from durasess.cli.masking import Masker
from durasess.cli.output import DAMAGE, SOUND, Output
from durasess.engine import paths
from durasess.errors import SessionNotFoundError
from durasess.store import rows
from durasess.store.catalog import Catalog
from durasess.store.listing import Listing

LIMIT = 50
_TITLE = 44
_LEVELS_SHOWN = 8


def add_to(verbs: options.Verbs) -> None:
    """Declare the verb."""
    parser = options.add_verb(
        verbs,
        "list",
        run,
        summary="Show the sessions of a store, the last used first.",
        more="Changes nothing. What is shown is as of the last time a session wrote its summary;\n"
        "whether the writer of a run without an end still lives is asked of the kernel. A\n"
        "session that cannot be read is a row with the reason. Exit status: 0 sound, 1 a\n"
        "session could not be read, 2 usage, 3 the store is not readable.",
        example="durasess list ~/.myagent/sessions --workspace . --since 2026-11-01",
    )
    stores.add_store(parser, place=True)
    parser.add_argument(
        "--status", choices=("active", "completed", "archived"), help="only those with this status"
    )
    parser.add_argument("--workspace", metavar="DIR", help="only those of this project")
    parser.add_argument("--user", metavar="ID", help="only those of this user")
    parser.add_argument("--label", metavar="NAME[=VALUE]", help="only those with this label")
    parser.add_argument("--parent", metavar="SESSION", help="only its forks and children")
    parser.add_argument(
        "--since", metavar="DAY", type=stores.day, help="only those whose last event is not older"
    )
    parser.add_argument(
        "--until",
        metavar="DAY",
        type=stores.end_of_day,
        help="only those whose last event is not newer",
    )
    parser.add_argument(
        "--sort", choices=("activity", "created", "title"), default="activity", help="the order"
    )
    parser.add_argument("--reverse", action="store_true", help="turn the order round")
    parser.add_argument(
        "--tree", action="store_true", help="forks and children under what they come from"
    )
    parser.add_argument(
        "--limit", metavar="N", type=options.count, default=LIMIT, help="rows (default: 50)"
    )
    parser.add_argument(
        "--offset", metavar="N", type=options.count, default=0, help="rows passed over first"
    )
    parser.add_argument("--sizes", action="store_true", help="add up the bytes of each")
    options.add_show_secrets(parser)


def run(chosen: argparse.Namespace, output: Output) -> int:
    """Print a page."""
    store = stores.existing(chosen)
    if chosen.parent:
        chosen.parent = _meant(store, chosen.parent)
    found = store.list(
        status=chosen.status,
        workspace=chosen.workspace,
        user_id=chosen.user,
        since=chosen.since,
        until=chosen.until,
        label=chosen.label,
        parent=chosen.parent,
        sort=chosen.sort,
        descending=(chosen.sort != "title") != chosen.reverse,
        limit=chosen.limit,
        offset=chosen.offset,
        tree=chosen.tree,
        sizes=chosen.sizes,
    )
    masker = Masker(show=chosen.show_secrets)
    shown = masker.value(options.fields(found))
    listing = msgspec.convert(shown, Listing)
    output.report({"store": store.path, **shown}, lambda: _blocks(store.path, listing, masker))
    return DAMAGE if found.unreadable else SOUND


def _meant(store: Catalog, text: str) -> str:
    """The session that is meant; one that is gone has forks and children still."""
    try:
        return store.find(text)
    except SessionNotFoundError:
        if paths.session_id_problem(text) is not None:
            raise
        return text


def _blocks(path: str, found: Listing, masker: Masker) -> Iterator[Block]:
    if found.rows:
        sizes = any(row.size_bytes is not None for row in found.rows)
        columns = [
            Column("session", whole=True),
            Column("title"),
            Column("status"),
            Column("last event"),
            Column("runs", right=True),
            Column("messages", right=True),
            Column("tokens", right=True),
            *([Column("size", right=True)] if sizes else []),
        ]
        table = [Row(_cells(row, sizes), "bad" if row.problem else "plain") for row in found.rows]
        yield Table("", tuple(columns), table)
    problems = [f"{row.session_id}: {row.problem}" for row in found.rows if row.problem]
    if problems:
        yield Notes("not readable", problems, "bad")
    note = f"{number(found.hidden)} more: --limit, --offset" if found.hidden else ""
    yield Facts("", [Fact("store", path), Fact("in all", count(found.total, "session"), note)])
    yield from options.masked_blocks(masker)


def _cells(row: rows.Row, sizes: bool) -> tuple[str, ...]:
    size = (
        () if not sizes else ("-" if row.size_bytes is None else stores.short_size(row.size_bytes),)
    )
    if row.problem and not row.updated_at:
        return (row.session_id, "", "unreadable", "-", "-", "-", "-", *size)
    return (
        _indent(row.depth) + row.session_id,
        shortened(row.title, _TITLE),
        _status(row),
        stores.short_time(row.active_at),
        number(row.runs),
        number(row.messages),
        number(int(_total(row.usage))),
        *size,
    )


def _indent(depth: int) -> str:
    """Two columns for each level, up to a width that leaves room; then the level."""
    if depth <= _LEVELS_SHOWN:
        return "  " * depth
    return f"{'  ' * _LEVELS_SHOWN}({depth}) "


def _status(row: rows.Row) -> str:
    """The status, and what else makes a session one to look at."""
    if row.problem:
        return "unreadable"
    words = [row.status or "-"]
    last = (row.last_run or {}).get("status")
    if last == "running":
        words.append("running" if row.is_open else "running?")
    elif last in ("interrupted", "failed"):
        words.append(str(last))
    if row.open_calls:
        words.append(f"{row.open_calls} open")
    if row.pinned:
        words.append("pinned")
    if row.parent:
        words.append("fork" if row.parent_seq else "child")
    return ", ".join(words)


def _total(usage: dict[str, Any]) -> float:
    value = usage.get("total", 0)
    return value if isinstance(value, int | float) else 0
