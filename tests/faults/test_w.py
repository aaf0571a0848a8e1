"""FAULTS W, as far as they concern one writer: order, foreign writes, readers beside a writer."""

import threading
import time

import pytest

from durasess import CorruptionError, FencedError
from tests.support.sessions import (
    append_bytes,
    make_session,
    make_unclean,
    open_inline,
    open_session,
    segment_path,
    swap_lines,
    unacknowledged,
    unchanged,
)


def test_w5_foreign_append_fences_the_handle_and_the_file_stays_consistent(tmp_path):
    path = make_session(tmp_path / "s1")
    engine = open_inline(path)
    engine.append("counted", 4)
    append_bytes(segment_path(path, 2), unacknowledged(path, "foreign"))
    with pytest.raises(FencedError):
        engine.append("counted", 5)
    with pytest.raises(FencedError):
        engine.append("counted", 5)
    engine.close()
    with open_inline(path) as again:
        assert again.state == [1, 2, 3, 4, "foreign"]


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
