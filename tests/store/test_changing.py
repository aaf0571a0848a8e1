"""Names, marks and places of closed sessions; what an open one answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from durasess import Event, SessionLockedError, SessionNotFoundError, Store, WorkspaceNotFoundError
from tests.support import stores


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store."""
    return stores.store_at(tmp_path)


def test_rename_is_an_event_and_shows_in_the_list(store: Store) -> None:
    path = stores.make(store, "a1", title="old")
    store.rename("a1", "new")
    assert store.list().rows[0].title == "new"
    assert stores.types_of(store, "a1")[-1] == "session_changed"
    assert not stores.verified(path).damage


def test_change_to_what_is_so_already_writes_nothing(store: Store) -> None:
    path = stores.make(store, "a1", title="old")
    before = len(stores.events_of(store, "a1"))
    store.rename("a1", "old")
    store.unpin("a1")
    assert len(stores.events_of(store, "a1")) == before
    assert not stores.verified(path).damage


def test_archive_pin_and_back(store: Store) -> None:
    stores.make(store, "a1")
    store.archive("a1")
    store.pin("a1")
    (row,) = store.list().rows
    assert (row.status, row.pinned) == ("archived", True)
    store.unarchive("a1")
    store.unpin("a1")
    (row,) = store.list().rows
    assert (row.status, row.pinned) == ("active", False)


def test_secret_in_a_title_is_masked(store: Store) -> None:
    path = stores.make(store, "a1")
    store.rename("a1", "key sk-abcdefghijklmnopqrstuvwxyz123456")
    assert b"abcdefghijklmnop" not in b"".join(one.read_bytes() for one in Path(path).glob("*.*"))


@pytest.mark.parametrize("verb", ["rename", "archive", "unarchive", "pin", "unpin", "delete"])
def test_open_session_is_refused_with_its_holders_name(store: Store, verb: str) -> None:
    with store.create("a1"), pytest.raises(SessionLockedError, match="process"):
        getattr(store, verb)(*(["a1", "x"] if verb == "rename" else ["a1"]))


@pytest.mark.parametrize("verb", ["archive", "delete", "make_fork", "lineage"])
@pytest.mark.parametrize("session_id", ["absent", "../a1", "", ".", "CON"])
def test_session_that_is_not_there(store: Store, verb: str, session_id: str) -> None:
    stores.make(store, "a1")
    with pytest.raises(SessionNotFoundError):
        getattr(store, verb)(session_id)


def test_what_was_cut_off_stays_for_the_program_to_recover(store: Store) -> None:
    session = store.create("a1")
    run = session.run("go").start()
    run.assistant("", tool_calls=[{"call_id": "c1", "name": "deploy", "arguments": {}}])
    run.tool("c1").__enter__()
    session.abandon()
    store.rename("a1", "later")
    store.tool("deploy", verify=lambda call: "applied")
    with store.open("a1") as opened:
        assert opened.recovery.interrupted_run
        assert opened.recovery.calls[0].decision == "applied"
        assert opened.title == "later"


def test_state_of_the_programs_own_events_survives_who_does_not_know_them(tmp_path: Path) -> None:
    def counted(state: dict[str, int], event: Event) -> None:
        state["n"] = state.get("n", 0) + 1

    def program() -> Store:
        return Store(tmp_path / "store", reducers={"counted": counted})

    with program().create("a1") as session:
        for _ in range(50):
            session.emit("counted", {"much": "x" * 500})
        session.abandon()
    Store(tmp_path / "store").rename("a1", "new")
    with program().open("a1") as session:
        assert session.custom_state == {"n": 50}


def test_sessions_of_a_moved_project_follow_it(store: Store, tmp_path: Path) -> None:
    old, other = tmp_path / "a" / "b", tmp_path / "a" / "b-c"
    for folder in (old / "sub", other):
        folder.mkdir(parents=True)
    stores.make(store, "a1", workspace=old)
    stores.make(store, "a2", workspace=old / "sub")
    stores.make(store, "a3", workspace=other)
    new = old.rename(tmp_path / "new")
    planned = store.move_workspace(old, new)
    assert [one.session_id for one in planned] == ["a1", "a2"]
    assert store.list(workspace=new).total == 0, "a dry run changes nothing"
    assert store.move_workspace(old, new, dry_run=False) == planned
    assert [row.session_id for row in store.list(workspace=new / "sub").rows] == ["a2"]
    assert store.list(workspace=other).total == 1
    with store.open("a1") as session:
        assert session.workspace.root == str(new)


def test_move_to_a_place_that_is_not_there_is_refused(store: Store, tmp_path: Path) -> None:
    with pytest.raises(WorkspaceNotFoundError):
        store.move_workspace(tmp_path, tmp_path / "absent")


def test_move_says_which_session_was_left(store: Store, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    with store.create("a1", workspace=tmp_path):
        (moved,) = store.move_workspace(tmp_path, tmp_path / "new", dry_run=False)
    assert "open for writing" in moved.problem
