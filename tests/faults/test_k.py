"""FAULTS K: locks left behind, wrong lock logic."""

import errno
import os
import signal

import pytest

from durasess import SessionLockedError, StorageError
from durasess.engine import codec, lock
from durasess.engine.files import RealFiles
from tests.support.sessions import (
    append_all,
    make_session,
    open_inline,
    open_session,
    open_sim,
    sim_disk,
    state_of,
    tree_of,
)


class Child:
    """A process that has the session open until it is told to go."""

    def __init__(self, path):
        ready, self._ready = os.pipe()
        self._told, self.tell = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(self.tell)
                engine = open_session(path)
                engine.append("counted", "child")
                os.write(self._ready, b"x")
                os.read(self._told, 1)
                engine.close()
            finally:
                os._exit(0)
        os.read(ready, 1)
        for fd in (ready, self._ready, self._told):
            os.close(fd)

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        self.wait()

    def leave(self):
        os.write(self.tell, b"x")
        self.wait()

    def wait(self):
        os.waitpid(self.pid, 0)
        os.close(self.tell)


def test_k1_lock_of_a_killed_process_is_free(tmp_path):
    child = Child(tmp_path / "s1")
    with pytest.raises(SessionLockedError) as caught:
        open_session(tmp_path / "s1")
    assert caught.value.holder.pid == child.pid
    assert str(child.pid) in str(caught.value)
    child.kill()
    with open_session(tmp_path / "s1") as engine:
        assert engine.state == ["child"]


@pytest.mark.parametrize("pid", [1, 2**22 - 1])
def test_k2_text_of_a_lock_file_decides_nothing(tmp_path, pid):
    path = make_session(tmp_path / "s1")
    fields = {"pid": pid, "host": "h", "boot_id": "b", "since": "s", "command": "c"}
    (tmp_path / "s1" / "owner").write_bytes(codec.control_line(fields))
    with open_session(path) as engine:
        assert engine.append("counted", 4).seq == 4


@pytest.mark.parametrize("text", [b"", b"garbage", b"\0" * 100, b"12345\n"])
def test_k2_garbage_in_the_lock_files_is_harmless(tmp_path, text):
    path = make_session(tmp_path / "s1")
    for name in ("owner", "lock"):
        (tmp_path / "s1" / name).write_bytes(text)
    with open_session(path) as engine:
        assert engine.append("counted", 4).seq == 4


def test_k4_lock_files_are_never_unlinked_or_replaced(tmp_path):
    path = make_session(tmp_path / "s1")
    inodes = [(tmp_path / "s1" / name).stat().st_ino for name in ("owner", "lock")]
    for n in range(4):
        with open_session(path) as engine:
            engine.append("counted", n)
            engine.snapshot()
            engine.prune()
    assert [(tmp_path / "s1" / name).stat().st_ino for name in ("owner", "lock")] == inodes


def test_k4_lock_on_a_file_that_was_replaced_meanwhile_is_not_taken_for_the_lock():
    files = sim_disk()
    open_sim(files).close()
    taken = files.lock
    swapped = []

    def swap_first(fd, *, shared=False):
        if not swapped:
            swapped.append(fd)
            files.unlink("/store/s1/owner")
            files.close(files.create("/store/s1/owner"))
        return taken(fd, shared=shared)

    files.lock = swap_first
    fd = lock.acquire_owner(files, "/store/s1")
    assert files.fstat(fd).inode == files.stat("/store/s1/owner").inode


def test_k5_stopped_process_keeps_its_session(tmp_path):
    child = Child(tmp_path / "s1")
    os.kill(child.pid, signal.SIGSTOP)
    with pytest.raises(SessionLockedError):
        open_session(tmp_path / "s1")
    os.kill(child.pid, signal.SIGCONT)
    child.leave()
    with open_session(tmp_path / "s1") as engine:
        assert (engine.state, engine.recovery.clean) == (["child"], True)


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_k7_file_system_without_locks_is_a_clear_error(code):
    files = sim_disk()
    open_sim(files).close()
    files.fail("lock", code=code, sticky=True)
    with pytest.raises(StorageError, match="advisory locks") as caught:
        open_sim(files)
    assert caught.value.errno == code
    assert files.descriptors == {}


def test_k8_second_handle_in_one_process_is_refused_and_the_first_goes_on(tmp_path):
    with open_session(tmp_path / "s1") as engine:
        for _ in range(2):
            with pytest.raises(SessionLockedError) as caught:
                open_session(tmp_path / "s1")
            assert caught.value.holder.pid == os.getpid()
        append_all(engine, 3)
    assert state_of(tmp_path / "s1") == [1, 2, 3]


def test_k10_refused_open_leaves_no_lock_behind(tmp_path):
    first = open_session(tmp_path / "s1")
    with pytest.raises(SessionLockedError):
        open_session(tmp_path / "s1")
    first.close()
    open_session(tmp_path / "s1").close()


def test_k11_lock_file_that_is_there_means_nothing(tmp_path):
    path = make_session(tmp_path / "s1")
    assert {"owner", "lock"} <= set(tree_of(path))
    assert not lock.held(RealFiles(), path)
    with open_session(path):
        assert lock.held(RealFiles(), path)
    assert not lock.held(RealFiles(), path)


def test_reader_needs_no_lock_files(tmp_path):
    path = make_session(tmp_path / "s1")
    for name in ("owner", "lock"):
        (tmp_path / "s1" / name).unlink()
    assert state_of(path) == [1, 2, 3]
    assert not (tmp_path / "s1" / "owner").exists()


def test_directory_renamed_under_a_writer_fences_it(tmp_path):
    from durasess import FencedError

    engine = open_inline(tmp_path / "s1")
    engine.append("counted", 1)
    (tmp_path / "s1").rename(tmp_path / "s2")
    with pytest.raises(FencedError):
        engine.append("counted", 2)
    engine.forget()
    (tmp_path / "s2").rename(tmp_path / "s1")
    with open_inline(tmp_path / "s1") as engine:
        assert engine.state[0] == 1
