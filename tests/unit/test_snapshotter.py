"""Snapshots: when they are due, that they stop nothing, and that a failed one loses nothing."""

import errno

import pytest

from durasess import EventRejectedError, StorageError
from durasess.engine.commit import InlineScheduler
from tests.support.sessions import (
    SIM_PATH,
    append_all,
    claims_of,
    open_inline,
    open_sim,
    outcome_of,
    sim_disk,
    state_of,
)

SNAPSHOT = f"{SIM_PATH}/snapshot.json.zst"


def snapshot_seqs(path):
    return [one.trailer.seq for one in claims_of(path).snapshots]


# is_due


def test_snapshot_is_due_every_n_events(tmp_path):
    engine = open_inline(tmp_path / "s1", snapshot_every=3)
    append_all(engine, 2)
    assert not engine._scheduler.run_background()
    append_all(engine, 1)
    assert engine._scheduler.run_background()
    assert snapshot_seqs(tmp_path / "s1") == [3]
    engine.close()


def test_snapshot_is_skipped_while_the_tail_is_small_against_the_state(tmp_path):
    engine = open_inline(tmp_path / "s1", snapshot_every=2)
    engine.append("t", "x" * 100_000)
    engine.snapshot()
    append_all(engine, 50)
    assert not engine._scheduler.run_background()
    engine.close()


def test_only_one_snapshot_is_under_way(tmp_path):
    engine = open_inline(tmp_path / "s1", snapshot_every=1)
    append_all(engine, 5)
    assert len(engine._scheduler.background_jobs) == 1
    engine.close()


# begin


def test_snapshot_is_at_the_end_of_a_segment(tmp_path):
    engine = open_inline(tmp_path / "s1")
    append_all(engine, 3)
    assert engine.snapshot() == 3
    assert claims_of(tmp_path / "s1").snapshots[0].trailer.segment == 2
    append_all(engine, 1, first=4)
    assert state_of(tmp_path / "s1") == [1, 2, 3, 4]
    engine.close()


def test_snapshot_without_anything_new_is_the_one_there_is(tmp_path):
    engine = open_inline(tmp_path / "s1")
    append_all(engine, 3)
    assert [engine.snapshot(), engine.snapshot()] == [3, 3]
    assert snapshot_seqs(tmp_path / "s1") == [3]
    engine.close()


def test_state_is_of_the_moment_the_snapshot_began(tmp_path):
    engine = open_inline(tmp_path / "s1", snapshot_every=3)
    append_all(engine, 3)
    append_all(engine, 2, first=4)
    engine._scheduler.run_background()
    assert snapshot_seqs(tmp_path / "s1") == [3]
    engine.abandon()
    assert state_of(tmp_path / "s1") == [1, 2, 3, 4, 5]


def test_newest_becomes_the_previous(tmp_path):
    engine = open_inline(tmp_path / "s1")
    for n in range(1, 4):
        engine.append("t", n)
        engine.snapshot()
    assert snapshot_seqs(tmp_path / "s1") == [3, 2]
    engine.close()


@pytest.mark.parametrize("value", [(1, 2), {1, 2}, float("nan"), {1: "a"}, object()])
def test_state_that_would_not_come_back_equal_is_refused(tmp_path, value):
    engine = open_inline(tmp_path / "s1", apply=lambda state, event: [value])
    engine.append("t", 1)
    with pytest.raises(EventRejectedError, match="state"):
        engine.snapshot()
    assert engine.append("t", 2).seq == 2
    engine.close()
    assert snapshot_seqs(tmp_path / "s1") == []


# failures


@pytest.mark.parametrize("kind", ["create", "write_at", "sync", "replace"])
def test_failed_snapshot_is_raised_and_the_log_goes_on(kind):
    files = sim_disk()
    engine = open_sim(files)
    engine.append("t", 1)
    files.fail(kind, where="snapshot.json.zst.tmp", code=errno.ENOSPC)
    with pytest.raises(StorageError) as caught:
        engine.snapshot()
    assert caught.value.errno == errno.ENOSPC
    assert engine.append("t", 2).seq == 2
    assert engine.snapshot() == 2
    engine.close()


def test_failed_snapshot_that_was_due_is_a_notice_and_tried_again_later():
    files = sim_disk()
    engine = open_sim(files, snapshot_every=2)
    files.fail("write_at", where="snapshot.json.zst.tmp")
    append_all(engine, 2)
    engine._scheduler.run_background()
    assert any("snapshot at seq 2 failed" in notice for notice in engine.notices)
    append_all(engine, 2)
    engine._scheduler.run_background()
    assert SNAPSHOT in files.tree()
    engine.close()


def test_state_that_cannot_be_stored_is_not_a_notice_with_every_append(tmp_path):
    engine = open_inline(tmp_path / "s1", snapshot_every=10, apply=lambda state, event: [(1, 2)])
    append_all(engine, 100)
    assert 1 <= len(engine.notices) <= 20
    engine.abandon()


@pytest.mark.parametrize("name", ["snapshot.json.zst", "snapshot.json.zst.tmp"])
def test_swap_that_stops_before_or_between_the_renames_keeps_a_whole_snapshot(name):
    files = sim_disk()
    engine = open_sim(files)
    for n in (1, 2):
        engine.append("t", n)
        engine.snapshot()
    engine.append("t", 3)
    files.fail("replace", where=name)
    with pytest.raises(StorageError):
        engine.snapshot()
    engine.abandon()
    files.faults.clear()
    with open_sim(files) as again:
        assert again.state == [1, 2, 3]


class NoThreads(InlineScheduler):
    """A machine that is out of threads, or an interpreter that is shutting down."""

    def background(self, job):
        raise RuntimeError("can't start new thread")


@pytest.fixture
def no_threads(tmp_path):
    """An engine on such a machine; it lets go of its files whatever becomes of it."""
    engine = open_inline(tmp_path / "s1", scheduler=NoThreads(), snapshot_every=2)
    yield engine
    engine.forget()


def test_snapshot_that_gets_no_thread_is_a_notice_and_the_events_go_on(no_threads):
    append_all(no_threads, 5)
    assert no_threads.state == [1, 2, 3, 4, 5]
    assert any("snapshot" in notice for notice in no_threads.notices)


def test_close_that_gets_no_thread_ends_and_seals_all_the_same(no_threads, tmp_path):
    no_threads.append("t", 1)
    assert outcome_of(no_threads.close) is None
    with open_inline(tmp_path / "s1") as again:
        assert again.recovery.clean


# is_worth_it_at_close


def test_close_takes_a_snapshot_of_what_came_since_the_last(tmp_path):
    engine = open_inline(tmp_path / "s1")
    append_all(engine, 3)
    engine.close()
    assert snapshot_seqs(tmp_path / "s1") == [3]


def test_close_takes_none_when_the_tail_is_small_against_the_state(tmp_path):
    engine = open_inline(tmp_path / "s1")
    engine.append("t", "x" * 100_000)
    engine.snapshot()
    engine.append("t", 2)
    engine.close()
    assert snapshot_seqs(tmp_path / "s1") == [1]


def test_close_tries_again_after_a_snapshot_that_failed():
    files = sim_disk()
    engine = open_sim(files)
    engine.append("t", 1)
    files.fail("write_at", where="snapshot.json.zst.tmp")
    with pytest.raises(StorageError):
        engine.snapshot()
    engine.close()
    assert SNAPSHOT in files.tree()
