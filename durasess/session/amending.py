"""A few events added to a closed session: its name, its place, what a fork says of itself.

Not an opening: what was open when its last writer died stays for the program to recover, which
knows its tools; and no snapshot is taken, since the program's own reducers may be unknown here.
"""

from __future__ import annotations

from collections.abc import Callable

from durasess.engine.types import Draft
from durasess.session.engines import open_engine
from durasess.session.options import SessionOptions
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
    core = open_engine(path, options, validate=validate, custom=None, snapshot_every=_NEVER)
    engine = core.engine
    try:
        made = drafts(engine.state)
        if made:
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
