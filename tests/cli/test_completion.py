"""`durasess completion`: scripts that are made from the parser and complete what it knows."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from durasess.cli.main import VERBS, main
from tests.cli import sessions
from tests.support.capabilities import unavailable

NAMES = list(VERBS)

BASH = """
. {script}
COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_durasess
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The script of a shell."""
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_is_as_expected(
    shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sessions.assert_expected(f"completion-{shell}", script(shell, capsys), tmp_path)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_has_every_verb_and_option(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = script(shell, capsys)
    for name in [*NAMES, "show-secrets", "writers", "reducer", "apply"]:
        assert name in text


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shell_can_read_its_script(
    shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"{shell} is not installed; .ci/run installs no shells, and runs in bash")
    path = tmp_path / "script"
    path.write_text(script(shell, capsys))
    done = subprocess.run([found, "-n", str(path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def bash(script_path: Path, words: str) -> list[str]:
    """What bash offers for these words, the last one begun."""
    found = shutil.which("bash")
    if found is None:
        unavailable("bash is not installed")
    done = subprocess.run(
        [found, "--norc", "-c", BASH.format(script=script_path, words=words)],
        capture_output=True,
        text=True,
        check=True,
        cwd=script_path.parent,
    )
    return sorted(filter(None, done.stdout.split("\n")))


def test_bash_completes_verbs_options_words_and_paths(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "script"
    path.write_text(script("bash", capsys))
    (tmp_path / "my session").mkdir()
    (tmp_path / "mine.jsonl").write_text("")
    assert bash(path, "durasess ''") == sorted([*NAMES, "--help", "--version"])
    assert bash(path, "durasess ins") == ["inspect"]
    assert bash(path, "durasess inspect --a") == ["--all", "--around", "--at"]
    assert bash(path, "durasess tail x -") == [
        "--after",
        "--help",
        "--json",
        "--limit",
        "--show-secrets",
        "--store",
        "-n",
    ]
    assert bash(path, "durasess inspect my") == ["my session"]
    assert bash(path, "durasess verify 'my session' m") == ["my session"]
    assert bash(path, "durasess drill --input mi") == ["mine.jsonl"]
    assert bash(path, "durasess inspect --at ''") == []
    assert bash(path, "durasess inspect a1 --context --max") == ["--max-tokens"]
    assert bash(path, "durasess completion ''") == ["bash", "fish", "zsh"]


def test_zsh_is_told_that_a_value_must_follow(capsys: pytest.CaptureFixture[str]) -> None:
    """Two colons would say that it need not, and that the words are its description."""
    text = script("zsh", capsys)
    assert "]::" not in text and "]:VALUE:(active completed archived)" in text


def test_bash_offers_the_sessions_of_the_store(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "script"
    path.write_text(script("bash", capsys))
    store = tmp_path / "a store"
    for name in ("a1", "a2", "b1", "a$(touch made)", ".quarantine"):
        (store / name).mkdir(parents=True)
    monkeypatch.setenv("DURASESS_HOME", str(store))
    assert bash(path, "durasess inspect a") == ["a store", "a1", "a2"]
    assert bash(path, "durasess rename b") == ["b1"]
    monkeypatch.setenv("DURASESS_HOME", str(tmp_path / "absent"))
    assert bash(path, "durasess inspect b") == []
    assert bash(path, f"durasess pin --store '{store}' b") == ["b1"]
    assert not (tmp_path / "made").exists()


def test_json_is_a_document_with_the_script(capsys: pytest.CaptureFixture[str]) -> None:
    text = script("fish", capsys)
    assert main(["completion", "fish", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"fish": text}
