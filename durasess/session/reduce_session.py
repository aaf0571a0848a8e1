"""How what a session is, knows and plans changes the state: names, workspace, config, task."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct
from msgspec.structs import asdict, replace

from durasess.engine.types import Event
from durasess.session import events
from durasess.session.state import Checkpoint, Meta, SessionState, SystemPart


def session_created(
    state: SessionState, event: Event, data: events.SessionCreated, resident: int
) -> SessionState:
    """The session begins."""
    meta = Meta(
        title=data.title,
        labels=data.labels,
        user_id=data.user_id,
        origin=data.origin,
        parent=data.parent,
        parent_call=data.parent_call,
        created_at=event.ts,
    )
    version = max(data.custom_version, 1)
    return replace(state, meta=meta, custom_version=version, custom_state_version=version)


def session_changed(
    state: SessionState, event: Event, data: events.SessionChanged, resident: int
) -> SessionState:
    """Its names, status and labels."""
    return replace(state, meta=replace(state.meta, **_given(data)))


def workspace_bound(
    state: SessionState, event: Event, data: events.WorkspaceBound, resident: int
) -> SessionState:
    """Where its tools work; after an interruption the model is told that it moved."""
    before, notice = state.meta.workspace, state.notice
    if notice is not None and before not in ("", data.path):
        moved = f"the workspace was {before} and is {data.path} now"
        state = replace(state, notice=replace(notice, gaps=[*notice.gaps, moved]))
    return replace(state, meta=replace(state.meta, workspace=data.path))


def config_changed(
    state: SessionState, event: Event, data: events.ConfigChanged, resident: int
) -> SessionState:
    """Model, sampling, tools: merged, null removes."""
    merged = {**state.runtime_config, **data.config}
    kept = {name: value for name, value in merged.items() if value is not None}
    return replace(state, runtime_config=kept)


def system_message(
    state: SessionState, event: Event, data: events.SystemMessage, resident: int
) -> SessionState:
    """A part of the system prompt, in the place of the one it replaces."""
    part = SystemPart(data.name, data.content, event.seq)
    parts = [part if one.name == data.name else one for one in state.system]
    if part not in parts:
        parts.append(part)
    if data.content is None:
        parts = [one for one in parts if one.name != data.name]
    return replace(state, system=parts)


def checkpoint(
    state: SessionState, event: Event, data: events.CheckpointSet, resident: int
) -> SessionState:
    """How far the agent loop has come."""
    return replace(state, checkpoint=Checkpoint(data.dispatched, data.next, event.seq))


def task_changed(
    state: SessionState, event: Event, data: events.TaskChanged, resident: int
) -> SessionState:
    """Goal and steps."""
    return replace(state, task=replace(state.task, **_given(data)))


def state_set(
    state: SessionState, event: Event, data: events.StateSet, resident: int
) -> SessionState:
    """A value of the program's own; null removes it."""
    custom = {**state.custom_state, data.name: data.value}
    if data.value is None:
        del custom[data.name]
    return replace(state, custom_state=custom)


def note(state: SessionState, event: Event, data: events.Note, resident: int) -> SessionState:
    """For people."""
    return state


def _given(data: Struct) -> dict[str, Any]:
    return {name: value for name, value in asdict(data).items() if value is not UNSET}
