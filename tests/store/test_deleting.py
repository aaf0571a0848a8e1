"""Removing a session: gone at once, never a pinned or open one, and nothing but that one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from durasess import EventRejectedError, SessionNotFoundError, StorageError, Store
from durasess.engine.files import RealFiles
from durasess.store import deleting
from tests.support import stores


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Two sessions."""
    store = stores.store_at(tmp_path)
    stores.make(store, "a1")
    stores.make(store, "a2")
    return store


@pytest.fixture
def clock() -> stores.Clock:
    """Stands still until it is moved."""
    return stores.Clock()


def test_session_that_is_a_link_is_not_removed_where_it_lies(store: Store, tmp_path: Path) -> None:
    """Its files were, through the link, and the link was left under a name that nothing removed."""
    other = stores.store_at(tmp_path / "other")
    stores.make(other, "b1")
    before = stores.digest(Path(other.path) / "b1")
    link = Path(store.path) / "b1"
    link.symlink_to(Path(other.path) / "b1")
    with pytest.raises(StorageError, match=r"it is a link to .* where it lies"):
        store.delete("b1")
    for dry_run in (True, False):
        pruned = store.prune(larger_than=1, dry_run=dry_run)
        assert [(one.session_id, one.reason[:12]) for one in pruned.kept] == [
            ("b1", "it is a link")
        ]
    assert link.is_symlink() and stores.digest(Path(other.path) / "b1") == before
    link.rename(Path(store.path) / ".b1.x.deleted")
    store.remove_leftovers()
    assert not os.listdir(store.path)
    assert stores.digest(Path(other.path) / "b1") == before


def test_deleted_session_is_gone_and_the_other_is_as_it_was(store: Store) -> None:
    before = stores.digest(Path(store.path) / "a2")
    store.delete("a1")
    assert os.listdir(store.path) == ["a2"]
    assert stores.digest(Path(store.path) / "a2") == before
    with pytest.raises(SessionNotFoundError):
        store.open("a1")


def test_pinned_session_stays_unless_told(store: Store) -> None:
    store.pin("a1")
    with pytest.raises(EventRejectedError, match="pinned"):
        store.delete("a1")
    store.delete("a1", even_pinned=True)
    assert store.list().total == 1


def test_session_that_may_be_pinned_stays_unless_told(store: Store) -> None:
    stores.spoil_meta(f"{store.path}/a1")
    with pytest.raises(EventRejectedError, match="cannot be told"):
        store.delete("a1")
    store.delete("a1", even_pinned=True)
    assert store.list().total == 1


def test_what_links_in_a_session_lead_to_stays(store: Store, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "keep").write_text("x")
    os.symlink(outside, Path(store.path) / "a1" / "link")
    os.symlink(outside / "keep", Path(store.path) / "a1" / "blobs")
    store.delete("a1")
    assert (outside / "keep").read_text() == "x"


class Failing(RealFiles):
    """A disk that stops at the n-th removal."""

    def __init__(self, left: int) -> None:
        super().__init__()
        self.left = left

    def unlink(self, path: str) -> None:
        self.left -= 1
        if self.left < 0:
            raise OSError(5, "Input/output error")
        super().unlink(path)


def delete(disk: Any, store: Store) -> None:
    """Delete a1 on a disk."""
    deleting.delete(disk, store.path, "a1", token="t", even_pinned=False)


@pytest.mark.parametrize("left", range(6))
def test_deletion_cut_short_leaves_it_whole_or_gone_from_every_list(
    store: Store, left: int
) -> None:
    try:
        delete(Failing(left), store)
    except StorageError:
        pass
    assert [row.session_id for row in store.list().rows] == ["a2"]
    stores.make(store, "a3")
    store.delete("a3")
    assert os.listdir(store.path) == ["a2"], "the next deletion removes the rest"


def test_rest_that_somebody_else_removes_meanwhile_is_no_error(store: Store) -> None:
    class Beside(RealFiles):
        """A disk on which another deletion sweeps up at the first removal."""

        def unlink(self, path: str) -> None:
            if not done:
                done.append(True)
                stores.make(store, "a3")
                store.delete("a3")
            super().unlink(path)

    done: list[bool] = []
    delete(Beside(), store)
    assert os.listdir(store.path) == ["a2"]


def test_leftovers_go_on_request_when_nobody_makes_them_any_more(
    tmp_path: Path, clock: stores.Clock
) -> None:
    store = stores.store_at(tmp_path, clock)
    stores.make(store, "a1")
    root = Path(store.path)
    for name in (".a2.t1.deleted", ".a3.t2.new", ".a4.t3.new", ".mine"):
        (root / name / "inside").mkdir(parents=True)
        (root / name / "inside" / "file").write_text("x")
    hour = deleting.BUILDING_S
    now = clock.now / 1e9
    for path in [root / ".a3.t2.new", *(root / ".a3.t2.new").rglob("*")]:
        os.utime(path, (now - hour - 9, now - hour - 9))
    for path in [root / ".a4.t3.new", *(root / ".a4.t3.new").rglob("*")]:
        os.utime(path, (now - hour - 9, now - hour - 9))
    # Somebody writes there.
    os.utime(root / ".a4.t3.new" / "inside" / "file", (now - 9, now - 9))
    before = stores.digest(root / "a1")
    gone = [str(root / ".a2.t1.deleted"), str(root / ".a3.t2.new")]
    assert [one.path for one in store.examine().findings if one.kind == "leftover"] == [
        gone[0],
        gone[1],
        str(root / ".a4.t3.new"),
    ]
    assert list(store.remove_leftovers()) == gone
    assert sorted(os.listdir(root)) == [".a4.t3.new", ".mine", "a1"]
    assert stores.digest(root / "a1") == before and store.remove_leftovers() == ()
