"""Opening a session: the engine with this layer's reducer, then recovery, written once.

A state that fails the self-check is refused before anything is written; whoever opens a store
keeps a copy of it (store/keeping.py).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

import msgspec

from durasess.engine import codec
from durasess.engine.engine import Engine
from durasess.engine.lock import whoami
from durasess.engine.receipt import Receipt
from durasess.engine.types import LOCK_TIMEOUT_S, SNAPSHOT_EVERY, Draft, Mode
from durasess.errors import CorruptionError, EventRejectedError, FormatVersionError
from durasess.session import events, selfcheck
from durasess.session.core import Core, Mask, draft
from durasess.session.custom import Custom
from durasess.session.masking import mask_secrets
from durasess.session.migrations import MIGRATIONS
from durasess.session.out_of_line import THRESHOLD
from durasess.session.recovering import ChildSeen, Surroundings, recovery_drafts
from durasess.session.reducer import Reducer
from durasess.session.report import SessionReport, summary
from durasess.session.state import RESIDENT_MESSAGES, SessionState, ToolState
from durasess.session.tools import Tool
from durasess.session.validation import validate
from durasess.session.workspace import Workspace

_ROUNDS = 5


class SelfCheckError(CorruptionError):
    """The recovered state contradicts itself. `findings` says how; nothing was written."""

    def __init__(self, message: str, *, path: str, findings: tuple[str, ...]) -> None:
        super().__init__(message, path=path)
        self.findings = findings


class SessionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How sessions of a store work. `clock()` is in nanoseconds since 1970; `blob_bytes` is the
    size in bytes beyond which a value is stored out of line, 0 for never. `look_at` tells what
    became of a child session."""

    tools: Mapping[str, Tool] = msgspec.field(default_factory=dict)
    custom: Custom = Custom()
    mask: Mask | None = mask_secrets
    blob_bytes: int = THRESHOLD
    resident_messages: int = RESIDENT_MESSAGES
    snapshot_every: int = SNAPSHOT_EVERY
    lock_timeout: float = LOCK_TIMEOUT_S
    clock: Callable[[], int]
    look_at: Callable[[str], ChildSeen] = lambda session_id: ChildSeen("unreadable")


def open_core(
    path: str,
    options: SessionOptions,
    *,
    mode: Mode,
    create: bool = False,
    at_least: Receipt | None = None,
) -> tuple[Core, SessionReport]:
    """Open a session's directory and, as a writer, say what became of what was open.

    Raises what Engine.open raises, and SelfCheckError; FormatVersionError also when the program's
    own events are of a newer version than `options.custom` knows.
    """
    if options.resident_messages < 1:
        raise ValueError(f"resident_messages is 1 or more, not {options.resident_messages!r}")
    reducer = Reducer(resident_messages=options.resident_messages, custom=options.custom)
    engine = Engine.open(
        path,
        initial=reducer.initial,
        apply=reducer.apply,
        mode=mode,
        create=create,
        at_least=at_least,
        snapshot_every=options.snapshot_every,
        lock_timeout=options.lock_timeout,
        validate=_validator(options.custom),
        schema_version=events.SCHEMA_VERSION,
        migrations=MIGRATIONS,
        state_type=SessionState,
        summary=summary,
        check=lambda state: _check(path, state, options.custom),
        clock=options.clock,
    )
    try:
        holder = whoami(codec.timestamp(options.clock()))
        worker = {
            "worker_id": engine.worker_id,
            "pid": holder.pid,
            "host": holder.host,
            "boot_id": holder.boot_id,
        }
        core = Core(
            engine,
            reducer,
            options.tools,
            mask=options.mask,
            blob_bytes=options.blob_bytes,
            worker=worker,
            clock=options.clock,
        )
        report = SessionReport(log=engine.recovery)
        if mode != "read" and core.state.seq:
            report = _recover(core, options)
        return core, report
    except BaseException:
        if mode != "read":
            engine.abandon()
        raise


def _check(path: str, state: SessionState, custom: Custom) -> None:
    found = tuple(selfcheck.findings(state))
    if found:
        raise SelfCheckError(
            f"{path}: the recovered state contradicts itself: {'; '.join(found[:5])}"
            f"{f' and {len(found) - 5} more' if len(found) > 5 else ''}. Nothing was written. Look "
            'at it with mode="read" and `durasess inspect`.',
            path=path,
            findings=found,
        )
    if state.custom_version > custom.version:
        raise FormatVersionError(
            f"{path}: the program's own events have version {state.custom_version} here, this "
            f'program knows {custom.version}. Nothing was changed; mode="read" works. Upgrade the '
            "program.",
            path=path,
        )


def _validator(custom: Custom) -> Callable[[SessionState, Draft], None]:
    def check(state: SessionState, draft: Draft) -> None:
        validate(state, draft)
        custom.check(state, draft)

    return check


def _recover(core: Core, options: SessionOptions) -> SessionReport:
    """Where several open a session at once, one of them writes it."""
    written: list[Draft] = []
    for _ in range(_ROUNDS):
        drafts = recovery_drafts(core.state, _surroundings(core, options))
        if core.state.custom_version < core.custom.version:
            changed = events.CustomSchemaChanged(version=core.custom.version)
            drafts.append(draft(changed))
        if not drafts:
            break
        try:
            core.engine.append_many([core.prepared(one) for one in drafts])
        except EventRejectedError:
            core.engine.refresh()
            continue
        written = drafts
        break
    return _report(core, written)


def _surroundings(core: Core, options: SessionOptions) -> Surroundings:
    live = core.engine.live_workers() if core.engine.worker_id else {}
    workspace = Workspace(core.state.meta.workspace)
    return Surroundings(
        is_dead=lambda worker_id: worker_id not in live,
        tools=options.tools,
        now=options.clock(),
        settle_writes=workspace.settle,
        look_at=options.look_at,
    )


def _report(core: Core, written: list[Draft]) -> SessionReport:
    state = core.state
    run = next((one.run_id for one in written if one.type == "run_finished"), None)
    keys = [one.data["key"] for one in written if one.type == "tool_recovery"]
    calls: list[ToolState] = [state.tool_states[key] for key in keys if key in state.tool_states]
    path = state.meta.workspace
    return SessionReport(
        log=core.engine.recovery,
        interrupted_run=run or "",
        calls=tuple(calls),
        workspace_missing=bool(path) and not os.path.isdir(path),
    )
