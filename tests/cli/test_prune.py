"""`durasess prune`: says what would go, deletes exactly that, and leaves the state as it was."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from durasess import Engine, Event, Store
from durasess.cli.main import main
from tests.cli import sessions


def apply(state: dict[str, Any], event: Event) -> None:
    """A state that the command cannot know."""
    state["sum"] = state.get("sum", 0) + event.data["n"]


def opened(path: Path, **options: Any) -> Engine:
    """The session of a program."""
    return Engine.open(path, apply=apply, clock=lambda: 0, preallocate=0, **options)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """40 events; snapshots of 20 and 30, the log closed as after a crash."""
    path = tmp_path / "a1"
    with opened(path, segment_bytes=600) as engine:
        for n in range(40):
            engine.append("counted", {"n": n})
            if n + 1 in (20, 30):
                engine.snapshot()
        engine.abandon()
    return path


def prune(capsys: pytest.CaptureFixture[str], path: Path, *more: str) -> dict[str, Any]:
    """The report of `--json`."""
    assert main(["prune", str(path), "--json", *more]) == 0
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    return report


def tree(path: Path) -> dict[str, tuple[int, bytes]]:
    """Every file, its time of change and its bytes."""
    found = (one for one in path.iterdir() if one.is_file())
    return {one.name: (one.stat().st_mtime_ns, one.read_bytes()) for one in found}


def agents_session(below: Path) -> Path:
    """Of the messages that count, the state holds the newest four; the first half of the log is
    covered by two snapshots."""
    store = Store(below, resident_messages=4)
    with store.create("s1") as session:
        for number in range(4):
            with session.run(f"request {number}") as run:
                run.assistant("done")
        session.once("op", lambda: 7)
        for _ in range(2):
            session.note("more")
            session.snapshot()
    return below / "s1"


def test_messages_that_still_count_are_named_and_go_only_when_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = agents_session(tmp_path)
    before = tree(path)
    planned = prune(capsys, path)
    assert planned["live"] == [
        "messages from seq 2 on count and are only in the log",
        "results of what happens once are only in the log (1 of them)",
    ]
    main(["prune", str(path)])
    assert "what still counts and goes too\n  Messages from seq 2 on" in capsys.readouterr().out
    assert main(["prune", str(path), "--apply"]) == 3
    assert "was not pruned: messages from seq 2 on count" in capsys.readouterr().err
    assert {name: data for name, (_, data) in tree(path).items() if name != "owner"} == {
        name: data for name, (_, data) in before.items() if name != "owner"
    }
    assert prune(capsys, path, "--apply", "--even-live")["segments"]


def test_messages_that_a_summary_tells_are_not_said_to_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Store(tmp_path, resident_messages=4).create("s1") as session:
        for number in range(4):
            with session.run(f"request {number}") as run:
                run.assistant("done")
        session.compact("four requests")
        for _ in range(2):
            session.note("more")
            session.snapshot()
    assert prune(capsys, tmp_path / "s1")["live"] == []
    assert prune(capsys, tmp_path / "s1", "--apply")["segments"]


def test_dry_run_changes_nothing_and_apply_deletes_what_it_said(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = tree(path)
    planned = prune(capsys, path)
    assert tree(path) == before
    assert not planned["applied"] and planned["events"] == 20 and planned["first_seq"] == 21
    done = prune(capsys, path, "--apply")
    assert done == {**planned, "applied": True}
    gone = before.keys() - tree(path).keys()
    assert gone == {one["name"] for one in done["segments"]}
    assert sum(len(before[name][1]) for name in gone) == done["bytes"]
    kept = before.keys() - gone - {"owner"}
    assert {name: tree(path)[name] for name in kept} == {name: before[name] for name in kept}


def test_state_and_later_events_are_as_before(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prune(capsys, path, "--apply")
    assert main(["verify", str(path)]) == 0
    with opened(path) as engine:
        assert engine.state == {"sum": sum(range(40))}
        assert engine.first_seq == 21
        assert [event.seq for event in engine.events(after=20)] == list(range(21, 41))


def test_second_run_finds_nothing_to_do(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prune(capsys, path, "--apply")
    before = tree(path)
    again = prune(capsys, path)
    assert again["segments"] == [] and again["first_seq"] == 21
    assert tree(path) == before


def test_each_run_as_people_see_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = sessions.copy("clean", tmp_path)
    for name, more in (("dry-run", []), ("apply", ["--apply"]), ("nothing", [])):
        assert main(["prune", str(path), *more]) == 0
        sessions.assert_expected(f"prune-{name}", capsys.readouterr().out, tmp_path)


def test_snapshots_that_are_not_two_let_nothing_go(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(tmp_path / "s") as engine:
        engine.append("counted", {"n": 1})
        engine.snapshot()
        assert prune(capsys, tmp_path / "s")["segments"] == []
    main(["prune", str(tmp_path / "s")])
    assert "Two snapshots must cover what goes, and there is one." in capsys.readouterr().out


def damage_middle(path: Path) -> None:
    sessions.flip(sorted(path.glob("events_*"))[-1], 400)


def damage_snapshot(path: Path) -> None:
    sessions.flip(path / "snapshot.json.zst", 20)


@pytest.mark.parametrize("damage", [damage_middle, damage_snapshot])
@pytest.mark.parametrize("more", [[], ["--apply"]], ids=["dry run", "apply"])
def test_damaged_session_is_left_alone(
    damage: Callable[[Path], None],
    more: list[str],
    path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    damage(path)
    before = tree(path)
    assert main(["prune", str(path), *more]) == 1
    assert "Nothing was pruned" in capsys.readouterr().err
    assert tree(path) == before


@pytest.mark.parametrize("mode", ["own", "shared"])
def test_session_in_a_writer_is_status_3_and_a_dry_run_is_not(
    mode: Any, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(path, mode=mode) as engine:
        assert prune(capsys, path)["events"] == 20
        before = tree(path).keys()
        assert main(["prune", str(path), "--apply", "--json"]) == 3
        assert json.loads(capsys.readouterr().out)["error"]["kind"] == "SessionLockedError"
        assert tree(path).keys() == before
        engine.append("counted", {"n": 0})


def test_leftovers_of_an_interrupted_prune_go_too(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, *_ = sorted(path.glob("events_*"))
    second.unlink()
    report = prune(capsys, path, "--apply")
    assert first.name in [one["name"] for one in report["segments"]]
    assert not first.exists()
    assert main(["verify", str(path)]) == 0


def test_session_without_a_lock_file_gets_one_and_keeps_its_holder_for_people(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (path / "owner").unlink()
    prune(capsys, path, "--apply")
    assert json.loads((path / "owner").read_bytes())["pid"] == os.getpid()
