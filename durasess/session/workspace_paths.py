"""Where a path of a tool call leads: inside the workspace, or refused. Reads and writes no file.

Paths come from a model, so nothing is assumed of them. A relative one counts from the workspace's
root, never from the process's working directory. Links are followed before it is judged.
"""

from __future__ import annotations

import ntpath
import os
import re
import sys
import unicodedata
from typing import NamedTuple

from durasess.errors import EventRejectedError, WorkspaceNotFoundError

_DRIVE = re.compile(r"[A-Za-z]:")
_DEVICE = re.compile(r"[\\/]{2}[?.](?:[\\/]|$)")
_DEVICE_NAME = re.compile(r"(?:con|prn|aux|nul|com[1-9]|lpt[1-9]) *(?:\..*)?", re.IGNORECASE)


class Place(NamedTuple):
    """A place in a workspace: `path` is absolute, links below the root resolved; `relative` is the
    same from the root, with forward slashes on every system ("." is the root)."""

    path: str
    relative: str

    @property
    def key(self) -> str:
        """The same for every spelling of one place."""
        return os.path.normcase(self.relative)


def is_there(root: str) -> bool:
    """Whether a workspace's root is an absolute path to a directory."""
    return os.path.isabs(root) and os.path.isdir(root)


def locate(root: str, relative: str) -> Place:
    """Where a relative path, or an absolute one, leads in the workspace, all links followed.

    Raises WorkspaceNotFoundError when the root is not there, EventRejectedError when the path is
    none or leads out. Whether something is at the place is not said.
    """
    _require(root)
    problem = _form_problem(relative)
    if problem is not None:
        raise _refused(root, relative, problem)
    return _judged(root, relative, os.path.realpath(os.path.join(root, relative)))


def locate_name(root: str, relative: str) -> Place:
    """As `locate`, but a link that the path names itself is not followed: what `unlink` removes.
    Where the link leads to must be inside all the same."""
    place = locate(root, relative)
    directory, name = os.path.split(os.path.join(root, relative))
    if name in ("", os.curdir, os.pardir):
        return place
    return _judged(root, relative, os.path.join(os.path.realpath(directory), name))


def same_place(a: str, b: str) -> bool:
    """Whether two absolute paths mean one directory: what the system says where both are there,
    else by their normalised text (M4). Windows paths compare without case and with either
    separator on every system. A path that is not absolute is the same as none."""
    if os.name != "nt" and (_is_windows(a) or _is_windows(b)):
        absolute = ntpath.isabs(a) and ntpath.isabs(b)
        return absolute and _windows_normalised(a) == _windows_normalised(b)
    if not (os.path.isabs(a) and os.path.isabs(b)):
        return False
    try:
        return os.path.samefile(a, b)
    except (OSError, ValueError):
        return _normalised(a) == _normalised(b)


def _require(root: str) -> None:
    if is_there(root):
        return
    if not root:
        found = "No workspace is bound to this session"
    elif not os.path.isabs(root):
        found = f"The workspace {root!r} is not an absolute path on this system"
    elif os.path.lexists(root):
        found = f"The workspace {root!r} is no directory"
    else:
        found = f"The workspace {root!r} is not there, or not within reach of this process"
    raise WorkspaceNotFoundError(
        f"{found}; its files can be neither read nor written. If the project was moved, rebind the "
        "session to the directory where it is now.",
        path=root,
    )


def _form_problem(relative: str) -> str | None:
    """What is wrong with the text alone, before the disk is asked."""
    if not isinstance(relative, str):
        return f"is no path: expected text, found {type(relative).__name__}"
    if not relative:
        return 'is no path: expected text, found none ("." is the workspace itself)'
    if "\0" in relative:
        return "is no path: it has a NUL character"
    try:
        os.fsencode(relative)
    except UnicodeEncodeError as error:
        return f"is no path: the character at {error.start} is none of a file name"
    if _DEVICE.match(relative):
        return "leads out of the workspace: it names a Windows device"
    if os.name == "nt":
        return _windows_problem(relative)
    if _is_windows(relative) or relative.startswith("\\"):
        return "leads out of the workspace: it begins like a Windows drive or share"
    return _climbing_problem(relative)


def _windows_problem(relative: str) -> str | None:
    drive, rest = ntpath.splitdrive(relative)
    rooted = rest.startswith(("/", "\\"))
    if bool(drive) != rooted:
        return "leads out of the workspace: it counts from a drive, not from the workspace"
    parts = re.split(r"[\\/]+", rest)
    if any(_DEVICE_NAME.fullmatch(part) for part in parts):
        return "leads out of the workspace: it names a Windows device"
    if any(":" in part for part in parts):
        return "is no path: it has a colon, which names a stream of a file on Windows"
    return None if drive else _climbing_problem(relative)


def _climbing_problem(relative: str) -> str | None:
    """`..` above the root, read with either separator: who writes `..\\` means to go up."""
    if os.path.isabs(relative):
        return None
    depth = 0
    for part in re.split(r"[\\/]+", relative):
        depth += {"": 0, ".": 0, "..": -1}.get(part, 1)
        if depth < 0:
            return 'leads out of the workspace: ".." goes above its root'
    return None


def _is_windows(path: str) -> bool:
    return _DRIVE.match(path) is not None or path.startswith("\\\\")


def _judged(root: str, relative: str, real: str) -> Place:
    real_root = os.path.realpath(root)
    try:
        inside = os.path.relpath(real, real_root)
    except ValueError:
        # Another drive on Windows.
        inside = os.pardir
    if inside == os.pardir or inside.startswith(os.pardir + os.sep):
        raise _refused(root, relative, f"leads out of the workspace: to {real!r}")
    path = root if inside == os.curdir else os.path.join(root, inside)
    return Place(path, inside.replace(os.sep, "/"))


def _refused(root: str, relative: object, problem: str) -> EventRejectedError:
    return EventRejectedError(
        f"The path {relative!r} {problem}. Nothing was read or written. Give a path inside "
        f"{root!r}.",
        path=relative if isinstance(relative, str) else None,
    )


def _windows_normalised(path: str) -> str:
    return ntpath.normcase(ntpath.normpath(path))


def _normalised(path: str) -> str:
    try:
        normal = os.path.normcase(os.path.realpath(path))
    except ValueError:
        # A NUL, or a character that no file name has.
        normal = os.path.normcase(os.path.normpath(path))
    if sys.platform == "darwin":
        # The file systems of macOS take names that differ in case or composition for the same.
        return unicodedata.normalize("NFC", normal).casefold()
    return normal
