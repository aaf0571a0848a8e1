"""How the sessions of a store work: what the program declared, limits, the clock. Plain values."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from durasess.engine.disk import Files
from durasess.engine.scheduler import Scheduler
from durasess.engine.types import LOCK_TIMEOUT_S, SNAPSHOT_EVERY
from durasess.session.core import Mask
from durasess.session.custom import Custom
from durasess.session.masking import mask_secrets
from durasess.session.out_of_line import THRESHOLD
from durasess.session.recovering import ChildSeen
from durasess.session.state import RESIDENT_MESSAGES
from durasess.session.tools import Tool


class SessionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How sessions of a store work. `clock()` is in nanoseconds since 1970; `blob_bytes` is the
    size in bytes beyond which a value is stored out of line, 0 for never. `look_at` tells what
    became of a child session. `files` and `scheduler()`: for tests."""

    tools: Mapping[str, Tool] = msgspec.field(default_factory=dict)
    custom: Custom = Custom()
    mask: Mask | None = mask_secrets
    blob_bytes: int = THRESHOLD
    resident_messages: int = RESIDENT_MESSAGES
    snapshot_every: int = SNAPSHOT_EVERY
    lock_timeout: float = LOCK_TIMEOUT_S
    clock: Callable[[], int]
    look_at: Callable[[str], ChildSeen] = lambda session_id: ChildSeen("unreadable")
    files: Files | None = None
    scheduler: Callable[[], Scheduler] | None = None
