"""Durable sessions for long-running agents: what a harness recorded survives a power cut.

A name is imported when it is first asked for, so `import durasess` itself costs next to nothing.
"""

import importlib
import typing

if typing.TYPE_CHECKING:
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
        OutcomeUnknownError,
        PatchMismatchError,
        SessionClosedError,
        SessionExistsError,
        SessionFailedError,
        SessionLockedError,
        SessionNotFoundError,
        StorageError,
        WorkspaceNotFoundError,
    )
    from durasess.session.async_call import AsyncToolCall
    from durasess.session.async_run import AsyncRun
    from durasess.session.async_session import AsyncSession
    from durasess.session.async_stream import AsyncStream
    from durasess.session.bus import Subscription
    from durasess.session.call import ToolCall
    from durasess.session.context import Context
    from durasess.session.deliveries import Delivery
    from durasess.session.masking import mask_secrets
    from durasess.session.open_calls import AsyncOpenCall, OpenCall
    from durasess.session.report import SessionReport
    from durasess.session.run import Run
    from durasess.session.session import Session
    from durasess.session.state import Message, SessionState, ToolState, Usage
    from durasess.session.stream import Stream
    from durasess.session.tools import Tool
    from durasess.session.workspace import FileContent, Workspace
    from durasess.store.store import Store

__version__ = "0.1.0"

__all__ = (
    "AsyncOpenCall",
    "AsyncRun",
    "AsyncSession",
    "AsyncStream",
    "AsyncToolCall",
    "Context",
    "CorruptionError",
    "Damage",
    "Delivery",
    "Draft",
    "DurasessError",
    "Engine",
    "Event",
    "EventRejectedError",
    "FencedError",
    "FileChangedError",
    "FileContent",
    "FormatVersionError",
    "Holder",
    "Message",
    "Migration",
    "OpenCall",
    "OutcomeUnknownError",
    "PatchMismatchError",
    "Receipt",
    "Recovery",
    "Run",
    "Session",
    "SessionClosedError",
    "SessionExistsError",
    "SessionFailedError",
    "SessionLockedError",
    "SessionNotFoundError",
    "SessionReport",
    "SessionState",
    "StorageError",
    "Store",
    "Stream",
    "Subscription",
    "Tool",
    "ToolCall",
    "ToolState",
    "TornTail",
    "Usage",
    "Workspace",
    "WorkspaceNotFoundError",
    "__version__",
    "mask_secrets",
)

_NAMES_OF = {
    "durasess.engine.engine": ("Engine",),
    "durasess.engine.receipt": ("Receipt",),
    "durasess.engine.types": (
        "Damage",
        "Draft",
        "Event",
        "Holder",
        "Migration",
        "Recovery",
        "TornTail",
    ),
    "durasess.errors": (
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
    ),
    "durasess.session.async_call": ("AsyncToolCall",),
    "durasess.session.async_run": ("AsyncRun",),
    "durasess.session.async_session": ("AsyncSession",),
    "durasess.session.async_stream": ("AsyncStream",),
    "durasess.session.bus": ("Subscription",),
    "durasess.session.call": ("ToolCall",),
    "durasess.session.context": ("Context",),
    "durasess.session.deliveries": ("Delivery",),
    "durasess.session.masking": ("mask_secrets",),
    "durasess.session.open_calls": (
        "AsyncOpenCall",
        "OpenCall",
    ),
    "durasess.session.report": ("SessionReport",),
    "durasess.session.run": ("Run",),
    "durasess.session.session": ("Session",),
    "durasess.session.state": (
        "Message",
        "SessionState",
        "ToolState",
        "Usage",
    ),
    "durasess.session.stream": ("Stream",),
    "durasess.session.tools": ("Tool",),
    "durasess.session.workspace": (
        "FileContent",
        "Workspace",
    ),
    "durasess.store.store": ("Store",),
}
"""Module → the public names that it defines."""

_HOME_OF = {name: home for home, names in _NAMES_OF.items() for name in names}


def __getattr__(name: str) -> typing.Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(home), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
