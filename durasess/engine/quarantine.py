"""Keeping bytes that recovery or repair takes out of a file: durable copies under quarantine/."""

from __future__ import annotations

from durasess.engine import codec, files, paths, publishing


def keep(disk: files.Files, directory: str, name: str, data: bytes, offset: int = 0) -> str:
    """Publish a copy of `data`, which stands in `name` at byte `offset`; returns its path.

    Durable when it returns. The same bytes get the same name, so a recovery that was interrupted
    and runs again keeps one copy.
    """
    folder = paths.join(directory, paths.QUARANTINE)
    if not publishing.exists(disk, folder):
        disk.mkdir(folder)
    # Also when it was there: whoever made it may have died before its name was durable.
    disk.sync_dir(directory)
    path = paths.join(folder, paths.quarantined(name, offset, codec.digest(data)))
    if not _is_kept(disk, path, data):
        publishing.write_tmp(disk, path + paths.TMP, data)
        disk.replace(path + paths.TMP, path)
    disk.sync_dir(folder)
    return path


def _is_kept(disk: files.Files, path: str, data: bytes) -> bool:
    try:
        return publishing.read_whole(disk, path) == data
    except FileNotFoundError:
        return False
