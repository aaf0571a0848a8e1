"""The program's own events and state: its reducers, and its versions of them.

A program that changes what its events or its state look like gives a higher version and a pure
function from each version to the next. The log says where a new version began; events before that
are brought to the newest one before they reach a reducer, and the state where it began.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from durasess.engine import codec
from durasess.engine.types import Draft, Event, Migration
from durasess.errors import EventRejectedError, FormatVersionError
from durasess.session import events
from durasess.session.state import SessionState

CustomReducer = Callable[[dict[str, Any], Event], dict[str, Any] | None]
"""Gets the custom state, its own copy, and an event; returns the next, or None when it changed the
one it got."""


class Custom(msgspec.Struct, frozen=True, kw_only=True):
    """`reducers` by type of event; `migrations[v]` leads from version v to v + 1, its `state` part
    takes and returns the custom state, its `event` part an event."""

    reducers: Mapping[str, CustomReducer] = msgspec.field(default_factory=dict)
    version: int = 1
    migrations: Mapping[int, Migration] = msgspec.field(default_factory=dict)

    def apply(self, state: SessionState, event: Event) -> SessionState:
        """The state after an event of the program's. Raises what its reducer raises."""
        reduce = self.reducers.get(event.type)
        if reduce is None or state.custom_version > self.version:
            return state
        event = self.migrated_event(state, event)
        state = self.migrated(state)
        # The reducer may change what it gets; the state before stays as it was.
        custom = codec.decode(codec.encode(state.custom_state))
        returned = reduce(custom, event)
        return replace(state, custom_state=custom if returned is None else returned)

    def check(self, state: SessionState, draft: Draft) -> None:
        """EventRejectedError when the type's reducer cannot take the draft: behind it, the handle
        would be at its end."""
        if draft.type not in self.reducers:
            return
        event = Event(
            seq=state.seq + 1,
            ts=state.updated_at,
            type=draft.type,
            data=draft.data,
            run_id=draft.run_id,
            call_id=draft.call_id,
            event_id=draft.event_id,
        )
        try:
            after = self.apply(replace(state, custom_version=self.version), event)
            codec.encode(after.custom_state)
        except Exception as error:
            raise EventRejectedError(
                f"event rejected: the reducer of {draft.type} raised {error!r}. Nothing was "
                "written; correct the data or the reducer."
            ) from error

    def upgraded(self, state: SessionState, event: Event) -> SessionState:
        """The state after `custom_schema_changed`: from here on events are of that version."""
        data = events.read("custom_schema_changed", event.data)
        assert isinstance(data, events.CustomSchemaChanged)
        return replace(self.migrated(state), custom_version=data.version)

    def migrated_event(self, state: SessionState, event: Event) -> Event:
        """An event of the state's version as the program's version has it."""
        for step in range(state.custom_version, self.version):
            migrate = self._step(step).event
            event = migrate(event) if migrate is not None else event
        return event

    def migrated(self, state: SessionState) -> SessionState:
        """The state with its custom part as the program's version has it; a newer one's is kept."""
        if state.custom_state_version >= self.version:
            return state
        custom = codec.decode(codec.encode(state.custom_state))
        for step in range(state.custom_state_version, self.version):
            migrate = self._step(step).state
            custom = migrate(custom) if migrate is not None else custom
        return replace(state, custom_state=custom, custom_state_version=self.version)

    def _step(self, version: int) -> Migration:
        step = self.migrations.get(version)
        if step is None:
            raise FormatVersionError(
                f"custom state and events of this session have version {version}, the program's "
                f"are {self.version}, and custom_migrations[{version}] is missing. Nothing was "
                "changed."
            )
        return step
