"""FAULTS H: huge lines, huge sessions, memory."""

import gc
import tracemalloc

import pytest

from durasess import EventRejectedError
from durasess.engine import types
from tests.faults.tails import write_on
from tests.support.sessions import (
    make_unclean,
    open_inline,
    open_session,
    segment_path,
    state_of,
    unacknowledged,
)

MEBIBYTE = 1024 * 1024


def count(state, event):
    return state + 1


def test_h2_memory_of_recovery_follows_the_state_and_not_the_history(tmp_path):
    engine = open_inline(tmp_path / "s1", initial=int, apply=count, snapshot_every=10**9)
    for _ in range(50):
        engine.append_many([("counted", {"text": "x" * 40})] * 1000)
    engine.abandon()
    size = sum(file.stat().st_size for file in (tmp_path / "s1").glob("events_*"))
    gc.collect()
    tracemalloc.start()
    try:
        reader = open_session(tmp_path / "s1", mode="read", initial=int, apply=count)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert reader.state == 50_000
    assert size > 6 * MEBIBYTE
    assert peak < 6 * MEBIBYTE


def test_h5_line_of_ten_megabytes_comes_back(tmp_path):
    text = "0123456789" * MEBIBYTE
    with open_inline(tmp_path / "s1") as engine:
        engine.append("t", text)
        engine.append("t", "after")
    assert state_of(tmp_path / "s1") == [text, "after"]
    with open_inline(tmp_path / "s1") as engine:
        assert [len(event.data) for event in engine.events()] == [len(text), 5]


def test_h5_line_of_ten_megabytes_that_was_cut_is_a_torn_tail(tmp_path):
    path = make_unclean(tmp_path / "s1")
    write_on(segment_path(path), unacknowledged(path, "x" * 10 * MEBIBYTE)[:-7])
    with open_inline(path) as engine:
        assert engine.state == [1, 2, 3]
        assert engine.recovery.torn.size > 10 * MEBIBYTE


def test_h7_event_beyond_the_limit_is_refused_before_it_is_written(tmp_path):
    with open_inline(tmp_path / "s1", max_event_bytes=1000) as engine:
        engine.append("t", "x" * 900)
        before = segment_path(tmp_path / "s1").read_bytes()
        with pytest.raises(EventRejectedError, match="max_event_bytes is 1000"):
            engine.append("t", "x" * 1001)
        assert segment_path(tmp_path / "s1").read_bytes() == before
        assert engine.append("t", 2).seq == 2


def test_h7_batch_beyond_the_limits_is_refused_whole(tmp_path, monkeypatch):
    assert types.MAX_BATCH_BYTES == 64 * MEBIBYTE
    monkeypatch.setattr("durasess.engine.drafting.MAX_BATCH_BYTES", 1000)
    monkeypatch.setattr("durasess.engine.drafting.MAX_BATCH_EVENTS", 5)
    with open_inline(tmp_path / "s1") as engine:
        with pytest.raises(EventRejectedError, match="the limit is 1000"):
            engine.append_many([("t", "x" * 400)] * 3)
        with pytest.raises(EventRejectedError, match="the limit is 5"):
            engine.append_many([("t", 1)] * 6)
        assert engine.append("t", 1).seq == 1


@pytest.mark.parametrize("segment_bytes", [2 * MEBIBYTE, 64 * MEBIBYTE])
def test_h8_valid_log_of_18_megabytes_opens_again_and_again(tmp_path, segment_bytes):
    options = {"initial": int, "apply": count, "segment_bytes": segment_bytes}
    engine = open_inline(tmp_path / "s1", snapshot_every=10**9, **options)
    for _ in range(10):
        engine.append_many([("t", "y" * 1800)] * 1000)
    engine.abandon()
    for _ in range(3):
        engine = open_inline(tmp_path / "s1", snapshot_every=10**9, **options)
        assert (engine.state, engine.damage) == (10_000, ())
        engine.abandon()


def test_numbering_goes_on_behind_9999(tmp_path):
    engine = open_inline(tmp_path / "s1", compress=False)
    engine.append("t", 1)
    engine.rotate()
    engine._writer._log.next_number = 9999
    engine.snapshot()
    for n in (2, 3):
        engine.append("t", n)
        engine.rotate()
    engine.abandon()
    assert segment_path(tmp_path / "s1", 9999).exists()
    assert (tmp_path / "s1" / "events_10000.jsonl").exists()
    with open_inline(tmp_path / "s1", compress=False) as engine:
        assert engine.state == [1, 2, 3]
        assert engine.append("t", 4).seq == 4
        assert [event.data for event in engine.events(after=1)] == [2, 3, 4]
        engine.snapshot()
        assert engine.prune().segments == [1]
        assert engine.append("t", 5).seq == 5
    assert (tmp_path / "s1" / "events_10001.jsonl").exists()
    assert state_of(tmp_path / "s1") == [1, 2, 3, 4, 5]
