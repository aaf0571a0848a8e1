"""Faults found by review: writers that another one replaced, large commits, refused appends."""

import contextlib

import pytest

from durasess import (
    Draft,
    DurasessError,
    FencedError,
    SessionFailedError,
)
from durasess.engine import paths, writer
from durasess.engine.admission import Append
from durasess.engine.scheduler import InlineScheduler, ThreadScheduler
from durasess.engine.tickets import Ticket
from tests.support.sessions import (
    SIM_SEGMENT,
    append_all,
    open_inline,
    open_session,
    open_sim,
    segment_path,
    sim_disk,
    state_of,
    unchanged,
)

# A writer whose owner file was replaced

CHANGES = {
    "append": lambda engine: engine.append("counted", "late"),
    "append not durable": lambda engine: engine.append("counted", "late", durable=False),
    "append_many": lambda engine: engine.append_many([("counted", "late")]),
    "snapshot": lambda engine: engine.snapshot(),
    "prune": lambda engine: engine.prune(),
    "rotate": lambda engine: engine.rotate(),
}


def two_writers(path, *, idle):
    """The first writer, and the one that took the session when `owner` was removed by hand."""
    first = open_inline(path)
    append_all(first, 3)
    if idle:
        first.rotate()
    (path / paths.OWNER).unlink()
    second = open_inline(path)
    for n in range(4, 7):
        second.append("counted", n)
        second.snapshot()
    return first, second


@pytest.mark.parametrize("idle", [True, False], ids=["idle", "active"])
@pytest.mark.parametrize("change", CHANGES)
def test_writer_whose_owner_file_was_replaced_is_fenced_and_changes_nothing(tmp_path, change, idle):
    first, second = two_writers(tmp_path / "s1", idle=idle)
    with unchanged(tmp_path / "s1"):
        for _ in range(2):
            with pytest.raises(FencedError):
                CHANGES[change](first)
        with contextlib.suppress(FencedError):
            first.close()
    assert second.append("counted", 7).seq == 7
    second.close()
    assert state_of(tmp_path / "s1") == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("idle", [True, False], ids=["idle", "active"])
def test_close_of_a_writer_whose_owner_file_was_replaced_changes_nothing(tmp_path, idle):
    first, second = two_writers(tmp_path / "s1", idle=idle)
    second.prune()
    with unchanged(tmp_path / "s1"), contextlib.suppress(FencedError):
        first.close()
    second.close()
    assert state_of(tmp_path / "s1") == [1, 2, 3, 4, 5, 6]


# Large commits, refused appends


def together(engine, *batches):
    """Batches that stand in the queue at the same time, committed; the sizes of the writes."""
    tickets = [
        Ticket(Append([engine._drafting.prepared(one) for one in batch], True)) for batch in batches
    ]
    since = len(engine._options.disk.log)
    engine._writer.run(tickets)
    log = engine._options.disk.log[since:]
    segments = {number for number, node in engine._options.disk.nodes.items() if node.data}
    sizes = [len(op.data) for op in log if op.kind == "write" and op.node in segments]
    return [ticket.outcome() for ticket in tickets], sizes


def test_waiting_appends_beyond_the_limit_of_one_commit_come_in_a_later_one(monkeypatch):
    monkeypatch.setattr(writer, "MAX_COMMIT_BYTES", 4000)
    engine = open_sim(sim_disk(), snapshot_every=1_000_000, preallocate=0)
    outcomes, sizes = together(engine, *([Draft("t", str(n) * 1000)] for n in range(10)))
    assert [receipts[0].seq for receipts in outcomes] == list(range(1, 11))
    assert max(sizes) < 5000
    assert engine.state == [str(n) * 1000 for n in range(10)]
    engine.close()


def test_batch_beyond_the_limit_of_one_commit_is_one_write_all_the_same(monkeypatch):
    monkeypatch.setattr(writer, "MAX_COMMIT_BYTES", 1000)
    engine = open_sim(sim_disk(), snapshot_every=1_000_000, preallocate=0)
    batch = [Draft("t", "x" * 1000), Draft("t", "y" * 1000)]
    outcomes, sizes = together(engine, [Draft("t", 1)], batch, [Draft("t", 2)])
    assert [[one.seq for one in receipts] for receipts in outcomes] == [[1], [2, 3], [4]]
    assert 2000 < max(sizes) < 2500
    engine.close()


def test_one_commit_takes_at_most_64_mib_of_waiting_appends():
    assert writer.MAX_COMMIT_BYTES == 64 * 1024 * 1024


def refusal(engine):
    """The error of one more append."""
    with pytest.raises(DurasessError) as caught:
        engine.append("t", {"big": "x" * 1000})
    return caught.value


def entries(error):
    """How long the traceback of an error is."""
    trace, count = error.__traceback__, 0
    while trace is not None:
        trace, count = trace.tb_next, count + 1
    return count


@pytest.mark.parametrize("scheduler", [InlineScheduler, ThreadScheduler])
def test_each_append_that_a_failed_handle_refuses_gets_an_error_of_its_own(tmp_path, scheduler):
    engine = open_session(tmp_path / "s1", scheduler=scheduler())
    engine.append("t", 1)
    segment_path(tmp_path / "s1").rename(tmp_path / "moved")
    refusal(engine)
    errors = [refusal(engine) for _ in range(20)]
    assert len({id(error) for error in errors}) == 20
    assert len({(type(error), error.args, str(vars(error))) for error in errors}) == 1
    assert entries(errors[0]) == entries(errors[-1])
    with contextlib.suppress(DurasessError):
        engine.close()


def test_refusal_of_a_handle_whose_sync_failed_keeps_class_and_attributes():
    files = sim_disk()
    engine = open_sim(files)
    engine.append("t", 1)
    files.fail_sync(where=SIM_SEGMENT)
    first, second, third = refusal(engine), refusal(engine), refusal(engine)
    assert len({id(first), id(second), id(third)}) == 3
    assert type(second) is type(third) is SessionFailedError
    assert vars(second) == vars(third)
    assert entries(second) == entries(third)
    engine.close()


def test_fenced_handle_stays_fenced_when_its_owner_file_comes_back():
    """What another writer did meanwhile is not undone by putting the name back."""
    files = sim_disk()
    engine = open_sim(files)
    engine.append("t", 1)
    files.replace("/store/s1/owner", "/store/s1/aside")
    with pytest.raises(FencedError):
        engine.append("t", 2)
    files.replace("/store/s1/aside", "/store/s1/owner")
    with pytest.raises(FencedError):
        engine.append("t", 2)
    engine.abandon()
