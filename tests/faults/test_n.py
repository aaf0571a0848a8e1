"""FAULTS N: NUL bytes and power loss."""

import pytest

from durasess import CorruptionError
from tests.support.sessions import (
    append_bytes,
    lines_of,
    make_unclean,
    open_inline,
    open_session,
    segment_path,
    state_of,
    unacknowledged,
    unchanged,
    zero_range,
)


@pytest.mark.parametrize("count", [1, 100, 512, 4096, 70_000])
def test_n1_zeros_behind_the_end_are_a_torn_tail(tmp_path, count):
    path = make_unclean(tmp_path / "s1")
    append_bytes(segment_path(path), bytes(count))
    assert state_of(path) == [1, 2, 3]
    with open_inline(path) as engine:
        assert engine.recovery.torn.size == count
        assert engine.append("counted", 4).seq == 4
    assert b"\0" not in segment_path(path).read_bytes()


def test_n1_batch_whose_sectors_were_never_written_is_a_torn_tail(tmp_path):
    path = make_unclean(tmp_path / "s1")
    file = segment_path(path)
    append_bytes(file, unacknowledged(path, "x" * 3000, "y" * 3000))
    size = file.stat().st_size
    zero_range(file, size // 1024 * 512, size // 1024 * 512 + 1024)
    with open_inline(path) as engine:
        assert engine.recovery.torn is not None
        assert engine.state == [1, 2, 3]


def test_n2_zeros_over_lines_in_the_middle_are_damage_and_the_rest_is_kept(tmp_path):
    path = make_unclean(tmp_path / "s1", 60)
    file = segment_path(path)
    lines = lines_of(file)
    start = sum(len(line) + 1 for line in lines[:40])
    end = start + sum(len(line) + 1 for line in lines[40:43]) - 1
    zero_range(file, start, end)
    with unchanged(path), pytest.raises(CorruptionError) as caught:
        open_inline(path)
    assert (caught.value.seq, caught.value.offset) == (40, start)
    reader = open_session(path, mode="read")
    assert [event.data for event in reader.events()] == [*range(1, 40), *range(43, 61)]
    assert [(one.first_seq, one.last_seq) for one in reader.damage] == [(40, 42)]


def test_n2_zeros_in_the_last_acknowledged_event_are_damage(tmp_path):
    path = make_unclean(tmp_path / "s1")
    size = segment_path(path).stat().st_size
    zero_range(segment_path(path), size - 40, size)
    with unchanged(path), pytest.raises(CorruptionError):
        open_inline(path)


def test_n4_nul_character_in_a_value_comes_back(tmp_path):
    with open_inline(tmp_path / "s1") as engine:
        engine.append("tool_result", "a\0b")
        assert engine.state == ["a\0b"]
    assert b"\0" not in segment_path(tmp_path / "s1").read_bytes()
    assert state_of(tmp_path / "s1") == ["a\0b"]
