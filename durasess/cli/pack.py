"""`durasess pack`: a whole session as one file."""

from __future__ import annotations

import argparse

from durasess.cli import options, stores
from durasess.cli.output import SOUND, Output


def add_to(verbs: options.Verbs) -> None:
    """Declare the verb."""
    parser = options.add_verb(
        verbs,
        "pack",
        run,
        summary="Write a whole session into one file.",
        more="The file is a zip archive of the session's own files, so any tool opens it;\n"
        "`unpack` brings it into another store. Every byte is checked first. Refused while\n"
        "the session is open in a program. Exit status: 0 done, 1 damage, 2 usage, 3 not\n"
        "readable, open elsewhere, or the file is there.",
        example="durasess pack a1 a1.zip --store ~/.myagent/sessions",
    )
    stores.add_session(parser)
    parser.add_argument("file", metavar="FILE", help="the new file")


def run(chosen: argparse.Namespace, output: Output) -> int:
    """Write it and say so."""
    store, session_id = stores.session(chosen)
    done = store.pack(session_id, chosen.file)
    left = f", without {', '.join(done.left_out)}" if done.left_out else ""
    words = (
        f"is in {done.file} ({stores.short_size(done.size_bytes)}, seq 1 to {done.last_seq}){left}"
    )
    stores.said(output, options.fields(done), words)
    return SOUND
