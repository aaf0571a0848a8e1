"""Opening a session: what was open when its last writer died is said, written once.

How the engine below is opened, and what of a state is refused, is in engines.py; whoever opens a
store keeps a copy of what is refused (store/keeping.py).
"""

from __future__ import annotations

from durasess.engine.receipt import Receipt
from durasess.engine.types import Draft, Mode
from durasess.session.core import Core
from durasess.session.custom import Custom
from durasess.session.engines import Validator, open_engine
from durasess.session.options import SessionOptions
from durasess.session.report import SessionReport
from durasess.session.settling import settle_session, unsettled
from durasess.session.state import SessionState
from durasess.session.validation import validate

_SNAPSHOT_EVERY_IMPORTED = 20_000
"""Events between two snapshots of an import, which can be made again."""

_SEGMENT_BYTES_IMPORTED = 4 * 1024 * 1024


def open_core(
    path: str,
    options: SessionOptions,
    *,
    mode: Mode,
    create: bool = False,
    at_least: Receipt | None = None,
) -> tuple[Core, SessionReport]:
    """Open a session's directory and, as a writer, say what became of what was open. Raises as
    `open_engine`."""
    if options.resident_messages < 1:
        raise ValueError(f"resident_messages is 1 or more, not {options.resident_messages!r}")
    core = open_engine(
        path,
        options,
        mode=mode,
        create=create,
        at_least=at_least,
        validate=_validator(options.custom),
        custom=options.custom,
        snapshot_every=options.snapshot_every,
    )
    try:
        if core.engine.worker_id:
            # Alone, what is open is this handle's own.
            core.recover = lambda: settle_session(core, options).was_interrupted
        report = unsettled(core)
        if mode != "read" and core.state.seq:
            report = settle_session(core, options, found=core.engine.recovery)
        return core, report
    except BaseException:
        if mode != "read":
            core.engine.abandon()
        raise


def open_for_import(path: str, options: SessionOptions) -> Core:
    """Open a session for an importer, alone; make it when it is missing.

    Nothing is recovered and nothing is refused that the reducer takes: an importer writes what
    another program did, and closes itself what is open. Raises as `open_engine`.
    """
    return open_engine(
        path,
        options,
        create=True,
        validate=None,
        custom=options.custom,
        snapshot_every=max(options.snapshot_every, _SNAPSHOT_EVERY_IMPORTED),
        segment_bytes=_SEGMENT_BYTES_IMPORTED,
    )


def _validator(custom: Custom) -> Validator:
    def check(state: SessionState, draft: Draft) -> None:
        validate(state, draft)
        custom.check(state, draft)

    return check
