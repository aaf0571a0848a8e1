"""Locks of open files: who keeps whom out, and what the system says when it has none."""

import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import portalocker
import pytest

from durasess.engine import flock
from durasess.engine.files import RealFiles

disk = RealFiles()


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A name in an empty directory."""
    return str(tmp_path / "f")


@pytest.fixture
def two(path: str) -> Iterator[tuple[int, int]]:
    """Two descriptors of one file, as two handles have them."""
    disk.close(disk.create(path))
    both = disk.open(path, write=True), disk.open(path, write=True)
    yield both
    for fd in both:
        try:
            os.close(fd)
        except OSError:
            pass


def test_exclusive_lock_keeps_every_other_descriptor_out(two: tuple[int, int]) -> None:
    assert disk.lock(two[0]) is True
    assert disk.lock(two[1]) is False
    assert disk.lock(two[1], shared=True) is False


def test_shared_locks_go_together_and_keep_an_exclusive_one_out(two: tuple[int, int]) -> None:
    assert disk.lock(two[0], shared=True) is True
    assert disk.lock(two[1], shared=True) is True
    assert disk.lock(two[1]) is False


def test_lock_ends_with_unlock_or_close(two: tuple[int, int]) -> None:
    assert disk.lock(two[0])
    disk.unlock(two[0])
    assert disk.lock(two[1])
    disk.close(two[1])
    assert disk.lock(two[0])


def test_lock_survives_that_another_descriptor_of_the_file_is_closed(
    two: tuple[int, int], path: str
) -> None:
    assert disk.lock(two[0])
    disk.close(disk.open(path))
    assert disk.lock(two[1]) is False


def test_lock_works_on_a_descriptor_for_reading_only(two: tuple[int, int], path: str) -> None:
    fd = disk.open(path)
    assert disk.lock(fd, shared=True) and disk.lock(fd)
    disk.close(fd)


def locking_raises(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def lock(fd: int, flags: object) -> None:
        raise error

    monkeypatch.setattr(portalocker, "lock", lock)


def flock_raises(monkeypatch: pytest.MonkeyPatch, error: OSError) -> None:
    def flock(fd: int, operation: int) -> None:
        raise error

    monkeypatch.setattr(fcntl, "flock", flock)


@pytest.mark.parametrize("shared", [True, False])
def test_portable_lock_is_the_same_lock(two: tuple[int, int], shared: bool) -> None:
    """What Windows has: each of the two keeps the other out."""
    for lock, unlock, other in (
        (flock.portable_lock, flock.portable_unlock, flock.lock),
        (flock.lock, flock.unlock, flock.portable_lock),
    ):
        assert lock(two[0], shared=shared, wait=True)
        assert other(two[1], shared=True, wait=False) is shared
        flock.unlock(two[1])
        unlock(two[0])
        assert other(two[1], shared=False, wait=False)
        flock.unlock(two[1])


@pytest.mark.parametrize(
    "code", [errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EIO, errno.EBADF, errno.EINTR]
)
def test_file_system_that_cannot_lock_raises_what_the_system_said(
    two: tuple[int, int], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    locking_raises(monkeypatch, portalocker.LockException(OSError(code, "no locks"), "no locks"))
    with pytest.raises(OSError, match="no locks") as caught:
        flock.portable_lock(two[0], shared=False, wait=False)
    assert caught.value.errno == code
    flock_raises(monkeypatch, OSError(code, "no locks"))
    with pytest.raises(OSError, match="no locks") as caught:
        disk.lock(two[0])
    assert caught.value.errno == code


def test_lock_of_a_closed_descriptor_raises_what_the_system_said(two: tuple[int, int]) -> None:
    disk.close(two[0])
    with pytest.raises(OSError) as caught:
        disk.lock(two[0])
    assert caught.value.errno == errno.EBADF


@pytest.mark.parametrize("code", [errno.EAGAIN, errno.EACCES])
def test_either_number_for_a_held_lock_means_that_another_has_it(
    two: tuple[int, int], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    locking_raises(monkeypatch, portalocker.LockException(OSError(code, "held")))
    assert flock.portable_lock(two[0], shared=False, wait=False) is False
    flock_raises(monkeypatch, OSError(code, "held"))
    assert disk.lock(two[0]) is False


@pytest.mark.parametrize("arguments", [(), ("no reason",), (EOFError("odd share"),)])
def test_locking_that_fails_without_a_number_is_enolck(
    two: tuple[int, int], arguments: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    locking_raises(monkeypatch, portalocker.LockException(*arguments))
    with pytest.raises(OSError) as caught:
        flock.portable_lock(two[0], shared=False, wait=False)
    assert caught.value.errno == errno.ENOLCK


def test_unlock_that_fails_raises_what_the_system_said(two: tuple[int, int]) -> None:
    disk.close(two[0])
    with pytest.raises(OSError) as caught:
        disk.unlock(two[0])
    assert caught.value.errno == errno.EBADF


def test_portable_unlock_that_fails_raises_what_the_system_said(
    two: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def unlock(fd: int) -> None:
        raise portalocker.LockException(OSError(errno.EIO, "no locks"))

    monkeypatch.setattr(portalocker, "unlock", unlock)
    with pytest.raises(OSError, match="no locks") as caught:
        flock.portable_unlock(two[0])
    assert caught.value.errno == errno.EIO
