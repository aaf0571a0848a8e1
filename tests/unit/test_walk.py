"""The log from a place to its end: segments follow each other, gaps are named, claims checked."""

import pytest

from durasess.engine import paths, survey
from durasess.engine.files import RealFiles
from durasess.engine.walk import Walk, marks, unreached
from tests.support.lines import TAB, write_next
from tests.support.sessions import (
    claims_of,
    cut_tail,
    flip_bit,
    make_segments,
    make_session,
    make_unclean,
    open_descriptors,
    segment_path,
    unacknowledged,
)


def walked(path, *, number=1, start=survey.START, watch=()):
    walk = Walk(RealFiles(), claims_of(path), number=number, start=start, watch=frozenset(watch))
    seqs = [record.seq for _, batch in walk.batches() for record in batch]
    return walk, seqs


@pytest.fixture
def path(tmp_path):
    """Four sealed segments with two events each."""
    return make_segments(tmp_path / "s1", 4)


# Walk


def test_all_segments_are_read_in_order(path):
    walk, seqs = walked(path)
    assert seqs == list(range(1, 9))
    assert [info.number for info in walk.segments] == [1, 2, 3, 4]
    assert (walk.place.seq, walk.damage, walk.torn) == (8, [], None)


def test_every_descriptor_is_given_back(path):
    walked(path)
    assert open_descriptors(path) == []


def test_descriptor_is_given_back_when_the_reader_stops_early(path):
    walk = Walk(RealFiles(), claims_of(path), number=1, start=None)
    batches = walk.batches()
    next(batches)
    batches.close()
    assert open_descriptors(path) == []


def test_walk_may_start_at_any_segment(path):
    _, seqs = walked(path, number=3, start=None)
    assert seqs == [5, 6, 7, 8]


def test_watched_seqs_keep_their_chain_values(path):
    walk, _ = walked(path, watch=[0, 3, 99])
    assert set(walk.watched) == {0, 3}


def test_segment_that_does_not_follow_is_damage(path):
    walk, _ = walked(path, start=survey.Place(7, 7))
    assert walk.damage[0].rule == "header"
    assert "but the log is at seq 7" in walk.damage[0].reason


def test_missing_middle_segment_is_damage_and_what_follows_is_still_read(path):
    segment_path(path, 2).unlink()
    walk, seqs = walked(path)
    (damage,) = walk.damage
    assert (damage.rule, damage.first_seq, damage.last_seq) == ("missing", 3, 4)
    assert damage.path.endswith("events_0002.jsonl")
    assert seqs == [1, 2, 5, 6, 7, 8]


def test_two_missing_segments_are_one_gap(path):
    segment_path(path, 2).unlink()
    segment_path(path, 3).unlink()
    walk, seqs = walked(path)
    (damage,) = walk.damage
    assert (damage.first_seq, damage.last_seq) == (3, 6)
    assert seqs == [1, 2, 7, 8]


def test_missing_newest_segment_that_meta_knows_is_damage(path):
    segment_path(path, 4).unlink()
    walk, _ = walked(path)
    assert [(one.rule, one.first_seq) for one in walk.damage] == [("missing", 7)]


def test_empty_middle_segment_is_damage(path):
    segment_path(path, 2).write_bytes(b"")
    walk, seqs = walked(path)
    assert walk.damage[0].rule == "header"
    assert seqs == [1, 2, 5, 6, 7, 8]


def test_unsealed_segment_that_is_not_the_last_is_damage(path):
    seal = segment_path(path, 2).read_bytes().split(b"\n")[-2]
    cut_tail(segment_path(path, 2), len(seal) + 1)
    walk, _ = walked(path)
    assert walk.damage[0].rule == "seal"


def test_compressed_segment_that_is_broken_is_damage(path):
    plain = segment_path(path, 2)
    plain.with_name(plain.name + ".zst").write_bytes(b"no frame")
    plain.unlink()
    walk, _ = walked(path)
    assert walk.damage[0].rule == "zstd"


def test_torn_tail_of_the_newest_segment_is_told(tmp_path):
    path = make_unclean(tmp_path / "s1")
    end = len(segment_path(path).read_bytes().rstrip(TAB))
    write_next(segment_path(path), unacknowledged(path, "lost")[:30])
    walk, seqs = walked(path)
    assert seqs == [1, 2, 3]
    assert (walk.torn.offset, walk.torn.size) == (end, 30)
    assert walk.damage == []


# unreached


def unreached_by(claims, walk):
    return unreached(claims, start=survey.START, end=walk.place, watched=walk.watched)


def test_log_that_reaches_every_mark_is_fine(path):
    walk, _ = walked(path, watch=[8])
    assert unreached_by(claims_of(path), walk) == []


@pytest.mark.parametrize("preallocate", [0, 1024])
@pytest.mark.parametrize("left", [b"", TAB], ids=["cut", "filler"])
def test_log_that_ends_before_a_mark_is_damage(tmp_path, left, preallocate):
    """Whether the file was cut there or shows what filler was there before the last event."""
    path = make_unclean(tmp_path / "s1", preallocate=preallocate)
    content = segment_path(path).read_bytes()
    end = content.rindex(b'{"seq":3,')
    segment_path(path).write_bytes(content[:end] + left * (len(content) - end))
    walk, _ = walked(path)
    found = unreached_by(claims_of(path), walk)
    assert [(one.rule, one.first_seq, one.last_seq) for one in found] == [("floor", 3, 3)]
    assert found[0].path.endswith("lock")


def test_other_events_at_a_mark_are_damage(path):
    claims = claims_of(path)
    walk, _ = walked(path, watch=[8])
    walk.watched[8] ^= 1
    found = unreached_by(claims, walk)
    assert found and all(one.rule == "floor" for one in found)


def test_mark_that_a_snapshot_covers_needs_no_log(path):
    claims = claims_of(path)
    covered = survey.Place(9, 0)
    assert unreached(claims, start=covered, end=covered, watched={}) == []


# marks


def test_marks_are_those_of_meta_and_of_the_anchor(tmp_path):
    path = make_session(tmp_path / "s1")
    assert {(name, seq) for name, seq, _ in marks(claims_of(path))} == {
        ("meta.json", 0),
        ("lock", 3),
    }


def test_broken_meta_and_anchor_leave_no_marks(tmp_path):
    path = make_session(tmp_path / "s1")
    flip_bit(tmp_path / "s1" / "meta.json", 20)
    flip_bit(tmp_path / "s1" / "lock", 20)
    assert marks(claims_of(path)) == []


def test_gap_at_the_end_that_meta_and_the_anchor_know_is_told_once(path):
    for number in (3, 4):
        segment_path(path, number).unlink()
    for first, expected in ((1, [1, 2, 3, 4]), (3, [])):
        walk, seqs = walked(path, number=first)
        assert seqs == expected
        assert [damage.rule for damage in walk.damage] == ["missing"]


def test_log_ends_behind_the_last_number_there_is(path):
    """A snapshot may say that the next segment would be one more."""
    walk, seqs = walked(path, number=paths.MAX_SEGMENT)
    assert (seqs, walk.damage) == ([], [])
