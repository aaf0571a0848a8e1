"""Durable sessions for long-running agents: what a harness recorded survives a power cut."""

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
from durasess.session.async_session import AsyncSession
from durasess.session.bus import Delivery, Subscription
from durasess.session.context import Context
from durasess.session.masking import mask_secrets
from durasess.session.report import SessionReport
from durasess.session.session import Session
from durasess.session.state import Message, SessionState, ToolState, Usage
from durasess.session.tools import Tool
from durasess.session.workspace import FileContent, Workspace
from durasess.store.store import Store

__version__ = "0.1.0"

__all__ = (
    "AsyncSession",
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
    "OutcomeUnknownError",
    "PatchMismatchError",
    "Receipt",
    "Recovery",
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
    "Subscription",
    "Tool",
    "ToolState",
    "TornTail",
    "Usage",
    "Workspace",
    "WorkspaceNotFoundError",
    "__version__",
    "mask_secrets",
)
