"""`durasess drill --agent`: a harness is really killed, what goes wrong is found; the documented
example of a harness comes to its end when it is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from durasess import Store
from durasess.cli.drill_agent_worker import Orders
from durasess.cli.drill_agent_world import World
from durasess.cli.main import main
from tests.cli import sessions

EXAMPLE = sessions.ROOT / "docs/examples/coding_agent.py"


def test_few_kills_pass_and_print_a_table(tmp_path: Path) -> None:
    done = sessions.run("drill", "--agent", "--kills", "4", "--dir", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == "" and "\x1b" not in done.stdout
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert any(line.startswith("drill passed 4 kills in") for line in lines)
    assert any(line.startswith("kills 4 ") for line in lines)
    assert "effects repeated 0" in lines and "differences 0" in lines
    assert (tmp_path / "drill-1/reference/outbox").read_text().count("\n") == 2


def test_json_has_the_counts_and_a_passed_drill_leaves_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["drill", "--agent", "--kills", "3", "--seed", "2", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["passed"] and not os.path.exists(report["path"])
    assert report["result"]["kills"] == 3 and report["result"]["tasks"] >= 1
    assert report["result"]["findings"]["problems"] == []


@pytest.mark.parametrize("option", [["--writers", "2"], ["--input", __file__]])
def test_option_that_is_not_for_agents_is_wrong_use(
    option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["drill", "--agent", *option]) == 2
    assert "goes with neither --input nor --writers" in capsys.readouterr().err


def test_difference_is_status_1_and_keeps_the_sessions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = World.sent
    # Everything but the undisturbed task has said something once more.
    monkeypatch.setattr(
        World, "sent", lambda self: whole(self) * (1 if self.folder.endswith("reference") else 2)
    )
    assert main(["drill", "--agent", "--kills", "2", "--dir", str(tmp_path)]) == 1
    text = capsys.readouterr().out
    assert "what went wrong" in text and "is there 2 times" in text
    assert (tmp_path / "drill-1/task-1").is_dir()


def test_worker_that_cannot_work_fails_the_drill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # A process that is started here finds another package of this name.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "durasess").mkdir()
    (tmp_path / "durasess/__init__.py").write_text("raise OSError('no such thing')")
    assert main(["drill", "--agent", "--kills", "2", "--dir", str(tmp_path / "d")]) == 1
    assert "no such thing" in capsys.readouterr().out


def test_worker_stops_where_it_is_told_and_goes_when_its_parent_is_gone(tmp_path: Path) -> None:
    world = World(str(tmp_path / "w"))
    world.make()
    orders = msgspec.json.encode(Orders(world, stop_at=9)).decode()
    done = subprocess.run(
        [sys.executable, "-m", "durasess.cli.drill_agent_worker", orders],
        input="",
        env={**os.environ, "PYTHONPATH": str(sessions.ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert json.loads(done.stdout.splitlines()[-1]) == {"stopped": 9}


# The documented example.


def started(folder: Path, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", str(EXAMPLE), str(folder), *options],
        env={**os.environ, "PYTHONPATH": str(sessions.ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def lived(folder: Path, *options: str) -> str:
    """What it prints in a life that nobody ends."""
    process = started(folder, *options)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return out


def assert_done(folder: Path) -> None:
    assert "n * 2" in (folder / "project/project.py").read_text()
    assert (folder / "outbox").read_text() == "double() doubles again\n"
    with Store(folder / "sessions").open("task") as session:
        assert session.runs[-1].status == "succeeded" and session.open_calls == []


def test_example_asks_first_and_sends_once(tmp_path: Path) -> None:
    assert "waiting: start me with --approve" in lived(tmp_path)
    assert (tmp_path / "outbox").read_text() == ""
    assert "used:" in lived(tmp_path, "--approve")
    assert lived(tmp_path) == "done\n"
    assert_done(tmp_path)


def test_example_that_is_killed_goes_on_and_sends_once(tmp_path: Path) -> None:
    for number in range(8):
        process = started(tmp_path, "--approve")
        time.sleep(0.1 + 0.04 * number)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    for _ in range(3):
        lived(tmp_path, "--approve")
    assert_done(tmp_path)


def test_example_uses_nothing_but_durasess_and_the_standard_library() -> None:
    text = EXAMPLE.read_text()
    lines = [line for line in text.splitlines() if line.startswith(("import ", "from "))]
    modules = {line.split()[1].split(".")[0] for line in lines} - {"durasess"}
    assert modules <= sys.stdlib_module_names
    assert "from durasess" not in text
