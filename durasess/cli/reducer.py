"""The program's own functions for `--reducer` and `--initial`: looked up by name and called.

They run in this process, as the program itself would run them; nothing else of it is started.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

import msgspec

from durasess.cli.options import UsageError
from durasess.engine import codec, state
from durasess.engine.types import Event


class Reducer(msgspec.Struct, frozen=True):
    """`name` as it was given; `apply(state, event)` gives the next state, or None when it changed
    the one it got; `initial()` is the state before event 1."""

    name: str
    apply: Callable[[Any, Event], Any]
    initial: Callable[[], Any]

    def start(self) -> Any:
        """The state before event 1. UsageError when the program's function raises."""
        try:
            return self.initial()
        except Exception as error:
            raise UsageError(f"the initial state cannot be made: {error!r}.") from error

    def stored(self, version: int, raw: bytes, *, seq: int) -> Any:
        """The state in a snapshot: of the type of the initial one, when that is a typed struct,
        else plain values. LineError when it does not fit."""
        start = self.start()
        return state.decode(raw, type(start) if isinstance(start, msgspec.Struct) else Any)

    def plain(self, version: int, raw: bytes, *, seq: int) -> Any:
        """The state in a snapshot as it is stored."""
        return codec.decode(raw)

    def migrated(self, event: Event, version: int) -> Event:
        """The event as it is: migrations are not known here."""
        return event

    def step(self, before: Any, event: Event) -> Any:
        """The state after one event. UsageError when the program's function raises."""
        try:
            returned = self.apply(before, event)
        except Exception as error:
            raise UsageError(f"{self.name} raised {error!r} for seq {event.seq}.") from error
        return before if returned is None else returned

    def remarks(self, versions: set[int]) -> list[str]:
        """That several schema versions went into one state."""
        if len(versions) < 2:
            return []
        said = " and ".join(map(str, sorted(versions)))
        return [f"Schema versions {said} were folded together, without migrations."]


def load(reducer: str | None, initial: str | None) -> Reducer | None:
    """The reducer of these options, or None when there is none. UsageError when a name leads to
    nothing that can be called."""
    if reducer is None:
        if initial is not None:
            raise UsageError("--initial is for --reducer; give both.")
        return None
    make = dict if initial is None else _function(initial)
    return Reducer(reducer, _function(reducer), make)


def _function(text: str) -> Callable[..., Any]:
    module, _, name = text.partition(":")
    if not module or not name:
        raise UsageError(f"expected MODULE:NAME as in myagent.state:apply, found {text!r}.")
    # As `python -m` does: what is in the directory where the command was started can be imported.
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (Exception, SystemExit) as error:
        raise UsageError(f"{text} cannot be used: {error!r}.") from error
    if not callable(found):
        raise UsageError(f"{text} is {found!r:.60} and cannot be called.")
    function: Callable[..., Any] = found
    return function
