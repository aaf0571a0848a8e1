"""`durasess repair`: a dry run says what `--apply` does, and after it the session opens again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from durasess import Engine
from durasess.cli.main import main
from tests.cli import sessions


def test_dry_run_changes_nothing_and_apply_does_what_it_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = sessions.copy("damaged-middle", tmp_path)
    before = {one: one.read_bytes() for one in path.iterdir()}
    assert main(["repair", str(path)]) == 1
    dry = capsys.readouterr().out
    sessions.assert_expected("repair-dry-run", dry, tmp_path)
    assert {one: one.read_bytes() for one in path.iterdir()} == before
    assert main(["repair", str(path), "--apply"]) == 0
    sessions.assert_expected("repair-apply", capsys.readouterr().out, tmp_path)
    with Engine.open(path) as engine:
        assert engine.last_seq == 3


def test_second_run_finds_nothing_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = sessions.copy("damaged-middle", tmp_path)
    main(["repair", str(path), "--apply"])
    capsys.readouterr()
    assert main(["repair", str(path), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["actions"] == [] and report["damage"] == []


def test_sound_session_needs_no_repair(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = sessions.copy("clean", tmp_path)
    assert main(["repair", str(path)]) == 0
    sessions.assert_expected("repair-not-needed", capsys.readouterr().out, tmp_path)


def test_session_in_a_writer_is_status_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = sessions.copy("clean", tmp_path)
    with Engine.open(path):
        assert main(["repair", str(path), "--apply", "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["error"]["kind"] == "SessionLockedError"


def test_what_cannot_be_repaired_stays_status_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = sessions.copy("clean", tmp_path)
    for name in ("snapshot.json.zst", "snapshot.prev.json.zst", "events_0001.jsonl"):
        (path / name).unlink()
    assert main(["repair", str(path), "--apply"]) == 1
    assert "nothing can be done" in capsys.readouterr().out
