"""The handle: what a caller sees of it, from open to close and behind."""

import asyncio
import gc
import os
import threading
import warnings

import pytest

from durasess import (
    CorruptionError,
    Draft,
    Engine,
    EventRejectedError,
    Receipt,
    SessionClosedError,
    SessionLockedError,
    SessionNotFoundError,
    StorageError,
)
from durasess.engine.commit import InlineScheduler, ThreadScheduler
from tests.support.sessions import (
    PATIENCE_S,
    append_all,
    make_segments,
    make_session,
    make_snapshots,
    open_inline,
    open_session,
    open_sim,
    outcome_of,
    replace_line,
    segment_path,
    sim_disk,
    state_of,
)

# open


def test_unknown_mode_is_refused(tmp_path):
    with pytest.raises(ValueError, match="mode"):
        Engine.open(tmp_path / "s1", mode="append")


@pytest.mark.parametrize("preallocate", [-1, -512, 1, 100, 511, 513])
@pytest.mark.parametrize("mode", ["own", "read"])
def test_step_that_is_no_multiple_of_512_is_refused_before_anything_is_made(
    tmp_path, preallocate, mode
):
    with pytest.raises(ValueError, match=f"preallocate is a multiple of 512.*{preallocate}"):
        open_session(tmp_path / "s1", mode=mode, preallocate=preallocate)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("preallocate", "filler"), [(0, 0), (512, 512), (65536, 65536)])
def test_file_of_the_newest_segment_is_a_multiple_of_the_step(tmp_path, preallocate, filler):
    with open_inline(tmp_path / "s1", preallocate=preallocate) as engine:
        append_all(engine, 3)
        content = segment_path(tmp_path / "s1").read_bytes()
        assert content.endswith(b"\t" if filler else b"}\n")
        assert len(content) % (filler or 1) == 0
        assert state_of(tmp_path / "s1") == [1, 2, 3]
    assert segment_path(tmp_path / "s1").read_bytes().endswith(b'"}\n'), "the filler is cut off"
    assert state_of(tmp_path / "s1") == [1, 2, 3]


def test_newest_segment_grows_by_32_kib_unless_told(tmp_path):
    with open_inline(tmp_path / "s1") as engine:
        append_all(engine, 1)
        assert segment_path(tmp_path / "s1").stat().st_size == 32768


@pytest.mark.parametrize("preallocate", [0, 512])
def test_step_may_change_from_one_handle_to_the_next(tmp_path, preallocate):
    with open_inline(tmp_path / "s1", preallocate=1024) as engine:
        append_all(engine, 3)
        engine.abandon()
    with open_inline(tmp_path / "s1", preallocate=preallocate) as engine:
        append_all(engine, 3, first=4)
    assert state_of(tmp_path / "s1") == [1, 2, 3, 4, 5, 6]


def test_two_names_of_one_directory_are_one_session(tmp_path):
    make_session(tmp_path / "s1")
    (tmp_path / "link").symlink_to(tmp_path / "s1")
    with open_session(tmp_path / "link") as engine:
        assert engine.session_id == "s1"
        with pytest.raises(SessionLockedError):
            open_session(tmp_path / "s1")


def test_path_with_nul_is_no_session():
    with pytest.raises(SessionNotFoundError):
        open_session("a\0b")


def test_default_reducer_keeps_the_initial_state(tmp_path):
    with Engine.open(tmp_path / "s1", initial=lambda: {"kept": 1}) as engine:
        engine.append("t")
        assert engine.state == {"kept": 1}


# state, last_seq, damage, notices


def test_state_is_after_last_seq(tmp_path):
    with open_session(tmp_path / "s1") as engine:
        append_all(engine, 3)
        assert (engine.state, engine.last_seq) == ([1, 2, 3], 3)


def test_damage_behind_the_state_is_told_by_reading_the_events(tmp_path):
    path = make_segments(tmp_path / "s1", 3)
    replace_line(segment_path(path, 2), 1, b"@@@@")
    reader = open_session(path, mode="read")
    assert reader.state == [1, 2]
    assert [event.seq for event in reader.events()] == [1, 2, 4, 5, 6]
    assert [one.first_seq for one in reader.damage] == [3]


# events


def test_events_of_a_writer_end_at_what_is_acknowledged(tmp_path):
    with open_session(tmp_path / "s1") as engine:
        append_all(engine, 3)
        assert [event.data for event in engine.events(after=1)] == [2, 3]
        assert list(engine.events(after=3)) == []


def test_events_of_damaged_history_raise_for_a_writer(tmp_path):
    path = make_snapshots(tmp_path / "s1", 3)
    replace_line(segment_path(path, 1), 1, b"@@@@")
    with open_inline(path) as engine:
        assert engine.state == [1, 2, 3]
        with pytest.raises(CorruptionError):
            list(engine.events())


def test_events_that_this_handle_pruned_are_a_value_error_not_damage(tmp_path):
    make_snapshots(tmp_path / "s1", 2)
    with open_inline(tmp_path / "s1") as engine:
        for n in range(3, 7):
            engine.append("counted", n)
            engine.snapshot()
        engine.prune()
        with pytest.raises(ValueError, match="were pruned"):
            list(engine.events())


def test_error_of_the_system_while_reading_events_is_a_storage_error():
    files = sim_disk()
    with open_sim(files) as engine:
        engine.append("t", 1)
        files.fail("read_at", where="events_0001.jsonl")
        with pytest.raises(StorageError):
            list(engine.events())


# append, append_many, append_async


def test_receipt_is_of_the_event(tmp_path):
    with open_session(tmp_path / "s1") as engine:
        receipt = engine.append("t", 1)
        assert receipt == Receipt("s1", 1, next(engine.events()).crc, True)


def test_ids_come_back(tmp_path):
    with open_session(tmp_path / "s1") as engine:
        engine.append("t", 1, run_id="r", call_id="c", event_id="e")
        (event,) = engine.events()
        assert (event.run_id, event.call_id, event.event_id) == ("r", "c", "e")


def test_batch_is_one_batch(tmp_path):
    with open_session(tmp_path / "s1") as engine:
        receipts = engine.append_many([("t", 1), Draft("t", 2), ("t", 3)])
        assert [one.seq for one in receipts] == [1, 2, 3]
        assert b'"b":3' in segment_path(tmp_path / "s1").read_bytes()


def test_empty_batch_writes_nothing(tmp_path):
    with open_session(tmp_path / "s1") as engine:
        assert engine.append_many([]) == []
        assert not segment_path(tmp_path / "s1").exists()


def test_batch_with_one_event_that_cannot_be_stored_is_refused_whole(tmp_path):
    with open_session(tmp_path / "s1") as engine:
        with pytest.raises(EventRejectedError):
            engine.append_many([("t", 1), ("t", object())])
        assert engine.last_seq == 0


def test_64_tasks_get_64_seqs_and_share_syncs(tmp_path):
    async def main(engine):
        return await asyncio.gather(*(engine.append_async("t", n) for n in range(64)))

    with open_session(tmp_path / "s1") as engine:
        receipts = asyncio.run(main(engine))
        assert sorted(one.seq for one in receipts) == list(range(1, 65))
        assert [engine.state[one.seq - 1] for one in receipts] == list(range(64))


def test_batch_of_a_coroutine(tmp_path):
    with open_session(tmp_path / "s1") as engine:
        receipts = asyncio.run(engine.append_many_async([("t", 1), ("t", 2)]))
        assert [one.seq for one in receipts] == [1, 2]
        assert asyncio.run(engine.append_many_async([])) == []


# flush, rotate, snapshot, prune


def test_reader_cannot_change_anything(tmp_path):
    reader = open_session(make_session(tmp_path / "s1"), mode="read")
    for change in (
        lambda: reader.append("t", 1),
        reader.flush,
        reader.rotate,
        reader.snapshot,
        reader.prune,
    ):
        with pytest.raises(StorageError, match='mode="read"'):
            change()
    reader.close()


def test_snapshot_returns_the_seq_it_is_of(tmp_path):
    with open_session(tmp_path / "s1") as engine:
        append_all(engine, 3)
        assert engine.snapshot() == 3


def test_recovery_knows_what_was_pruned(tmp_path):
    make_snapshots(tmp_path / "s1", 4)
    with open_inline(tmp_path / "s1") as engine:
        first = engine.prune().first_seq
    with open_inline(tmp_path / "s1") as engine:
        assert engine.first_seq == first


# close, abandon


@pytest.mark.parametrize(
    "use",
    [
        lambda engine: engine.append("t", 1),
        lambda engine: engine.append_many([("t", 1)]),
        lambda engine: asyncio.run(engine.append_async("t", 1)),
        lambda engine: engine.flush(),
        lambda engine: engine.snapshot(),
        lambda engine: engine.rotate(),
        lambda engine: engine.prune(),
    ],
)
def test_closed_handle_refuses(tmp_path, use):
    engine = open_session(tmp_path / "s1")
    engine.append("t", 0)
    engine.close()
    with pytest.raises(SessionClosedError):
        use(engine)


def test_close_twice_does_nothing(tmp_path):
    engine = open_session(tmp_path / "s1")
    engine.append("t", 1)
    engine.close()
    engine.close()
    engine.abandon()


def test_state_can_be_read_after_close(tmp_path):
    with open_session(tmp_path / "s1") as engine:
        engine.append("t", 1)
    assert (engine.state, engine.last_seq) == ([1], 1)
    assert [event.seq for event in engine.events()] == [1]


def test_close_waits_for_the_snapshot_under_way(tmp_path):
    scheduler = InlineScheduler()
    engine = open_inline(tmp_path / "s1", scheduler=scheduler, snapshot_every=1)
    engine.append("t", 1)
    assert scheduler.background_jobs
    engine.close()
    assert not scheduler.background_jobs
    assert (tmp_path / "s1" / "snapshot.json.zst").exists()


def test_append_that_enters_while_another_thread_closes_does_not_hang(tmp_path):
    engine = open_session(tmp_path / "s1")
    usable = engine._usable_writer

    def close_meanwhile():
        writer = usable()
        engine._usable_writer = usable
        engine.close()
        return writer

    engine._usable_writer = close_meanwhile
    assert isinstance(outcome_of(lambda: engine.append("t", 1)), SessionClosedError)


def test_many_threads_close_at_once(tmp_path):
    engine = open_session(tmp_path / "s1")
    engine.append("t", 1)
    start = threading.Barrier(4)
    problems = []

    def close():
        start.wait()
        try:
            engine.close()
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=close, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert not any(thread.is_alive() for thread in threads)
    assert problems == []


def test_abandoned_session_is_unclean_and_whole(tmp_path):
    engine = open_session(tmp_path / "s1")
    engine.append("t", 1)
    engine.abandon()
    with open_session(tmp_path / "s1") as again:
        assert not again.recovery.clean
        assert again.state == [1]


def test_committer_ends_with_the_handle(tmp_path):
    before = threading.active_count()
    for _ in range(3):
        open_session(tmp_path / "s1").close()
    assert threading.active_count() == before


# __del__, forget, repr


def lost(path, **options):
    """A handle that nobody closed and nobody holds."""
    engine = open_session(path, **options)
    engine.append("t", 1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del engine
        gc.collect()
    return caught


def test_handle_that_was_not_closed_warns_and_lets_go(tmp_path):
    scheduler = InlineScheduler()
    (warning,) = lost(tmp_path / "s1", scheduler=scheduler)
    assert warning.category is ResourceWarning
    with open_session(tmp_path / "s1") as again:
        assert again.state == [1]


def test_handle_that_was_lost_during_a_snapshot_lets_go(tmp_path):
    scheduler = InlineScheduler()
    lost(tmp_path / "s1", scheduler=scheduler, snapshot_every=1)
    while scheduler.run_background():
        pass
    with open_session(tmp_path / "s1") as again:
        assert again.state == [1]


def test_handle_that_was_lost_leaves_no_thread(tmp_path):
    lost(tmp_path / "s1", scheduler=ThreadScheduler("lost-committer"))
    for thread in threading.enumerate():
        if thread.name == "lost-committer":
            thread.join(PATIENCE_S)
            assert not thread.is_alive()


def test_forgotten_handle_closes_its_descriptors_without_unlocking(tmp_path):
    engine = open_inline(tmp_path / "s1")
    engine.append("t", 1)
    engine.forget()
    with pytest.raises(SessionClosedError):
        engine.append("t", 2)
    assert state_of(tmp_path / "s1") == [1]


def test_repr_names_path_and_seq(tmp_path):
    with open_session(tmp_path / "s1") as engine:
        engine.append("t", 1)
        assert repr(engine) == f"<Engine {os.path.realpath(tmp_path / 's1')} at seq 1>"
