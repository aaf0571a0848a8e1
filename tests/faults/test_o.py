"""FAULTS O, as far as the context decides: a cut between a call and its result."""

import pytest

from durasess.session.context import plan
from durasess.session.state import Compaction, Notice
from tests.support.contexts import broken, call, reply, result, state_of, user


@pytest.mark.parametrize("budget", range(0, 60, 3))
def test_o1_no_budget_cuts_between_a_call_and_its_result(budget):
    messages = [user(1), reply(2, "", "a"), result(3, "a"), reply(4, "", "b", "c"), result(5, "c")]
    context = plan(
        state_of(messages, call("a"), call("b", "uncertain"), call("c")), max_tokens=budget
    )
    assert broken(context) == []


def test_o1_call_that_was_open_at_a_compaction_is_still_told():
    """The summary tells of the message; the call and its unknown outcome are in the block."""
    state = state_of(
        [user(4, "go on")],
        call("2.0", "uncertain", call_id="c1"),
        compactions=[Compaction(3, 2, "it deployed")],
        notice=Notice("r1", 3, "crash", ["2.0"]),
    )
    context = plan(state)
    assert broken(context) == []
    assert "UNKNOWN OUTCOME" in context.system
    assert 'call "c1"' in context.system


@pytest.mark.parametrize("first", [[], [user(1)]])
def test_o2_result_whose_call_was_dropped_is_left_out_and_counted(first):
    state = state_of([*first, result(2, "gone", "secret"), user(3), reply(4, "ok")])
    context = plan(state)
    assert broken(context) == []
    assert "secret" not in repr(context.messages)
    assert context.left_out.orphans == 1
    assert [one.seq for one in state.messages if one.role == "tool"] == [2]
