"""P4: after a failed sync, or a failed write that could not be cut back, the handle takes no more
events and says which outcomes are unknown; a short write or a full disk is cut back."""

import errno

import pytest

from durasess import CorruptionError, SessionFailedError, StorageError
from durasess.engine.log import Log
from tests.faults.tails import with_and_without_filler
from tests.support.crash_states import crash_states
from tests.support.power_cuts import QUICK
from tests.support.sessions import START_NS, clock, open_sim, sim_disk
from tests.support.sim_files import SimFiles

SEGMENT = "events_0001.jsonl"


@pytest.fixture
def files():
    return sim_disk()


def failed_by_a_sync(files, **how):
    engine = open_sim(files)
    engine.append("t", 1)
    files.fail_sync(where=SEGMENT, **how)
    with pytest.raises(SessionFailedError) as caught:
        engine.append_many([("t", 2), ("t", 3)])
    return engine, caught.value


@pytest.mark.parametrize("pages", ["keep", "drop"])
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
def test_p4_failed_sync_ends_the_handle_and_names_what_is_unknown(files, pages, code):
    engine, error = failed_by_a_sync(files, pages=pages, code=code)
    assert (error.unknown, error.seq) == ((2, 3), 1)
    for use in (lambda: engine.append("t", 4), engine.flush, engine.rotate, engine.snapshot):
        with pytest.raises(SessionFailedError):
            use()
    assert (engine.state, engine.last_seq) == ([1], 1)
    engine.close()


@pytest.mark.parametrize("pages", ["keep", "drop"])
def test_p4_next_open_proves_the_tail_anew_and_writes_it_to_a_new_file(files, pages):
    engine, _ = failed_by_a_sync(files, pages=pages)
    engine.close()
    inode = files.stat(f"/store/s1/{SEGMENT}").inode
    with open_sim(files) as again:
        assert again.state == ([1, 2, 3] if pages == "keep" else [1])
        assert files.stat(f"/store/s1/{SEGMENT}").inode != inode
        assert again.append("t", 4).seq == len(again.state)


def test_p4_has_teeth_a_sync_that_is_tried_again_loses_what_it_acknowledged(files, monkeypatch):
    """The kernel says "done" the second time, but the pages are gone."""
    once = SimFiles.sync

    def twice(disk, fd):
        try:
            once(disk, fd)
        except OSError:
            once(disk, fd)

    monkeypatch.setattr(SimFiles, "sync", twice)
    engine = open_sim(files)
    engine.append("t", 1)
    files.fail_sync(where=SEGMENT, pages="drop")
    assert engine.append("t", 2).durable
    engine.abandon()
    with pytest.raises(Exception, match=r"seq 2|floor|damage"):
        open_sim(files)


def test_p4_write_that_cannot_be_cut_back_ends_the_handle(files):
    engine = open_sim(files)
    engine.append("t", 1)
    files.short_write(9, then=None, where=SEGMENT)
    files.fail("truncate", where=SEGMENT)
    with pytest.raises(SessionFailedError) as caught:
        engine.append("t", 2)
    assert caught.value.unknown == (2, 2)
    engine.close()
    with open_sim(files) as again:
        assert again.state == [1]


def test_p4_seal_whose_filler_cannot_be_cut_off_ends_the_handle_and_loses_nothing(files):
    engine = open_sim(files)
    engine.append("t", 1)
    files.fail("truncate", where=SEGMENT)
    with pytest.raises(SessionFailedError) as caught:
        engine.rotate()
    assert (caught.value.unknown, caught.value.seq) == (None, 1)
    with pytest.raises(SessionFailedError):
        engine.append("t", 2)
    engine.close()
    with open_sim(files) as again:
        assert again.state == [1]
        assert again.append("t", 2).seq == 2
    with open_sim(files) as again:
        assert again.state == [1, 2]


@with_and_without_filler
@pytest.mark.parametrize("taken", [0, 1, 30, -1])
def test_p4_short_write_is_cut_back_and_the_handle_lives_on(files, taken, preallocate):
    engine = open_sim(files, preallocate=preallocate)
    engine.append("t", 1)
    files.short_write(taken, then=None, where=SEGMENT)
    with pytest.raises(StorageError) as caught:
        engine.append("t", 2)
    assert caught.value.errno == errno.ENOSPC
    assert engine.append("t", 3).seq == 2
    engine.close()
    with open_sim(files) as again:
        assert again.state == [1, 3]


def test_p4_has_teeth_without_the_cut_the_rest_of_a_short_write_harms_the_log(files, monkeypatch):
    monkeypatch.setattr(Log, "_cut_back", lambda log, error, after: None)
    engine = open_sim(files, preallocate=0)
    engine.append("t", 1)
    files.short_write(30, then=None, where=SEGMENT)
    with pytest.raises(StorageError):
        engine.append("t", 2)
    with pytest.raises(Exception, match="its size is"):
        engine.append("t", 3)
    engine.abandon()


def refused_after_a_short_write(files):
    """How many of the disks that a power cut may leave are refused, when a write was cut short in
    the filler and another one took its place."""
    engine = open_sim(files, preallocate=4096)
    engine.append("t", 1)
    files.short_write(900, then=None, where=SEGMENT)
    with pytest.raises(StorageError):
        engine.append("t", "a" * 1200)
    engine.append("t", "b" * 1200)
    engine.abandon()
    refused = 0
    for state in crash_states(files.base, files.log, QUICK):
        try:
            open_sim(SimFiles.from_tree(state.tree), clock=clock(2 * START_NS)).abandon()
        except CorruptionError:
            refused += 1
    return refused


def test_p4_power_cut_does_not_mix_a_short_write_with_the_next(files):
    """In the filler a short write leaves no size behind that would tell of it."""
    assert refused_after_a_short_write(files) == 0


def test_p4_has_teeth_without_the_sync_of_the_cut_two_writes_mix(files, monkeypatch):
    def unsynced(log, error, after):
        log._disk.truncate(log._fd, log.offset)
        log._size = log.offset

    monkeypatch.setattr(Log, "_cut_back", unsynced)
    assert refused_after_a_short_write(files) > 0


@with_and_without_filler
@pytest.mark.parametrize(
    "kind",
    ["write_at", "sync", "size", "leads_to", "fstat", "stat", "create", "replace", "sync_dir",
     "truncate"],
)  # fmt: skip
@pytest.mark.parametrize("nth", range(1, 6))
def test_p4_any_call_that_fails_once_leaves_a_clean_error_and_no_loss(
    files, kind, nth, preallocate
):
    engine = open_sim(files, segment_bytes=500, snapshot_every=3, preallocate=preallocate)
    acknowledged = []
    files.fail(kind, nth=nth)
    for n in range(12):
        try:
            engine.append("t", n)
            acknowledged.append(n)
        except (SessionFailedError, StorageError):
            continue
        while engine._scheduler.run_background():
            pass
    files.faults.clear()
    engine.close()
    with open_sim(files) as again:
        assert set(acknowledged) <= set(again.state)
        assert again.state == sorted(again.state)
        assert again.damage == ()
