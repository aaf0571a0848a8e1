"""A fork: a new session with the events of another up to a seq, which is left as it is, byte by
byte.

The copied events keep their seqs, times and checksums. What was open at the cut is closed in the
fork, in the same directory that has no name yet, so after a crash there is the whole fork or none.
"""

from __future__ import annotations

from durasess.engine import branch, codec, paths
from durasess.engine.files import Files
from durasess.engine.walk import EVERYTHING
from durasess.errors import EventRejectedError
from durasess.session.amending import amend
from durasess.session.forked import fork_drafts
from durasess.session.options import SessionOptions
from durasess.store import staging


def fork(
    disk: Files,
    root: str,
    session_id: str,
    options: SessionOptions,
    *,
    at_seq: int | None,
    new_id: str,
    token: str,
) -> str:
    """Make the session `new_id` of the events 1 to `at_seq` of `session_id` (default: all that are
    there); its path. The parent may be open, here or elsewhere: it is only read.

    Raises SessionNotFoundError, SessionExistsError, EventRejectedError when there is no such seq,
    StorageError when the events before it are pruned, CorruptionError.
    """
    source = paths.join(root, session_id)
    if at_seq is not None and at_seq < 1:
        raise EventRejectedError(
            f"{source}: seq {at_seq} is no seq; they count from 1. Nothing was forked.", path=source
        )
    with staging.staged(disk, root, new_id, token) as built:
        last = branch.copy(
            disk,
            source,
            built,
            through=EVERYTHING if at_seq is None else at_seq,
            created=codec.timestamp(options.clock()),
            token=lambda: token,
        )
        if last == 0 or (at_seq is not None and last < at_seq):
            raise EventRejectedError(
                f"{source}: expected seq {at_seq or 1}, but its log ends at seq {last}. Nothing "
                "was forked; give a seq that is there.",
                path=source,
                seq=at_seq,
            )
        amend(built, options, lambda state: fork_drafts(state, session_id, last))
        return staging.publish(disk, built, root)
