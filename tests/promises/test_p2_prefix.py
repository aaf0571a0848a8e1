"""P2: after any crash the log is a prefix of the issue order that holds every acknowledged event;
a batch is there wholly or not at all."""

import pytest

from durasess.engine import admission, writer
from tests.faults.tails import in_small_steps, with_and_without_filler
from tests.support.power_cuts import problems
from tests.support.sessions import open_sim, sim_disk
from tests.support.sim_files import Killed

HISTORIES = [[3], [1, 3, 2], [2, "rotate", 2], [2, "snapshot", 2], [2, "abandon", 2]]


@in_small_steps
@pytest.mark.parametrize("history", HISTORIES, ids=str)
def test_p2_power_cuts_leave_whole_batches_in_order(history, preallocate):
    assert problems(history, preallocate=preallocate) == []


@with_and_without_filler
def test_p2_process_killed_at_any_byte_of_a_write_leaves_whole_batches(preallocate):
    size = 0
    while True:
        files = sim_disk()
        engine = open_sim(files, preallocate=preallocate)
        engine.append("t", 1)
        fault = files.kill_write(size, where="events_0001.jsonl")
        with pytest.raises((Killed, BaseException)):
            engine.append_many([("t", 2), ("t", 3)])
        files.die()
        engine._closed = True
        written = len(files.log[-1].data)
        files.faults.clear()
        with open_sim(files) as again:
            assert again.state in ([1], [1, 2, 3])
            last = again.state
        assert fault.seen == 1
        if size > written:
            break
        size += 3
    assert last == [1, 2, 3]


def test_p2_has_teeth_lines_without_their_batch_are_recovered_half(monkeypatch):
    whole = admission.encode_batch

    def each_alone(fresh, after, ts):
        batch = admission.Batch([], [], [])
        for item in fresh:
            alone = whole([item], after, ts)
            after = alone.places[-1]
            batch.lines.extend(alone.lines)
            batch.events.extend(alone.events)
            batch.places.extend(alone.places)
        return batch

    monkeypatch.setattr(writer, "encode_batch", each_alone)
    assert any("half a batch" in problem for problem in problems([3]))
