"""Stores of sessions for tests: made, damaged, and looked at, in the words of the domain."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from durasess import Event, Session, Store
from durasess.engine.files import RealFiles
from durasess.engine.verify import Verified, verify

ROOT = Path(__file__).parents[2]
DAY_NS = 86_400 * 1_000_000_000
START_NS = 1_700_000_000_000_000_000


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = START_NS

    def __call__(self) -> int:
        self.now += 1_000_000
        return self.now

    def pass_days(self, days: float) -> None:
        """Let time go by."""
        self.now += int(days * DAY_NS)


def store_at(folder: Path, clock: Callable[[], int] | None = None) -> Store:
    """A store in a folder of a test."""
    return Store(folder / "store", clock=clock or Clock())


def say(session: Session, request: str = "hello", reply: str = "done", **options: Any) -> None:
    """One run that succeeds."""
    with session.run(request) as run:
        run.assistant(reply, **options)


def make(store: Store, session_id: str, runs: int = 1, **options: Any) -> str:
    """A closed session with some runs; its path."""
    with store.create(session_id, **options) as session:
        for number in range(runs):
            say(session, f"hello {number}")
        return session.path


def make_calls(store: Store, session_id: str) -> dict[str, int]:
    """A session with a call in each status at some seq: what it is called → the seq."""
    marks = {}
    with store.create(session_id) as session:
        with session.run("do it") as run:
            asked = [{"call_id": one, "name": "tool", "arguments": {}} for one in ("c1", "c2")]
            run.assistant("working", tool_calls=asked)
            marks["asked"] = session.last_seq
            with run.tool("c1") as call:
                marks["started"] = session.last_seq
                call.result("one")
            marks["answered"] = session.last_seq
            with run.tool("c2") as call:
                call.result("two")
            run.assistant("finished")
        marks["ended"] = session.last_seq
    return marks


def events_of(store: Store, session_id: str) -> list[Event]:
    """All events, read without opening for writing."""
    with store.open(session_id, mode="read") as session:
        return list(session.events())


def types_of(store: Store, session_id: str, after: int = 0) -> list[str]:
    """The types of the events behind a seq."""
    return [event.type for event in events_of(store, session_id) if event.seq > after]


def verified(path: str) -> Verified:
    """What reading every byte finds."""
    return verify(path, files=RealFiles())


def digest(path: str | Path) -> dict[str, str]:
    """Every file below a path and a hash of its bytes."""
    found = sorted(one for one in Path(path).rglob("*") if one.is_file())
    return {
        str(one.relative_to(path)): hashlib.sha256(one.read_bytes()).hexdigest() for one in found
    }


def spoil_meta(path: str) -> None:
    """The session's meta is no meta any more."""
    (Path(path) / "meta.json").write_bytes(b"garbage\n")


def in_another_process(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process of its own; `sys.argv[1:]` are the arguments."""
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
