"""`durasess drill`: a real worker is really killed, and every kind of loss is really found."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from durasess import Draft, Engine, Event, Receipt
from durasess.cli import drill_rounds
from durasess.cli.drill_compare import Comparison, Tally
from durasess.cli.drill_rounds import Drill, Result
from durasess.cli.drill_source import STREAMS, WRITERS_MAX, Source, fold, value_of
from durasess.cli.main import main
from tests.cli import sessions

SOURCE = Source(7)


def drilled(path: Path, kills: int, source: Source = SOURCE) -> Result:
    """A few rounds in this process; the workers are processes of their own."""
    return Drill(str(path), source, Random(7)).run(kills, lambda amount=1: None)


def test_few_kills_pass_and_print_a_table(tmp_path: Path) -> None:
    done = sessions.run("drill", "--kills", "4", "--seed", "3", "--dir", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == "" and "\x1b" not in done.stdout
    lines = [line.split()[:2] for line in done.stdout.splitlines()]
    for word in ("kills", "acknowledged", "lost", "duplicated", "different", "snapshots"):
        assert any(line[0] == word and line[1] for line in lines if line), word
    assert ["drill", "passed"] in lines
    assert [one.name for one in tmp_path.iterdir() if one.name[0] != "."] == ["drill-3"]
    with Engine.open(tmp_path / "drill-3", mode="read") as engine:
        assert engine.last_seq > 0


def test_lines_of_a_file_are_appended_over_and_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "lines.jsonl"
    source.write_bytes(b'{"a":[1,2.50,"\xc3\xbc"]}\nnot json \xff\n{"n":1e999}\n')
    assert main(["drill", "--kills", "2", "--input", str(source), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["passed"] and not report["kept"] and not os.path.exists(report["path"])
    assert report["result"]["acknowledged"] > 3
    assert report["result"]["recovery_ms_max"] >= report["result"]["recovery_ms_median"] > 0


def test_wrong_use_is_status_2_or_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "drill-1").mkdir()
    assert main(["drill", "--input", str(tmp_path / "empty")]) == 2
    assert main(["drill", "--dir", str(tmp_path)]) == 2
    assert main(["drill", "--input", str(tmp_path / "absent")]) == 3
    said = capsys.readouterr().err
    assert "has no lines" in said and "from an earlier drill" in said and "absent" in said


# Loss, planted behind the engine's back between the kill and the next open.

Harm = Callable[[Path, int], bool]


def cut_before(path: Path, seq: int) -> bool:
    """Take the batch with an acknowledged event and all behind it out of the log, and whatever
    knows better: as if an engine had acknowledged it before it was written."""
    for one in [*path.glob("snapshot*"), path / "meta.json"]:
        one.unlink(missing_ok=True)
    (path / "lock").write_bytes(b"")
    for segment in sorted(path.glob("events_*.jsonl")):
        lines = segment.read_bytes().splitlines(keepends=True)
        kept = 1
        for index, line in enumerate(lines[1:], 1):
            fields = json.loads(line) if line.startswith(b'{"seq":') and line[-1:] == b"\n" else {}
            if fields.get("seq", seq) >= seq:
                break
            if fields.get("b") != 0:
                kept = index + 1
        else:
            continue
        segment.write_bytes(b"".join(lines[:kept]))
        for later in path.glob("events_*.jsonl"):
            if later.name > segment.name:
                later.unlink()
        return True
    return False


class PutBack:
    """Replaces the session by the copy of it that was taken first."""

    def __init__(self) -> None:
        self._copied_at = 0

    def __call__(self, path: Path, seq: int) -> bool:
        copy = path.with_name("copy")
        if not self._copied_at:
            shutil.copytree(path, copy)
            self._copied_at = int(json.loads((copy / "lock").read_bytes())["seq"])
            return False
        if seq <= self._copied_at:
            return False
        shutil.rmtree(path)
        copy.rename(path)
        return True


def plant(monkeypatch: pytest.MonkeyPatch, harm: Harm, *, with_receipt: bool) -> None:
    """Harm the session once, where the parent knows of an acknowledged event."""
    done: list[bool] = []
    whole = drill_rounds.reopen

    def harmed(path: str, at_least: Receipt | None) -> Engine:
        if at_least is not None and not any(done):
            done.append(harm(Path(path), at_least.seq))
        return whole(path, at_least if with_receipt else None)

    monkeypatch.setattr(drill_rounds, "reopen", harmed)


@pytest.mark.parametrize("with_receipt", [True, False])
@pytest.mark.parametrize("make", [lambda: cut_before, PutBack], ids=["cut", "put back"])
def test_lost_events_are_found(
    make: Callable[[], Harm], with_receipt: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, make(), with_receipt=with_receipt)
    result = drilled(tmp_path / "s", 20)
    assert result.lost > 0
    assert result.kills < 20, "a drill that found something stops"
    assert result.problems
    if with_receipt:
        assert "acknowledged events are missing" in result.problems[0]


def test_loss_is_status_1_and_keeps_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(monkeypatch, cut_before, with_receipt=True)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert main(["drill", "--kills", "20"]) == 1
    text = capsys.readouterr().out
    assert "drill     failed" in text and "what went wrong" in text
    (folder,) = tmp_path.iterdir()
    assert f"{folder}/drill-1" in text and (folder / "drill-1").is_dir()


def test_torn_tail_is_no_loss_and_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torn: list[bool] = []
    whole = drill_rounds.reopen

    def tear(path: str, at_least: Receipt | None) -> Engine:
        segments = sorted(Path(path).glob("events_*.jsonl"))
        if segments:
            lines = segments[-1].read_bytes().rstrip(b"\t")
            last = lines.split(b"\n")[-2]
            if lines.endswith(b"\n") and last.startswith(b'{"seq":'):
                seq = int(last.split(b",")[0].split(b":")[1])
                with open(segments[-1], "r+b") as segment:
                    segment.seek(len(lines))
                    segment.write(b'{"seq":%d,"ts":"20' % (seq + 1))
                torn.append(True)
        return whole(path, at_least)

    monkeypatch.setattr(drill_rounds, "reopen", tear)
    for attempt in range(12):
        result = drilled(tmp_path / f"s{attempt}", 3)
        assert result.problems == [] and result.lost == 0
        assert result.torn_tails >= len(torn)
        if torn:
            return
    pytest.fail("no kill left a segment open")


def test_worker_that_cannot_work_fails_the_drill(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "mine").write_text("not a session")
    result = drilled(tmp_path / "s", 3)
    assert result.kills == 1 and "the worker failed" in result.problems[0]


# The comparison itself.


def issued(count: int) -> list[Event]:
    """The first events as they are read back, all of stream 0."""
    return [event_of(seq, SOURCE.draft(0, seq)) for seq in range(1, count + 1)]


def event_of(seq: int, draft: Draft) -> Event:
    """An event as it is read back."""
    return Event(
        seq=seq, ts="", type=draft.type, data=draft.data, event_id=draft.event_id, crc=f"{seq:08x}"
    )


def compared(events: list[Event], acknowledged: int = 0, upto: int = 9) -> Tally:
    """The tally for these events when `upto` were issued."""
    tally = Tally()
    receipts = {seq: f"{seq:08x}" for seq in range(1, acknowledged + 1)}
    Comparison(SOURCE, tally, {0: upto}).compare(events, receipts)
    return tally


def counts(tally: Tally) -> tuple[int, int, int]:
    return tally.lost, tally.duplicated, tally.different


def test_what_was_issued_is_clean_acknowledged_or_not() -> None:
    assert compared(issued(5), acknowledged=3).is_clean


def test_acknowledged_event_that_is_not_there_is_lost() -> None:
    assert counts(compared(issued(5), acknowledged=7)) == (2, 0, 0)


def test_event_there_twice_is_duplicated() -> None:
    events = issued(3)
    events.append(event_of(4, SOURCE.draft(0, 3)))
    assert counts(compared(events)) == (0, 1, 0)


def test_gap_in_a_stream_is_lost() -> None:
    events = [*issued(2), event_of(3, SOURCE.draft(0, 5))]
    assert counts(compared(events)) == (2, 0, 0)


def test_gap_in_seq_is_lost_and_out_of_order() -> None:
    events = [*issued(2), event_of(4, SOURCE.draft(0, 3))]
    assert counts(compared(events)) == (1, 0, 1)


def test_changed_content_is_different() -> None:
    draft = SOURCE.draft(0, 1)
    changed = Draft(draft.type, {**draft.data, "extra": 1}, event_id=draft.event_id)
    assert counts(compared([event_of(1, changed)])) == (0, 0, 1)
    source = Source(1, __file__)
    tally = Tally()
    line = source.draft(0, 1)
    Comparison(source, tally, {0: 1}).compare([event_of(1, line)], {})
    assert tally.is_clean


def test_receipt_with_another_crc_is_different() -> None:
    tally = Tally()
    Comparison(SOURCE, tally, {0: 9}).compare(issued(2), {2: "ffffffff"})
    assert counts(tally) == (0, 0, 1)


@pytest.mark.parametrize("event_id", [None, "x", "0:", f"{STREAMS * WRITERS_MAX}:1", "-1:1", "0:١"])
def test_event_that_nobody_issued_is_different(event_id: str | None) -> None:
    draft = SOURCE.draft(0, 1)
    stranger = Draft(draft.type, draft.data, event_id=event_id)
    tally = compared([event_of(1, stranger)])
    assert tally.different == 1


def test_event_that_was_not_issued_yet_is_different() -> None:
    assert counts(compared(issued(3), upto=2)) == (0, 0, 1)


def test_state_of_other_events_is_different() -> None:
    tally = Tally()
    comparison = Comparison(SOURCE, tally, {0: 9})
    comparison.compare(issued(3), {})
    state: dict[str, object] = {}
    for event in issued(3):
        fold(state, event)
    comparison.compare_state(state)
    assert tally.is_clean
    fold(state, event_of(4, SOURCE.draft(0, 4)))
    comparison.compare_state(state)
    assert tally.different == 1


def test_values_of_lines_come_back_as_they_were(tmp_path: Path) -> None:
    deep = b"[" * 200 + b"]" * 200
    lines = [b'{"n":1.0}', b"NaN", b"", b"\xff\xfe", deep, b"1e400", b'"\\ud800"', b"1" * 40]
    with Engine.open(tmp_path / "s") as engine:
        for line in lines:
            engine.append("line", value_of(line))
        assert [event.data for event in engine.events()] == [value_of(line) for line in lines]
