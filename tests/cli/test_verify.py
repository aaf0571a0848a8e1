"""`durasess verify`: one session, several, a store of them; the status is that of the worst."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from durasess.cli.main import main
from tests.cli import sessions


def test_store_stands_for_all_its_sessions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for case in ("clean", "torn-batch", "damaged-middle", "pruned"):
        sessions.copy(case, tmp_path)
    (tmp_path / ".workers").mkdir()
    (tmp_path / "readme.txt").write_text("mine")
    (tmp_path / "empty").mkdir()
    assert main(["verify", str(tmp_path)]) == 1
    sessions.assert_expected("verify-store", capsys.readouterr().out, tmp_path)


def test_sound_sessions_are_status_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [str(sessions.copy(case, tmp_path)) for case in ("clean", "torn-hole")]
    assert main(["verify", *paths]) == 0
    sessions.assert_expected("verify-sound", capsys.readouterr().out, tmp_path)


def test_unreadable_is_worse_than_damage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = sessions.copy("damaged-middle", tmp_path)
    assert main(["verify", str(tmp_path / "absent"), str(path), "--json"]) == 3
    report = json.loads(capsys.readouterr().out)
    assert report["status"] == 3
    absent, damaged = report["sessions"]
    assert absent["health"] == "unreadable" and "no session" in absent["problem"]
    assert damaged["health"] == "damage"
    assert damaged["found"]["damage"][0]["rule"] == "crc"


def test_every_flipped_segment_byte_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = sessions.copy("clean", tmp_path)
    whole = (path / "events_0001.jsonl").read_bytes()
    for at in range(0, len(whole), 97):
        sessions.flip(path / "events_0001.jsonl", at)
        assert main(["verify", str(path)]) == 1
        (path / "events_0001.jsonl").write_bytes(whole)
    assert main(["verify", str(path)]) == 0
    shutil.rmtree(path)
