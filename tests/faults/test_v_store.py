"""FAULTS V, K8, M, W4, G of a store: what one bad, open or moved thing does to the rest."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from durasess import CorruptionError, SessionLockedError, SessionNotFoundError, StorageError, Store
from durasess.engine.files import RealFiles
from tests.support import sessions, stores


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Five sessions."""
    store = stores.store_at(tmp_path)
    for number in range(5):
        stores.make(store, f"a{number}")
    return store


def test_v5_one_unreadable_session_of_five_is_marked(store: Store) -> None:
    stores.spoil_meta(f"{store.path}/a2")
    rows = store.list().rows
    assert len(rows) == 5
    assert [row.session_id for row in rows if row.problem] == ["a2"]
    assert [row.session_id for row in store.list(limit=2).rows if row.problem] == ["a2"]


def test_v7_no_reader_removes_anything_of_a_store_with_a_corrupt_file(store: Store) -> None:
    stores.spoil_meta(f"{store.path}/a2")
    with sessions.unchanged(store.path):
        store.list(limit=None, sizes=True)
        store.examine()
        with pytest.raises(SessionNotFoundError):
            store.find("nothing such")
        store.prune(larger_than=0)
    done = store.prune(status="archived", dry_run=False)
    assert done.sessions == () and [one.session_id for one in done.kept] == ["a2"]


def test_v8_session_whose_log_is_not_there_is_told_and_hides_no_other(store: Store) -> None:
    folder = Path(store.path) / "a1"
    for file in [*folder.glob("events_*"), *folder.glob("snapshot*")]:
        file.unlink()
    assert store.list().total == 5
    found = store.search("hello")
    assert found.unreadable.keys() == {"a1"}
    assert {one.session_id for one in found.hits} == {"a0", "a2", "a3", "a4"}
    with pytest.raises(CorruptionError):
        store.open("a1")


def once(error: int, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next call of a method fails as the system may."""
    real = getattr(RealFiles, name)
    failed: list[bool] = []

    def call(self: RealFiles, path: str, *more: Any, **options: Any) -> Any:
        if not failed and ("a1" in path or name == "listdir"):
            failed.append(True)
            raise OSError(error, os.strerror(error), path)
        return real(self, path, *more, **options)

    monkeypatch.setattr(RealFiles, name, call)


@pytest.mark.parametrize("error", [errno.EIO, errno.EACCES])
def test_v10_temporary_failure_is_an_error_and_no_empty_state(
    store: Store, error: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sessions.unchanged(store.path):
        once(error, "open", monkeypatch)
        with pytest.raises(StorageError):
            store.open("a1")
    with store.open("a1") as session:
        assert len(list(session.history())) == 2


@pytest.mark.parametrize("error", [errno.EIO, errno.EACCES])
def test_v10_list_marks_what_it_could_not_read_and_reads_it_next_time(
    store: Store, error: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    once(error, "first_bytes", monkeypatch)
    assert store.list().unreadable == 1
    assert store.list().unreadable == 0


def test_v10_store_that_cannot_be_listed_is_not_an_empty_one(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    once(errno.EIO, "listdir", monkeypatch)
    with pytest.raises(StorageError):
        store.list()


def test_k8_session_that_is_open_elsewhere_is_not_deleted(store: Store) -> None:
    code = (
        "import sys, durasess\n"
        "try: durasess.Store(sys.argv[1]).delete('a1')\n"
        "except durasess.SessionLockedError as error: print(error.holder.pid)\n"
    )
    with store.open("a1") as session:
        done = stores.in_another_process(code, store.path)
        assert done.stdout.strip() == str(os.getpid()), done.stderr
        session.note("goes on")
    store.delete("a1")


def test_k8_lock_file_that_is_merely_there_keeps_nobody_out(store: Store) -> None:
    (Path(store.path) / "a1/owner").write_text("pid 1")
    store.rename("a1", "x")
    store.delete("a1")


def test_m2_moved_project_finds_its_sessions_by_its_new_path(tmp_path: Path) -> None:
    store = stores.store_at(tmp_path)
    old = tmp_path / "old"
    old.mkdir()
    stores.make(store, "a1", workspace=old)
    new = old.rename(tmp_path / "new")
    assert store.list(workspace=new).total == 0
    store.move_workspace(old, new, dry_run=False)
    assert store.list(workspace=new).total == 1
    with store.latest(workspace=new) as session:
        assert session.session_id == "a1"


def test_m4_project_is_found_through_another_spelling_of_its_path(tmp_path: Path) -> None:
    store = stores.store_at(tmp_path)
    (tmp_path / "proj").mkdir()
    os.symlink(tmp_path / "proj", tmp_path / "link")
    stores.make(store, "a1", workspace=tmp_path / "proj")
    for spelling in ("link", "proj/", "./proj/../proj"):
        assert store.list(workspace=f"{tmp_path}/{spelling}").total == 1, spelling


def test_m4_windows_path_is_compared_as_such_on_every_system(store: Store) -> None:
    with store.open("a1") as session:
        session.emit("workspace_bound", {"path": "C:\\Work\\Proj"})
    assert store.list(workspace="c:/work/proj").total == 1


def test_m5_projects_whose_names_collide_are_not_mixed(tmp_path: Path) -> None:
    store = stores.store_at(tmp_path)
    for number, name in enumerate(("a/b-c", "a-b/c")):
        (tmp_path / name).mkdir(parents=True)
        stores.make(store, f"s{number}", workspace=tmp_path / name)
    assert [row.session_id for row in store.list(workspace=tmp_path / "a/b-c").rows] == ["s0"]


def test_w4_second_continue_in_one_directory_is_refused_by_name(store: Store) -> None:
    with store.latest() as session, pytest.raises(SessionLockedError, match="process"):
        store.latest()
    assert session.session_id == "a4"


def test_g4_everything_in_a_store_is_for_its_user_alone(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        store = stores.store_at(tmp_path)
        path = Path(stores.make(store, "a1"))
        store.make_fork("a1", new_id="f1")
        store.search("hello")
        store.pack("a1", tmp_path / "a1.zip")
        other = Store(tmp_path / "other")
        other.unpack(tmp_path / "a1.zip")
    finally:
        os.umask(before)
    places = [path.parent, *path.parent.rglob("*"), Path(other.path), *Path(other.path).rglob("*")]
    open_to_others = [one for one in [*places, tmp_path / "a1.zip"] if one.stat().st_mode & 0o077]
    assert open_to_others == []


@pytest.mark.parametrize(
    "session_id",
    ["..", ".", "a/b", "../x", "/etc/x", "C:\\x", "CON", "a\0b", "a" * 300, "", "a.", "a ", " a"],
)
@pytest.mark.parametrize("verb", ["open", "delete", "fork", "rename", "pack", "pin"])
def test_g5_id_that_is_none_is_refused_before_any_file_is_touched(
    store: Store, session_id: str, verb: str
) -> None:
    more = {"rename": ["x"], "pack": [f"{store.path}/../out.zip"]}.get(verb, [])
    with sessions.unchanged(Path(store.path).parent), pytest.raises(SessionNotFoundError):
        getattr(store, verb)(session_id, *more)


def test_g5_new_id_of_a_fork_that_is_none_is_refused(store: Store) -> None:
    with sessions.unchanged(Path(store.path).parent), pytest.raises(SessionNotFoundError):
        store.fork("a1", new_id="../../x")
