"""`durasess rename`: another title for a session."""

from __future__ import annotations

import argparse

from durasess.cli import options, stores
from durasess.cli.output import SOUND, Output


def add_to(verbs: options.Verbs) -> None:
    """Declare the verb."""
    parser = options.add_verb(
        verbs,
        "rename",
        run,
        summary="Give a session another title.",
        more="Refused while it is open in a program. Exit status: 0 done, 1 damage, 2 usage, 3\n"
        "not readable or open elsewhere.",
        example='durasess rename a1 "login bug" --store ~/.myagent/sessions',
    )
    stores.add_session(parser)
    parser.add_argument("title", metavar="TITLE", help="the new title")


def run(chosen: argparse.Namespace, output: Output) -> int:
    """Do it and say so."""
    store, session_id = stores.session(chosen)
    store.rename(session_id, chosen.title)
    done = {"session_id": session_id, "title": chosen.title}
    stores.said(output, done, f"has the title {chosen.title!r} now")
    return SOUND
