"""Lists of sessions: what a row shows, which rows fit, pages, and rows that cannot be read."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Literal

import pytest

from durasess import SessionNotFoundError, StorageError, Store
from durasess.engine.files import RealFiles
from durasess.store import holders, rows
from tests.support import stores
from tests.support.sessions import unchanged


@pytest.fixture
def clock() -> stores.Clock:
    """Stands still until it is moved."""
    return stores.Clock()


@pytest.fixture
def store(tmp_path: Path, clock: stores.Clock) -> Store:
    """An empty store."""
    return stores.store_at(tmp_path, clock)


def ids(store: Store, **wanted: object) -> list[str]:
    """The ids on a page."""
    return [row.session_id for row in store.list(**wanted).rows]  # type: ignore[arg-type]


def test_row_shows_what_the_session_is(store: Store, tmp_path: Path) -> None:
    stores.make(
        store,
        "a1",
        runs=2,
        title="fix it",
        model="m-1",
        workspace=tmp_path,
        labels={"ticket": "T-7"},
        user_id="u1",
    )
    (row,) = store.list().rows
    assert (row.session_id, row.title, row.status, row.model) == ("a1", "fix it", "active", "m-1")
    assert (row.workspace, row.user_id, row.labels) == (str(tmp_path), "u1", {"ticket": "T-7"})
    assert (row.runs, row.messages, row.as_of, row.problem) == (2, 4, 9, "")
    assert row.last_run is not None and row.last_run["status"] == "succeeded"


def test_last_event_is_the_time_of_the_session_not_of_its_files(
    store: Store, clock: stores.Clock
) -> None:
    path = stores.make(store, "a1")
    clock.pass_days(9)
    (Path(path) / "meta.json").touch()
    last = stores.events_of(store, "a1")[-1]
    assert store.list().rows[0].updated_at == last.ts


def test_last_used_comes_first_and_paging_reaches_all(store: Store, clock: stores.Clock) -> None:
    for name in ("a1", "a2", "a3"):
        clock.pass_days(1)
        stores.make(store, name)
    first, second = store.list(limit=2), store.list(limit=2, offset=2)
    assert [row.session_id for row in first.rows] == ["a3", "a2"]
    assert [row.session_id for row in second.rows] == ["a1"]
    assert (first.total, first.hidden, second.hidden) == (3, 1, 2)
    assert ids(store, limit=None) == ["a3", "a2", "a1"]


def test_sorting_by_creation_and_title(store: Store, clock: stores.Clock) -> None:
    for name, title in (("a1", "beta"), ("a2", "Alpha"), ("a3", "gamma")):
        clock.pass_days(1)
        stores.make(store, name, title=title)
    with store.open("a1") as session:
        session.note("used again")
    assert ids(store, sort="created") == ["a3", "a2", "a1"]
    assert ids(store, sort="title", descending=False) == ["a2", "a1", "a3"]
    assert ids(store) == ["a1", "a3", "a2"]


def test_tree_has_forks_and_children_under_what_they_come_from(
    store: Store, clock: stores.Clock
) -> None:
    stores.make(store, "a1")
    clock.pass_days(1)
    stores.make(store, "b1")
    clock.pass_days(1)
    store.make_fork("a1", new_id="f1")
    with store.open("f1") as fork, fork.child(session_id="c1") as child:
        stores.say(child)
    found = store.list(tree=True)
    assert [(row.session_id, row.depth) for row in found.rows] == [
        ("a1", 0),
        ("f1", 1),
        ("c1", 2),
        ("b1", 0),
    ]
    pages = [store.list(tree=True, limit=1, offset=at) for at in range(4)]
    assert [one.rows[0] for one in pages] == list(found.rows)
    assert [one.hidden for one in pages] == [3, 3, 3, 3]
    only = store.list(tree=True, parent="a1")
    assert [(row.session_id, row.depth) for row in only.rows] == [("f1", 0)]


def test_tree_marks_what_cannot_be_read(store: Store) -> None:
    stores.make(store, "a1")
    store.make_fork("a1", new_id="f1")
    stores.spoil_meta(f"{store.path}/a1")
    found = store.list(tree=True)
    assert [(row.session_id, row.depth, bool(row.problem)) for row in found.rows] == [
        ("f1", 0, False),
        ("a1", 0, True),
    ]


@pytest.mark.parametrize("mode", ["own", "shared"])
@pytest.mark.parametrize("locks", ["/proc/locks", "/nowhere/locks"])
def test_run_goes_on_only_while_a_writer_has_the_session_open(
    mode: Literal["own", "shared"], locks: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holders, "_LOCKS", locks)
    session = store.create("a1", mode=mode)
    session.run("go").start()
    (row,) = store.list().rows
    assert (row.last_run or {})["status"] == "running" and row.is_open is True
    session.abandon()
    with unchanged(store.path):
        (row,) = store.list().rows
    assert (row.last_run or {})["status"] == "interrupted" and row.is_open is False


def test_whether_a_session_is_open_is_asked_for_unended_runs_on_the_page_alone(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a1", "a2"):
        session = store.create(name)
        session.run("go").start()
        session.abandon()
    stores.make(store, "a3")
    asked: list[str] = []
    read = list[int]()
    listed = holders.Listed

    def counted() -> holders.Listed:
        read.append(1)
        return listed()

    def is_open(disk: object, path: str, locks: object) -> None:
        asked.append(path)

    monkeypatch.setattr(holders, "Listed", counted)
    monkeypatch.setattr(holders, "is_open", is_open)
    found = store.list(limit=2).rows
    assert [row.session_id for row in found] == ["a3", "a2"]
    assert asked == [found[1].path] and read == [1]
    assert found[1].is_open is None and (found[1].last_run or {})["status"] == "running"
    store.list(limit=1)
    assert read == [1]


def test_unknown_sort_is_refused(store: Store) -> None:
    with pytest.raises(ValueError, match="activity"):
        store.list(sort="size")  # type: ignore[arg-type]


def test_filters_leave_what_fits(store: Store, tmp_path: Path) -> None:
    stores.make(store, "a1", workspace=tmp_path, user_id="u1", labels={"team": "x"})
    stores.make(store, "a2", labels={"team": "y"})
    store.archive("a2")
    assert ids(store, workspace=tmp_path) == ["a1"]
    assert ids(store, user_id="u1") == ["a1"]
    assert ids(store, status="archived") == ["a2"]
    assert sorted(ids(store, label="team")) == ["a1", "a2"]
    assert ids(store, label="team=y") == ["a2"]
    assert store.list(status="completed").total == 0


def test_since_and_until_are_about_the_last_event(store: Store, clock: stores.Clock) -> None:
    stores.make(store, "old")
    clock.pass_days(10)
    stores.make(store, "new")
    between = datetime.datetime.fromtimestamp(clock.now / 1e9, datetime.UTC) - datetime.timedelta(5)
    assert ids(store, since=between) == ["new"]
    assert ids(store, until=between.isoformat()) == ["old"]
    with pytest.raises(ValueError, match="RFC 3339"):
        store.list(since="yesterday")


def test_size_is_counted_on_request(store: Store) -> None:
    path = Path(stores.make(store, "a1"))
    assert store.list().rows[0].size_bytes is None
    expected = sum(one.stat().st_size for one in path.rglob("*") if one.is_file())
    assert store.list(sizes=True).rows[0].size_bytes == expected


def test_store_that_is_not_there_has_no_sessions(tmp_path: Path) -> None:
    assert Store(tmp_path / "absent").list().rows == ()
    assert not (tmp_path / "absent").exists()


def test_store_that_is_a_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError):
        Store(tmp_path / "file").list()


def test_dot_names_files_and_foreign_directories_are_no_sessions(store: Store) -> None:
    stores.make(store, "a1")
    root = Path(store.path)
    (root / ".hidden").mkdir()
    (root / "notes").mkdir()
    (root / "readme.txt").write_text("x")
    assert ids(store) == ["a1"]


def test_session_without_meta_is_a_marked_row(store: Store) -> None:
    path = Path(stores.make(store, "a1"))
    (path / "meta.json").unlink()
    (row,) = store.list().rows
    assert "missing" in row.problem and row.path == str(path)


def test_meta_of_another_session_is_marked(store: Store) -> None:
    path = Path(stores.make(store, "a1"))
    path.rename(path.parent / "b1")
    (row,) = store.list().rows
    assert "'a1'" in row.problem


def test_meta_larger_than_a_list_reads_is_marked_and_not_read(store: Store) -> None:
    path = Path(stores.make(store, "a1"))
    with (path / "meta.json").open("ab") as meta:
        meta.truncate(100 * 1024 * 1024)
    assert str(rows.MAX_BYTES) in store.list().rows[0].problem


def test_list_of_all_looks_four_times_into_each_session_and_of_a_page_once_into_the_others(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        stores.make(store, f"a{number}")
    seen: list[str] = []
    look = RealFiles.first_bytes

    def first_bytes(self: RealFiles, path: str, size: int) -> bytes:
        seen.append(Path(path).parent.name)
        return look(self, path, size)

    monkeypatch.setattr(RealFiles, "first_bytes", first_bytes)
    monkeypatch.setattr(RealFiles, "open", None)
    assert len(store.list(limit=None).rows) == 5
    assert sorted(seen) == sorted(4 * [f"a{number}" for number in range(5)])
    seen.clear()
    (row,) = store.list(limit=1).rows
    assert len(seen) == 8
    assert seen.count(row.session_id) == 4


def test_summary_with_fields_of_other_kinds_leaves_them_out(store: Store) -> None:
    from durasess.engine import meta

    path = stores.make(store, "a1")
    found = meta.read(RealFiles(), path)
    strange = meta.Summary(1, {"title": 7, "labels": "x", "runs": "many", "status": "active"})
    changed = {name: getattr(found, name) for name in found.__struct_fields__}
    meta.publish(RealFiles(), path, meta.Meta(**{**changed, "summary": strange}))
    (row,) = store.list().rows
    assert (row.title, row.labels, row.runs, row.status) == ("", {}, 0, "active")


def test_latest_passes_over_archived_ones_and_children_but_not_forks(
    store: Store, clock: stores.Clock
) -> None:
    stores.make(store, "a1")
    clock.pass_days(1)
    with store.open("a1") as parent, parent.child(session_id="c1") as child:
        stores.say(child)
    with store.open("c1") as child:
        stores.say(child)
    stores.make(store, "b1")
    store.archive("b1")
    with store.latest() as session:
        assert session.session_id == "a1"
    store.make_fork("a1", new_id="f1")
    with store.latest() as session:
        assert session.session_id == "f1"


def test_latest_of_nothing_and_of_nothing_readable_are_two_errors(store: Store) -> None:
    with pytest.raises(SessionNotFoundError):
        store.latest()
    stores.spoil_meta(stores.make(store, "a1"))
    with pytest.raises(StorageError, match="a1"):
        store.latest()


def test_page_can_be_looped_over(store: Store) -> None:
    for name in ("a1", "a2"):
        stores.make(store, name)
    found = store.list()
    assert [row.session_id for row in found] == [row.session_id for row in found.rows]
    assert len(found) == 2


def test_until_a_day_is_with_that_day(store: Store, clock: stores.Clock) -> None:
    stores.make(store, "now")
    day = datetime.datetime.fromtimestamp(clock.now / 1e9, datetime.UTC)
    before = (day - datetime.timedelta(1)).date().isoformat()
    assert ids(store, since=day.date().isoformat(), until=day.date().isoformat()) == ["now"]
    assert ids(store, until=before) == []
    # A time is that time, also a midnight.
    midnight = day.replace(hour=0, minute=0, second=0, microsecond=0)
    assert ids(store, until=midnight) == ids(store, until=midnight.isoformat()) == []
