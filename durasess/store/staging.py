"""Where a session is put together before it has its name: under a dot name, out of every list.

A crash leaves a directory that no list shows and nothing reads; `doctor` finds it.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator

from durasess.engine import paths
from durasess.engine.files import Files
from durasess.errors import SessionExistsError, StorageError

DELETED = ".deleted"
"""What the dot name of a session ends with that is being removed."""

BUILDING = ".new"
"""What the dot name ends with of one that is being made."""


@contextlib.contextmanager
def staged(disk: Files, root: str, session_id: str, token: str) -> Iterator[str]:
    """A path, which does not exist yet and whose last part is `session_id`, to build a session at;
    what is left there in the end is removed. `token` makes the dot name unique."""
    folder = paths.building(paths.join(root, session_id), token)
    try:
        disk.mkdir(folder)
    except OSError as error:
        raise StorageError(
            f"{folder} cannot be made: {error}. Nothing was changed.",
            path=folder,
            errno=error.errno,
        ) from error
    try:
        yield paths.join(folder, session_id)
    finally:
        with contextlib.suppress(OSError):
            remove_tree(disk, folder)


def publish(disk: Files, built: str, root: str) -> str:
    """Give what was built at a staged path its name in the store, durably; the path it has then.
    SessionExistsError when the name is taken."""
    path = paths.join(root, paths.base(built))
    try:
        disk.sync_dir(built)
        disk.replace(built, path)
        disk.sync_dir(root)
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
            raise SessionExistsError(
                f"{path} is there already; it was left alone. Choose another id.", path=path
            ) from None
        raise StorageError(
            f"{path} cannot be made: {error}.", path=path, errno=error.errno
        ) from error
    return path


def deleted_name(path: str, token: str) -> str:
    """The dot name of a session that is being removed."""
    return paths.join(paths.parent(path), f".{paths.base(path)}.{token}{DELETED}")


def remove_tree(disk: Files, path: str) -> None:
    """Remove a directory with all that is in it; who else removes it meanwhile is no trouble. A
    link is removed, never followed. OSError when the system refuses."""
    if os.path.islink(path):
        disk.unlink(path)
        return
    waiting = [path]
    directories: list[str] = []
    while waiting:
        directory = waiting.pop()
        directories.append(directory)
        for name in _names(disk, directory):
            inside = paths.join(directory, name)
            try:
                disk.unlink(inside)
            except FileNotFoundError:
                continue
            except OSError:
                # The system unlinks no directory; anything else that it refuses, it refuses again.
                if not disk.stat(inside).directory:
                    raise
                waiting.append(inside)
    for directory in reversed(directories):
        with contextlib.suppress(FileNotFoundError):
            disk.rmdir(directory)


def _names(disk: Files, directory: str) -> list[str]:
    try:
        return disk.listdir(directory)
    except FileNotFoundError:
        return []
