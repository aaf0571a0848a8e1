"""Power cuts of real file systems, ext4 with its own log and XFS: what was acknowledged is there.

Writers of every kind (alone, with and without filler, sharing, agents with tool calls) work on a
loop-mounted file system that is shut down at a random moment and mounted again. The full tier
(`DURASESS_TIER=full`) makes 1,000 cuts on each, `python -m tools.soak cuts-ext4` as many as wanted.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cut_lab import ROUNDS, Totals, power_cuts
from tests.support.loop_disk import EXT4, XFS, Kind, need_loop
from tests.support.tiers import FULL

CUTS = 1000 if FULL else 12
FIRST_SEED = 1_000_000
"""Far from those that long runs come to."""

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


@pytest.fixture(scope="module", params=[EXT4, XFS], ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    """A file system that can be made, mounted and shut down here."""
    need_loop(request.param)
    return request.param


def test_no_power_cut_loses_what_was_acknowledged(kind: Kind, tmp_path: Path) -> None:
    together = Totals()
    for number in range(-(-CUTS // ROUNDS)):
        rounds = min(ROUNDS, CUTS - together.rounds)
        together.add(power_cuts(kind, FIRST_SEED + number, tmp_path, rounds=rounds))
    print(f"\n{kind.name}: {together}")
    assert together.problems == []
    assert together.rounds == CUTS
    assert together.acked > CUTS


@pytest.mark.parametrize("planted", ["syncs", "names"])
def test_planted_bug_is_found(kind: Kind, tmp_path: Path, planted: str) -> None:
    for seed in range(20):
        found = power_cuts(kind, seed, tmp_path, planted=planted, until_problem=True)
        if found.problems:
            return
    pytest.fail(f"nothing was lost in {20 * ROUNDS} cuts without {planted}")
