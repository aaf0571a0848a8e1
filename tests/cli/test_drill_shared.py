"""`durasess drill --writers N`: one of several writers is really killed, the others really go on,
and what would be wrong is really found."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

from durasess import Engine
from durasess.cli import drill_process
from durasess.cli.drill_compare import Told
from durasess.cli.drill_process import Killable
from durasess.cli.drill_rounds import Result
from durasess.cli.drill_shared import SharedDrill
from durasess.cli.drill_source import STREAMS, Source
from durasess.cli.main import main
from tests.cli import sessions

SOURCE = Source(7)


def drilled(path: Path, kills: int, writers: int = 2) -> Result:
    """A few rounds; the writers are processes of their own."""
    drill = SharedDrill(str(path), SOURCE, Random(7), writers)
    return drill.run(kills, lambda amount=1: None)


def test_few_kills_pass_and_the_table_counts_for_each_writer(tmp_path: Path) -> None:
    done = sessions.run(
        "drill", "--writers", "3", "--kills", "3", "--seed", "3", "--dir", str(tmp_path)
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == "" and "\x1b" not in done.stdout
    rows = [line.split() for line in done.stdout.splitlines()]
    head = rows.index(["writer", "kills", "acknowledged", "in", "the", "log"])
    counts = [[int(word.replace(",", "")) for word in row] for row in rows[head + 1 : head + 4]]
    assert [one[0] for one in counts] == [1, 2, 3]
    assert sum(one[1] for one in counts) == 3
    with Engine.open(tmp_path / "drill-3", mode="read") as engine:
        assert sum(one[3] for one in counts) == engine.last_seq
        assert not engine.damage


def test_lines_of_a_file_are_appended_by_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "lines.jsonl"
    source.write_bytes(b'{"a":1}\nnot json\n')
    arguments = ["drill", "--writers", "2", "--kills", "2", "--input", str(source), "--json"]
    assert main(arguments) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["passed"] and not report["kept"]
    writers = report["result"]["writers"]
    assert [one["writer"] for one in writers] == [1, 2]
    assert all(one["events"] >= one["acknowledged"] for one in writers)
    assert all(one["acknowledged"] > 0 for one in writers if went_on(one["kills"], 2))
    assert report["result"]["going_on_ms_max"] >= report["result"]["going_on_ms_median"]


def test_each_writer_has_streams_of_its_own(tmp_path: Path) -> None:
    result = drilled(tmp_path / "s", 3)
    with Engine.open(tmp_path / "s", mode="read") as engine:
        streams = {int((event.event_id or "").split(":")[0]) for event in engine.events()}
    writers = {stream // STREAMS + 1 for stream in streams}
    must = {one.writer for one in result.writers if went_on(one.kills, 3)}
    assert must <= writers <= {1, 2}


def went_on(killed: int, kills: int) -> bool:
    """Whether a writer was one of the others at least once, and so must have appended."""
    return killed < kills


def test_event_that_was_acknowledged_and_is_not_there_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Killable.told

    def told(self: Killable) -> Told:
        found = whole(self)
        found.acknowledged[10**9] = "ffffffff"
        return found

    monkeypatch.setattr(Killable, "told", told)
    result = drilled(tmp_path / "s", 5)
    assert result.lost > 0 and result.kills == 1, "a drill that found something stops"
    assert "seq 1000000000 was acknowledged and is not there" in result.problems[0]


def test_event_that_nobody_said_they_would_append_is_different(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Killable.told

    def told(self: Killable) -> Told:
        found = whole(self)
        found.issued.clear()
        return found

    monkeypatch.setattr(Killable, "told", told)
    monkeypatch.setattr(Killable, "issued", lambda self, stream, position: 0)
    result = drilled(tmp_path / "s", 5)
    assert result.different > 0 and "never issued" in result.problems[0]


@pytest.mark.skipif(sys.platform == "win32", reason="a process cannot be stopped there")
def test_writer_that_does_not_go_on_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = SharedDrill._check_going_on

    def check(self: SharedDrill, others: list[Killable], *more: Any) -> None:
        # Not before they have begun, which takes as long as it takes.
        monkeypatch.setattr(drill_process, "LONGEST_WAIT", 2.0)
        others[0]._process.send_signal(signal.SIGSTOP)
        # What it told before it was stopped must not count.
        others[0].wait_for("acknowledged", more_than=10**9)
        whole(self, others, [others[0].count("acknowledged")], *more[1:])

    monkeypatch.setattr(SharedDrill, "_check_going_on", check)
    result = drilled(tmp_path / "s", 5)
    assert result.kills == 1
    assert any("got no event" in problem for problem in result.problems), result.problems


def test_writers_that_do_not_even_make_the_session_fail_the_drill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drill_process, "LONGEST_WAIT", 0.0)
    result = drilled(tmp_path / "s", 5)
    assert result.kills == 1 and result.segments in (0, 1)
    assert any("told nothing" in problem for problem in result.problems), result.problems


def test_writer_that_cannot_work_fails_the_drill(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "mine").write_text("not a session")
    result = drilled(tmp_path / "s", 3)
    assert result.kills == 1
    assert any("a writer failed" in problem for problem in result.problems)
