"""Snapshots: when they are due, that they stop nothing, and that a failed one loses nothing."""

import errno

import pytest

from durasess import EventRejectedError, FencedError, StorageError
from durasess.engine import survey
from durasess.engine.scheduler import InlineScheduler
from durasess.engine.snapshotter import Snapshotter
from tests.support.sessions import (
    SIM_PATH,
    append_all,
    claims_of,
    flip_bit,
    join,
    make_snapshots,
    open_inline,
    open_sim,
    outcome_of,
    sim_disk,
    state_of,
)

SNAPSHOT_NAME = "snapshot.json.zst"
SNAPSHOT = f"{SIM_PATH}/{SNAPSHOT_NAME}"


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


def test_size_of_a_state_that_was_recovered_counts(tmp_path):
    engine = open_inline(tmp_path / "s1", snapshot_every=2)
    engine.append("t", "x" * 100_000)
    engine.snapshot()
    engine.abandon()
    again = open_inline(tmp_path / "s1", snapshot_every=2)
    append_all(again, 50)
    assert not again._scheduler.run_background()
    again.close()
    assert snapshot_seqs(tmp_path / "s1") == [1], "at the close neither"


def count(state, event):
    return state + 1


def append_large(engine, events, size):
    for _ in range(events):
        engine.append("t", "x" * size)


def test_large_events_count_by_their_bytes(tmp_path):
    engine = open_inline(tmp_path / "s1", initial=int, apply=count, snapshot_every=10)
    append_large(engine, 3, 10_000)
    assert not engine._scheduler.run_background()
    append_large(engine, 2, 10_000)
    assert engine._scheduler.run_background()
    assert snapshot_seqs(tmp_path / "s1") == [5]
    append_large(engine, 3, 10_000)
    assert not engine._scheduler.run_background()
    engine.abandon()
    again = open_inline(tmp_path / "s1", initial=int, apply=count, snapshot_every=10)
    append_large(again, 2, 10_000)
    assert again._scheduler.run_background(), "what was recovered counts"
    assert snapshot_seqs(tmp_path / "s1") == [10, 5]
    again.close()


def test_bytes_alone_ask_for_no_snapshot_of_a_large_state(tmp_path):
    options = {"initial": str, "apply": lambda state, event: "s" * 50_000}
    engine = open_inline(tmp_path / "s1", snapshot_every=10, **options)
    engine.append("t", 0)
    engine.snapshot()
    append_large(engine, 5, 30_000)
    assert not engine._scheduler.run_background()
    append_large(engine, 2, 30_000)
    assert engine._scheduler.run_background()
    assert snapshot_seqs(tmp_path / "s1") == [8, 1]
    engine.close()


def test_failed_snapshot_is_not_tried_again_until_as_many_bytes_came():
    files = sim_disk()
    engine = open_sim(files, initial=int, apply=count, snapshot_every=10)
    files.fail("write_at", where="snapshot.json.zst.tmp")
    append_large(engine, 5, 10_000)
    engine._scheduler.run_background()
    assert any("snapshot at seq 5 failed" in notice for notice in engine.notices)
    append_large(engine, 4, 10_000)
    assert not engine._scheduler.run_background()
    append_large(engine, 1, 10_000)
    assert engine._scheduler.run_background()
    assert SNAPSHOT in files.tree()
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


def test_large_events_do_not_make_it_one_either(tmp_path):
    engine = open_inline(tmp_path / "s1", snapshot_every=10, apply=lambda state, event: [(1, 2)])
    append_large(engine, 9, 10_000)
    assert len(engine.notices) == 1
    engine.abandon()


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


class Meanwhile(InlineScheduler):
    """Something another thread does before the next work is handed over."""

    act = None

    def submit(self, ticket):
        act, self.act = self.act, None
        if act is not None:
            act()
        super().submit(ticket)


def test_snapshot_that_another_thread_took_meanwhile_is_the_one_that_was_asked_for(tmp_path):
    scheduler = Meanwhile()
    engine = open_inline(tmp_path / "s1", scheduler=scheduler, snapshot_every=10**6)
    append_all(engine, 3)
    scheduler.act = engine.snapshot
    assert engine.snapshot() == 3
    assert scheduler.act is None
    assert snapshot_seqs(tmp_path / "s1") == [3], "one, not two of the same"
    engine.close()


class LosesTheFirst(Meanwhile):
    """The thread of the first job dies before its first step."""

    lives = 1

    def background(self, job):
        if self.lives:
            self.lives -= 1
        else:
            super().background(job)


def test_job_that_both_a_snapshot_and_its_waiter_find_dead_ends_once(tmp_path):
    """The next one has begun between the moment the waiter sees it and the moment it says so: it
    is not ended for the other."""
    scheduler = LosesTheFirst()
    engine = open_inline(tmp_path / "s1", scheduler=scheduler, snapshot_every=10**6)
    engine.append("t", 1)
    jobs = [engine._writer.begin_snapshot()]

    def goes_on():
        engine.append("t", 2)
        jobs.append(engine._writer.begin_snapshot())

    scheduler.act = goes_on
    jobs[0].see_to_it()
    with pytest.raises(StorageError, match="ended before it could say how"):
        jobs[0].ticket.outcome()
    assert engine._writer._snapshots.job is jobs[1]
    assert scheduler.run_background()
    assert (jobs[1].ticket.outcome(), engine._writer._snapshots.job) == (2, None)
    assert len(engine.notices) == 1
    engine.close()
    assert snapshot_seqs(tmp_path / "s1") == [2]


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


# Several writers: follow, start_again, overtaken


def newest_seqs(files):
    claims = survey.look(files, SIM_PATH, every_snapshot=True)
    return [one.trailer.seq for one in claims.snapshots]


def test_writers_that_count_together_take_one_snapshot_for_each_n_events():
    files = sim_disk()
    writers = [join(files, snapshot_every=6) for _ in range(3)]
    for n in range(1, 61):
        writer = writers[n % 3]
        writer.append("t", n)
        while writer._scheduler.run_background():
            pass
    links = [op for op in files.log if op.kind == "rename" and op.target_name == SNAPSHOT_NAME]
    assert 3 <= len(links) <= 10
    assert all(writer.refresh() == 60 for writer in writers)
    for writer in writers:
        writer.close()
    assert open_sim(files, mode="read").state == list(range(1, 61))


def test_segment_that_another_writer_began_puts_the_own_snapshot_off():
    files = sim_disk()
    one, other = join(files), join(files, snapshot_every=3)
    append_all(one, 2)
    one.snapshot()
    append_all(one, 2, first=3)
    other.append("t", 5)
    assert not other._scheduler.run_background(), "the two events before the snapshot do not count"
    assert other._writer.snapshot_seq == 2
    one.close()
    other.close()


def test_writer_that_follows_knows_that_the_newest_snapshot_is_good_and_keeps_it():
    files = sim_disk()
    one, other = join(files), join(files)
    one.append("t", 1)
    one.snapshot()
    other.append("t", 2)
    other.snapshot()
    other.append("t", 3)
    other.snapshot()
    assert newest_seqs(files) == [3, 2]
    one.append("t", 4)
    one.snapshot()
    assert newest_seqs(files) == [4, 3]
    one.close()
    other.close()


def test_snapshot_that_another_writer_overtook_is_dropped_and_the_call_returns_the_newer():
    files = sim_disk()
    one, other = join(files, snapshot_every=2), join(files)
    append_all(one, 2)
    assert one._writer._snapshots.job is not None
    other.append("t", 3)
    other.snapshot()
    other.append("t", 4)
    one.refresh()
    while one._scheduler.run_background():
        pass
    assert newest_seqs(files) == [3]
    assert one._writer.snapshot_seq == 3
    assert [name for name in files.tree() if name.endswith(".tmp")] == []
    assert one.snapshot() == 4
    assert newest_seqs(files) == [4, 3]
    one.close()
    other.close()


def test_snapshots_that_two_writers_make_at_once_have_files_of_their_own():
    files = sim_disk()
    one, other = join(files, snapshot_every=1), join(files, snapshot_every=1)
    one.append("t", 1)
    other.append("t", 2)
    names = {writer._writer._snapshots._tmp for writer in (one, other)}
    assert len(names) == 2
    for writer in (one, other):
        while writer._scheduler.run_background():
            pass
    assert max(newest_seqs(files)) == 2
    assert [name for name in files.tree() if name.endswith(".tmp")] == []
    one.close()
    other.close()


def test_tail_is_counted_anew_after_a_recovery_in_a_turn():
    files = sim_disk()
    one, other = join(files), join(files, snapshot_every=4)
    one.append("t", 1)
    one.snapshot()
    append_all(one, 2, first=2)
    one._writer._turns.begin()
    one.forget()
    assert other.append("t", 4).seq == 4
    snapshots = other._writer._snapshots
    assert (snapshots.seq, snapshots.tail_events) == (1, 3)
    assert not other._scheduler.run_background()
    other.append("t", 5)
    assert other._scheduler.run_background()
    assert newest_seqs(files) == [5, 1]
    other.close()


@pytest.mark.parametrize("kind", ["lock", "write_at"])
def test_end_of_a_snapshot_that_gets_no_turn_fails_it_and_nothing_waits_for_ever(kind):
    files = sim_disk()
    engine = join(files, snapshot_every=1)
    engine.append("t", 1)
    files.fail(kind, where=f"{SIM_PATH}/lock", code=errno.EIO)
    assert engine._scheduler.run_background()
    files.faults.clear()
    assert engine._writer._snapshots.job is None
    assert any("snapshot at seq 1 failed" in notice for notice in engine.notices)
    assert engine.append("t", 2).seq == 2
    assert outcome_of(engine.snapshot) == 2
    assert outcome_of(engine.close) is None


def test_handle_that_was_fenced_publishes_no_snapshot_any_more():
    """It has no turn: others may be publishing theirs at the same time."""
    files = sim_disk()
    engine = join(files, snapshot_every=1)
    engine.append("t", 1)
    files.unlink(f"{SIM_PATH}/lock")
    with pytest.raises(FencedError):
        engine.append("t", 2)
    while engine._scheduler.run_background():
        pass
    assert SNAPSHOT not in files.tree()
    assert outcome_of(engine.close) is None


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


def test_snapshot_in_the_place_of_a_bad_one_of_the_same_seq_is_made_once(tmp_path, monkeypatch):
    """A writer that shared the session took the claim of meta for another writer's snapshot, threw
    its own away, and made the next, for ever."""
    begun = []
    begin = Snapshotter.begin

    def counted(self, *given):
        begun.append(1)
        assert len(begun) < 5
        return begin(self, *given)

    for mode in ("shared", "own"):
        path = make_snapshots(tmp_path / mode, 2)
        flip_bit(tmp_path / mode / SNAPSHOT_NAME, 30)
        begun.clear()
        with monkeypatch.context() as patched, open_inline(path, mode=mode) as engine:
            patched.setattr(Snapshotter, "begin", counted)
            assert engine.recovery.snapshot_seq == 1 and engine.snapshot() == 2
        with open_inline(path) as engine:
            assert engine.recovery.snapshot_seq == 2 and not engine.recovery.notices


def test_snapshot_behind_a_writer_that_was_killed_between_its_renames_is_made(tmp_path):
    """Who shared the session with it still took the newest for there, and the call failed."""
    path = tmp_path / "s1"
    with open_inline(path, mode="shared") as engine:
        for number in range(1, 4):
            engine.append("t", number)
            assert engine.snapshot() == number
            if number == 2:
                (path / SNAPSHOT_NAME).replace(path / "snapshot.prev.json.zst")
    assert snapshot_seqs(path) == [3, 2]
