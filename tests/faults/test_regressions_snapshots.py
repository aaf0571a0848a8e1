"""Faults found by review: snapshots put back by hand, left behind by a repair, or not equal."""

import pytest

from durasess import Engine, EventRejectedError
from durasess.engine import paths
from durasess.engine.files import RealFiles
from durasess.engine.repair import repair
from durasess.engine.verify import verify
from tests.support.sessions import (
    append_all,
    claims_of,
    flip_bit,
    make_snapshots,
    open_inline,
    segment_path,
    state_of,
    tree_of,
    unchanged,
)


def make_old_snapshot_put_back(path, name=paths.SNAPSHOT):
    """Five events and snapshots, pruned; then a file holds the snapshot at seq 1 again."""
    engine = open_inline(path)
    engine.append("counted", 1)
    engine.snapshot()
    old = (path / paths.SNAPSHOT).read_bytes()
    for n in range(2, 6):
        engine.append("counted", n)
        engine.snapshot()
    engine.prune()
    engine.append("counted", 6)
    engine.close()
    (path / name).write_bytes(old)
    return path


def swap_snapshots(path):
    """The newest under the previous one's name, and the other way round."""
    newest, previous = path / paths.SNAPSHOT, path / paths.SNAPSHOT_PREVIOUS
    data = newest.read_bytes()
    newest.write_bytes(previous.read_bytes())
    previous.write_bytes(data)


# The snapshot with the highest seq is the newest, whatever its name


@pytest.mark.parametrize("mode", ["own", "read"])
def test_swapped_snapshot_files_lose_nothing_and_the_highest_seq_is_used(tmp_path, mode):
    make_snapshots(tmp_path / "s1", 4)
    swap_snapshots(tmp_path / "s1")
    with open_inline(tmp_path / "s1", mode=mode) as engine:
        assert engine.state == [1, 2, 3, 4]
        assert engine.recovery.snapshot_seq == 4
        assert engine.damage == ()


@pytest.mark.parametrize("name", [paths.SNAPSHOT, paths.SNAPSHOT_PREVIOUS])
@pytest.mark.parametrize("mode", ["own", "read"])
def test_older_snapshot_put_back_after_a_prune_opens_with_everything(tmp_path, mode, name):
    path = make_old_snapshot_put_back(tmp_path / "s1", name)
    with open_inline(path, mode=mode) as engine:
        assert engine.state == [1, 2, 3, 4, 5, 6]
        assert engine.damage == ()


def test_one_opening_settles_an_older_snapshot_that_was_put_back(tmp_path):
    path = make_old_snapshot_put_back(tmp_path / "s1")
    open_inline(path).close()
    assert verify(str(path), files=RealFiles()).damage == []


def test_repair_keeps_everything_when_an_older_snapshot_was_put_back(tmp_path):
    path = make_old_snapshot_put_back(tmp_path / "s1")
    assert repair(str(path), files=RealFiles(), apply=True).kept_through == 6
    assert state_of(path) == [1, 2, 3, 4, 5, 6]


def test_snapshots_after_an_older_one_was_put_back_go_on_in_order(tmp_path):
    path = make_old_snapshot_put_back(tmp_path / "s1")
    with open_inline(path) as engine:
        engine.append("counted", 7)
        assert engine.snapshot() == 7
        engine.append("counted", 8)
    flip_bit(path / paths.SNAPSHOT, 20)
    assert state_of(path) == [1, 2, 3, 4, 5, 6, 7, 8]


# What a repair cut off must not come back through a snapshot


def make_repaired(path, *, damaged):
    """The snapshot at seq 1 put back, the newest event changed or not, then repaired."""
    make_old_snapshot_put_back(path)
    newest = segment_path(path, 6)
    if damaged:
        newest.write_bytes(newest.read_bytes().replace(b'"data":6', b'"data":9'))
    return repair(str(path), files=RealFiles(), apply=True)


@pytest.mark.parametrize("damaged", [True, False], ids=["damaged", "sound"])
def test_repair_leaves_no_snapshot_beyond_the_kept_end(tmp_path, damaged):
    found = make_repaired(tmp_path / "s1", damaged=damaged)
    kept = [one.trailer.seq for one in claims_of(tmp_path / "s1").snapshots]
    assert max(kept, default=0) <= found.kept_through == (5 if damaged else 6)


@pytest.mark.parametrize("damaged", [True, False], ids=["damaged", "sound"])
def test_snapshot_of_a_history_that_was_cut_off_is_never_recovered_from(tmp_path, damaged):
    make_repaired(tmp_path / "s1", damaged=damaged)
    engine = open_inline(tmp_path / "s1")
    append_all(engine, 2, first=7)
    expected = list(engine.state)
    engine.abandon()
    flip_bit(tmp_path / "s1" / paths.SNAPSHOT, 20)
    with open_inline(tmp_path / "s1") as engine:
        assert (engine.state, engine.damage) == (expected, ())


# A state that a restart would change


def current_run(state, event):
    """The usual Python way: the list holds the run that `current` names."""
    if event.type == "start":
        state["current"] = {"n": event.data, "status": "runs"}
        state.setdefault("runs", []).append(state["current"])
    else:
        state["current"]["status"] = event.data
    return state


def twice(state, event):
    """Two lists that are equal and not the same one."""
    state["one"], state["other"] = [event.data], [event.data]
    return state


def test_state_with_one_container_in_two_places_is_refused_by_snapshot(tmp_path):
    engine = Engine.open(tmp_path / "s1", apply=current_run)
    engine.append("start", 1)
    with unchanged(tmp_path / "s1"), pytest.raises(EventRejectedError, match="two places"):
        engine.snapshot()
    assert engine.append("end", "ok").seq == 2
    engine.close()


def test_automatic_snapshot_of_a_state_with_an_alias_is_a_notice_and_nothing_is_lost(tmp_path):
    with Engine.open(tmp_path / "s1", apply=current_run, snapshot_every=1) as engine:
        engine.append("start", 1)
        engine.append("end", "ok")
        assert any("two places" in notice for notice in engine.notices)
        state = engine.state
    assert paths.SNAPSHOT not in tree_of(tmp_path / "s1")
    with Engine.open(tmp_path / "s1", apply=current_run, mode="read") as engine:
        assert engine.state == state
        assert engine.state["runs"][0]["status"] == "ok"


def test_state_with_equal_containers_in_two_places_gets_its_snapshot(tmp_path):
    with Engine.open(tmp_path / "s1", apply=twice) as engine:
        engine.append("t", "x")
        assert engine.snapshot() == 1
        state = engine.state
    with Engine.open(tmp_path / "s1", apply=twice, mode="read") as engine:
        assert engine.state == state
