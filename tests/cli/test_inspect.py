"""`durasess inspect`: the plain text of golden sessions, sound, torn, damaged and incomplete."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from durasess import Engine
from durasess.cli.main import main
from tests.cli import sessions


def inspect(capsys: pytest.CaptureFixture[str], path: Path, *more: str) -> tuple[int, str]:
    """Status and output; nothing may be said on stderr."""
    status = main(["inspect", str(path), *more])
    said = capsys.readouterr()
    assert said.err == ""
    return status, said.out


def as_json(capsys: pytest.CaptureFixture[str], path: Path, *more: str) -> dict[str, Any]:
    """The report of `--json`."""
    _, text = inspect(capsys, path, "--json", *more)
    report: dict[str, Any] = json.loads(text)
    return report


def tree(path: Path) -> dict[str, tuple[int, bytes]]:
    """Every file below, its time of change and its bytes."""
    files = (one for one in path.rglob("*") if one.is_file())
    return {str(one): (one.stat().st_mtime_ns, one.read_bytes()) for one in files}


CASES = [
    "clean",
    "pruned",
    "torn-batch",
    "torn-hole",
    "filler",
    "filler-seal",
    "torn-filler",
    "damaged-middle",
]


@pytest.mark.parametrize("case", CASES)
def test_golden_session_looks_as_expected_and_stays_as_it_was(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = sessions.copy(case, tmp_path)
    before = tree(tmp_path)
    status, text = inspect(capsys, path, "--events")
    assert tree(tmp_path) == before
    assert status == (1 if case == "damaged-middle" else 0)
    sessions.assert_expected(f"inspect-{case}", text, tmp_path)


def test_everything_around_the_log_is_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = sessions.copy("clean", tmp_path)
    (path / "notes.txt").write_text("mine")
    (path / "evil\x1b[31m\n.txt").write_text("")
    (path / "events_0002.jsonl.tmp").write_bytes(b"{")
    (path / "quarantine").mkdir()
    (path / "quarantine/events_0001.jsonl.200.0123456789abcdef").write_bytes(b"torn")
    (path / "workers").mkdir()
    (path / "workers/w1").write_text("")
    (path / "owner").write_text("")
    sessions.flip(path / "snapshot.json.zst", (path / "snapshot.json.zst").stat().st_size - 30)
    status, text = inspect(capsys, path)
    assert status == 1
    assert "\x1b" not in text
    sessions.assert_expected("inspect-surroundings", text, tmp_path)


def test_segments_alone_are_enough(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = sessions.copy("clean", tmp_path)
    for one in path.iterdir():
        if not one.name.startswith("events_"):
            one.unlink()
    status, text = inspect(capsys, path, "--events")
    assert status == 0
    sessions.assert_expected("inspect-segments-only", text, tmp_path)


def test_missing_segment_is_damage_and_the_rest_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = sessions.copy("clean", tmp_path)
    (path / "snapshot.json.zst").unlink()
    (path / "snapshot.prev.json.zst").unlink()
    (path / "events_0001.jsonl").unlink()
    status, text = inspect(capsys, path, "--events")
    assert status == 1
    sessions.assert_expected("inspect-missing-segment", text, tmp_path)


def test_copy_under_another_name_is_read_all_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = sessions.copy("clean", tmp_path).rename(tmp_path / "a copy (2)")
    status, text = inspect(capsys, path, "--events")
    assert status == 3
    sessions.assert_expected("inspect-no-session-id", text, tmp_path)
    path = path.rename(tmp_path / "other")
    status, text = inspect(capsys, path)
    assert status == 1
    sessions.assert_expected("inspect-renamed", text, tmp_path)
    path.rename(tmp_path / "s-clean")


def test_newer_format_shows_what_can_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = sessions.copy("clean", tmp_path)
    meta = path / "meta.json"
    meta.write_bytes(meta.read_bytes().replace(b'"format":1', b'"format":2'))
    status, text = inspect(capsys, path)
    assert status == 3
    sessions.assert_expected("inspect-newer-format", text, tmp_path)
    shutil.rmtree(path)


def test_one_seq_shows_event_and_state_of_a_snapshot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = sessions.copy("clean", tmp_path)
    status, text = inspect(capsys, path, "--at", "8")
    assert status == 0
    sessions.assert_expected("inspect-at-snapshot", text, tmp_path)


def test_one_seq_without_a_snapshot_says_what_is_known_of_the_state(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = sessions.copy("clean", tmp_path)
    report = as_json(capsys, path, "--at", "3")["at"]
    assert report["event"]["seq"] == 3 and report["event"]["segment"] == "events_0001.jsonl"
    assert report["snapshot"] is None and report["state"] is None and not report["known"]
    assert "--reducer" in report["remarks"][0]


def test_seq_in_the_damage_is_no_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = sessions.copy("damaged-middle", tmp_path)
    gone = as_json(capsys, path)["damage"][0]["first_seq"]
    report = as_json(capsys, path, "--at", str(gone))["at"]
    assert report["event"] is None
    assert "damaged" in report["remarks"][-1]


def test_seq_that_is_not_there_is_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = sessions.copy("clean", tmp_path)
    assert main(["inspect", str(path), "--at", "9"]) == 2
    assert "it holds seq 1 to 8" in capsys.readouterr().err


def test_json_is_the_same_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = sessions.copy("damaged-middle", tmp_path)
    report = as_json(capsys, path, "--events")
    assert (report["health"], report["session_id"]) == ("damage", "s-damaged-middle")
    assert report["damage"][0]["rule"] == "crc"
    seqs = [event["seq"] for event in report["events"]]
    assert seqs == [1, 2, 3, 5]
    assert [event["mark"] for event in report["events"]] == [None, None, None, "not proven"]


def test_events_keep_surrogates_and_control_characters_in_json_and_out_of_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = {"text": "\ud800 \x1b[31m \u202e é"}
    with Engine.open(tmp_path / "s") as engine:
        engine.append("note", data)
    assert as_json(capsys, tmp_path / "s", "--events")["events"][0]["data"] == data
    _, text = inspect(capsys, tmp_path / "s", "--events", "--at", "1")
    assert "\x1b" not in text and "\u202e" not in text and "\ud800" not in text


def test_empty_session_has_no_events(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Engine.open(tmp_path / "s").close()
    status, text = inspect(capsys, tmp_path / "s", "--events")
    assert status == 0
    assert "events        none" in text


def test_file_that_cannot_be_read_does_not_hide_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = sessions.copy("clean", tmp_path)
    (path / "meta.json").unlink()
    (path / "meta.json").mkdir()
    (path / "events_0002.jsonl").unlink()
    (path / "events_0002.jsonl").mkdir()
    report = as_json(capsys, path, "--events")
    assert report["health"] == "unreadable"
    assert [one["seq"] for one in report["events"]] == [1, 2, 3, 4, None]
    assert "events_0002.jsonl" in report["events"][-1]["problem"]
    assert "not a regular file" in report["damage"][0]["reason"]
    shutil.rmtree(path)
