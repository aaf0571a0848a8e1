"""Opening a session of the session layer by length of its history, compacted or not (P8).

Goal: 100,000 events within 1.5 times of 1,000 with the default resident window. And what a tool
call costs: its start and its result, each durable, beside two bare durable writes.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import measure
from benchmarks.findings import (
    TINY,
    Findings,
    Sizes,
    Table,
    mebibytes,
    microseconds,
    milliseconds,
    times,
)
from durasess import Draft, Engine, Session, Store
from durasess.cli.workload import generate_events
from durasess.session import events
from durasess.session.migrations import MIGRATIONS
from durasess.session.reducer import Reducer
from durasess.session.report import summary
from durasess.session.state import SessionState

KINDS = {"plain": 0, "compacted": 40}
"""Turns between two compactions, 0 for none."""
_OPEN = """
import tempfile
from durasess import Store
root, session_id = sys.argv[1:]
with tempfile.TemporaryDirectory(dir=root, prefix=".") as name:
    Store(name).create("warm").close()
start()
session = Store(root).open(session_id)
"""


def measured(directory: Path, sizes: Sizes) -> Findings:
    """Time and memory to be ready, and the price of a tool call."""
    root = directory / "store"
    found = open_ratio(root, sizes.histories, rounds=sizes.ready_rounds)
    small, large = min(sizes.histories), max(sizes.histories)
    rows = [
        (
            kind,
            *[milliseconds(found[f"{kind} {count}"]) for count in sizes.histories],
            times(found[f"{kind} {large}"], found[f"{kind} {small}"]),
        )
        for kind in KINDS
    ]
    peaks = {
        (kind, count): measure.peak_memory(_OPEN, str(root), f"{kind}{count}")
        for kind in KINDS
        for count in (small, large)
    }
    memory = [
        (kind, *[mebibytes(peaks[kind, count]) for count in (small, large)]) for kind in KINDS
    ]
    columns = ("session", *[f"{count:,} events" for count in sizes.histories], "growth")
    note = "Opened for writing until the next context can be made; medians, taking turns."
    figures = {
        f"session_{kind}": found[f"{kind} {large}"] / found[f"{kind} {small}"] for kind in KINDS
    }
    figures["session_memory_mib"] = max(peaks[kind, large] for kind in KINDS) / 1024 / 1024
    tables = [
        Table("A session of the session layer, ready again", note, columns, rows),
        Table(
            "Its memory",
            "Peak above that of the imports and a first small session, fresh interpreters.",
            ("session", f"{small:,} events", f"{large:,} events"),
            memory,
        ),
    ]
    result = Findings(tables, figures)
    result.add(_calls(directory / "calls", sizes))
    return result


def _calls(root: Path, sizes: Sizes) -> Findings:
    found = call_ratio(root, rounds=sizes.appends)
    ratio = times(found["durasess"], found["bare"])
    rows = [
        ("two bare writes with fdatasync", microseconds(found["bare"]), "1.00"),
        ("durasess: its start and its result", microseconds(found["durasess"]), ratio),
        (
            "durasess: the reply that asks for it",
            microseconds(found["reply"]),
            times(found["reply"], found["bare"]),
        ),
    ]
    table = Table("A tool call", "Medians, taking turns.", ("", "median", "to bare"), rows)
    return Findings([table], {"call": found["durasess"] / found["bare"]})


def drafts(count: int, *, compact_every: int = 0) -> Iterator[Draft]:
    """`count` events of turns: request, reply with a call, start, result, reply, end."""
    texts = itertools.cycle([str(data)[:2000] for _, data in generate_events(1, count=300)])
    yield Draft("session_created", {"title": "a long task"})
    seq = 1
    for number in itertools.count(1):
        run, call = f"run_{number}", f"call_{number}"
        asked = {"call_id": call, "name": "read_file", "arguments": {"path": f"{number}.py"}}
        usage = {"prompt": 100, "completion": 10, "total": 110}
        turn = [
            Draft("run_started", {"request": next(texts)}, run),
            Draft(
                "assistant_message",
                {"content": "Reading.", "tool_calls": [asked], "usage": usage},
                run,
            ),
            Draft("tool_started", {"effect": "read_only"}, run, call),
            Draft("tool_result", {"output": next(texts)}, run, call),
            Draft("assistant_message", {"content": next(texts), "usage": usage}, run),
            Draft("run_finished", {"status": "succeeded"}, run),
        ]
        if compact_every and number % compact_every == 0:
            told = {"summary": f"{number} turns so far", "through": seq}
            turn.append(Draft("context_compacted", told))
        for draft in turn:
            if seq >= count:
                return
            seq += 1
            yield draft


def build(root: Path, session_id: str, count: int, *, compact_every: int = 0) -> None:
    """The session on disk, left as a kill would leave it. By the engine, in large batches."""
    reducer = Reducer()
    engine = Engine.open(
        root / session_id,
        initial=reducer.initial,
        apply=reducer.apply,
        schema_version=events.SCHEMA_VERSION,
        migrations=MIGRATIONS,
        state_type=SessionState,
        summary=summary,
    )
    following = drafts(count, compact_every=compact_every)
    while batch := list(itertools.islice(following, 250)):
        engine.append_many(batch)
    engine.flush()
    engine.abandon()


def ready(store: Store, session_id: str, count: int) -> None:
    """Open for writing until the next context could be made, and let go as a kill would."""
    session = store.open(session_id)
    assert session.last_seq >= count
    session.core.engine.abandon()


def open_ratio(root: Path, sizes: tuple[int, ...], *, rounds: int) -> dict[str, float]:
    """Median seconds until ready for each size, plain and compacted, taking turns."""
    os.makedirs(root, exist_ok=True)
    store = Store(root)
    calls = {}
    for size in sizes:
        for name, every in KINDS.items():
            session_id = f"{name}{size}"
            build(root, session_id, size, compact_every=every)
            ready(store, session_id, size)
            calls[f"{name} {size}"] = lambda session_id=session_id, size=size: ready(
                store, session_id, size
            )
    return measure.interleaved(calls, rounds=rounds)


def call_once(session: Session, run, number: int) -> None:
    """One tool call: its start and its result."""
    with run.tool(f"c{number}") as call:
        call.result("done")


def call_ratio(root: Path, *, rounds: int) -> dict[str, float]:
    """Median seconds of a tool call, two durable events, of the reply before it that asks for it,
    one event, and of two bare durable writes."""
    os.makedirs(root)
    fd = os.open(root / "bare", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    line = b"x" * 250 + b"\n"

    def bare() -> None:
        for _ in range(2):
            os.write(fd, line)
            os.fdatasync(fd)

    asked, called = itertools.count(), itertools.count()
    with Store(root).create("calls") as session, session.run("go") as run:

        def reply() -> None:
            run.assistant(tool_calls=[{"call_id": f"c{next(asked)}", "name": "t"}])

        found = measure.interleaved(
            {
                "bare": bare,
                "reply": reply,
                "durasess": lambda: call_once(session, run, next(called)),
            },
            rounds=rounds,
        )
    os.close(fd)
    return found


@pytest.mark.benchmark(group="sessions")
def test_open_a_session(benchmark, tmp_path: Path) -> None:
    build(tmp_path, "s", 1000)
    store = Store(tmp_path)
    benchmark(lambda: ready(store, "s", 1000))


def test_every_size_is_ready(tmp_path: Path) -> None:
    found = open_ratio(tmp_path / "store", (100, 1000), rounds=1)
    assert set(found) == {"plain 100", "compacted 100", "plain 1000", "compacted 1000"}
    assert set(call_ratio(tmp_path / "calls", rounds=5)) == {"bare", "reply", "durasess"}


def test_its_memory_and_calls_are_measured(tmp_path: Path) -> None:
    assert len(measured(tmp_path, TINY).tables) == 3
