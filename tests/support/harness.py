"""Sessions of agents for tests: stores with a clock, runs with calls, crashes, other processes; and
states made of events alone."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from durasess.engine.types import Event
from durasess.session.reducer import Reducer
from durasess.session.session import Session
from durasess.session.state import SessionState, ToolState
from durasess.store.store import Store
from tests.support.sessions import clock

ROOT = str(Path(__file__).parents[2])
TS = "2026-01-01T00:00:00.000000Z"

# States of events alone


def event(seq: int, type: str, data: Any, run_id: str = "", call_id: str = "") -> Event:
    """An event as it is read back."""
    return Event(
        seq=seq, ts=TS, type=type, data=data, run_id=run_id or None, call_id=call_id or None
    )


def numbered(*said: tuple[Any, ...]) -> list[Event]:
    """(type, data, run_id, call_id) → events 1, 2, 3 …; the ids may be left out."""
    return [event(seq, *one) for seq, one in enumerate(said, 1)]


def fold(events: Iterable[Event], reducer: Reducer | None = None) -> SessionState:
    """The state after these events."""
    reducer = reducer or Reducer()
    state = reducer.initial()
    for one in events:
        state = reducer.apply(state, one)
    return state


def state_after(*said: tuple[Any, ...], resident: int = 200) -> SessionState:
    """The state after events of (type, data, run_id, call_id)."""
    return fold(numbered(*said), Reducer(resident_messages=resident))


def reply(*call_ids: str, content: str = "") -> dict[str, Any]:
    """The data of an assistant message that asks for these calls."""
    calls = [{"call_id": one, "name": "work", "arguments": {}} for one in call_ids]
    return {"content": content, "tool_calls": calls}


def encoded(state: SessionState) -> bytes:
    """The state as bytes, to see that nothing changed it."""
    return msgspec.json.encode(state)


# Sessions on disk


def store_at(path: Path, **options: Any) -> Store:
    """A store whose clock moves one millisecond with each look."""
    options.setdefault("clock", clock())
    return Store(path / "store", **options)


def ask(run: Any, *call_ids: str, name: str = "work") -> list[ToolState]:
    """The model asks for calls with these ids."""
    calls = [{"call_id": one, "name": name, "arguments": {"n": 1}} for one in call_ids]
    asked: list[ToolState] = run.assistant("", tool_calls=calls)
    return asked


def crash(session: Session) -> None:
    """What a killed process leaves: nothing is sealed or said any more."""
    session.core.engine.abandon()


def begin_run(session: Session, *call_ids: str) -> Any:
    """A run that nobody ends, which asked for these calls."""
    run = session.run("do it").__enter__()
    if call_ids:
        ask(run, *call_ids)
    return run


def start_call(run: Any, call_id: str) -> Any:
    """A call that nobody ends."""
    return run.tool(call_id).__enter__()


def call_in(session: Session, call_id: str) -> ToolState:
    """The only call with this id."""
    [found] = [one for one in session.state.tool_states.values() if one.call_id == call_id]
    return found


def types(session: Session, after: int = 0) -> list[str]:
    """The types of the events behind a seq."""
    return [one.type for one in session.events(after=after)]


def in_process(code: str, *arguments: Any, kills_itself: bool = False) -> str:
    """Run code in a process of its own with `Store`, `argv` and `os` at hand; what it prints. It
    has to end well, or by SIGKILL when it `kills_itself`."""
    text = "import os, sys\nfrom durasess.store.store import Store\nargv = sys.argv[1:]\n"
    done = subprocess.run(
        [sys.executable, "-c", text + textwrap.dedent(code), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == (-9 if kills_itself else 0), done.stderr
    return done.stdout.strip()
