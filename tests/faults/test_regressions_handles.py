"""Faults found by review: handles that let go, writers that stop, errors of the library only."""

import contextlib
import errno
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from durasess import (
    Draft,
    DurasessError,
    EventRejectedError,
    FencedError,
    SessionClosedError,
    SessionFailedError,
    StorageError,
)
from durasess.engine import paths, writer
from durasess.engine.admission import Append
from durasess.engine.commit import InlineScheduler, ThreadScheduler, Ticket
from durasess.engine.files import RealFiles
from tests.support.sessions import (
    PATIENCE_S,
    SIM_SEGMENT,
    append_all,
    open_inline,
    open_session,
    open_sim,
    outcome_of,
    segment_path,
    sim_disk,
    state_of,
    unchanged,
)

ROOT = Path(__file__).resolve().parents[2]

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


# close lets go


@pytest.mark.parametrize("scheduler", [InlineScheduler, ThreadScheduler])
@pytest.mark.parametrize("hook", ["apply", "validate"])
def test_close_in_a_hook_is_refused_and_the_handle_can_be_closed_afterwards(
    tmp_path, hook, scheduler
):
    refused = []

    def closing(_state, _what):
        with pytest.raises(EventRejectedError):
            engine.close()
        refused.append(True)

    engine = open_session(tmp_path / "s1", scheduler=scheduler(), **{hook: closing})
    assert outcome_of(lambda: engine.append("t", 1)).seq == 1
    assert refused
    assert outcome_of(engine.close) is None
    open_inline(tmp_path / "s1").close()


@pytest.mark.parametrize("scheduler", [InlineScheduler, ThreadScheduler])
def test_close_in_a_hook_that_lets_the_refusal_through_lets_go_later(tmp_path, scheduler):
    def closing(_state, _draft):
        engine.close()

    engine = open_session(tmp_path / "s1", scheduler=scheduler(), validate=closing)
    assert isinstance(outcome_of(lambda: engine.append("t", 1)), EventRejectedError)
    assert outcome_of(engine.close) is None
    open_inline(tmp_path / "s1").close()


def test_fstat_that_fails_in_an_append_fails_the_session():
    files = sim_disk()
    engine = open_sim(files)
    engine.append("t", 1)
    files.fail("fstat", sticky=True)
    with pytest.raises(SessionFailedError):
        engine.append("t", 2)
    engine.close()
    files.faults.clear()
    with open_sim(files) as again:
        assert again.state[:1] == [1]


KINDS = [
    "close", "create", "fstat", "listdir", "open", "read_at", "replace", "stat", "sync",
    "sync_dir", "truncate", "unlink", "write_at",
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_close_lets_go_at_the_first_call_on_a_disk_that_fails(kind):
    files = sim_disk()
    engine = open_sim(files)
    engine.append("t", 1)
    files.fail(kind, sticky=True)
    with contextlib.suppress(DurasessError):
        engine.close()
    files.faults.clear()
    with open_sim(files) as again:
        assert again.state == [1]


STEPS = {
    "rotate": lambda engine: engine.rotate(),
    "snapshot": lambda engine: engine.snapshot(),
    "prune": lambda engine: engine.prune(),
    "first_seq": lambda engine: engine.first_seq,
    "append": lambda engine: engine.append("t", 9),
    "events": lambda engine: list(engine.events()),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", STEPS)
def test_error_of_the_disk_is_raised_as_an_error_of_the_library(step, kind):
    files = sim_disk()
    engine = open_sim(files)
    append_all(engine, 2)
    files.fail(kind, sticky=True)
    with contextlib.suppress(DurasessError):
        STEPS[step](engine)
    with contextlib.suppress(DurasessError):
        engine.close()
    files.faults.clear()
    with open_sim(files) as again:
        assert again.state[:2] == [1, 2]


def test_prune_that_cannot_list_the_directory_is_a_storage_error():
    files = sim_disk()
    with open_sim(files) as engine:
        for n in range(4):
            engine.append("t", n)
            engine.snapshot()
        files.fail("listdir")
        with pytest.raises(StorageError) as caught:
            engine.prune()
        assert (caught.value.errno, type(caught.value.__cause__)) == (errno.EIO, OSError)
        files.faults.clear()
        assert engine.prune().segments


@pytest.mark.parametrize("mode", ["own", "read"])
def test_first_seq_that_cannot_be_read_is_a_storage_error(mode):
    files = sim_disk()
    with open_sim(files) as engine:
        append_all(engine, 2)
    with open_sim(files, mode=mode) as engine:
        files.fail("open", sticky=True)
        with pytest.raises(StorageError) as caught:
            _ = engine.first_seq
        assert caught.value.errno == errno.EIO
        files.faults.clear()
        assert engine.first_seq == 1


def test_handle_that_is_dropped_under_warnings_as_errors_lets_go(tmp_path):
    code = """
        import gc, sys, time
        from durasess import Engine, SessionLockedError
        Engine.open(sys.argv[1]).append("t", 1)
        gc.collect()
        for _ in range(100):
            try:
                Engine.open(sys.argv[1]).close()
                print("free")
                break
            except SessionLockedError:
                time.sleep(0.02)
    """
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(code), str(tmp_path / "s1")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30)
    assert done.stdout == "free\n", done.stderr


# Appends beside a close


class Held(RealFiles):
    """A disk that holds the writing of a snapshot until it is told to go on."""

    def __init__(self):
        super().__init__()
        self.entered = threading.Event()
        self.go_on = threading.Event()

    def create(self, path):
        if path.endswith(paths.SNAPSHOT + paths.TMP):
            self.entered.set()
            self.go_on.wait(PATIENCE_S)
        return super().create(path)


def test_append_of_another_thread_is_refused_once_close_was_called(tmp_path):
    files = Held()
    engine = open_session(tmp_path / "s1", files=files)
    engine.append("t", 1)
    closing = threading.Thread(target=engine.close)
    closing.start()
    try:
        assert files.entered.wait(PATIENCE_S)
        assert isinstance(outcome_of(lambda: engine.append("t", 2)), SessionClosedError)
    finally:
        files.go_on.set()
        closing.join(PATIENCE_S)
    assert not closing.is_alive()
    assert state_of(tmp_path / "s1") == [1]


def test_close_returns_while_other_threads_go_on_to_append(tmp_path):
    engine = open_session(tmp_path / "s1", snapshot_every=1, initial=int, apply=lambda s, e: s + 1)
    stop, last = threading.Event(), []

    def append():
        try:
            while not stop.is_set():
                engine.append("t", 1)
        except DurasessError as error:
            last.append(type(error))

    threads = [threading.Thread(target=append) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        assert outcome_of(engine.close) is None
    finally:
        stop.set()
        for thread in threads:
            thread.join(PATIENCE_S)
    assert set(last) == {SessionClosedError}


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
    engine = open_sim(sim_disk(), snapshot_every=1_000_000)
    outcomes, sizes = together(engine, *([Draft("t", str(n) * 1000)] for n in range(10)))
    assert [receipts[0].seq for receipts in outcomes] == list(range(1, 11))
    assert max(sizes) < 5000
    assert engine.state == [str(n) * 1000 for n in range(10)]
    engine.close()


def test_batch_beyond_the_limit_of_one_commit_is_one_write_all_the_same(monkeypatch):
    monkeypatch.setattr(writer, "MAX_COMMIT_BYTES", 1000)
    engine = open_sim(sim_disk(), snapshot_every=1_000_000)
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
