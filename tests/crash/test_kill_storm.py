"""Four writers of one session, one to three threads each, killed one after the other at random:
nothing acknowledged is lost, no seq is given twice, and those that live go on.

`DURASESS_TIER=full` kills 2,000 times, `python -m tools.soak kills` as often as wanted.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cut_lab import KILLS, Totals, storm
from tests.support.tiers import FULL

STORMS = 40 if FULL else 4
FIRST_SEED = 1_000_000
"""Far from those that long runs come to."""

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def test_no_kill_loses_what_was_acknowledged_or_stops_the_others(tmp_path: Path) -> None:
    together = Totals()
    for number in range(STORMS):
        together.add(storm(FIRST_SEED + number, tmp_path))
    print(f"\n{together}")
    assert together.problems == []
    assert together.rounds == STORMS * KILLS
    assert together.acked > together.rounds


def test_writers_that_take_no_turns_are_found(tmp_path: Path) -> None:
    assert any(storm(seed, tmp_path, planted="turns").problems for seed in range(5))
