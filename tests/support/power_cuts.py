"""What the power may leave behind a short history, and what of it breaks a promise.

A history is a list of steps: a number appends a batch of so many events, "snapshot", "rotate",
"prune" and "reopen" do what they say, "abandon" leaves as a crash would and opens again. Events
carry 0, 1, 2 … in the order they were issued.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.support.crash_states import Settings, crash_states
from tests.support.sessions import START_NS, clock, open_sim, sim_disk
from tests.support.sim_files import SimFiles

Step = int | str

QUICK = Settings(max_subset=3, max_names=40, max_product=200)


def recorded(history: Sequence[Step], **options: Any) -> tuple[SimFiles, set[int]]:
    """The disk with its log, and the lengths of the log at which no batch is cut."""
    files = sim_disk()
    options.setdefault("snapshot_every", 1_000_000)
    engine = open_sim(files, **options)
    files.mark(0)
    issued, whole = 0, {0}
    for step in history:
        if isinstance(step, int):
            whole.add(issued + step)
            engine.append_many([("t", n) for n in range(issued, issued + step)])
            issued += step
            files.mark(issued)
        elif step in ("reopen", "abandon"):
            engine.close() if step == "reopen" else engine.abandon()
            engine = open_sim(files, **options)
        else:
            getattr(engine, step)()
    engine.abandon()
    return files, whole


def problems(history: Sequence[Step], *, limit: int = 3, **options: Any) -> list[str]:
    """What is wrong in the disks that a power cut at any moment of the history may leave: the first
    few findings."""
    files, whole = recorded(history, **options)
    found = []
    for state in crash_states(files.base, files.log, QUICK):
        problem = _problem(state.tree, state.mark or 0, whole)
        if problem is not None:
            found.append(f"at operation {state.point}: {problem}")
        if len(found) == limit:
            break
    return found


def _problem(tree: dict[str, bytes | None], acknowledged: int, whole: set[int]) -> str | None:
    try:
        engine = open_sim(
            SimFiles.from_tree(tree), snapshot_every=1_000_000, clock=clock(2 * START_NS)
        )
    except Exception as error:
        return f"refused: {error}"
    state = engine.state
    engine.abandon()
    if state != list(range(len(state))):
        return f"no prefix of what was issued: {state}"
    if len(state) < acknowledged:
        return f"{acknowledged} events were acknowledged, {len(state)} are there"
    if len(state) not in whole:
        return f"half a batch: {len(state)} events, batches end at {sorted(whole)}"
    return None
