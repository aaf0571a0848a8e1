"""The handle: what a caller does with it, from open to close and behind."""

import asyncio
import gc
import os
import threading
import warnings

import msgspec
import pytest

from durasess import (
    Draft,
    Engine,
    EventRejectedError,
    Receipt,
    SessionClosedError,
    SessionLockedError,
    SessionNotFoundError,
    StorageError,
)
from durasess.engine import lock
from durasess.engine.drafting import Encoded
from durasess.engine.files import RealFiles
from durasess.engine.scheduler import InlineScheduler, ThreadScheduler
from tests.support.sessions import (
    PATIENCE_S,
    append_all,
    make_session,
    make_snapshots,
    open_inline,
    open_session,
    outcome_of,
    segment_path,
    sim_disk,
    state_of,
)

# open


def test_unknown_mode_is_refused(tmp_path):
    with pytest.raises(ValueError, match="mode"):
        Engine.open(tmp_path / "s1", mode="append")


@pytest.mark.parametrize("preallocate", [-1, -512, 1, 100, 511, 513])
@pytest.mark.parametrize("mode", ["own", "shared", "read"])
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


def test_newest_segment_grows_by_12_kib_unless_told(tmp_path):
    with open_inline(tmp_path / "s1") as engine:
        append_all(engine, 1)
        assert segment_path(tmp_path / "s1").stat().st_size == 12 * 1024


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


def test_joiners_may_each_have_their_own_step(tmp_path):
    one = open_inline(tmp_path / "s1", mode="shared", preallocate=0)
    other = open_inline(tmp_path / "s1", mode="shared", preallocate=1024)
    for n in range(1, 20, 2):
        one.append("counted", n)
        other.append("counted", n + 1)
    one.close()
    other.close()
    assert state_of(tmp_path / "s1") == list(range(1, 21))


# lock_timeout


def patient(engine):
    """What follows may take its time."""
    engine._options = msgspec.structs.replace(engine._options, lock_timeout=60 * PATIENCE_S)


def hold_turn(path):
    """Another writer is in a turn that does not end; what is returned ends it."""
    fd = lock.acquire_turn(RealFiles(), str(path), wait_s=PATIENCE_S)
    return lambda: RealFiles().close(fd)


@pytest.mark.parametrize(
    "use",
    [
        lambda engine: engine.append("t", "late"),
        lambda engine: engine.append_many([("t", "late"), ("t", "later")]),
        lambda engine: engine.append("t", "late", durable=False),
        lambda engine: asyncio.run(engine.append_async("t", "late")),
        lambda engine: asyncio.run(engine.append_many_async([("t", "late")])),
        lambda engine: engine.flush(),
        lambda engine: engine.rotate(),
        lambda engine: engine.snapshot(),
        lambda engine: engine.prune(),
    ],
)
def test_call_that_waits_too_long_for_its_turn_is_withdrawn_and_never_done(tmp_path, use):
    engine = open_session(tmp_path / "s1", mode="shared", lock_timeout=60 * PATIENCE_S)
    engine.append("t", 1)
    engine._options = msgspec.structs.replace(engine._options, lock_timeout=0.02)
    let_go = hold_turn(tmp_path / "s1")
    with pytest.raises(SessionLockedError, match=r"held lock for 0\.02 s. Nothing was written"):
        use(engine)
    patient(engine)
    let_go()
    assert engine.append("t", 2).seq == 2
    assert engine.state == [1, 2]
    assert not segment_path(tmp_path / "s1", 2).exists()
    engine.close()


def test_call_whose_turn_began_in_time_is_not_withdrawn(tmp_path):
    """The limit is on waiting for others, not on the own write."""
    begun, go_on = threading.Event(), threading.Event()

    def slow(_state, _draft):
        begun.set()
        go_on.wait(PATIENCE_S)

    engine = open_session(tmp_path / "s1", mode="shared", validate=slow, lock_timeout=0.02)
    engine._options = msgspec.structs.replace(engine._options, lock_timeout=60 * PATIENCE_S)
    threading.Thread(target=lambda: (begun.wait(PATIENCE_S), go_on.set())).start()
    assert outcome_of(lambda: engine.append("t", 1)).seq == 1
    engine.close()


def test_close_that_gets_no_turn_can_be_called_again(tmp_path):
    engine = open_session(tmp_path / "s1", mode="shared")
    engine.append("t", 1)
    engine._options = msgspec.structs.replace(engine._options, lock_timeout=0.02)
    let_go = hold_turn(tmp_path / "s1")
    with pytest.raises(SessionLockedError):
        engine.close()
    let_go()
    patient(engine)
    assert engine.append("t", 2).seq == 2
    engine.close()
    assert state_of(tmp_path / "s1") == [1, 2]


def test_owner_waits_for_nobody_however_short_the_limit(tmp_path):
    let_go = []
    with open_session(tmp_path / "s1", lock_timeout=0) as engine:
        let_go.append(hold_turn(tmp_path / "s1"))
        append_all(engine, 20)
        let_go[0]()
    assert engine.last_seq == 20


def test_writer_may_wait_without_end(tmp_path):
    with open_session(tmp_path / "s1", mode="shared", lock_timeout=float("inf")) as engine:
        assert engine.append("t", 1).seq == 1


@pytest.mark.parametrize("mode", ["own", "shared"])
def test_timeout_error_of_a_validator_is_not_taken_for_a_busy_session(tmp_path, mode):
    def ask(_state, _draft):
        raise TimeoutError("the policy server did not answer")

    with open_session(tmp_path / "s1", mode=mode, validate=ask) as engine:
        with pytest.raises(TimeoutError, match="did not answer"):
            engine.append("t", 1)
        with pytest.raises(TimeoutError, match="did not answer"):
            asyncio.run(engine.append_async("t", 1))


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


# paths


def test_text_that_is_no_path_is_no_session():
    with pytest.raises(SessionNotFoundError, match="no path"):
        Engine.open("a\ud800b")
    with pytest.raises(SessionNotFoundError, match="NUL"):
        Engine.open("a\0b", files=sim_disk())


def test_working_directory_that_is_gone_is_an_error_of_the_system(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(StorageError, match="cannot be looked up"):
        Engine.open("s1")


def test_empty_directory_becomes_a_session(tmp_path):
    (tmp_path / "s1").mkdir()
    with open_inline(tmp_path / "s1") as engine:
        assert engine.append("t", 1).seq == 1


# what an importer hands over


def test_events_that_were_made_ready_are_written_as_one_batch(tmp_path):
    with open_inline(tmp_path / "s1") as engine:
        made = [Encoded("note", b'{"n":1}'), Draft("note", {"n": 2})]
        engine.append_prepared([engine.prepared(one) for one in made])
        engine.flush()
        assert engine.state == [{"n": 1}, {"n": 2}]
        with pytest.raises(EventRejectedError):
            engine.prepared(Draft("note", object()))
        with pytest.raises(EventRejectedError):
            engine.prepared(Encoded("", b"{}"))
        with pytest.raises(EventRejectedError, match="call_id"):
            engine.prepared(Encoded("note", b"{}", call_id=""))
    lines = segment_path(tmp_path / "s1").read_bytes().split(b"\n")
    assert [b'"b":0' in lines[1], b'"b":2' in lines[2]] == [True, True]


def test_coroutine_that_is_patient_gets_its_turn(tmp_path):
    async def appended(engine):
        return await engine.append_async("t", 1)

    with open_session(tmp_path / "s1", mode="shared", lock_timeout=PATIENCE_S) as engine:
        assert asyncio.run(appended(engine)).seq == 1
