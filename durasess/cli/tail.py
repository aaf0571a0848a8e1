"""`durasess tail`: print events as they are appended, beside any number of writers."""

from __future__ import annotations

import argparse
import time
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from durasess.cli import events, options, stores
from durasess.cli.blocks import Row, count
from durasess.cli.cursor import Cursor, Told
from durasess.cli.masking import Masker
from durasess.cli.output import SOUND, Output
from durasess.engine import files

LAST = 10
"""Events shown first, unless told otherwise."""

INTERVAL = 0.1
"""Seconds between two looks."""

_WIDEST_SEQ = 9_999_999


def add_to(verbs: options.Verbs) -> None:
    """Declare the verb."""
    parser = options.add_verb(
        verbs,
        "tail",
        run,
        summary="Print the events of a session as they are appended, until Ctrl-C.",
        more="Changes nothing, needs no lock, delays no writer; follows across segments. An event\n"
        "is shown when it is acknowledged. Secrets are masked. Exit status: 130 after Ctrl-C,\n"
        "1 damage, 2 usage, 3 not readable, or no longer the session that was shown.",
        example="durasess tail ~/.myagent/sessions/a1 -n 3 --json | jq .type",
        json_lines=True,
    )
    stores.add_session(parser)
    parser.add_argument(
        "-n",
        "--limit",
        dest="last",
        metavar="N",
        type=options.count,
        help=f"show the last N events first (default: {LAST}, or with --after all behind it)",
    )
    parser.add_argument(
        "--after", metavar="SEQ", type=options.count, help="begin behind the event with this seq"
    )
    options.add_show_secrets(parser)


def run(chosen: argparse.Namespace, output: Output) -> int:
    """Print until Ctrl-C, or an error."""
    cursor = Cursor(files.RealFiles(), stores.session_directory(chosen))
    masker = Masker(show=chosen.show_secrets)
    last = chosen.last
    if last is None and chosen.after is None:
        last = LAST
    after = max(chosen.after or 0, cursor.newest() - last if last is not None else 0)
    first_seq = cursor.start(after)
    if chosen.after is not None and after == chosen.after and first_seq > after + 1:
        raise options.UsageError(
            f"the events up to seq {first_seq - 1} were pruned; give --after {first_seq - 1}."
        )
    try:
        first = cursor.read() if last is None else deque(cursor.read(), maxlen=last)
        shown = (_shown(told, masker) for told in _rounds(first, cursor))
        output.follow(events.columns(_WIDEST_SEQ), shown)
    finally:
        cursor.close()
        if masker.count:
            was = "was" if masker.count == 1 else "were"
            secrets = count(masker.count, "secret")
            output.remark(f"{secrets} {was} masked; --show-secrets shows such.")
    return SOUND


def _rounds(first: Iterable[Told], cursor: Cursor) -> Iterator[Iterable[Told]]:
    """What each look gives."""
    yield first
    while True:
        time.sleep(INTERVAL)
        yield cursor.read()


def _shown(told: Iterable[Told], masker: Masker) -> Iterator[tuple[Row, Any]]:
    for one in told:
        if one.event is None:
            value: dict[str, Any] = {"seq": None, "problem": one.missing}
        else:
            value = masker.value(options.fields(one.event)) | {"bytes": one.size}
        yield events.row(value), value
