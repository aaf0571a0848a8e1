"""Eight processes, four threads each, on one session, killed at random: nothing acknowledged is
lost, no seq is given twice or left out, and the order is real-time order.

DURASESS_STORM_EVENTS and DURASESS_STORM_KILLS make it as long as wanted.
"""

from __future__ import annotations

import os

import pytest

from tests.support.storm import Storm, check, open_shared

EVENTS = int(os.environ.get("DURASESS_STORM_EVENTS", "20000"))
KILLS = int(os.environ.get("DURASESS_STORM_KILLS", "20"))


@pytest.mark.parametrize(("seed", "sizes"), [(1, "1"), (2, "1,3,100,400")])
def test_no_seq_is_lost_or_given_twice_while_writers_are_killed(tmp_path, seed, sizes):
    storm = Storm(tmp_path, seed=seed, processes=8, threads=4, sizes=sizes)
    storm.rage(kills=KILLS, events=EVENTS if sizes != "1" else 1000)
    assert check(storm) >= 1000
    assert storm.kills >= KILLS


def test_states_of_all_handles_are_equal_at_the_end(tmp_path):
    storm = Storm(tmp_path, seed=3, processes=4, threads=2, sizes="1,5")
    handles = [open_shared(storm.session) for _ in range(3)]
    try:
        storm.rage(kills=5, events=500)
        for handle in handles:
            handle.append("storm", "the end")
        seqs = {handle.refresh() for handle in handles}
        assert len(seqs) == 1 and len({str(handle.state) for handle in handles}) == 1
    finally:
        for handle in handles:
            handle.close()
