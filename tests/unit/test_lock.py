"""`owner` keeps other writers out and names the holder; `lock` holds the anchor."""

import errno
import os
import sys
from typing import Any

import msgspec
import pytest

from durasess.engine import codec, lock
from durasess.engine.lock import Anchor
from durasess.engine.types import Holder
from durasess.errors import SessionLockedError, StorageError
from tests.support.lines import DIRECTORY, SESSION, flips
from tests.support.sim_files import SimFiles

OWNER = "/s1/owner"
LOCK = "/s1/lock"
HOLDER = Holder(4121, "build-7", "boot", "2026-01-01T10:11:12.000000Z", "python harness.py")
ANCHOR = Anchor(SESSION, 3, 42, "0a1b2c3d")


def session(**files: bytes) -> SimFiles:
    tree = {"owner": b"", "lock": b"", **files}
    return SimFiles.from_tree({f"/s1/{name}": data for name, data in tree.items()})


def no_pause(seconds: float) -> None:
    raise AssertionError("nothing to wait for")


class Pauses(list[float]):
    """A `pause` that remembers, and does something meanwhile."""

    def __init__(self, meanwhile: Any = lambda: None) -> None:
        super().__init__()
        self.meanwhile = meanwhile

    def __call__(self, seconds: float) -> None:
        self.append(seconds)
        self.meanwhile()


def anchor_line(**changes: Any) -> bytes:
    fields = {**msgspec.to_builtins(ANCHOR), **changes}
    order = ("session_id", "segment", "offset", "size", "seq", "chain", "phase")
    return codec.control_line({name: fields[name] for name in order})


# create


def test_both_lock_files_are_made_where_they_are_missing() -> None:
    disk = SimFiles.from_tree({DIRECTORY: None, LOCK: b"kept"})
    lock.create(disk, DIRECTORY)
    lock.create(disk, DIRECTORY)
    assert disk.tree() == {DIRECTORY: None, OWNER: b"", LOCK: b"kept"}
    assert disk.descriptors == {}


def test_lock_file_that_cannot_be_made_is_an_error() -> None:
    disk = SimFiles.from_tree({DIRECTORY: None})
    disk.fail("create", code=errno.EROFS)
    with pytest.raises(OSError) as caught:
        lock.create(disk, DIRECTORY)
    assert caught.value.errno == errno.EROFS


# acquire_owner


def test_owner_is_locked_until_its_descriptor_is_closed() -> None:
    disk = session()
    fd = lock.acquire_owner(disk, DIRECTORY, pause=no_pause)
    with pytest.raises(SessionLockedError):
        lock.acquire_owner(disk, DIRECTORY, pause=Pauses())
    disk.close(fd)
    assert lock.acquire_owner(disk, DIRECTORY, pause=no_pause) > 0


def test_second_owner_is_refused_after_one_short_pause_with_the_holder() -> None:
    disk = session()
    fd = lock.acquire_owner(disk, DIRECTORY)
    lock.write_holder(disk, fd, HOLDER)
    pauses = Pauses()
    with pytest.raises(SessionLockedError) as caught:
        lock.acquire_owner(disk, DIRECTORY, pause=pauses)
    assert (caught.value.path, caught.value.holder) == (DIRECTORY, HOLDER)
    assert f"{DIRECTORY} is open for writing in {HOLDER}." in str(caught.value)
    assert 'mode="read"' in str(caught.value)
    assert pauses == [0.05] and list(disk.descriptors) == [fd]


def test_second_owner_tries_twice_and_not_more() -> None:
    disk = session()
    lock.acquire_owner(disk, DIRECTORY)
    tries = disk.fail("lock", nth=99)
    with pytest.raises(SessionLockedError):
        lock.acquire_owner(disk, DIRECTORY, pause=Pauses())
    assert tries.seen == 2


def test_second_owner_is_refused_without_a_name_when_there_is_none() -> None:
    disk = session()
    lock.acquire_owner(disk, DIRECTORY)
    with pytest.raises(SessionLockedError, match="open for writing in another handle") as caught:
        lock.acquire_owner(disk, DIRECTORY, pause=Pauses())
    assert caught.value.holder is None


def test_owner_that_lets_go_during_the_pause_gives_way() -> None:
    disk = session()
    held = lock.acquire_owner(disk, DIRECTORY)
    fd = lock.acquire_owner(disk, DIRECTORY, pause=Pauses(lambda: disk.close(held)))
    assert list(disk.descriptors) == [fd]


def test_reader_that_asks_whether_a_writer_is_there_costs_the_writer_one_pause() -> None:
    disk = session()
    asking = disk.open(OWNER)
    assert disk.lock(asking, shared=True)
    assert lock.acquire_owner(disk, DIRECTORY, pause=Pauses(lambda: disk.close(asking))) > 0


def test_missing_owner_file_raises() -> None:
    with pytest.raises(FileNotFoundError):
        lock.acquire_owner(SimFiles.from_tree({DIRECTORY: None}), DIRECTORY)


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOSYS, errno.EIO])
def test_file_system_that_cannot_lock_is_a_storage_error(code: int) -> None:
    disk = session()
    disk.fail("lock", code=code)
    with pytest.raises(StorageError, match="/s1/owner cannot be locked: ") as caught:
        lock.acquire_owner(disk, DIRECTORY)
    assert (caught.value.path, caught.value.errno) == (OWNER, code)
    assert isinstance(caught.value.__cause__, OSError)
    assert "advisory locks" in str(caught.value) and "nothing was changed" in str(caught.value)
    assert disk.descriptors == {}


class Replacing(SimFiles):
    """Somebody puts another file (None: nothing) at the name right after it was locked."""

    with_files: list[bytes | None]

    def lock(self, fd: int, *, shared: bool = False, wait: bool = False) -> bool:
        locked = super().lock(fd, shared=shared, wait=wait)
        if self.with_files:
            self.unlink(OWNER)
            data = self.with_files.pop(0)
            if data is not None:
                self.close(self.create(OWNER))
        return locked


def replacing(*files: bytes | None) -> Replacing:
    disk = Replacing.from_tree({OWNER: b"", LOCK: b""})
    disk.with_files = list(files)
    return disk


def test_owner_file_that_was_replaced_meanwhile_is_locked_anew() -> None:
    disk = replacing(b"", b"", b"")
    fd = lock.acquire_owner(disk, DIRECTORY, pause=no_pause)
    assert disk.fstat(fd).inode == disk.stat(OWNER).inode
    assert list(disk.descriptors) == [fd]


def test_owner_file_that_was_removed_meanwhile_is_not_taken_for_locked() -> None:
    disk = replacing(None)
    with pytest.raises(FileNotFoundError):
        lock.acquire_owner(disk, DIRECTORY, pause=no_pause)
    assert disk.descriptors == {}


def test_owner_file_that_is_replaced_again_and_again_is_given_up() -> None:
    disk = replacing(*[b""] * 99)
    with pytest.raises(SessionLockedError):
        lock.acquire_owner(disk, DIRECTORY, pause=no_pause)
    assert disk.descriptors == {} and len(disk.with_files) == 91


def test_owner_file_that_cannot_be_looked_at_is_let_go() -> None:
    disk = session()
    disk.fail("leads_to", code=errno.EIO)
    with pytest.raises(OSError):
        lock.acquire_owner(disk, DIRECTORY)
    assert disk.descriptors == {}


@pytest.mark.parametrize("shared", [True, False])
def test_owner_is_shared_with_those_who_share_it_only(shared: bool) -> None:
    disk = session()
    fd = lock.acquire_owner(disk, DIRECTORY, shared=True, pause=no_pause)
    assert lock.acquire_owner(disk, DIRECTORY, shared=True, pause=no_pause) != fd
    with pytest.raises(SessionLockedError):
        lock.acquire_owner(disk, DIRECTORY, pause=Pauses())
    for held in list(disk.descriptors):
        disk.close(held)
    lock.acquire_owner(disk, DIRECTORY, pause=no_pause)
    with pytest.raises(SessionLockedError):
        lock.acquire_owner(disk, DIRECTORY, shared=shared, pause=Pauses())


# acquire_turn


def test_turn_is_held_until_it_is_unlocked_or_its_descriptor_closed() -> None:
    disk = session()
    fd = lock.acquire_turn(disk, DIRECTORY, wait_s=1, pause=no_pause)
    for give_back in (disk.unlock, disk.close):
        with pytest.raises(SessionLockedError):
            lock.acquire_turn(disk, DIRECTORY, wait_s=0.01, pause=Pauses())
        give_back(fd)
        fd = lock.acquire_turn(disk, DIRECTORY, wait_s=1, pause=no_pause)
    assert disk.descriptors[fd].path == LOCK


def test_turn_of_another_is_waited_for_in_short_pauses_up_to_the_time_given() -> None:
    disk = session()
    held = lock.acquire_turn(disk, DIRECTORY, wait_s=1)
    pauses = Pauses()
    with pytest.raises(SessionLockedError) as caught:
        lock.acquire_turn(disk, DIRECTORY, wait_s=2, pause=pauses)
    assert (len(pauses), sum(pauses)) == (200, pytest.approx(2))
    assert "another writer has held lock for 2 s" in str(caught.value)
    assert "Nothing was written" in str(caught.value)
    assert (caught.value.path, caught.value.holder) == (LOCK, None)
    assert list(disk.descriptors) == [held]


@pytest.mark.parametrize("wait_s", [0, 0.001])
def test_turn_is_tried_for_at_least_twice(wait_s: float) -> None:
    disk = session()
    held = lock.acquire_turn(disk, DIRECTORY, wait_s=1)
    fd = lock.acquire_turn(disk, DIRECTORY, wait_s=wait_s, pause=Pauses(lambda: disk.close(held)))
    assert list(disk.descriptors) == [fd]


@pytest.mark.parametrize("wait_s", [1e12, float("inf")])
def test_turn_may_be_waited_for_without_end(wait_s: float) -> None:
    disk = session()
    held = lock.acquire_turn(disk, DIRECTORY, wait_s=1)
    fd = lock.acquire_turn(disk, DIRECTORY, wait_s=wait_s, pause=Pauses(lambda: disk.close(held)))
    assert list(disk.descriptors) == [fd]


def test_turn_without_a_lock_file_raises() -> None:
    with pytest.raises(FileNotFoundError):
        lock.acquire_turn(SimFiles.from_tree({DIRECTORY: None}), DIRECTORY, wait_s=1)


def test_turn_on_a_file_system_that_cannot_lock_is_a_storage_error() -> None:
    disk = session()
    disk.fail("lock", code=errno.ENOLCK)
    with pytest.raises(StorageError, match="/s1/lock cannot be locked: "):
        lock.acquire_turn(disk, DIRECTORY, wait_s=1)
    assert disk.descriptors == {}


def test_lock_file_that_was_replaced_while_it_was_waited_for_is_locked_anew() -> None:
    disk = session()
    held = lock.acquire_turn(disk, DIRECTORY, wait_s=1)

    def swap() -> None:
        disk.unlink(LOCK)
        disk.close(disk.create(LOCK))
        disk.close(held)

    fd = lock.acquire_turn(disk, DIRECTORY, wait_s=1, pause=Pauses(swap))
    assert disk.fstat(fd).inode == disk.stat(LOCK).inode


def test_lock_that_is_waited_for_in_the_kernel_is_taken_when_it_is_free() -> None:
    disk = session()
    held = lock.acquire_turn(disk, DIRECTORY, wait_s=1)
    disk.waiting = lambda *_asked: disk.close(held)  # type: ignore[method-assign]
    fd = disk.open(LOCK, write=True)
    assert lock.locked(disk, fd, LOCK, wait=True)


# held


def test_held_tells_whether_a_writer_is_there_and_takes_nothing() -> None:
    disk = session()
    assert lock.held(disk, DIRECTORY) is False
    fd = lock.acquire_owner(disk, DIRECTORY, pause=no_pause)
    assert lock.held(disk, DIRECTORY) is True
    assert list(disk.descriptors) == [fd]


def test_two_readers_may_ask_at_once() -> None:
    disk = session()
    assert disk.lock(disk.open(OWNER), shared=True)
    assert lock.held(disk, DIRECTORY) is False


def test_session_without_an_owner_file_is_not_held() -> None:
    assert lock.held(SimFiles.from_tree({DIRECTORY: None}), DIRECTORY) is False


# whoami


def test_whoami_is_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/opt/py/bin/python9")
    monkeypatch.setattr(sys, "argv", ["harness.py", "--resume"])
    holder = lock.whoami("now")
    assert (holder.pid, holder.since) == (os.getpid(), "now")
    assert holder.command == "python9 harness.py --resume"


def test_whoami_is_short_and_storable_whatever_the_arguments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", None)
    monkeypatch.setattr(sys, "argv", ["\udcff" + "\U0001f600" * 999])
    holder = lock.whoami("now")
    assert len(holder.command) == 200 and holder.command.startswith("python \udcff")
    disk = session()
    lock.write_holder(disk, disk.open(OWNER, write=True), holder)
    assert lock.read_holder(disk, DIRECTORY) == holder


# write_holder and read_holder


def test_holder_comes_back() -> None:
    disk = session()
    lock.write_holder(disk, disk.open(OWNER, write=True), HOLDER)
    assert lock.read_holder(disk, DIRECTORY) == HOLDER


def test_shorter_holder_leaves_nothing_of_a_longer_one() -> None:
    disk = session(owner=b"x" * 4096)
    lock.write_holder(disk, disk.open(OWNER, write=True), HOLDER)
    assert disk.tree()[OWNER] == codec.control_line(msgspec.to_builtins(HOLDER))


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\n",
        b"\0" * 384,
        b"4121\n",
        b"\xff\xfe",
        codec.control_line({"pid": 4121}),
        codec.control_line({**msgspec.to_builtins(HOLDER), "pid": "4121"}),
        codec.control_line(msgspec.to_builtins(HOLDER))[:-9],
        codec.control_line(msgspec.to_builtins(HOLDER), 1),
        codec.control_line({**msgspec.to_builtins(HOLDER), "command": "x" * 4096}),
    ],
)
def test_holder_text_that_is_garbage_names_nobody(text: bytes) -> None:
    assert lock.read_holder(session(owner=text), DIRECTORY) is None


@pytest.mark.parametrize("kind", ["open", "read_at"])
def test_holder_that_cannot_be_read_names_nobody(kind: str) -> None:
    disk = session()
    disk.fail(kind, code=errno.EIO)
    assert lock.read_holder(disk, DIRECTORY) is None
    assert disk.descriptors == {}


# holder_at


def test_holder_of_any_lock_file_is_read() -> None:
    disk = session(worker=codec.control_line(msgspec.to_builtins(HOLDER)), empty=b"")
    assert lock.holder_at(disk, "/s1/worker") == HOLDER
    assert lock.holder_at(disk, "/s1/empty") is None
    assert disk.descriptors == {}


@pytest.mark.parametrize("kind", ["open", "read_at"])
def test_lock_file_that_the_system_cannot_read_is_an_error_of_holder_at(kind: str) -> None:
    disk = session()
    disk.fail(kind, code=errno.EIO)
    with pytest.raises(OSError) as caught:
        lock.holder_at(disk, OWNER)
    assert caught.value.errno == errno.EIO
    assert disk.descriptors == {}
    with pytest.raises(FileNotFoundError):
        lock.holder_at(disk, "/s1/nobody")


# write_anchor and read_anchor


def test_anchor_is_one_line_with_spaces_up_to_384_bytes_written_at_once() -> None:
    disk = session()
    lock.write_anchor(disk, disk.open(LOCK, write=True), ANCHOR)
    data = disk.tree()[LOCK]
    assert data == anchor_line() + b" " * (384 - len(anchor_line()))
    assert data.startswith(b'{"session_id":"s1","segment":3,"offset":0,"size":0,"seq":42,')
    assert b',"phase":"idle","crc":"' in data
    assert [op.kind for op in disk.log] == ["write"]


def test_anchor_is_overwritten_in_place_and_read_back() -> None:
    disk = session()
    fd = disk.open(LOCK, write=True)
    for seq in (10**17, 7):
        anchor = msgspec.structs.replace(ANCHOR, seq=seq)
        lock.write_anchor(disk, fd, anchor)
        assert lock.read_anchor(disk, DIRECTORY, SESSION) == anchor
    assert disk.fstat(fd).size == lock.ANCHOR_BYTES


def test_anchor_covers_the_one_before_and_leaves_the_spaces_behind_it() -> None:
    disk = session()
    fd = disk.open(LOCK, write=True)
    width = lock.ANCHOR_BYTES
    for seq in (7, 10**17, 99, 10**9):
        line = anchor_line(seq=seq)
        anchor = msgspec.structs.replace(ANCHOR, seq=seq)
        taken = max(width, len(line))
        width = lock.write_anchor(disk, fd, anchor, width=width)
        assert (width, len(disk.log[-1].data)) == (len(line), taken)
        assert disk.tree()[LOCK] == line.ljust(384)


def test_longest_anchor_fits() -> None:
    anchor = Anchor("x" * 128, 10**15 - 1, 10**18 - 1, "ffffffff", lock.COMMIT)
    disk = SimFiles.from_tree({LOCK: b""})
    lock.write_anchor(disk, disk.open(LOCK, write=True), anchor)
    assert len(disk.tree()[LOCK]) == 384
    assert lock.read_anchor(disk, DIRECTORY, "x" * 128) == anchor


@pytest.mark.parametrize("phase", [lock.IDLE, lock.COMMIT, lock.FAILED])
def test_phase_comes_back_whichever_stood_there_before(phase: str) -> None:
    disk = session()
    fd = disk.open(LOCK, write=True)
    for before in (lock.IDLE, lock.COMMIT, lock.FAILED):
        for one in (before, phase):
            lock.write_anchor(disk, fd, msgspec.structs.replace(ANCHOR, phase=one))
        found = lock.anchor_in(disk, fd, SESSION)
        assert found is not None and found.phase == phase
        assert found == msgspec.structs.replace(ANCHOR, phase=phase)
        assert disk.fstat(fd).size == lock.ANCHOR_BYTES


def test_anchor_of_an_open_file_is_of_this_session_or_none() -> None:
    disk = session(lock=anchor_line())
    fd = disk.open(LOCK)
    assert lock.anchor_in(disk, fd, SESSION) == ANCHOR
    assert lock.anchor_in(disk, fd, "s2") is None


def test_anchor_without_a_phase_is_of_an_owner() -> None:
    line = codec.control_line(
        {name: value for name, value in msgspec.to_builtins(ANCHOR).items() if name != "phase"}
    )
    assert lock.read_anchor(session(lock=line), DIRECTORY, SESSION) == ANCHOR


def test_missing_empty_or_torn_anchor_says_nothing() -> None:
    assert lock.read_anchor(SimFiles.from_tree({DIRECTORY: None}), DIRECTORY, SESSION) is None
    data = anchor_line().ljust(384)
    line_size = len(anchor_line())
    for size in range(line_size - 1):
        for torn in (data[:size], data[:size] + bytes(384 - size)):
            assert lock.read_anchor(session(lock=torn), DIRECTORY, SESSION) is None


def test_anchor_torn_between_an_old_and_a_new_one_is_one_of_them_or_says_nothing() -> None:
    old, new = (anchor_line(seq=seq).ljust(384) for seq in (9, 100_000))
    for size in range(385):
        found = lock.read_anchor(session(lock=new[:size] + old[size:]), DIRECTORY, SESSION)
        assert found is None or found.seq in (9, 100_000)


def test_anchor_with_a_flipped_bit_says_nothing() -> None:
    line = anchor_line()
    for flipped in flips(line[:-1]):
        assert lock.read_anchor(session(lock=flipped + b"\n"), DIRECTORY, SESSION) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"session_id": "s2"},
        {"session_id": None},
        {"seq": "42"},
        {"chain": "0A1B2C3D"},
        {"chain": "0a1b2c3"},
        {"chain": 7},
    ],
)
def test_foreign_anchor_says_nothing(changes: dict[str, Any]) -> None:
    assert lock.read_anchor(session(lock=anchor_line(**changes)), DIRECTORY, SESSION) is None


def test_members_of_a_newer_writer_in_the_anchor_are_passed_over() -> None:
    found = lock.read_anchor(session(lock=anchor_line(host="build-7")), DIRECTORY, SESSION)
    assert found == ANCHOR


def test_anchor_that_the_system_cannot_read_is_an_error() -> None:
    disk = session(lock=anchor_line())
    disk.fail("read_at", code=errno.EIO)
    with pytest.raises(OSError) as caught:
        lock.read_anchor(disk, DIRECTORY, SESSION)
    assert caught.value.errno == errno.EIO
    assert disk.descriptors == {}


def test_session_that_several_share_is_refused_to_an_owner_with_their_number() -> None:
    disk = SimFiles.from_tree({DIRECTORY: None})
    here = lock.whoami("2026-11-29T10:00:00.000000Z")
    holders = [here, here, None]
    error = lock.owned_error(disk, DIRECTORY, holders)
    assert f"{here} and 2 more that share it" in str(error)
