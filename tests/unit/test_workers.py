"""Files of live writers: the kernel's lock says who is alive, what is written there only who."""

import errno

import msgspec
import pytest

from durasess.engine import codec, lock, paths, workers
from durasess.engine.types import Holder
from durasess.engine.workers import Seen
from tests.support.lines import DIRECTORY
from tests.support.sim_files import SimFiles

FOLDER = f"{DIRECTORY}/workers"
HOLDER = Holder(4121, "build-7", "boot", "2026-01-01T10:11:12.000000Z", "python harness.py")


@pytest.fixture
def disk():
    return SimFiles.from_tree({DIRECTORY: None})


def register(disk, worker_id="w1"):
    return workers.register(disk, DIRECTORY, worker_id, HOLDER)


def dead(disk, worker_id):
    """A worker whose process was killed."""
    disk.close(register(disk, worker_id).fd)


# register, discard


def test_worker_has_a_locked_file_that_says_who_it_is(disk):
    worker = register(disk)
    assert worker.worker_id == "w1"
    assert disk.tree()[f"{FOLDER}/w1"] == codec.control_line(msgspec.to_builtins(HOLDER))
    other = disk.open(f"{FOLDER}/w1")
    assert not disk.lock(other, shared=True)


def test_second_worker_finds_the_folder_made(disk):
    register(disk, "w1")
    register(disk, "w2")
    assert sorted(disk.listdir(FOLDER)) == ["w1", "w2"]


def test_worker_file_needs_no_sync(disk):
    register(disk)
    assert "sync" not in {op.kind for op in disk.log}


def test_id_that_is_taken_is_an_error_and_the_file_stays_its_owners(disk):
    first = register(disk)
    with pytest.raises(FileExistsError):
        register(disk)
    assert list(disk.descriptors) == [first.fd]
    assert workers.look(disk, DIRECTORY) == [Seen("w1", HOLDER, True)]


@pytest.mark.parametrize("kind", ["lock", "write_at"])
def test_worker_that_cannot_be_registered_leaves_no_file_and_no_descriptor(disk, kind):
    disk.fail(kind, code=errno.ENOSPC)
    with pytest.raises(Exception, match="No space left"):
        register(disk)
    assert disk.listdir(FOLDER) == []
    assert disk.descriptors == {}


def test_folder_that_cannot_be_made_is_an_error(disk):
    disk.fail("mkdir", code=errno.EROFS)
    with pytest.raises(OSError) as caught:
        register(disk)
    assert caught.value.errno == errno.EROFS


def test_registering_waits_for_somebody_who_looks_at_the_new_file(disk):
    """A look takes the lock for a moment, also in the moment between the making and the locking."""
    looking = []

    def look():
        fd = disk.open(f"{FOLDER}/w1")
        assert disk.lock(fd, shared=True)
        looking.append(fd)

    disk.meanwhile("lock", look, where="w1")
    disk.waiting = lambda *_asked: disk.close(looking.pop())
    register(disk)
    assert looking == []
    assert workers.look(disk, DIRECTORY) == [Seen("w1", HOLDER, True)]


def test_discarded_worker_has_no_file(disk):
    worker = register(disk)
    workers.discard(disk, DIRECTORY, worker)
    workers.discard(disk, DIRECTORY, worker)
    assert disk.listdir(FOLDER) == []


# look


def test_session_that_was_never_shared_has_no_workers(disk):
    assert workers.look(disk, DIRECTORY) == []
    assert disk.log == []


def test_look_tells_the_living_from_the_dead_and_disturbs_neither(disk):
    alive = register(disk, "w2")
    dead(disk, "w1")
    for _ in range(2):
        assert workers.look(disk, DIRECTORY) == [
            Seen("w1", HOLDER, False),
            Seen("w2", HOLDER, True),
        ]
    assert list(disk.descriptors) == [alive.fd]


@pytest.mark.parametrize("text", [b"", b"garbage", b"\0" * 300])
def test_worker_whose_text_is_garbage_is_alive_all_the_same(disk, text):
    worker = register(disk)
    disk.truncate(worker.fd, 0)
    disk.write_at(worker.fd, text, 0)
    assert workers.look(disk, DIRECTORY) == [Seen("w1", None, True)]


@pytest.mark.parametrize("nth", [1, 2])
def test_worker_that_goes_while_it_is_looked_at_is_not_seen(disk, nth):
    worker = register(disk)
    fault = disk.meanwhile("open", lambda: workers.discard(disk, DIRECTORY, worker), where="w1")
    fault.nth = nth
    assert workers.look(disk, DIRECTORY) == []


def test_directory_among_the_workers_is_passed_over(disk):
    disk.mkdir(FOLDER)
    disk.mkdir(f"{FOLDER}/mine")
    assert workers.look(disk, DIRECTORY) == []
    assert workers.sweep(disk, DIRECTORY) == []
    assert disk.listdir(FOLDER) == ["mine"]


# sweep


def test_sweep_removes_the_files_of_the_dead_only(disk):
    register(disk, "w1")
    dead(disk, "w2")
    dead(disk, "w3")
    assert [one.worker_id for one in workers.sweep(disk, DIRECTORY)] == ["w2", "w3"]
    assert disk.listdir(FOLDER) == ["w1"]
    assert workers.sweep(disk, DIRECTORY) == []


def test_sweep_removes_the_snapshot_that_a_dead_worker_did_not_publish(disk):
    register(disk, "w1")
    dead(disk, "w2")
    unpublished = [paths.join(DIRECTORY, paths.snapshot_tmp(name)) for name in ("w1", "w2", None)]
    for path in unpublished:
        disk.close(disk.create(path))
    workers.sweep(disk, DIRECTORY)
    assert [path for path in unpublished if path in disk.tree()] == [unpublished[0], unpublished[2]]


def test_file_that_cannot_be_removed_is_tried_again_by_the_next(disk):
    dead(disk, "w1")
    disk.fail("unlink", where="w1", code=errno.EACCES)
    assert [one.worker_id for one in workers.sweep(disk, DIRECTORY)] == ["w1"]
    assert [one.worker_id for one in workers.sweep(disk, DIRECTORY)] == ["w1"]
    assert disk.listdir(FOLDER) == []


def test_file_system_that_cannot_lock_is_an_error_of_the_sweep(disk):
    dead(disk, "w1")
    disk.fail("lock", code=errno.ENOLCK)
    with pytest.raises(lock.StorageError, match="advisory locks"):
        workers.sweep(disk, DIRECTORY)
    assert disk.descriptors == {}


@pytest.mark.parametrize("code", [errno.EMFILE, errno.EIO, errno.EACCES])
def test_worker_that_cannot_be_looked_at_is_never_taken_for_nobody(disk, code):
    """A writer that believes itself alone would settle or seal the log of another."""
    worker = workers.register(disk, DIRECTORY, "w1", HOLDER)
    disk.fail("open", where="w1", code=code)
    with pytest.raises(OSError):
        workers.others(disk, DIRECTORY)
    assert [one.worker_id for one in workers.others(disk, DIRECTORY)] == ["w1"]
    disk.close(worker.fd)


# held_as


def test_held_as_tells_an_owner_from_those_who_share(disk):
    lock.create(disk, DIRECTORY)
    assert workers.held_as(disk, DIRECTORY) is None
    owner = lock.acquire_owner(disk, DIRECTORY)
    assert workers.held_as(disk, DIRECTORY) == "own"
    disk.close(owner)
    asking = lock.acquire_owner(disk, DIRECTORY, shared=True)
    assert workers.held_as(disk, DIRECTORY) is None, "one who looks is no writer"
    worker = workers.register(disk, DIRECTORY, "w1", HOLDER)
    assert workers.held_as(disk, DIRECTORY) == "shared"
    assert workers.others(disk, DIRECTORY, but="w1") == []
    disk.close(worker.fd)
    disk.close(asking)
