"""Writes tests/session/data/version_1: a session as schema version 1 of the session layer left it.

    python -m tests.session.make_version_1

Version 1 had flat usage: input_tokens and output_tokens, in events and in the state. The session
has a snapshot in its middle, events behind it, and an open run that was killed in a tool call. What
is committed is fixed: it must stay readable, and is not made again.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec

from durasess import Draft, Engine, Event
from durasess.engine.lock import Holder
from durasess.session.migrations import MIGRATIONS
from durasess.session.reducer import Reducer
from durasess.session.state import SessionState
from tests.support.sessions import clock

DATA = Path(__file__).parent / "data" / "version_1"
SESSION_ID = "20231114-221320-0123456789"
NOBODY = Holder(1, "host", "00000000-0000-0000-0000-000000000000", "", "program")


def flat(usage: dict[str, Any] | None) -> dict[str, Any]:
    """Usage as version 1 had it."""
    found = usage or {}
    return {
        "input_tokens": found.get("prompt", 0),
        "output_tokens": found.get("completion", 0),
    }


def fold(state: dict[str, Any], event: Event) -> dict[str, Any]:
    """What the reducer of version 1 made of an event."""
    step = MIGRATIONS[1]
    before = msgspec.convert(step.state(state) if state else {}, SessionState)
    after = Reducer().apply(before, step.event(event))
    made: dict[str, Any] = json.loads(msgspec.json.encode(after))
    runs = [{**run, "usage": flat(run.get("usage"))} for run in made.get("runs", [])]
    return {**made, "usage": flat(made.get("usage")), **({"runs": runs} if runs else {})}


def say(engine: Engine, type: str, data: Any, call_id: str | None = None) -> None:
    """One event of the run that is going on."""
    engine.append_many([Draft(type, data, run_id="run_1", call_id=call_id)])


def tell(engine: Engine) -> None:
    """The session: a snapshot behind the first result, a kill behind the second start."""
    calls = [{"call_id": f"c{n}", "name": "read_file", "arguments": {"path": "a"}} for n in (1, 2)]
    engine.append("session_created", {"title": "an old one", "labels": {"ticket": "T-1"}})
    say(engine, "run_started", {"request": "read two files"})
    reply = {"content": "Reading.", "tool_calls": calls, "input_tokens": 100, "output_tokens": 20}
    say(engine, "assistant_message", reply)
    say(engine, "tool_started", {"key": "3.0"}, "c1")
    say(engine, "tool_result", {"key": "3.0", "output": "first"}, "c1")
    engine.snapshot()
    say(engine, "usage_recorded", {"input_tokens": 7, "output_tokens": 3})
    say(engine, "assistant_message", {"content": "One more.", "input_tokens": 10})
    say(engine, "tool_started", {"key": "3.1"}, "c2")


def main() -> None:
    """Make the directory anew."""
    shutil.rmtree(DATA, ignore_errors=True)
    path = DATA / SESSION_ID
    DATA.mkdir(parents=True)
    with (
        mock.patch("durasess.engine.lock.whoami", lambda since: NOBODY),
        mock.patch("os.getpid", lambda: 1),
    ):
        engine = Engine.open(
            path, initial=dict, apply=fold, schema_version=1, clock=clock(), preallocate=0
        )
        tell(engine)
        engine.abandon()
    for name in ("owner", "lock"):
        (path / name).unlink(missing_ok=True)


if __name__ == "__main__":
    main()
