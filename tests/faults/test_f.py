"""FAULTS F: full disks, refused permissions, names held by somebody for a moment."""

import contextlib
import errno

import pytest

from durasess import SessionFailedError, StorageError
from durasess.engine.files import RealFiles
from tests.faults.tails import with_and_without_filler
from tests.support.sessions import SIM_PATH, SIM_SEGMENT, open_inline, open_sim, sim_disk, state_of


def fill(files, engine, room, *, first=1):
    """Append until the disk is full; how many events there are then."""
    files.quota = files.used() + room
    fitted = first - 1
    try:
        while True:
            engine.append("t", fitted + 1)
            fitted += 1
    except StorageError as error:
        assert error.errno == errno.ENOSPC
    return fitted


@with_and_without_filler
@pytest.mark.parametrize("room", [0, 1, 50, 500, 777, 2000, 5000, 33_400])
def test_f1_full_disk_is_loud_and_appends_go_on_when_there_is_room(room, preallocate):
    files = sim_disk()
    engine = open_sim(files, segment_bytes=900, preallocate=preallocate)
    fitted = fill(files, engine, room)
    assert engine.last_seq == fitted
    files.quota = None
    assert engine.append("t", fitted + 1).seq == fitted + 1
    engine.close()
    with open_sim(files) as again:
        assert again.state == list(range(1, fitted + 2))
        assert again.damage == ()


@with_and_without_filler
def test_f1_session_of_a_full_disk_can_be_closed_and_read(preallocate):
    """Whether the seal has room behind the last line or not: without room close says so."""
    files = sim_disk()
    engine = open_sim(files, preallocate=preallocate, snapshot_every=10**9)
    engine.append("t", 1)
    fitted = fill(files, engine, 1200, first=2)
    with contextlib.suppress(StorageError):
        engine.close()
    assert files.descriptors == {}
    assert open_sim(files, mode="read").state == list(range(1, fitted + 1))
    files.quota = None
    with open_sim(files) as again:
        assert again.state == list(range(1, fitted + 1))


def test_f1_close_on_a_full_disk_without_room_for_the_seal_says_so():
    files = sim_disk()
    engine = open_sim(files, preallocate=0)
    fill(files, engine, 1200)
    with pytest.raises(StorageError):
        engine.close()
    assert files.descriptors == {}


def test_f1_event_that_fits_is_taken_although_its_filler_does_not():
    """A disk with room for the lines alone has room."""
    files = sim_disk()
    engine = open_sim(files, preallocate=4096)
    engine.append("t", 1)
    files.quota = files.used() + 600
    assert engine.append("t", "x" * 4000).seq == 2
    assert len(files.tree()[SIM_SEGMENT]) == 4096 + 600
    assert engine.append("t", 3).seq == 3
    engine.abandon()
    assert open_sim(files, mode="read").state == [1, "x" * 4000, 3]


def test_f1_every_later_append_says_it_again():
    files = sim_disk()
    engine = open_sim(files)
    fill(files, engine, 800)
    for _ in range(3):
        with pytest.raises(StorageError):
            engine.append("t", "x")
    engine.abandon()


def test_f4_failed_sync_fails_the_handle_and_the_next_open_proves_the_tail_anew():
    files = sim_disk()
    engine = open_sim(files)
    engine.append("t", 1)
    files.fail_sync(where="events_0001.jsonl")
    with pytest.raises(SessionFailedError) as caught:
        engine.append("t", 2)
    assert caught.value.unknown == (2, 2)
    engine.close()
    with open_sim(files) as again:
        assert again.state in ([1], [1, 2])
        assert again.append("t", 3).seq == len(again.state)


def test_f4_failed_write_and_failed_cut_fail_the_handle_and_name_both():
    files = sim_disk()
    engine = open_sim(files)
    engine.append("t", 1)
    files.short_write(7, then=None, where="events_0001.jsonl")
    files.fail("truncate", where="events_0001.jsonl")
    with pytest.raises(SessionFailedError, match=r"No space left.*could not be cut back.*Input"):
        engine.append("t", 2)
    with pytest.raises(SessionFailedError):
        engine.append("t", 3)
    engine.close()
    with open_sim(files) as again:
        assert again.state == [1]


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES])
def test_f5_session_that_cannot_be_written_is_refused_by_name_and_can_be_read(code):
    files = sim_disk()
    engine = open_sim(files)
    engine.append("t", 1)
    engine.close()
    for kind in ("mkdir", "create", "replace", "unlink", "truncate", "write_at"):
        files.fail(kind, code=code, sticky=True)
    with pytest.raises(StorageError, match=SIM_PATH) as caught:
        open_sim(files)
    assert caught.value.errno == code
    assert open_sim(files, mode="read").state == [1]


def test_f5_store_that_cannot_be_written_gives_out_no_session():
    files = sim_disk()
    files.fail("mkdir", code=errno.EROFS, sticky=True)
    with pytest.raises(StorageError):
        open_sim(files)
    assert list(files.tree()) == ["/store"]


class HeldForAMoment(RealFiles):
    """A scanner holds the target of a rename, as on Windows."""

    def __init__(self, times):
        self.pauses = []
        self.times = times
        super().__init__(sleep=self.pauses.append)


def test_f7_rename_that_is_refused_for_a_moment_is_tried_again(tmp_path, monkeypatch):
    import os

    files = HeldForAMoment(2)
    real = os.replace

    def replace(source, target):
        if target.endswith("meta.json") and files.times:
            files.times -= 1
            raise PermissionError(errno.EACCES, "held")
        real(source, target)

    with open_inline(tmp_path / "s1") as engine:
        monkeypatch.setattr(engine._writer._ledger, "_disk", files)
        monkeypatch.setattr(os, "replace", replace)
        assert engine.append("t", 1).seq == 1
        monkeypatch.undo()
    assert len(files.pauses) == 2
    assert state_of(tmp_path / "s1") == [1]


def test_f8_rename_that_is_always_refused_leaves_the_old_file_and_no_temporary_one():
    files = sim_disk()
    engine = open_sim(files)
    before = files.tree()
    fault = files.fail("replace", code=errno.EACCES, where="meta.json.tmp", sticky=True)
    for _ in range(2):
        with pytest.raises(StorageError):
            engine.append("t", 1)
    after = files.tree()
    assert after[f"{SIM_PATH}/meta.json"] == before[f"{SIM_PATH}/meta.json"]
    assert set(after) - set(before) == {SIM_SEGMENT}
    files.faults.remove(fault)
    assert engine.append("t", 1).seq == 1
    engine.close()
