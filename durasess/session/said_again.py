"""What an import says once more, because the conversation goes on from there, counts once."""

from __future__ import annotations

from msgspec.structs import replace

from durasess.session.pairing import call_place
from durasess.session.residency import is_hidden
from durasess.session.state import SessionState, ToolState


def drop_earlier(state: SessionState, calls: dict[str, ToolState], key: str) -> None:
    """Take a call out of `calls` that is asked for again: the message that asked for it before was
    taken back. An empty `key` is none."""
    place = call_place(key) if key else None
    if place is not None and is_hidden(state.hidden, place[0]):
        calls.pop(key, None)


def gone_on(state: SessionState) -> SessionState:
    """The open run was said again, and now has something new: it counts."""
    run = state.open_run
    if run is None or not run.again:
        return state
    runs = [*state.runs[:-1], replace(run, again=False)]
    return replace(state, runs=runs, counts=replace(state.counts, runs=state.counts.runs + 1))
