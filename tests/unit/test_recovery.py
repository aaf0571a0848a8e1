"""Disk → state: from the newest good snapshot to the end or the first damage; changes nothing."""

import errno
import os
from itertools import chain
from pathlib import Path

import msgspec
import pytest

from durasess import CorruptionError, FormatVersionError, Migration, SessionNotFoundError
from durasess.engine import paths, recovery
from durasess.engine.files import RealFiles
from durasess.engine.fold import Fold
from tests.support.lines import write_next
from tests.support.sessions import (
    SIM_PATH,
    collect,
    flip_bit,
    make_segments,
    make_session,
    make_snapshots,
    make_unclean,
    open_inline,
    open_sim,
    replace_line,
    segment_path,
    sim_disk,
    state_of,
    unacknowledged,
    unchanged,
)

LIST = Fold(initial=list, apply=collect)


def recovered(path, *, fold=LIST, writer=False, at_least=None):
    return recovery.recover(RealFiles(), str(path), fold, at_least=at_least, writer=writer)


# recover


def test_state_is_what_the_events_fold_into(tmp_path):
    path = make_session(tmp_path / "s1")
    with unchanged(path):
        found = recovered(path)
    assert found.state == [1, 2, 3]
    assert (found.report.last_seq, found.report.replayed, found.next_segment) == (3, 3, 2)


def test_seal_that_nothing_vouches_for_is_not_taken_for_synced(tmp_path):
    """It can be read, but after a failed sync it may be in the cache alone (R9)."""
    rotated = make_segments(tmp_path / "s1", 1)
    assert not recovered(rotated).report.clean
    open_inline(rotated).close()
    assert recovered(rotated).report.clean


def test_report_says_which_events_are_in_sealed_segments(tmp_path):
    path = make_segments(tmp_path / "s1", 2)
    report = recovered(path).report
    assert (report.sealed_seq, report.last_seq) == (4, 4)
    engine = open_inline(path, snapshot_every=10**6)
    engine.append("counted", 5)
    engine.abandon()
    report = recovered(path).report
    assert (report.sealed_seq, report.last_seq) == (4, 5)
    found = [(one.number, one.events, one.sealed) for one in report.segments]
    assert found == [(1, 2, True), (2, 2, True), (3, 1, False)]
    first = segment_path(path, 1)
    flip_bit(first, first.read_bytes().index(b'"data":2'))
    report = recovered(path).report
    assert (report.sealed_seq, report.last_seq) == (1, 1)
    report = recovered(make_snapshots(tmp_path / "s2", 2)).report
    assert (report.sealed_seq, report.replayed) == (2, 0)


def test_damage_is_not_a_clean_end(tmp_path):
    path = make_segments(tmp_path / "s1", 2)
    open_inline(path).close()
    os.unlink(os.path.join(path, paths.SNAPSHOT))
    assert recovered(path).report.clean
    flip_bit(segment_path(path, 1), -20)
    found = recovered(path)
    assert found.report.damage and not found.report.clean


def test_events_after_the_snapshot_alone_are_replayed(tmp_path):
    path = make_snapshots(tmp_path / "s1", 2)
    engine = open_inline(path)
    engine.append("counted", 3)
    engine.abandon()
    found = recovered(path)
    assert found.state == [1, 2, 3]
    assert (found.report.snapshot_seq, found.report.replayed) == (2, 1)


def test_session_with_only_meta_is_empty(tmp_path):
    open_inline(tmp_path / "s1").close()
    found = recovered(tmp_path / "s1")
    assert (found.state, found.place.seq, found.next_segment) == ([], 0, 1)


def test_missing_session_is_not_found(tmp_path):
    with pytest.raises(SessionNotFoundError):
        recovered(tmp_path / "s1")


def test_unsealed_segment_is_not_a_clean_end(tmp_path):
    found = recovered(make_unclean(tmp_path / "s1"))
    assert not found.report.clean
    assert found.unsealed is not None


def test_torn_batch_is_left_out_whole(tmp_path):
    path = make_unclean(tmp_path / "s1")
    write_next(segment_path(path), unacknowledged(path, 4, 5, 6)[:-10])
    for writer in (False, True):
        found = recovered(path, writer=writer)
        assert found.state == [1, 2, 3]
        assert found.report.torn is not None
        assert found.report.damage == []


def test_batch_that_lacks_only_its_line_feed_is_the_writers_alone(tmp_path):
    path = make_unclean(tmp_path / "s1")
    write_next(segment_path(path), unacknowledged(path, 4)[:-1])
    assert recovered(path, writer=False).state == [1, 2, 3]
    assert recovered(path, writer=True).state == [1, 2, 3, 4]


def test_folding_stops_at_the_first_damage(tmp_path):
    path = make_segments(tmp_path / "s1", 3)
    replace_line(segment_path(path, 2), 1, b"@@@@")
    found = recovered(path)
    assert found.state == [1, 2]
    (damage,) = found.report.damage
    assert (damage.first_seq, damage.path) == (3, str(segment_path(path, 2)))


def test_apply_that_raises_stops_the_fold_before_its_event(tmp_path):
    def picky(state, event):
        if event.data == 2:
            raise ValueError("two")
        state.append(event.data)

    found = recovered(make_session(tmp_path / "s1"), fold=Fold(initial=list, apply=picky))
    assert (found.state, found.place.seq) == ([1], 1)
    assert [(one.rule, one.first_seq) for one in found.report.damage] == [("apply", 2)]
    assert isinstance(found.apply_error, ValueError)


def test_event_ids_of_snapshot_and_tail_are_known(tmp_path):
    engine = open_inline(tmp_path / "s1")
    engine.append("t", 1, event_id="a")
    engine.snapshot()
    engine.append("t", 2, event_id="b")
    engine.abandon()
    assert {name: one.seq for name, one in recovered(tmp_path / "s1").event_ids.items()} == {
        "a": 1,
        "b": 2,
    }


def test_events_are_migrated_before_they_are_folded(tmp_path):
    path = make_session(tmp_path / "s1")
    tenfold = Migration(event=lambda event: msgspec.structs.replace(event, data=event.data * 10))
    fold = Fold(initial=list, apply=collect, schema_version=2, migrations={1: tenfold})
    assert recovered(path, fold=fold).state == [10, 20, 30]


def test_missing_migration_is_refused(tmp_path):
    path = make_session(tmp_path / "s1")
    with pytest.raises(FormatVersionError, match=r"migrations\[1\]"):
        recovered(path, fold=Fold(initial=list, apply=collect, schema_version=2))


def test_error_of_the_system_in_the_middle_of_the_log_is_raised():
    files = sim_disk()
    engine = open_sim(files)
    engine.append("t", 1)
    engine.abandon()
    files.fail("read_at", where="events_0001.jsonl", code=errno.EIO)
    with pytest.raises(Exception) as caught:
        recovery.recover(files, SIM_PATH, LIST, writer=True)
    assert getattr(caught.value, "errno", None) == errno.EIO


# refuse


def test_sound_session_is_not_refused(tmp_path):
    recovery.refuse(recovered(make_unclean(tmp_path / "s1")))


def test_damage_is_refused_with_place_seq_and_report(tmp_path):
    path = make_unclean(tmp_path / "s1")
    flip_bit(segment_path(path), 250)
    found = recovered(path)
    with pytest.raises(CorruptionError) as caught:
        recovery.refuse(found)
    error = caught.value
    assert (error.path, error.seq) == (str(segment_path(path)), 1)
    assert error.offset == found.report.damage[0].offset
    assert error.report is found.report


def test_newer_schema_is_refused_for_writing(tmp_path):
    path = make_session(tmp_path / "s1", schema_version=2)
    found = recovered(path)
    assert found.report.newer_schema
    assert found.state == [1, 2, 3]
    with pytest.raises(FormatVersionError, match="schema version 2"):
        recovery.refuse(found)


def test_newer_schema_is_refused_before_its_first_event_too(tmp_path):
    open_inline(tmp_path / "s1", schema_version=2).close()
    found = recovered(tmp_path / "s1")
    assert found.report.newer_schema
    with pytest.raises(FormatVersionError, match="schema version 2"):
        recovery.refuse(found)


def test_newer_schema_is_known_from_the_snapshot_where_a_crash_brought_an_old_meta_back(tmp_path):
    path = make_session(tmp_path / "s1")
    old = Path(path, paths.META).read_bytes()
    engine = open_inline(path, schema_version=2, migrations={1: lambda state: state})
    engine.append("counted", 4)
    engine.snapshot()
    engine.close()
    Path(path, paths.META).write_bytes(old)
    found = recovered(path)
    assert (found.report.replayed, found.report.newer_schema) == (0, True)
    with pytest.raises(FormatVersionError, match="schema version 2"):
        recovery.refuse(found)


def test_epoch_is_that_of_the_newest_segment_where_a_crash_brought_an_old_meta_back(tmp_path):
    path = make_session(tmp_path / "s1")
    old = Path(path, paths.META).read_bytes()
    engine = open_inline(path)
    engine.append("counted", 4)
    engine.abandon()
    Path(path, paths.META).write_bytes(old)
    assert recovered(path).epoch == 2


def test_tail_is_the_bytes_of_its_lines(tmp_path):
    path = make_snapshots(tmp_path / "s1", 2)
    engine = open_inline(path)
    engine.append("counted", 3)
    engine.append_many([("counted", n) for n in (4, 5)])
    engine.abandon()
    _, *lines = segment_path(path, 3).read_bytes().rstrip(b"\t").splitlines(keepends=True)
    found = recovered(path)
    assert (found.tail_events, found.tail_bytes) == (3, sum(map(len, lines)))


class Shape(msgspec.Struct):
    """A state that a list is not."""

    count: int


def test_snapshot_whose_state_has_another_shape_is_refused_and_nothing_is_changed(tmp_path):
    path = make_snapshots(tmp_path / "s1", 1)
    shaped = Fold(initial=lambda: Shape(0), apply=collect, state_type=Shape)
    with unchanged(path), pytest.raises(CorruptionError, match="cannot use its state"):
        recovered(path, fold=shaped)


def test_memory_that_is_short_is_no_damage(tmp_path, monkeypatch):
    path = make_session(tmp_path / "s1")

    def short(*_):
        raise MemoryError

    with pytest.raises(MemoryError):
        recovered(path, fold=Fold(initial=list, apply=short))
    # Where the events end too.
    events_of = recovery.events_of
    monkeypatch.setattr(
        recovery, "events_of", lambda batch: chain(events_of(batch), map(short, "x"))
    )
    with pytest.raises(MemoryError):
        recovered(path)


def test_last_line_without_its_line_feed_that_apply_does_not_take_is_not_kept(tmp_path):
    path = make_unclean(tmp_path / "s1")
    segment = segment_path(path)
    segment.write_bytes(segment.read_bytes().rstrip(b"\t\n"))

    def refuses_the_last(state, event):
        if event.seq == 3:
            raise ValueError("no")
        collect(state, event)

    found = recovered(path, fold=Fold(initial=list, apply=refuses_the_last), writer=True)
    assert (found.kept, found.place.seq) == ([], 2)
    assert isinstance(found.apply_error, ValueError)


def test_snapshot_of_an_older_schema_without_its_migration_is_refused(tmp_path):
    path = make_snapshots(tmp_path / "s1", 2)
    with pytest.raises(FormatVersionError, match=r"migrations\[1\]"):
        recovered(path, fold=Fold(initial=list, apply=collect, schema_version=2))


def test_event_that_apply_does_not_take_is_refused_with_what_to_do(tmp_path):
    path = make_session(tmp_path / "s1")
    found = recovered(path, fold=Fold(initial=list, apply=lambda state, event: 1 / 0))
    with pytest.raises(CorruptionError, match="Correct the program"):
        recovery.refuse(found)


def test_seal_that_a_snapshot_lies_behind_is_synced(tmp_path):
    """The newest snapshot is bad; meta knows that one was there, and so that the seal was."""
    path = make_snapshots(tmp_path / "s1", 3)
    flip_bit(tmp_path / "s1" / "snapshot.json.zst", 30)
    found = recovered(path)
    assert (found.state, found.report.clean) == ([1, 2, 3], True)


def test_compressed_segment_that_alone_is_left_can_be_written_behind(tmp_path):
    """Meta, snapshots and all later segments are gone; an open for writing said that another
    writer was at work."""
    path = tmp_path / "s1"
    with open_inline(path) as engine:
        for n in range(1, 5):
            engine.append("counted", n)
            engine.snapshot()
    kept = segment_path(path).with_suffix(".jsonl.zst")
    for file in path.iterdir():
        if file.is_file() and file != kept:
            file.unlink()
    with open_inline(path) as engine:
        assert (engine.state, engine.recovery.clean) == ([1], True)
        assert engine.append("counted", 2).seq == 2
    assert state_of(path) == [1, 2]
    assert kept.exists()


# takes


def knows_more(path, **options):
    """As a program that knows more than the one that made the snapshots."""
    fold = Fold(initial=list, apply=collect, takes=lambda state: False)
    return recovered(path, fold=fold, **options)


@pytest.mark.parametrize("writer", [False, True])
def test_snapshot_that_is_not_taken_is_passed_over_for_the_whole_log(tmp_path, writer):
    path = make_snapshots(tmp_path / "s1", 3)
    with unchanged(path):
        found = knows_more(path, writer=writer)
    assert found.state == [1, 2, 3]
    assert (found.report.snapshot_seq, found.report.replayed, found.next_segment) == (0, 3, 4)
    assert found.report.clean and "knows less" in found.report.notices[-1]


@pytest.mark.parametrize("harm", ["pruned", "damaged"])
def test_snapshot_that_is_not_taken_is_gone_on_with_where_the_log_is_not_whole(tmp_path, harm):
    path = make_snapshots(tmp_path / "s1", 3)
    if harm == "pruned":
        segment_path(path, 1).unlink()
    else:
        flip_bit(segment_path(path, 2), 400)
    found = knows_more(path)
    assert (found.state, found.report.snapshot_seq) == ([1, 2, 3], 3)
    assert not found.report.damage and "is not in the state" in found.report.notices[-1]
