"""How every verb names a store and a session in it: the same way, $DURASESS_HOME respected."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

import pytest

from durasess import Store
from durasess.cli.main import _parser, main
from tests.support import stores

OF_A_STORE = ["list", "search", "runs", "gc", "move", "doctor", "import", "unpack"]
OF_A_SESSION = [
    *("inspect", "verify", "repair", "tail", "prune", "export"),
    *("fork", "rewind", "rename", "archive", "pin", "delete", "pack"),
]
MORE = {
    "search": ["hello"],
    "gc": ["--older-than", "1d"],
    "import": ["--all"],
    "rename": ["another"],
    "export": ["--format", "jsonl"],
}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Two sessions in a store that nobody named; the directory one is in is another."""
    store = stores.store_at(tmp_path)
    stores.make(store, "first-1", title="login bug")
    stores.make(store, "second-2", title="billing")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setenv("DURASESS_HOME", str(tmp_path / "absent"))
    monkeypatch.setenv("HOME", str(tmp_path / "elsewhere"))
    return store


def verbs() -> dict[str, argparse.ArgumentParser]:
    """The parser of each verb."""
    (found,) = (one for one in _parser()._actions if isinstance(one, argparse._SubParsersAction))
    return dict(found.choices)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> Any:
    """What a verb says with --json."""
    capsys.readouterr()
    assert main([*arguments, "--json"]) == status
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("verb", [*OF_A_STORE, *OF_A_SESSION])
def test_every_verb_takes_the_store_as_the_same_option(verb: str) -> None:
    (option,) = (one for one in verbs()[verb]._actions if "--store" in one.option_strings)
    assert (option.dest, option.metavar) == ("store", "DIR")
    assert "$DURASESS_HOME" in str(option.help)


@pytest.mark.parametrize("verb", OF_A_SESSION)
def test_every_verb_of_a_session_names_it_the_same_way(verb: str) -> None:
    (place,) = (one for one in verbs()[verb]._actions if one.dest == "session")
    assert place.metavar == "SESSION"


def test_same_options_mean_the_same(store: Store) -> None:
    said: dict[str, set[tuple[Any, ...]]] = {}
    for name, verb in verbs().items():
        for one in verb._actions:
            for flag in one.option_strings:
                if flag in ("--store", "--show-secrets", "--workspace", "--user", "--apply"):
                    said.setdefault(flag, set()).add((one.metavar, one.nargs))
                if flag == "--json":
                    said.setdefault(flag, set()).add((name in verbs(), one.nargs))
                if flag == "--limit":
                    said.setdefault(flag, set()).add((one.metavar, one.nargs))
    assert all(len(ways) == 1 for ways in said.values()), said
    assert all("--json" in verb._option_string_actions for verb in verbs().values())


@pytest.mark.parametrize("verb", ["list", "runs", "doctor", "search"])
def test_store_is_the_option_else_the_environment(
    verb: str, store: Store, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    more = MORE.get(verb, [])
    given = printed(capsys, verb, *more, "--store", store.path)
    monkeypatch.setenv("DURASESS_HOME", store.path)
    assert printed(capsys, verb, *more) == given
    assert "first-1" in json.dumps(given) or given["sessions"] == 2


@pytest.mark.parametrize("verb", ["list", "runs", "doctor", "gc"])
def test_verb_of_a_whole_store_takes_it_as_its_place_too(
    verb: str, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    more = MORE.get(verb, [])
    at_its_place = printed(capsys, verb, store.path, *more)
    assert printed(capsys, verb, "--store", store.path, *more) == at_its_place
    assert printed(capsys, verb, store.path, "--store", store.path, *more) == at_its_place
    assert main([verb, store.path, "--store", "another", *more]) == 2
    assert "two stores are named" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["inspect", "verify", "repair", "prune", "pin", "fork"])
@pytest.mark.parametrize("text", ["first-1", "fir", "Login Bug", "login"])
def test_session_is_found_by_id_prefix_and_title(
    verb: str, text: str, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "first-1" in json.dumps(printed(capsys, verb, text, "--store", store.path))


def test_export_and_tail_find_sessions_so_too(
    store: Store, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["export", "login", "--store", store.path]) == 0
    assert "login bug" in capsys.readouterr().out

    def stop(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", stop)
    assert main(["tail", "fir", "--limit", "1", "--store", store.path, "--json"]) == 130
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_path_is_a_path_whatever_the_store(
    store: Store, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Store(Path(store.path).parent / "other")
    stores.make(other, "first-1", title="the other")
    path = os.path.join(other.path, "first-1")
    assert printed(capsys, "inspect", path, "--store", store.path)["path"] == path
    monkeypatch.chdir(other.path)
    assert printed(capsys, "inspect", "first-1")["path"] == path
    monkeypatch.chdir(path)
    assert printed(capsys, "inspect", ".")["path"] == path
    monkeypatch.chdir(other.path)
    in_store = os.path.join(store.path, "first-1")
    assert printed(capsys, "inspect", "first-1", "--store", store.path)["path"] == in_store


def test_directory_with_the_name_of_a_session_does_not_hide_it(
    store: Store, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("first-1").mkdir()
    monkeypatch.setenv("DURASESS_HOME", store.path)
    found = printed(capsys, "inspect", "first-1")
    assert found["path"] == os.path.join(store.path, "first-1")


@pytest.mark.parametrize("verb", OF_A_SESSION)
def test_session_that_is_not_there_is_named_with_every_place_that_was_looked_at(
    verb: str, store: Store, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    more = {"rename": ["x"], "pack": ["x.zip"], "rewind": ["--to", "1"]}.get(verb, [])
    assert main([verb, "third", *more]) == 3
    said = capsys.readouterr().err
    assert str(tmp_path / "elsewhere" / "third") in said and str(tmp_path / "absent") in said
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_text_that_means_several_sessions_names_them(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    stores.make(store, "first-2")
    assert main(["inspect", "first", "--store", store.path]) == 3
    said = capsys.readouterr().err
    assert "may be 2 sessions" in said and "first-1 (login bug)" in said


@pytest.mark.parametrize("verb", [["list"], ["runs"], ["runs", "--by", "day"], ["search", "x"]])
def test_default_store_that_is_not_there_yet_is_empty(
    verb: list[str], store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    printed(capsys, *verb)
    assert not Path(store.path, "..", "absent").exists()


def test_verify_without_a_session_is_of_the_whole_store(
    store: Store, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(printed(capsys, "verify", "--store", store.path)["sessions"]) == 2
    monkeypatch.setenv("DURASESS_HOME", store.path)
    assert len(printed(capsys, "verify")["sessions"]) == 2
    monkeypatch.setenv("DURASESS_HOME", store.path + "-absent")
    assert printed(capsys, "verify")["sessions"] == []
    assert main(["verify", "--store", store.path + "-absent"]) == 3
