"""The engine of a session: opened with this layer's reducer, versions and checks.

A state that fails the self-check is refused before anything is written. What becomes of what was
open when the last writer died is said in opening.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from durasess.engine import codec
from durasess.engine.engine import Engine
from durasess.engine.lock import whoami
from durasess.engine.receipt import Receipt
from durasess.engine.types import SEGMENT_BYTES, Draft, Mode
from durasess.errors import CorruptionError, FormatVersionError
from durasess.session import events, selfcheck
from durasess.session.core import Core
from durasess.session.custom import Custom
from durasess.session.migrations import MIGRATIONS
from durasess.session.options import SessionOptions
from durasess.session.reducer import Reducer
from durasess.session.report import summary
from durasess.session.state import SessionState

Validator = Callable[[SessionState, Draft], None]
"""Raises EventRejectedError for a draft that does not fit the state."""

_TOLD = 5
"""Findings of the self-check that a message tells."""


class SelfCheckError(CorruptionError):
    """The recovered state contradicts itself. `findings` says how; nothing was written."""

    def __init__(self, message: str, *, path: str, findings: tuple[str, ...]) -> None:
        super().__init__(message, path=path)
        self.findings = findings


def open_engine(
    path: str,
    options: SessionOptions,
    *,
    mode: Mode = "own",
    create: bool = False,
    at_least: Receipt | None = None,
    validate: Validator | None,
    custom: Custom | None,
    snapshot_every: int,
    segment_bytes: int = SEGMENT_BYTES,
) -> Core:
    """Open a session's directory and write nothing. `custom` is the program's part, checked against
    the state; None where the program is not there.

    Raises what Engine.open raises, and SelfCheckError; FormatVersionError also when the program's
    own events are of a newer version than `custom` knows.
    """
    reducer = Reducer(resident_messages=options.resident_messages, custom=options.custom)
    engine = Engine.open(
        path,
        initial=reducer.initial,
        apply=reducer.apply,
        mode=mode,
        create=create,
        at_least=at_least,
        snapshot_every=snapshot_every,
        segment_bytes=segment_bytes,
        lock_timeout=options.lock_timeout,
        validate=validate,
        schema_version=events.SCHEMA_VERSION,
        migrations=MIGRATIONS,
        state_type=SessionState,
        summary=summary,
        takes=options.custom.takes,
        check=lambda state, seq: _check(path, state, seq, custom),
        clock=options.clock,
        files=options.files,
        scheduler=options.scheduler() if options.scheduler is not None else None,
    )
    try:
        return Core(
            engine,
            reducer,
            options.tools,
            mask=options.mask,
            blob_bytes=options.blob_bytes,
            worker=_worker(engine, options),
            clock=options.clock,
        )
    except BaseException:
        if mode != "read":
            engine.abandon()
        raise


def _worker(engine: Engine, options: SessionOptions) -> dict[str, Any]:
    """What `run_started` says of who works."""
    holder = whoami(codec.timestamp(options.clock()))
    return {
        "worker_id": engine.worker_id,
        "pid": holder.pid,
        "host": holder.host,
        "boot_id": holder.boot_id,
    }


def _check(path: str, state: SessionState, seq: int, custom: Custom | None) -> None:
    found = tuple(selfcheck.findings(state, seq))
    if found:
        raise SelfCheckError(
            f"{path}: the recovered state contradicts itself: {'; '.join(found[:_TOLD])}"
            f"{f' and {len(found) - _TOLD} more' if len(found) > _TOLD else ''}. Nothing was "
            'written. Look at it with mode="read" and `durasess inspect`.',
            path=path,
            findings=found,
        )
    if custom is not None:
        _check_custom(path, state, custom)


def _check_custom(path: str, state: SessionState, custom: Custom) -> None:
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
