"""`durasess export`: every format, files whole or not at all, damage told, nothing changed."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path

import pytest

from durasess.cli import export
from durasess.cli.export_file import ExportFile
from durasess.cli.main import main
from tests.cli import sessions
from tests.support import exports

BEGINNINGS = {
    "markdown": "# Fix",
    "html": "<!doctype html>",
    "jsonl": '{"format":"durasess.events"',
    "openai": '{\n  "messages": [',
    "anthropic": '{\n  "system": ',
}


@pytest.mark.parametrize("format", export.FORMATS)
def test_format_goes_to_standard_output(
    format: str, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["export", exports.worked(tmp_path), "--format", format]) == 0
    said = capsysbinary.readouterr()
    assert said.out.decode().startswith(BEGINNINGS[format])
    assert said.err == b""


@pytest.mark.parametrize("format", export.FORMATS)
def test_file_has_what_standard_output_has(
    format: str, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    path = exports.worked(tmp_path)
    main(["export", path, "--format", format])
    shown = capsysbinary.readouterr().out
    assert main(["export", path, "--format", format, "-o", str(tmp_path / "file")]) == 0
    assert (tmp_path / "file").read_bytes() == shown


def test_session_is_found_by_its_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = exports.worked(tmp_path)
    monkeypatch.setenv("DURASESS_HOME", os.path.dirname(path))
    monkeypatch.chdir(tmp_path)
    assert main(["export", "worked"]) == 0
    assert capsys.readouterr().out.startswith("# Fix")


def test_no_session_is_status_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(tmp_path)]) == 3
    assert "there is no session at" in capsys.readouterr().err


def test_nothing_of_the_session_changes(tmp_path: Path) -> None:
    path = exports.worked(tmp_path)
    before = exports.files_of(path)
    main(["export", path, "-o", str(tmp_path / "page.md")])
    assert exports.files_of(path) == before


def test_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    main(["export", exports.worked(tmp_path), "-o", str(tmp_path / "page.md")])
    assert stat.S_IMODE((tmp_path / "page.md").stat().st_mode) == 0o600


def test_report_of_a_file_is_json_when_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "page.html"
    path = exports.worked(tmp_path)
    assert main(["export", path, "--format", "html", "-o", str(target), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["bytes"] == target.stat().st_size and said["session_id"] == "worked"
    assert (said["format"], said["masked"], said["damage"]) == ("html", 0, [])


def test_json_without_a_file_is_usage(tmp_path: Path) -> None:
    assert main(["export", exports.worked(tmp_path), "--json"]) == 2


@pytest.mark.parametrize("name", ["worked/page.md", ".", "absent/page.md"])
def test_file_that_would_do_harm_or_has_no_place_is_usage(name: str, tmp_path: Path) -> None:
    path = exports.worked(tmp_path)
    before = exports.files_of(path)
    target = os.path.join(os.path.dirname(path), name)
    assert main(["export", path, "-o", target]) == 2
    assert exports.files_of(path) == before


def test_export_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    target = tmp_path / "page.md"
    target.write_text("before")
    with pytest.raises(RuntimeError), ExportFile(str(target)) as file:
        file.send("half")
        raise RuntimeError
    assert target.read_text() == "before" and list(tmp_path.iterdir()) == [target]


def test_damage_is_status_1_and_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = exports.damaged(tmp_path)
    assert main(["export", path]) == 1
    said = capsys.readouterr()
    assert "not all of the session could be read" in said.err and "reply 29" in said.out


def test_masked_secrets_are_counted_and_shown_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = "ghp_" + "a1B2c3D4e5" * 4
    with exports.store_at(tmp_path, mask=None).create("s") as session, session.run(secret) as run:
        run.assistant("ok")
    main(["export", session.path])
    said = capsys.readouterr()
    assert secret not in said.out and "masked; --show-secrets shows" in said.err
    main(["export", session.path, "--show-secrets"])
    assert secret in capsys.readouterr().out.replace("\\_", "_")


def test_page_is_utf_8_whatever_the_output_is(tmp_path: Path) -> None:
    with exports.store_at(tmp_path).create("s") as session, session.run("größe 東京") as run:
        run.assistant("ok")
    done = subprocess.run(
        sessions.command("export", session.path),
        capture_output=True,
        env={**sessions.environment(), "PYTHONIOENCODING": "ascii"},
        check=True,
    )
    assert "größe 東京" in done.stdout.decode("utf-8")


def test_dash_is_standard_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = exports.unchecked(tmp_path)
    assert main(["export", path]) == 0
    whole = capsys.readouterr().out
    assert main(["export", path, "-o", "-"]) == 0
    assert capsys.readouterr().out == whole and not Path("-").exists()
