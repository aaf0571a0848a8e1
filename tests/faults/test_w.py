"""FAULTS W: order, foreign writes, readers beside writers; for one writer and for several."""

import functools
import json
import os
import signal
import threading
import time
import traceback
from pathlib import Path

import msgspec
import pytest

from durasess import (
    CorruptionError,
    Draft,
    EventRejectedError,
    FencedError,
    FormatVersionError,
    Receipt,
    SessionFailedError,
    SessionLockedError,
)
from durasess.engine import frames
from durasess.engine.types import PREALLOCATE, Migration
from tests.faults.tails import with_and_without_filler, write_on
from tests.support.sessions import (
    PATIENCE_S,
    append_all,
    append_bytes,
    lines_of,
    make_session,
    make_unclean,
    open_inline,
    open_session,
    open_sim,
    outcome_of,
    segment_path,
    sim_disk,
    state_of,
    swap_lines,
    unacknowledged,
    unchanged,
)


def join(path, **options):
    """One of several writers; its commits run in the calling thread."""
    options.setdefault("snapshot_every", 10**9)
    return open_inline(path, mode="shared", **options)


def close_all(*engines):
    for engine in engines:
        engine.close()


def sound(path):
    """What a reader finds, which must be without damage."""
    reader = open_session(path, mode="read")
    assert reader.damage == ()
    return reader.state


class Process:
    """Work in a process of its own: `work()` returns what JSON can carry."""

    def __init__(self, work):
        self._source, target = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(self._source)
                with os.fdopen(target, "w") as pipe:
                    try:
                        json.dump({"result": work()}, pipe)
                    except BaseException:
                        json.dump({"error": traceback.format_exc()}, pipe)
            finally:
                os._exit(0)
        os.close(target)

    def result(self):
        with os.fdopen(self._source) as pipe:
            text = pipe.read()
        os.waitpid(self.pid, 0)
        outcome = json.loads(text)
        assert "error" not in outcome, outcome["error"]
        return outcome["result"]

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._source)


# W1 to W4: two windows


def test_w1_second_owner_is_refused_at_once_and_learns_who_when_and_where(tmp_path):
    with open_session(tmp_path / "s1"):
        with pytest.raises(SessionLockedError) as caught:
            open_session(tmp_path / "s1")
        holder = caught.value.holder
        assert holder.pid == os.getpid()
        assert (holder.host, holder.since[:10]) == (os.uname().nodename, "2023-11-14")
        assert str(holder) in str(caught.value)
        assert state_of(tmp_path / "s1") == []


def test_w1_two_windows_that_share_have_one_log_one_order_and_one_state(tmp_path):
    one, other = join(tmp_path / "s1"), join(tmp_path / "s1")
    for n in range(1, 21, 2):
        assert one.append("counted", n).seq == n
        assert other.append("counted", n + 1).seq == n + 1
    one.refresh()
    assert one.state == other.state == list(range(1, 21))
    assert [event.crc for event in one.events()] == [event.crc for event in other.events()]
    close_all(one, other)
    assert sound(tmp_path / "s1") == list(range(1, 21))


@pytest.mark.parametrize("closed_first", [0, 1])
@pytest.mark.parametrize("through", ["close", "abandon"])
def test_w1_window_that_is_closed_leaves_the_other_one_working(tmp_path, closed_first, through):
    windows = [join(tmp_path / "s1"), join(tmp_path / "s1")]
    for n in range(4):
        windows[n % 2].append("counted", n)
    for window in windows:
        window.refresh()
    getattr(windows[closed_first], through)()
    left = windows[1 - closed_first]
    append_all(left, 3, first=4)
    assert left.state == list(range(7))
    assert sound(tmp_path / "s1") == list(range(7))
    left.close()
    assert sound(tmp_path / "s1") == list(range(7))


def test_w1_windows_may_come_and_go_and_rotate_snapshot_and_prune(tmp_path):
    engines = [join(tmp_path / "s1") for _ in range(3)]
    for n in range(1, 61):
        engine = engines[n % 3]
        assert engine.append("counted", n).seq == n
        if n % 7 == 0:
            engines[(n + 1) % 3].rotate()
        if n % 11 == 0:
            engines[(n + 2) % 3].snapshot()
        if n % 17 == 0:
            engines[n % 3].prune()
        if n % 13 == 0:
            engines[n % 3].close()
            engines[n % 3] = join(tmp_path / "s1")
        assert engines[(n + 1) % 3].refresh() == n
        assert engines[(n + 1) % 3].state == list(range(1, n + 1))
    close_all(*engines)
    assert sound(tmp_path / "s1") == list(range(1, 61))


def test_w2_child_of_a_fork_writes_by_a_handle_of_its_own_only(tmp_path):
    with open_session(tmp_path / "s1", mode="shared") as engine:
        engine.append("counted", "parent")

        def work():
            dead = outcome_of(lambda: engine.append("counted", "no"))
            with open_session(tmp_path / "s1", mode="shared") as own:
                return type(dead).__name__, own.append("counted", "child").seq

        assert Process(work).result() == ["SessionClosedError", 2]
        assert engine.append("counted", "parent again").seq == 3
        assert engine.state == ["parent", "child", "parent again"]


def appended(path, name, count, **options):
    """Work of one process: so many events, and the seqs they got."""
    with open_session(path, mode="shared", **options) as engine:
        return [engine.append("counted", [name, n]).seq for n in range(count)]


@pytest.mark.parametrize("options", [{}, {"segment_bytes": 1500, "snapshot_every": 10}])
def test_w4_processes_that_append_at_once_get_one_order(tmp_path, options):
    path = tmp_path / "s1"
    workers = [Process(lambda name=name: appended(path, name, 25, **options)) for name in range(4)]
    found = [worker.result() for worker in workers]
    assert sorted(seq for seqs in found for seq in seqs) == list(range(1, 101))
    state = sound(path)
    for name, seqs in enumerate(found):
        assert seqs == sorted(seqs)
        assert [state[seq - 1] for seq in seqs] == [[name, n] for n in range(25)]


def test_w4_processes_that_are_killed_at_any_moment_lose_nothing_that_was_acknowledged(tmp_path):
    path = tmp_path / "s1"
    with open_session(path, mode="shared", segment_bytes=2000, snapshot_every=20) as engine:
        for round_ in range(6):
            told = path.parent / f"acknowledged-{round_}"

            def work(told=told, round_=round_):
                with open_session(path, mode="shared", segment_bytes=2000) as other:
                    for n in range(10**6):
                        receipt = other.append("counted", [round_, n])
                        with open(told, "a") as target:
                            target.write(f"{receipt.seq} {receipt.crc}\n")

            child = Process(work)
            while not told.exists() or told.stat().st_size < 100 * (round_ + 1):
                engine.append("counted", "beside")
            child.kill()
            engine.append("counted", "after")
        events = {event.seq: event.crc for event in engine.events()}
        for round_ in range(6):
            lines = (path.parent / f"acknowledged-{round_}").read_text().split("\n")[:-1]
            for seq, crc in (line.split() for line in lines):
                assert events[int(seq)] == crc
        mine = engine.state
    assert sound(path) == mine


def test_threads_of_two_handles_get_one_order(tmp_path):
    engines = [open_session(tmp_path / "s1", mode="shared") for _ in range(2)]
    receipts = {}

    def append(name):
        receipts[name] = [engines[name % 2].append("t", [name, n]) for n in range(20)]

    threads = [threading.Thread(target=append, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for engine in engines:
        engine.flush()
    state, also = ([engine.refresh(), engine.state] for engine in engines)
    assert state == also
    assert sorted(r.seq for found in receipts.values() for r in found) == list(range(1, 161))
    for name, found in receipts.items():
        assert [state[1][r.seq - 1] for r in found] == [[name, n] for n in range(20)]
    close_all(*engines)


# W5: foreign writes


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


@pytest.mark.parametrize("size", [0, 1, 100, 511, 600, PREALLOCATE - 1])
def test_w5_file_cut_or_grown_in_its_filler_fences_the_handle(tmp_path, size):
    engine = open_inline(tmp_path / "s1")
    engine.append("counted", 1)
    os.truncate(segment_path(tmp_path / "s1"), size)
    with pytest.raises(
        FencedError, match=f"its size is {size} bytes, not the {PREALLOCATE} written here"
    ):
        engine.append("counted", 2)
    engine.abandon()


def test_w5_truncated_file_fences_the_handle(tmp_path):
    engine = open_inline(tmp_path / "s1")
    engine.append("counted", 1)
    segment_path(tmp_path / "s1").write_bytes(b"")
    with pytest.raises(FencedError):
        engine.append("counted", 2)
    engine.close()


def rename_directory(path):
    path.rename(path.with_name("elsewhere"))


def rename_segment(path):
    segment_path(path).rename(path / "events.bak")


def truncate(path):
    content = segment_path(path).read_bytes()
    os.truncate(segment_path(path), content.index(b'{"seq":3'))


def truncate_inside_a_line(path):
    content = segment_path(path).read_bytes()
    os.truncate(segment_path(path), content.index(b'{"seq":3') + 20)


def edit_in_place(path):
    """As some editors save: the file stays the same one."""
    content = segment_path(path).read_bytes()
    segment_path(path).write_bytes(content.replace(b'"data":2', b'"data":22'))


def edit_and_replace(path):
    """As most editors save: another file gets the name."""
    content = segment_path(path).read_bytes().rstrip(b"\t")
    (path / ".events.swp").write_bytes(content.replace(b'"data":2', b'"data":5'))
    os.replace(path / ".events.swp", segment_path(path))


def drop_a_line_and_replace(path):
    lines = lines_of(segment_path(path))
    (path / ".events.swp").write_bytes(b"".join(line + b"\n" for line in lines[:2] + lines[3:]))
    os.replace(path / ".events.swp", segment_path(path))


def write_behind(path):
    content = segment_path(path).read_bytes()
    with open(segment_path(path), "r+b") as target:
        target.seek(len(content.rstrip(b"\t")))
        target.write(b"a note of mine\n" * 30)


def remove_lock(path):
    (path / "lock").unlink()


def replace_lock(path):
    (path / "lock").unlink()
    (path / "lock").touch()


def remove_owner(path):
    (path / "owner").unlink()


def remove_segment(path):
    segment_path(path).unlink()


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (rename_directory, "lock was removed or replaced"),
        (rename_segment, "no longer goes on from seq 3.*events_0001"),
        (remove_segment, "no longer goes on from seq 3.*events_0001"),
        (truncate, "no longer goes on from seq 3.*ends at seq 2"),
        (truncate_inside_a_line, "no longer goes on from seq 3.*ends at seq 2"),
        (edit_in_place, "no longer goes on from seq 3.*events_0001.*crc"),
        (edit_and_replace, "no longer goes on from seq 3.*events_0001.*crc"),
        (drop_a_line_and_replace, "no longer goes on from seq 3.*expected seq 2, found seq 3"),
        (write_behind, "no longer goes on from seq 3.*a note of mine"),
        (remove_lock, "lock was removed or replaced"),
        (replace_lock, "lock was removed or replaced"),
        (remove_owner, "owner was removed or replaced"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_w5_every_writer_is_fenced_says_what_happened_and_changes_nothing(tmp_path, harm, said):
    path = tmp_path / "s1"
    one, other = join(path), join(path)
    append_all(one, 2)
    other.append("counted", 3)
    one.refresh()
    harm(path)
    segments = {file: file.read_bytes() for file in tmp_path.rglob("events_*")}
    for engine in (one, other):
        for _ in range(2):
            with pytest.raises(FencedError) as caught:
                engine.append("counted", 4)
            assert_says(caught.value, said)
            assert caught.value.seq == 3
        assert (engine.state, engine.last_seq) == ([1, 2, 3], 3)
    for engine in (one, other):
        engine.close()
    assert {file: file.read_bytes() for file in tmp_path.rglob("events_*")} == segments


@pytest.mark.parametrize("seq", [1, 3])
def test_w5_edit_in_place_that_keeps_the_length_is_found_by_the_next_open(tmp_path, seq):
    """Nobody reads a line twice while a session is open, neither does an owner. What is written
    behind it is kept."""
    path = tmp_path / "s1"
    engines = [join(path), join(path)]
    append_all(engines[0], 2)
    engines[1].append("counted", 3)
    file = segment_path(path)
    file.write_bytes(file.read_bytes().replace(b'"data":%d' % seq, b'"data":%d' % (seq + 5)))
    outcomes = [outcome_of(functools.partial(one.append, "counted", 4)) for one in engines]
    for engine in engines:
        engine.abandon()
    with unchanged(path), pytest.raises(CorruptionError) as caught:
        join(path)
    assert caught.value.seq == seq
    readable = [event.data for event in open_session(path, mode="read").events()]
    assert readable[-1] == (4 if isinstance(outcomes[-1], Receipt) else 3)


def assert_says(error, said):
    text = str(error)
    for part in said.split(".*"):
        assert part in text, text


def test_w5_session_that_was_put_back_in_its_place_goes_on_by_a_new_handle(tmp_path):
    one = join(tmp_path / "s1")
    append_all(one, 3)
    rename_directory(tmp_path / "s1")
    with pytest.raises(FencedError):
        one.append("counted", 4)
    one.close()
    (tmp_path / "elsewhere").rename(tmp_path / "s1")
    with join(tmp_path / "s1") as again:
        assert again.state == [1, 2, 3]
        assert again.append("counted", 4).seq == 4


def test_w5_other_session_at_the_path_is_never_written_to(tmp_path):
    engine = join(tmp_path / "s1")
    append_all(engine, 3)
    rename_directory(tmp_path / "s1")
    make_session(tmp_path / "s1", 2)
    with unchanged(tmp_path / "s1"):
        with pytest.raises(FencedError):
            engine.append("counted", 4)
        engine.close()


@pytest.mark.parametrize("change", ["copied", "crlf", "bom", "no filler"])
def test_w5_file_that_an_editor_saved_without_a_change_of_the_events_goes_on(tmp_path, change):
    path = tmp_path / "s1"
    one, other = join(path), join(path)
    append_all(one, 2)
    other.append("counted", 3)
    content = segment_path(path).read_bytes()
    saved = {
        "copied": content,
        "crlf": content.rstrip(b"\t").replace(b"\n", b"\r\n"),
        "bom": b"\xef\xbb\xbf" + content.rstrip(b"\t"),
        "no filler": content.rstrip(b"\t"),
    }[change]
    (path / ".events.swp").write_bytes(saved)
    os.replace(path / ".events.swp", segment_path(path))
    assert one.append("counted", 4).seq == 4
    assert other.append("counted", 5).seq == 5
    assert one.append("counted", 6).seq == 6
    assert one.state == [1, 2, 3, 4, 5, 6]
    close_all(one, other)
    assert sound(path) == [1, 2, 3, 4, 5, 6]


@with_and_without_filler
def test_w5_foreign_event_that_continues_the_chain_is_one_more_event(tmp_path, preallocate):
    """Who holds no lock and writes a valid line has appended an event; it is not written over."""
    path = tmp_path / "s1"
    one, other = join(path, preallocate=preallocate), join(path, preallocate=preallocate)
    one.append("counted", 1)
    other.append("counted", 2)
    write_on(segment_path(path), unacknowledged(path, "foreign" * 60))
    assert one.append("counted", 4).seq == 4
    assert other.append("counted", 5).seq == 5
    close_all(one, other)
    assert sound(path) == [1, 2, "foreign" * 60, 4, 5]


def test_w5_writer_that_was_away_while_others_rotated_and_pruned_goes_on_with_all_of_it(tmp_path):
    one, away = join(tmp_path / "s1"), join(tmp_path / "s1")
    away.append("counted", 1)
    for n in range(2, 8):
        one.append("counted", n)
        one.snapshot()
    assert one.prune().segments
    assert away.append("counted", 8).seq == 8
    assert away.state == list(range(1, 9))
    assert away.append("counted", 9).seq == 9
    assert one.refresh() == 9
    close_all(one, away)
    assert sound(tmp_path / "s1") == list(range(1, 10))


def test_w5_writer_that_was_away_finds_its_own_events_in_a_segment_that_was_compressed(tmp_path):
    one, away = join(tmp_path / "s1"), join(tmp_path / "s1")
    away.append("counted", 1)
    one.append("counted", 2)
    one.rotate()
    one.append("counted", 3)
    file = segment_path(tmp_path / "s1")
    Path(f"{file}.zst").write_bytes(frames.compress(file.read_bytes()))
    file.unlink()
    assert away.append("counted", 4).seq == 4
    assert away.state == [1, 2, 3, 4]
    close_all(one, away)


# Schemas


TEN = {1: Migration(event=lambda event: msgspec.structs.replace(event, data=event.data * 10))}


def test_joiner_with_a_newer_schema_seals_first_and_the_older_writers_are_told(tmp_path):
    path = tmp_path / "s1"
    old = join(path)
    append_all(old, 2)
    new = join(path, schema_version=2, migrations=TEN)
    assert new.state == [10, 20]
    old.append("counted", 3)
    assert (new.refresh(), new.state) == (3, [10, 20, 30])
    assert new.append("counted", 4).seq == 4
    assert lines_of(segment_path(path))[-1].startswith(b'{"seal":1,"last_seq":3')
    assert b'"schema_version":2' in lines_of(segment_path(path, 2))[0]
    for use in (lambda: old.append("counted", 5), old.refresh, lambda: old.append("counted", 5)):
        with pytest.raises(FormatVersionError, match="schema version 2") as caught:
            use()
        assert caught.value.seq == 3
    assert old.state == [1, 2, 3]
    old.close()
    assert new.append("counted", 5).seq == 5
    new.close()
    with open_session(path, schema_version=2, migrations=TEN) as again:
        assert again.state == [10, 20, 30, 4, 5]


def test_older_program_is_refused_before_it_joins_a_newer_one(tmp_path):
    new = join(tmp_path / "s1", schema_version=2)
    new.append("counted", 1)
    with pytest.raises(FormatVersionError):
        join(tmp_path / "s1")
    assert new.append("counted", 2).seq == 2
    new.close()


def test_older_writer_does_not_go_on_behind_an_empty_segment_of_a_newer_one():
    files = sim_disk()
    old = open_sim(files, mode="shared")
    old.append("counted", 1)
    new = open_sim(files, mode="shared", schema_version=2, migrations=TEN)
    files.fail("write_at", where="events_0002.jsonl", code=28)
    assert isinstance(outcome_of(lambda: new.append("counted", 2)), Exception)
    with pytest.raises(FormatVersionError):
        old.append("counted", 2)
    close_all(old, new)


def test_w8_lines_out_of_order_are_damage_and_no_seq_is_given_twice(tmp_path):
    path = make_unclean(tmp_path / "s1", 4)
    swap_lines(segment_path(path), 3, 4)
    with unchanged(path), pytest.raises(CorruptionError, match="expected seq 3, found seq 4"):
        open_inline(path)


def test_w8_lines_out_of_order_refuse_a_joiner_too(tmp_path):
    path = make_unclean(tmp_path / "s1", 4)
    swap_lines(segment_path(path), 3, 4)
    with unchanged(path), pytest.raises(CorruptionError, match="expected seq 3, found seq 4"):
        join(path)


def test_w11_meta_says_what_the_furthest_writer_knew(tmp_path):
    """Two that save never take each other's claims back."""
    path = tmp_path / "s1"
    one, other = join(path, summary=len), join(path, summary=len)
    for n in range(1, 9):
        (one, other)[n % 2].append("counted", n)
        (one, other)[n % 2].rotate()
        (other, one)[n % 2].snapshot()
    close_all(one, other)
    claims = json.loads((path / "meta.json").read_bytes())
    assert claims["floor"]["seq"] == claims["baseline"]["seq"] == claims["summary"]["seq"] == 8
    assert sound(path) == list(range(1, 9))


def test_w13_numbers_go_on_from_process_to_process_that_share(tmp_path):
    for first in (1, 4, 7):
        work = Process(lambda: appended(tmp_path / "s1", "w", 3))
        assert work.result() == [first, first + 1, first + 2]


def test_w13_numbers_go_on_in_each_process(tmp_path):
    for seq in (1, 2, 3):
        with open_session(tmp_path / "s1") as engine:
            assert engine.append("counted", seq).seq == seq


def test_w14_event_whose_sync_failed_was_never_shown(tmp_path):
    files = sim_disk()
    seen = []
    engine = open_sim(files, apply=lambda state, event: seen.append(event.seq))
    engine.append("t", 1)
    files.fail_sync(where="events_0001.jsonl")
    with pytest.raises(Exception, match="not synced"):
        engine.append("t", 2)
    assert (seen, engine.last_seq) == ([1], 1)
    engine.close()


def test_w14_seq_that_another_writer_was_shown_is_never_given_to_another_event():
    """What is being written is not shown; what failed is settled before anything else is."""
    files = sim_disk()
    one = open_sim(files, mode="shared")
    other = open_sim(files, mode="shared")
    one.append("t", 1)
    shown = [(event.seq, event.crc) for event in followed(other)]
    files.fail_sync(where="events_0001.jsonl", pages="drop")
    with pytest.raises(SessionFailedError):
        one.append("t", "lost")
    assert (other.refresh(), other.state) == (1, [1])
    assert other.append("t", 2).seq == 2
    third = open_sim(files, mode="shared")
    assert [(event.seq, event.crc) for event in third.events()][:1] == shown
    assert third.state == [1, 2]
    close_all(one, other, third)


def followed(engine):
    """What a follower gets that asks for all and stops at once."""
    stop = threading.Event()
    stop.set()
    engine.refresh()
    return list(engine.follow(after=0, stop=stop))


# Followers


def follow_in_thread(engine, seen, stop):
    def run():
        for event in engine.follow(after=0, interval=0.001, stop=stop):
            seen.append((event.seq, event.data))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def test_followers_see_the_events_of_all_once_each_and_in_order(tmp_path):
    path = tmp_path / "s1"
    engines = [
        open_session(path, mode="shared", segment_bytes=2000, snapshot_every=25) for _ in range(2)
    ]
    handles = [*engines, open_session(path, mode="read")]
    stop = threading.Event()
    seen = [[] for _ in handles]
    followers = [
        follow_in_thread(handle, found, stop) for handle, found in zip(handles, seen, strict=True)
    ]

    def append(engine, name):
        for n in range(40):
            engine.append("t", [name, n], durable=n % 3 > 0)
            if n % 10 == 9:
                engine.rotate()

    writers = [
        threading.Thread(target=append, args=(engine, name)) for name, engine in enumerate(engines)
    ]
    for thread in writers:
        thread.start()
    child = Process(lambda: appended(path, "child", 20))
    for thread in writers:
        thread.join()
    child.result()
    for engine in engines:
        engine.flush()
    assert [handle.refresh() for handle in handles] == [100, 100, 100]
    stop.set()
    for follower in followers:
        follower.join(PATIENCE_S * 10)
        assert not follower.is_alive()
    expected = list(enumerate(engines[0].state, 1))
    assert seen == [expected] * 3
    close_all(*engines)


def test_follower_of_a_writer_that_never_appends_outlives_the_death_of_another(tmp_path):
    path = tmp_path / "s1"
    with open_session(path, mode="shared") as quiet:
        events = quiet.follow(after=0, interval=0.001)
        killed = join(path)
        killed.append("counted", 1)
        assert next(events).data == 1
        killed._writer._turns.begin()
        killed.forget()
        with join(path) as other:
            append_all(other, 2, first=2)
            other.snapshot()
            append_all(other, 1, first=4)
            assert outcome_of(lambda: [next(events).data for _ in range(3)]) == [2, 3, 4]
        events.close()


def test_subscriber_may_append_what_it_makes_of_each_event(tmp_path):
    path = tmp_path / "s1"
    with open_session(path, mode="shared") as source, open_session(path, mode="shared") as echo:
        events = echo.follow(after=0, interval=0.001)
        for n in range(5):
            source.append("asked", n)

            def answer():
                while True:
                    event = next(events)
                    if event.type == "asked":
                        return echo.append("answered", event.data * 10).seq

            assert outcome_of(answer) == 2 * n + 2
        source.flush()
        assert source.last_seq == 10
        assert source.state == [0, 0, 1, 10, 2, 20, 3, 30, 4, 40]
        events.close()


# validate, event_id, durable=False


def at_most_three(state, draft):
    if len(state) >= 3:
        raise ValueError("it is full")


def test_validator_sees_what_the_others_wrote(tmp_path):
    one = join(tmp_path / "s1", validate=at_most_three)
    other = join(tmp_path / "s1", validate=at_most_three)
    append_all(one, 2)
    assert other.append("counted", 3).seq == 3
    for engine in (one, other):
        with pytest.raises(ValueError, match="full"):
            engine.append("counted", 4)
    assert one.state == other.state == [1, 2, 3]
    close_all(one, other)


def test_validators_of_processes_that_append_at_once_let_no_more_through_than_one_would(tmp_path):
    path = tmp_path / "s1"

    def work():
        accepted = 0
        with open_session(path, mode="shared", validate=at_most_three) as engine:
            for n in range(5):
                try:
                    engine.append("counted", n)
                    accepted += 1
                except ValueError:
                    pass
        return accepted

    workers = [Process(work) for _ in range(4)]
    assert sum(worker.result() for worker in workers) == 3
    assert len(sound(path)) == 3


def test_event_id_that_another_writer_used_gets_its_receipt_and_is_not_written_again(tmp_path):
    one, other = join(tmp_path / "s1"), join(tmp_path / "s1")
    first = one.append("counted", 1, event_id="e1")
    one.append("counted", 2)
    assert other.append("counted", 1, event_id="e1") == first
    both = [Draft("counted", 1, event_id="e1"), Draft("counted", 3)]
    assert [receipt.seq for receipt in other.append_many(both)] == [1, 3]
    with pytest.raises(EventRejectedError, match="was used for seq 1"):
        other.append("counted", "another", event_id="e1")
    assert (one.refresh(), one.state) == (3, [1, 2, 3])
    close_all(one, other)


def test_retry_of_a_process_that_was_killed_gets_the_first_receipt_in_another(tmp_path):
    path = tmp_path / "s1"

    def first():
        engine = open_session(path, mode="shared")
        receipt = engine.append("counted", 1, event_id="e1")
        return msgspec.to_builtins(receipt)

    with open_session(path, mode="shared") as engine:
        receipt = msgspec.convert(Process(first).result(), Receipt)
        engine.append("counted", 2)

        def again():
            with open_session(path, mode="shared") as other:
                return msgspec.to_builtins(other.append("counted", 1, event_id="e1"))

        assert msgspec.convert(Process(again).result(), Receipt) == receipt
        assert engine.append("counted", 1, event_id="e1") == receipt
        assert engine.state == [1, 2]


def test_same_event_id_in_many_processes_at_once_is_one_event(tmp_path):
    path = tmp_path / "s1"

    def work():
        with open_session(path, mode="shared") as engine:
            return [engine.append("counted", n, event_id=f"e{n}").seq for n in range(10)]

    workers = [Process(work) for _ in range(4)]
    found = [worker.result() for worker in workers]
    assert found == [found[0]] * 4
    state = sound(path)
    assert sorted(state) == list(range(10))
    assert [state[seq - 1] for seq in found[0]] == list(range(10))


def test_event_id_is_known_after_a_recovery_in_a_turn_too(tmp_path):
    one, other, third = join(tmp_path / "s1"), join(tmp_path / "s1"), join(tmp_path / "s1")
    first = one.append("counted", 1, event_id="e1")
    one.snapshot()
    second = one.append("counted", 2, event_id="e2")
    one._writer._turns.begin()
    one.forget()
    assert other.append("counted", 2, event_id="e2") == second
    assert third.append("counted", 1, event_id="e1") == first
    close_all(other, third)


def test_event_that_is_not_durable_yet_is_so_before_another_writer_writes(tmp_path):
    """Its sync comes before the end of the turn."""
    one, other = join(tmp_path / "s1"), join(tmp_path / "s1")
    receipt = one.append("counted", 1, durable=False)
    assert (receipt.seq, receipt.durable) == (1, False)
    assert other.append("counted", 2).seq == 2
    assert [one.append("counted", n, durable=False).seq for n in (3, 4)] == [3, 4]
    assert other.append_many([("counted", 5), ("counted", 6)], durable=False)[-1].seq == 6
    one.flush()
    assert (one.state, one.last_seq) == ([1, 2, 3, 4, 5, 6], 6)
    close_all(one, other)
    assert sound(tmp_path / "s1") == [1, 2, 3, 4, 5, 6]


def test_event_that_is_not_durable_and_whose_sync_fails_is_settled_by_the_next_writer():
    files = sim_disk()
    one, other = open_sim(files, mode="shared"), open_sim(files, mode="shared")
    one.append("t", 1)
    files.fail_sync(where="events_0001.jsonl", pages="drop")
    assert not one.append("t", "dropped", durable=False).durable
    with pytest.raises(SessionFailedError):
        one.flush()
    assert other.append("t", 2).seq == 2
    assert other.state == [1, 2]
    close_all(one, other)


def churn(path, stop, problems, mode="own"):
    """Appends, rotates, snapshots and prunes until told to stop."""
    try:
        with open_session(path, segment_bytes=1500, snapshot_every=11, mode=mode) as engine:
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


def test_reader_beside_busy_writers_never_raises_a_false_alarm(tmp_path):
    """Two handles here, and a process that is killed now and then."""
    path = tmp_path / "s1"
    open_session(path).close()
    stop = threading.Event()
    problems = []
    writers = [
        threading.Thread(target=churn, args=(path, stop, problems, "shared")) for _ in range(2)
    ]
    for writer in writers:
        writer.start()
    child = None
    try:
        opened = last = 0
        # On a busy machine sixty looks may be over before the first append.
        while opened < 60 or not last:
            if opened % 20 == 0:
                child = Process(lambda: churn(path, threading.Event(), [], "shared"))
            reader = open_session(path, mode="read")
            assert reader.damage == ()
            assert reader.last_seq >= last
            assert reader.last_seq % 2 == 0
            assert reader.state[0::2] == [-n for n in reader.state[1::2]]
            last = reader.last_seq
            if opened % 20 == 19:
                child.kill()
                child = None
            opened += 1
        assert reader.refresh() >= last
    finally:
        stop.set()
        for writer in writers:
            writer.join()
        if child is not None:
            child.kill()
    assert problems == []
    assert sound(path)


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
