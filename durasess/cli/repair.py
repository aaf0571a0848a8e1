"""`durasess repair`: make a damaged session writable again; a dry run unless told otherwise."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from durasess.cli import options, stores
from durasess.cli.blocks import Block, Fact, Facts, Notes, Tone, count, number
from durasess.cli.metered import MeteredFiles, bytes_to_read
from durasess.cli.output import DAMAGE, SOUND, Output
from durasess.engine import paths, repair
from durasess.engine.repair import Repaired


def add_to(verbs: options.Verbs) -> None:
    """Declare the verb."""
    parser = options.add_verb(
        verbs,
        "repair",
        run,
        summary="Make a damaged session writable again, keeping what is taken out.",
        more="Without --apply it only says what would be done. What is taken out of the log is\n"
        "kept in the session's quarantine. Exit status: 0 nothing is left to repair, 1 damage is\n"
        "there or still there, 2 usage, 3 not readable or open in a writer.",
        example="durasess repair ~/.myagent/sessions/a1 --apply",
    )
    stores.add_session(parser)
    parser.add_argument("--apply", action="store_true", help="do it (default: a dry run)")


def run(chosen: argparse.Namespace, output: Output) -> int:
    """Plan or do the repair and print it; the status tells whether damage remains."""
    directory = stores.directory(chosen)
    with output.progress("reading", bytes_to_read(directory), in_bytes=True) as step:
        disk = MeteredFiles(step)
        done = repair.repair(directory, files=disk, apply=chosen.apply)
        left = repair.repair(directory, files=disk) if chosen.apply else done
    output.report(done, lambda: _blocks(done, left))
    if chosen.apply:
        return DAMAGE if left.damage else SOUND
    return DAMAGE if done.damage or done.actions else SOUND


def _blocks(done: Repaired, left: Repaired) -> Iterator[Block]:
    word, note, tone = _outcome(done, left)
    facts = [
        Fact("session", paths.base(done.path)),
        Fact("repair", word, note, tone),
        Fact("log", _log_words(done), _readable_words(done)),
        Fact("path", done.path),
    ]
    yield Facts("", facts)
    if done.damage:
        yield Notes("damage", [str(one) for one in done.damage], "bad")
    if done.beyond_repair is not None:
        yield Notes("nothing can be done", [done.beyond_repair], "bad")
    if done.actions:
        title = "what was done" if done.applied else "what --apply would do"
        yield Notes(title, [f"{index}. {one}" for index, one in enumerate(done.actions, 1)])
    if done.set_aside:
        yield Notes("set aside", done.set_aside)
    if done.applied and left.damage:
        yield Notes("still damaged", [str(one) for one in left.damage], "bad")


def _outcome(done: Repaired, left: Repaired) -> tuple[str, str, Tone]:
    if not done.actions and not done.damage:
        return "not needed", "nothing was changed", "good"
    if done.beyond_repair is not None:
        return "not possible", "nothing was changed", "bad"
    if not done.applied:
        return "dry run", "nothing was changed; --apply does what is listed", "warn"
    if left.damage:
        return "not possible", "damage is still there", "bad"
    return "done", "the session can be opened for writing again", "good"


def _log_words(done: Repaired) -> str:
    verb = "ends" if done.applied or not done.actions else "would end"
    return f"{verb} at seq {number(done.kept_through)}"


def _readable_words(done: Repaired) -> str:
    if not done.readable:
        return ""
    kept = "kept" if done.applied else "to be kept"
    return f"{count(done.readable, 'event')} behind the damage can be read, {kept} in quarantine"
