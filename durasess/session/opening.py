"""Opening a session: the engine with this layer's reducer, then recovery, written once.

A state that fails the self-check is refused before anything is written; whoever opens a store
keeps a copy of it (store/keeping.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from durasess.engine import codec
from durasess.engine.engine import Engine
from durasess.engine.lock import whoami
from durasess.engine.receipt import Receipt
from durasess.engine.types import Draft, Mode
from durasess.errors import CorruptionError, FormatVersionError
from durasess.session import events, selfcheck
from durasess.session.core import Core
from durasess.session.custom import Custom
from durasess.session.migrations import MIGRATIONS
from durasess.session.options import SessionOptions
from durasess.session.reducer import Reducer
from durasess.session.report import SessionReport, summary
from durasess.session.settling import settle_session, unsettled
from durasess.session.state import SessionState
from durasess.session.validation import validate

_SNAPSHOT_EVERY_IMPORTED = 20_000
"""Events between two snapshots of an import, which can be made again."""

_SEGMENT_BYTES_IMPORTED = 4 * 1024 * 1024


class SelfCheckError(CorruptionError):
    """The recovered state contradicts itself. `findings` says how; nothing was written."""

    def __init__(self, message: str, *, path: str, findings: tuple[str, ...]) -> None:
        super().__init__(message, path=path)
        self.findings = findings


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
        check=lambda state, seq: _check(path, state, seq, options.custom),
        clock=options.clock,
        files=options.files,
        scheduler=options.scheduler() if options.scheduler is not None else None,
    )
    try:
        core = Core(
            engine,
            reducer,
            options.tools,
            mask=options.mask,
            blob_bytes=options.blob_bytes,
            worker=_worker(engine, options),
            clock=options.clock,
        )
        if engine.worker_id:
            # Alone, what is open is this handle's own.
            core.recover = lambda: settle_session(core, options).was_interrupted
        report = unsettled(core)
        if mode != "read" and core.state.seq:
            report = settle_session(core, options)
        return core, report
    except BaseException:
        if mode != "read":
            engine.abandon()
        raise


def open_for_import(path: str, options: SessionOptions) -> Core:
    """Open a session for an importer, alone; make it when it is missing.

    Nothing is recovered and nothing is refused that the reducer takes: an importer writes what
    another program did, and closes itself what is open. Raises what Engine.open raises, and
    SelfCheckError.
    """
    reducer = Reducer(resident_messages=options.resident_messages, custom=options.custom)
    engine = Engine.open(
        path,
        initial=reducer.initial,
        apply=reducer.apply,
        mode="own",
        snapshot_every=max(options.snapshot_every, _SNAPSHOT_EVERY_IMPORTED),
        segment_bytes=_SEGMENT_BYTES_IMPORTED,
        lock_timeout=options.lock_timeout,
        schema_version=events.SCHEMA_VERSION,
        migrations=MIGRATIONS,
        state_type=SessionState,
        summary=summary,
        check=lambda state, seq: _check(path, state, seq, options.custom),
        clock=options.clock,
        files=options.files,
        scheduler=options.scheduler() if options.scheduler is not None else None,
    )
    return Core(
        engine,
        reducer,
        options.tools,
        mask=options.mask,
        blob_bytes=options.blob_bytes,
        worker={},
        clock=options.clock,
    )


def _worker(engine: Engine, options: SessionOptions) -> dict[str, Any]:
    """What `run_started` says of who works."""
    holder = whoami(codec.timestamp(options.clock()))
    return {
        "worker_id": engine.worker_id,
        "pid": holder.pid,
        "host": holder.host,
        "boot_id": holder.boot_id,
    }


def _check(path: str, state: SessionState, seq: int, custom: Custom) -> None:
    found = tuple(selfcheck.findings(state, seq))
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
    try:
        custom.migrated(state)
    except Exception as error:
        raise FormatVersionError(
            f"{path}: the custom state of version {state.custom_state_version} cannot be brought "
            f"to the program's {custom.version}: {error!r}. Nothing was changed; correct "
            "custom_migrations.",
            path=path,
        ) from error


def _validator(custom: Custom) -> Callable[[SessionState, Draft], None]:
    def check(state: SessionState, draft: Draft) -> None:
        validate(state, draft)
        custom.check(state, draft)

    return check
