"""`durasess fork`: a new session with the events of another up to a seq."""

from __future__ import annotations

import argparse

from durasess.cli import options, stores
from durasess.cli.output import SOUND, Output
from durasess.engine.files import RealFiles
from durasess.store import rows


def add_to(verbs: options.Verbs) -> None:
    """Declare the verb."""
    parser = options.add_verb(
        verbs,
        "fork",
        run,
        summary="Make a new session of the first events of another one.",
        more="The other one stays as it is, byte by byte, and may be open. Calls that were open\n"
        "at the cut are closed in the fork as not run in this branch. Exit status: 0 done,\n"
        "1 damage, 2 usage, 3 not readable.",
        example="durasess fork a1 --at 412 --store ~/.myagent/sessions",
    )
    stores.add_session(parser)
    parser.add_argument(
        "--at", metavar="SEQ", type=options.positive, help="the last event of it (default: all)"
    )
    parser.add_argument("--id", metavar="ID", help="the new session's id (default: a new one)")


def run(chosen: argparse.Namespace, output: Output) -> int:
    """Make it and print its id."""
    store, session_id = stores.session(chosen)
    made = store.make_fork(session_id, at_seq=chosen.at, new_id=chosen.id)
    row = rows.required(RealFiles(), store.path, made)
    done = {"session_id": made, "path": row.path, "parent": session_id, "at": row.parent_seq}
    stores.said(output, done, f"is a fork of {session_id} at seq {row.parent_seq}: {row.path}")
    return SOUND
