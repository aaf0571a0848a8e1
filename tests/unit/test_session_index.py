"""An index that is damaged is made anew, wherever it lies; one that another process has is not."""

import sqlite3
from pathlib import Path

import pytest

from durasess import StorageError
from durasess.store import index
from tests.support.harness import store_at


def test_damaged_index_in_a_directory_named_locked_is_made_anew(tmp_path):
    store = store_at(tmp_path / "locked")
    store.create("s").close()
    Path(index.path_of(store.path)).write_bytes(b"no database" * 100)
    assert store.rebuild_index().sessions == 1


def test_index_that_another_process_writes_is_left_to_it(tmp_path, monkeypatch):
    monkeypatch.setattr(index, "TIMEOUT_S", 0.01)
    store = store_at(tmp_path)
    store.create("s").close()
    store.rebuild_index()
    other = sqlite3.connect(index.path_of(store.path), isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StorageError, match="try again"):
        store.rebuild_index()
    other.execute("ROLLBACK")
    assert other.execute("SELECT count(*) FROM sessions").fetchone() == (1,)
    other.close()


def test_index_of_another_version_is_emptied_and_filled_anew(tmp_path):
    store = store_at(tmp_path)
    store.create("s").close()
    store.rebuild_index()
    other = sqlite3.connect(index.path_of(store.path), isolation_level=None)
    other.execute(f"PRAGMA user_version={index.VERSION + 1}")
    assert store.runs() == ()
    assert other.execute("PRAGMA user_version").fetchone() == (index.VERSION,)
    other.close()
