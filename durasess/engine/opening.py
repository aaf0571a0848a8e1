"""Opening a session: lock, read, settle, and the writer that goes on; or just read.

A failed open changes nothing on disk: everything that writes comes after everything that can
refuse.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import msgspec

from durasess.engine import codec, create, files, lock, paths, publishing, recovery, survey, workers
from durasess.engine.aftermath import settle_found
from durasess.engine.assembly import Tenure
from durasess.engine.drafting import Drafting
from durasess.engine.fold import Fold
from durasess.engine.patience import look_until_settled, vanished
from durasess.engine.receipt import Receipt
from durasess.engine.scheduler import Scheduler
from durasess.engine.types import Holder, Mode, Settings
from durasess.engine.writer import Writer
from durasess.errors import (
    CorruptionError,
    SessionExistsError,
    SessionLockedError,
    SessionNotFoundError,
    StorageError,
)

ENDLESS_S = 1e9
"""Seconds that no machine lives: what is allowed to take longer is waited for without an end."""

SHORTEST_S = 0.05
"""Seconds that a caller gives its own committer to begin."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What opening needs to know: `lock_timeout` in seconds; `token()` gives a unique part of a
    file name. `check(state, seq)` may refuse the state after seq before anything is settled."""

    disk: files.Files
    directory: str
    fold: Fold
    settings: Settings
    at_least: Receipt | None
    create: bool
    mode: Mode
    lock_timeout: float
    token: Callable[[], str]
    check: Callable[[Any, int], None] | None = None
    drafting: Drafting = Drafting()

    @property
    def patience(self) -> float | None:
        """How long a caller waits, in seconds, for its work to begin; None without end: a writer
        that owns its session waits for nobody."""
        if self.mode != "shared" or self.lock_timeout >= ENDLESS_S:
            return None
        return max(self.lock_timeout, SHORTEST_S)


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


class Opened:
    """Where an opening puts what it made, at once: nothing can fail between making and keeping."""

    __slots__ = ("found", "writer")

    def __init__(self) -> None:
        self.found: recovery.Recovered | None = None
        self.writer: Writer | None = None


def open_for_writing(options: Options, scheduler: Scheduler, opened: Opened) -> None:
    """Own the session, read it, settle an unclean end.

    Raises SessionNotFoundError, SessionLockedError, CorruptionError, FormatVersionError and
    StorageError; in each case nothing was changed.
    """
    created = _create_if_missing(options)
    owner_fd = _own(options)
    try:
        opened.found = found = _recover(options)
        found.report.created = created
        opened.writer = _settled_writer(options, scheduler, found, owner_fd)
    except OSError as error:
        publishing.give_back(options.disk, owner_fd)
        raise _not_opened(options, error) from error
    except BaseException:
        if opened.writer is None:
            publishing.give_back(options.disk, owner_fd)
        raise


def _not_opened(options: Options, error: OSError) -> StorageError:
    return StorageError(
        f"{options.directory} cannot be opened for writing: {error}. Nothing was lost; "
        "open again when the cause is gone.",
        path=options.directory,
        errno=error.errno,
    )


def _create_if_missing(options: Options) -> bool:
    """Whether the session was made now."""
    survey.session_id_of(options.directory)
    if options.create:
        # Whatever it raises comes before a session is made.
        options.fold.initial()
    try:
        stat = options.disk.stat(options.directory)
        if not options.create or not stat.directory or options.disk.listdir(options.directory):
            return False
    except FileNotFoundError:
        if not options.create:
            raise SessionNotFoundError(
                f'there is no session at {options.directory}. Look for it with "durasess list", or '
                "make it: Store.create and open_or_create do, and Engine.open unless create=False.",
                path=options.directory,
            ) from None
    except OSError as error:
        raise survey.unreadable(options.directory, error) from error
    try:
        create.create(
            options.disk,
            options.directory,
            created=codec.timestamp(options.settings.clock()),
            schema_version=options.fold.schema_version,
            token=options.token(),
        )
    except SessionExistsError:
        # Another process made it meanwhile, and may let go of it before it is locked here.
        return False
    return True


def _own(options: Options) -> int:
    try:
        return _acquire_owner(options)
    except FileNotFoundError:
        # Somebody removed the lock file. It is made again only for a session that is sound.
        _recover(options)
    except OSError as error:
        raise survey.unreadable(options.directory, error) from error
    try:
        lock.create(options.disk, options.directory)
        return _acquire_owner(options)
    except OSError as error:
        raise survey.unreadable(options.directory, error) from error


def _acquire_owner(options: Options) -> int:
    """Of those that share the session the last to come may be gone: a live one is named."""
    try:
        return lock.acquire_owner(options.disk, options.directory)
    except SessionLockedError:
        live = workers.others(options.disk, options.directory)
        if not live:
            raise
        raise lock.owned_error(
            options.disk, options.directory, sharing=[seen.holder for seen in live]
        ) from None


def _recover(options: Options) -> recovery.Recovered:
    found = recovery.recover(
        options.disk, options.directory, options.fold, at_least=options.at_least, writer=True
    )
    recovery.refuse(found)
    if options.check is not None:
        options.check(found.state, found.place.seq)
    return found


def _settled_writer(
    options: Options, scheduler: Scheduler, found: recovery.Recovered, owner_fd: int
) -> Writer:
    disk, directory = options.disk, options.directory
    lock.create(disk, directory)
    lock_fd = disk.open(paths.join(directory, paths.LOCK), write=True)
    try:
        _settle(options, found)
        holder = lock.whoami(codec.timestamp(options.settings.clock()))
        lock.write_holder(disk, owner_fd, holder)
        tenure = Tenure(owner_fd, lock_fd)
        return Writer(disk, found, options.fold, options.settings, scheduler, tenure, holder)
    except BaseException:
        publishing.give_back(disk, lock_fd)
        raise


def _settle(options: Options, found: recovery.Recovered) -> None:
    try:
        settle_found(options.disk, found)
    except BaseException:
        with contextlib.suppress(OSError):
            options.disk.rmdir(paths.join(options.directory, paths.QUARANTINE))
        raise


def open_for_sharing(options: Options, scheduler: Scheduler, opened: Opened) -> None:
    """Join the writers of the session; who finds none settles an unclean end, as an owner does.

    Raises as `open_for_writing`, and SessionLockedError when another writer's turn lasts too long.
    """
    created = _create_if_missing(options)
    try:
        lock_fd = _turn(options)
    except OSError as error:
        raise survey.unreadable(options.directory, error) from error
    tenure = writer = None
    try:
        found, tenure, holder = _join(options, lock_fd)
        found.report.created = created
        writer = Writer(
            options.disk, found, options.fold, options.settings, scheduler, tenure, holder
        )
        options.disk.unlock(lock_fd)
        opened.found, opened.writer = found, writer
    except OSError as error:
        _leave(options, lock_fd, tenure, writer)
        raise _not_opened(options, error) from error
    except BaseException:
        _leave(options, lock_fd, tenure, writer)
        raise


def _leave(options: Options, lock_fd: int, tenure: Tenure | None, writer: Writer | None) -> None:
    if writer is not None:
        writer.release()
        return
    if tenure is not None and tenure.worker is not None:
        workers.discard(options.disk, options.directory, tenure.worker)
        publishing.give_back(options.disk, tenure.worker.fd, tenure.owner_fd)
    publishing.give_back(options.disk, lock_fd)


def _turn(options: Options) -> int:
    disk, directory = options.disk, options.directory
    try:
        return lock.acquire_turn(disk, directory, wait_s=options.lock_timeout)
    except FileNotFoundError:
        _recover(options)
        lock.create(disk, directory)
        return lock.acquire_turn(disk, directory, wait_s=options.lock_timeout)


def _join(options: Options, lock_fd: int) -> tuple[recovery.Recovered, Tenure, Holder]:
    """In this writer's first turn."""
    disk, directory = options.disk, options.directory
    lock.create(disk, directory)
    owner_fd = lock.acquire_owner(disk, directory, shared=True)
    worker = None
    try:
        found = _recover(options)
        anchor = lock.anchor_in(disk, lock_fd, found.claims.session_id)
        # In a turn nobody joins, so nobody is there whose file is not.
        alone = not workers.others(disk, directory)
        torn = found.report.torn is not None
        if alone or torn or anchor is None or anchor.phase != lock.IDLE:
            _settle(options, found)
        elif found.unsealed is not None:
            found.unsealed.remembered.forget()
        holder = lock.whoami(codec.timestamp(options.settings.clock()))
        workers.sweep(disk, directory)
        worker = workers.register(disk, directory, options.token(), holder)
        lock.write_holder(disk, owner_fd, holder)
        lock.write_anchor(disk, lock_fd, _anchor_of(found))
    except BaseException:
        if worker is not None:
            workers.discard(disk, directory, worker)
            publishing.give_back(disk, worker.fd)
        publishing.give_back(disk, owner_fd)
        raise
    return found, Tenure(owner_fd, lock_fd, worker), holder


def _anchor_of(found: recovery.Recovered) -> lock.Anchor:
    """Where the log ended, as a turn that ends says it."""
    place = found.place
    end = size = 0
    if not found.settled and found.unsealed is not None and found.unsealed.seal is None:
        end, size = found.unsealed.end, found.unsealed.end + found.unsealed.filler
    return lock.Anchor(
        found.claims.session_id,
        found.next_segment - 1,
        place.seq,
        codec.hexed(place.chain),
        lock.IDLE,
        end,
        size,
    )
