"""`durasess rewind`: take back what was said behind an event; a dry run unless told otherwise."""

from __future__ import annotations

import argparse

from durasess.cli import options, stores
from durasess.cli.blocks import count, number
from durasess.cli.output import SOUND, Output
from durasess.store.store import Store


def add_to(verbs: options.Verbs) -> None:
    """Declare the verb."""
    parser = options.add_verb(
        verbs,
        "rewind",
        run,
        summary="Take back what was said behind an event of a session.",
        more="The messages do not count any more; the events stay in the log, and files as they\n"
        "are. To keep both, fork at that event instead. Without --apply it only says what does\n"
        "not count any more. Refused while it is open in a program, or a run has no end. Exit\n"
        "status: 0 done or dry run, 1 damage, 2 usage, 3 not readable, refused or open elsewhere.",
        example="durasess rewind a1 --to 412 --store ~/.myagent/sessions --apply",
    )
    stores.add_session(parser)
    parser.add_argument(
        "--to",
        metavar="SEQ",
        type=options.positive,
        required=True,
        help="the last event that still counts",
    )
    parser.add_argument("--apply", action="store_true", help="do it (default: a dry run)")


def run(chosen: argparse.Namespace, output: Output) -> int:
    """Say what would not count any more, or do it."""
    store, session_id = stores.session(chosen)
    with Store(store.path).open(session_id, mode="read") as session:
        if chosen.to >= session.last_seq:
            raise options.UsageError(
                f"seq {number(chosen.to)} is not before the last event, {number(session.last_seq)}."
            )
        gone = sum(one.seq > chosen.to for one in session.history())
    if chosen.apply:
        store.rewind(session_id, to=chosen.to)
    verb = "do not count any more" if chosen.apply else "would not count any more; --apply does it"
    words = f"{count(gone, 'message')} behind seq {number(chosen.to)} {verb}"
    done = {"session_id": session_id, "to": chosen.to, "messages": gone, "applied": chosen.apply}
    stores.said(output, done, words)
    return SOUND
