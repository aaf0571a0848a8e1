"""A session that schema version 1 of this layer wrote is opened, recovered and written on."""

import json
import shutil

import pytest

from durasess import Engine, FormatVersionError
from durasess.session import events
from durasess.session.migrations import MIGRATIONS
from durasess.session.state import Usage
from durasess.store.store import Store
from tests.session.make_version_1 import DATA, SESSION_ID, fold
from tests.support.harness import call_in, types


@pytest.fixture
def store(tmp_path):
    """A store with a copy of the session."""
    shutil.copytree(DATA / SESSION_ID, tmp_path / "store" / SESSION_ID)
    return Store(tmp_path / "store")


def without_snapshots(tmp_path):
    for path in (tmp_path / "store" / SESSION_ID).glob("snapshot*"):
        path.unlink()


def test_stored_session_is_of_version_1():
    header = json.loads((DATA / SESSION_ID / "events_0001.jsonl").read_bytes().split(b"\n")[0])
    assert header.get("schema_version", 1) == 1
    assert b"input_tokens" in (DATA / SESSION_ID / "events_0001.jsonl").read_bytes()


@pytest.mark.parametrize("replayed", [False, True])
def test_usage_of_events_and_of_the_snapshot_is_counted_anew(store, tmp_path, replayed):
    if replayed:
        without_snapshots(tmp_path)
    with store.open(SESSION_ID) as session:
        assert session.usage == Usage(117, 23, 140)
        assert session.runs[0].usage == Usage(117, 23, 140)


def test_state_is_the_same_by_snapshot_and_by_replay(store, tmp_path):
    with store.open(SESSION_ID, mode="read") as session:
        by_snapshot = session.state
    without_snapshots(tmp_path)
    with store.open(SESSION_ID, mode="read") as session:
        assert session.state == by_snapshot


def test_killed_run_is_recovered(store):
    with store.open(SESSION_ID) as session:
        assert session.recovery.interrupted_run == "run_1"
        assert call_in(session, "c2").status == "uncertain"
        assert call_in(session, "c1").status == "completed"
        assert session.title == "an old one"


def test_session_goes_on_in_the_new_version_and_opens_again(store):
    with store.open(SESSION_ID) as session, session.resume_run() as run:
        run.assistant("done", usage={"prompt_tokens": 3})
    for _ in range(2):
        with store.open(SESSION_ID) as session:
            assert session.usage.prompt == 120
            assert types(session)[-1] == "run_finished"
            old = [one.data for one in session.events() if one.type == "usage_recorded"]
            assert old == [{"usage": {"prompt": 7, "completion": 3, "total": 10}}]


def test_old_lines_are_not_rewritten(store, tmp_path):
    store.open(SESSION_ID).close()
    lines = b"".join(
        path.read_bytes() for path in sorted((tmp_path / "store" / SESSION_ID).glob("events_*"))
    )
    assert b'"input_tokens":7' in lines


def test_older_program_does_not_write_behind_the_newer_one(store, tmp_path):
    with store.open(SESSION_ID) as session:
        session.note("new")
    with pytest.raises(FormatVersionError):
        Engine.open(tmp_path / "store" / SESSION_ID, initial=dict, apply=fold, schema_version=1)


def test_every_version_leads_to_the_next():
    assert sorted(MIGRATIONS) == list(range(1, events.SCHEMA_VERSION))
