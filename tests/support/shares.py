"""The suite in shares, for as many processors: `DURASESS_SHARE=1/2 pytest` runs one half of the
files, `DURASESS_SHARE=2/2 pytest` the other, and no test is in both or in none.

Whole files go, longest first, to the share that has least to do. How long they take is known only
roughly: a wrong figure makes one share end later, nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping

SECONDS = {
    "tests/crash/test_explorer.py": 500.0,
    "tests/crash/test_fuzz.py": 240.0,
    "tests/crash/test_failing_calls.py": 205.0,
    "tests/crash/test_power_cuts.py": 170.0,
    "tests/crash/test_stateful.py": 100.0,
    "tests/crash/test_mutations.py": 90.0,
    "tests/crash/test_interrupted_opcodes.py": 90.0,
    "tests/crash/test_kill_storm.py": 80.0,
    "tests/crash/test_sharing_explorer.py": 70.0,
    "tests/crash/test_sync_elision.py": 57.0,
    "tests/crash/test_allocations.py": 50.0,
    "tests/crash/test_failing_syscalls.py": 40.0,
    "tests/crash/test_block_images.py": 30.0,
}
"""Files that take long in the full tier → seconds of a whole processor."""

A_TEST_S = 0.06
"""Any other test."""


def parse(text: str) -> tuple[int, int]:
    """`1/2` as (1, 2); ValueError when there is no such share."""
    number, _, of = text.partition("/")
    share = (int(number), int(of))
    if not 1 <= share[0] <= share[1]:
        raise ValueError(f"{text} is no share: I/N with I from 1 to N")
    return share


def files_of(share: tuple[int, int], tests: Mapping[str, int]) -> set[str]:
    """The files of one share, out of all: file → how many tests it has."""
    number, of = share
    weights = {name: SECONDS.get(name, count * A_TEST_S) for name, count in tests.items()}
    loads, chosen = [0.0] * of, set()
    for name in sorted(weights, key=lambda name: (-weights[name], name)):
        least = loads.index(min(loads))
        loads[least] += weights[name]
        if least == number - 1:
            chosen.add(name)
    return chosen
