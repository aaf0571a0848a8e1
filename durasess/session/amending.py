"""A few events added to a closed session: its name, its place, what a fork says of itself.

Not an opening: what was open when its last writer died stays for the program to recover, which
knows its tools; and no snapshot is taken, since the program's own reducers may be unknown here.
"""

from __future__ import annotations

from collections.abc import Callable

from durasess.engine import codec
from durasess.engine.engine import Engine
from durasess.engine.lock import whoami
from durasess.engine.types import Draft
from durasess.errors import CorruptionError
from durasess.session import events, selfcheck
from durasess.session.core import Core
from durasess.session.migrations import MIGRATIONS
from durasess.session.options import SessionOptions
from durasess.session.reducer import Reducer
from durasess.session.report import summary
from durasess.session.state import SessionState
from durasess.session.validation import validate

_NEVER = 1 << 60
"""Events between two snapshots."""

_BATCH = 1000
"""Events of one write."""


def amend(
    path: str, options: SessionOptions, drafts: Callable[[SessionState], list[Draft]]
) -> SessionState:
    """Own the session, write what `drafts` makes of its state, let go; the state then.

    Nothing is written when it makes nothing. Raises what opening for writing raises, a
    SessionLockedError that names the holder among them, and EventRejectedError.
    """
    reducer = Reducer(resident_messages=options.resident_messages, custom=options.custom)
    engine = Engine.open(
        path,
        initial=reducer.initial,
        apply=reducer.apply,
        create=False,
        snapshot_every=_NEVER,
        validate=validate,
        schema_version=events.SCHEMA_VERSION,
        migrations=MIGRATIONS,
        state_type=SessionState,
        summary=summary,
        check=lambda state, seq: _check(path, state, seq),
        clock=options.clock,
        files=options.files,
        scheduler=options.scheduler() if options.scheduler is not None else None,
    )
    try:
        made = drafts(engine.state)
        if made:
            core = _core(engine, reducer, options)
            prepared = [core.prepared(one) for one in made]
            for first in range(0, len(prepared), _BATCH):
                engine.append_many(prepared[first : first + _BATCH])
            engine.rotate()
            engine.publish_summary()
        state: SessionState = engine.state
        return state
    finally:
        # It is sealed; a close would think of a snapshot.
        engine.abandon()


def _core(engine: Engine, reducer: Reducer, options: SessionOptions) -> Core:
    holder = whoami(codec.timestamp(options.clock()))
    return Core(
        engine,
        reducer,
        options.tools,
        mask=options.mask,
        blob_bytes=options.blob_bytes,
        worker={"worker_id": "", "pid": holder.pid},
        clock=options.clock,
    )


def _check(path: str, state: SessionState, seq: int) -> None:
    found = selfcheck.findings(state, seq)
    if found:
        raise CorruptionError(
            f"{path}: the recovered state contradicts itself: {'; '.join(found[:5])}. Nothing was "
            "written. Look at it with `durasess inspect`.",
            path=path,
        )
