"""`durasess doctor`: look a store over and say what to do. Changes nothing but, if told, the
index, and what was left over."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator

from durasess.cli import options, stores
from durasess.cli.blocks import Block, Column, Fact, Facts, Notes, Row, Table, Tone, count
from durasess.cli.output import DAMAGE, SOUND, UNREADABLE, Output
from durasess.store.doctor import Examined, Finding


def add_to(verbs: options.Verbs) -> None:
    """Declare the verb."""
    parser = options.add_verb(
        verbs,
        "doctor",
        run,
        summary="Look a store over and say what to do.",
        more="Where it lies, who may read it, which sessions are open and by whom, what was left\n"
        "behind, what looks damaged. Reads a few bytes of each session; `verify` reads them\n"
        "all. Exit status: 0 sound, 1 damage, 2 usage, 3 not readable.",
        example="durasess doctor ~/.myagent/sessions",
    )
    stores.add_store(parser, place=True)
    parser.add_argument(
        "--rebuild-index", action="store_true", help="make the index anew from the sessions"
    )
    parser.add_argument(
        "--clean",
        action="store_true",
        help="remove what cut-off deletions left, and unfinished sessions older than an hour",
    )


def run(chosen: argparse.Namespace, output: Output) -> int:
    """Look and print."""
    store = stores.catalog(chosen)
    removed = store.remove_leftovers() if chosen.clean and os.path.isdir(store.path) else ()
    rebuilt = store.rebuild_index() if chosen.rebuild_index else None
    found = store.examine()
    report = options.fields(found) | {"rebuilt": rebuilt and options.fields(rebuilt)}
    report |= {"removed": list(removed)}
    output.report(report, lambda: _blocks(found, removed))
    if not found.exists:
        return UNREADABLE
    return DAMAGE if found.unreadable else SOUND


def _blocks(found: Examined, removed: tuple[str, ...]) -> Iterator[Block]:
    system = found.file_system
    facts = [
        Fact("store", found.path, "" if found.exists else "there is none", _there(found)),
        Fact("sessions", count(found.sessions, "session")),
        Fact("file system", system.kind or "unknown", system.remark),
        Fact("open now", count(len(found.held), "session")),
        Fact("index", found.index, "made when a search needs it" * (found.index == "missing")),
    ]
    yield Facts("", facts)
    if removed:
        yield Notes("removed", list(removed), "good")
    if found.held:
        rows = [Row((one.session_id, one.mode, one.holder)) for one in found.held]
        yield Table("", (Column("open"), Column("mode"), Column("by")), rows)
    for kind in dict.fromkeys(one.kind for one in found.findings):
        yield from _kind(kind, found)
    if not found.findings and found.exists:
        yield Facts("", [Fact("findings", "none", "", "good")])


def _there(found: Examined) -> Tone:
    return "plain" if found.exists else "bad"


def _kind(kind: str, found: Examined) -> Iterator[Block]:
    findings = [one for one in found.findings if one.kind == kind]
    lines = [_line(one) for one in findings]
    if found.left_out.get(kind):
        lines.append(f"… {found.left_out[kind]:,} more")
    yield Notes(kind, lines, "bad" if any(one.is_bad for one in findings) else "warn")


def _line(one: Finding) -> str:
    what = one.what if one.path in one.what else f"{one.path}: {one.what}"
    return f"{what} {one.next}"
