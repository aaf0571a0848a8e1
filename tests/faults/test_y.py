"""FAULTS Y: nothing is removed by itself, and what takes room can be seen and removed."""

from __future__ import annotations

import datetime
import os
from pathlib import Path

import pytest

from durasess import Store
from tests.support import stores


@pytest.fixture
def clock() -> stores.Clock:
    """Stands still until it is moved."""
    return stores.Clock()


@pytest.fixture
def store(tmp_path: Path, clock: stores.Clock) -> Store:
    """A session that is a year old."""
    store = stores.store_at(tmp_path, clock)
    stores.make(store, "old")
    clock.pass_days(365)
    return store


def test_y1_nothing_goes_by_age_without_being_asked(store: Store) -> None:
    old = Path(store.path) / "old"
    for file in old.iterdir():
        os.utime(file, (0, 0))
    stores.make(store, "new")
    store.list()
    store.search("hello")
    store.examine()
    store.latest().close()
    assert {row.session_id for row in store.list().rows} == {"old", "new"}


def test_y1_files_touched_today_do_not_make_a_session_young(store: Store) -> None:
    for file in (Path(store.path) / "old").iterdir():
        file.touch()
    planned = store.prune(older_than=datetime.timedelta(days=30))
    assert [row.session_id for row in planned.sessions] == ["old"]


def test_y1_pinned_session_stays(store: Store, clock: stores.Clock) -> None:
    store.pin("old")
    clock.pass_days(365)
    done = store.prune(older_than=datetime.timedelta(days=30), dry_run=False)
    assert done.sessions == () and done.kept[0].reason == "it is pinned"


def test_y2_size_of_each_session_shows_and_large_ones_can_go(store: Store) -> None:
    with store.create("large") as session:
        for number in range(3):
            session.note(f"{number}" * 200_000)
    sizes = {row.session_id: row.size_bytes for row in store.list(sizes=True).rows}
    assert (sizes["large"] or 0) > 600_000 > (sizes["old"] or 0)
    done = store.prune(larger_than=500_000, dry_run=False)
    assert [row.session_id for row in done.sessions] == ["large"]
    assert done.size_bytes == sizes["large"]
