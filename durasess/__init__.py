"""Durable sessions for long-running agents: a log of events that survives a power cut."""

from durasess.engine.engine import Engine
from durasess.engine.receipt import Receipt
from durasess.engine.types import Damage, Draft, Event, Holder, Migration, Recovery, TornTail
from durasess.errors import (
    CorruptionError,
    DurasessError,
    EventRejectedError,
    FencedError,
    FileChangedError,
    FormatVersionError,
    PatchMismatchError,
    SessionClosedError,
    SessionExistsError,
    SessionFailedError,
    SessionLockedError,
    SessionNotFoundError,
    StorageError,
    WorkspaceNotFoundError,
)

__version__ = "0.1.0"

__all__ = (
    "CorruptionError",
    "Damage",
    "Draft",
    "DurasessError",
    "Engine",
    "Event",
    "EventRejectedError",
    "FencedError",
    "FileChangedError",
    "FormatVersionError",
    "Holder",
    "Migration",
    "PatchMismatchError",
    "Receipt",
    "Recovery",
    "SessionClosedError",
    "SessionExistsError",
    "SessionFailedError",
    "SessionLockedError",
    "SessionNotFoundError",
    "StorageError",
    "TornTail",
    "WorkspaceNotFoundError",
    "__version__",
)
