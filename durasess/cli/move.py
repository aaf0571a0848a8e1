"""`durasess move`: bind the sessions of a project that moved; a dry run unless told otherwise."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from durasess.cli import options, stores
from durasess.cli.blocks import Block, Column, Fact, Facts, Row, Table, Tone, count
from durasess.cli.output import SOUND, UNREADABLE, Output
from durasess.store.changing import Moved


def add_to(verbs: options.Verbs) -> None:
    """Declare the verb."""
    parser = options.add_verb(
        verbs,
        "move",
        run,
        summary="Bind the sessions of a project to the directory where it is now.",
        more="The project itself is not touched: move it first. Without --apply it only says\n"
        "which sessions. Exit status: 0 done or dry run, 2 usage, 3 not readable, or one\n"
        "was left.",
        example="durasess move ~/old/project ~/new/project --store ~/.myagent/sessions --apply",
    )
    parser.add_argument("old", metavar="OLD", help="where the project was")
    parser.add_argument("new", metavar="DIR", help="where it is now")
    stores.add_store(parser)
    parser.add_argument("--apply", action="store_true", help="do it (default: a dry run)")


def run(chosen: argparse.Namespace, output: Output) -> int:
    """Plan or do it, and print it."""
    store = stores.existing(chosen)
    moved = store.move_workspace(chosen.old, chosen.new, dry_run=not chosen.apply)
    report = {"applied": chosen.apply, "sessions": [options.fields(one) for one in moved]}
    output.report(report, lambda: _blocks(store.path, moved, chosen.apply))
    return UNREADABLE if any(one.problem for one in moved) else SOUND


def _blocks(store: str, moved: tuple[Moved, ...], applied: bool) -> Iterator[Block]:
    if moved:
        columns = (Column("session"), Column("was in"), Column("is in"), Column("left, because"))
        rows = [
            Row((one.session_id, one.before, one.after, one.problem or "-"), _tone(one))
            for one in moved
        ]
        yield Table("", columns, rows)
    note = "" if applied or not moved else "nothing was changed; --apply does it"
    in_all = Fact("in all", count(len(moved), "session"), note)
    yield Facts("", [Fact("store", store), in_all])


def _tone(one: Moved) -> Tone:
    return "warn" if one.problem else "plain"
