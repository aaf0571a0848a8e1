"""The operating system's disk: the only place that writes, syncs, renames or deletes.

Methods raise OSError as the system does; what is retried here is only what cannot have had an
effect (EINTR), or what Windows refuses for a moment (R13, F7 in the tests). How a file is locked is
in flock.py.
"""

from __future__ import annotations

import errno
import functools
import os
import stat as stat_module
import sys
import time
from collections.abc import Callable

from durasess.engine.disk import Files as Files
from durasess.engine.disk import FileStat as FileStat
from durasess.engine.flock import lock, unlock

FILE_MODE = 0o600
DIRECTORY_MODE = 0o700
_READ_CHUNK = 1 << 30
_O_COMMON = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_O_READ = os.O_RDONLY | _O_COMMON | getattr(os, "O_NONBLOCK", 0)
_O_WRITE = os.O_RDWR | _O_COMMON | getattr(os, "O_NONBLOCK", 0)
_UNSUPPORTED = frozenset(
    code
    for code in (
        errno.EINVAL,
        errno.ENOSYS,
        getattr(errno, "ENOTSUP", None),
        getattr(errno, "EOPNOTSUPP", None),
    )
    if code is not None
)


class RealFiles(Files):
    """The operating system's disk."""

    def __init__(self, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._sleep = sleep

    def mkdir(self, path: str) -> None:
        """Make a directory, mode 0700 whatever the umask is."""
        _retry_interrupted(lambda: os.mkdir(path, DIRECTORY_MODE))
        os.chmod(path, DIRECTORY_MODE)

    def listdir(self, path: str) -> list[str]:
        return os.listdir(path)

    def stat(self, path: str) -> FileStat:
        return _stat(os.stat(path))

    def create(self, path: str) -> int:
        """A new empty file, mode 0600 whatever the umask is."""
        fd = _above_stdio(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _O_COMMON, FILE_MODE))
        try:
            if hasattr(os, "fchmod"):
                os.fchmod(fd, FILE_MODE)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def open(self, path: str, *, write: bool = False) -> int:
        """An existing file; never a directory, a device or a pipe, which could block or mislead."""
        fd = _above_stdio(os.open(path, _O_WRITE if write else _O_READ))
        try:
            if not stat_module.S_ISREG(os.fstat(fd).st_mode):
                raise OSError(errno.EINVAL, "not a regular file", path)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def read_at(self, fd: int, size: int, offset: int) -> bytes:
        data = _pread(fd, min(size, _READ_CHUNK), offset)
        if len(data) in (size, 0):
            return data
        parts = [data]
        got = len(data)
        while got < size:
            data = _pread(fd, min(size - got, _READ_CHUNK), offset + got)
            if not data:
                break
            parts.append(data)
            got += len(data)
        return b"".join(parts)

    def first_bytes(self, path: str, size: int) -> bytes:
        """As `open`, `read_at` and `close` in turn. A directory or a pipe refuses to be read; what
        else is no file is found out where it gives less than it was asked for."""
        fd = _above_stdio(os.open(path, _O_READ))
        try:
            data = _pread(fd, size, 0)
            if len(data) < size:
                found = os.fstat(fd)
                if not stat_module.S_ISREG(found.st_mode):
                    raise OSError(errno.EINVAL, "not a regular file", path)
                if len(data) < found.st_size:
                    data = self.read_at(fd, size, 0)
            return data
        finally:
            os.close(fd)

    def write_at(self, fd: int, data: bytes, offset: int) -> int:
        return _pwrite(fd, data, offset)

    def fstat(self, fd: int) -> FileStat:
        return _stat(os.fstat(fd))

    def size(self, fd: int) -> int:
        return os.lseek(fd, 0, os.SEEK_END)

    def leads_to(self, path: str, fd: int) -> bool:
        """By the name the kernel keeps for an open file; by number where that is not the same.

        A stat would ask for the file's times, which makes its next sync dearer on Linux
        (multigrain timestamps).
        """
        try:
            if os.readlink(f"/proc/self/fd/{fd}") == path:
                return True
        except OSError:
            # No such thing on this system.
            pass
        try:
            return os.path.samestat(os.stat(path), os.fstat(fd))
        except FileNotFoundError:
            return False

    def truncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def sync(self, fd: int) -> None:
        """fdatasync; F_FULLFSYNC on macOS, where fsync leaves the data in the drive's cache."""
        _sync(fd)

    def close(self, fd: int) -> None:
        """Give the descriptor back; never retried, since it may be somebody else's by then."""
        os.close(fd)

    def replace(self, source: str, target: str) -> None:
        moved = os.stat(source)
        for pause in (*_WINDOWS_PAUSES, None):
            try:
                os.replace(source, target)
                return
            except InterruptedError:
                if _is_at(target, moved):
                    return
            except PermissionError:
                # A scanner may hold the target for a moment on Windows.
                if pause is None:
                    raise
                self._sleep(pause)
        os.replace(source, target)

    def unlink(self, path: str) -> None:
        _retry_interrupted(lambda: os.unlink(path))

    def rmdir(self, path: str) -> None:
        _retry_interrupted(lambda: os.rmdir(path))

    def chmod(self, path: str, mode: int) -> None:
        """Set the permission bits. Not in `Files`: only a workspace's own files need it."""
        _retry_interrupted(lambda: os.chmod(path, mode))

    def sync_dir(self, path: str) -> None:
        """fsync of the directory; where the system has no such thing (R14), nothing can be done."""
        if os.name == "nt":
            return
        fd = _above_stdio(os.open(path, os.O_RDONLY | os.O_DIRECTORY | _O_COMMON))
        try:
            os.fsync(fd)
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
        finally:
            os.close(fd)

    def lock(self, fd: int, *, shared: bool = False, wait: bool = False) -> bool:
        """flock, which belongs to the open file: closing another descriptor of the same file, in
        this process or a forked one, does not release it. It waits in the kernel or not at all."""
        return lock(fd, shared=shared, wait=wait)

    def unlock(self, fd: int) -> None:
        unlock(fd)


stopwatch = time.perf_counter
"""Seconds of a clock that says how long something took, and nothing else."""

_WINDOWS_PAUSES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 0.9)
"""Seconds; about 2.5 in all."""


def disk_full() -> OSError:
    """What the system means when it takes fewer bytes than it was given."""
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _stat(result: os.stat_result) -> FileStat:
    return FileStat(
        (result.st_dev, result.st_ino),
        result.st_size,
        stat_module.S_ISDIR(result.st_mode),
    )


def _above_stdio(fd: int) -> int:
    """R22: a program that closed stdin would otherwise print into the log."""
    if fd > 2:
        return fd
    import fcntl

    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(fd)


def _retry_interrupted(call: Callable[[], None]) -> None:
    """R13: Python retries EINTR for reads and writes, but raises it for names. An interrupted call
    on the supported systems has had no effect."""
    while True:
        try:
            call()
            return
        except InterruptedError:
            continue


def _is_at(path: str, moved: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(path), moved)
    except FileNotFoundError:
        return False


if sys.platform == "darwin":

    def _sync(fd: int) -> None:
        import fcntl

        try:
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
            os.fsync(fd)
else:
    _sync = getattr(os, "fdatasync", os.fsync)

if sys.platform != "win32":
    _pread, _pwrite = os.pread, os.pwrite
else:

    def _pread(fd: int, size: int, offset: int) -> bytes:
        os.lseek(fd, offset, os.SEEK_SET)
        return os.read(fd, size)

    def _pwrite(fd: int, data: bytes, offset: int) -> int:
        os.lseek(fd, offset, os.SEEK_SET)
        return os.write(fd, data)


if sys.platform == "linux":

    def blocks_read() -> int:
        """How much this thread has had read from a disk so far; what was in memory is not in it.
        0 where the system does not say."""
        import resource

        return resource.getrusage(resource.RUSAGE_THREAD).ru_inblock
else:

    def blocks_read() -> int:
        """0: the system does not say how much this thread has had read from a disk."""
        return 0


@functools.cache
def boot_id() -> str:
    """A name for this boot of the machine, empty where the system has none. For people. It stays
    the same as long as a process lives, and every opening writes it."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as source:
            return source.read().strip()
    except OSError:
        return ""
