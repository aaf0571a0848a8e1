"""Old events, read back in order; damage is raised or told, what was pruned is an error."""

import msgspec
import pytest

from durasess import CorruptionError, Migration
from durasess.engine import history, segment
from durasess.engine.files import RealFiles
from durasess.engine.fold import Fold
from tests.support.sessions import (
    claims_of,
    collect,
    drop_line,
    make_segments,
    make_snapshots,
    make_unclean,
    open_inline,
    replace_line,
    segment_path,
)

FOLD = Fold(initial=list, apply=collect)


def seqs(path, *, after=0, through=1 << 62, on_damage=None):
    return [
        event.seq
        for event in history.events(
            RealFiles(),
            claims_of(path),
            FOLD,
            after=after,
            through=through,
            on_damage=on_damage,
        )
    ]


@pytest.fixture
def path(tmp_path):
    """Four sealed segments with two events each."""
    return make_segments(tmp_path / "s1", 4)


# events


def test_all_events_come_in_order(path):
    assert seqs(path, through=8) == list(range(1, 9))


@pytest.mark.parametrize("after", range(9))
def test_events_after_a_seq(path, after):
    assert seqs(path, after=after, through=8) == list(range(after + 1, 9))


def test_events_through_a_seq(path):
    assert seqs(path, after=2, through=5) == [3, 4, 5]
    assert seqs(path, after=5, through=5) == []


def test_snapshots_lead_to_the_right_segment(tmp_path):
    path = make_snapshots(tmp_path / "s1", 5)
    for after in range(6):
        assert seqs(path, after=after, through=5) == list(range(after + 1, 6))


def test_events_that_were_pruned_are_an_error(tmp_path):
    path = make_snapshots(tmp_path / "s1", 5)
    engine = open_inline(path)
    engine.prune()
    engine.close()
    with pytest.raises(ValueError, match="Ask for after=4"):
        seqs(path, through=5)
    assert seqs(path, after=4, through=5) == [5]


def test_damage_is_raised_after_what_is_before_it(path):
    replace_line(segment_path(path, 2), 1, b"@@@@")
    events = history.events(RealFiles(), claims_of(path), FOLD, after=0, through=8, on_damage=None)
    assert [next(events).seq, next(events).seq] == [1, 2]
    with pytest.raises(CorruptionError) as caught:
        next(events)
    assert caught.value.seq == 3


def test_damage_that_is_told_is_passed_and_the_next_line_is_not_proven(path):
    replace_line(segment_path(path, 2), 1, b"@@@@")
    told = []
    found = list(
        history.events(
            RealFiles(),
            claims_of(path),
            FOLD,
            after=0,
            through=1 << 62,
            on_damage=told.append,
        )
    )
    assert [event.seq for event in found] == [1, 2, 4, 5, 6, 7, 8]
    assert [event.seq for event in found if not event.proven] == [4]
    assert [(one.first_seq, one.last_seq) for one in told] == [(3, 3)]


def test_missing_end_of_the_log_is_raised(path):
    segment_path(path, 4).unlink()
    with pytest.raises(CorruptionError):
        seqs(path, through=8)


def test_old_events_are_migrated(path):
    tenfold = Migration(event=lambda event: msgspec.structs.replace(event, data=event.data * 10))
    fold = Fold(initial=list, apply=collect, schema_version=2, migrations={1: tenfold})
    found = history.events(RealFiles(), claims_of(path), fold, after=6, through=8, on_damage=None)
    assert [event.data for event in found] == [70, 80]


def test_log_that_ends_before_what_is_known_is_damage(tmp_path):
    path = make_unclean(tmp_path / "s1", 3, preallocate=0)
    drop_line(segment_path(path), -1)
    with pytest.raises(CorruptionError, match="seq 3"):
        seqs(path, through=3)


def test_session_without_events_has_no_history(tmp_path):
    open_inline(tmp_path / "s1").close()
    assert seqs(tmp_path / "s1") == []


def test_history_that_was_pruned_whole_says_from_where_there_will_be_some(tmp_path):
    path = make_snapshots(tmp_path / "s1", 4)
    with open_inline(path) as engine:
        engine.prune()
    for file in (tmp_path / "s1").glob("events_*"):
        file.unlink()
    (tmp_path / "s1" / "snapshot.prev.json.zst").unlink()
    with pytest.raises(ValueError, match=r"Ask for after=4\."):
        seqs(path, through=4)


# where to begin


@pytest.fixture
def long_path(tmp_path):
    """Sixteen sealed segments with two events each."""
    return make_segments(tmp_path / "long", 16)


def begins(path, after):
    return history._first_segment(RealFiles(), claims_of(path), after, 32)


@pytest.fixture
def looked_at(monkeypatch):
    """The numbers of the segments whose headers were read."""
    found = []
    honest = segment.first_seq_of

    def first_seq_of(disk, directory, number):
        found.append(number)
        return honest(disk, directory, number)

    monkeypatch.setattr(segment, "first_seq_of", first_seq_of)
    return found


@pytest.mark.parametrize("after", range(32))
def test_few_headers_lead_to_the_segment_where_reading_begins(long_path, after, looked_at):
    assert begins(long_path, after) == after // 2 + 1
    assert len(looked_at) <= 5


@pytest.mark.parametrize("number", range(1, 17))
def test_a_header_that_is_not_valid_misleads_nobody(long_path, number):
    segment_path(long_path, number).write_bytes(b"@@@@\n")
    for after in range(32):
        wanted = after // 2 + 1
        assert begins(long_path, after) == (max(1, wanted - 1) if wanted == number else wanted)


@pytest.mark.parametrize("number", range(2, 16))
def test_a_segment_that_is_missing_misleads_nobody(long_path, number):
    segment_path(long_path, number).unlink()
    for after in range(32):
        wanted = after // 2 + 1
        assert begins(long_path, after) == (wanted - 1 if wanted == number else wanted)


def test_a_segment_in_anothers_place_misleads_nobody(long_path):
    moved = segment_path(long_path, 15).read_bytes()
    segment_path(long_path, 8).write_bytes(moved)
    assert seqs(long_path, after=20, through=32) == list(range(21, 33))
    with pytest.raises(CorruptionError):
        seqs(long_path, after=12, through=32)
