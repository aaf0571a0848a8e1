"""What a session does not prune: what is only in the log and still counts."""

import pytest

from durasess import EventRejectedError
from tests.support.harness import store_at


def with_runs(store, count):
    session = store.create("s")
    for number in range(count):
        with session.run(f"q{number}") as run:
            run.assistant("a")
    return session


def test_live_messages_that_are_only_in_the_log_are_not_pruned(tmp_path):
    session = with_runs(store_at(tmp_path, resident_messages=4), 8)
    with pytest.raises(EventRejectedError, match=r"not pruned: messages from seq .* Compact"):
        session.prune()
    assert len(list(session.history())) == 16
    session.close()


def test_result_of_what_happens_once_is_not_pruned(tmp_path):
    session = with_runs(store_at(tmp_path), 1)
    session.once("op", lambda: 7)
    with pytest.raises(
        EventRejectedError, match=r"not pruned: results of what happens once .* \(1 of them\)"
    ):
        session.prune()
    assert session.once("op", lambda: 8) == 7
    session.close()


def test_session_whose_messages_are_all_in_the_state_is_pruned(tmp_path):
    session = with_runs(store_at(tmp_path, resident_messages=4), 8)
    session.compact("told")
    for _ in range(2):
        session.note("more")
        session.snapshot()
    assert session.prune().segments
    session.close()
