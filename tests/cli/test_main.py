"""The command as a whole: help, version, exit statuses, pipes that close, terminals."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from durasess import __version__
from durasess.cli.main import VERBS, main
from tests.cli import sessions

NAMES = list(VERBS)


def test_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"durasess {__version__}\n"


@pytest.mark.parametrize("name", NAMES)
def test_help_of_every_verb_is_one_imperative_line_and_an_example(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([name, "--help"]) == 0
    text = capsys.readouterr().out
    summary = text.split("\n\n")[1].split("\n")[0]
    assert summary.endswith(".") and summary.count(".") == 1
    assert not summary.split()[0].endswith("s"), "say what to do, not what it does"
    assert f"\nexample:\n  durasess {name} " in text


@pytest.mark.parametrize("name", NAMES)
def test_options_are_long_but_for_n_of_tail_and_o_of_export(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main([name, "--help"])
    words = re.split(r"[\s\[\](),]+", capsys.readouterr().out.replace("(-9)", ""))
    short = {word for word in words if word.startswith("-") and not word.startswith("--")}
    assert short == {"tail": {"-n"}, "export": {"-o"}}.get(name, set())


def test_help_lists_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(re.search(rf"(?m)^    {name}\b", text) for name in NAMES)
    assert "example:\n  durasess inspect " in text


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["look"],
        ["inspect"],
        ["inspect", "x", "--at", "0"],
        ["inspect", "x", "--diff", "1"],
        ["inspect", "x", "--context", "-1"],
        ["tail", "x", "-n", "few"],
        ["completion", "csh"],
        ["drill", "--kills", "many"],
        ["drill", "--writers", "17"],
    ],
    ids=str,
)
def test_wrong_usage_is_status_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert "usage: durasess" in capsys.readouterr().err


def test_abbreviated_option_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "x", "--ev"]) == 2


@pytest.mark.parametrize("name", ["inspect", "prune", "repair", "tail", "verify"])
def test_no_session_is_status_3_and_changes_nothing(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([name, str(tmp_path / "absent")]) == 3
    assert list(tmp_path.iterdir()) == []
    said = capsys.readouterr()
    assert "there is no session" in said.err + said.out


def test_error_is_a_json_document_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(tmp_path / "absent"), "--json"]) == 3
    said = json.loads(capsys.readouterr().out)
    assert said["error"]["kind"] == "SessionNotFoundError"
    assert said["error"]["path"] == str(tmp_path / "absent")


def test_reader_that_has_seen_enough_causes_no_traceback(tmp_path: Path) -> None:
    path = sessions.copy("clean", tmp_path)
    source = subprocess.Popen(
        sessions.command("inspect", str(path), "--events", "--json"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=sessions.environment(),
    )
    assert source.stdout is not None and source.stderr is not None
    source.stdout.close()
    errors = source.stderr.read()
    source.stderr.close()
    assert errors == b""
    assert source.wait() == 141


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is full")
@pytest.mark.parametrize("more", [[], ["--json"]])
@pytest.mark.parametrize("verb", ["inspect", "verify"])
def test_full_disk_of_the_output_is_no_damage_and_no_traceback(
    tmp_path: Path, verb: str, more: list[str]
) -> None:
    path = sessions.copy("clean", tmp_path)
    command = sessions.command(verb, str(path), *more)
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, env=sessions.environment()
        )
    assert done.returncode == 3
    assert done.stderr.startswith("durasess: the output could not be written: ")
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="a shell of POSIX closes it")
@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_output_that_the_caller_closed_leaves_the_status(tmp_path: Path, closed: str) -> None:
    path = sessions.copy("clean", tmp_path)
    line = f"{' '.join(sessions.command('verify', str(path), '--json'))} {closed}"

    def status() -> int:
        done = subprocess.run(["sh", "-c", line], capture_output=True, env=sessions.environment())
        return done.returncode

    assert status() == 0
    (path / "events_0001.jsonl").write_bytes(b"@@@@\n")
    assert status() == 1


def test_head_gets_its_lines(tmp_path: Path) -> None:
    path = sessions.copy("clean", tmp_path)
    line = " ".join(sessions.command("inspect", str(path), "--events"))
    done = subprocess.run(
        ["sh", "-c", f"{line} | head -n 1"],
        capture_output=True,
        text=True,
        env=sessions.environment(),
        check=True,
    )
    assert done.stdout.startswith("session       s-clean")
    assert done.stderr == ""


def test_piped_output_has_no_escape_codes(tmp_path: Path) -> None:
    path = sessions.copy("damaged-middle", tmp_path)
    for arguments in (["inspect", str(path), "--events"], ["verify", str(path)]):
        done = sessions.run(*arguments)
        assert done.returncode == 1
        assert "\x1b" not in done.stdout and "damage" in done.stdout


def on_a_terminal(*arguments: str, **environment: str) -> tuple[int, bytes]:
    """Status and output of the command on a pseudo-terminal."""
    pty = pytest.importorskip("pty", reason="there are no pseudo-terminals on this system")
    parent, child = pty.openpty()
    process = subprocess.Popen(
        sessions.command(*arguments),
        stdout=child,
        env={**sessions.environment(), "TERM": "xterm-256color", "COLUMNS": "100", **environment},
    )
    os.close(child)
    said = b""
    while True:
        try:
            piece = os.read(parent, 4096)
        except OSError:
            break
        if not piece:
            break
        said += piece
    os.close(parent)
    return process.wait(), said


COLOUR = re.compile(rb"\x1b\[[0-9;]*3[0-7]m")


def test_terminal_gets_colour_panels_and_a_tree(tmp_path: Path) -> None:
    path = sessions.copy("damaged-middle", tmp_path)
    status, said = on_a_terminal("inspect", str(path))
    assert status == 1
    assert b"\x1b[1;31mdamage" in said and COLOUR.search(said)
    assert "╭".encode() in said and "├── ".encode() in said


def test_no_color_takes_the_colours_away_and_leaves_the_panels(tmp_path: Path) -> None:
    path = sessions.copy("damaged-middle", tmp_path)
    status, said = on_a_terminal("inspect", str(path), NO_COLOR="1")
    assert status == 1
    assert not COLOUR.search(said) and "╭".encode() in said


def test_long_work_shows_a_bar_on_a_terminal_that_goes_away(tmp_path: Path) -> None:
    path = sessions.copy("clean", tmp_path)
    for verb in ("inspect", "verify", "prune"):
        status, said = on_a_terminal(verb, str(path))
        assert status == 0
        assert "━".encode() in said, "a bar was drawn"
        assert b"\x1b[2K" in said, "and its line was cleared"


def test_ascii_only_output_escapes_what_it_cannot_show(tmp_path: Path) -> None:
    environment = {**sessions.environment(), "PYTHONIOENCODING": "ascii"}
    path = sessions.copy("clean", tmp_path)
    done = subprocess.run(
        sessions.command("inspect", str(path), "--events"),
        capture_output=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0
    assert done.stdout.isascii() and done.stderr == b""
    assert b"|-- meta.json" in done.stdout and b"\\u251c" not in done.stdout


def test_command_without_a_report_imports_no_rich() -> None:
    code = "import sys, durasess.cli.main; sys.exit('rich' in sys.modules)"
    done = subprocess.run(
        [*sessions.command()[:1], "-c", code], env=sessions.environment(), check=False
    )
    assert done.returncode == 0


def test_verb_imports_no_other_verb(tmp_path: Path) -> None:
    code = (
        "import sys; from durasess.cli.main import main; "
        f"main(['list', {str(tmp_path)!r}]); "
        "print(*sorted(one for one in sys.modules if one.startswith('durasess.')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=sessions.environment(),
        check=True,
    )
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "durasess.cli.list" in loaded
    for name in ("cli.drill", "cli.inspect", "cli.export", "interop.html", "store.index"):
        assert f"durasess.{name}" not in loaded
