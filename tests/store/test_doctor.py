"""What a look over a store finds, and that it changes nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from durasess import Store
from durasess.store.doctor import Examined
from tests.support import sessions, stores


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Two sessions."""
    store = stores.store_at(tmp_path)
    stores.make(store, "a1")
    stores.make(store, "a2")
    return store


def found(store: Store, kind: str) -> list[str]:
    """The names that findings of a kind are about."""
    with sessions.unchanged(store.path):
        examined = store.examine()
    return [Path(one.path).name for one in examined.findings if one.kind == kind]


def test_sound_store_has_no_findings_but_its_place(store: Store) -> None:
    examined = store.examine()
    assert {one.kind for one in examined.findings} <= {"place"}
    assert (examined.sessions, examined.unreadable, examined.held) == (2, 0, ())
    assert examined.index == "missing"


def test_store_that_is_not_there(tmp_path: Path) -> None:
    assert not Store(tmp_path / "absent").examine().exists
    assert not (tmp_path / "absent").exists()


def test_open_session_is_held_by_somebody(store: Store) -> None:
    with store.open("a1"):
        (held,) = store.examine().held
    assert (held.session_id, held.mode) == ("a1", "own")
    assert held.holder.startswith("process ")
    assert store.examine().held == (), "the lock file alone means nothing"


def test_shared_session_is_held_too(store: Store) -> None:
    with store.open("a1", mode="shared"):
        assert [(one.session_id, one.mode) for one in store.examine().held] == [("a1", "shared")]


def test_what_others_may_read(store: Store) -> None:
    root = Path(store.path)
    (root / "a1").chmod(0o755)
    (root / "a2/meta.json").chmod(0o644)
    assert found(store, "permissions") == ["a1", "meta.json"]


def test_what_was_left_behind(store: Store) -> None:
    root = Path(store.path)
    (root / ".x.1-2-3.new").mkdir(mode=0o700)
    (root / ".y.1.deleted").mkdir(mode=0o700)
    tmp = root / "a1/meta.json.tmp"
    tmp.touch(mode=0o600)
    assert sorted(found(store, "leftover")) == [".x.1-2-3.new", ".y.1.deleted", "meta.json.tmp"]


def test_what_is_not_the_stores(store: Store) -> None:
    root = Path(store.path)
    (root / "readme.txt").touch(mode=0o600)
    (root / "a1/notes").touch(mode=0o600)
    assert sorted(found(store, "foreign")) == ["notes", "readme.txt"]


def test_what_looks_damaged(store: Store) -> None:
    root = Path(store.path)
    stores.spoil_meta(str(root / "a1"))
    segment = root / "a2/events_0001.jsonl"
    segment.write_bytes(b"\x00" * segment.stat().st_size)
    assert sorted(found(store, "damage")) == ["a1", "a2"]
    assert store.examine().unreadable == 2


def test_circle_of_parents_is_told_once(store: Store) -> None:
    store.make_fork("a1", new_id="f1")
    make_circle(store)
    assert len(found(store, "parents")) == 1


def make_circle(store: Store) -> None:
    """a1's parent is f1, whose parent is a1."""
    from durasess.engine import meta
    from durasess.engine.files import RealFiles

    path = f"{store.path}/a1"
    before = meta.read(RealFiles(), path)
    assert before.summary is not None
    summary = meta.Summary(before.summary.seq, {**before.summary.data, "parent": "f1"})
    fields = {name: getattr(before, name) for name in before.__struct_fields__}
    meta.publish(RealFiles(), path, meta.Meta(**{**fields, "summary": summary}))


def test_index_that_cannot_be_used(store: Store) -> None:
    store.search("hello")
    assert store.examine().index == "sound"
    (Path(store.path) / ".index.sqlite").write_bytes(b"garbage" * 100)
    assert store.examine().index == "unusable"
    assert found(store, "index") == [".index.sqlite"]


def test_many_findings_are_counted(store: Store) -> None:
    for number in range(150):
        (Path(store.path) / f"file{number}.txt").touch(mode=0o600)
    examined: Examined = store.examine()
    assert sum(one.kind == "foreign" for one in examined.findings) == 100
    assert examined.left_out == {"foreign": 50}


@pytest.mark.skipif(os.name == "nt", reason="names there are text")
def test_store_whose_name_is_no_utf8_is_looked_over(tmp_path: Path) -> None:
    store = stores.store_at(tmp_path / os.fsdecode(b"caf\xe9 %41?x"))
    stores.make(store, "a1")
    store.rebuild_index()
    assert found(store, "index") == []
    assert store.examine().index == "sound"
