"""`durasess tail`: a process that prints what writers append, until it is interrupted."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from durasess import Engine
from durasess.cli.main import main
from tests.cli import sessions

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="Ctrl-C cannot be sent to one process there"
)

WRITE = """
import sys
from durasess import Engine
with Engine.open(sys.argv[1], mode="shared", segment_bytes=4000) as engine:
    for n in range(int(sys.argv[2])):
        engine.append("counted", {"n": n, "by": sys.argv[3]})
"""


@contextmanager
def tail(path: Path, *more: str) -> Iterator[subprocess.Popen[str]]:
    """The command at work; interrupted at the end, which must be status 130 without a word."""
    process = subprocess.Popen(
        sessions.command("tail", str(path), *more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=sessions.environment(),
    )
    try:
        yield process
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        assert (process.returncode, said) == (130, "")
    finally:
        process.kill()
        process.communicate()


def lines(process: subprocess.Popen[str], number: int) -> list[str]:
    """The next lines, as soon as they are there."""
    assert process.stdout is not None
    return [process.stdout.readline().rstrip("\n") for _ in range(number)]


def values(process: subprocess.Popen[str], number: int) -> list[dict[str, Any]]:
    """The same, of `--json`."""
    return [json.loads(line) for line in lines(process, number)]


def seqs(found: list[dict[str, Any]]) -> list[int]:
    """Their seqs."""
    return [value["seq"] for value in found]


def test_last_events_come_first_and_then_those_that_are_appended(tmp_path: Path) -> None:
    with Engine.open(tmp_path / "s") as engine:
        for n in range(20):
            engine.append("counted", {"n": n})
        with tail(tmp_path / "s", "--json", "-n", "2") as process:
            assert seqs(values(process, 2)) == [19, 20]
            engine.append("late", {"n": 20}, event_id="e1")
            (late,) = values(process, 1)
            assert (late["seq"], late["type"], late["event_id"]) == (21, "late", "e1")
            engine.rotate()
            engine.append_many([("more", n) for n in range(3)])
            assert seqs(values(process, 3)) == [22, 23, 24]


@pytest.mark.parametrize(
    ("more", "first"),
    [
        ([], 11),
        (["-n", "0"], 21),
        (["-n", "100"], 1),
        (["--after", "17"], 18),
        (["--after", "5", "-n", "3"], 18),
        (["--after", "19", "-n", "3"], 20),
    ],
    ids=str,
)
def test_where_it_begins(more: list[str], first: int, tmp_path: Path) -> None:
    with Engine.open(tmp_path / "s") as engine:
        for n in range(20):
            engine.append("counted", {"n": n})
            if n % 6 == 5:
                engine.rotate()
        with tail(tmp_path / "s", *more) as process:
            # The headings come behind the first look, so what follows them is new.
            shown = lines(process, 1 + 21 - first)
            engine.append("counted", {})
            shown += lines(process, 1)
    assert [int(line.split()[0]) for line in shown[1:]] == list(range(first, 22))


def test_lines_for_people_have_headings_and_no_escape_codes(tmp_path: Path) -> None:
    with Engine.open(tmp_path / "s", clock=lambda: 0) as engine:
        engine.append("note", {"text": "\x1b[31m"})
        with tail(tmp_path / "s") as process:
            head, event = lines(process, 2)
    assert head.split() == ["seq", "time", "type", "bytes", "data"]
    assert event.split()[:3] == ["1", "1970-01-01T00:00:00.000000Z", "note"]
    assert "\x1b" not in event and "u001b" in event


def test_writers_in_other_processes_are_followed_over_rotations(tmp_path: Path) -> None:
    path = tmp_path / "s"
    Engine.open(path).close()
    with tail(path, "--json", "--after", "0") as process:
        writers = [
            subprocess.Popen(
                [sys.executable, "-c", WRITE, str(path), "60", name], env=sessions.environment()
            )
            for name in ("a", "b")
        ]
        found = values(process, 120)
        assert [writer.wait() for writer in writers] == [0, 0]
    assert seqs(found) == list(range(1, 121))
    for name in ("a", "b"):
        assert [one["data"]["n"] for one in found if one["data"]["by"] == name] == list(range(60))
    assert len(list(path.glob("events_*.jsonl*"))) > 3


def test_secrets_are_masked_unless_asked_for(tmp_path: Path) -> None:
    with Engine.open(tmp_path / "s") as engine:
        engine.append("note", {"password": "hunter2"})
        with tail(tmp_path / "s", "--json", "--show-secrets") as process:
            assert values(process, 1)[0]["data"] == {"password": "hunter2"}
        process = subprocess.Popen(
            sessions.command("tail", str(tmp_path / "s"), "--json"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=sessions.environment(),
        )
        assert values(process, 1)[0]["data"] == {"password": "[masked]"}
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said == "durasess: 1 secret was masked; --show-secrets shows such.\n"


def test_damage_ends_it_with_status_1_behind_what_is_whole(tmp_path: Path) -> None:
    path = sessions.copy("damaged-middle", tmp_path)
    done = sessions.run("tail", str(path), "--json", "--after", "0")
    assert done.returncode == 1
    *events, error = [json.loads(line) for line in done.stdout.splitlines()]
    assert seqs(events) == [1, 2, 3]
    assert error["error"]["kind"] == "CorruptionError" and error["error"]["seq"] == 4
    assert "durasess verify" in done.stderr


def test_pruned_beginning_is_status_2_and_says_from_where(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Engine.open(tmp_path / "s") as engine:
        for _ in range(3):
            engine.append("x", {})
            engine.snapshot()
        engine.prune()
    assert main(["tail", str(tmp_path / "s"), "--after", "0"]) == 2
    assert "give --after 2" in capsys.readouterr().err


def test_reader_that_has_seen_enough_causes_no_traceback(tmp_path: Path) -> None:
    with Engine.open(tmp_path / "s") as engine:
        engine.append("x", {})
        process = subprocess.Popen(
            sessions.command("tail", str(tmp_path / "s"), "--json"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=sessions.environment(),
        )
        assert seqs(values(process, 1)) == [1]
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        engine.append("x", {})
        assert process.wait(timeout=60) == 141
        assert process.stderr.read() == ""
        process.stderr.close()
