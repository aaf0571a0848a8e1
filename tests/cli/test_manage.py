"""The verbs that change sessions as a whole: fork, rewind, rename, archive, pin, delete, gc, move,
pack."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from durasess import EventRejectedError, Store
from durasess.cli.main import main
from durasess.engine.files import RealFiles
from tests.support import stores
from tests.support.sessions import unchanged


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Two sessions."""
    store = stores.store_at(tmp_path)
    for number in range(2):
        stores.make(store, f"a{number}", title=f"bug {number}")
    return store


def report(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> dict[str, Any]:
    """What it prints with --json."""
    capsys.readouterr()
    assert main([*arguments, "--json"]) == status
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def row(store: Store, session_id: str) -> Any:
    """How the list shows a session; None when it does not."""
    found = {one.session_id: one for one in store.list().rows}
    return found.get(session_id)


@pytest.mark.parametrize("name", ["a0", "bug 0", "BUG 0", "path"])
def test_session_is_named_by_id_title_or_path(
    store: Store, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    where = [f"{store.path}/a0"] if name == "path" else [name, "--store", store.path]
    assert report(capsys, "rename", *where, "new")["session_id"] == "a0"
    assert row(store, "a0").title == "new"


def test_name_that_may_be_two_is_status_3_and_names_them(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    with unchanged(store.path):
        assert main(["rename", "bug", "x", "--store", store.path]) == 3
    assert "a0 (bug 0)" in capsys.readouterr().err


def test_fork_says_where_it_is(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    done = report(capsys, "fork", "a0", "--at", "2", "--id", "f1", "--store", store.path)
    assert done == {"session_id": "f1", "path": f"{store.path}/f1", "parent": "a0", "at": 2}
    assert main(["fork", "a0", "--at", "99", "--store", store.path]) == 3


def test_archive_and_pin_can_be_undone(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    report(capsys, "archive", "a0", "--store", store.path)
    report(capsys, "pin", "a0", "--store", store.path)
    assert (row(store, "a0").status, row(store, "a0").pinned) == ("archived", True)
    report(capsys, "archive", "a0", "--undo", "--store", store.path)
    report(capsys, "pin", "a0", "--undo", "--store", store.path)
    assert (row(store, "a0").status, row(store, "a0").pinned) == ("active", False)


@pytest.mark.parametrize("verb", ["archive", "pin", "rename", "delete", "pack"])
def test_open_session_is_status_3_and_names_who_has_it(
    store: Store, verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = {"rename": ["x"], "delete": ["--apply"], "pack": [str(tmp_path / "x.zip")]}
    with store.open("a0"):
        assert main([verb, "a0", *more.get(verb, []), "--store", store.path]) == 3
    assert "process " in capsys.readouterr().err


def test_delete_is_a_dry_run_unless_told(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    with unchanged(store.path):
        assert not report(capsys, "delete", "a0", "--store", store.path)["applied"]
    assert report(capsys, "delete", "a0", "--store", store.path, "--apply")["applied"]
    assert row(store, "a0") is None and row(store, "a1") is not None


def test_pinned_session_is_deleted_only_when_told(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    store.pin("a0")
    delete = ["delete", "a0", "--store", store.path, "--apply"]
    assert main(delete) == 3
    assert "pinned" in capsys.readouterr().err
    assert main([*delete, "--even-pinned"]) == 0


def test_gc_is_a_dry_run_unless_told(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    store.pin("a1")
    gc = ["gc", store.path, "--older-than", "30d"]
    with unchanged(store.path):
        planned = report(capsys, *gc)
    assert [one["session_id"] for one in planned["sessions"]] == ["a0"]
    assert [one["session_id"] for one in planned["kept"]] == ["a1"]
    assert main([*gc, "--apply"]) == 0
    assert row(store, "a0") is None


@pytest.mark.parametrize(
    "more", [[], ["--older-than", "soon"], ["--larger-than", "big"], ["--status", "x"]], ids=str
)
def test_gc_without_a_criterion_that_makes_sense_is_wrong_usage(
    store: Store, more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with unchanged(store.path):
        assert main(["gc", store.path, "--apply", *more]) == 2


def test_move_is_a_dry_run_unless_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = stores.store_at(tmp_path)
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    stores.make(store, "a1", workspace=old)
    old.rename(new)
    move = ["move", str(old), str(new), "--store", store.path]
    with unchanged(store.path):
        assert len(report(capsys, *move)["sessions"]) == 1
    assert main([*move, "--apply"]) == 0
    assert row(store, "a1").workspace == str(new)
    capsys.readouterr()
    assert main(move) == 0
    said = capsys.readouterr().out
    assert store.path in said and "0 sessions" in said and "--apply" not in said
    assert main(["move", str(old), str(tmp_path / "absent"), "--store", store.path]) == 3


def test_pack_and_unpack(store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, other = str(tmp_path / "a0.zip"), str(tmp_path / "other")
    assert report(capsys, "pack", "a0", file, "--store", store.path)["last_seq"] == 4
    assert main(["pack", "a0", file, "--store", store.path]) == 3
    assert report(capsys, "unpack", file, "--store", other)["session_id"] == "a0"
    assert report(capsys, "unpack", file, "--store", other)["was_there"]
    stores.make(Store(tmp_path / "third"), "a0")
    copy = report(capsys, "unpack", file, "--store", str(tmp_path / "third"))
    assert (copy["session_id"], copy["packed_id"]) == ("a0.2", "a0")
    assert main(["unpack", file, "--store", other]) == 0
    assert "nothing was changed" in capsys.readouterr().out


def test_file_that_is_no_packed_session_is_status_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.zip").write_text("text")
    assert main(["unpack", str(tmp_path / "x.zip"), "--store", str(tmp_path / "store")]) == 1


def test_rewind_says_what_it_takes_back_and_does_it_when_told(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    with store.open("a0") as session:
        stores.say(session, "more")
        last = session.last_seq
    before = stores.events_of(store, "a0")
    with unchanged(store.path):
        planned = report(capsys, "rewind", "a0", "--to", "4", "--store", store.path)
    assert planned == {"session_id": "a0", "to": 4, "messages": 2, "applied": False}
    assert main(["rewind", "a0", "--to", "4", "--store", store.path, "--apply"]) == 0
    assert "2 messages behind seq 4 do not count any more" in capsys.readouterr().out
    with store.open("a0", mode="read") as session:
        assert [one.content for one in session.history()] == ["hello 0", "done"]
    after = stores.events_of(store, "a0")
    assert after[:last] == before and [one.type for one in after[last:]] == ["rewound"]


def test_rewind_to_an_unknown_seq_or_of_an_open_session_is_refused(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    with unchanged(store.path):
        for to in ("99", "5"):
            assert main(["rewind", "a0", "--to", to, "--store", store.path, "--apply"]) == 2
    with pytest.raises(EventRejectedError, match="not before the last event"):
        store.rewind("a0", to=99)
    with store.open("a0"):
        assert main(["rewind", "a0", "--to", "2", "--store", store.path, "--apply"]) == 3
    assert "open for writing" in capsys.readouterr().err


def test_gc_that_the_system_refuses_is_no_success(
    store: Store, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(disk: Any, source: str, target: str) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), source)

    monkeypatch.setattr(RealFiles, "replace", refuse)
    before = sorted(row.session_id for row in store.list())
    code = main(["gc", store.path, "--older-than", "30d", "--apply", "--json"])
    report = json.loads(capsys.readouterr().out)
    assert code == 3 and any(one["is_refused"] for one in report["kept"])
    assert sorted(row.session_id for row in store.list()) == before
