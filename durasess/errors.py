"""The exception tree: one class for each thing a caller does next.

DurasessError
├── SessionNotFoundError    create it, or look for the right path
├── SessionExistsError      choose another id, or open it
├── SessionLockedError      wait for the holder, or open it for reading
├── SessionClosedError      the handle was closed: open again
├── SessionFailedError      an earlier write failed: close and open again
├── FencedError             another writer took the log over: open again
├── OutcomeUnknownError     it was started and has no result: look at the world, then settle it
├── EventRejectedError      the data can't be stored; nothing was written: change the data
├── CorruptionError         bytes break a rule of FORMAT.md: inspect, then repair
├── FormatVersionError      written by a newer durasess: upgrade
├── StorageError            the system refused: the cause is kept
├── WorkspaceNotFoundError  the stored workspace is gone: bind another
├── FileChangedError        the file is not what was read: read it again
└── PatchMismatchError      the text to replace was not found once: read it again

Every error carries `path`, `offset` (bytes from the start of that file) and `seq`, each None where
it has no meaning, and survives pickling with all its attributes.
"""

from __future__ import annotations

from typing import Any

__all__ = (
    "CorruptionError",
    "DurasessError",
    "EventRejectedError",
    "FencedError",
    "FileChangedError",
    "FormatVersionError",
    "OutcomeUnknownError",
    "PatchMismatchError",
    "SessionClosedError",
    "SessionExistsError",
    "SessionFailedError",
    "SessionLockedError",
    "SessionNotFoundError",
    "StorageError",
    "WorkspaceNotFoundError",
)


class DurasessError(Exception):
    """The root: catch it to catch everything this library raises on purpose."""

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        offset: int | None = None,
        seq: int | None = None,
    ) -> None:
        super().__init__(message)
        self.path = path
        self.offset = offset
        self.seq = seq

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, self.__dict__)

    def again(self) -> DurasessError:
        """The same error as a new object, to be raised at another place: one that is raised again
        and again keeps every traceback alive."""
        rebuild, arguments = self.__reduce__()
        fresh: DurasessError = rebuild(*arguments)
        fresh.__cause__ = self.__cause__
        if hasattr(fresh, "__notes__"):
            fresh.__notes__ = list(fresh.__notes__)
        return fresh


def _rebuild(cls: type[DurasessError], args: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(attributes)
    return error


class SessionNotFoundError(DurasessError):
    """There is no session at this path."""


class SessionExistsError(DurasessError):
    """A session with this id is there already; it was left alone."""


class SessionLockedError(DurasessError):
    """Another handle has the session open for writing.

    `holder` is what the other side wrote about itself (pid, host, start time, command), or None
    when it could not be read. The kernel's lock decides, never this text.
    """

    def __init__(self, message: str, *, holder: Any = None, path: str | None = None) -> None:
        super().__init__(message, path=path)
        self.holder = holder


class SessionClosedError(DurasessError):
    """The handle was closed, or belongs to the process that this one was forked from."""


class SessionFailedError(DurasessError):
    """An earlier write or sync failed, so this handle takes no more events.

    `unknown` is the range (first seq, last seq) of events whose outcome is not known, or None when
    every outcome is known.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        offset: int | None = None,
        seq: int | None = None,
        unknown: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(message, path=path, offset=offset, seq=seq)
        self.unknown = unknown


class FencedError(DurasessError):
    """Another writer, or a hand, changed the log under this handle; it writes no more."""


class OutcomeUnknownError(DurasessError):
    """An operation was started and has no result, so it is not run again by itself (P9)."""


class EventRejectedError(DurasessError):
    """The data cannot be stored as it is. Nothing was written and no seq was used."""


class CorruptionError(DurasessError):
    """Bytes on disk break a rule of FORMAT.md in a way no crash can. Nothing was changed.

    `report` is the recovery report with every finding, or None when only one thing was read.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        offset: int | None = None,
        seq: int | None = None,
        report: Any = None,
    ) -> None:
        super().__init__(message, path=path, offset=offset, seq=seq)
        self.report = report


class FormatVersionError(DurasessError):
    """The session was written in a newer format or schema than this code knows."""


class StorageError(DurasessError):
    """The operating system refused. The OSError is kept as `__cause__`, its number as `errno`."""

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        offset: int | None = None,
        seq: int | None = None,
        errno: int | None = None,
    ) -> None:
        super().__init__(message, path=path, offset=offset, seq=seq)
        self.errno = errno


class WorkspaceNotFoundError(DurasessError):
    """The directory that the session works in is not there."""


class FileChangedError(DurasessError):
    """A workspace file is not what this session read last."""


class PatchMismatchError(DurasessError):
    """The text to replace does not occur exactly once."""
