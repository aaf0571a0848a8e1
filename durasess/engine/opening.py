"""Opening a session: lock, read, settle, and the writer that goes on; or just read.

A failed open changes nothing on disk: everything that writes comes after everything that can
refuse.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import msgspec

from durasess.engine import codec, create, files, lock, paths, recovery, settle, survey
from durasess.engine.commit import Scheduler
from durasess.engine.fold import Fold
from durasess.engine.patience import look_until_settled, vanished
from durasess.engine.receipt import Receipt
from durasess.engine.types import Settings
from durasess.engine.writer import Writer
from durasess.errors import (
    CorruptionError,
    SessionExistsError,
    SessionNotFoundError,
    StorageError,
)


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What opening needs to know. `token()` gives a unique file name part."""

    disk: files.Files
    directory: str
    fold: Fold
    settings: Settings
    at_least: Receipt | None
    create: bool
    token: Callable[[], str]


def open_for_reading(options: Options) -> recovery.Recovered:
    """What is written now. Takes no lock and changes nothing."""
    return look_until_settled(
        lambda: recovery.recover(
            options.disk,
            options.directory,
            options.fold,
            at_least=options.at_least,
            writer=False,
        ),
        lambda found: [str(one) for one in found.report.damage],
        passing=lambda error: isinstance(error, CorruptionError) or vanished(error),
    )


def open_for_writing(options: Options, scheduler: Scheduler) -> tuple[Writer, recovery.Recovered]:
    """Own the session, read it, settle an unclean end.

    Raises SessionNotFoundError, SessionLockedError, CorruptionError, FormatVersionError and
    StorageError; in each case nothing was changed.
    """
    survey.session_id_of(options.directory)
    if options.create:
        # Whatever it raises comes before a session is made.
        options.fold.initial()
    created = _create_if_missing(options)
    owner_fd = _own(options)
    try:
        found = _recover(options)
        found.report.created = created
        writer = _settled_writer(options, scheduler, found, owner_fd)
    except OSError as error:
        options.disk.close(owner_fd)
        raise StorageError(
            f"{options.directory} cannot be opened for writing: {error}. Nothing was lost; "
            "open again when the cause is gone.",
            path=options.directory,
            errno=error.errno,
        ) from error
    except BaseException:
        options.disk.close(owner_fd)
        raise
    return writer, found


def _create_if_missing(options: Options) -> bool:
    """Whether the session was made now."""
    try:
        stat = options.disk.stat(options.directory)
        if not options.create or not stat.directory or options.disk.listdir(options.directory):
            return False
    except FileNotFoundError:
        if not options.create:
            raise SessionNotFoundError(
                f"there is no session at {options.directory}.", path=options.directory
            ) from None
    except OSError as error:
        raise _unreadable(options, error) from error
    try:
        create.create(
            options.disk,
            options.directory,
            created=codec.timestamp(options.settings.clock()),
            schema_version=options.fold.schema_version,
            token=options.token(),
        )
    except SessionExistsError:
        # Another process made it in this moment; it may be ours in the next.
        return False
    return True


def _unreadable(options: Options, error: OSError) -> StorageError:
    return StorageError(
        f"{options.directory} cannot be read: {error}. Nothing was changed.",
        path=options.directory,
        errno=error.errno,
    )


def _own(options: Options) -> int:
    try:
        return lock.acquire_owner(options.disk, options.directory)
    except FileNotFoundError:
        # Somebody removed the lock file. It is made again only for a session that is sound.
        _recover(options)
    except OSError as error:
        raise _unreadable(options, error) from error
    try:
        lock.create(options.disk, options.directory)
        return lock.acquire_owner(options.disk, options.directory)
    except OSError as error:
        raise _unreadable(options, error) from error


def _recover(options: Options) -> recovery.Recovered:
    found = recovery.recover(
        options.disk, options.directory, options.fold, at_least=options.at_least, writer=True
    )
    recovery.refuse(found)
    return found


def _settled_writer(
    options: Options, scheduler: Scheduler, found: recovery.Recovered, owner_fd: int
) -> Writer:
    disk, directory = options.disk, options.directory
    lock.create(disk, directory)
    anchor_fd = disk.open(paths.join(directory, paths.LOCK), write=True)
    try:
        _settle(options, found)
        holder = lock.whoami(codec.timestamp(options.settings.clock()))
        lock.write_holder(disk, owner_fd, holder)
    except BaseException:
        disk.close(anchor_fd)
        with contextlib.suppress(OSError):
            disk.rmdir(paths.join(directory, paths.QUARANTINE))
        raise
    return Writer(
        disk,
        found,
        options.fold,
        options.settings,
        scheduler,
        owner_fd=owner_fd,
        anchor_fd=anchor_fd,
        holder=holder,
    )


def _settle(options: Options, found: recovery.Recovered) -> None:
    """The log first; what is only tidying comes when that worked."""
    disk, directory = options.disk, options.directory
    if found.place.seq == 0:
        # Whoever made the session may have died before its name was durable.
        disk.sync_dir(paths.parent(directory))
    found.report.quarantined += settle.keep_bad_files(disk, found.claims)
    if found.unsealed is not None and found.unsealed_source is not None:
        unsealed = settle.Unsealed(
            path=found.unsealed_source.path,
            number=found.unsealed_source.number,
            inode=found.unsealed_source.inode,
            size=found.unsealed_source.size,
            scan=found.unsealed,
            kept=found.kept,
            place=found.place,
        )
        found.report.quarantined += settle.copy_forward(disk, directory, unsealed)
    settle.leftovers(disk, directory, found.next_segment)
