"""The operating system's disk: modes, retries and refusals of each call of the file interface."""

import errno
import fcntl
import importlib.util
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from durasess.engine import files
from durasess.engine.files import RealFiles
from tests.support.sessions import umask

disk = RealFiles()


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A name in an empty directory."""
    return str(tmp_path / "f")


@contextmanager
def without_stdin() -> Iterator[None]:
    """As a program runs that closed its standard input: the next descriptor would be 0."""
    saved = os.dup(0)
    os.close(0)
    try:
        yield
    finally:
        os.dup2(saved, 0)
        os.close(saved)


def open_descriptors() -> set[int]:
    found = set()
    for fd in range(1024):
        try:
            os.get_inheritable(fd)
        except OSError:
            continue
        found.add(fd)
    return found


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    before = open_descriptors()
    yield
    assert open_descriptors() == before


class Calls:
    """Stands in for a function of `os`: raises the errors one after another, then calls it."""

    def __init__(
        self, real: Callable[..., Any], *errors: BaseException, after: bool = False
    ) -> None:
        self.real = real
        self.errors = list(errors)
        self.after = after
        self.made: list[tuple[Any, ...]] = []

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        self.made.append(arguments)
        if not self.errors:
            return self.real(*arguments, **named)
        if self.after:
            self.real(*arguments, **named)
        raise self.errors.pop(0)


@pytest.fixture
def replaced(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Calls]:
    """`replaced("mkdir", error, …)`: that function of `os` fails so many times first."""

    def replace(name: str, *errors: BaseException, after: bool = False) -> Calls:
        calls = Calls(getattr(os, name), *errors, after=after)
        monkeypatch.setattr(os, name, calls)
        return calls

    return replace


def mode_of(path: str) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


def written(path: str, data: bytes = b"") -> str:
    Path(path).write_bytes(data)
    return path


# mkdir and listdir


@pytest.mark.parametrize("mask", [0, 0o022, 0o777])
def test_directory_has_mode_0700_whatever_the_umask(path: str, mask: int) -> None:
    with umask(mask):
        disk.mkdir(path)
    assert mode_of(path) == 0o700


def test_interrupted_mkdir_is_tried_again(path: str, replaced: Callable[..., Calls]) -> None:
    mkdir = replaced("mkdir", InterruptedError(), InterruptedError())
    disk.mkdir(path)
    assert os.path.isdir(path) and len(mkdir.made) == 3


def test_directory_that_exists_is_an_error_and_keeps_its_mode(path: str) -> None:
    os.mkdir(path)
    os.chmod(path, 0o755)
    with pytest.raises(FileExistsError):
        disk.mkdir(path)
    assert mode_of(path) == 0o755


def test_listdir_gives_the_names(path: str) -> None:
    disk.mkdir(path)
    for name in ("b", "a", ".c"):
        written(f"{path}/{name}")
    assert sorted(disk.listdir(path)) == [".c", "a", "b"]


# stat


def test_stat_tells_size_kind_and_identity(path: str, tmp_path: Path) -> None:
    found = disk.stat(written(path, b"abc"))
    real = os.stat(path)
    assert found == files.FileStat((real.st_dev, real.st_ino), 3, False)
    assert disk.stat(str(tmp_path)).directory is True


def test_stat_of_nothing_raises(path: str) -> None:
    with pytest.raises(FileNotFoundError):
        disk.stat(path)


# create


@pytest.mark.parametrize("mask", [0, 0o022, 0o777])
def test_file_has_mode_0600_whatever_the_umask(path: str, mask: int) -> None:
    with umask(mask):
        disk.close(disk.create(path))
    assert mode_of(path) == 0o600


def test_created_file_is_empty_readable_writable_and_not_inherited(path: str) -> None:
    fd = disk.create(path)
    assert disk.fstat(fd).size == 0
    assert disk.write_at(fd, b"abc", 0) == 3
    assert disk.read_at(fd, 3, 0) == b"abc"
    assert not os.get_inheritable(fd)
    disk.close(fd)


def test_file_that_exists_is_not_created_and_keeps_its_content(path: str) -> None:
    written(path, b"abc")
    with no_descriptor_left(), pytest.raises(FileExistsError):
        disk.create(path)
    assert Path(path).read_bytes() == b"abc"


def test_file_is_created_where_modes_cannot_be_set(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "fchmod")
    disk.close(disk.create(path))
    assert mode_of(path) == 0o600


def test_descriptor_is_given_back_when_the_mode_cannot_be_set(
    path: str, replaced: Callable[..., Calls]
) -> None:
    replaced("fchmod", PermissionError(errno.EPERM, "no modes here"))
    with no_descriptor_left(), pytest.raises(PermissionError):
        disk.create(path)


def test_descriptors_of_standard_streams_are_never_used(path: str) -> None:
    with no_descriptor_left(), without_stdin():
        created = disk.create(path)
        opened = disk.open(path)
        disk.sync_dir(os.path.dirname(path))
        with pytest.raises(OSError):
            os.fstat(0)
        assert min(created, opened) > 2
        assert not os.get_inheritable(created)
        disk.close(created)
        disk.close(opened)


@pytest.mark.parametrize("low", [0, 1, 2])
def test_each_low_descriptor_is_moved_above_2_and_closed(
    low: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    moves, closes = Calls(lambda fd, command, least: 7), Calls(lambda fd: None)
    monkeypatch.setattr(fcntl, "fcntl", moves)
    monkeypatch.setattr(os, "close", closes)
    assert files._above_stdio(low) == 7
    assert files._above_stdio(3) == 3
    monkeypatch.undo()
    assert moves.made == [(low, fcntl.F_DUPFD_CLOEXEC, 3)] and closes.made == [(low,)]


def test_low_descriptor_is_given_back_when_no_other_is_free(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fcntl, "fcntl", Calls(fcntl.fcntl, OSError(errno.EMFILE, "too many")))
    with no_descriptor_left(), without_stdin():
        with pytest.raises(OSError, match="too many"):
            disk.create(path)
        with pytest.raises(OSError):
            os.fstat(0)


# open


def test_file_is_opened_for_reading_only_unless_told(path: str) -> None:
    fd = disk.open(written(path, b"abc"))
    with pytest.raises(OSError) as caught:
        disk.write_at(fd, b"x", 0)
    assert caught.value.errno == errno.EBADF
    assert not os.get_inheritable(fd)
    disk.close(fd)


def test_file_is_opened_for_writing_without_losing_its_content(path: str) -> None:
    fd = disk.open(written(path, b"abc"), write=True)
    assert disk.write_at(fd, b"X", 1) == 1
    assert disk.read_at(fd, 9, 0) == b"aXc"
    disk.close(fd)


def test_open_of_nothing_raises_and_makes_nothing(path: str) -> None:
    for write in (False, True):
        with pytest.raises(FileNotFoundError):
            disk.open(path, write=write)
    assert not os.path.exists(path)


def make_no_regular_file(path: str, kind: str) -> None:
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        os.symlink("/dev/null", path)
    else:
        os.mkdir(path)


@pytest.mark.parametrize("write", [False, True])
@pytest.mark.parametrize("kind", ["directory", "pipe", "device"])
def test_what_is_no_regular_file_is_refused_without_waiting(
    path: str, kind: str, write: bool
) -> None:
    make_no_regular_file(path, kind)
    with no_descriptor_left(), pytest.raises(OSError) as caught:
        disk.open(path, write=write)
    expected = errno.EISDIR if kind == "directory" and write else errno.EINVAL
    assert (caught.value.errno, caught.value.filename) == (expected, path)


def test_descriptor_is_given_back_when_the_file_cannot_be_looked_at(
    path: str, replaced: Callable[..., Calls]
) -> None:
    written(path)
    replaced("fstat", OSError(errno.EIO, "no"))
    with no_descriptor_left(), pytest.raises(OSError):
        disk.open(path)


# read_at


@pytest.mark.parametrize(
    ("size", "offset", "data"),
    [(0, 0, b""), (3, 0, b"abc"), (3, 2, b"cde"), (9, 3, b"def"), (9, 6, b""), (9, 99, b"")],
)
def test_read_gives_fewer_bytes_only_at_the_end_of_the_file(
    path: str, size: int, offset: int, data: bytes
) -> None:
    fd = disk.open(written(path, b"abcdef"))
    assert disk.read_at(fd, size, offset) == data
    disk.close(fd)


@pytest.mark.parametrize("most", [1, 2, 4, 5])
def test_short_reads_of_the_system_are_put_together(
    path: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_pread", lambda fd, size, at: os.pread(fd, min(size, most), at))
    fd = disk.open(written(path, b"abcdef"))
    assert disk.read_at(fd, 5, 1) == b"bcdef"
    assert disk.read_at(fd, 4, 1) == b"bcde"
    assert disk.read_at(fd, 99, 1) == b"bcdef"
    disk.close(fd)


@pytest.mark.parametrize("size", [0, 1, 5, 6, 7, 99])
@pytest.mark.parametrize("most", [1, 2, 99])
def test_first_bytes_are_what_the_file_begins_with(
    path: str, size: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_pread", lambda fd, size, at: os.pread(fd, min(size, most), at))
    written(path, b"abcdef")
    with no_descriptor_left():
        assert disk.first_bytes(path, size) == b"abcdef"[:size]


@pytest.mark.parametrize("kind", ["directory", "pipe", "device"])
def test_first_bytes_of_no_regular_file_are_refused_without_waiting(path: str, kind: str) -> None:
    make_no_regular_file(path, kind)
    with no_descriptor_left(), pytest.raises(OSError):
        disk.first_bytes(path, 64)


def test_first_bytes_of_nothing_are_an_error(path: str) -> None:
    with no_descriptor_left(), pytest.raises(FileNotFoundError):
        disk.first_bytes(path, 64)


def test_what_is_in_memory_was_not_read_from_a_disk(path: str) -> None:
    written(path, b"abcdef")
    before = files.blocks_read()
    disk.first_bytes(path, 64)
    assert files.blocks_read() == before


def test_no_single_read_is_larger_than_the_system_takes(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = []

    def pread(fd: int, size: int, offset: int) -> bytes:
        sizes.append(size)
        return os.pread(fd, size, offset)

    monkeypatch.setattr(files, "_READ_CHUNK", 4)
    monkeypatch.setattr(files, "_pread", pread)
    fd = disk.open(written(path, b"abcdefghij"))
    assert disk.read_at(fd, 10, 0) == b"abcdefghij"
    assert sizes == [4, 4, 2]
    disk.close(fd)


# write_at, fstat, truncate


def test_write_is_one_call_at_its_offset(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []

    def pwrite(fd: int, data: bytes, offset: int) -> int:
        taken.append((data, offset))
        return os.pwrite(fd, data[:2], offset)

    fd = disk.create(path)
    monkeypatch.setattr(files, "_pwrite", pwrite)
    assert disk.write_at(fd, b"abc", 2) == 2
    assert (taken, Path(path).read_bytes()) == ([(b"abc", 2)], b"\0\0ab")
    disk.close(fd)


def test_reads_and_writes_leave_the_place_of_the_descriptor_alone(path: str) -> None:
    """Threads and forked processes share it."""
    fd = disk.create(path)
    disk.write_at(fd, b"abc", 5)
    disk.read_at(fd, 3, 5)
    assert os.lseek(fd, 0, os.SEEK_CUR) == 0
    disk.close(fd)


def test_fstat_follows_the_open_file_and_not_its_name(path: str) -> None:
    fd = disk.open(written(path, b"abc"))
    os.replace(written(path + ".new", b"other"), path)
    assert disk.fstat(fd).size == 3
    assert disk.fstat(fd).inode != disk.stat(path).inode
    disk.close(fd)


@pytest.mark.parametrize(("size", "data"), [(0, b""), (2, b"ab"), (5, b"abc\0\0")])
def test_truncate_cuts_or_extends_with_zeros(path: str, size: int, data: bytes) -> None:
    fd = disk.open(written(path, b"abc"), write=True)
    disk.truncate(fd, size)
    assert Path(path).read_bytes() == data
    disk.close(fd)


# sync and close


@pytest.mark.skipif(not hasattr(os, "fdatasync"), reason="this system has fsync only")
def test_sync_is_fdatasync(path: str) -> None:
    assert files._sync is os.fdatasync
    fd = disk.create(path)
    disk.sync(fd)
    disk.close(fd)
    with pytest.raises(OSError):
        disk.sync(fd)


def test_failed_sync_is_raised_and_never_retried(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = Calls(os.fsync, OSError(errno.EIO, "lost"))
    monkeypatch.setattr(files, "_sync", sync)
    fd = disk.create(path)
    with pytest.raises(OSError, match="lost"):
        disk.sync(fd)
    assert sync.made == [(fd,)]
    disk.close(fd)


def test_interrupted_close_is_never_retried(path: str, replaced: Callable[..., Calls]) -> None:
    fd = disk.create(path)
    close = replaced("close", InterruptedError(), after=True)
    with pytest.raises(InterruptedError):
        disk.close(fd)
    assert close.made == [(fd,)]


# size and leads_to


def test_size_is_that_of_the_file_now_and_leaves_its_content(path: str) -> None:
    fd = disk.open(written(path, b"abc"), write=True)
    assert disk.size(fd) == 3
    disk.write_at(fd, b"XY", 4)
    assert disk.size(fd) == 6
    disk.truncate(fd, 1)
    assert disk.size(fd) == 1
    assert disk.read_at(fd, 9, 0) == b"a"
    disk.close(fd)


def test_size_of_a_descriptor_that_was_closed_is_an_error(path: str) -> None:
    fd = disk.open(written(path))
    disk.close(fd)
    with pytest.raises(OSError) as caught:
        disk.size(fd)
    assert caught.value.errno == errno.EBADF


def no_link(name: str) -> str:
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)


@pytest.fixture(params=[True, False], ids=["by link", "by number"])
def links(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that keeps a link to each open file, and one that does not."""
    if not request.param:
        monkeypatch.setattr(os, "readlink", no_link)


@pytest.fixture
def opened(path: str) -> Iterator[int]:
    """A descriptor of the file at `path`."""
    fd = disk.open(written(path, b"abc"), write=True)
    yield fd
    os.close(fd)


@pytest.mark.usefixtures("links")
def test_name_leads_to_its_file_whatever_is_written_to_it(path: str, opened: int) -> None:
    assert disk.leads_to(path, opened) is True
    disk.write_at(opened, b"more", 3)
    assert disk.leads_to(path, opened) is True


@pytest.mark.usefixtures("links")
def test_name_that_was_removed_leads_nowhere(path: str, opened: int) -> None:
    os.unlink(path)
    assert disk.leads_to(path, opened) is False


@pytest.mark.usefixtures("links")
def test_file_that_was_renamed_is_found_under_its_new_name_only(path: str, opened: int) -> None:
    os.rename(path, path + ".away")
    assert disk.leads_to(path, opened) is False
    assert disk.leads_to(path + ".away", opened) is True


@pytest.mark.usefixtures("links")
def test_name_that_was_given_to_another_file_leads_to_that(path: str, opened: int) -> None:
    os.replace(written(path + ".new", b"abc"), path)
    assert disk.leads_to(path, opened) is False


@pytest.mark.usefixtures("links")
def test_name_that_was_removed_and_made_again_leads_to_another_file(path: str, opened: int) -> None:
    os.unlink(path)
    written(path, b"abc")
    assert disk.leads_to(path, opened) is False


@pytest.mark.usefixtures("links")
def test_directory_that_was_renamed_away_takes_the_file_with_it(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    path = written(str(tmp_path / "d" / "f"))
    fd = disk.open(path)
    (tmp_path / "d").rename(tmp_path / "away")
    assert disk.leads_to(path, fd) is False
    (tmp_path / "d").mkdir()
    written(path)
    assert disk.leads_to(path, fd) is False
    assert disk.leads_to(str(tmp_path / "away" / "f"), fd) is True
    disk.close(fd)


@pytest.mark.usefixtures("links")
def test_second_name_of_a_file_leads_to_it_and_so_does_a_way_through_a_link(
    path: str, tmp_path: Path, opened: int
) -> None:
    """The name that the system knows an open file by is another one then."""
    os.link(path, path + ".second")
    (tmp_path / "link").symlink_to(tmp_path)
    assert disk.leads_to(path + ".second", opened) is True
    assert disk.leads_to(str(tmp_path / "link" / "f"), opened) is True
    os.unlink(path)
    assert disk.leads_to(path + ".second", opened) is True


@pytest.mark.usefixtures("links")
@pytest.mark.parametrize("name", ["é", "\udcff", "a\nb", "f (deleted)"])
def test_name_may_be_any(tmp_path: Path, name: str) -> None:
    path = written(str(tmp_path / name))
    fd = disk.open(path)
    assert disk.leads_to(path, fd) is True
    os.unlink(path)
    assert disk.leads_to(path, fd) is False
    disk.close(fd)


def test_times_of_the_file_are_not_asked_for_when_the_link_agrees(
    path: str, opened: int, replaced: Callable[..., Calls]
) -> None:
    """A look at them makes the next sync dearer (multigrain timestamps)."""
    looks = [replaced(name) for name in ("stat", "fstat", "lstat")]
    assert disk.leads_to(path, opened) is True
    assert disk.size(opened) == 3
    assert [look.made for look in looks] == [[], [], []]


@pytest.mark.parametrize("error", [PermissionError(), FileNotFoundError(), NotADirectoryError()])
def test_system_without_links_to_open_files_is_put_up_with(
    path: str, opened: int, error: OSError, replaced: Callable[..., Calls]
) -> None:
    replaced("readlink", error, error)
    assert disk.leads_to(path, opened) is True
    os.unlink(path)
    assert disk.leads_to(path, opened) is False


@pytest.mark.usefixtures("links")
def test_name_that_cannot_be_looked_up_is_an_error_and_not_another_file(
    path: str, tmp_path: Path, opened: int
) -> None:
    os.rename(path, str(tmp_path / "away"))
    written(path)
    with pytest.raises(NotADirectoryError):
        disk.leads_to(path + "/f", opened)


# replace


class Pauses(list[float]):
    """A `sleep` that only remembers."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


@pytest.fixture
def pair(path: str) -> tuple[str, str]:
    """A temporary file with new content, and the file it is to replace."""
    return written(path + ".tmp", b"new"), written(path, b"old")


def contents(*names: str) -> list[bytes | None]:
    return [Path(name).read_bytes() if os.path.exists(name) else None for name in names]


def test_replace_puts_the_new_file_over_the_old(pair: tuple[str, str]) -> None:
    disk.replace(*pair)
    assert contents(*pair) == [None, b"new"]


def test_replace_gives_a_name_that_was_free(pair: tuple[str, str], path: str) -> None:
    disk.replace(pair[0], path + ".free")
    assert contents(pair[0], path + ".free") == [None, b"new"]


def test_replace_of_nothing_raises_and_keeps_the_old_file(pair: tuple[str, str], path: str) -> None:
    with pytest.raises(FileNotFoundError):
        disk.replace(path + ".missing", pair[1])
    assert contents(pair[1]) == [b"old"]


def test_target_held_by_a_scanner_for_a_moment_is_replaced_after_pauses(
    pair: tuple[str, str], replaced: Callable[..., Calls]
) -> None:
    replace = replaced("replace", PermissionError(), PermissionError())
    pauses = Pauses()
    RealFiles(sleep=pauses).replace(*pair)
    assert contents(*pair) == [None, b"new"]
    assert (len(replace.made), pauses) == (3, [0.01, 0.02])


def test_target_held_for_ever_is_an_error_that_keeps_both_files(
    pair: tuple[str, str], replaced: Callable[..., Calls]
) -> None:
    replace = replaced("replace", *[PermissionError(errno.EACCES, "held")] * 99)
    pauses = Pauses()
    with pytest.raises(PermissionError, match="held"):
        RealFiles(sleep=pauses).replace(*pair)
    assert contents(*pair) == [b"new", b"old"]
    assert len(replace.made) == len(pauses) + 1 == 9
    assert 2 < sum(pauses) < 3


def test_rename_interrupted_before_it_happened_is_tried_again(
    pair: tuple[str, str], replaced: Callable[..., Calls]
) -> None:
    replace = replaced("replace", InterruptedError(), InterruptedError())
    pauses = Pauses()
    RealFiles(sleep=pauses).replace(*pair)
    assert contents(*pair) == [None, b"new"]
    assert (len(replace.made), pauses) == (3, [])


def test_rename_interrupted_before_it_happened_to_a_free_name_is_tried_again(
    pair: tuple[str, str], path: str, replaced: Callable[..., Calls]
) -> None:
    replaced("replace", InterruptedError())
    disk.replace(pair[0], path + ".free")
    assert contents(pair[0], path + ".free") == [None, b"new"]


def test_rename_interrupted_after_it_happened_is_not_repeated(
    pair: tuple[str, str], replaced: Callable[..., Calls]
) -> None:
    replace = replaced("replace", InterruptedError(), after=True)
    disk.replace(*pair)
    assert contents(*pair) == [None, b"new"]
    assert len(replace.made) == 1


@pytest.mark.parametrize("count", [8, 9])
def test_rename_interrupted_very_often_still_happens(
    pair: tuple[str, str], count: int, replaced: Callable[..., Calls]
) -> None:
    replaced("replace", *[InterruptedError() for _ in range(count)])
    disk.replace(*pair)
    assert contents(*pair) == [None, b"new"]


def test_rename_that_fails_otherwise_is_raised_at_once(
    pair: tuple[str, str], replaced: Callable[..., Calls]
) -> None:
    replace = replaced("replace", OSError(errno.ENOSPC, "full"))
    with pytest.raises(OSError, match="full"):
        disk.replace(*pair)
    assert len(replace.made) == 1 and contents(*pair) == [b"new", b"old"]


def test_directory_is_renamed_over_an_empty_one_only(path: str) -> None:
    for name in (path, path + ".new"):
        disk.mkdir(name)
    written(path + "/x")
    with pytest.raises(OSError):
        disk.replace(path + ".new", path)
    os.unlink(path + "/x")
    disk.replace(path + ".new", path)
    assert not os.path.exists(path + ".new")


# unlink and rmdir


def test_interrupted_unlink_and_rmdir_are_tried_again(
    path: str, replaced: Callable[..., Calls]
) -> None:
    for name in ("unlink", "rmdir"):
        replaced(name, InterruptedError(), InterruptedError())
    disk.unlink(written(path))
    disk.mkdir(path)
    disk.rmdir(path)
    assert not os.path.exists(path)


def test_unlink_and_rmdir_of_nothing_raise(path: str) -> None:
    for call in (disk.unlink, disk.rmdir):
        with pytest.raises(FileNotFoundError):
            call(path)


def test_directory_that_is_not_empty_stays(path: str) -> None:
    disk.mkdir(path)
    written(path + "/x")
    with pytest.raises(OSError) as caught:
        disk.rmdir(path)
    assert caught.value.errno == errno.ENOTEMPTY


# sync_dir


def test_directory_is_synced_and_closed(tmp_path: Path, replaced: Callable[..., Calls]) -> None:
    fsync = replaced("fsync")
    with no_descriptor_left():
        disk.sync_dir(str(tmp_path))
    assert len(fsync.made) == 1


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP])
def test_system_that_cannot_sync_directories_is_put_up_with(
    tmp_path: Path, code: int, replaced: Callable[..., Calls]
) -> None:
    fsync = replaced("fsync", OSError(code, "unsupported"))
    with no_descriptor_left():
        disk.sync_dir(str(tmp_path))
    assert len(fsync.made) == 1


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EBADF])
def test_directory_that_could_not_be_synced_is_an_error(
    tmp_path: Path, code: int, replaced: Callable[..., Calls]
) -> None:
    fsync = replaced("fsync", OSError(code, "lost"))
    with no_descriptor_left(), pytest.raises(OSError) as caught:
        disk.sync_dir(str(tmp_path))
    assert caught.value.errno == code and len(fsync.made) == 1


def test_sync_dir_of_nothing_or_of_a_file_raises(path: str) -> None:
    with pytest.raises(FileNotFoundError):
        disk.sync_dir(path)
    with pytest.raises(NotADirectoryError):
        disk.sync_dir(written(path))


def test_windows_has_no_directory_sync(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "name", "nt")
    disk.sync_dir(path)


# disk_full and boot_id


def test_disk_full_is_enospc() -> None:
    assert files.disk_full().errno == errno.ENOSPC
    assert str(files.disk_full()) == f"[Errno {errno.ENOSPC}] {os.strerror(errno.ENOSPC)}"


def test_boot_id_is_that_of_the_kernel() -> None:
    source = Path("/proc/sys/kernel/random/boot_id")
    assert files.boot_id() == (source.read_text().strip() if source.exists() else "")


def test_boot_id_is_empty_where_the_system_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(path: str) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(files, "open", missing, raising=False)
    assert files.boot_id.__wrapped__() == ""


# Other systems


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Callable[..., ModuleType]:
    """`elsewhere("darwin", "pread")`: the module as it is on that platform, without these names."""

    def load(platform: str, *missing: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location("files_elsewhere", files.__file__)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        with monkeypatch.context() as other:
            other.setattr(sys, "platform", platform)
            for name in missing:
                other.delattr(os, name)
            spec.loader.exec_module(module)
        return module

    return load


def full_sync(monkeypatch: pytest.MonkeyPatch, *errors: OSError) -> Calls:
    calls = Calls(lambda fd, command: 0, *errors)
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", calls)
    return calls


def test_macos_syncs_down_to_the_drive(
    elsewhere: Callable[..., ModuleType],
    replaced: Callable[..., Calls],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls, fsync = full_sync(monkeypatch), replaced("fsync")
    elsewhere("darwin").RealFiles().sync(7)
    assert (calls.made, fsync.made) == ([(7, 51)], [])


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_what_was_read_from_a_disk_is_nothing_where_the_system_does_not_say(
    platform: str, elsewhere: Callable[..., ModuleType]
) -> None:
    assert elsewhere(platform).blocks_read() == 0


def test_macos_share_without_full_sync_gets_fsync(
    path: str,
    elsewhere: Callable[..., ModuleType],
    replaced: Callable[..., Calls],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fd = disk.create(path)
    full_sync(monkeypatch, OSError(errno.ENOTSUP, "no"))
    fsync = replaced("fsync")
    elsewhere("darwin").RealFiles().sync(fd)
    assert fsync.made == [(fd,)]
    disk.close(fd)


def test_macos_sync_that_failed_is_an_error(
    elsewhere: Callable[..., ModuleType],
    replaced: Callable[..., Calls],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    full_sync(monkeypatch, OSError(errno.EIO, "lost"))
    fsync = replaced("fsync")
    with pytest.raises(OSError, match="lost"):
        elsewhere("darwin").RealFiles().sync(7)
    assert fsync.made == []


def test_system_without_pread_reads_and_writes_at_offsets(
    path: str, elsewhere: Callable[..., ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = elsewhere("win32", "pread", "pwrite", "fdatasync").RealFiles()
    monkeypatch.delattr(os, "pread")
    monkeypatch.delattr(os, "pwrite")
    fd = other.create(path)
    assert other.write_at(fd, b"abcdef", 0) == 6
    assert other.write_at(fd, b"X", 2) == 1
    assert other.read_at(fd, 3, 1) == b"bXd"
    other.sync(fd)
    other.close(fd)
