"""`durasess unpack`: a packed session into a store."""

from __future__ import annotations

import argparse

from durasess.cli import options, stores
from durasess.cli.output import SOUND, Output
from durasess.store.packing import Unpacked


def add_to(verbs: options.Verbs) -> None:
    """Declare the verb."""
    parser = options.add_verb(
        verbs,
        "unpack",
        run,
        summary="Bring a packed session into a store.",
        more="Every byte is checked before it has a name. Where the store has another session\n"
        "with this id, it becomes a copy with an id of its own; nothing is overwritten or\n"
        "merged. Exit status: 0 done or there already, 1 damage, 2 usage, 3 not readable.",
        example="durasess unpack a1.zip --store ~/.myagent/sessions",
    )
    parser.add_argument("file", metavar="FILE", help="what `pack` wrote")
    stores.add_store(parser)


def run(chosen: argparse.Namespace, output: Output) -> int:
    """Do it and say what became of it."""
    done = stores.catalog(chosen).unpack(chosen.file)
    stores.said(output, options.fields(done), _words(done))
    return SOUND


def _words(done: Unpacked) -> str:
    if done.was_there:
        return f"has all of it already; nothing was changed: {done.path}"
    if done.session_id != done.packed_id:
        return f"is a copy, since another session is named {done.packed_id}: {done.path}"
    return f"is there now: {done.path}"
