"""`durasess archive`: put a session away, or take it back."""

from __future__ import annotations

import argparse

from durasess.cli import options, stores
from durasess.cli.output import SOUND, Output


def add_to(verbs: options.Verbs) -> None:
    """Declare the verb."""
    parser = options.add_verb(
        verbs,
        "archive",
        run,
        summary="Put a session away, so that it takes no run and is not the latest.",
        more="Nothing of it is removed. Refused while it is open in a program. Exit status: 0\n"
        "done, 1 damage, 2 usage, 3 not readable or open elsewhere.",
        example="durasess archive a1 --store ~/.myagent/sessions",
    )
    stores.add_session(parser)
    parser.add_argument("--undo", action="store_true", help="make it active again")


def run(chosen: argparse.Namespace, output: Output) -> int:
    """Do it and say so."""
    store, session_id = stores.session(chosen)
    (store.unarchive if chosen.undo else store.archive)(session_id)
    status = "active" if chosen.undo else "archived"
    stores.said(output, {"session_id": session_id, "status": status}, f"is {status} now")
    return SOUND
