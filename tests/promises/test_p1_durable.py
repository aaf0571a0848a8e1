"""P1: when a durable append returns, the event survives kill -9, an OS crash and power loss."""

import os
import signal

import pytest

from durasess.engine.log import Log
from tests.faults.tails import in_small_steps, with_and_without_filler
from tests.support.planting import unsynced
from tests.support.power_cuts import problems
from tests.support.sessions import open_session, state_of


@in_small_steps
def test_p1_acknowledged_events_survive_every_power_cut(preallocate):
    assert problems([1, 2, "rotate", 1], preallocate=preallocate) == []


@in_small_steps
def test_p1_acknowledged_events_survive_snapshots_and_restarts(preallocate):
    history = [1, "snapshot", 1, "reopen", 1, "abandon", 1]
    assert problems(history, preallocate=preallocate) == []


def test_p1_has_teeth_acknowledging_before_the_sync_loses_events(monkeypatch):
    monkeypatch.setattr(Log, "sync", unsynced)
    assert any("were acknowledged" in problem for problem in problems([1, 1]))


def test_p1_has_teeth_without_the_directory_sync_of_a_segment_events_are_lost(monkeypatch):
    from tests.support.sim_files import SimFiles

    monkeypatch.setattr(SimFiles, "sync_dir", lambda files, path: None)
    assert problems([1]) != []


def test_p1_has_teeth_filler_that_stays_behind_a_seal_costs_the_log(monkeypatch):
    monkeypatch.setattr(Log, "_cut_filler", lambda log, size: None)
    assert problems([1, "rotate", 1], preallocate=2048) != []


@with_and_without_filler
@pytest.mark.parametrize("batch", [1, 5])
def test_p1_acknowledged_events_survive_kill_9(tmp_path, batch, preallocate):
    reader, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            engine = open_session(tmp_path / "s1", preallocate=preallocate)
            engine.append_many([("t", n) for n in range(batch)])
            os.write(told, b"x")
            signal.pause()
        finally:
            os._exit(1)
    os.read(reader, 1)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(reader)
    os.close(told)
    assert state_of(tmp_path / "s1") == list(range(batch))
