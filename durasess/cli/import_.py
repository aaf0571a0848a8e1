"""`durasess import`: sessions of other tools into a store, once, and later what is new in them."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator

import msgspec

from durasess.cli import options, stores
from durasess.cli.blocks import Block, Column, Fact, Facts, Notes, Row, Table, Tone, count, number
from durasess.cli.metered import size_of
from durasess.cli.output import DAMAGE, SOUND, UNREADABLE, Output
from durasess.engine.files import RealFiles
from durasess.interop.formats import IMPORTERS
from durasess.interop.importing import Found, find_all, import_all
from durasess.interop.tally import ImportReport
from durasess.store.store import Store

_ANY = "any"
"""In the place of a format: what the first lines say."""

_PLACES_SHOWN = 20
_REASONS_SHOWN = 20


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Every file that was looked at; `status` is the exit status, that of the worst."""

    status: int
    store: str
    sessions: list[ImportReport]


def add_to(verbs: options.Verbs) -> None:
    """Declare the verb."""
    parser = options.add_verb(
        verbs,
        "import",
        run,
        summary="Import sessions of Codex CLI, pi and Claude Code.",
        more="A directory stands for all sessions below it; --all for those where the tools keep\n"
        "them. The files are read and never changed. Importing again adds what is new. Lines\n"
        "that cannot be read are kept and reported. Exit status, by the worst: 0 imported or\n"
        "nothing new, 1 lines that cannot be read or a file that is in conflict with what was\n"
        "imported, 2 usage, 3 not readable or open in a writer.",
        example="durasess import codex ~/.codex/sessions/2026/02/03/rollout-….jsonl",
    )
    parser.add_argument(
        "file",
        metavar="[FORMAT] FILE",
        nargs="*",
        help="session files, or directories of them; before them codex, pi, claude-code or "
        "durasess, where what the file says shall not decide",
    )
    parser.add_argument("--all", action="store_true", help="all sessions of the tool, or of all")
    stores.add_store(parser, also="--into")


def run(chosen: argparse.Namespace, output: Output) -> int:
    """Import them all and print; the status is the worst one's."""
    name, files = _ANY, chosen.file
    if files and files[0] in (*IMPORTERS, _ANY):
        name, files = files[0], files[1:]
    if chosen.all == bool(files):
        raise options.UsageError("say which: give FILEs, or --all.")
    asked = IMPORTERS.values() if name == _ANY else [IMPORTERS[name]]
    store = Store(stores.named(chosen))
    found = list(find_all(asked, os.environ) if chosen.all else _named(name, files, store.path))
    total = sum(size_of(RealFiles(), path) for path, _ in found)
    with output.progress("import", total, in_bytes=True) as step:
        reports = list(import_all(store, found, on_progress=step))
    status = max(map(_status, reports), default=SOUND)
    report = Report(status=status, store=store.path, sessions=reports)
    output.report(report, lambda: _blocks(report))
    return status


def _named(name: str, files: list[str], store: str) -> Iterator[Found]:
    """A directory of any format is asked of each importer; where the store itself is below it, that
    holds no foreign files."""
    importer = IMPORTERS.get(name)
    own = os.path.join(os.path.realpath(store), "")
    for file in map(os.path.expanduser, files):
        if not os.path.isdir(file):
            yield file, importer
            continue
        paths: dict[str, None] = {}
        for one in (importer,) if importer is not None else IMPORTERS.values():
            paths |= dict.fromkeys(one.find(file, os.environ))
        for path in paths:
            if not os.path.realpath(path).startswith(own):
                yield path, importer


def _status(report: ImportReport) -> int:
    if report.problem:
        return UNREADABLE
    return SOUND if report.is_whole else DAMAGE


def _tone(report: ImportReport) -> Tone:
    return ("good", "warn", "bad", "bad")[_status(report)]


def _blocks(report: Report) -> Iterator[Block]:
    names = ("lines", "kept", "reported", "messages", "calls", "results", "uncertain", "tokens")
    columns = (Column("session", whole=True), *(Column(name, right=True) for name in names))
    if report.sessions:
        rows = [Row(_cells(one), _tone(one)) for one in report.sessions]
        yield Table("", columns, rows)
    for one in report.sessions:
        yield from _findings(one)
    failed = sum(not one.is_whole for one in report.sessions)
    note = "all of them whole" if not failed else f"{number(failed)} not whole, see above"
    files = count(len(report.sessions), "file")
    if report.sessions and all(_is_known(one) for one in report.sessions):
        note = "nothing new"
    yield Facts("", [Fact("imported", files, note if report.sessions else "nothing was found")])
    yield Facts("", [Fact("store", report.store)])


def _is_known(one: ImportReport) -> bool:
    return one.is_whole and not one.lines and bool(one.skipped)


def _cells(one: ImportReport) -> tuple[str, ...]:
    numbers = (
        *(one.lines, one.kept, one.reported, one.messages, one.calls, one.results),
        *(one.uncertain, one.usage.total),
    )
    name = one.session_id or os.path.basename(one.path)
    return name, *(number(value) for value in numbers)


def _findings(one: ImportReport) -> Iterator[Block]:
    name = one.session_id or os.path.basename(one.path)
    if one.problem:
        yield Notes(f"{name}: not imported", [one.problem], "bad")
    if one.conflict:
        yield Notes(f"{name}: conflict", [f"{one.path}: {one.conflict}."], "bad")
    if one.places:
        more = one.reported - len(one.places[:_PLACES_SHOWN])
        lines = [f"{one.path}, {place}" for place in one.places[:_PLACES_SHOWN]]
        lines += [f"and {count(more, 'line')} more"] if more > 0 else []
        yield Notes(f"{name}: lines that could not be read, kept as they are", lines, "bad")
    if one.torn:
        line = f"{count(one.torn, 'byte')} at the end are no whole line yet; import again later"
        yield Notes(f"{name}: torn", [line], "warn")
    if one.reasons:
        ordered = sorted(one.reasons.items(), key=lambda reason: -reason[1])[:_REASONS_SHOWN]
        lines = [f"{number(times)} × {reason}" for reason, times in ordered]
        yield Notes(f"{name}: kept beside the conversation", lines, "dim")
