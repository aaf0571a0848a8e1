"""A new session is there whole or not at all."""

import errno

import pytest

from durasess import SessionExistsError, SessionNotFoundError, StorageError
from durasess.engine.create import create
from durasess.engine.files import RealFiles
from tests.support.sessions import SIM_PATH, STORE, sim_disk, tree_of

TS = "2026-01-01T00:00:00.000000Z"


def made(files, path=SIM_PATH):
    create(files, str(path), created=TS, schema_version=1, token="t")


def test_new_session_has_meta_and_lock_files(tmp_path):
    made(RealFiles(), tmp_path / "s1")
    assert sorted(tree_of(tmp_path)) == ["s1", "s1/lock", "s1/meta.json", "s1/owner"]


def test_it_is_built_under_a_dot_name_synced_and_renamed():
    files = sim_disk()
    made(files)
    kinds = [op.kind for op in files.log]
    renamed = max(n for n, op in enumerate(files.log) if op.kind == "rename")
    assert files.log[renamed].name.startswith(".s1.")
    assert "sync" in kinds[:renamed]
    assert kinds[renamed - 1] == "sync_dir"
    assert kinds[renamed + 1 :] == []


def test_empty_directory_is_taken(tmp_path):
    (tmp_path / "s1").mkdir()
    made(RealFiles(), tmp_path / "s1")
    assert (tmp_path / "s1" / "meta.json").exists()


@pytest.mark.parametrize("there", ["file", "directory"])
def test_what_is_there_already_is_left_alone(tmp_path, there):
    path = tmp_path / "s1"
    if there == "file":
        path.write_text("mine")
    else:
        path.mkdir()
        (path / "notes.txt").write_text("mine")
    before = tree_of(tmp_path)
    with pytest.raises(SessionExistsError):
        made(RealFiles(), path)
    assert tree_of(tmp_path) == before


def test_missing_parent_is_named(tmp_path):
    with pytest.raises(StorageError, match=r"Make .* first") as caught:
        made(RealFiles(), tmp_path / "no" / "s1")
    assert caught.value.errno == errno.ENOENT


def test_bad_id_is_refused_before_any_file_access():
    files = sim_disk()
    files.fail("*", sticky=True)
    with pytest.raises(SessionNotFoundError):
        made(files, f"{STORE}/CON")


@pytest.mark.parametrize("kind", ["mkdir", "create", "write_at", "sync", "replace", "sync_dir"])
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_failed_creation_leaves_nothing_or_a_whole_session(kind, nth):
    files = sim_disk()
    fault = files.fail(kind, nth=nth, code=errno.ENOSPC)
    try:
        made(files)
    except StorageError as error:
        assert error.errno == errno.ENOSPC
    left = [path for path in files.tree() if path != STORE]
    assert left == [] or {SIM_PATH, f"{SIM_PATH}/meta.json"} <= set(left)
    assert not any("/." in path for path in left)
    assert fault is not None
