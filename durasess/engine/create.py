"""Making a session directory: built under a dot name, synced, renamed (R4)."""

from __future__ import annotations

import contextlib
import errno

from durasess.engine import files, lock, meta, paths, publishing, survey
from durasess.errors import SessionExistsError, StorageError


def create(
    disk: files.Files, directory: str, *, created: str, schema_version: int, token: str
) -> None:
    """A new empty session at `directory`, which must not exist or be an empty directory.

    After a crash it is there whole or not at all; the parent is synced by the open that follows,
    before it takes an event, since another process may have made what it opens. `token` makes the
    dot name unique. Raises SessionExistsError when something is there, StorageError when the
    system refuses.
    """
    claimed = meta.Meta(
        session_id=survey.session_id_of(directory),
        schema_version=schema_version,
        created=created,
        updated=created,
    )
    building = paths.building(directory, token)
    try:
        disk.mkdir(building)
        try:
            meta.publish(disk, building, claimed)
            lock.create(disk, building)
            disk.sync_dir(building)
            disk.replace(building, directory)
        except BaseException:
            _remove(disk, building)
            raise
    except OSError as error:
        raise _refused(error, directory) from error


def _remove(disk: files.Files, building: str) -> None:
    """Take back what was built; what cannot be taken back has a dot name and harms nobody."""
    for name in (paths.META, paths.META + paths.TMP, paths.OWNER, paths.LOCK):
        publishing.discard(disk, paths.join(building, name))
    with contextlib.suppress(OSError):
        disk.rmdir(building)


def _refused(error: OSError, directory: str) -> SessionExistsError | StorageError:
    if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
        return SessionExistsError(
            f"{directory} exists already and holds something; it was left alone.", path=directory
        )
    parent = paths.parent(directory)
    hint = f" Make {parent} first." if error.errno == errno.ENOENT else ""
    return StorageError(
        f"a session cannot be made at {directory}: {error}.{hint} Nothing was left behind.",
        path=directory,
        errno=error.errno,
    )
