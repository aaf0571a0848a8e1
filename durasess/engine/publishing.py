"""Steps made of the file interface: write all, write under a temporary name, read whole.

A publish is `write_tmp`, then `replace`, then `sync_dir`; whoever publishes decides what may fail.
"""

from __future__ import annotations

from durasess.engine import files


def create_fresh(disk: files.Files, path: str) -> int:
    """A new file at a name that only this writer uses; what a crash left there is removed."""
    try:
        return disk.create(path)
    except FileExistsError:
        disk.unlink(path)
        return disk.create(path)


def write_all(disk: files.Files, fd: int, data: bytes, offset: int = 0) -> None:
    """Write all of `data`, or raise OSError (ENOSPC when the system takes nothing any more)."""
    view = data
    while view:
        taken = disk.write_at(fd, view, offset)
        if taken <= 0:
            raise files.disk_full()
        view = view[taken:]
        offset += taken


def write_tmp(disk: files.Files, path: str, data: bytes) -> None:
    """First half of a publish: the bytes, synced, under a temporary name (R5)."""
    fd = create_fresh(disk, path)
    try:
        write_all(disk, fd, data)
        disk.sync(fd)
    except BaseException:
        give_back(disk, fd)
        discard(disk, path)
        raise
    disk.close(fd)


def discard(disk: files.Files, path: str) -> None:
    """Remove a temporary file; one that stays is harmless, the next open tries again."""
    try:
        disk.unlink(path)
    except OSError:
        pass


def give_back(disk: files.Files, *descriptors: int) -> None:
    """Close descriptors while an error is being raised, which one of closing must not replace."""
    for fd in descriptors:
        try:
            disk.close(fd)
        except OSError:
            continue


def give_back_the_last(disk: files.Files, fd: int) -> None:
    """The same for a descriptor that nobody else has any more. Tried again where memory is short
    for a moment, since else the file would stay open for ever."""
    try:
        give_back(disk, fd)
    except MemoryError:
        give_back(disk, fd)


def close_each(disk: files.Files, descriptors: list[int]) -> None:
    """Close all, the last one first, whatever the others raise; one of the errors is raised.

    What is closed is taken out of the list at once. So whoever had no memory calls again, and
    nothing is closed twice: its number may be somebody else's by then.
    """
    problem: OSError | None = None
    while descriptors:
        try:
            disk.close(descriptors[-1])
        except OSError as error:
            problem = error
        descriptors.pop()
    if problem is not None:
        raise problem


def exists(disk: files.Files, path: str) -> bool:
    """Whether there is something; an error other than "not there" is raised, never taken for no."""
    try:
        disk.stat(path)
    except FileNotFoundError:
        return False
    return True


def read_whole(disk: files.Files, path: str) -> bytes:
    """All bytes of a file that is small by its nature."""
    fd = disk.open(path)
    try:
        return disk.read_at(fd, disk.fstat(fd).size, 0)
    finally:
        disk.close(fd)
