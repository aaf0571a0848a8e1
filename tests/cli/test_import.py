"""`durasess import`: files, directories, everything; what it prints and its exit status."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from durasess.cli.main import main
from tests.cli import sessions
from tests.support.foreign import (
    PI_HEADER,
    codex_meta,
    codex_turn,
    pi_reply,
    pi_user,
    write,
)


@pytest.fixture
def pi_file(tmp_path: Path) -> Path:
    lines = [PI_HEADER, pi_user("a", None, "go"), pi_reply("b", "a", "", calls=("c1",))]
    return write(tmp_path / "foreign/s.jsonl", [*lines, {"type": "label", "id": "l"}])


def imported(
    capsys: pytest.CaptureFixture[str], *arguments: str | Path
) -> tuple[int, dict[str, Any]]:
    """Exit status and report."""
    status = main(["import", *map(str, arguments), "--json"])
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    return status, report


def test_report_for_people(
    tmp_path: Path, pi_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pi_file.open("ab") as file:
        file.write(b"@@\n")
    assert main(["import", "pi", str(pi_file), "--into", str(tmp_path / "store")]) == 1
    sessions.assert_expected("import", capsys.readouterr().out, tmp_path)


def test_numbers_as_json_and_nothing_new_the_second_time(
    tmp_path: Path, pi_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, report = imported(capsys, "pi", pi_file, "--into", tmp_path / "store")
    (one,) = report["sessions"]
    assert (status, one["lines"], one["calls"], one["uncertain"]) == (0, 4, 1, 1)
    status, report = imported(capsys, "pi", pi_file, "--into", tmp_path / "store")
    assert (status, report["sessions"][0]["lines"]) == (0, 0)


def test_directory_stands_for_the_sessions_below_it(
    tmp_path: Path, pi_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(pi_file.parent / "deep/rollout-1.jsonl", [codex_meta(), *codex_turn("a", "b")])
    status, report = imported(capsys, "any", pi_file.parent, "--into", tmp_path / "store")
    assert sorted(one["format"] for one in report["sessions"]) == ["codex", "pi"]
    assert status == 0


def test_all_are_those_where_the_tools_keep_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "home/sessions/2026/rollout-1.jsonl", [codex_meta(), *codex_turn("a", "b")])
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "home"))
    status, report = imported(capsys, "codex", "--all", "--into", tmp_path / "store")
    assert (status, [one["format"] for one in report["sessions"]]) == (0, ["codex"])


def test_conflict_is_status_1(
    tmp_path: Path, pi_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    imported(capsys, "pi", pi_file, "--into", tmp_path / "store")
    write(pi_file, [PI_HEADER, pi_user("a", None, "other")])
    status, report = imported(capsys, "pi", pi_file, "--into", tmp_path / "store")
    assert (status, bool(report["sessions"][0]["conflict"])) == (1, True)


def test_file_that_fails_is_status_3_and_the_others_are_imported(
    tmp_path: Path, pi_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    absent = tmp_path / "absent.jsonl"
    status, report = imported(capsys, "pi", absent, pi_file, "--into", tmp_path / "store")
    assert (status, [one["lines"] for one in report["sessions"]]) == (3, [0, 4])


@pytest.mark.parametrize("arguments", [[], ["pi"], ["pi", "a.jsonl", "--all"], ["any"]])
def test_asking_for_nothing_or_too_much_is_status_2(arguments: list[str]) -> None:
    assert main(["import", *arguments]) == 2


def test_directory_that_has_the_store_below_it_is_imported_without_the_store(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "s.jsonl", [PI_HEADER, pi_user("a", None, "go")])
    command = ["import", str(tmp_path), "--store", str(tmp_path / "inside" / "store"), "--json"]
    for lines in (2, 0):
        assert main(command) == 0
        (one,) = json.loads(capsys.readouterr().out)["sessions"]
        assert one["lines"] == lines
