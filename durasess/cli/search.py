"""`durasess search`: messages of all sessions of a store that have the words."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

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
from durasess.cli.output import DAMAGE, SOUND, Output
from durasess.store.search import Found
from durasess.store.texts import Hit

LIMIT = 20
_TITLE = 24


def add_to(verbs: options.Verbs) -> None:
    """Declare the verb."""
    parser = options.add_verb(
        verbs,
        "search",
        run,
        summary="Find what was said in any session of a store.",
        more="Messages, tool calls and results, summaries and notes that have every word, the\n"
        "newest first; case makes no difference and a part of a word is enough. Secrets are\n"
        "masked. Uses the store's index, which it brings up to date; without one every\n"
        "session is read. Exit status: 0 done, 1 a session could not be read, 2 usage, 3\n"
        "not readable.",
        example='durasess search "login bug" --store ~/.myagent/sessions',
    )
    parser.add_argument("text", metavar="TEXT", help="the words")
    stores.add_store(parser)
    parser.add_argument("--workspace", metavar="DIR", help="only sessions of this project")
    parser.add_argument("--user", metavar="ID", help="only sessions of this user")
    parser.add_argument(
        "--limit", metavar="N", type=options.positive, default=LIMIT, help="hits (default: 20)"
    )


def run(chosen: argparse.Namespace, output: Output) -> int:
    """Print the hits."""
    if not chosen.text.split():
        raise options.UsageError("there is no word to search for; give one.")
    store = stores.existing(chosen)
    found = store.search(
        chosen.text, workspace=chosen.workspace, user_id=chosen.user, limit=chosen.limit
    )
    report = {"store": store.path, **options.fields(found)}
    output.report(report, lambda: _blocks(found))
    return DAMAGE if found.unreadable else SOUND


def _blocks(found: Found) -> Iterator[Block]:
    if found.hits:
        names = ("session", "title", "seq", "at", "who", "text")
        columns = tuple(Column(name, right=name == "seq") for name in names)
        yield Table("", columns, [_row(hit) for hit in found.hits])
    if found.unreadable:
        lines = [f"{one}: {why}" for one, why in found.unreadable.items()]
        yield Notes("not searched", lines, "bad")
    more = "there are more: --limit" if found.is_cut else ""
    yield Facts("", [Fact("in all", count(len(found.hits), "hit"), more)])
    yield Notes("how", list(found.notes), "dim")


def _row(hit: Hit) -> Row:
    title, at = shortened(hit.title, _TITLE), stores.short_time(hit.ts)
    return Row((hit.session_id, title, number(hit.seq), at, hit.role, hit.excerpt))
