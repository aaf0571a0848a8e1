"""`durasess drill`: record → kill -9 → recover → compare, again and again, with a real worker."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator
from random import Random

import msgspec

from durasess.cli import drill_agent, drill_source, options
from durasess.cli.blocks import Block, Column, Fact, Facts, Notes, Row, Table, count, number
from durasess.cli.drill_agent import AgentDrill, AgentResult
from durasess.cli.drill_rounds import Drill, Result, WriterResult
from durasess.cli.drill_shared import SharedDrill
from durasess.cli.drill_source import WRITERS_MAX, Source
from durasess.cli.output import DAMAGE, SOUND, Output
from durasess.engine import files, paths
from durasess.errors import StorageError
from durasess.store import file_system

KILLS = 40
AGENT_KILLS = 20

_WRITER_COLUMNS = (
    Column("writer", right=True),
    Column("kills", right=True),
    Column("acknowledged", right=True),
    Column("in the log", right=True),
)


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A drill: what was asked, where it ran, what came out. `kept` says that `path` is still
    there."""

    passed: bool
    path: str
    kept: bool
    file_system: str
    seed: int
    input: str | None
    result: Result | AgentResult


def add_to(verbs: options.Verbs) -> None:
    """Declare the verb."""
    parser = options.add_verb(
        verbs,
        "drill",
        run,
        summary="Kill a real writer again and again and check that nothing is lost.",
        more="Each round starts a process that appends events, kills it (-9) at a random moment,\n"
        "recovers the session and compares it event by event with what was issued. With --writers\n"
        "several append to one session; one is killed each round while the others go on.\n"
        "With --agent the process is a coding agent with a scripted model; its session, files and\n"
        "effects are compared with those of one that nobody kills.\n"
        "Exit status: 0 passed, 1 something was lost, duplicated or different, 2 usage, 3 failed.",
        example="durasess drill --kills 100 --input session.jsonl",
    )
    parser.add_argument(
        "--kills",
        metavar="N",
        type=options.positive,
        help=f"how many (default: {KILLS}, with --agent {AGENT_KILLS})",
    )
    parser.add_argument(
        "--agent",
        action="store_true",
        help="kill a coding agent that uses sessions, not a process that only appends",
    )
    parser.add_argument(
        "--writers",
        metavar="N",
        type=_writers,
        default=1,
        help=f"so many share the session, 2 to {WRITERS_MAX}: one is killed, the others must go on",
    )
    parser.add_argument(
        "--seed",
        metavar="S",
        type=int,
        default=1,
        help="decides on events and moments (default: 1)",
    )
    parser.add_argument(
        "--input", metavar="FILE", help="append its lines, over and over, not made-up events"
    )
    parser.add_argument(
        "--dir", metavar="DIR", help="keep the session below DIR (default: a temporary directory)"
    )


def run(chosen: argparse.Namespace, output: Output) -> int:
    """Drill and print; the status tells whether it passed."""
    source = Source(chosen.seed, None if chosen.input is None else os.path.abspath(chosen.input))
    _check_agent(chosen)
    _check_input(source)
    kills = chosen.kills or (AGENT_KILLS if chosen.agent else KILLS)
    disk = files.RealFiles()
    folder = _folder(disk, chosen.dir)
    path = paths.join(folder, f"drill-{chosen.seed}")
    _refuse_existing(disk, path)
    kept = True
    try:
        with output.progress("kill -9", kills) as step:
            result = _drill(path, source, chosen).run(kills, step)
        passed = result.is_clean
        kept = chosen.dir is not None or not passed
    except KeyboardInterrupt:
        kept = chosen.dir is not None
        raise
    finally:
        where = file_system.file_system_of(folder).kind
        if not kept:
            _remove(disk, folder)
    report = Report(
        passed=passed,
        path=path,
        kept=kept,
        file_system=where,
        seed=chosen.seed,
        input=source.input,
        result=result,
    )
    output.report(report, lambda: _blocks(report))
    return SOUND if passed else DAMAGE


def _drill(
    path: str, source: Source, chosen: argparse.Namespace
) -> Drill | SharedDrill | AgentDrill:
    rng = Random(chosen.seed)
    if chosen.agent:
        return AgentDrill(path, rng)
    if chosen.writers == 1:
        return Drill(path, source, rng)
    return SharedDrill(path, source, rng, chosen.writers)


def _check_agent(chosen: argparse.Namespace) -> None:
    if chosen.agent and (chosen.input is not None or chosen.writers > 1):
        raise options.UsageError(
            "--agent goes with neither --input nor --writers: an agent works alone and makes its "
            "own events. Leave one of them out."
        )


def _check_input(source: Source) -> None:
    """Every line must be one that can be stored, before anything is started."""
    if source.input is None:
        return
    try:
        lines = drill_source.input_lines(source.input)
    except OSError as error:
        raise StorageError(f"{source.input} cannot be read: {error}.", path=source.input) from error
    if not lines:
        raise options.UsageError(f"{source.input} has no lines; give a file that has some.")
    for index, line in enumerate(lines, 1):
        problem = drill_source.problem_of(line)
        if problem is not None:
            raise options.UsageError(f"{source.input}, line {index}: {problem}")


def _folder(disk: files.Files, chosen: str | None) -> str:
    if chosen is None:
        return os.path.realpath(tempfile.mkdtemp(prefix="durasess-drill-"))
    folder = os.path.realpath(os.path.expanduser(chosen))
    try:
        disk.mkdir(folder)
    except FileExistsError:
        pass
    return folder


def _refuse_existing(disk: files.Files, path: str) -> None:
    try:
        disk.stat(path)
    except FileNotFoundError:
        return
    raise options.UsageError(
        f"{path} is there already, from an earlier drill. Choose another --seed or --dir."
    )


def _remove(disk: files.Files, path: str) -> None:
    """A directory that this drill made, and all in it."""
    for name in disk.listdir(path):
        inside = paths.join(path, name)
        if disk.stat(inside).directory:
            _remove(disk, inside)
        else:
            disk.unlink(inside)
    disk.rmdir(path)


def _blocks(report: Report) -> Iterator[Block]:
    result = report.result
    word = "passed" if report.passed else "failed"
    note = f"{count(result.kills, 'kill')} in {result.seconds:.1f} s, seed {report.seed}"
    where = f"on {report.file_system}" if report.file_system else ""
    is_agent = isinstance(result, AgentResult)
    facts = [
        Fact("drill", word, note, "good" if report.passed else "bad"),
        Fact("events", "a coding agent's" if is_agent else report.input or "made up"),
        Fact(
            "sessions" if is_agent else "session",
            report.path,
            f"{where}, {'kept' if report.kept else 'removed'}".strip(", "),
        ),
    ]
    yield Facts("", facts)
    columns = (Column("what"), Column("count", right=True), Column(""))
    if isinstance(result, AgentResult):
        yield Table("", columns, list(drill_agent.rows(result)))
    else:
        yield Table("", columns, list(_rows(result)))
        if result.writers:
            yield Table("", _WRITER_COLUMNS, [_writer_row(one) for one in result.writers])
    if result.problems:
        yield Notes("what went wrong", result.problems, "bad")


def _rows(result: Result) -> Iterator[Row]:
    while_writing = result.kills - result.kills_while_opening
    opening = "joining" if result.writers else "recovering"
    yield Row(
        (
            "kills",
            number(result.kills),
            f"{while_writing} while appending, {result.kills_while_opening} while {opening}",
        )
    )
    yield Row(("torn tails", number(result.torn_tails), f"{result.unclean} logs left open"))
    yield Row(("snapshots", number(result.snapshots), f"{number(result.segments)} segments"))
    beyond = f"{number(result.beyond)} more were recovered that nobody had been told of"
    yield Row(("acknowledged", number(result.acknowledged), beyond))
    for name, value in (
        ("lost", result.lost),
        ("duplicated", result.duplicated),
        ("different", result.different),
    ):
        yield Row((name, number(value), ""), "bad" if value else "plain")
    yield Row(("recovery ms, median", f"{result.recovery_ms_median:.1f}", ""))
    yield Row(("recovery ms, maximum", f"{result.recovery_ms_max:.1f}", ""))
    if result.writers:
        others = "after a kill, until each of the others had its next event"
        yield Row(("going on ms, median", f"{result.going_on_ms_median:.1f}", others))
        yield Row(("going on ms, maximum", f"{result.going_on_ms_max:.1f}", ""))


def _writer_row(one: WriterResult) -> Row:
    counts = (one.writer, one.kills, one.acknowledged, one.events)
    return Row(tuple(number(value) for value in counts))


def _writers(text: str) -> int:
    """An argument type: how many writers."""
    value = int(text)
    if not 1 <= value <= WRITERS_MAX:
        raise argparse.ArgumentTypeError(f"expected 1 to {WRITERS_MAX}, found {value}")
    return value
