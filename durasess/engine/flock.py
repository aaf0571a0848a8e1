"""Advisory locks of open files: flock where the system has it, else what portalocker makes of it.

Not in here: which files are locked, and what for (lock.py).
"""

from __future__ import annotations

import errno
import sys

_HELD = frozenset([errno.EAGAIN, errno.EACCES])


def portable_lock(fd: int, *, shared: bool, wait: bool) -> bool:
    """Whether the lock was taken, waiting for it or not at all; OSError when the file system has
    none."""
    import portalocker

    kind = portalocker.LockFlags.SHARED if shared else portalocker.LockFlags.EXCLUSIVE
    if not wait:
        kind |= portalocker.LockFlags.NON_BLOCKING
    try:
        portalocker.lock(fd, kind)
    except portalocker.AlreadyLocked:
        return False
    except portalocker.LockException as error:
        cause = _cause(error)
        if cause.errno in _HELD:
            return False
        raise cause from None
    return True


def portable_unlock(fd: int) -> None:
    """Give the lock up; OSError when that cannot be done."""
    import portalocker

    try:
        portalocker.unlock(fd)
    except portalocker.LockException as error:
        raise _cause(error) from None


def _cause(error: Exception) -> OSError:
    cause = error.args[0] if error.args else None
    return cause if isinstance(cause, OSError) else OSError(errno.ENOLCK, str(error))


if sys.platform == "win32":  # pragma: no cover - the tests run on POSIX
    lock, unlock = portable_lock, portable_unlock
else:
    # What portalocker does here too, at a sixth of its price: this is on the path of each turn.
    def lock(fd: int, *, shared: bool, wait: bool) -> bool:
        """As `portable_lock`."""
        import fcntl

        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            fcntl.flock(fd, kind if wait else kind | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in _HELD:
                raise
            return False
        return True

    def unlock(fd: int) -> None:
        """As `portable_unlock`."""
        import fcntl

        fcntl.flock(fd, fcntl.LOCK_UN)
