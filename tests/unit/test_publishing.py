"""Steps made of the file interface: whole writes, temporary files that leave nothing behind."""

import errno

import pytest

from durasess.engine import publishing
from tests.support.sim_files import SimFiles

PATH = "/d/meta.json.tmp"


def disk(**files: bytes) -> SimFiles:
    return SimFiles.from_tree({"/d": None, **{f"/d/{name}": data for name, data in files.items()}})


def operations(sim: SimFiles) -> list[str]:
    return [op.kind for op in sim.log]


class FewBytes(SimFiles):
    """Takes at most `most` bytes in one write."""

    most = 3

    def write_at(self, fd: int, data: bytes, offset: int) -> int:
        return super().write_at(fd, data[: self.most], offset)


# create_fresh


def test_fresh_file_is_empty_and_open() -> None:
    sim = disk()
    fd = publishing.create_fresh(sim, PATH)
    assert sim.fstat(fd).size == 0
    assert operations(sim) == ["link"]


def test_leftover_of_a_crash_gives_way_to_a_fresh_file() -> None:
    sim = disk(**{"meta.json.tmp": b"half of an old o"})
    fd = publishing.create_fresh(sim, PATH)
    assert sim.tree()[PATH] == b"" and sim.fstat(fd).size == 0
    assert operations(sim) == ["unlink", "link"]


def test_fresh_file_that_cannot_be_made_raises_what_the_system_said() -> None:
    sim = disk()
    sim.fail("create", code=errno.EMFILE)
    with pytest.raises(OSError) as caught:
        publishing.create_fresh(sim, PATH)
    assert caught.value.errno == errno.EMFILE


# write_all


def test_all_bytes_are_written_in_one_write_if_the_system_takes_them() -> None:
    sim = disk()
    fd = sim.create(PATH)
    publishing.write_all(sim, fd, b"abcdefgh", 2)
    assert sim.tree()[PATH] == b"\0\0abcdefgh"
    assert operations(sim) == ["link", "write"]


def test_short_write_is_gone_on_with_where_it_ended() -> None:
    sim = FewBytes.from_tree({"/d": None})
    fd = sim.create(PATH)
    publishing.write_all(sim, fd, b"abcdefgh", 2)
    assert sim.tree()[PATH] == b"\0\0abcdefgh"
    assert [(op.offset, op.data) for op in sim.log[1:]] == [(2, b"abc"), (5, b"def"), (8, b"gh")]


def test_nothing_to_write_is_no_write() -> None:
    sim = disk()
    publishing.write_all(sim, sim.create(PATH), b"")
    assert operations(sim) == ["link"]


@pytest.mark.parametrize("taken", [0, -1])
def test_write_that_takes_nothing_is_a_full_disk(
    taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sim = disk()
    monkeypatch.setattr(sim, "write_at", lambda fd, data, offset: taken)
    with pytest.raises(OSError) as caught:
        publishing.write_all(sim, sim.create(PATH), b"abc")
    assert caught.value.errno == errno.ENOSPC


# write_tmp


def test_temporary_file_is_written_synced_and_closed() -> None:
    sim = disk()
    publishing.write_tmp(sim, PATH, b"abc")
    assert sim.tree()[PATH] == b"abc"
    assert operations(sim) == ["link", "write", "sync"]
    assert sim.descriptors == {}


@pytest.mark.parametrize("kind", ["write_at", "sync"])
def test_temporary_file_that_cannot_be_made_durable_is_removed(kind: str) -> None:
    sim = disk()
    sim.fail(kind, code=errno.EIO)
    with pytest.raises(OSError) as caught:
        publishing.write_tmp(sim, PATH, b"abc")
    assert caught.value.errno == errno.EIO
    assert PATH not in sim.tree() and sim.descriptors == {}


def test_temporary_file_is_removed_when_ctrl_c_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(fd: int) -> None:
        raise KeyboardInterrupt

    sim = disk()
    monkeypatch.setattr(sim, "sync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        publishing.write_tmp(sim, PATH, b"abc")
    assert PATH not in sim.tree() and sim.descriptors == {}


def test_failed_sync_is_never_tried_again() -> None:
    sim = disk()
    fault = sim.fail_sync()
    with pytest.raises(OSError):
        publishing.write_tmp(sim, PATH, b"abc")
    assert fault.seen == 1 and operations(sim).count("sync") == 0


# discard


def test_discard_removes_a_file_and_does_not_mind_its_absence() -> None:
    sim = disk(**{"meta.json.tmp": b"abc"})
    publishing.discard(sim, PATH)
    publishing.discard(sim, PATH)
    assert PATH not in sim.tree()


def test_discard_leaves_a_file_that_the_system_does_not_give_up() -> None:
    sim = disk(**{"meta.json.tmp": b"abc"})
    sim.fail("unlink", code=errno.EACCES)
    publishing.discard(sim, PATH)
    assert sim.tree()[PATH] == b"abc"


# exists


def test_exists_tells_files_and_directories_from_nothing() -> None:
    sim = disk(x=b"")
    assert publishing.exists(sim, "/d/x") is True
    assert publishing.exists(sim, "/d") is True
    assert publishing.exists(sim, "/d/y") is False


def test_error_is_never_taken_for_not_there() -> None:
    sim = disk(x=b"")
    sim.fail("stat", code=errno.EACCES)
    with pytest.raises(PermissionError):
        publishing.exists(sim, "/d/x")


# read_whole


@pytest.mark.parametrize("data", [b"", b"abc\n"])
def test_whole_file_is_read(data: bytes) -> None:
    sim = disk(x=data)
    assert publishing.read_whole(sim, "/d/x") == data
    assert sim.descriptors == {}


@pytest.mark.parametrize("kind", ["fstat", "read_at"])
def test_file_that_cannot_be_read_is_closed(kind: str) -> None:
    sim = disk(x=b"abc")
    sim.fail(kind, code=errno.EIO)
    with pytest.raises(OSError):
        publishing.read_whole(sim, "/d/x")
    assert sim.descriptors == {}


# close_each


class Closing:
    """A disk whose closes fail with these, in turn; keeps what was closed."""

    def __init__(self, *failures):
        self.failures = list(failures)
        self.closed = []

    def close(self, fd):
        failure = self.failures.pop(0) if self.failures else None
        if isinstance(failure, MemoryError):
            raise failure
        self.closed.append(fd)
        if failure is not None:
            raise failure


def test_each_descriptor_is_closed_whatever_the_others_raise():
    disk = Closing(None, OSError(5, "no"), None)
    descriptors = [1, 2, 3]
    with pytest.raises(OSError):
        publishing.close_each(disk, descriptors)
    assert (disk.closed, descriptors) == ([3, 2, 1], [])


def test_close_that_had_no_memory_goes_on_where_it_was_and_closes_nothing_twice():
    disk = Closing(None, MemoryError(), None)
    descriptors = [1, 2, 3]
    with pytest.raises(MemoryError):
        publishing.close_each(disk, descriptors)
    assert (disk.closed, descriptors) == ([3], [1, 2])
    publishing.close_each(disk, descriptors)
    assert disk.closed == [3, 2, 1]
