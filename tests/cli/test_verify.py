"""`durasess verify`: one session, several, a store of them; the status is that of the worst."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from durasess import Engine, Store
from durasess.cli import verify
from durasess.cli.main import main
from tests.cli import sessions
from tests.support.sessions import unchanged


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


def hostile(path: Path, kind: str, data: dict[str, object]) -> Path:
    """A session whose bytes are sound, and whose events somebody else wrote."""
    with Engine.open(path, schema_version=2) as engine:
        engine.append("session_created", {"title": "odd"})
        engine.append(kind, data)
    return path


def test_session_that_contradicts_itself_is_status_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = hostile(tmp_path / "s1", "checkpoint", {"dispatched": 99})
    with unchanged(tmp_path):
        assert main(["verify", str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert "s1: contradicts itself\n  the checkpoint at seq 99 lies behind" in said
    assert main(["verify", str(path), "--json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)["sessions"]
    assert (found["health"], found["found"]["damage"]) == ("contradiction", [])
    assert "seq 99" in found["findings"][0]


def test_session_whose_state_cannot_be_computed_is_status_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile(tmp_path / "s1", "note", {"text": "x"})

    def fails(*given: object) -> None:
        raise RuntimeError("odd")

    monkeypatch.setattr("durasess.session.reducer.Reducer.apply", fails)
    assert main(["verify", str(tmp_path / "s1")]) == 1
    assert "seq 1 cannot be folded" in capsys.readouterr().out


def test_other_programs_events_are_not_checked_as_a_sessions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Engine.open(tmp_path / "s1") as engine:
        engine.append("counted", {"dispatched": 99})
    assert main(["verify", str(tmp_path / "s1")]) == 0


def test_finding_at_a_session_that_is_being_written_is_looked_at_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two looks a writer may have replaced both snapshots."""
    found = iter([["a snapshot vanished"], []])
    monkeypatch.setattr(verify, "_contradictions", lambda *given: next(found))
    with Store(tmp_path).create("s1"):
        assert main(["verify", str(tmp_path / "s1")]) == 0


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
