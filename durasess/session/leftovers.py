"""Temporary files of workspace writes: how they are named, and how those go that a killed process
left behind. Making one and giving it its name is in planned_write."""

from __future__ import annotations

import os
import re
import threading
from typing import Any

from durasess.engine import codec, publishing
from durasess.engine.disk import Files
from durasess.errors import DurasessError
from durasess.session.workspace_paths import locate

_NAME = re.compile(r"\.([0-9a-f]{16})\.([0-9]+)-([0-9a-f]+)\.tmp")


def tmp_path(path: str) -> str:
    """A short name in the same directory that only this thread uses for this file."""
    directory = os.path.dirname(path)
    name = f".{_hash(path)}.{os.getpid()}-{threading.get_ident():x}.tmp"
    return os.path.join(directory, name)


def discard_leftovers(root: str, writes: list[dict[str, Any]], *, pid: int, files: Files) -> None:
    """Remove what the dead process `pid` left beside the files that it was about to write, by
    records of planned writes. A process that restarts in a container often has the number of the
    one before; what another thread of this process is writing stays. Never raises for what is not
    there or cannot be removed."""
    for write in writes:
        try:
            path = locate(root, write["path"]).path
            names = files.listdir(os.path.dirname(path))
        except (DurasessError, OSError, KeyError, TypeError):
            continue
        for name in names:
            found = _NAME.fullmatch(name)
            if found is None or found[1] != _hash(path) or int(found[2]) != pid:
                continue
            if pid != os.getpid() or int(found[3], 16) not in _other_threads():
                publishing.discard(files, os.path.join(os.path.dirname(path), name))


def _hash(path: str) -> str:
    return codec.digest(os.fsencode(path))[:16]


def _other_threads() -> set[int | None]:
    return {one.ident for one in threading.enumerate()} - {threading.get_ident()}
