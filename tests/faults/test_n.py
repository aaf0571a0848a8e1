"""FAULTS N: NUL bytes and power loss."""

import pytest

from durasess import CorruptionError
from durasess.engine.files import RealFiles
from durasess.engine.types import FILLER, SECTOR
from durasess.engine.verify import verify
from tests.faults.tails import end_of_lines, overwrite, with_and_without_filler, write_on
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


@with_and_without_filler
@pytest.mark.parametrize("count", [1, 100, 512, 4096, 70_000])
def test_n1_zeros_behind_the_end_are_a_torn_tail(tmp_path, count, preallocate):
    """The file was made longer, and what was written is lost: over the filler as well."""
    path = make_unclean(tmp_path / "s1", preallocate=preallocate)
    file = segment_path(path)
    filler = file.stat().st_size - end_of_lines(file)
    append_bytes(file, bytes(count))
    assert state_of(path) == [1, 2, 3]
    with open_inline(path) as engine:
        assert engine.recovery.torn.size == filler + count
        assert engine.append("counted", 4).seq == 4
    assert b"\0" not in file.read_bytes()


@with_and_without_filler
def test_n1_zeros_right_behind_the_last_line_are_a_torn_tail(tmp_path, preallocate):
    """A disk may give zeros for a lost sector although filler was there before."""
    path = make_unclean(tmp_path / "s1", preallocate=preallocate)
    write_on(segment_path(path), bytes(100))
    with open_inline(path) as engine:
        assert engine.recovery.torn.size == 100
        assert engine.state == [1, 2, 3]


def test_n1_write_that_was_lost_whole_leaves_the_filler_and_no_trace(tmp_path):
    path = make_unclean(tmp_path / "s1")
    with open_inline(path) as engine:
        assert engine.recovery.torn is None
        assert engine.recovery.quarantined == []
        assert engine.append("counted", 4).seq == 4
    assert FILLER not in segment_path(path).read_bytes()


@with_and_without_filler
@pytest.mark.parametrize("blank", [b"\0", FILLER])
@pytest.mark.parametrize("first, count", [(0, 1), (0, 4), (1, 1), (1, 2), (5, 2), (3, 99)])
def test_n1_batch_whose_sectors_were_never_written_is_a_torn_tail(
    tmp_path, first, count, blank, preallocate
):
    """Sectors of one write reach the disk in any order. Those that do not show what was there:
    zeros behind the old end of the file, filler before it."""
    path = make_unclean(tmp_path / "s1", preallocate=preallocate)
    file = segment_path(path)
    end = end_of_lines(file)
    write_on(file, unacknowledged(path, "x" * 3000, "y" * 3000))
    size = end_of_lines(file)
    start = max(end, (end // SECTOR + first) * SECTOR)
    stop = min(size, (end // SECTOR + first + count) * SECTOR)
    overwrite(file, start, blank * (stop - start))
    assert state_of(path) == [1, 2, 3]
    with open_inline(path) as engine:
        assert engine.recovery.torn is not None
        assert engine.state == [1, 2, 3]
        assert engine.append("counted", 4).seq == 4
    assert state_of(path) == [1, 2, 3, 4]


def test_n1_lost_sectors_on_both_sides_of_the_old_end_of_the_file_are_a_torn_tail(tmp_path):
    """A write that begins in the filler and makes the file longer."""
    path = make_unclean(tmp_path / "s1", preallocate=SECTOR)
    file = segment_path(path)
    end, old_size = end_of_lines(file), file.stat().st_size
    assert end < old_size
    write_on(file, unacknowledged(path, "x" * 3000))
    overwrite(file, end, FILLER * (old_size - end))
    zero_range(file, old_size, old_size + 2 * SECTOR)
    size = end_of_lines(file) - end
    with open_inline(path) as engine:
        assert engine.recovery.torn.size == size
        assert engine.state == [1, 2, 3]


@with_and_without_filler
@pytest.mark.parametrize("blank", [b"\0", FILLER, b"\0" * 60 + FILLER * 40])
def test_n1_blanks_that_are_no_whole_sectors_are_damage(tmp_path, blank, preallocate):
    """No lost write leaves them between bytes that are there."""
    path = make_unclean(tmp_path / "s1", preallocate=preallocate)
    file = segment_path(path)
    write_on(file, unacknowledged(path, "x" * 3000))
    overwrite(file, file.read_bytes().index(b"xxxxx") // SECTOR * SECTOR + SECTOR + 7, blank)
    with unchanged(path), pytest.raises(CorruptionError):
        open_inline(path)


@with_and_without_filler
@pytest.mark.parametrize("blank", [b"\0", FILLER])
def test_n2_blanks_over_lines_in_the_middle_are_damage_and_the_rest_is_kept(
    tmp_path, blank, preallocate
):
    path = make_unclean(tmp_path / "s1", 60, preallocate=preallocate)
    file = segment_path(path)
    lines = lines_of(file)
    start = sum(len(line) + 1 for line in lines[:40])
    end = start + sum(len(line) + 1 for line in lines[40:43]) - 1
    overwrite(file, start, blank * (end - start))
    with unchanged(path), pytest.raises(CorruptionError) as caught:
        open_inline(path)
    assert (caught.value.seq, caught.value.offset) == (40, start)
    reader = open_session(path, mode="read")
    assert [event.data for event in reader.events()] == [*range(1, 40), *range(43, 61)]
    assert [(one.first_seq, one.last_seq) for one in reader.damage] == [(40, 42)]


@with_and_without_filler
@pytest.mark.parametrize("blank", [b"\0", FILLER])
@pytest.mark.parametrize("count", [2, 40, 87])
def test_n2_blanks_in_the_last_acknowledged_event_are_damage(tmp_path, count, blank, preallocate):
    path = make_unclean(tmp_path / "s1", preallocate=preallocate)
    end = end_of_lines(segment_path(path))
    overwrite(segment_path(path), end - count, blank * count)
    with unchanged(path), pytest.raises(CorruptionError):
        open_inline(path)


@with_and_without_filler
def test_n2_filler_in_place_of_the_last_line_feed_costs_nothing(tmp_path, preallocate):
    """As when the file was cut there: the line is whole, so the next writer keeps it."""
    path = make_unclean(tmp_path / "s1", preallocate=preallocate)
    overwrite(segment_path(path), end_of_lines(segment_path(path)) - 1, FILLER)
    with open_inline(path) as engine:
        assert engine.state == [1, 2, 3]
        assert engine.append("counted", 4).seq == 4


def test_n4_nul_character_in_a_value_comes_back(tmp_path):
    with open_inline(tmp_path / "s1") as engine:
        engine.append("tool_result", "a\0b")
        assert engine.state == ["a\0b"]
    assert b"\0" not in segment_path(tmp_path / "s1").read_bytes()
    assert state_of(tmp_path / "s1") == ["a\0b"]


def test_n4_tab_in_a_value_comes_back_and_is_no_filler(tmp_path):
    """JSON escapes it, so a tab byte in a line is never one of its own."""
    values = ["a\tb", "\t" * 1000, {"\t": "\t"}]
    engine = open_inline(tmp_path / "s1")
    for number, value in enumerate(values):
        engine.append("\t", value, run_id="\t", call_id="\t", event_id=f"\t{number}")
    engine.abandon()
    file = segment_path(tmp_path / "s1")
    assert FILLER not in file.read_bytes()[: end_of_lines(file)]
    assert state_of(tmp_path / "s1") == values


@pytest.mark.parametrize("block", [512, 1024, 4096])
def test_n1_cleared_block_behind_a_seal_whose_filler_was_not_cut_off_costs_nothing(tmp_path, block):
    """The power goes between the seal and the file's new size: the system has cleared the rest of
    the block already, and the filler behind it is still there. Found by power cuts on ext4."""
    path = tmp_path / "s1"
    engine = open_inline(path, preallocate=8192)
    engine.append("counted", 1)
    engine.rotate()
    engine.abandon()
    file = segment_path(path)
    data = file.read_bytes()
    cleared = data + bytes(-len(data) % block)
    file.write_bytes(cleared + FILLER * (8192 - len(cleared)))
    assert verify(str(path), files=RealFiles()).damage == []
    assert state_of(path) == [1]
    with open_inline(path) as engine:
        assert engine.state == [1] and engine.recovery.torn is None
        assert engine.append("counted", 2).seq == 2
    assert file.read_bytes() == data
