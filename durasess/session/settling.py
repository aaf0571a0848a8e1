"""Writes what recovery says, once: in the opening of a session, and when a run is to begin where
another worker died in its run."""

from __future__ import annotations

import os

import msgspec

from durasess.engine.files import RealFiles
from durasess.engine.types import Draft, Recovery, TornTail
from durasess.errors import EventRejectedError
from durasess.session import events, run_operations
from durasess.session.core import Core, draft
from durasess.session.leftovers import discard_leftovers
from durasess.session.options import SessionOptions
from durasess.session.recovering import ChildSeen, Surroundings, recovery_drafts
from durasess.session.report import SessionReport
from durasess.session.state import SessionState, ToolState
from durasess.session.workspace import Workspace

_ROUNDS = 5
"""Attempts, where others write in the same moment."""


def settle_session(
    core: Core, options: SessionOptions, *, found: Recovery | None = None
) -> SessionReport:
    """Say what became of what is open and whose worker is dead; where several do so at once, one of
    them writes it. Nothing is written when nothing is to be said. `found` is what an opening found
    of the log; later there is nothing new to tell of it."""
    for round in range(1, _ROUNDS + 1):
        around = _surroundings(core, options, found)
        _discard_leftovers(core.state, around)
        drafts = _without_secrets(core, recovery_drafts(core.state, around))
        if core.state.custom_version < core.custom.version:
            changed = events.CustomSchemaChanged(version=core.custom.version)
            drafts.append(draft(changed))
        if not drafts:
            break
        try:
            core.engine.append_many([_recordable(core, one) for one in drafts])
        except EventRejectedError:
            # Somebody else may have said it.
            core.engine.refresh()
            if round == _ROUNDS:
                raise
        else:
            return _report(core, drafts)
    return _report(core, [])


_FREE = ("output", "evidence", "result")
"""What a verifier or another session made; any of it may be what no event can hold."""


def _recordable(core: Core, one: Draft) -> Draft:
    """The draft as it is recorded. An answer that cannot be recorded is left out, and that is said:
    what became of the call is known without it, and the session opens."""
    if all(one.data.get(name) is None for name in _FREE):
        return core.prepared(one)
    try:
        ready = core.prepared(one)
        core.engine.prepared(ready)
    except EventRejectedError as error:
        free = {name: None for name in _FREE if name in one.data}
        told = {"result" if "result" in free else "evidence": f"not recorded: {error}"}
        return core.prepared(msgspec.structs.replace(one, data={**one.data, **free, **told}))
    return ready


def _without_secrets(core: Core, drafts: list[Draft]) -> list[Draft]:
    """With the reply that the end of a run cuts off before it, where that holds a secret."""
    return [
        one
        for last in drafts
        for one in (
            [*run_operations.cut_off(core, last.run_id or ""), last]
            if last.type == "run_finished"
            else [last]
        )
    ]


def unsettled(core: Core) -> SessionReport:
    """The report of an opening that says nothing."""
    return _report(core, [])


def _surroundings(core: Core, options: SessionOptions, found: Recovery | None) -> Surroundings:
    live = core.engine.live_workers() if core.engine.worker_id else {}
    workspace = Workspace(core.state.meta.workspace)
    return Surroundings(
        is_dead=lambda worker_id: worker_id not in live,
        is_alone=live.keys() <= {core.engine.worker_id},
        tools=options.tools,
        now=options.clock(),
        settle_writes=workspace.settle,
        resolved=core.resolved,
        gaps=gaps_of(found.torn if found is not None else None),
        look_at=lambda session_id: _own_child(options.look_at(session_id), core.engine.session_id),
    )


def gaps_of(torn: TornTail | None) -> tuple[str, ...]:
    """Whatever was being written when the worker died was not acknowledged, and may be missing."""
    if torn is None or torn.kept:
        return ()
    return (
        f"the last write was cut off; {torn.size} bytes of it are set aside, not in the record",
    )


def _own_child(seen: ChildSeen, session_id: str) -> ChildSeen:
    """Another's session is no evidence: the child was killed before it had its id for itself."""
    return seen if seen.parent in (None, session_id) else ChildSeen("not_made")


def _discard_leftovers(state: SessionState, around: Surroundings) -> None:
    """Before it is written that the calls ended: after that nobody would come back to them."""
    pids = {run.run_id: run.worker.get("pid") for run in state.runs}
    for call in state.tool_states.values():
        pid = pids.get(call.run_id)
        if call.status == "running" and isinstance(pid, int) and around.is_dead(call.worker_id):
            discard_leftovers(state.meta.workspace, call.writes, pid=pid, files=RealFiles())


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
