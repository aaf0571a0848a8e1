"""What the next writer of a session would write about what is open, and the state behind that:
computed in memory, as opening would, and never written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from durasess.cli.examine import Inspected
from durasess.engine import codec, files, paths
from durasess.engine.types import Draft, Event
from durasess.errors import SessionNotFoundError
from durasess.session import session_operations
from durasess.session.opening import open_core
from durasess.session.options import SessionOptions
from durasess.session.recovering import ChildSeen, Surroundings, recovery_drafts
from durasess.session.reducer import Reducer
from durasess.session.settling import gaps_of
from durasess.session.state import SessionState
from durasess.session.workspace import Workspace
from durasess.store import holders


class NextOpen(msgspec.Struct, frozen=True):
    """`pending` are the events that the next writer would write, `state` is the one behind them,
    `remarks` say what to know of both."""

    pending: list[Draft]
    state: SessionState
    remarks: list[str]


def next_open(found: Inspected, state: SessionState, reducer: Reducer, *, now: int) -> NextOpen:
    """What opening would find; `now` in nanoseconds since 1970."""
    workspace = Workspace(state.meta.workspace)
    around = Surroundings(
        is_dead=_is_dead(found),
        is_alone=found.lock.held is False,
        tools={},
        now=now,
        settle_writes=workspace.settle,
        resolved=lambda value: value,
        look_at=lambda session_id: _look_at(found, session_id, now),
        gaps=gaps_of(found.torn),
    )
    pending = recovery_drafts(state, around)
    for one in pending:
        state = reducer.apply(state, _event(one, state.seq + 1, now))
    return NextOpen(pending, state, list(_remarks(found, pending)))


def _is_dead(found: Inspected) -> Callable[[str], bool]:
    """Whether the writer with this worker id is gone; the empty id is of one that owns its session.
    Where it cannot be told, nobody is."""
    lock = found.lock
    if lock.held is None:
        return lambda worker_id: False
    alive = {one.worker_id for one in lock.workers if one.alive}
    if lock.held and lock.mode == "own":
        alive.add("")
    return lambda worker_id: worker_id not in alive


def _look_at(found: Inspected, session_id: str, now: int) -> ChildSeen:
    """How a child is, which lies beside its parent."""
    if paths.session_id_problem(session_id) is not None:
        return ChildSeen("unreadable")
    path = paths.join(paths.parent(found.path), session_id)
    try:
        core, _ = open_core(path, SessionOptions(clock=lambda: now), mode="read")
    except SessionNotFoundError:
        return ChildSeen("not_made")
    try:
        status, answer = session_operations.outcome_of(core)
    finally:
        core.engine.close()
    if core.state.meta.parent != found.session_id:
        # Another's session is no evidence of the child, which was not made then.
        return ChildSeen("not_made")
    if status == "running" and holders.is_open(files.RealFiles(), path) is False:
        status = "interrupted"
    return ChildSeen(status, answer)


def _event(one: Draft, seq: int, now: int) -> Event:
    data: Any = codec.decode(codec.encode(one.data))
    return Event(
        seq=seq,
        ts=codec.timestamp(now),
        type=one.type,
        data=data,
        run_id=one.run_id,
        call_id=one.call_id,
        event_id=one.event_id,
    )


def _remarks(found: Inspected, pending: list[Draft]) -> list[str]:
    said = []
    if found.lock.held is None:
        said.append("Whether a writer has it open cannot be told; taken for open.")
    if pending and found.damage:
        said.append("Damage keeps writers out: it must be repaired before any of this is written.")
    if any(one.type == "tool_recovery" and one.data["outcome"] == "uncertain" for one in pending):
        said.append(
            "Verifiers are the program's and were not asked: a call whose tool has one may be "
            "settled instead of uncertain."
        )
    return said
