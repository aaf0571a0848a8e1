"""Who has a session open: alone, together, or nobody; asked without disturbing anybody."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from durasess import Engine
from durasess.cli.main import main
from durasess.engine import files, lock
from durasess.store import holders
from tests.cli import sessions

HOLD = """
import sys, time
from durasess import Engine
from durasess.engine import lock
from durasess.engine.files import RealFiles
with Engine.open(sys.argv[1], mode=sys.argv[2]) as engine:
    engine.append("held", {})
    # A turn is kept for a moment behind the answer.
    while lock.read_anchor(RealFiles(), engine.path, engine.session_id).phase != lock.IDLE:
        time.sleep(0.001)
    print("open", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(params=["listed by the kernel", "tried"])
def both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """With the system's list of locks, and as on a system that has none."""
    if request.param == "tried":
        monkeypatch.setattr(holders, "_LOCKS", "/nowhere/locks")
    yield


def lock_of(path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What the report says of the lock."""
    main(["inspect", str(path), "--json"])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)["lock"]
    return found


def test_nobody_holds_a_closed_session(
    both_ways: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Engine.open(tmp_path / "s") as engine:
        engine.append("x", {})
    found = lock_of(tmp_path / "s", capsys)
    assert (found["present"], found["held"], found["mode"]) == (True, False, None)
    assert found["workers"] == []
    assert (found["anchor"]["seq"], found["anchor"]["phase"]) == (1, "idle")
    assert found["anchor"]["held"] is False


def test_owner_holds_it_alone(
    both_ways: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Engine.open(tmp_path / "s"):
        found = lock_of(tmp_path / "s", capsys)
    assert (found["held"], found["mode"]) == (True, "own")
    assert found["holder"]["pid"] == os.getpid()


def test_live_workers_of_a_shared_session_are_listed(
    both_ways: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "s"
    with Engine.open(path, mode="shared") as one, Engine.open(path, mode="shared") as two:
        one.append("x", {})
        two.append("x", {})
        found = lock_of(path, capsys)
        assert (found["held"], found["mode"]) == (True, "shared")
        assert [worker["alive"] for worker in found["workers"]] == [True, True]
        assert holders.is_open(files.RealFiles(), str(path))
    assert lock_of(path, capsys)["held"] is False
    assert not holders.is_open(files.RealFiles(), str(path))


def test_worker_that_was_killed_is_told_from_live_ones(
    both_ways: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "s"
    killed = held_by_another(path, "shared")
    with Engine.open(path, mode="shared"):
        killed.kill()
        killed.communicate()
        workers = lock_of(path, capsys)["workers"]
        assert sorted(worker["alive"] for worker in workers) == [False, True]
        main(["inspect", str(path)])
        text = capsys.readouterr().out
    assert "shared by 1 live worker" in text and "ended without removing its file" in text


@pytest.mark.parametrize("mode", ["own", "shared"])
def test_holder_in_another_process_is_named(
    mode: str, both_ways: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = sessions.copy("clean", tmp_path)
    other = held_by_another(path, mode)
    try:
        status = main(["inspect", str(path)])
        text = capsys.readouterr().out
        found = lock_of(path, capsys)
    finally:
        other.communicate()
    assert status == 0
    assert found["mode"] == mode
    said = found["holder"] if mode == "own" else found["workers"][0]["holder"]
    assert said["pid"] == other.pid
    sessions.assert_expected(f"inspect-held-{mode}", text, tmp_path)


def test_turn_that_was_not_ended_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "s"
    with Engine.open(path, mode="shared") as engine:
        engine.append("x", {})
    disk = files.RealFiles()
    anchor = lock.read_anchor(disk, str(path), "s")
    assert anchor is not None
    for phase, said in (
        ("commit", "a writer ended in its turn"),
        ("failed", "a sync failed"),
    ):
        fd = disk.open(str(path / "lock"), write=True)
        lock.write_anchor(disk, fd, lock.Anchor("s", anchor.segment, 1, anchor.chain, phase))
        main(["inspect", str(path)])
        assert said in capsys.readouterr().out
        assert disk.lock(fd)
        main(["inspect", str(path)])
        assert f"{phase}, a writer is in its turn" in capsys.readouterr().out
        disk.close(fd)


def test_looking_leaves_every_lock_as_it_is(
    both_ways: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "s"
    with Engine.open(path, mode="shared") as one, Engine.open(path, mode="shared") as two:
        for n in range(20):
            lock_of(path, capsys)
            one.append("x", {"n": n})
            two.append("x", {"n": n})
    with Engine.open(path) as engine:
        lock_of(path, capsys)
        engine.append("x", {})
        assert engine.last_seq == 41


def held_by_another(path: Path, mode: str) -> subprocess.Popen[str]:
    """A process that has the session open until its stdin ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path), mode],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=sessions.environment(),
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    return process
