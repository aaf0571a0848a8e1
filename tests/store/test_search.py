"""Searching all sessions and asking for runs: with the index, without it, and with a wrong one."""

from __future__ import annotations

import errno
import math
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from durasess import StorageError, Store
from durasess.engine.files import RealFiles
from durasess.store import index, texts
from durasess.store.index import Index
from durasess.store.search import Found
from tests.support import foreign, stores

SECRET = "sk-abcdefghijklmnopqrstuvwxyz123456"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Two sessions."""
    store = stores.store_at(tmp_path)
    with store.create("a1", title="one", model="m-1", workspace=tmp_path) as session:
        with session.run("Fix the Wörld in login.py") as run:
            asked = [{"call_id": "c1", "name": "read_file", "arguments": {"path": "deep.txt"}}]
            run.assistant("Looking", tool_calls=asked, usage={"prompt_tokens": 7})
            with run.tool("c1") as call:
                call.result({"found": "treasure" + " x" * 50_000})
        session.note("a remark")
    with store.create("a2", model="m-2") as session, pytest.raises(OSError), session.run("go"):
        raise OSError("no disk")
    return store


def hits(found: Found) -> list[tuple[str, int, str]]:
    """Where it was found."""
    return [(one.session_id, one.seq, one.role) for one in found.hits]


@contextmanager
def no_full_text(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A SQLite without full-text search."""
    with monkeypatch.context() as patch:
        patch.setattr(Index, "_make_texts", lambda self: False)
        yield


def test_store_that_is_not_there_yet_has_no_runs_and_no_hits(tmp_path: Path) -> None:
    store = Store(tmp_path / "new")
    assert len(store.list()) == len(store.runs()) == len(store.statistics("day")) == 0
    found = store.search("x")
    assert not found.hits and not any("not used" in note for note in found.notes)
    assert store.rebuild_index().sessions == 0
    assert not (tmp_path / "new").exists()


QUERIES = {
    "wörld": [("a1", 4, "user")],
    "WÖRLD fix": [("a1", 4, "user")],
    "gin.p": [("a1", 4, "user")],
    "in": [("a1", 5, "assistant"), ("a1", 4, "user")],
    "deep.txt": [("a1", 5, "call")],
    "treasure": [("a1", 7, "tool")],
    "remark": [("a1", 9, "note")],
    '"quoted" OR -x*': [],
    "go": [("a2", 3, "user")],
    "wörld treasure": [],
}


@pytest.mark.parametrize("query", QUERIES)
def test_search_finds_every_word_in_one_message(store: Store, query: str) -> None:
    assert hits(store.search(query)) == QUERIES[query]


@pytest.mark.parametrize("query", QUERIES)
def test_search_without_full_text_finds_the_same(
    store: Store, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with no_full_text(monkeypatch):
        found = store.search(query)
    assert hits(found) == QUERIES[query]
    assert any("no full-text search" in note for note in found.notes)


def test_search_for_no_word_is_refused(store: Store) -> None:
    with pytest.raises(ValueError, match="word"):
        store.search("  ")


def test_limit_that_cuts_says_so(store: Store) -> None:
    found = store.search("in", limit=1)
    assert len(found.hits) == 1 and found.is_cut
    assert not store.search("in", limit=2).is_cut


def test_search_is_of_the_sessions_that_are_wanted(store: Store, tmp_path: Path) -> None:
    assert hits(store.search("o", workspace=tmp_path)) == hits(
        store.search("o", workspace=tmp_path / "x" / "..")
    )
    assert {one.session_id for one in store.search("o", workspace=tmp_path).hits} == {"a1"}


def test_what_is_said_later_is_found_and_what_was_found_is_found_once(store: Store) -> None:
    assert len(store.search("remark").hits) == 1
    with store.open("a1") as session:
        session.note("another remark")
        assert len(store.search("remark").hits) == 2, "while it is open"
    assert len(store.search("remark").hits) == 2


def test_deleted_session_is_not_found(store: Store) -> None:
    assert store.search("go").hits
    store.delete("a2")
    assert not store.search("go").hits


def test_session_that_was_put_back_and_went_another_way_is_indexed_anew(
    store: Store, tmp_path: Path
) -> None:
    store.pack("a2", tmp_path / "a2.zip")
    with store.open("a2") as session:
        session.note("first way")
    assert store.search("first way").hits
    store.delete("a2")
    store.unpack(tmp_path / "a2.zip")
    with store.open("a2") as session:
        session.note("second way")
    assert not store.search("first way").hits
    assert store.search("second way").hits


def test_secrets_are_neither_shown_nor_indexed(tmp_path: Path) -> None:
    store = Store(tmp_path / "store", mask=None)
    stores.make(store, "a1", title=f"title {SECRET}")
    with store.open("a1") as session:
        session.note(f"key {SECRET} here")
    (hit,) = store.search("key").hits
    assert SECRET not in hit.excerpt + hit.title and "[masked]" in hit.excerpt
    assert SECRET.encode() not in (tmp_path / "store/.index.sqlite").read_bytes()


def test_large_message_is_searched_up_to_the_limit_that_is_named(store: Store) -> None:
    with store.open("a1") as session:
        session.note("y" * texts.LONGEST + " behind")
    found = store.search("behind")
    assert not found.hits
    assert any(f"{texts.LONGEST:,}" in note for note in found.notes)


def test_session_that_cannot_be_read_is_named_and_hides_no_other(store: Store) -> None:
    stores.spoil_meta(f"{store.path}/a2")
    found = store.search("wörld")
    assert hits(found) == [("a1", 4, "user")]
    assert found.unreadable.keys() == {"a2"}


def garbage(path: Path) -> None:
    path.write_bytes(b"this is no index" * 500)


def newer(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version=99")


def other_tables(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version={index.VERSION}")
        db.execute("CREATE TABLE sessions(x)")


def half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


@pytest.mark.parametrize(
    "spoil", [garbage, newer, other_tables, half], ids=lambda one: one.__name__
)
def test_wrong_index_hides_no_session_and_can_be_made_anew(store: Store, spoil: object) -> None:
    store.search("wörld")
    spoil(Path(store.path) / ".index.sqlite")  # type: ignore[operator]
    assert hits(store.search("wörld")) == QUERIES["wörld"]
    assert store.list().total == 2
    with store.open("a1"):
        pass
    assert store.rebuild_index().sessions == 2
    found = store.search("wörld")
    assert hits(found) == QUERIES["wörld"] and len(found.notes) == 1


def test_locked_index_is_not_waited_for_long(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.search("wörld")
    with store.open("a1") as session:
        session.note("later")
    monkeypatch.setattr(index, "TIMEOUT_S", 0.05)
    with closing(sqlite3.connect(f"{store.path}/.index.sqlite", isolation_level=None)) as db:
        db.execute("BEGIN EXCLUSIVE")
        found = store.search("later")
        assert len(found.hits) == 1 and "locked" in found.notes[-1]
        with pytest.raises(StorageError, match="locked"):
            store.rebuild_index()
        with store.open("a1"):
            pass


def test_index_is_for_this_user_alone(store: Store) -> None:
    store.search("wörld")
    assert (Path(store.path) / ".index.sqlite").stat().st_mode & 0o777 == 0o600


def test_runs_are_the_newest_with_their_time_and_tokens(store: Store) -> None:
    last, first = store.runs()
    assert (first.session_id, first.status, first.total, first.model) == (
        "a1",
        "succeeded",
        7,
        "m-1",
    )
    assert first.seconds is not None and first.seconds > 0
    assert (last.session_id, last.status, last.error) == ("a2", "failed", "OSError: no disk")
    assert store.runs(limit=1) == (last,)


def test_failed_runs_are_all_there(store: Store) -> None:
    session = store.create("a3")
    session.run("cut off").start()
    session.abandon()
    store.open("a3").close()
    assert [run.status for run in store.runs(limit=1, failed=True)] == ["interrupted", "failed"]


def test_run_that_goes_on_is_ended_later(store: Store) -> None:
    with store.open("a1") as session, session.run("long") as run:
        assert store.runs(limit=1)[0].status == "running"
        run.assistant("x", usage={"completion_tokens": 5})
    (run_now, *_) = store.runs(limit=1)
    assert (run_now.status, run_now.completion) == ("succeeded", 5)


def test_sums_by_day_model_and_workspace(store: Store, tmp_path: Path) -> None:
    by_model = {one.key: one for one in store.statistics("model")}
    assert (by_model["m-1"].runs, by_model["m-1"].total) == (1, 7)
    assert (by_model["m-2"].runs, by_model["m-2"].failed) == (1, 1)
    assert [one.runs for one in store.statistics("day")] == [2]
    assert {one.key for one in store.statistics("workspace")} == {"", str(tmp_path)}
    with pytest.raises(ValueError, match="by is"):
        store.statistics("hour")  # type: ignore[arg-type]


def test_fork_counts_what_is_its_own(store: Store) -> None:
    with store.fork("a1", new_id="f1") as fork:
        stores.say(fork, usage={"prompt_tokens": 1})
    assert [(one.session_id, one.total) for one in store.runs()] == [
        ("f1", 1),
        ("a2", 0),
        ("a1", 7),
    ]
    assert sum(one.total for one in store.statistics("model")) == 8


def test_index_that_was_made_in_steps_is_the_one_made_at_once(store: Store) -> None:
    for number in range(3):
        with store.open("a1") as session:
            stores.say(session, f"step {number}", usage={"prompt_tokens": 2})
        store.search("step")
    in_steps = (store.runs(), store.statistics("day"), store.search("step"))
    store.rebuild_index()
    assert (store.runs(), store.statistics("day"), store.search("step")) == in_steps


def test_damaged_session_is_searched_as_far_as_it_goes_and_named_every_time(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment = Path(store.path) / "a1/events_0001.jsonl"
    lines = segment.read_bytes().split(b"\n")
    lines[6] = b"@" * len(lines[6])
    segment.write_bytes(b"\n".join(lines))
    (Path(store.path) / "a1/snapshot.json.zst").unlink(missing_ok=True)
    for _ in range(2):
        found = store.search("wörld")
        assert hits(found) == QUERIES["wörld"] and "damaged" in found.unreadable["a1"]
    with no_full_text(monkeypatch):
        store.rebuild_index()
        assert "damaged" in store.search("wörld").unreadable["a1"]


def test_run_whose_worker_was_killed_is_interrupted_before_anybody_says_so(store: Store) -> None:
    session = store.create("k1")
    session.run("go").start()
    assert [one.status for one in store.runs() if one.session_id == "k1"] == ["running"]
    assert "k1" not in {one.session_id for one in store.runs(failed=True)}
    session.abandon()
    assert [one.status for one in store.runs() if one.session_id == "k1"] == ["interrupted"]
    assert "k1" in {one.session_id for one in store.runs(failed=True)}


def test_counters_beyond_every_integer_of_the_index_hide_no_session(
    store: Store, tmp_path: Path
) -> None:
    used = {"input": 2**70, "output": 2**62, "totalTokens": 2**71, "cost": {"total": 1.7e308}}
    said = {
        "role": "assistant",
        "content": [{"type": "text", "text": "counted"}],
        "usage": used,
    }
    lines: list[dict[str, Any]] = [{"type": "session", "version": 3, "id": "f1", "cwd": "/w"}]
    lines += [
        {"type": "message", "id": f"m{number}", "message": said, "timestamp": f"200{number}-01-01"}
        for number in range(3)
    ]
    foreign.Imported(store, foreign.write(tmp_path / "f.jsonl", lines))
    assert [session for session, _, _ in hits(store.search("counted"))] == ["pi-f1"] * 3
    (group,) = [one for one in store.statistics("workspace") if one.key == "/w"]
    assert group.total >= 2**53
    assert math.isfinite(group.cost)


def test_what_was_found_can_be_looped_over(store: Store) -> None:
    found = store.search("treasure")
    assert [hit.seq for hit in found] == [hit.seq for hit in found.hits]
    assert len(found) == 1


@pytest.mark.parametrize("refusal", [errno.EACCES, errno.EROFS], ids=["EACCES", "EROFS"])
def test_runs_and_sums_of_a_store_that_nobody_may_write_are_made_from_the_sessions(
    store: Store, refusal: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = store.runs(), store.statistics(by="model")
    os.unlink(index.path_of(store.path))

    def refuse(disk: Any, path: str) -> int:
        raise OSError(refusal, os.strerror(refusal), path)

    monkeypatch.setattr(RealFiles, "create", refuse)
    assert (store.runs(), store.statistics(by="model")) == expected
    assert not os.path.exists(index.path_of(store.path))
    assert len(expected[0]) == 2


def test_runs_of_a_store_whose_index_is_of_somebody_else_are_made_from_the_sessions(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = store.runs()
    with store.open("a1") as session, session.run("more"):
        pass
    real = sqlite3.connect

    def read_only(place: str, **options: Any) -> sqlite3.Connection:
        if place == ":memory:":
            return real(place, **options)
        return real(f"file:{place}?mode=ro", uri=True, **options)

    monkeypatch.setattr(sqlite3, "connect", read_only)
    assert len(store.runs()) == len(expected) + 1
