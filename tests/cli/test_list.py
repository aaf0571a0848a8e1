"""`durasess list`, `search`, `runs`, `doctor`: what they print of a store, and their statuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from durasess import Store
from durasess.cli.main import main
from tests.cli import sessions
from tests.support import stores
from tests.support.sessions import unchanged

SECRET = "sk-abcdefghijklmnopqrstuvwxyz123456"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Three sessions."""
    store = stores.store_at(tmp_path)
    for number in range(3):
        stores.make(store, f"a{number}", title=f"bug {number}", model="m-1", user_id=f"u{number}")
    return store


def printed(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    """What the command prints."""
    capsys.readouterr()
    assert main(list(arguments)) == status
    return capsys.readouterr().out


def report(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> dict[str, Any]:
    """What it prints with --json."""
    found: dict[str, Any] = json.loads(printed(capsys, *arguments, "--json", status=status))
    return found


def test_list_has_a_line_for_each_session(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    with unchanged(store.path):
        text = printed(capsys, "list", store.path)
    lines = text.splitlines()
    assert [line.split()[0] for line in lines[:4]] == ["session", "a2", "a1", "a0"]
    assert "bug 2" in lines[1] and "3 sessions" in text and "\x1b" not in text


def test_list_uses_the_default_store(
    store: Store, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DURASESS_HOME", store.path)
    assert report(capsys, "list")["total"] == 3


def test_list_pages_and_says_what_is_hidden(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    found = report(capsys, "list", store.path, "--limit", "1", "--offset", "1", "--sizes")
    assert [row["session_id"] for row in found["rows"]] == ["a1"]
    assert (found["hidden"], found["rows"][0]["size_bytes"] > 1000) == (2, True)
    assert "2 more" in printed(capsys, "list", store.path, "--limit", "1")


def test_list_filters(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    store.archive("a0")
    assert report(capsys, "list", store.path, "--status", "archived")["total"] == 1
    assert report(capsys, "list", store.path, "--user", "u1")["total"] == 1
    assert report(capsys, "list", store.path, "--since", "2099-01-01")["total"] == 0
    whole = report(capsys, "list", store.path)
    days = sorted(one["active_at"][:10] for one in whole["rows"])
    until = report(capsys, "list", store.path, "--until", days[-1])
    assert until["total"] == whole["total"] > 0
    order = report(capsys, "list", store.path, "--sort", "title")["rows"]
    assert [row["session_id"] for row in order] == ["a0", "a1", "a2"]


def test_list_shows_a_tree(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    store.make_fork("a0", new_id="f0")
    store.make_fork("f0", new_id="g0")
    lines = printed(capsys, "list", store.path, "--tree").splitlines()
    assert [line[:6].rstrip() for line in lines[1:6]] == ["a0", "  f0", "    g0", "a2", "a1"]
    rows = report(capsys, "list", store.path, "--tree")["rows"]
    assert [row["depth"] for row in rows] == [0, 1, 2, 0, 0]


def test_list_indents_so_far_and_then_says_the_level(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(9):
        store.make_fork(f"f{number - 1}" if number else "a0", new_id=f"f{number}")
    text = printed(capsys, "list", store.path, "--tree")
    assert "\n                f7 " in text and "\n                (9) f8 " in text


def test_list_says_whether_a_run_goes_on(
    store: Store, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = store.open("a0")
    session.run("go").start()
    assert "active, running " in printed(capsys, "list", store.path)
    session.abandon()
    assert "active, interrupted" in printed(capsys, "list", store.path)
    monkeypatch.setattr("durasess.store.holders.is_open", lambda *given: None)
    assert "active, running?" in printed(capsys, "list", store.path)


def test_list_of_forks_takes_any_name_of_the_parent(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    store.make_fork("a0", new_id="f0")
    assert main(["list", store.path, "--parent", "bug 0"]) == 3
    assert "may be 2 sessions" in capsys.readouterr().err
    store.rename("f0", "mine")
    for name in ("a0", "bug 0"):
        rows = report(capsys, "list", store.path, "--parent", name)["rows"]
        assert [row["session_id"] for row in rows] == ["f0"]
    store.delete("a0")
    assert report(capsys, "list", store.path, "--parent", "a0")["total"] == 1


def test_list_marks_what_cannot_be_read(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    stores.spoil_meta(f"{store.path}/a1")
    text = printed(capsys, "list", store.path, status=1)
    assert "unreadable" in text and f"{store.path}/a1/meta.json" in text
    assert report(capsys, "list", store.path, status=1)["unreadable"] == 1


def test_list_masks_secrets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = Store(tmp_path / "store", mask=None)
    stores.make(store, "a1", title=f"use {SECRET}")
    assert SECRET not in printed(capsys, "list", store.path)
    assert SECRET not in printed(capsys, "list", store.path, "--json")
    assert SECRET in printed(capsys, "list", store.path, "--show-secrets", "--json")


@pytest.mark.parametrize("verb", ["list", "search", "runs", "gc", "doctor"])
def test_store_that_was_named_and_is_not_there_is_status_3(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    absent = str(tmp_path / "absent")
    more = {"search": ["x", "--store"], "gc": ["--older-than", "1d"]}.get(verb, [])
    assert main([verb, *more, absent]) == 3
    assert list(tmp_path.iterdir()) == []


def test_search_prints_where_and_the_text_around_it(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    text = printed(capsys, "search", "HELLO", "--store", store.path, "--limit", "2")
    assert " ".join(text.splitlines()[1].split()) == "a2 bug 2 3 2023-11-14 22:13 user hello 0"
    assert "there are more" in text and "\x1b" not in text
    assert len(report(capsys, "search", "hello", "--store", store.path)["hits"]) == 3


def test_search_for_nothing_is_wrong_usage(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["search", " ", "--store", store.path]) == 2


def test_runs_and_their_sums(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert [one["session_id"] for one in report(capsys, "runs", store.path)["runs"]] == [
        "a2",
        "a1",
        "a0",
    ]
    assert "3 runs" in printed(capsys, "runs", store.path)
    assert "0 runs" in printed(capsys, "runs", store.path, "--failed")
    assert report(capsys, "runs", store.path, "--by", "model")["groups"][0]["runs"] == 3
    assert "m-1" in printed(capsys, "runs", store.path, "--by", "model")


def test_doctor_says_what_to_do(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    (Path(store.path) / "a1").chmod(0o755)
    with unchanged(store.path):
        text = printed(capsys, "doctor", store.path)
    assert "chmod 0700" in text and "3 sessions" in text
    stores.spoil_meta(f"{store.path}/a2")
    assert "durasess verify" in printed(capsys, "doctor", store.path, status=1)


def test_doctor_names_who_has_what_open(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    with store.open("a1"):
        (held,) = report(capsys, "doctor", store.path)["held"]
        assert held["session_id"] == "a1"
        assert "process " in printed(capsys, "doctor", store.path)


def test_doctor_removes_leftovers_only_when_told(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    left = Path(store.path) / ".a9.token.deleted"
    left.mkdir()
    with unchanged(store.path):
        assert "durasess doctor --clean" in printed(capsys, "doctor", store.path)
    assert report(capsys, "doctor", store.path, "--clean")["removed"] == [str(left)]
    assert not left.exists() and store.list().total == 3


def test_doctor_makes_the_index_anew(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    (Path(store.path) / ".index.sqlite").write_bytes(b"garbage" * 100)
    assert report(capsys, "doctor", store.path)["index"] == "unusable"
    found = report(capsys, "doctor", store.path, "--rebuild-index")
    assert (found["index"], found["rebuilt"]["sessions"]) == ("sound", 3)


def test_list_on_a_pipe_that_closes_is_no_error(store: Store) -> None:
    done = sessions.run("list", store.path)
    assert done.returncode == 0 and done.stderr == ""
