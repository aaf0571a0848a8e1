"""A session whose log was pruned by the engine or the command, with messages that counted in it."""

import pytest

from durasess import OutcomeUnknownError
from durasess.interop import provider_messages
from durasess.session import reduce_calls
from durasess.session.masking import Masker
from tests.support.harness import store_at


@pytest.fixture
def session(tmp_path):
    """Twelve turns, of which the state holds the newest; the log of the others is pruned."""
    with store_at(tmp_path, resident_messages=4).create("s") as made:
        for turn in range(12):
            with made.run(f"question {turn}") as run:
                run.assistant(f"answer {turn}")
            if turn in (5, 9, 11):
                made.snapshot()
        assert made.core.engine.prune().segments
        yield made


def test_context_has_what_is_left_and_says_that_more_was_there(session):
    context = session.context()
    assert context.messages[-1]["content"] == "answer 11"
    assert context.left_out.unread


def test_history_begins_with_what_is_left(session):
    found = list(session.history())
    assert found
    assert found[0].seq >= session.core.engine.first_seq


def test_provider_messages_are_exported_all_the_same(session):
    assert provider_messages.openai(session, Masker())["messages"]


def test_operation_that_may_have_been_pruned_is_not_run(tmp_path, monkeypatch):
    monkeypatch.setattr(reduce_calls, "OPERATIONS_KEPT", 1)
    with store_at(tmp_path).create("s") as made:
        for operation in ("a", "b", "c"):
            made.once(operation, lambda: 1)
            made.snapshot()
        made.note("on")
        made.snapshot()
        assert made.core.engine.prune().segments
        with pytest.raises(OutcomeUnknownError, match="pruned"):
            made.once("a", lambda: pytest.fail("ran again"))
