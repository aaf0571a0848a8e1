"""Pruning: only what both snapshots cover, oldest first, never on the word of a bad snapshot."""

import os

import pytest

from durasess import CorruptionError, EventRejectedError, StorageError
from durasess.engine.files import RealFiles
from durasess.engine.prune import prune
from tests.support.sessions import (
    SIM_PATH,
    flip_bit,
    make_segments,
    make_snapshots,
    open_inline,
    open_sim,
    segment_path,
    sim_disk,
    state_of,
    unchanged,
)


def test_segments_below_the_older_snapshot_go(tmp_path):
    path = make_snapshots(tmp_path / "s1", 4)
    pruned = prune(RealFiles(), path, apply=True)
    assert (pruned.segments, pruned.first_seq, pruned.applied) == ([1, 2, 3], 4, True)
    assert not segment_path(path, 3).exists()
    assert segment_path(path, 4).exists()
    assert state_of(path) == [1, 2, 3, 4]


def test_dry_run_says_the_same_and_changes_nothing(tmp_path):
    path = make_snapshots(tmp_path / "s1", 4)
    sizes = sum(segment_path(path, n).stat().st_size for n in (1, 2, 3))
    with unchanged(path):
        pruned = prune(RealFiles(), path, apply=False)
    assert (pruned.segments, pruned.bytes, pruned.applied) == ([1, 2, 3], sizes, False)


@pytest.mark.parametrize("snapshots", [0, 1])
def test_nothing_goes_while_there_are_not_two_snapshots(tmp_path, snapshots):
    path = str(tmp_path / "s1")
    if snapshots:
        engine = open_inline(path)
        engine.append("t", 1)
        engine.snapshot()
        engine.abandon()
    else:
        make_segments(path, 3)
    with unchanged(path):
        assert prune(RealFiles(), path, apply=True).segments == []


@pytest.mark.parametrize("name", ["snapshot.json.zst", "snapshot.prev.json.zst", "meta.json"])
def test_nothing_goes_while_a_claim_is_bad(tmp_path, name):
    path = make_snapshots(tmp_path / "s1", 3)
    flip_bit(tmp_path / "s1" / name, 30)
    with unchanged(path), pytest.raises(CorruptionError, match="nothing is pruned"):
        prune(RealFiles(), path, apply=True)


def test_oldest_goes_first():
    files = sim_disk()
    make_snapshots(SIM_PATH, 4, files=files)
    since = len(files.log)
    prune(files, SIM_PATH, apply=True)
    gone = [op.name for op in files.log[since:] if op.kind == "unlink"]
    assert gone == ["events_0001.jsonl", "events_0002.jsonl", "events_0003.jsonl"]


def test_leftovers_of_an_interrupted_prune_go_too(tmp_path):
    path = make_snapshots(tmp_path / "s1", 4)
    segment_path(path, 2).unlink()
    assert prune(RealFiles(), path, apply=True).segments == [1, 3]


def test_second_prune_says_what_is_left(tmp_path):
    path = make_snapshots(tmp_path / "s1", 4)
    first = prune(RealFiles(), path, apply=True)
    second = prune(RealFiles(), path, apply=True)
    assert second.segments == []
    assert second.first_seq == first.first_seq


def test_pruning_beside_a_failed_swap_is_refused():
    """After a swap that failed, which snapshot is on disk is not known."""
    files = sim_disk()
    engine = open_sim(files, compress=False)
    for n in range(3):
        engine.append("t", n)
        engine.snapshot()
    engine.append("t", 3)
    files.fail("sync_dir")
    with pytest.raises(StorageError, match="snapshot at seq 4 could not be made"):
        engine.snapshot()
    with pytest.raises(StorageError, match="nothing is pruned"):
        engine.prune()
    engine.abandon()


def test_snapshot_that_the_program_does_not_go_on_with_is_not_leaned_on(tmp_path):
    """Another program made it, that knows less: what it lacks is only in the log."""
    path = make_snapshots(tmp_path / "s1", 2)
    engine = open_inline(path, takes=lambda state: 3 in state, compress=False)
    before = sorted(os.listdir(path))
    with pytest.raises(EventRejectedError, match=r"knows less .* Take two snapshots"):
        engine.prune()
    assert sorted(os.listdir(path)) == before
    for n in (3, 4):
        engine.append("counted", n)
        engine.snapshot()
    assert engine.prune().segments
    assert engine.state == [1, 2, 3, 4]
    engine.close()
