"""Whoever waits for a snapshot learns that its thread died, at whatever point it did (P4)."""

import contextlib
import gc
import threading
import time

import pytest

from durasess import Engine, SessionLockedError, StorageError
from durasess.engine.job import Job
from durasess.engine.scheduler import InlineScheduler, ThreadScheduler
from durasess.engine.snapshotter import Snapshotter
from durasess.engine.tickets import Ticket
from tests.support.sessions import open_inline, outcome_of

PATIENCE = 20


class Dies(ThreadScheduler):
    """The thread of each of the first `lives` jobs has no memory to begin."""

    lives = 1

    def background(self, job):
        if self.lives:
            self.lives -= 1
            job = no_memory
        return super().background(job)


def no_memory():
    """Ends without a word: an exception would only be a warning more."""


def opened(path, **more):
    return Engine.open(path, initial=list, apply=lambda state, event: [*state, event.data], **more)


def ends(call):
    """What it returned or raised; fails where it waits for ever."""
    outcome = []
    thread = threading.Thread(target=lambda: outcome.append(outcome_of(call)), daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert outcome, "it waits for ever"
    return outcome[0]


def test_snapshot_whose_thread_died_at_its_first_step_is_an_error_and_not_a_wait_for_ever(
    tmp_path,
):
    engine = opened(tmp_path / "s1", scheduler=Dies(), snapshot_every=10**6)
    engine.append("t", 1)
    assert isinstance(ends(engine.snapshot), StorageError)
    assert any("ended before it could say how" in notice for notice in engine.notices)
    assert ends(engine.snapshot) == 1
    assert ends(engine.close) is None


def test_snapshot_that_gets_no_thread_is_made_all_the_same(tmp_path, monkeypatch):
    """Python 3.12 starts none at the end of the program, where open handles are closed."""
    start = threading.Thread.start

    def refuse(self):
        if self.name.endswith("-background"):
            raise RuntimeError("can't create new thread at interpreter shutdown")
        start(self)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    engine = opened(tmp_path / "s1", snapshot_every=10**6)
    engine.append("t", 1)
    assert ends(engine.snapshot) == 1
    engine.append_many([("t", n) for n in range(100)])
    assert ends(engine.close) is None
    assert engine.notices == ()
    with opened(tmp_path / "s1", mode="read") as again:
        assert (again.last_seq, again.recovery.snapshot_seq) == (101, 101)


def test_job_whose_thread_began_though_it_was_told_otherwise_is_done_once(monkeypatch):
    start = threading.Thread.start

    def begin_and_fail(self):
        start(self)
        self.join(PATIENCE)
        raise RuntimeError("can't allocate lock")

    monkeypatch.setattr(threading.Thread, "start", begin_and_fail)
    done = []
    ThreadScheduler().background(lambda: done.append(threading.current_thread()))
    assert len(done) == 1 and done[0] is not threading.current_thread()


def test_close_ends_when_the_thread_of_the_last_snapshot_died(tmp_path):
    engine = opened(tmp_path / "s1", scheduler=Dies(), snapshot_every=10**6)
    engine.append("t", 1)
    assert ends(engine.close) is None
    with opened(tmp_path / "s1") as again:
        assert again.state == [1] and again.recovery.clean


def test_snapshot_that_the_committer_had_no_memory_to_hear_of_is_an_error_too(
    tmp_path, monkeypatch
):
    engine = opened(tmp_path / "s1", snapshot_every=10**6)
    engine.append("t", 1)
    original = Snapshotter._finish
    failures = [MemoryError()]

    def finish(self, *what):
        if failures:
            raise failures.pop()
        original(self, *what)

    monkeypatch.setattr(Snapshotter, "_finish", finish)
    assert isinstance(ends(engine.snapshot), StorageError)
    assert ends(engine.snapshot) == 1
    assert ends(engine.close) is None


def test_snapshots_go_on_when_nobody_waited_for_the_one_that_died(tmp_path):
    scheduler = Dies()
    engine = opened(tmp_path / "s1", scheduler=scheduler, snapshot_every=2)
    for n in range(40):
        engine.append("t", n)
        engine.flush()
        for thread in threading.enumerate():
            if thread.name.endswith("-background"):
                # One that is about to begin cannot be joined yet.
                with contextlib.suppress(RuntimeError):
                    thread.join(PATIENCE)
    assert scheduler.lives == 0
    assert ends(engine.snapshot) == 40
    ends(engine.close)
    assert len(list((tmp_path / "s1").glob("snapshot*.zst"))) == 2


def test_handle_that_is_given_up_does_not_wait_for_a_job_that_died(tmp_path, monkeypatch):
    engine = open_inline(tmp_path / "s1", snapshot_every=1)
    engine.append("t", 1)

    def die(self, make):
        raise MemoryError

    monkeypatch.setattr(Job, "_work", die)
    with pytest.raises(MemoryError):
        engine._scheduler.run_background()
    monkeypatch.undo()
    engine.abandon()
    with open_inline(tmp_path / "s1") as again:
        assert again.state == [1]


class DiesLater(ThreadScheduler):
    """The thread of a job has no memory to begin, and that shows only behind `gate`; with `may_run`
    it begins."""

    may_run = 0

    def __init__(self):
        super().__init__()
        self.gate = threading.Event()
        self.has_begun = threading.Event()
        self._jobs = []

    def background(self, job):
        if self.may_run:
            self.may_run -= 1
            super().background(job)
            return
        self._jobs.append(job)
        del job
        super().background(self._die)

    def _die(self):
        self.has_begun.set()
        self.gate.wait(PATIENCE)
        self._jobs.clear()


def is_free_soon(path):
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            opened(path).close()
        except SessionLockedError:
            time.sleep(0.01)
        else:
            return True
    return False


def dropped_in_a_job(path, scheduler, **more):
    """A handle goes without a close, while it has a job whose thread will not begin."""
    engine = opened(path, scheduler=scheduler, snapshot_every=1, **more)
    for n in range(4):
        engine.append("t", n)
        if scheduler.may_run:
            engine.snapshot()
    assert scheduler.has_begun.wait(PATIENCE)
    committer = scheduler._thread
    with pytest.warns(ResourceWarning, match="was not closed"):
        del engine
        gc.collect()
    committer.join(PATIENCE)
    assert not committer.is_alive()
    with pytest.raises(SessionLockedError):
        opened(path)


def test_dropped_handle_lets_go_when_the_thread_of_its_last_snapshot_dies_at_its_first_step(
    tmp_path,
):
    scheduler = DiesLater()
    dropped_in_a_job(tmp_path / "s1", scheduler)
    scheduler.gate.set()
    assert is_free_soon(tmp_path / "s1")


def test_dropped_handle_lets_go_when_the_thread_that_compresses_dies_at_its_first_step(tmp_path):
    scheduler = DiesLater()
    scheduler.may_run = 2
    dropped_in_a_job(tmp_path / "s1", scheduler)
    scheduler.gate.set()
    assert is_free_soon(tmp_path / "s1")


def test_dropped_handle_lets_go_though_memory_is_short_when_its_job_is_told_lost(
    tmp_path, monkeypatch
):
    scheduler = DiesLater()
    dropped_in_a_job(tmp_path / "s1", scheduler)
    original, failures = Job._hand_back, [MemoryError(), MemoryError()]

    def hand_back(self, *what):
        if failures:
            raise failures.pop()
        original(self, *what)

    monkeypatch.setattr(Job, "_hand_back", hand_back)
    scheduler.gate.set()
    assert is_free_soon(tmp_path / "s1")
    assert not failures


def test_job_that_is_lost_before_it_is_watched_is_handed_back():
    done = []
    scheduler = InlineScheduler()
    scheduler.start(lambda tickets: [ticket.settle(ticket.work()) for ticket in tickets])
    job = Job(scheduler, lambda job, result, error: done.append(error))
    job.watch()
    assert done == []
    job.start(lambda: None)
    scheduler.background_jobs.clear()
    assert done == []
    job.watch()
    assert [type(error) for error in done] == [MemoryError]


def test_job_is_lost_when_it_is_over_and_nobody_was_told():
    scheduler = InlineScheduler()
    job = Job(scheduler, lambda job, result, error: None)
    assert not job.is_lost()
    job.start(lambda: None)
    assert not job.is_lost()
    scheduler.background_jobs.clear()
    assert job.is_lost()
    job.handed_back = Ticket(None)
    assert not job.is_lost()
    job.handed_back.settle(error=MemoryError())
    assert job.is_lost()
    job.ticket.settle(1)
    assert not job.is_lost()


def test_snapshot_that_could_not_be_handed_back_is_an_error_for_who_waits(tmp_path, monkeypatch):
    engine = opened(tmp_path / "s1", snapshot_every=10**6)
    engine.append("t", 1)
    original, failures = Job._hand_back, [MemoryError()] * 3

    def hand_back(self, *what):
        if failures:
            raise failures.pop()
        original(self, *what)

    monkeypatch.setattr(Job, "_hand_back", hand_back)
    assert isinstance(ends(engine.snapshot), StorageError)
    assert not failures
    assert ends(engine.snapshot) == 1
    assert ends(engine.close) is None
