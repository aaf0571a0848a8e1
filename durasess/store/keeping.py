"""A copy of a session that fails its self-check, so that what is done to it next loses nothing.

The session itself stays as it is, as after every failed open.
"""

from __future__ import annotations

from durasess.engine import paths, publishing
from durasess.engine.files import Files

QUARANTINE = ".quarantine"
"""The store's own directory for such copies."""

_CHUNK = 1 << 20
"""Bytes that are copied at once."""


def keep_copy(disk: Files, root: str, session_id: str) -> str:
    """Copy the session's files to `<root>/.quarantine/<session_id>.<n>`; the path. One copy of each
    state is enough: a copy with the same names and sizes is taken for the same.

    Raises OSError when the system refuses.
    """
    source = paths.join(root, session_id)
    folder = paths.join(root, QUARANTINE)
    if not publishing.exists(disk, folder):
        disk.mkdir(folder)
    shape = _shape(disk, source)
    number = 1
    while publishing.exists(disk, target := paths.join(folder, f"{session_id}.{number}")):
        if _shape(disk, target) == shape:
            return target
        number += 1
    _copy(disk, source, target)
    disk.sync_dir(folder)
    return target


def _shape(disk: Files, directory: str) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    for name in sorted(disk.listdir(directory)):
        path = paths.join(directory, name)
        stat = disk.stat(path)
        if stat.directory:
            found += [(f"{name}/{inside}", size) for inside, size in _shape(disk, path)]
        else:
            found.append((name, stat.size))
    return found


def _copy(disk: Files, source: str, target: str) -> None:
    disk.mkdir(target)
    for name in sorted(disk.listdir(source)):
        inside, copy = paths.join(source, name), paths.join(target, name)
        if disk.stat(inside).directory:
            _copy(disk, inside, copy)
        else:
            _copy_file(disk, inside, copy)
    disk.sync_dir(target)


def _copy_file(disk: Files, source: str, target: str) -> None:
    reading = disk.open(source)
    try:
        writing = disk.create(target)
        try:
            offset = 0
            while data := disk.read_at(reading, _CHUNK, offset):
                publishing.write_all(disk, writing, data, offset)
                offset += len(data)
            disk.sync(writing)
        finally:
            disk.close(writing)
    finally:
        disk.close(reading)
