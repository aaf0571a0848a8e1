"""FAULTS P, as far as the context decides: parallel calls."""

from durasess.session.context import plan
from tests.support.contexts import broken, call, reply, result, state_of, user

KEYS = ["2.0", "2.1", "2.2", "2.3"]
ENDED = ["2.2", "2.0", "2.3", "2.1"]


def four_calls():
    results = [result(seq, key, f"output of {key}") for seq, key in enumerate(ENDED, 3)]
    calls = [call(key, call_id=f"c{key[-1]}") for key in KEYS]
    return state_of([user(1), reply(2, "", *KEYS), *results], *calls)


def test_p1_all_results_of_parallel_calls_are_told_in_call_order():
    context = plan(four_calls())
    told = [one["content"] for one in context.messages if one["role"] == "tool"]
    assert told == [f"output of {key}" for key in KEYS]
    assert broken(context) == []


def test_p2_state_keeps_the_order_in_which_calls_ended():
    state = four_calls()
    plan(state)
    assert [one.key for one in state.messages if one.role == "tool"] == ENDED


def test_p4_second_result_is_counted_each_time_and_never_told():
    state = four_calls()
    state.messages.append(result(7, "2.0", "output of 2.0"))
    for _ in range(2):
        context = plan(state)
        assert context.left_out.duplicates == 1
        assert len(context.messages) == 6
