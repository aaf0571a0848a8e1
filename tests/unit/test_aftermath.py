"""Settling what recovery found: the log first, in an order in which a crash loses nothing."""

import errno

import pytest

from durasess.engine import aftermath, lock, paths, recovery, workers
from durasess.engine.fold import Fold
from durasess.errors import FencedError
from tests.support.lines import SegmentBytes
from tests.support.sessions import SIM_PATH, SIM_SEGMENT, open_sim, sim_disk
from tests.support.sim_files import SimFiles

FOLD = Fold(initial=list, apply=lambda state, event: [*state, event.data])


def recovered(disk):
    return recovery.recover(disk, SIM_PATH, FOLD, writer=True)


def unclean(events=3):
    """A disk with a session whose writer was killed; nothing pending."""
    files = sim_disk()
    engine = open_sim(files)
    for n in range(events):
        engine.append("t", n)
    engine.abandon()
    return SimFiles.from_tree(files.tree())


def settled(disk):
    found = recovered(disk)
    assert not found.settled
    aftermath.settle_found(disk, found)
    assert found.settled
    assert disk.descriptors == {}
    return found


def test_unsealed_log_is_sealed_by_a_copy():
    disk = unclean()
    found = settled(disk)
    assert found.report.quarantined == []
    again = recovered(disk)
    assert (again.state, again.unsealed.seal.last_seq) == ([0, 1, 2], 3)


def test_torn_tail_goes_to_quarantine_and_the_report_names_it():
    disk = unclean()
    tree = disk.tree()
    tree[SIM_SEGMENT] = tree[SIM_SEGMENT].rstrip(b"\t") + b'{"seq":4,"ts":"'
    disk = SimFiles.from_tree(tree)
    (path,) = settled(disk).report.quarantined
    assert disk.tree()[path] == b'{"seq":4,"ts":"'
    assert recovered(disk).state == [0, 1, 2]


def test_sealed_log_is_left_alone():
    files = sim_disk()
    with open_sim(files) as engine:
        engine.append("t", 1)
    disk = SimFiles.from_tree(files.tree())
    settled(disk)
    assert [op.kind for op in disk.log if op.kind != "unlink"] == []


def test_name_of_a_new_session_is_made_durable_in_its_parent_first():
    """Whoever made it may have died before."""
    files = sim_disk()
    open_sim(files).abandon()
    disk = SimFiles.from_tree(files.tree())
    settled(disk)
    assert disk.log[0].kind == "sync_dir"
    assert disk.log[0].node == disk._node("/store").number
    disk = unclean()
    settled(disk)
    assert disk._node("/store").number not in [op.node for op in disk.log if op.kind == "sync_dir"]


@pytest.mark.parametrize("name", [paths.META, paths.SNAPSHOT])
def test_bad_file_is_kept_before_the_log_is_touched(name):
    tree = unclean().tree()
    tree[f"{SIM_PATH}/{name}"] = b"garbage"
    disk = SimFiles.from_tree(tree)
    (path,) = settled(disk).report.quarantined
    assert disk.tree()[path] == b"garbage"
    targets = [op.target_name for op in disk.log if op.kind == "rename"]
    assert targets[0].startswith(name) and targets[-1] == "events_0001.jsonl"


def test_leftovers_and_dead_workers_are_tidied_last():
    tree = unclean().tree()
    leftovers = [f"{SIM_PATH}/{name}.tmp" for name in (paths.META, paths.SNAPSHOT)]
    for path in leftovers:
        tree[path] = b"half"
    disk = SimFiles.from_tree(tree)
    holder = lock.whoami("now")
    disk.close(workers.register(disk, SIM_PATH, "w1", holder).fd)
    alive = workers.register(disk, SIM_PATH, "w2", holder)
    aftermath.settle_found(disk, recovered(disk))
    assert not set(leftovers) & set(disk.tree())
    assert disk.listdir(f"{SIM_PATH}/workers") == ["w2"]
    kinds = [op.kind for op in disk.log]
    assert kinds.index("unlink") > kinds.index("rename")
    disk.close(alive.fd)


def test_log_that_changed_since_it_was_read_is_not_settled_and_nothing_is_tidied():
    tree = unclean().tree()
    tree[f"{SIM_PATH}/meta.json.tmp"] = b"half"
    disk = SimFiles.from_tree(tree)
    found = recovered(disk)
    fd = disk.open(SIM_SEGMENT, write=True)
    made = SegmentBytes()
    made.add()
    disk.write_at(fd, made.content, found.unsealed.end)
    disk.close(fd)
    with pytest.raises(FencedError, match="changed while it was being recovered"):
        aftermath.settle_found(disk, found)
    assert not found.settled
    assert f"{SIM_PATH}/meta.json.tmp" in disk.tree()


@pytest.mark.parametrize("kind", ["create", "write_at", "sync", "replace", "sync_dir"])
def test_settling_that_fails_is_done_by_the_next(kind):
    disk = unclean()
    found = recovered(disk)
    disk.fail(kind, code=errno.EIO)
    with pytest.raises(OSError):
        aftermath.settle_found(disk, found)
    assert not found.settled
    settled(disk)
    assert recovered(disk).state == [0, 1, 2]
