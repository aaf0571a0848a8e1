"""repair: only on request, a copy first, never renumbers, and a second run finds nothing."""

import errno
import zlib
from pathlib import Path

import pytest

from durasess import SessionLockedError, SessionNotFoundError, StorageError
from durasess.engine.files import RealFiles
from durasess.engine.repair import repair
from durasess.engine.verify import verify
from tests.support.sessions import (
    SIM_PATH,
    SIM_SEGMENT,
    drop_line,
    flip_bit,
    lines_of,
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
    tree_of,
    unchanged,
)


def repaired(path, *, apply=True):
    return repair(str(path), files=RealFiles(), apply=apply)


def damaged_middle(path):
    """Four segments of two events, seq 3 of which is not readable."""
    made = make_segments(path, 4)
    replace_line(segment_path(made, 2), 1, b"@@@@")
    return made


@pytest.mark.parametrize("make", [make_session, make_unclean])
def test_sound_session_is_left_as_it_is(tmp_path, make):
    path = make(tmp_path / "s1")
    with unchanged(path):
        report = repaired(path)
    assert report.actions == []


def test_dry_run_says_what_would_be_done_and_changes_nothing(tmp_path):
    path = damaged_middle(tmp_path / "s1")
    with unchanged(path):
        report = repaired(path, apply=False)
    assert (report.applied, report.kept_through, report.readable) == (False, 2, 5)
    assert any("move events_0004.jsonl to quarantine" in one for one in report.actions)


def test_repaired_session_can_be_written_and_ends_before_the_damage(tmp_path):
    path = damaged_middle(tmp_path / "s1")
    report = repaired(path)
    assert (report.applied, report.kept_through) == (True, 2)
    assert verify(path, files=RealFiles()).damage == []
    with open_inline(path) as engine:
        assert engine.state == [1, 2]
        assert engine.append("t", "next").seq == 3


def test_everything_taken_out_is_kept(tmp_path):
    path = damaged_middle(tmp_path / "s1")
    before = tree_of(path)
    report = repaired(path)
    kept = [Path(one).read_bytes() for one in report.set_aside]
    for number in (2, 3, 4):
        assert before[f"events_000{number}.jsonl"] in kept
    (readable,) = [one for one in report.set_aside if "readable_after_2" in one]
    assert len(lines_of(Path(readable))) == 5


def test_second_run_finds_nothing(tmp_path):
    path = damaged_middle(tmp_path / "s1")
    repaired(path)
    with unchanged(path):
        assert repaired(path).actions == []


def test_damage_inside_a_segment_cuts_it_behind_the_last_whole_batch(tmp_path):
    path = make_session(tmp_path / "s1", 5)
    flip_bit(segment_path(path), segment_path(path).read_bytes().index(b'"seq":4') + 1)
    report = repaired(path)
    assert report.kept_through == 3
    assert state_of(path) == [1, 2, 3]
    assert lines_of(segment_path(path))[-1].startswith(b'{"seal":1,"last_seq":3,')


def test_events_that_the_anchor_knows_and_the_log_lost_are_given_up_openly(tmp_path):
    path = make_unclean(tmp_path / "s1")
    drop_line(segment_path(path), -1)
    report = repaired(path)
    assert report.damage[0].rule == "floor"
    assert report.kept_through == 2
    assert state_of(path) == [1, 2]


@pytest.mark.parametrize("preallocate", [0, 1024])
def test_damage_in_the_newest_segment_is_repaired_and_its_filler_is_gone(tmp_path, preallocate):
    path = make_unclean(tmp_path / "s1", preallocate=preallocate)
    file = segment_path(path)
    flip_bit(file, file.read_bytes().index(b'"data":2') + len(b'"data":'))
    assert file.read_bytes().endswith(b"\t") is (preallocate > 0)
    repaired(path)
    assert verify(path, files=RealFiles()).damage == []
    assert b"\t" not in file.read_bytes()
    with open_inline(path) as engine:
        assert next(engine.events()).data == 1


@pytest.mark.parametrize("make", [make_unclean, make_session])
def test_damage_in_the_filler_costs_no_event(tmp_path, make):
    """Filler behind a seal is what a writer leaves that stopped before it cut it off."""
    path = make(tmp_path / "s1", preallocate=1024)
    file = segment_path(path)
    file.write_bytes(file.read_bytes().ljust(1024, b"\t"))
    flip_bit(file, file.read_bytes().index(b"\t") + 5)
    assert verify(path, files=RealFiles()).damage != []
    repaired(path)
    assert verify(path, files=RealFiles()).damage == []
    assert state_of(path) == [1, 2, 3]


def test_missing_meta_is_made_again(tmp_path):
    path = make_session(tmp_path / "s1")
    (tmp_path / "s1" / "meta.json").unlink()
    repaired(path)
    assert verify(path, files=RealFiles()).notices == []
    assert state_of(path) == [1, 2, 3]


def test_renamed_directory_is_beyond_repair_and_left_alone(tmp_path):
    make_session(tmp_path / "s1")
    (tmp_path / "s1").rename(tmp_path / "s2")
    with unchanged(tmp_path / "s2"):
        report = repaired(tmp_path / "s2")
    assert "rename it back" in str(report.beyond_repair)


def test_lost_beginning_without_a_snapshot_is_beyond_repair(tmp_path):
    path = make_segments(tmp_path / "s1", 3)
    segment_path(path, 1).unlink()
    with unchanged(path):
        report = repaired(path)
    assert "no snapshot can be read" in str(report.beyond_repair)


def test_bad_newest_snapshot_is_copied_and_nothing_is_lost(tmp_path):
    path = make_snapshots(tmp_path / "s1", 3)
    flip_bit(tmp_path / "s1" / "snapshot.json.zst", 30)
    repaired(path)
    assert state_of(path) == [1, 2, 3]


def test_session_with_a_writer_is_not_repaired(tmp_path):
    with open_inline(tmp_path / "s1") as engine:
        engine.append("t", 1)
        with pytest.raises(SessionLockedError):
            repaired(tmp_path / "s1")


@pytest.mark.parametrize("apply", [False, True])
def test_directory_that_is_no_session_is_left_alone(tmp_path, apply):
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "notes.txt").write_text("mine")
    with unchanged(plain), pytest.raises(SessionNotFoundError):
        repaired(plain, apply=apply)


@pytest.mark.parametrize("apply", [False, True])
def test_missing_session_is_not_found(tmp_path, apply):
    with pytest.raises(SessionNotFoundError):
        repaired(tmp_path / "s1", apply=apply)


def test_snapshot_of_a_history_that_is_cut_off_is_set_aside(tmp_path):
    """Both snapshots are behind damage, in segments that are all there."""
    path = make_snapshots(tmp_path / "s1", 3)
    (tmp_path / "s1" / "meta.json").unlink()
    flip_bit(tmp_path / "s1" / "snapshot.json.zst", 30)
    drop_line(segment_path(path, 3), -1)
    report = repaired(path)
    assert verify(path, files=RealFiles()).damage == []
    assert state_of(path) == [1, 2, 3]
    assert report.kept_through == 3


def test_disk_that_refuses_is_an_error_of_the_system_and_repair_may_be_done_again():
    files = sim_disk()
    engine = open_sim(files)
    engine.append_many([("t", 1), ("t", 2)])
    engine.append("t", 3)
    engine.abandon()
    data = files.tree()[SIM_SEGMENT]
    place = data.index(b'"seq":3')
    fd = files.open(SIM_SEGMENT, write=True)
    files.write_at(fd, b"@", place)
    files.close(fd)
    fault = files.fail("replace", code=errno.EROFS, sticky=True)
    with pytest.raises(StorageError, match="safe to do again"):
        repair(SIM_PATH, files=files, apply=True)
    assert not files.descriptors
    files.faults.remove(fault)
    assert repair(SIM_PATH, files=files, apply=True).kept_through == 2
    assert verify(SIM_PATH, files=files).damage == []


def test_line_whose_crc_agrees_but_which_is_no_event_is_cut_off(tmp_path):
    path = make_unclean(tmp_path / "s1")
    file = segment_path(path)
    head, _, _ = lines_of(file)[3].partition(b',"data"')
    chain = int(lines_of(file)[2][-10:-2], 16)
    replace_line(file, 3, b'%s,"crc":"%08x"}' % (head, zlib.crc32(head, chain)))
    report = repaired(path)
    assert report.kept_through == 2
    assert report.damage
    assert state_of(path) == [1, 2]
