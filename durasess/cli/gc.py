"""`durasess gc`: remove whole sessions that are old or large; a dry run unless told otherwise."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from durasess.cli import options, stores
from durasess.cli.blocks import Block, Column, Fact, Facts, Notes, Row, Table, count, shortened
from durasess.cli.output import SOUND, UNREADABLE, Output
from durasess.store.pruning import PrunedSessions

_TITLE = 44


def add_to(verbs: options.Verbs) -> None:
    """Declare the verb."""
    parser = options.add_verb(
        verbs,
        "gc",
        run,
        summary="Remove whole sessions that are old or large.",
        more="Those go that fit every criterion given. Without --apply it only says which.\n"
        "Pinned ones stay, and those that are open or cannot be read. Nothing runs this by\n"
        "itself. Exit status: 0 done or dry run, 2 usage, 3 not readable, or the system let one "
        "not go.",
        example="durasess gc ~/.myagent/sessions --older-than 90d --status archived",
    )
    stores.add_store(parser, place=True)
    parser.add_argument(
        "--older-than", metavar="SPAN", type=stores.age, help="by the last event: 90d, 12h, 2w"
    )
    parser.add_argument(
        "--larger-than", metavar="SIZE", type=stores.size, help="by all files: 20k, 100M, 2G"
    )
    parser.add_argument(
        "--status", choices=("active", "completed", "archived"), help="those with this status"
    )
    parser.add_argument("--apply", action="store_true", help="do it (default: a dry run)")


def run(chosen: argparse.Namespace, output: Output) -> int:
    """Plan or do it, and print it."""
    if chosen.older_than is None and chosen.larger_than is None and chosen.status is None:
        raise options.UsageError("say which: give --older-than, --larger-than or --status.")
    store = stores.existing(chosen)
    done = store.prune(
        older_than=chosen.older_than,
        larger_than=chosen.larger_than,
        status=chosen.status,
        dry_run=not chosen.apply,
    )
    output.report({"store": store.path, **options.fields(done)}, lambda: _blocks(done))
    return UNREADABLE if any(one.is_refused for one in done.kept) else SOUND


def _blocks(done: PrunedSessions) -> Iterator[Block]:
    if done.sessions:
        columns = (
            Column("session", whole=True),
            Column("title"),
            Column("last event"),
            Column("size", right=True),
        )
        rows = [
            Row(
                (
                    row.session_id,
                    shortened(row.title, _TITLE),
                    stores.short_time(row.updated_at),
                    stores.short_size(row.size_bytes or 0),
                )
            )
            for row in done.sessions
        ]
        yield Table("", columns, rows)
    if done.kept:
        yield Notes("stay", [f"{one.session_id}: {one.reason}" for one in done.kept])
    verb = "would go; nothing was changed, --apply removes them" if done.dry_run else "were removed"
    amount = f"{count(len(done.sessions), 'session')}, {stores.short_size(done.size_bytes)}"
    yield Facts("", [Fact("gc", amount, verb if done.sessions else "nothing to do")])
