"""`durasess delete`: remove one session for good; a dry run unless told otherwise."""

from __future__ import annotations

import argparse

from durasess.cli import options, stores
from durasess.cli.output import SOUND, Output
from durasess.engine import paths


def add_to(verbs: options.Verbs) -> None:
    """Declare the verb."""
    parser = options.add_verb(
        verbs,
        "delete",
        run,
        summary="Remove a session for good.",
        more="Without --apply it only says which one that is. Refused while it is open in a\n"
        "program, or pinned. Exit status: 0 done or dry run, 1 damage, 2 usage, 3 not\n"
        "readable, pinned or open elsewhere.",
        example="durasess delete a1 --store ~/.myagent/sessions --apply",
    )
    stores.add_session(parser)
    parser.add_argument("--apply", action="store_true", help="do it (default: a dry run)")
    parser.add_argument("--even-pinned", action="store_true", help="a pinned one too")


def run(chosen: argparse.Namespace, output: Output) -> int:
    """Say which session it is, or remove it."""
    store, session_id = stores.session(chosen)
    path = paths.join(store.path, session_id)
    if chosen.apply:
        store.delete(session_id, even_pinned=chosen.even_pinned)
    words = "was removed" if chosen.apply else "would be removed; --apply does it"
    done = {"session_id": session_id, "path": path, "applied": chosen.apply}
    stores.said(output, done, f"{words}: {path}")
    return SOUND
