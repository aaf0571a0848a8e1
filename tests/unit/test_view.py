"""What is seen of an open session: state, events, what others append, and who follows."""

import itertools
import threading

import msgspec
import pytest

from durasess import (
    CorruptionError,
    FencedError,
    SessionClosedError,
    StorageError,
)
from durasess.engine.feeds import FEED_EVENTS
from durasess.engine.types import Migration
from tests.support.sessions import (
    append_all,
    make_segments,
    make_snapshots,
    open_inline,
    open_session,
    open_sim,
    outcome_of,
    replace_line,
    segment_path,
    sim_disk,
)

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


# refresh


@pytest.mark.parametrize("mode", ["shared", "read"])
def test_refresh_takes_over_what_others_appended(tmp_path, mode):
    with open_inline(tmp_path / "s1", mode="shared") as writer:
        other = open_inline(tmp_path / "s1", mode=mode)
        assert other.refresh() == 0
        append_all(writer, 3)
        assert (other.last_seq, other.state) == (0, [])
        assert other.refresh() == 3
        assert (other.last_seq, other.state) == (3, [1, 2, 3])
        other.close()


def test_refresh_of_an_owner_finds_what_it_has(tmp_path):
    with open_session(tmp_path / "s1") as engine:
        append_all(engine, 3)
        assert (engine.refresh(), engine.state) == (3, [1, 2, 3])


def test_refresh_in_mode_read_finds_what_became_of_the_files(tmp_path):
    path = make_segments(tmp_path / "s1", 3)
    reader = open_session(path, mode="read")
    assert (reader.damage, reader.recovery.last_seq) == ((), 6)
    replace_line(segment_path(path, 2), 1, b"@@@@")
    assert reader.refresh() == 2
    assert (reader.state, reader.recovery.last_seq) == ([1, 2], 2)
    assert [one.first_seq for one in reader.damage] == [3]


@pytest.mark.parametrize("mode", ["own", "shared"])
def test_refresh_of_a_closed_handle_is_refused(tmp_path, mode):
    engine = open_session(tmp_path / "s1", mode=mode)
    engine.close()
    with pytest.raises(SessionClosedError):
        engine.refresh()


def test_refresh_of_a_fenced_handle_says_what_ended_it(tmp_path):
    engine = open_session(tmp_path / "s1", mode="shared")
    engine.append("t", 1)
    (tmp_path / "s1" / "lock").unlink()
    # The turn may still be kept for a moment.
    with pytest.raises(FencedError):
        for n in range(100_000):
            engine.append("t", n)
    with pytest.raises(FencedError):
        engine.refresh()
    engine.close()


# follow


def caught_up(follower, seq):
    """A look sees what was acknowledged; a look from another thread may come a moment early."""
    outcome_of(lambda: [0 for _ in iter(follower.refresh, seq)])


def following(engine, count, **options):
    """The data of the first events that a follower gets, in a thread of its own."""
    return outcome_of(
        lambda: [event.data for event in itertools.islice(engine.follow(**options), count)]
    )


@pytest.fixture(params=["own", "shared", "read"])
def writer_and_follower(request, tmp_path):
    """Who appends, and the handle that is followed: the same one, another writer, or a reader."""
    if request.param == "own":
        writer = follower = open_session(tmp_path / "s1")
    else:
        writer = open_session(tmp_path / "s1", mode="shared")
        follower = open_session(tmp_path / "s1", mode=request.param)
    yield writer, follower
    follower.close()
    writer.close()


def test_follow_gives_what_is_there_and_then_what_comes(writer_and_follower):
    writer, follower = writer_and_follower
    append_all(writer, 3)
    caught_up(follower, 3)
    events = follower.follow(after=1, interval=0.001)
    assert [next(events).data for _ in range(2)] == [2, 3]
    append_all(writer, 3, first=4)
    assert outcome_of(lambda: [next(events).data for _ in range(3)]) == [4, 5, 6]
    writer.append_many([("counted", 7), ("counted", 8)], durable=False)
    assert outcome_of(lambda: [next(events).seq for _ in range(2)]) == [7, 8]
    events.close()


def test_follow_begins_with_the_newest_unless_told(writer_and_follower):
    writer, follower = writer_and_follower
    append_all(writer, 3)
    caught_up(follower, 3)
    events = follower.follow(interval=0.001)
    late = threading.Timer(0.05, append_all, [writer, 2], {"first": 4})
    late.start()
    assert outcome_of(lambda: [next(events).data for _ in range(2)]) == [4, 5]
    late.join()
    events.close()


def test_follower_may_begin_before_the_first_event(writer_and_follower):
    writer, follower = writer_and_follower
    late = threading.Timer(0.05, append_all, [writer, 2])
    late.start()
    assert following(follower, 2, after=0, interval=0.001) == [1, 2]
    late.join()


def test_follow_ends_when_told(writer_and_follower):
    writer, follower = writer_and_follower
    append_all(writer, 2)
    caught_up(follower, 2)
    stop = threading.Event()
    events = follower.follow(after=0, interval=0.001, stop=stop)
    assert next(events).data == 1
    stop.set()
    assert outcome_of(lambda: [event.data for event in events]) == [2], "what is there is given"


def test_follow_ends_when_the_handle_is_closed(writer_and_follower):
    writer, follower = writer_and_follower
    append_all(writer, 2)
    caught_up(follower, 2)
    events = follower.follow(after=0, interval=60)
    assert [next(events).data for _ in range(2)] == [1, 2]
    if follower is writer or follower._writer is not None:
        threading.Timer(0.05, follower.close).start()
    else:
        follower.close()
        events.close()
    assert outcome_of(lambda: list(events)) == []


def test_events_that_were_appended_before_the_close_are_given_after_it(writer_and_follower):
    writer, follower = writer_and_follower
    events = follower.follow(after=0, interval=0.001)
    append_all(writer, 2)
    assert outcome_of(lambda: next(events).data) == 1
    append_all(writer, 2, first=3)
    caught_up(follower, 4)
    follower.close()
    assert outcome_of(lambda: [event.data for event in events]) == [2, 3, 4]


def test_follower_that_is_slow_misses_nothing_and_delays_nobody(tmp_path):
    with open_session(tmp_path / "s1") as engine:
        events = engine.follow(after=0, interval=0.001)
        engine.append("counted", 0)
        assert next(events).data == 0
        more = 3 * FEED_EVENTS
        engine.append_many([("counted", n) for n in range(1, more + 1)])
        assert outcome_of(lambda: [next(events).data for _ in range(more)]) == list(
            range(1, more + 1)
        )
        events.close()


def test_follower_that_is_gone_leaves_no_queue_behind(tmp_path):
    with open_session(tmp_path / "s1") as engine:
        events = engine.follow()
        engine.append("counted", 0)
        follower = engine.follow(after=0)
        assert next(follower).data == 0
        follower.close()
        events.close()
        assert engine._writer.feeds._feeds == ()


def test_follower_gets_migrated_events_whoever_wrote_them(tmp_path):
    double = Migration(event=lambda event: msgspec.structs.replace(event, data=event.data * 2))
    old = open_session(tmp_path / "s1", mode="shared")
    append_all(old, 1)
    new = open_session(tmp_path / "s1", mode="shared", schema_version=2, migrations={1: double})
    events = new.follow(after=0, interval=0.001)
    assert next(events).data == 2
    old.append("counted", 2)
    assert outcome_of(lambda: next(events).data) == 4
    new.append("counted", 5)
    assert outcome_of(lambda: next(events).data) == 5
    events.close()
    new.close()
    old.close()


def test_events_that_were_pruned_before_they_were_followed_are_a_value_error(tmp_path):
    make_snapshots(tmp_path / "s1", 4)
    with open_inline(tmp_path / "s1") as engine:
        engine.prune()
        with pytest.raises(ValueError, match="were pruned"):
            next(engine.follow(after=0))


def test_closing_in_the_moment_of_a_refresh_ends_the_follower(tmp_path, monkeypatch):
    engine = open_session(tmp_path / "s1", mode="shared")
    engine.append("counted", 1)
    events = engine.follow(after=0, interval=0.001)
    assert next(events).data == 1
    real = engine.refresh

    def refresh():
        engine.close()
        return real()

    monkeypatch.setattr(engine, "refresh", refresh)
    assert outcome_of(lambda: list(events)) == []


# what the system refuses, and what was found twice


def test_first_seq_that_cannot_be_looked_up_is_an_error_of_the_system():
    files = sim_disk()
    with open_sim(files) as engine:
        engine.append("t", 1)
        files.fail("open", where="events_0001.jsonl")
        with pytest.raises(StorageError, match="cannot be read"):
            assert engine.first_seq
        assert engine.first_seq == 1


def test_workers_that_cannot_be_listed_are_an_error_of_the_system():
    files = sim_disk()
    with open_sim(files, mode="shared") as engine:
        files.fail("listdir", where="workers")
        with pytest.raises(StorageError, match="who else works here"):
            engine.live_workers()
        assert list(engine.live_workers()) == [engine.worker_id]


def test_damage_that_a_reader_comes_by_is_kept_once(tmp_path):
    path = make_segments(tmp_path / "s1", 2)
    open_inline(path, snapshot_every=10**6).snapshot()
    replace_line(segment_path(path, 1), 1, b"@@@@")
    reader = open_session(path, mode="read")
    assert reader.damage == ()
    for _ in range(2):
        assert [event.seq for event in reader.events()] == [2, 3, 4]
        assert len(reader.damage) == 1
