"""Making, opening and finding sessions: modes, receipts, workspaces, what lists show."""

import os
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from durasess import (
    CorruptionError,
    EventRejectedError,
    Receipt,
    SessionExistsError,
    SessionLockedError,
    SessionNotFoundError,
    StorageError,
    WorkspaceNotFoundError,
)
from durasess.session import report
from durasess.session.state import RECENT_RUNS
from tests.support.harness import begin_run, crash, in_process, store_at, types


@pytest.fixture
def store(tmp_path):
    return store_at(tmp_path)


# Making and opening


def test_new_session_is_what_it_was_made_as(store, tmp_path):
    made = store.create(
        "s",
        workspace=tmp_path,
        model="m-1",
        system="be kind",
        title="t",
        labels={"a": "b"},
        user_id="ann",
        config={"temperature": 0},
    )
    with made as session:
        meta = session.state.meta
        assert (meta.title, meta.labels, meta.user_id) == ("t", {"a": "b"}, "ann")
        assert meta.workspace == str(tmp_path)
        assert session.state.runtime_config == {"temperature": 0, "model": "m-1"}
        assert session.state.system[0].content == "be kind"


def test_making_a_session_twice_leaves_the_first_alone(store):
    with store.create("s", title="first") as session:
        seq = session.last_seq
    with pytest.raises(SessionExistsError):
        store.create("s", title="second")
    with store.open("s") as again:
        assert (again.title, again.last_seq) == ("first", seq)


def test_opening_what_is_not_there_makes_nothing(store, tmp_path):
    for mode in ("own", "shared", "read"):
        with pytest.raises(SessionNotFoundError):
            store.open("s", mode=mode)
    assert os.listdir(tmp_path) == []


def test_open_or_create_makes_it_once_and_then_opens_it(store):
    with store.open_or_create("s", title="first") as session:
        session.note("one")
    with store.open_or_create("s", title="second") as again:
        assert (again.title, types(again)[-1]) == ("first", "note")


def test_open_or_create_of_many_threads_is_one_session(store):
    def open_it(n):
        with store.open_or_create("s", mode="shared") as session:
            session.note(str(n))

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(open_it, range(6)))
    with store.open("s") as session:
        found = types(session)
        assert (found.count("session_created"), found.count("note")) == (1, 6)


def test_session_whose_maker_was_killed_before_its_first_event_is_opened(store):
    store.create("other").close()
    in_process(
        """
        from durasess.session.session import Session
        Session.begin = lambda self, first: os.kill(os.getpid(), 9)
        Store(argv[0]).create("s")
        """,
        store.path,
        kills_itself=True,
    )
    with store.open_or_create("s") as session:
        assert types(session)[0] == "session_created"
        with session.run("x") as run:
            run.assistant("ok")


@pytest.mark.parametrize("mode", ["own", "shared"])
def test_second_owner_is_refused_and_told_who_has_it(store, mode):
    with store.create("s", mode=mode):
        with pytest.raises(SessionLockedError, match=str(os.getpid())):
            store.open("s")
        with store.open("s", mode="read") as seen:
            assert seen.last_seq == 1
    store.open("s").close()


def test_sharers_see_each_other_and_no_owner_comes_between(store):
    with store.create("s", mode="shared") as one, store.open("s", mode="shared") as other:
        one.note("a")
        other.note("b")
        one.refresh()
        assert one.state == other.state


@pytest.mark.parametrize(
    "act",
    [
        lambda s: s.note("x"),
        lambda s: s.run("x").__enter__(),
        lambda s: s.snapshot(),
        lambda s: s.change(title="x"),
        lambda s: s.once("o", lambda: 1),
    ],
)
def test_reader_writes_nothing(store, act):
    store.create("s").close()
    with store.open("s", mode="read") as seen, pytest.raises(StorageError, match="read"):
        act(seen)
    with store.open("s") as session:
        assert session.last_seq == 1


def test_receipt_is_reached_by_the_session_it_is_of(store):
    with store.create("s") as session:
        receipt = session.note("x")
    with store.open("s", at_least=Receipt.from_json(receipt.to_json())) as again:
        assert again.last_seq == receipt.seq


def test_receipt_that_the_log_does_not_reach_is_told(store):
    with store.create("s") as session:
        receipt = session.note("x")
    lost = Receipt(receipt.session_id, receipt.seq + 1, receipt.crc)
    with pytest.raises(CorruptionError):
        store.open("s", at_least=lost)


def test_credential_in_the_config_is_refused_before_anything_is_made(store, tmp_path):
    with pytest.raises(EventRejectedError, match="credential"):
        store.create("s", config={"api_key": "sk-" + "a1B2" * 10})
    assert not (tmp_path / "store" / "s").exists()


# What lists show


@pytest.mark.parametrize(
    ("change", "field", "value"),
    [
        ({"title": "new"}, "title", "new"),
        ({"status": "completed"}, "status", "completed"),
        ({"labels": {"x": "y"}}, "labels", {"x": "y"}),
        ({"pinned": True}, "pinned", True),
        ({"user_id": "bob"}, "user_id", "bob"),
    ],
)
def test_change_is_kept_and_the_rest_stays(store, change, field, value):
    with store.create("s", title="t", labels={"a": "b"}) as session:
        before = session.state.meta
        session.change(**change)
    with store.open("s") as again:
        meta = again.state.meta
        assert getattr(meta, field) == value
        others = [one for one in before.__struct_fields__ if one != field]
        assert [getattr(meta, one) for one in others] == [getattr(before, one) for one in others]


def test_status_that_is_none_is_refused(store):
    with store.create("s") as session, pytest.raises(EventRejectedError, match="status"):
        session.change(status="asleep")


def test_completed_session_is_active_again_with_its_next_run(store):
    with store.create("s") as session:
        session.complete()
        with session.run("x"):
            assert session.status == "active"


def test_archived_session_takes_no_run_until_it_is_active(store):
    with store.create("s") as session:
        session.archive()
        with pytest.raises(EventRejectedError, match="archived"):
            session.run("x").__enter__()
        session.change(status="active")
        with session.run("x"):
            pass


# The latest


def test_latest_is_the_one_with_the_newest_event(store):
    for name in ("a", "b", "c"):
        store.create(name).close()
    with store.open("a") as session:
        session.note("again")
    with store.latest() as found:
        assert found.session_id == "a"


@pytest.mark.parametrize("out", ["archived", "child"])
def test_latest_passes_archived_ones_and_children_over(store, out):
    store.create("a").close()
    with store.create("b", parent="a" if out == "child" else "") as session:
        if out == "archived":
            session.archive()
    with store.latest() as found:
        assert found.session_id == "a"


def test_latest_of_an_empty_store_is_not_found(store):
    with pytest.raises(SessionNotFoundError, match="Create one"):
        store.latest()


def test_latest_of_a_workspace_is_of_no_other(store, tmp_path):
    for name in ("w1", "w2"):
        (tmp_path / name).mkdir()
        store.create(name, workspace=tmp_path / name).close()
    with store.latest(workspace=tmp_path / "w1") as found:
        assert found.session_id == "w1"
    with pytest.raises(SessionNotFoundError):
        store.latest(workspace=tmp_path)


@pytest.mark.parametrize("made_at", ["real", "link"])
def test_m4_latest_of_a_workspace_is_found_by_another_path_to_it(store, tmp_path, made_at):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    store.create("s", workspace=tmp_path / made_at).close()
    for path in ("real", "link", "real/../real/"):
        with store.latest(workspace=f"{tmp_path}/{path}") as found:
            assert found.session_id == "s"


def test_m2_moved_project_is_found_after_it_was_bound_again(store, tmp_path):
    (tmp_path / "old").mkdir()
    store.create("s", workspace=tmp_path / "old").close()
    (tmp_path / "old").rename(tmp_path / "new")
    with store.open("s") as session:
        assert session.recovery.workspace_missing
        with pytest.raises(WorkspaceNotFoundError):
            session.run("x").__enter__()
    with store.open("s", workspace=tmp_path / "new") as session, session.run("x"):
        assert session.state.meta.workspace == str(tmp_path / "new")
    with store.latest(workspace=tmp_path / "new") as found:
        assert found.session_id == "s"


def test_w4_latest_of_two_at_once_is_refused_to_the_second(store):
    store.create("s").close()
    with store.latest(), pytest.raises(SessionLockedError):
        store.latest()


def test_unreadable_sessions_do_not_hide_the_others(store, tmp_path):
    store.create("a").close()
    (tmp_path / "store" / "broken").mkdir()
    (tmp_path / "store" / "broken" / "meta.json").write_text("{")
    (tmp_path / "store" / "stray").write_text("x")
    with store.latest() as found:
        assert found.session_id == "a"


def test_summary_shows_a_run_while_it_goes_on(store):
    session = store.create("s")
    begin_run(session)
    with store.open("s", mode="read") as seen:
        assert seen.runs[-1].status == "running"
    crash(session)
    store.open("s").close()


def test_title_that_nobody_gave_is_the_first_request_however_many_runs_came(tmp_path):
    store = store_at(tmp_path)
    with store.create("s") as session:
        for number in range(RECENT_RUNS + 5):
            with session.run(f"request {number}") as run:
                run.assistant("done")
        assert session.runs[0].request != "request 0"
    assert store.list().rows[0].title == "request 0"
    with store.open("s") as session:
        assert session.state.first_request == "request 0"
    store.rename("s", "mine")
    assert store.list().rows[0].title == "mine"


def test_state_of_before_it_kept_the_first_request_has_the_title_of_its_oldest_run(tmp_path):
    with store_at(tmp_path).create("s") as session:
        for number in range(2):
            with session.run(f"request {number}") as run:
                run.assistant("done")
        before = msgspec.structs.replace(session.state, first_request="")
    assert report.summary(before)["title"] == "request 0"
