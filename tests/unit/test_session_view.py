"""Looking at an open session: what was not dispatched, and what a signal saves."""

import os
import signal
import time

import pytest

from durasess.session import signals
from tests.support.harness import store_at


def test_pending_events_begin_behind_the_dispatched_one(tmp_path):
    with store_at(tmp_path).create("s") as session:
        session.note("handled")
        session.set_checkpoint()
        session.note("new")
        assert [event.type for event in session.pending_events()] == ["checkpoint", "note"]


def test_pending_events_are_all_without_a_checkpoint(tmp_path):
    with store_at(tmp_path).create("s") as session:
        session.note("new")
        assert [event.seq for event in session.pending_events()] == [1, 2]


@pytest.mark.skipif(not signals.SIGNALS, reason="this system has no such signals")
def test_signal_that_a_program_handles_saves_the_session_too(tmp_path):
    before = signal.signal(signal.SIGTERM, lambda signum, frame: None)
    try:
        with store_at(tmp_path).create("s") as session, session.save_on_signals() as watch:
            session.note("kept")
            os.kill(os.getpid(), signal.SIGTERM)
            assert watch.requested.wait(5.0)
            assert _is_there(os.path.join(session.path, "snapshot.json.zst"))
    finally:
        signal.signal(signal.SIGTERM, before)


def _is_there(path: str) -> bool:
    """Before 5 seconds are over."""
    ends = time.monotonic() + 5.0
    while not os.path.exists(path) and time.monotonic() < ends:
        time.sleep(0.01)
    return os.path.exists(path)
