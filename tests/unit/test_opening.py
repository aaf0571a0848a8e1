"""Opening: everything that can refuse comes before everything that writes."""

import errno
import os

import msgspec
import pytest

from durasess import (
    CorruptionError,
    FormatVersionError,
    Receipt,
    SessionLockedError,
    SessionNotFoundError,
    StorageError,
)
from durasess.engine import handle, lock, patience, workers
from durasess.engine.files import RealFiles
from durasess.engine.opening import Opened
from tests.support.lines import write_next
from tests.support.sessions import (
    SIM_PATH,
    SIM_SEGMENT,
    flip_bit,
    make_segments,
    make_session,
    make_unclean,
    open_descriptors,
    open_inline,
    open_session,
    open_sim,
    segment_path,
    sim_disk,
    state_of,
    tree_of,
    unacknowledged,
    unchanged,
)

# open_for_reading


def test_reading_changes_nothing_and_takes_no_lock(tmp_path):
    path = make_unclean(tmp_path / "s1")
    writer = open_inline(path)
    with unchanged(path):
        assert state_of(path) == [1, 2, 3]
    writer.close()


def test_reader_looks_again_before_it_believes_in_damage(tmp_path, monkeypatch):
    path = make_segments(tmp_path / "s1", 2)
    file = segment_path(path, 1)
    whole = file.read_bytes()
    file.unlink()
    monkeypatch.setattr(patience.time, "sleep", lambda _seconds: file.write_bytes(whole))
    reader = open_inline(path, mode="read")
    assert (reader.state, reader.damage) == ([1, 2, 3, 4], ())


def test_reader_believes_what_it_finds_twice(tmp_path, monkeypatch):
    path = make_segments(tmp_path / "s1", 3)
    segment_path(path, 2).unlink()
    pauses = []
    monkeypatch.setattr(patience.time, "sleep", pauses.append)
    assert open_inline(path, mode="read").damage
    assert len(pauses) == 1


def test_reader_of_a_missing_session_makes_none(tmp_path):
    with pytest.raises(SessionNotFoundError):
        state_of(tmp_path / "s1")
    assert tree_of(tmp_path) == {}


@pytest.mark.parametrize("kind", ["open", "read_at", "fstat"])
def test_error_of_the_system_while_reading_the_log_is_a_storage_error(kind):
    files = sim_disk()
    engine = open_sim(files)
    engine.append("t", 1)
    engine.abandon()
    files.fail(kind, where="events_0001.jsonl", sticky=True, code=errno.EIO)
    with pytest.raises(StorageError) as caught:
        open_sim(files, mode="read")
    assert caught.value.errno == errno.EIO


# open_for_writing


def test_missing_session_is_made(tmp_path):
    with open_inline(tmp_path / "s1") as engine:
        assert engine.recovery.created
    with open_inline(tmp_path / "s1") as engine:
        assert not engine.recovery.created


def test_missing_session_is_not_made_when_that_is_not_wanted(tmp_path):
    with pytest.raises(SessionNotFoundError):
        open_inline(tmp_path / "s1", create=False)
    assert tree_of(tmp_path) == {}


def test_receipt_keeps_a_missing_session_from_being_made(tmp_path):
    with pytest.raises(SessionNotFoundError):
        open_inline(tmp_path / "s1", at_least=Receipt("s1", 1, "00000000"))
    assert tree_of(tmp_path) == {}


def damaged(path):
    make_segments(path, 3)
    flip_bit(segment_path(path, 2), 300)


def newer(path):
    make_session(path, schema_version=2)


def foreign(path):
    path.mkdir()
    (path / "notes.txt").write_text("mine")


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (damaged, CorruptionError),
        (newer, FormatVersionError),
        (foreign, SessionNotFoundError),
    ],
)
def test_refused_open_changes_nothing_and_keeps_nothing_open(tmp_path, make, error):
    make(tmp_path / "s1")
    with unchanged(tmp_path), pytest.raises(error):
        open_inline(tmp_path / "s1")
    assert open_descriptors(tmp_path) == []


def test_unreached_receipt_changes_nothing(tmp_path):
    path = make_unclean(tmp_path / "s1")
    with unchanged(path), pytest.raises(CorruptionError):
        open_inline(path, at_least=Receipt("s1", 9, "00000000"))


def test_second_writer_is_refused_and_the_holder_named(tmp_path):
    with open_inline(tmp_path / "s1"):
        with pytest.raises(SessionLockedError) as caught:
            open_inline(tmp_path / "s1")
        assert caught.value.holder.pid == os.getpid()
    open_inline(tmp_path / "s1").close()


def test_lock_files_that_were_removed_are_made_again(tmp_path):
    path = make_session(tmp_path / "s1")
    for name in ("owner", "lock"):
        (tmp_path / "s1" / name).unlink()
    with open_inline(path) as engine:
        assert engine.state == [1, 2, 3]


def test_lock_files_are_not_made_in_a_session_that_is_refused(tmp_path):
    damaged(tmp_path / "s1")
    (tmp_path / "s1" / "owner").unlink()
    with unchanged(tmp_path), pytest.raises(CorruptionError):
        open_inline(tmp_path / "s1")


def test_unclean_end_is_settled_and_reported(tmp_path):
    path = make_unclean(tmp_path / "s1")
    write_next(segment_path(path), unacknowledged(path, 4)[:30])
    with open_inline(path) as engine:
        assert not engine.recovery.clean
        assert engine.recovery.torn.size == 30
        assert len(engine.recovery.quarantined) == 1
        assert engine.append("t", 4).seq == 4
    assert segment_path(path, 2).exists()


@pytest.mark.parametrize(
    "kind", ["stat", "open", "create", "read_at", "write_at", "sync", "replace", "sync_dir"]
)
@pytest.mark.parametrize("nth", range(1, 8))
def test_failed_call_while_opening_costs_nothing_and_the_next_open_works(kind, nth):
    files = sim_disk()
    engine = open_sim(files)
    engine.append("t", 1)
    engine.append("t", 2)
    engine.abandon()
    files.fail(kind, nth=nth, code=errno.EIO)
    try:
        open_sim(files).close()
    except StorageError as error:
        assert error.errno == errno.EIO
    except Exception as error:
        assert type(error).__module__ == "durasess.errors", repr(error)
    files.faults.clear()
    assert files.descriptors == {}
    with open_sim(files) as again:
        assert again.state == [1, 2]


def test_leftover_of_a_killed_creation_is_not_a_session(tmp_path):
    (tmp_path / ".s1.1-2.new").mkdir()
    with open_inline(tmp_path / "s1") as engine:
        assert engine.recovery.created


def test_path_is_kept_as_it_is_on_a_disk_of_the_caller():
    files = sim_disk()
    with open_sim(files) as engine:
        assert engine.path == SIM_PATH


class StruckBehind(Opened):
    """Ctrl-C strikes when everything is made and kept, before the opening returns."""

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if name == "writer" and value is not None:
            raise KeyboardInterrupt


def test_interruption_behind_the_last_step_gives_each_descriptor_back_once(monkeypatch):
    """The writer has them by then: its end is theirs."""
    disk = sim_disk()
    open_sim(disk).close()
    closed = []
    honest = disk.close

    def close(fd):
        closed.append(fd)
        honest(fd)

    monkeypatch.setattr(disk, "close", close)
    with monkeypatch.context() as patch:
        patch.setattr(handle, "Opened", StruckBehind)
        with pytest.raises(KeyboardInterrupt):
            open_sim(disk)
    assert disk.descriptors == {}
    assert len(closed) == len(set(closed))
    with open_sim(disk) as engine:
        assert engine.append("t", 1).seq == 1


# open_for_sharing


def join(path, **options):
    return open_inline(path, mode="shared", **options)


def join_sim(files, **options):
    return open_sim(files, mode="shared", **options)


def anchor_of(files):
    return lock.read_anchor(files, SIM_PATH, "s1")


def test_first_of_those_who_share_makes_the_session_and_the_next_joins(tmp_path):
    with join(tmp_path / "s1") as one, join(tmp_path / "s1") as other:
        assert (one.recovery.created, other.recovery.created) == (True, False)
        one.append("t", 1)
        assert other.refresh() == 1


def test_missing_session_is_not_joined_when_that_is_not_wanted(tmp_path):
    with pytest.raises(SessionNotFoundError):
        join(tmp_path / "s1", create=False)
    assert tree_of(tmp_path) == {}


def test_initial_state_that_raises_makes_no_shared_session(tmp_path):
    def initial():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        join(tmp_path / "s1", initial=initial)
    assert tree_of(tmp_path) == {}


def test_who_finds_nobody_settles_an_unclean_end(tmp_path):
    path = make_unclean(tmp_path / "s1")
    write_next(segment_path(path), unacknowledged(path, 4)[:30])
    with join(path) as engine:
        assert engine.recovery.torn.size == 30
        assert len(engine.recovery.quarantined) == 1
        assert engine.append("counted", 4).seq == 4
    assert state_of(path) == [1, 2, 3, 4]


def test_who_finds_others_between_two_turns_settles_nothing_and_goes_on_behind_them(tmp_path):
    one = join(tmp_path / "s1")
    one.append("counted", 1)
    inode = segment_path(one.path).stat().st_ino
    with join(tmp_path / "s1") as other:
        assert (other.state, other.recovery.quarantined) == ([1], [])
        assert other.append("counted", 2).seq == 2
        assert segment_path(one.path).stat().st_ino == inode
    assert one.append("counted", 3).seq == 3
    one.close()


@pytest.mark.parametrize("phase", [lock.COMMIT, lock.FAILED, None])
def test_who_finds_a_turn_that_did_not_end_settles_it_beside_the_others(phase):
    files = sim_disk()
    one = join_sim(files)
    one.append("counted", 1)
    fd = files.open(f"{SIM_PATH}/lock", write=True)
    if phase is None:
        files.truncate(fd, 0)
    else:
        lock.write_anchor(files, fd, msgspec.structs.replace(anchor_of(files), phase=phase))
    files.close(fd)
    inode = files.stat(SIM_SEGMENT).inode
    other = join_sim(files)
    assert files.stat(SIM_SEGMENT).inode != inode
    assert anchor_of(files).phase == lock.IDLE
    assert one.append("counted", 2).seq == 2
    assert other.append("counted", 3).seq == 3
    assert one.refresh() == 3
    one.close()
    other.close()


def test_who_joins_keeps_no_bytes_that_nothing_will_be_compared_with():
    """The handle keeps what opening found for as long as it lives."""
    files = sim_disk()
    one = join_sim(files)
    one.append("counted", 1)
    other = join_sim(files)
    unsealed = other._found.unsealed
    assert unsealed is not None and unsealed.remembered.take(unsealed.end) is None
    one.close()
    other.close()


def test_tail_that_no_turn_left_is_settled_even_when_somebody_asks_whether_a_writer_is_there(
    tmp_path,
):
    """Who asks holds the lock for a moment, so the one who opens seems not to be alone."""
    path = make_unclean(tmp_path / "s1", 1)
    write_next(segment_path(path), unacknowledged(path, "x" * 3000)[:2000])
    asking = os.open(f"{path}/owner", os.O_RDWR)
    assert RealFiles().lock(asking, shared=True)
    with join(path) as engine:
        os.close(asking)
        assert len(engine.recovery.quarantined) == 1
        assert engine.append("counted", 2).seq == 2
    assert open_session(path, mode="read").damage == ()


@pytest.mark.parametrize("exclusive", [False, True])
def test_who_asks_whether_a_writer_is_there_keeps_nobody_from_joining(exclusive, monkeypatch):
    files = sim_disk()
    join_sim(files).close()
    asking = files.open(f"{SIM_PATH}/owner")
    assert files.lock(asking, shared=not exclusive)
    monkeypatch.setattr(lock.time, "sleep", lambda _seconds: files.unlock(asking))
    join_sim(files).close()


def test_own_and_shared_exclude_each_other_and_leave_nothing_behind(tmp_path):
    with open_inline(tmp_path / "s1"), pytest.raises(SessionLockedError) as caught:
        join(tmp_path / "s1")
    assert caught.value.holder.pid == os.getpid()
    with join(tmp_path / "s1") as one:
        with pytest.raises(SessionLockedError) as caught:
            open_inline(tmp_path / "s1")
        assert caught.value.holder.pid == os.getpid()
        assert one.append("t", 1).seq == 1
    assert list((tmp_path / "s1" / "workers").iterdir()) == []
    assert open_descriptors(tmp_path) == []


def test_turn_that_lasts_too_long_refuses_the_joiner_and_changes_nothing(tmp_path):
    path = make_session(tmp_path / "s1")
    held = lock.acquire_turn(RealFiles(), path, wait_s=1)
    with unchanged(path), pytest.raises(SessionLockedError, match=r"held lock for 0\.02 s"):
        join(path, lock_timeout=0.02)
    RealFiles().close(held)
    assert open_descriptors(tmp_path) == []
    join(path).close()


def test_lock_files_that_were_removed_are_made_again_by_a_joiner(tmp_path):
    path = make_session(tmp_path / "s1")
    for name in ("owner", "lock"):
        (tmp_path / "s1" / name).unlink()
        with join(path) as engine:
            assert engine.state == [1, 2, 3]


def test_lock_files_are_not_made_by_a_joiner_in_a_session_that_is_refused(tmp_path):
    damaged(tmp_path / "s1")
    (tmp_path / "s1" / "lock").unlink()
    with unchanged(tmp_path), pytest.raises(CorruptionError):
        join(tmp_path / "s1")


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (damaged, CorruptionError),
        (newer, FormatVersionError),
        (foreign, SessionNotFoundError),
    ],
)
def test_refused_join_changes_nothing_and_keeps_nothing_open(tmp_path, make, error):
    make(tmp_path / "s1")
    with unchanged(tmp_path), pytest.raises(error):
        join(tmp_path / "s1")
    assert open_descriptors(tmp_path) == []


def test_unreached_receipt_refuses_the_joiner_and_changes_nothing(tmp_path):
    path = make_unclean(tmp_path / "s1")
    with unchanged(path), pytest.raises(CorruptionError):
        join(path, at_least=Receipt("s1", 9, "00000000"))


def test_joiner_says_who_it_is_and_sweeps_the_dead(tmp_path):
    killed = join(tmp_path / "s1")
    killed.forget()
    with join(tmp_path / "s1"):
        (worker,) = workers.look(RealFiles(), str(tmp_path / "s1"))
        assert (worker.alive, worker.holder.pid) == (True, os.getpid())


def worker_files(files):
    return {path for path in files.tree() if "/workers/" in path}


@pytest.mark.parametrize(
    "kind",
    [
        *("stat", "open", "create", "read_at", "write_at", "sync", "replace", "sync_dir"),
        *("lock", "unlock", "leads_to", "size", "mkdir", "listdir"),
    ],
)
@pytest.mark.parametrize("nth", range(1, 13))
@pytest.mark.parametrize("beside", [False, True])
def test_failed_call_while_joining_costs_nothing_and_the_next_join_works(kind, nth, beside):
    files = sim_disk()
    engine = join_sim(files)
    engine.append("t", 1)
    engine.append("t", 2)
    if not beside:
        engine.abandon()
    before = set(files.descriptors)
    registered = worker_files(files)
    fault = files.fail(kind, nth=nth, code=errno.EIO)
    try:
        joined = join_sim(files)
        fault.kind = "nothing more"
        joined.abandon()
    except StorageError as error:
        assert error.errno == errno.EIO
    except Exception as error:
        assert type(error).__module__ == "durasess.errors", repr(error)
    files.faults.clear()
    assert set(files.descriptors) == before
    assert worker_files(files) <= registered
    with join_sim(files) as again:
        assert again.state == [1, 2]
        assert again.append("t", 3).seq == 3
    if beside:
        assert engine.append("t", 4).seq == 4
        engine.close()
    assert files.descriptors == {}


# What comes between a look and a step


def test_session_that_another_process_makes_in_this_moment_is_opened():
    files = sim_disk()

    def make():
        with open_sim(files) as other:
            other.append("t", 1)

    files.meanwhile("mkdir", make)
    with open_sim(files) as engine:
        assert (engine.state, engine.recovery.created) == ([1], False)


def test_lock_file_that_is_gone_and_cannot_be_made_is_an_error_of_the_system():
    files = sim_disk()
    with open_sim(files) as engine:
        engine.append("t", 1)
    files.unlink(f"{SIM_PATH}/owner")
    files.fail("create", code=errno.EROFS, where="owner")
    with pytest.raises(StorageError, match="cannot be read") as raised:
        open_sim(files)
    assert raised.value.errno == errno.EROFS
    assert not files.descriptors
    with open_sim(files) as engine:
        assert engine.state == [1]
