"""FAULTS K: locks left behind, wrong lock logic; for one writer and for several."""

import errno
import os
import signal
import threading

import msgspec
import pytest

from durasess import FencedError, SessionClosedError, SessionLockedError, StorageError
from durasess.engine import codec, lock, workers
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
    """A process that has the session open until it is told to go, `in_turn` holding its turn."""

    def __init__(self, path, mode="own", *, in_turn=False):
        ready, self._ready = os.pipe()
        self._told, self.tell = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(self.tell)
                engine = open_inline(path, mode=mode)
                engine.append("counted", "child")
                if in_turn:
                    engine._writer._turns.begin()
                os.write(self._ready, b"x")
                os.read(self._told, 1)
                if in_turn:
                    engine._writer._turns.end(None)
                engine.close()
            finally:
                os._exit(0)
        os.read(ready, 1)
        for fd in (ready, self._ready, self._told):
            os.close(fd)

    def stop(self):
        """As a laptop that sleeps: nothing runs, nothing is given back."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitpid(self.pid, os.WUNTRACED)

    def go_on(self):
        os.kill(self.pid, signal.SIGCONT)

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        self.wait()

    def leave(self):
        os.write(self.tell, b"x")
        self.wait()

    def wait(self):
        os.waitpid(self.pid, 0)
        os.close(self.tell)


def is_turn_held(path):
    fd = os.open(f"{path}/lock", os.O_RDWR)
    try:
        return not RealFiles().lock(fd, shared=True)
    finally:
        os.close(fd)


def test_k1_lock_of_a_killed_process_is_free(tmp_path):
    child = Child(tmp_path / "s1")
    with pytest.raises(SessionLockedError) as caught:
        open_session(tmp_path / "s1")
    assert caught.value.holder.pid == child.pid
    assert str(child.pid) in str(caught.value)
    child.kill()
    with open_session(tmp_path / "s1") as engine:
        assert engine.state == ["child"]


@pytest.mark.parametrize("in_turn", [False, True])
def test_k1_locks_of_a_killed_process_that_shared_the_session_are_free(tmp_path, in_turn):
    child = Child(tmp_path / "s1", "shared", in_turn=in_turn)
    with pytest.raises(SessionLockedError) as caught:
        open_session(tmp_path / "s1")
    assert caught.value.holder.pid == child.pid
    child.kill()
    (dead,) = workers.look(RealFiles(), str(tmp_path / "s1"))
    assert (dead.alive, dead.holder.pid) == (False, child.pid)
    for mode in ("shared", "own"):
        with open_session(tmp_path / "s1", mode=mode) as engine:
            assert engine.state == ["child"]
    assert list((tmp_path / "s1" / "workers").iterdir()) == []


@pytest.mark.parametrize("in_turn", [False, True])
def test_k1_process_that_was_killed_does_not_stop_those_who_share_with_it(tmp_path, in_turn):
    with open_session(tmp_path / "s1", mode="shared") as engine:
        engine.append("counted", 1)
        child = Child(tmp_path / "s1", "shared", in_turn=in_turn)
        child.kill()
        assert engine.append("counted", 2).seq == 3
        assert engine.state == [1, "child", 2]


@pytest.mark.parametrize("mode", ["own", "shared"])
@pytest.mark.parametrize("pid", [1, 2**22 - 1])
def test_k2_text_of_a_lock_file_decides_nothing(tmp_path, pid, mode):
    path = make_session(tmp_path / "s1")
    fields = {"pid": pid, "host": "h", "boot_id": "b", "since": "s", "command": "c"}
    (tmp_path / "s1" / "owner").write_bytes(codec.control_line(fields))
    (tmp_path / "s1" / "workers").mkdir()
    (tmp_path / "s1" / "workers" / f"{pid}-1-1").write_bytes(codec.control_line(fields))
    with open_session(path, mode=mode) as engine:
        assert engine.append("counted", 4).seq == 4


@pytest.mark.parametrize("mode", ["own", "shared"])
@pytest.mark.parametrize("text", [b"", b"garbage", b"\0" * 100, b"12345\n"])
def test_k2_garbage_in_the_lock_files_is_harmless(tmp_path, text, mode):
    path = make_session(tmp_path / "s1")
    for name in ("owner", "lock"):
        (tmp_path / "s1" / name).write_bytes(text)
    with open_session(path, mode=mode) as engine:
        assert engine.append("counted", 4).seq == 4
        for name in ("owner", "lock"):
            (tmp_path / "s1" / name).write_bytes(text)
        assert engine.append("counted", 5).seq == 5


@pytest.mark.parametrize("mode", ["own", "shared"])
def test_k4_lock_files_are_never_unlinked_or_replaced(tmp_path, mode):
    path = make_session(tmp_path / "s1")
    inodes = [(tmp_path / "s1" / name).stat().st_ino for name in ("owner", "lock")]
    for n in range(4):
        with open_session(path, mode=mode) as engine:
            engine.append("counted", n)
            engine.snapshot()
            engine.prune()
        if mode == "shared":
            killed = open_inline(path, mode=mode)
            killed._writer._turns.begin()
            killed.forget()
    assert [(tmp_path / "s1" / name).stat().st_ino for name in ("owner", "lock")] == inodes


def test_k4_lock_on_a_file_that_was_replaced_meanwhile_is_not_taken_for_the_lock():
    files = sim_disk()
    open_sim(files).close()
    taken = files.lock
    swapped = []

    def swap_first(fd, *, shared=False, wait=False):
        if not swapped:
            swapped.append(fd)
            files.unlink("/store/s1/owner")
            files.close(files.create("/store/s1/owner"))
        return taken(fd, shared=shared, wait=wait)

    files.lock = swap_first
    fd = lock.acquire_owner(files, "/store/s1")
    assert files.fstat(fd).inode == files.stat("/store/s1/owner").inode


@pytest.mark.parametrize("name", ["owner", "lock"])
def test_k4_two_writers_on_two_lock_files_never_both_write(tmp_path, name):
    """Somebody removed the file; the next to open makes it again and knows nothing of the first."""
    first = open_inline(tmp_path / "s1", mode="shared")
    first.append("counted", 1)
    (tmp_path / "s1" / name).unlink()
    second = open_inline(tmp_path / "s1", mode="shared")
    assert second.append("counted", 2).seq == 2
    for _ in range(2):
        with pytest.raises(FencedError, match=f"{name} was removed or replaced"):
            first.append("counted", 3)
    assert second.append("counted", 3).seq == 3
    first.close()
    assert second.append("counted", 4).seq == 4
    second.close()
    found = open_session(tmp_path / "s1", mode="read")
    assert (found.state, found.damage) == ([1, 2, 3, 4], ())


def test_k5_stopped_process_keeps_its_session(tmp_path):
    child = Child(tmp_path / "s1")
    os.kill(child.pid, signal.SIGSTOP)
    with pytest.raises(SessionLockedError):
        open_session(tmp_path / "s1")
    os.kill(child.pid, signal.SIGCONT)
    child.leave()
    with open_session(tmp_path / "s1") as engine:
        assert (engine.state, engine.recovery.clean) == (["child"], True)


def test_k5_process_that_was_stopped_between_two_turns_holds_nobody_up_and_goes_on(tmp_path):
    child = Child(tmp_path / "s1", "shared")
    child.stop()
    with open_session(tmp_path / "s1", mode="shared") as engine:
        assert engine.append("counted", 1).seq == 2
        child.go_on()
        child.leave()
        assert engine.append("counted", 2).seq == 3
    assert state_of(tmp_path / "s1") == ["child", 1, 2]


def test_k5_process_that_was_stopped_in_its_turn_keeps_it_and_the_others_are_told(tmp_path):
    """No clock decides who may write: the turn is not taken from it, and nothing is lost."""
    engine = open_session(tmp_path / "s1", mode="shared")
    child = Child(tmp_path / "s1", "shared", in_turn=True)
    child.stop()
    limited(engine, 0.05)
    with pytest.raises(SessionLockedError, match="another writer has held lock"):
        engine.append("counted", 1)
    with pytest.raises(SessionLockedError, match="another writer has held lock"):
        open_session(tmp_path / "s1", mode="shared", lock_timeout=0.05)
    child.go_on()
    child.leave()
    limited(engine, 300)
    assert engine.append("counted", 2).seq == 2
    assert engine.state == ["child", 2]
    engine.close()


def limited(engine, seconds):
    engine._options = msgspec.structs.replace(engine._options, lock_timeout=seconds)


@pytest.mark.parametrize("mode", ["own", "shared"])
@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_k7_file_system_without_locks_is_a_clear_error(code, mode):
    files = sim_disk()
    open_sim(files).close()
    files.fail("lock", code=code, sticky=True)
    with pytest.raises(StorageError, match="advisory locks") as caught:
        open_sim(files, mode=mode)
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


@pytest.mark.parametrize(("first", "second"), [("own", "shared"), ("shared", "own")])
def test_k8_own_and_shared_exclude_each_other_and_name_the_holder(tmp_path, first, second):
    with open_session(tmp_path / "s1", mode=first) as engine:
        for _ in range(2):
            with pytest.raises(SessionLockedError) as caught:
                open_session(tmp_path / "s1", mode=second)
            assert caught.value.holder.pid == os.getpid()
            assert caught.value.holder.host and caught.value.holder.since
        append_all(engine, 3)
    with open_session(tmp_path / "s1", mode=second) as engine:
        assert engine.state == [1, 2, 3]


def test_k8_holder_that_is_named_is_one_that_is_still_there(tmp_path):
    """The last to join is not the last to leave."""
    with open_session(tmp_path / "s1", mode="shared"):
        Child(tmp_path / "s1", "shared").leave()
        with pytest.raises(SessionLockedError) as caught:
            open_session(tmp_path / "s1")
        assert caught.value.holder.pid == os.getpid()


@pytest.mark.parametrize(
    ("first", "second"), [("own", "own"), ("own", "shared"), ("shared", "own")]
)
def test_k10_refused_open_leaves_no_lock_behind(tmp_path, first, second):
    holder = open_session(tmp_path / "s1", mode=first)
    with pytest.raises(SessionLockedError):
        open_session(tmp_path / "s1", mode=second)
    holder.close()
    assert workers.look(RealFiles(), str(tmp_path / "s1")) == []
    for mode in ("own", "shared", "own"):
        open_session(tmp_path / "s1", mode=mode).close()


def test_k10_join_that_waited_in_vain_for_a_turn_leaves_no_lock_behind(tmp_path):
    child = Child(tmp_path / "s1", "shared", in_turn=True)
    with pytest.raises(SessionLockedError):
        open_session(tmp_path / "s1", mode="shared", lock_timeout=0.05)
    assert len(workers.look(RealFiles(), str(tmp_path / "s1"))) == 1
    child.leave()
    open_session(tmp_path / "s1").close()


def test_k11_files_of_writers_that_shared_the_session_mean_nothing(tmp_path):
    path = make_session(tmp_path / "s1")
    with open_session(path, mode="shared"):
        assert workers.held_as(RealFiles(), path)
        left = tree_of(f"{path}/workers")
        assert len(left) == 1
    assert not workers.held_as(RealFiles(), path)
    for name, text in left.items():
        (tmp_path / "s1" / "workers" / name).write_bytes(text)
    assert not workers.held_as(RealFiles(), path)
    for mode in ("own", "shared"):
        with open_session(path, mode=mode) as engine:
            assert engine.state == [1, 2, 3]


def test_forked_child_of_a_process_that_shares_has_no_turn_and_takes_none_away(tmp_path):
    with open_inline(tmp_path / "s1", mode="shared") as engine:
        engine.append("counted", 1)
        writer = engine._writer
        writer._turns.begin()
        pid = os.fork()
        if pid == 0:
            try:
                engine.append("counted", "child")
            except SessionClosedError:
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert is_turn_held(engine.path), "the turn is the parent's all the while"
        writer._turns.end(None)
        assert engine.append("counted", 2).seq == 2
        with open_session(tmp_path / "s1", mode="shared") as other:
            assert other.append("counted", 3).seq == 3


def test_forked_child_may_join_by_a_handle_of_its_own(tmp_path):
    with open_session(tmp_path / "s1", mode="shared") as engine:
        engine.append("counted", 1)
        Child(tmp_path / "s1", "shared").leave()
        assert engine.append("counted", 2).seq == 3
        assert engine.state == [1, "child", 2]


def test_turn_that_is_waited_for_begins_when_the_other_ends_and_not_before(tmp_path):
    with open_session(tmp_path / "s1", mode="shared") as engine:
        child = Child(tmp_path / "s1", "shared", in_turn=True)
        receipts = []
        waiting = threading.Thread(target=lambda: receipts.append(engine.append("counted", 1)))
        waiting.start()
        reader = open_session(tmp_path / "s1", mode="read")
        assert (reader.state, receipts) == (["child"], [])
        child.leave()
        waiting.join()
        assert receipts[0].seq == 2


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


@pytest.mark.parametrize("mode", ["own", "shared"])
def test_directory_renamed_under_a_writer_fences_it(tmp_path, mode):
    engine = open_inline(tmp_path / "s1", mode=mode)
    engine.append("counted", 1)
    (tmp_path / "s1").rename(tmp_path / "s2")
    with pytest.raises(FencedError):
        engine.append("counted", 2)
    engine.forget()
    (tmp_path / "s2").rename(tmp_path / "s1")
    with open_inline(tmp_path / "s1") as engine:
        assert engine.state[0] == 1
