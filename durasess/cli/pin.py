"""`durasess pin`: keep a session whatever is pruned, or let it go again."""

from __future__ import annotations

import argparse

from durasess.cli import options, stores
from durasess.cli.output import SOUND, Output


def add_to(verbs: options.Verbs) -> None:
    """Declare the verb."""
    parser = options.add_verb(
        verbs,
        "pin",
        run,
        summary="Keep a session, so that no delete or gc removes it.",
        more="Refused while it is open in a program. Exit status: 0 done, 1 damage, 2 usage, 3\n"
        "not readable or open elsewhere.",
        example="durasess pin a1 --store ~/.myagent/sessions",
    )
    stores.add_session(parser)
    parser.add_argument("--undo", action="store_true", help="let it be removed again")


def run(chosen: argparse.Namespace, output: Output) -> int:
    """Do it and say so."""
    store, session_id = stores.session(chosen)
    (store.unpin if chosen.undo else store.pin)(session_id)
    words = "is not pinned any more" if chosen.undo else "is pinned now"
    stores.said(output, {"session_id": session_id, "pinned": not chosen.undo}, words)
    return SOUND
