"""What of a session is only in its log and still counts, so that deleting history would lose it."""

from __future__ import annotations

from collections.abc import Iterator

from durasess.session.state import SessionState


def only_in_log(state: SessionState) -> Iterator[str]:
    """A sentence for each kind of it, without its full stop."""
    yield from only_below(state, state.seq + 1)


def only_below(state: SessionState, first_seq: int) -> Iterator[str]:
    """The same of what the events below `first_seq` alone have."""
    if 0 < state.older_since < first_seq:
        yield f"messages from seq {state.older_since} on count and are only in the log"
    operations = sum(seq < first_seq for seq in state.operations.values())
    if operations:
        yield f"results of what happens once are only in the log ({operations} of them)"
