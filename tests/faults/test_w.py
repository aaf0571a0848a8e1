"""FAULTS W, as far as they concern one writer: order, foreign writes, readers beside a writer."""

import os
import threading
import time
from pathlib import Path

import pytest

from durasess import CorruptionError, FencedError
from tests.faults.tails import with_and_without_filler, write_on
from tests.support.sessions import (
    append_bytes,
    make_session,
    make_unclean,
    open_inline,
    open_session,
    segment_path,
    state_of,
    swap_lines,
    unacknowledged,
    unchanged,
)


@with_and_without_filler
def test_w5_foreign_append_fences_the_handle_and_the_file_stays_consistent(tmp_path, preallocate):
    """Behind filler the foreign line follows nothing, so it is set aside and kept."""
    path = make_session(tmp_path / "s1")
    engine = open_inline(path, preallocate=preallocate)
    engine.append("counted", 4)
    foreign = unacknowledged(path, "foreign")
    append_bytes(segment_path(path, 2), foreign)
    for _ in range(2):
        with pytest.raises(FencedError):
            engine.append("counted", 5)
    engine.close()
    with open_inline(path) as again:
        assert again.state == [1, 2, 3, 4, "foreign"][: 4 if preallocate else 5]
        assert len(again.recovery.quarantined) == (1 if preallocate else 0)
        for kept in again.recovery.quarantined:
            assert Path(kept).read_bytes().endswith(foreign)


@pytest.mark.parametrize("longer", [True, False])
def test_w5_foreign_line_over_the_filler_is_overwritten_or_told_and_nothing_is_lost(
    tmp_path, longer
):
    """The size does not tell of it, since it stays. What this handle acknowledges is there all the
    same; what is left of a longer foreign line is damage, not a torn tail."""
    path = make_session(tmp_path / "s1")
    engine = open_inline(path)
    engine.append("counted", 4)
    foreign = unacknowledged(path, "f" * (500 if longer else 1))
    write_on(segment_path(path, 2), foreign)
    assert engine.append("counted", "mine").seq == 5
    engine.abandon()
    if longer:
        with unchanged(path), pytest.raises(CorruptionError) as caught:
            open_inline(path)
        assert caught.value.seq == 6
        assert state_of(path) == [1, 2, 3, 4, "mine"]
    else:
        with open_inline(path) as again:
            assert (again.state, again.recovery.torn) == ([1, 2, 3, 4, "mine"], None)


@pytest.mark.parametrize("size", [0, 1, 100, 511, 600, 32_767])
def test_w5_file_cut_or_grown_in_its_filler_fences_the_handle(tmp_path, size):
    engine = open_inline(tmp_path / "s1")
    engine.append("counted", 1)
    os.truncate(segment_path(tmp_path / "s1"), size)
    with pytest.raises(FencedError, match=f"its size is {size} bytes, not the 32768 written here"):
        engine.append("counted", 2)
    engine.abandon()


def test_w5_truncated_file_fences_the_handle(tmp_path):
    engine = open_inline(tmp_path / "s1")
    engine.append("counted", 1)
    segment_path(tmp_path / "s1").write_bytes(b"")
    with pytest.raises(FencedError):
        engine.append("counted", 2)
    engine.close()


def test_w8_lines_out_of_order_are_damage_and_no_seq_is_given_twice(tmp_path):
    path = make_unclean(tmp_path / "s1", 4)
    swap_lines(segment_path(path), 3, 4)
    with unchanged(path), pytest.raises(CorruptionError, match="expected seq 3, found seq 4"):
        open_inline(path)


def test_w13_numbers_go_on_in_each_process(tmp_path):
    for seq in (1, 2, 3):
        with open_session(tmp_path / "s1") as engine:
            assert engine.append("counted", seq).seq == seq


def test_w14_event_whose_sync_failed_was_never_shown(tmp_path):
    from tests.support.sessions import open_sim, sim_disk

    files = sim_disk()
    seen = []
    engine = open_sim(files, apply=lambda state, event: seen.append(event.seq))
    engine.append("t", 1)
    files.fail_sync(where="events_0001.jsonl")
    with pytest.raises(Exception, match="not synced"):
        engine.append("t", 2)
    assert (seen, engine.last_seq) == ([1], 1)
    engine.close()


def churn(path, stop, problems):
    """Appends, rotates, snapshots and prunes until told to stop."""
    try:
        with open_session(path, segment_bytes=1500, snapshot_every=11) as engine:
            n = 0
            while not stop.is_set():
                n += 1
                engine.append_many([("counted", n), ("counted", -n)])
                if n % 7 == 0:
                    engine.snapshot()
                if n % 13 == 0:
                    engine.prune()
                if n % 5 == 0:
                    engine.rotate()
    except Exception as error:
        problems.append(error)


def test_reader_beside_a_busy_writer_never_raises_a_false_alarm(tmp_path):
    open_session(tmp_path / "s1").close()
    stop = threading.Event()
    problems = []
    writer = threading.Thread(target=churn, args=(tmp_path / "s1", stop, problems))
    writer.start()
    try:
        until = time.monotonic() + 3
        last, opened = 0, 0
        while time.monotonic() < until:
            reader = open_session(tmp_path / "s1", mode="read")
            assert reader.damage == ()
            assert reader.last_seq >= last
            assert reader.last_seq % 2 == 0
            assert reader.state == [
                sign * n for n in range(1, reader.last_seq // 2 + 1) for sign in (1, -1)
            ]
            last = reader.last_seq
            opened += 1
    finally:
        stop.set()
        writer.join()
    assert problems == []
    assert opened > 3
    assert last > 0


def test_16_threads_get_one_order(tmp_path):
    receipts = {}

    def append(name):
        receipts[name] = [engine.append("t", [name, n]) for n in range(30)]

    with open_session(tmp_path / "s1") as engine:
        threads = [threading.Thread(target=append, args=(name,)) for name in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seqs = sorted(one.seq for found in receipts.values() for one in found)
        assert seqs == list(range(1, 481))
        for name, found in receipts.items():
            assert [one.seq for one in found] == sorted(one.seq for one in found)
            assert [engine.state[one.seq - 1] for one in found] == [[name, n] for n in range(30)]
