"""The soaks of the simulated disk: crash states of plans, and mutations of whole sessions.

A seed of `states` is one plan of five steps with everything that no earlier plan has; the plans
are all there are over appends, batches, snapshots, rotations and a close with an open, first
without filler, then with it. Every write is torn at every byte. A seed of `mutations` is one
session in one form, with every bit, length, line and file of it damaged in turn.
"""

from __future__ import annotations

import importlib
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

# By name, because tests are not typed like the package.
crash_oracle: Any = importlib.import_module("tests.support.crash_oracle")
explorer: Any = importlib.import_module("tests.support.explorer")
mutations: Any = importlib.import_module("tests.support.mutations")
scan_memory: Any = importlib.import_module("tests.support.scan_memory")

STEPS = ("append", "many3", "snapshot", "rotate", "reopen")
LENGTH = 5
OPTIONS: tuple[tuple[str, ...], ...] = ((), ("fill512",))
READERS_EVERY = 8
"""A writer recovers every state; reader, events and verify look at one in so many."""

NESTED_EVERY = 30_000
"""One state in so many is crashed again in its recovery."""

_BUCKETS = 16


class Found(NamedTuple):
    """What one seed did: how many runs, and what they found, each with what shows it again.
    `keys`: 64 bits for each different thing that was looked at, where that is counted."""

    runs: int
    problems: list[str]
    keys: array[int] | None = None


def plans() -> list[tuple[str, ...]]:
    """Seed n is the n-th; plans with the same beginning are neighbours."""
    return [
        plan
        for options in OPTIONS
        for plan in explorer.all_plans(LENGTH, alphabet=STEPS, options=(options,))
    ]


def states(seed: int) -> Found | None:
    """The crash states of one plan, or None behind the last one."""
    known = plans()
    if seed > len(known):
        return None
    looking = explorer.Explorer(
        explorer.THOROUGH, nested_every=NESTED_EVERY, readers_every=READERS_EVERY
    )
    if seed > 1:
        looking.pass_over(known[seed - 2])
    with scan_memory.remembered_scans():
        looking.explore(known[seed - 1])
    totals = looking.totals
    problems = [f"{count} like {totals.failures[why]}" for why, count in totals.reasons.items()]
    return Found(totals.states, problems, array("Q", sorted(totals.distinct)))


def mutated(seed: int) -> Found:
    """Every mutation of one session: the form goes on with the seed, the session changes when all
    forms had it."""
    names = list(mutations.FORMS)
    salt, index = divmod(seed - 1, len(names))
    with mutations.pinned():
        form = mutations.build(names[index], salt=salt * 100, shape=salt)
    found = mutations.mutations(form, bit_stride=lambda name: 1)
    tally = mutations.Tally().run(form, found, every=READERS_EVERY)
    return Found(tally.total, [str(line) for line in tally.wrong])


def store(directory: Path, name: str, keys: array[int]) -> None:
    """Keep the keys of one seed; again for the same seed is the same."""
    with (directory / f"{name}.keys").open("wb") as target:
        keys.tofile(target)


def distinct(files: Iterable[Path]) -> int:
    """How many different keys all of these files hold; a sixteenth of them in memory at a time."""
    paths = sorted(files)
    return sum(len(set(_of_bucket(paths, bucket))) for bucket in range(_BUCKETS))


def _of_bucket(files: Iterable[Path], bucket: int) -> Iterator[int]:
    for path in files:
        keys = array("Q")
        keys.frombytes(path.read_bytes())
        for key in keys:
            if key % _BUCKETS == bucket:
                yield key
