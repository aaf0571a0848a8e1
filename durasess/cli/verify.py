"""`durasess verify`: read every byte of sessions and say what is wrong. Changes nothing."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import msgspec

from durasess.cli import options
from durasess.cli.blocks import Block, Column, Fact, Facts, Notes, Row, Table, count, span
from durasess.cli.examine import STATUS, TONE, health_of, is_session
from durasess.cli.metered import MeteredFiles, bytes_to_read
from durasess.cli.output import Output
from durasess.engine import files, paths, verify
from durasess.engine.verify import Verified
from durasess.errors import DurasessError, SessionNotFoundError


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """One session: `health` as inspect says it, `found` when it could be read, else `problem`."""

    path: str
    health: str
    problem: str | None = None
    found: Verified | None = None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All sessions that were checked; `status` is the exit status, that of the worst."""

    status: int
    sessions: list[Checked]


def add_to(verbs: options.Verbs) -> None:
    """Declare the verb."""
    parser = options.add_verb(
        verbs,
        "verify",
        run,
        summary="Read every byte of sessions and report all damage.",
        more="A directory of sessions stands for all of them. Changes nothing. Exit status, by\n"
        "the worst: 0 sound, 1 damage, 2 usage, 3 not readable.",
        example="durasess verify ~/.myagent/sessions",
    )
    parser.add_argument(
        "path", metavar="PATH", nargs="+", help="a session, its id, or a store of them"
    )


def run(chosen: argparse.Namespace, output: Output) -> int:
    """Check them all and print; the status is the worst one's."""
    looking = files.RealFiles()
    named = [one for path in chosen.path for one in _sessions(looking, options.directory(path))]
    with output.progress("verify", bytes_to_read(*named), in_bytes=True) as step:
        disk = MeteredFiles(step)
        checked = [_check(disk, directory) for directory in named]
    status = max((STATUS[one.health] for one in checked), default=0)
    output.report(Report(status=status, sessions=checked), lambda: _blocks(checked))
    return status


def _sessions(disk: files.Files, directory: str) -> list[str]:
    """The session at a path, or the sessions of the store there. What cannot be listed stands for
    itself, so that checking it says why."""
    try:
        if is_session(disk, directory):
            return [directory]
        inside = [
            paths.join(directory, name)
            for name in sorted(disk.listdir(directory))
            if not name.startswith(".")
        ]
    except OSError:
        return [directory]
    return [path for path in inside if _may_be_session(disk, path)] or [directory]


def _may_be_session(disk: files.Files, path: str) -> bool:
    try:
        return is_session(disk, path)
    except NotADirectoryError:
        return False
    except OSError:
        return True


def _check(disk: files.Files, directory: str) -> Checked:
    try:
        found = verify.verify(directory, files=disk)
    except SessionNotFoundError as error:
        hint = " Give the directory of a session, or one whose directories are sessions."
        return Checked(path=directory, health="unreadable", problem=f"{error}{hint}")
    except DurasessError as error:
        return Checked(path=directory, health="unreadable", problem=str(error))
    return Checked(path=directory, health=health_of(found), found=found)


def _blocks(checked: list[Checked]) -> Iterator[Block]:
    columns = (Column("session"), Column("health"), Column("events"), Column("checked"))
    yield Table("", columns, [Row(_cells(one), TONE[one.health]) for one in checked])
    for one in checked:
        yield from _findings(one)
    healths = [one.health for one in checked]
    parts = [f"{healths.count(word)} {word}" for word in STATUS if word in healths]
    yield Facts("", [Fact("in all", count(len(checked), "session"), ", ".join(parts))])


def _cells(one: Checked) -> tuple[str, ...]:
    found = one.found
    if found is None:
        return paths.base(one.path), one.health, "-", "-"
    seqs = span(found.first_seq, found.last_seq) if found.last_seq >= found.first_seq else "none"
    size = sum(info.bytes for info in found.segments) + sum(info.bytes for info in found.snapshots)
    files_read = len(found.segments) + len(found.snapshots)
    return found.session_id, one.health, seqs, f"{size:,} bytes in {count(files_read, 'file')}"


def _findings(one: Checked) -> Iterator[Block]:
    name = paths.base(one.path)
    if one.found is None:
        yield Notes(f"{name}: not readable", [one.problem or ""], "bad")
        return
    found = one.found
    if found.torn is not None:
        line = (
            f"{found.torn.path}: {count(found.torn.size, 'byte')} at byte {found.torn.offset:,} "
            f"were never acknowledged; the next open sets them aside ({found.torn.reason})"
        )
        yield Notes(f"{name}: torn tail", [line], "warn")
    if found.damage:
        lines = [str(damage) for damage in found.damage]
        lines.append(
            f'"durasess inspect {one.path}" shows what is readable, "durasess repair {one.path}" '
            "what repair would do."
        )
        yield Notes(f"{name}: damage", lines, "bad")
    if found.notices:
        yield Notes(f"{name}: notices", found.notices, "warn")
