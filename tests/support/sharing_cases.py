"""What is explored of writers that share a session: the cases of the test suite, and more."""

from __future__ import annotations

import itertools

from tests.support.sharing_explorer import Task, tasks_of, troubled

PAIRS = (
    "append,append,append|append,append,append",
    "append,many2|many3,append",
    "append,append|refresh,append",
    "append,refresh,append|many2,refresh",
    "keep3,append|refresh,append",
    "append,keep2|keep3,refresh",
    "keep2,snapshot|append,keep2",
    "keep2|rotate,append",
    "seg400:keep3,append|append,append",
    "fill512:keep3|many3,append",
    "rotate|append",
    "append|rotate,append",
    "append,rotate,append|append,rotate",
    "rotate,append|rotate,append",
    "append,rotate,refresh|refresh,append,many2",
    "snapshot,append|append",
    "append,snapshot|append,append",
    "append,snapshot|many2,snapshot",
    "append,snapshot,append|rotate,refresh",
    "close|append,append",
    "append,close|append,close",
    "append,reopen,append|append",
    "append,reopen|append,reopen",
    "append,reopen|rotate,refresh,append",
    "open,append|append,append",
    "open,append|open,append",
    "append,close|open,append",
    "append,snapshot,append,snapshot,prune|append,append",
    "append,snapshot,prune|append,snapshot,append",
    "seg400:append,append,append|many2,append,append",
    "seg400:append,many3|append,refresh,append",
    "fill512:append,append|many3,append",
    "fill512:append,rotate,append|many5,append",
    "fill512:append,big|append,reopen",
    "new:append,append|append,append",
    "new:rotate,append|append,snapshot",
    "void:append|append",
    "void:open,append|append,close",
)
"""Two writers, everything works."""

THREE = (
    "append|append|append",
    "append|rotate|many2",
    "append|refresh|append",
    "append|snapshot|append",
    "append|append|close",
    "keep2|append|refresh",
)

TROUBLED = (
    "append,append|append,append",
    "append,rotate,append|append",
    "rotate,append|refresh,append",
    "fill512:many3,append|append",
    "seg400:many2,append|many2",
    "keep3,append|append",
)
"""With each trouble at every call that it can come at."""

TROUBLED_LONG = (
    "append,snapshot|append,append",
    "reopen,append|append",
    "append,close|append",
)
"""The same, with one preemption."""

DEATHS = ("kill0", "kill0+", "half0", "half0+", "most0")
FAILURES = ("failsync0", "dropsync0", "faildir0", "short0", "full0")

STEPS = ("append", "many2", "rotate", "snapshot", "reopen", "refresh", "prune")
"""Of these level 2 takes all pairs of plans of one or two steps, and all threes of one."""


def tasks(level: int = 1) -> list[Task]:
    """Level 1 is what the test suite explores, level 2 all short plans, level 3 the most."""
    found = [
        *tasks_of(PAIRS, 2, cut_every=40),
        *tasks_of(THREE[:2], 2, cut_every=60),
        *tasks_of(THREE[2:], 1, cut_every=20),
        *troubled(TROUBLED, DEATHS, 1, cut_every=40),
        *troubled(TROUBLED, FAILURES, 1, cut_every=10),
        *troubled(TROUBLED[:3], ("older0", "older1"), 1),
        *troubled(TROUBLED_LONG, ("kill0+", "half0"), 1, cut_every=40),
        *troubled(TROUBLED_LONG, ("failsync0", "dropsync0", "short0"), 1, cut_every=20),
    ]
    if level > 1:
        found += _more(level)
    return sorted(found, key=lambda task: len(str(task.case)), reverse=True)


def _more(level: int) -> list[Task]:
    plans = [plan for length in (1, 2) for plan in itertools.product(STEPS, repeat=length)]
    lines = [",".join(plan) for plan in plans]
    pairs = [
        f"{first}|{second}" for first, second in itertools.combinations_with_replacement(lines, 2)
    ]
    threes = ["|".join(steps) for steps in itertools.combinations_with_replacement(STEPS, 3)]
    preemptions = 2 if level == 2 else 3
    found = [
        *tasks_of(pairs, 2, cut_every=20),
        *tasks_of(threes, level - 1, cut_every=20),
        *tasks_of(PAIRS[:8], 3, cut_every=20),
        *troubled((*TROUBLED, *TROUBLED_LONG), (*DEATHS, *FAILURES), 2, cut_every=20),
        *troubled(PAIRS, ("kill1", "half1+", "failsync1", "dropsync1", "short1"), 1, cut_every=20),
    ]
    if level > 2:
        found += troubled(pairs, (*DEATHS, *FAILURES), preemptions - 1, cut_every=50)
    return found
