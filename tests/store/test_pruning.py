"""Whole sessions that are old or large: said first, removed on request, some never."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from durasess import Store
from tests.support import stores

MONTH = datetime.timedelta(days=30)


@pytest.fixture
def clock() -> stores.Clock:
    """Stands still until it is moved."""
    return stores.Clock()


@pytest.fixture
def store(tmp_path: Path, clock: stores.Clock) -> Store:
    """An old session and a new one."""
    store = stores.store_at(tmp_path, clock)
    stores.make(store, "old")
    clock.pass_days(40)
    stores.make(store, "new")
    return store


def gone(store: Store, **criteria: object) -> list[str]:
    """The ids that would go."""
    return [row.session_id for row in store.prune(**criteria).sessions]  # type: ignore[arg-type]


def left(store: Store) -> list[str]:
    """The ids that are there."""
    return sorted(row.session_id for row in store.list().rows)


def test_dry_run_says_what_would_go_and_changes_nothing(store: Store) -> None:
    before = stores.digest(store.path)
    planned = store.prune(older_than=MONTH)
    assert [row.session_id for row in planned.sessions] == ["old"]
    assert planned.dry_run and planned.size_bytes > 1000
    assert stores.digest(store.path) == before


def test_prune_removes_what_it_said(store: Store) -> None:
    planned = store.prune(older_than=MONTH)
    done = store.prune(older_than=MONTH, dry_run=False)
    assert done.sessions == planned.sessions and not done.dry_run
    assert left(store) == ["new"]


def test_every_criterion_that_is_given_must_fit(store: Store) -> None:
    assert gone(store, older_than=MONTH, status="archived") == []
    store.archive("old")
    assert gone(store, status="archived") == ["old"]
    assert gone(store, older_than=MONTH) == [], "its last event is new now"
    assert gone(store, larger_than=100_000_000) == []
    assert sorted(gone(store, larger_than=1)) == ["new", "old"]


def test_without_a_criterion_nothing_is_done(store: Store) -> None:
    with pytest.raises(ValueError, match="older_than"):
        store.prune(dry_run=False)
    assert left(store) == ["new", "old"]


def test_pinned_open_and_unreadable_sessions_stay_and_are_named(
    store: Store, clock: stores.Clock
) -> None:
    stores.make(store, "pinned")
    store.pin("pinned")
    stores.spoil_meta(stores.make(store, "broken"))
    with store.open("old"):
        clock.pass_days(100)
        done = store.prune(older_than=MONTH, dry_run=False)
    assert left(store) == ["broken", "old", "pinned"]
    reasons = {one.session_id: one.reason for one in done.kept}
    assert reasons.keys() == {"broken", "old", "pinned"}
    assert reasons["pinned"] == "it is pinned" and "open" in reasons["old"]


def test_age_is_that_of_the_last_event_not_of_the_last_summary(
    store: Store, clock: stores.Clock
) -> None:
    session = store.open("old")
    session.note("used again, and then killed")
    session.abandon()
    assert store.list().rows[-1].session_id == "old", "the list says it is the oldest"
    done = store.prune(older_than=MONTH)
    assert done.sessions == ()
    assert "newer" in done.kept[0].reason


@pytest.mark.parametrize(
    ("criteria", "message"),
    [
        ({"older_than": 0}, "older_than"),
        ({"older_than": 30.0}, "older_than"),
        ({"older_than": "30d"}, "older_than"),
        ({"older_than": -MONTH}, "older_than"),
        ({"larger_than": "1G"}, "larger_than"),
        ({"larger_than": -1}, "larger_than"),
        ({"status": "idle"}, "status"),
    ],
)
def test_criterion_that_is_none_is_refused_before_anything_goes(
    store: Store, criteria: dict[str, object], message: str
) -> None:
    """A period of minus thirty days would be that of every session."""
    with pytest.raises((TypeError, ValueError), match=message):
        store.prune(dry_run=False, **criteria)  # type: ignore[arg-type]
    assert left(store) == ["new", "old"]
