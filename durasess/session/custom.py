"""The program's own events and state: its reducers, and its versions of them.

A program that changes what its events or its state look like gives a higher version and a pure
function from each version to the next. The log says where a new version began; events before that
are brought to the newest one before they reach a reducer, and the state where it began.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from durasess.engine import codec, values
from durasess.engine.types import Draft, Event, Migration
from durasess.errors import EventRejectedError, FormatVersionError
from durasess.session import events
from durasess.session.state import SessionState

MOST_PASSED_OVER = 64
"""Types of events without a reducer that a state names; behind them, "" stands for any other but
for those that are named behind it."""

_OTHERS = ""
"""No event has it as its type."""

CustomReducer = Callable[[dict[str, Any], Event], dict[str, Any] | None]
"""Gets the custom state, its own copy, and an event; returns the next, or None when it changed the
one it got."""


class Custom(msgspec.Struct, frozen=True, kw_only=True):
    """`reducers` by type of event; `migrations[v]` leads from version v to v + 1, its `state` part
    takes and returns the custom state, its `event` part an event."""

    reducers: Mapping[str, CustomReducer] = msgspec.field(default_factory=dict)
    version: int = 1
    migrations: Mapping[int, Migration] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.version < 1:
            raise ValueError(f"custom_version is 1 or more, not {self.version!r}")

    def apply(self, state: SessionState, event: Event) -> SessionState:
        """The state after an event of the program's. Raises what its reducer raises."""
        reduce = self.reducers.get(event.type)
        if reduce is None or state.custom_version > self.version:
            return _passed_over(state, event.type, self.reducers)
        event = self.migrated_event(state, event)
        state = self.migrated(state)
        # The reducer may change what it gets; the state before stays as it was.
        custom = codec.decode(codec.encode(state.custom_state))
        returned = reduce(custom, event)
        return replace(state, custom_state=_stored(custom if returned is None else returned))

    def takes(self, state: SessionState) -> bool:
        """Whether a state is gone on with. In one that a program made which has no reducer for a
        type that this one has, the custom state lacks what those events said; and one of an older
        version cannot tell what was set since a newer one began."""
        if state.custom_state_version < min(state.custom_version, self.version):
            return False
        passed = state.passed_over
        if _OTHERS in passed:
            return self.reducers.keys() <= {*passed[MOST_PASSED_OVER:]}
        return self.reducers.keys().isdisjoint(passed)

    def check(self, state: SessionState, draft: Draft) -> None:
        """EventRejectedError when the program's reducer or migrations cannot take the draft: behind
        it, the handle would be at its end."""
        if draft.type == "custom_schema_changed":
            self._check_version(state, draft)
        elif draft.type in events.TYPES and draft.type != "state_set":
            return
        elif state.custom_version > self.version:
            # Another program that shares the session began it meanwhile.
            raise EventRejectedError(
                f"event rejected: the program's own events and state have version "
                f"{state.custom_version} here, this program knows {self.version}. Nothing was "
                "written; end what is going on, close the session, and upgrade the program."
            )
        elif draft.type not in self.reducers and draft.type != "state_set":
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
        before = replace(state, custom_version=self.version)
        try:
            _stored(self.migrated(before).custom_state)
            if draft.type in self.reducers:
                self.apply(before, event)
        except Exception as error:
            raise EventRejectedError(
                f"event rejected: the program's reducer or migration for {draft.type} raised "
                f"{error!r}. Nothing was written; correct the data or the program."
            ) from error

    def _check_version(self, state: SessionState, draft: Draft) -> None:
        version = draft.data.get("version")
        if not state.custom_version < version <= self.version:
            raise EventRejectedError(
                f"event rejected: custom_schema_changed to version {version}, expected more than "
                f"{state.custom_version} and at most the program's {self.version}. Nothing was "
                "written; open the session with a store of a higher custom_version."
            )

    def upgraded(self, state: SessionState, event: Event) -> SessionState:
        """The state after `custom_schema_changed`: from here on events are of that version."""
        data = events.read("custom_schema_changed", event.data)
        assert isinstance(data, events.CustomSchemaChanged)
        # No writer of ours goes back; a log made by hand may.
        version = max(data.version, state.custom_version)
        return replace(self.migrated(state), custom_version=version)

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
        return replace(state, custom_state=_stored(custom), custom_state_version=self.version)

    def _step(self, version: int) -> Migration:
        step = self.migrations.get(version)
        if step is None:
            raise FormatVersionError(
                f"custom state and events of this session have version {version}, the program's "
                f"are {self.version}, and custom_migrations[{version}] is missing. Nothing was "
                "changed."
            )
        return step


def _passed_over(state: SessionState, type: str, reducers: Iterable[str]) -> SessionState:
    """The state that says of which types this program, which has these `reducers`, takes none."""
    passed = state.passed_over
    if _OTHERS in passed:
        if type not in passed[MOST_PASSED_OVER:]:
            return state
        # It was always taken until here.
        return replace(state, passed_over=[one for one in passed if one != type])
    if type in passed:
        return state
    if len(passed) < MOST_PASSED_OVER:
        return replace(state, passed_over=[*passed, type])
    taken = sorted({*reducers} - {type, *passed})
    return replace(state, passed_over=[*passed, _OTHERS, *taken])


def _stored(custom: Any) -> dict[str, Any]:
    """What a snapshot gives back of this custom state (P10); TypeError when it is no object."""
    if not isinstance(custom, dict):
        raise TypeError(f"the custom state became {type(custom).__name__}, expected a dict")
    stored: dict[str, Any] = codec.decode(codec.encode(values.plain(custom)))
    return stored
