"""What the benchmarks append: generated agent sessions, folded into a small bounded state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from durasess import Engine, Event
from durasess.cli.workload import generate_events


def initial() -> dict[str, Any]:
    """Counters and the newest few texts: a state whose size does not grow with the history."""
    return {"events": 0, "types": {}, "recent": []}


def fold(state: dict[str, Any], event: Event) -> None:
    """Count, and keep the newest twenty events."""
    state["events"] += 1
    state["types"][event.type] = state["types"].get(event.type, 0) + 1
    state["recent"] = [*state["recent"][-19:], {"seq": event.seq, "data": event.data}]


def open_engine(directory: Path | str, **options: Any) -> Engine:
    """An engine with that state."""
    return Engine.open(directory, initial=initial, apply=fold, **options)


def build_session(directory: Path, count: int, *, seed: int = 1) -> None:
    """A session of `count` generated events, appended in large batches, then left as a kill would
    leave it, so that recovery has a tail to read."""
    engine = open_engine(directory)
    batch: list[tuple[str, Any]] = []
    for event in generate_events(seed, count=count):
        batch.append(event)
        if len(batch) == 250:
            engine.append_many(batch)
            batch = []
    if batch:
        engine.append_many(batch)
    engine.flush()
    engine.abandon()
