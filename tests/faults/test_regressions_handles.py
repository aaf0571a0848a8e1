"""Faults found by review: handles that let go, and errors of the library only."""

import contextlib
import errno
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from durasess import (
    DurasessError,
    EventRejectedError,
    SessionClosedError,
    SessionFailedError,
    StorageError,
)
from durasess.engine import paths
from durasess.engine.files import RealFiles
from durasess.engine.scheduler import InlineScheduler, ThreadScheduler
from tests.support.sessions import (
    PATIENCE_S,
    append_all,
    open_inline,
    open_session,
    open_sim,
    outcome_of,
    sim_disk,
    state_of,
)

ROOT = Path(__file__).resolve().parents[2]

# close lets go


@pytest.mark.parametrize("scheduler", [InlineScheduler, ThreadScheduler])
@pytest.mark.parametrize("hook", ["apply", "validate"])
def test_close_in_a_hook_is_refused_and_works_afterwards(tmp_path, hook, scheduler):
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


@pytest.mark.parametrize("kind", ["size", "leads_to"])
def test_look_at_the_segment_that_fails_in_an_append_fails_the_session(kind):
    files = sim_disk()
    engine = open_sim(files)
    engine.append("t", 1)
    files.fail(kind, where=paths.segment(1), sticky=True)
    with pytest.raises(SessionFailedError):
        engine.append("t", 2)
    engine.close()
    files.faults.clear()
    with open_sim(files) as again:
        assert again.state[:1] == [1]


KINDS = [
    "close", "create", "fstat", "leads_to", "listdir", "open", "read_at", "replace", "size", "stat",
    "sync", "sync_dir", "truncate", "unlink", "write_at",
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


DROPPED = """
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


def test_handle_that_is_dropped_under_warnings_as_errors_lets_go(tmp_path):
    command = [sys.executable, "-W", "error", "-c", DROPPED, str(tmp_path / "s1")]
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


@contextlib.contextmanager
def appending(engine, *, threads):
    """Threads that append until they are refused; yields the classes of what refused them."""
    stop, refusals = threading.Event(), []

    def append():
        try:
            while not stop.is_set():
                engine.append("t", 1)
        except DurasessError as error:
            refusals.append(type(error))

    workers = [threading.Thread(target=append) for _ in range(threads)]
    for worker in workers:
        worker.start()
    try:
        yield refusals
    finally:
        stop.set()
        for worker in workers:
            worker.join(PATIENCE_S)


def test_close_returns_while_other_threads_go_on_to_append(tmp_path):
    engine = open_session(tmp_path / "s1", snapshot_every=1, initial=int, apply=lambda s, e: s + 1)
    with appending(engine, threads=4) as refusals:
        assert outcome_of(engine.close) is None
    assert set(refusals) <= {SessionClosedError}
