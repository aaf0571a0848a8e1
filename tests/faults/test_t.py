"""FAULTS T: torn, cut or damaged records. A torn tail costs nothing, damage is never silent."""

import itertools
import os
import signal
import time

import pytest

from durasess import CorruptionError
from tests.faults.tails import end_of_lines, overwrite, with_and_without_filler, write_on
from tests.support.sessions import (
    append_bytes,
    drop_line,
    duplicate_line,
    lines_of,
    make_segments,
    make_session,
    make_unclean,
    open_inline,
    open_session,
    replace_line,
    segment_path,
    state_of,
    swap_lines,
    unacknowledged,
    unchanged,
)

FRAGMENTS = [
    b'{"seq":4,"t',
    b"{",
    b'{"seq":4,"ts":"2026-11-29T10:00:00.000000Z","type":"counted","data":4,"crc":"0000',
]


@with_and_without_filler
@pytest.mark.parametrize("fragment", FRAGMENTS)
def test_t1_half_line_is_set_aside_and_the_next_record_takes_its_seq(
    tmp_path, fragment, preallocate
):
    path = make_unclean(tmp_path / "s1", preallocate=preallocate)
    write_on(segment_path(path), fragment)
    with open_inline(path) as engine:
        assert engine.recovery.torn.size == len(fragment)
        (kept,) = engine.recovery.quarantined
        assert engine.append("counted", "new").seq == 4
    with open(kept, "rb") as source:
        assert source.read() == fragment
    assert state_of(path) == [1, 2, 3, "new"]
    assert len(lines_of(segment_path(path))) == 5


@with_and_without_filler
@pytest.mark.parametrize("fragment", [b'{"seq":9,"ty', b"x", b"{}", b'{"seq":4,"ts":"\n', b"\n"])
def test_t1_fragment_with_another_seq_or_other_bytes_is_damage(tmp_path, fragment, preallocate):
    path = make_unclean(tmp_path / "s1", preallocate=preallocate)
    write_on(segment_path(path), fragment)
    with unchanged(path), pytest.raises(CorruptionError):
        open_inline(path)


@pytest.mark.parametrize("sealed", [False, True])
def test_t2_bad_line_in_the_middle_is_told_and_the_other_99_come_back(tmp_path, sealed):
    path = (make_session if sealed else make_unclean)(tmp_path / "s1", 100)
    replace_line(segment_path(path), 50, b"@@@@")
    with unchanged(path), pytest.raises(CorruptionError) as caught:
        open_inline(path)
    assert (caught.value.seq, caught.value.path) == (50, str(segment_path(path)))
    reader = open_session(path, mode="read")
    events = list(reader.events())
    assert [event.data for event in events] == [n for n in range(1, 101) if n != 50]
    assert [event.seq for event in events if not event.proven] == [51]
    assert [(one.first_seq, one.last_seq) for one in reader.damage] == [(50, 50)]
    assert reader.state == list(range(1, 50))


@pytest.mark.parametrize(
    "damage",
    [
        lambda file: drop_line(file, 2),
        lambda file: duplicate_line(file, 2),
        lambda file: swap_lines(file, 1, 2),
        lambda file: swap_lines(file, 2, 3),
        lambda file: drop_line(file, 3),
    ],
)
def test_t2_lines_that_are_lost_doubled_or_out_of_order_are_damage(tmp_path, damage):
    path = make_unclean(tmp_path / "s1")
    damage(segment_path(path))
    with unchanged(path), pytest.raises(CorruptionError):
        open_inline(path)


@pytest.mark.parametrize("seq", [1, 2, 3])
def test_t2_changed_line_of_an_open_segment_with_filler_is_damage(tmp_path, seq):
    """What stands behind the last line is no evidence of a cut write: that line is whole."""
    path = make_unclean(tmp_path / "s1")
    file = segment_path(path)
    at = file.read_bytes().index(b'{"seq":%d' % seq)
    overwrite(file, at + 60, b"@@@@")
    with unchanged(path), pytest.raises(CorruptionError) as caught:
        open_inline(path)
    assert (caught.value.seq, caught.value.offset) == (seq, at)


@pytest.mark.parametrize("foreign", [b"@@@@", b"\t@", b'{"seq":4}\n', b"\r", b"\n"])
def test_t2_bytes_inside_the_filler_are_damage(tmp_path, foreign):
    """No writer leaves a gap that is no whole sector."""
    path = make_unclean(tmp_path / "s1")
    file = segment_path(path)
    overwrite(file, end_of_lines(file) + 50, foreign)
    with unchanged(path), pytest.raises(CorruptionError):
        open_inline(path)
    assert state_of(path) == [1, 2, 3]


def test_t2_carriage_return_behind_the_filler_is_damage(tmp_path):
    """No editor puts it there: nothing ends with a line feed. It is no other writer's work either,
    for which the session could be opened again later."""
    path = make_unclean(tmp_path / "s1")
    file = segment_path(path)
    overwrite(file, file.stat().st_size - 1, b"\r")
    with unchanged(path), pytest.raises(CorruptionError):
        open_inline(path)


def test_t2_filler_behind_the_seal_of_the_newest_segment_does_not_turn_into_damage(tmp_path):
    """It says nothing while the segment is the newest; the next one must not change that."""
    path = make_session(tmp_path / "s1")
    append_bytes(segment_path(path), b"\t" * 100)
    with open_inline(path, snapshot_every=10**9) as engine:
        assert engine.state == [1, 2, 3]
        engine.append("counted", 4)
    with open_inline(path, snapshot_every=10**9) as engine:
        assert list(event.data for event in engine.events()) == [1, 2, 3, 4]
        assert engine.damage == ()


@pytest.mark.parametrize("where", ["an older segment", "between lines", "before its line feed"])
def test_t2_filler_anywhere_but_at_the_end_of_the_newest_segment_is_damage(tmp_path, where):
    path = make_segments(tmp_path / "s1", 2)
    data = segment_path(path).read_bytes()
    if where == "an older segment":
        data += b"\t" * 100
    elif where == "between lines":
        data = data.replace(b"\n", b"\n\t\t", 1)
    else:
        data = data[:-1] + b"\t\n"
    segment_path(path).write_bytes(data)
    with unchanged(path), pytest.raises(CorruptionError):
        open_inline(path)


def test_t4_seq_of_an_event_of_unknown_type_is_counted(tmp_path):
    with open_inline(tmp_path / "s1") as engine:
        for _ in range(10):
            engine.append("type_of_a_newer_program", {"x": 1})
    with open_inline(tmp_path / "s1") as engine:
        assert engine.append("counted", 1).seq == 11


@with_and_without_filler
def test_t5_first_event_after_a_torn_tail_is_there_at_the_next_open(tmp_path, preallocate):
    path = make_unclean(tmp_path / "s1", preallocate=preallocate)
    write_on(segment_path(path), FRAGMENTS[0])
    assert state_of(path) == [1, 2, 3]
    for expected in (4, 5, 6):
        engine = open_inline(path, preallocate=preallocate)
        assert engine.append("counted", expected).seq == expected
        engine.abandon()
    assert state_of(path) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    "name",
    ["meta.json.tmp", "snapshot.json.zst.tmp", "events_0002.jsonl.tmp", "events.jsonl.zst.tmp"],
)
def test_t8_temporary_file_is_ignored_by_readers_and_removed_by_a_writer(tmp_path, name):
    path = make_session(tmp_path / "s1")
    (tmp_path / "s1" / name).write_bytes(b'{"half')
    with unchanged(path):
        assert state_of(path) == [1, 2, 3]
    open_inline(path).close()
    assert not (tmp_path / "s1" / name).exists()


@pytest.mark.parametrize("content", [b"", b"\n", b"\n\n\n\n", b"{}\n", b"\t" * 512, b"{}\n\t\t"])
def test_t10_segment_without_a_header_is_a_clear_error(tmp_path, content):
    open_inline(tmp_path / "s1").close()
    segment_path(tmp_path / "s1").write_bytes(content)
    with unchanged(tmp_path), pytest.raises(CorruptionError, match=r"events_0001\.jsonl"):
        open_inline(tmp_path / "s1")
    assert state_of(tmp_path / "s1") == []


@pytest.mark.parametrize("filler", [b"", b"\t", b"\t" * 4096])
def test_t10_header_alone_and_meta_alone_are_empty_sessions(tmp_path, filler):
    open_inline(tmp_path / "s1").close()
    assert state_of(tmp_path / "s1") == []
    path = make_unclean(tmp_path / "s2", 1)
    header = lines_of(segment_path(path))[0]
    segment_path(path).write_bytes(header + b"\n" + filler)
    (tmp_path / "s2" / "lock").write_bytes(b"")
    with open_inline(path) as engine:
        assert engine.append("counted", "first").seq == 1


def append_until_killed(path, preallocate):
    """A child that appends without an end, to be killed; returns when it has appended once."""
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            options = {"segment_bytes": 2000, "snapshot_every": 7, "preallocate": preallocate}
            engine = open_session(path, **options)
            for n in itertools.count():
                engine.append_many([("counted", n), ("counted", -n)])
                if n == 0:
                    os.write(tell, b"!")
        finally:
            os._exit(1)
    os.close(tell)
    assert os.read(told, 1) == b"!"
    os.close(told)
    return pid


@with_and_without_filler
def test_t11_kill_in_the_middle_of_appends_leaves_at_most_one_torn_record(tmp_path, preallocate):
    path = tmp_path / "s1"
    open_session(path).close()
    seen = 0
    for round_ in range(12):
        pid = append_until_killed(path, preallocate)
        time.sleep(round_ % 5 * 0.004)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        with open_session(path) as engine:
            assert engine.damage == ()
            assert engine.last_seq > seen
            assert engine.last_seq % 2 == 0
            seen = engine.last_seq


def test_t13_empty_middle_segment_is_named_and_later_ones_are_read(tmp_path):
    path = make_segments(tmp_path / "s1", 4)
    segment_path(path, 2).write_bytes(b"")
    with unchanged(path), pytest.raises(CorruptionError, match="empty"):
        open_inline(path)
    reader = open_session(path, mode="read")
    assert [event.data for event in reader.events()] == [1, 2, 5, 6, 7, 8]


def test_t14_missing_middle_segment_is_named_and_later_ones_are_read(tmp_path):
    path = make_segments(tmp_path / "s1", 4)
    segment_path(path, 2).unlink()
    with unchanged(path), pytest.raises(CorruptionError, match="missing"):
        open_inline(path)
    reader = open_session(path, mode="read")
    assert [event.data for event in reader.events()] == [1, 2, 5, 6, 7, 8]
    assert [(one.first_seq, one.last_seq) for one in reader.damage] == [(3, 4)]
    assert reader.state == [1, 2]


@pytest.mark.parametrize("name", ["events_0001.jsonl", "snapshot.json.zst"])
def test_t16_file_that_begins_with_foreign_bytes_is_named(tmp_path, name):
    with open_inline(tmp_path / "s1") as engine:
        engine.append("counted", 1)
    file = tmp_path / "s1" / name
    file.write_bytes(b"\x28\xb5\x2f\xfdforeign" + file.read_bytes())
    reader = open_session(tmp_path / "s1", mode="read")
    told = [str(one) for one in reader.damage] + list(reader.notices)
    list(reader.events())
    told += [str(one) for one in reader.damage]
    assert any(name in one for one in told)


@with_and_without_filler
def test_unacknowledged_whole_batch_is_kept_whole(tmp_path, preallocate):
    path = make_unclean(tmp_path / "s1", preallocate=preallocate)
    write_on(segment_path(path), unacknowledged(path, 4, 5))
    with open_inline(path) as engine:
        assert engine.state == [1, 2, 3, 4, 5]
