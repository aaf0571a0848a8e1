"""Where a store lies, and whether sessions last there: what to warn of, and what to refuse. What is
mounted where is read in file_system.py."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Collection

from durasess.engine.files import Files
from durasess.errors import StorageError
from durasess.store import file_system
from durasess.store.file_system import Mount

_TEMPORARY = ("/tmp", "/var/tmp")
_TEMPORARY_NAMES = ("TMPDIR", "TEMP", "TMP")
"""Environment variables with the system's temporary directory."""


def root_of(path: str | os.PathLike[str] | None) -> str:
    """The absolute path of a store; without one the directory that $DURASESS_HOME names, else the
    user's data directory.

    ValueError for a path that no file can have, StorageError where a relative one leads nowhere.
    """
    if path is None:
        path = os.environ.get("DURASESS_HOME") or _data_directory()
    text = os.fsdecode(path)
    if "\0" in text:
        raise ValueError(f"{text!r} is no path: it has a NUL character")
    try:
        return os.path.abspath(os.path.expanduser(text))
    except OSError as error:
        # The current directory was removed.
        raise StorageError(
            f"{text!r} cannot be looked up: {error}.", path=text, errno=error.errno
        ) from error


def _home() -> str:
    """An empty $HOME is none: what the system knows of the user tells."""
    if sys.platform != "win32" and not os.environ.get("HOME"):
        import pwd

        with contextlib.suppress(KeyError):
            return pwd.getpwuid(os.getuid()).pw_dir
    return os.path.expanduser("~")


def _data_directory() -> str:
    """The user's directory for sessions: as the system has it."""
    home = _home()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.join(home, "AppData", "Local")
    elif sys.platform == "darwin":
        base = os.path.join(home, "Library", "Application Support")
    else:
        base = os.environ.get("XDG_DATA_HOME", "")
        if not os.path.isabs(base):
            # By its specification a relative one is invalid and ignored.
            base = os.path.join(home, ".local", "share")
    return os.path.join(base, "durasess", "sessions")


def warnings_for(path: str | os.PathLike[str], *, mounts: str | None = None) -> list[str]:
    """A sentence for each way in which what lies at `path` may be lost without a fault.

    The path need not exist: what is there already of it counts, links followed. `mounts` is the
    text of mountinfo, by default this system's; a system without one has only directories for
    temporary files to warn of.
    """
    place = _resolved(path)
    mount = file_system.mount_of(place, mounts)
    if mount.kind in file_system.IN_MEMORY:
        return [
            f"{place} is in memory ({mount.kind} at {mount.path}): its sessions are gone when the "
            "machine restarts. Choose a directory on a disk."
        ]
    found = [_temporary_warning(place)] if _is_temporary(place) else []
    if mount.kind in file_system.OVERLAYS:
        found.append(_overlay_warning(place, mount))
    return found


def warnings_where(directory: str) -> tuple[str, ...]:
    """The same for a directory that is there, looked up once as long as it is the same one: each
    opening of a session asks."""
    found = os.stat(directory)
    return _remembered(directory, found.st_dev, found.st_ino)


@functools.lru_cache(maxsize=64)
def _remembered(directory: str, device: int, inode: int) -> tuple[str, ...]:
    return tuple(warnings_for(directory))


def refuse_network(
    path: str | os.PathLike[str], *, allow: Collection[str] = (), mounts: str | None = None
) -> None:
    """StorageError when `path` is on a network file system: one host's locks and syncs may mean
    nothing to another, and two writers would damage a session.

    `allow` has the kinds, as the kernel names them, that the caller vouches for; all of them are
    `file_system.NETWORK`. The path need not exist.
    """
    place = _resolved(path)
    mount = file_system.mount_of(place, mounts)
    if mount.kind not in file_system.NETWORK or mount.kind in allow:
        return
    raise StorageError(
        f"{place} is on a network file system: expected a local one, found {mount.kind} at "
        f"{mount.path}. Its locks and syncs are as good as its server, so two hosts could write "
        "one session at the same time. Choose a directory on a local disk, or allow "
        f"{mount.kind!r} if one host alone uses it and the server keeps what it has synced.",
        path=place,
    )


def prepare(disk: Files, path: str, *, allow: Collection[str] = ()) -> None:
    """Make a store's directory with those above it; refuse one where two hosts could write one
    session. StorageError."""
    refuse_network(path, allow=allow)
    missing = []
    above = path
    while not os.path.isdir(above):
        missing.append(above)
        above = os.path.dirname(above)
    for one in reversed(missing):
        try:
            disk.mkdir(one)
        except FileExistsError:
            continue
        except OSError as error:
            raise StorageError(
                f"the store {path} cannot be made: {error}.", path=path, errno=error.errno
            ) from error


def _resolved(path: str | os.PathLike[str]) -> str:
    text = os.fsdecode(path)
    try:
        # What does not exist is kept as it is behind the nearest parent that does.
        return os.path.realpath(os.path.expanduser(text))
    except (OSError, ValueError):
        # No path at all; whoever opens it says so.
        return text


def _is_temporary(place: str) -> bool:
    named = [os.environ.get(name, "") for name in _TEMPORARY_NAMES]
    for directory in (*_TEMPORARY, *filter(os.path.isabs, named)):
        top = _resolved(directory)
        if place == top or place.startswith(top.rstrip(os.sep) + os.sep):
            return True
    return False


def _temporary_warning(place: str) -> str:
    return (
        f"{place} is a place for temporary files: the system removes what lies there, when it "
        "starts or after some days. Choose a directory that is kept."
    )


def _overlay_warning(place: str, mount: Mount) -> str:
    text = (
        f"{place} is in a container's own layer ({mount.kind} at {mount.path}): its sessions are "
        "gone with the container."
    )
    if any(option.split("=")[0] == "volatile" for option in mount.options):
        text += " It is mounted volatile: a sync does nothing, so power loss costs whole sessions."
    return f"{text} Choose a directory on a volume."
