"""`durasess repair`: a dry run says what `--apply` does, and after it the session opens again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from durasess import Engine, Store
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


@pytest.mark.parametrize("damage", ["missing", "other bytes"])
def test_large_values_that_are_lost_are_named_and_left(
    damage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Store(tmp_path, blob_bytes=100).create("s1") as session, session.run("go") as run:
        run.assistant("x" * 1000)
    (blob,) = (tmp_path / "s1" / "blobs").iterdir()
    whole = blob.read_bytes()
    blob.unlink() if damage == "missing" else blob.write_bytes(b"y")
    for more in ([], ["--apply"]):
        assert main(["repair", str(tmp_path / "s1"), *more]) == 1
        said = capsys.readouterr().out
        assert "large values that repair cannot bring back" in said and str(blob) in said
    assert main(["repair", str(tmp_path / "s1"), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["blobs"][0]["path"] == str(blob)
    blob.write_bytes(whole)
    assert main(["repair", str(tmp_path / "s1")]) == 0


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


def snapshot_flipped(path: Path) -> None:
    """The newest snapshot is not valid; the log is whole."""
    sessions.flip(path / "snapshot.json.zst", 30)


def event_flipped(path: Path) -> None:
    """An event in the newest segment, behind the snapshots."""
    with Engine.open(path) as engine:
        engine.append_many([("late", n) for n in range(3)])
        engine.rotate()
        engine.append("later", {})
        engine.abandon()
    late = path / "events_0003.jsonl"
    sessions.flip(late, late.read_bytes().index(b'"data":1'))


def segment_missing(path: Path) -> None:
    """A segment in the middle, with no snapshot that covers it."""
    event_flipped(path)
    for name in ("snapshot.json.zst", "snapshot.prev.json.zst", "events_0002.jsonl"):
        (path / name).unlink()


def meta_flipped(path: Path) -> None:
    """Who the session is must be told by other files."""
    sessions.flip(path / "meta.json", 40)


def files_of(path: Path) -> dict[str, tuple[int, bytes]]:
    """Every file below, its time of change and its bytes."""
    found = (one for one in path.rglob("*") if one.is_file())
    return {
        one.relative_to(path).as_posix(): (one.stat().st_mtime_ns, one.read_bytes())
        for one in found
    }


DAMAGES = [snapshot_flipped, event_flipped, segment_missing, meta_flipped]


@pytest.mark.parametrize("harm", DAMAGES)
def test_dry_run_of_any_damage_changes_nothing(
    harm: Callable[[Path], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = sessions.copy("clean", tmp_path)
    harm(path)
    before = files_of(path)
    assert main(["repair", str(path), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["actions"]
    assert files_of(path) == before


@pytest.mark.parametrize("harm", DAMAGES)
def test_everything_that_is_removed_is_in_quarantine(
    harm: Callable[[Path], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = sessions.copy("clean", tmp_path)
    harm(path)
    before = files_of(path)
    assert main(["repair", str(path), "--apply"]) == 0
    after = files_of(path)
    kept = [data for name, (_, data) in after.items() if name.startswith("quarantine/")]
    for name, (_, data) in before.items():
        is_claim = name in ("lock", "owner") or (name == "meta.json" and harm is not meta_flipped)
        if after.get(name, (0, b""))[1] != data and not is_claim:
            assert data in kept, f"{name} was changed or removed and is not in quarantine"
    assert main(["verify", str(path)]) == 0


@pytest.mark.parametrize("harm", DAMAGES)
def test_second_run_of_apply_changes_nothing(
    harm: Callable[[Path], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = sessions.copy("clean", tmp_path)
    harm(path)
    assert main(["repair", str(path), "--apply"]) == 0
    once = files_of(path)
    capsys.readouterr()
    assert main(["repair", str(path), "--apply", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["actions"] == []
    assert files_of(path) == once
    with Engine.open(path) as engine:
        engine.append("again", {})


def test_session_that_others_share_is_status_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = sessions.copy("clean", tmp_path)
    with Engine.open(path, mode="shared"):
        assert main(["repair", str(path), "--apply", "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["error"]["kind"] == "SessionLockedError"


def test_history_that_is_damaged_below_a_snapshot_is_named_and_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Store(tmp_path).create("s1") as session:
        session.note("first")
        session.snapshot()
        session.note("second")
        session.snapshot()
    (segment,) = (tmp_path / "s1").glob("events_0001.jsonl*")
    whole = segment.read_bytes()
    sessions.flip(segment, 40)
    changed = segment.read_bytes()
    for more in ([], ["--apply"]):
        assert main(["repair", str(tmp_path / "s1"), *more]) == 1
        said = capsys.readouterr().out
        assert "history that repair cannot bring back" in said and str(segment) in said
        assert segment.read_bytes() == changed
    with Store(tmp_path).open("s1") as session:
        session.note("third")
    segment.write_bytes(whole)
    assert main(["repair", str(tmp_path / "s1")]) == 0
