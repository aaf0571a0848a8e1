"""`durasess repair`: make a damaged session writable again; a dry run unless told otherwise."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import msgspec

from durasess.cli import options, stores
from durasess.cli.blocks import Block, Fact, Facts, Notes, Tone, count, number
from durasess.cli.metered import MeteredFiles, bytes_to_read
from durasess.cli.output import DAMAGE, SOUND, Output
from durasess.engine import paths, repair, verify
from durasess.engine.repair import Repaired
from durasess.engine.types import Damage


def add_to(verbs: options.Verbs) -> None:
    """Declare the verb."""
    parser = options.add_verb(
        verbs,
        "repair",
        run,
        summary="Make a damaged session writable again, keeping what is taken out.",
        more="Without --apply it only says what would be done. What is taken out of the log is\n"
        "kept in the session's quarantine. Large values that are lost are named, and cannot be\n"
        "made again. Exit status: 0 nothing is left to repair, 1 damage is there or still there,\n"
        "2 usage, 3 not readable or open in a writer.",
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
        found = verify.verify(directory, files=disk).damage
    blobs = [one for one in found if one.rule == "blob"]
    # What repair works on, it tells itself.
    is_done = not left.damage and not left.actions
    history = [one for one in found if one.rule != "blob"] if is_done else []
    beyond = {"blobs": msgspec.to_builtins(blobs), "history": msgspec.to_builtins(history)}
    output.report(options.fields(done) | beyond, lambda: _blocks(done, left, blobs, history))
    if chosen.apply:
        return DAMAGE if left.damage or blobs or history else SOUND
    return DAMAGE if done.damage or done.actions or blobs or history else SOUND


def _blocks(
    done: Repaired, left: Repaired, blobs: list[Damage], history: list[Damage]
) -> Iterator[Block]:
    word, note, tone = _outcome(done, left)
    if word == "not needed" and (blobs or history):
        note, tone = "it can be opened for writing; what is lost is below", "warn"
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
    if history:
        lines = [str(one) for one in history]
        lines.append(
            "Opening needs none of it, since a newer snapshot is sound, and repair cannot make it "
            "again: copy these files back from a copy of the session. Until then their events "
            "cannot be read."
        )
        yield Notes("history that repair cannot bring back", lines, "bad")
    if blobs:
        lines = [str(one) for one in blobs]
        lines.append(
            "The events that name them stay, and the session can be written. Repair makes no value "
            "again: copy these files back from a copy of the session, or let the program put the "
            "same bytes again."
        )
        yield Notes("large values that repair cannot bring back", lines, "bad")
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
