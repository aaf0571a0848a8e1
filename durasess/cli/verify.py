"""`durasess verify`: read every byte of sessions and say what is wrong. Changes nothing."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import msgspec

from durasess.cli import examine, options, session_fold, states, stores
from durasess.cli.blocks import Block, Column, Fact, Facts, Notes, Row, Table, Tone, count, span
from durasess.cli.examine import health_of
from durasess.cli.metered import MeteredFiles, bytes_to_read
from durasess.cli.output import DAMAGE, Output
from durasess.engine import files, paths, verify
from durasess.engine.verify import Verified
from durasess.errors import DurasessError, SessionNotFoundError
from durasess.session import selfcheck
from durasess.store import holders

_LOOKS = 3
"""At a session that is being written, until what is found stays."""

CONTRADICTION = "contradiction"
STATUS = {**examine.STATUS, CONTRADICTION: DAMAGE}
TONE: dict[str, Tone] = {**examine.TONE, CONTRADICTION: "bad"}
"""Beside the healths of inspect: every byte is as it was written, and what they say cannot be."""


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """One session: `health` as inspect says it, or "contradiction"; `found` when it could be read,
    else `problem`. `findings` are those of the self-check of a session of the session layer."""

    path: str
    health: str
    problem: str | None = None
    found: Verified | None = None
    findings: list[str] = []


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
        more="A directory of sessions stands for all of them, none for the store. What the bytes\n"
        "say is checked too: calls, results and usage of an agent's session must fit each\n"
        "other. Changes nothing. Exit status, by the worst: 0 sound, 1 damage or a session that\n"
        "contradicts itself, 2 usage, 3 not readable.",
        example="durasess verify ~/.myagent/sessions",
    )
    parser.add_argument(
        "session",
        metavar="SESSION",
        nargs="*",
        help="its directory, or a store's; or its id, the beginning of that, or its title "
        "(default: all of the store)",
    )
    stores.add_store(parser)


def run(chosen: argparse.Namespace, output: Output) -> int:
    """Check them all and print; the status is the worst one's."""
    looking = files.RealFiles()
    given = [stores.directory_of(one, chosen.store) for one in chosen.session]
    named = [one for path in given for one in _sessions(looking, path)]
    if not given:
        named = _all_of(looking, stores.existing(chosen).path)
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
        if stores.is_session(directory):
            return [directory]
        return _inside(disk, directory) or [directory]
    except OSError:
        return [directory]


def _all_of(disk: files.Files, root: str) -> list[str]:
    """A store that is not there yet has none."""
    try:
        return _inside(disk, root)
    except FileNotFoundError:
        return []


def _inside(disk: files.Files, root: str) -> list[str]:
    names = [name for name in sorted(disk.listdir(root)) if not name.startswith(".")]
    return [path for name in names if _may_be_session(path := paths.join(root, name))]


def _may_be_session(path: str) -> bool:
    try:
        return stores.is_session(path)
    except OSError:
        return True


def _check(disk: files.Files, directory: str) -> Checked:
    for _ in range(_LOOKS):
        one = _checked(disk, directory)
        # A writer may have replaced both snapshots meanwhile.
        if not one.findings or holders.is_open(disk, directory) is False:
            break
    return one


def _checked(disk: files.Files, directory: str) -> Checked:
    try:
        found = verify.verify(directory, files=disk)
    except SessionNotFoundError as error:
        hint = " Give the directory of a session, or one whose directories are sessions."
        return Checked(path=directory, health="unreadable", problem=f"{error}{hint}")
    except DurasessError as error:
        return Checked(path=directory, health="unreadable", problem=str(error))
    health = health_of(found)
    findings = [] if found.damage else _contradictions(disk, found)
    return Checked(
        path=directory,
        health=CONTRADICTION if findings else health,
        found=found,
        findings=findings,
    )


def _contradictions(disk: files.Files, found: Verified) -> list[str]:
    """What keeps a session whose bytes are sound from being opened by an agent."""
    try:
        state = session_fold.state_of(disk, found)
        return [] if state is None else selfcheck.findings(state, found.last_seq)
    except states.UnusableError as error:
        return [f"{error}"]
    except Exception as error:
        # Whatever was made of it is said, and the next session is checked.
        return [f"its state cannot be checked: {error!r}"]


def _blocks(checked: list[Checked]) -> Iterator[Block]:
    columns = (Column("session", whole=True), Column("health"), Column("events"), Column("checked"))
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
    if one.findings:
        lines = [*one.findings, "With these no writer opens it; it can be read, and exported."]
        yield Notes(f"{name}: contradicts itself", lines, "bad")
    if found.notices:
        yield Notes(f"{name}: notices", found.notices, "warn")
