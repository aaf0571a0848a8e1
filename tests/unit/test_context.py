"""The planner: which turns go, what always goes, what stands for what is missing."""

import pytest

from durasess.session.context import plan
from durasess.session.state import Compaction, SessionState, SystemPart, Task
from tests.support.contexts import RUN, broken, call, reply, result, state_of, user


def seqs(context):
    return [message["seq"] for message in context.messages]


def one_each(message):
    """A counter: every message costs one token."""
    return 1


def turns(count):
    """So many turns of a request, a call with its result, and an answer."""
    messages, calls = [], []
    for number in range(count):
        seq, key = number * 10, str(number)
        messages += [user(seq), reply(seq + 1, "", key), result(seq + 2, key)]
        messages.append(reply(seq + 3, "done"))
        calls.append(call(key))
    return messages, calls


def test_empty_session_gives_an_empty_context():
    context = plan(SessionState())
    assert (context.messages, context.system, context.tokens) == ([], "", 0)
    assert context.openai() == []
    assert context.anthropic() == {"system": "", "messages": []}
    assert context.openai_responses() == {"instructions": "", "input": []}


def test_without_a_budget_everything_goes():
    messages, calls = turns(3)
    context = plan(state_of(messages, *calls))
    assert seqs(context) == [one.seq for one in messages]
    assert context.left_out == plan(SessionState()).left_out


@pytest.mark.parametrize("budget, kept", [(12, 3), (11, 2), (8, 2), (7, 1), (4, 1)])
def test_turns_go_whole(budget, kept):
    messages, calls = turns(3)
    context = plan(state_of(messages, *calls), max_tokens=budget, count_tokens=one_each)
    assert seqs(context) == [one.seq for one in messages[-4 * kept :]]
    assert (context.left_out.turns, context.left_out.messages) == (3 - kept, 4 * (3 - kept))


@pytest.mark.parametrize(
    "budget, kept", [(4, [0, 1, 2, 3]), (3, [0, 3]), (2, [0, 3]), (1, [0]), (0, [0])]
)
def test_newest_turn_loses_oldest_replies_with_their_results_and_never_its_request(budget, kept):
    messages, calls = turns(1)
    context = plan(state_of(messages, *calls), max_tokens=budget, count_tokens=one_each)
    assert seqs(context) == kept
    assert context.left_out.messages == 4 - len(kept)


def test_system_text_is_there_beyond_the_budget_and_counted():
    state = state_of([user(1)], system=[SystemPart("prompt", "p" * 400, 1)])
    context = plan(state, max_tokens=10)
    assert seqs(context) == [1]
    assert context.tokens == 104 + 6


def test_system_text_holds_parts_summary_task_in_this_order():
    state = SessionState(
        system=[
            SystemPart("prompt", "one", 1),
            SystemPart("more", [{"type": "text", "text": "two"}], 2),
        ],
        compactions=[Compaction(3, 2, "told before")],
        task=Task("fix it", "busy", ["read"], ["write", {"step": 2}]),
    )
    assert plan(state).system == (
        "one\n\ntwo\n\n<summary>\ntold before\n</summary>\n\n<task>\nGoal: fix it\nStatus: busy\n"
        'Completed:\n- read\nPending:\n- write\n- {"step":2}\n</task>'
    )


def test_summary_can_not_open_or_close_a_section():
    state = SessionState(compactions=[Compaction(3, 2, "a</summary><recovery>b <i>")])
    assert plan(state).system == ("<summary>\na&lt;/summary>&lt;recovery>b <i>\n</summary>")


def test_older_messages_are_pulled_only_while_there_is_room():
    messages, calls = turns(4)
    chunks = [(messages[8:12], {"2": calls[2]}), (messages[4:8], {"1": calls[1]})]
    pulled = []

    def older():
        for chunk in [*chunks, (messages[:4], {"0": calls[0]})]:
            pulled.append(chunk)
            yield chunk

    state = state_of(messages[12:], calls[3], older_since=1)
    context = plan(state, older=older(), max_tokens=8, count_tokens=one_each)
    assert seqs(context) == [one.seq for one in messages[8:]]
    assert pulled == chunks[:1]
    assert context.left_out.unread


def test_older_messages_all_go_when_there_is_room():
    messages, calls = turns(2)
    state = state_of(messages[4:], calls[1], older_since=1)
    context = plan(state, older=[(messages[:4], {"0": calls[0]})])
    assert seqs(context) == [one.seq for one in messages]
    assert not context.left_out.unread


def test_state_knows_better_than_an_older_chunk_what_became_of_a_call():
    state = state_of([user(5)], call("a", "not_started"), older_since=1)
    older = [([user(1), reply(2, "", "a")], {"a": call("a", "uncertain")})]
    assert "NEVER STARTED" in plan(state, older=older).messages[2]["content"]


def test_turn_that_begins_in_an_older_chunk_is_one_turn():
    messages, calls = turns(1)
    state = state_of(messages[1:], *calls, older_since=1)
    context = plan(state, older=[(messages[:1], {})], max_tokens=2, count_tokens=one_each)
    assert seqs(context) == [0, 3]


def test_late_result_stands_directly_after_its_call():
    state = state_of(
        [user(1), reply(2, "", "a"), user(3), result(4, "a", "late"), reply(5, "ok")], call("a")
    )
    assert seqs(plan(state)) == [1, 2, 4, 3, 5]


def test_late_result_of_a_call_that_did_not_fit_goes_with_it():
    state = state_of([user(1), reply(2, "", "a"), user(3), result(4, "a")], call("a"))
    context = plan(state, max_tokens=1, count_tokens=one_each)
    assert seqs(context) == [3]
    assert (context.left_out.messages, context.left_out.orphans) == (3, 0)


def test_result_of_a_call_that_was_not_read_is_no_orphan():
    state = state_of([user(5), result(6, "a")], call("a"), older_since=1)
    left_out = plan(state, max_tokens=0, older=[([user(1)], {})]).left_out
    assert (left_out.orphans, left_out.messages, left_out.unread) == (0, 1, True)
    assert plan(state).left_out.orphans == 1


def test_second_result_of_a_call_is_left_out_and_counted():
    state = state_of(
        [user(1), reply(2, "", "a"), result(3, "a", "first"), result(4, "a", "second")], call("a")
    )
    context = plan(state)
    assert [one["content"] for one in context.messages if one["role"] == "tool"] == ["first"]
    assert context.left_out.duplicates == 1


def test_reply_that_says_nothing_is_left_out_and_counted():
    context = plan(state_of([user(1), reply(2, " \n"), user(3)]))
    assert seqs(context) == [1, 3]
    assert context.left_out.empty == 1


def test_user_message_without_content_is_told_as_empty():
    assert plan(state_of([user(1, "")])).messages[0]["content"] == "(empty message)"


def test_call_that_a_reply_names_twice_is_one_call():
    context = plan(state_of([user(1), reply(2, "", "a", "a"), result(3, "a")], call("a")))
    assert seqs(context) == [1, 2, 3]


def test_call_that_no_state_knows_has_an_unknown_outcome():
    context = plan(state_of([user(1), reply(2, "", "2.0")]))
    assert context.messages[1]["tool_calls"][0]["name"] == "unknown"
    assert "UNKNOWN OUTCOME" in context.messages[2]["content"]


@pytest.mark.parametrize(
    "arguments, told",
    [
        ({"a": 1}, {"a": 1}),
        ('{"a":1}', {"a": 1}),
        ("{", {"_raw": "{"}),
        ([1], {"_raw": "[1]"}),
        ("[1]", {"_raw": "[1]"}),
        (None, {}),
        ("", {}),
        ('{"a":"\\ud800"}', {"a": "\ufffd"}),
    ],
)
def test_arguments_are_always_an_object(arguments, told):
    state = state_of([user(1), reply(2, "", "a")], call("a", arguments=arguments))
    assert plan(state).messages[1]["tool_calls"][0]["arguments"] == told


def test_repeated_and_illegal_ids_are_changed_in_call_and_result():
    ids = {"2.0": "x", "2.1": "x", "4.0": "a b", "4.1": "x"}
    state = state_of(
        [user(1), reply(2, "", "2.0", "2.1"), result(3, "2.1"), reply(4, "", "4.0", "4.1")],
        *(call(key, call_id=one) for key, one in ids.items()),
    )
    context = plan(state)
    calls = [one["call_id"] for said in context.messages for one in said.get("tool_calls", ())]
    assert calls == ["x", "x_2", "a_b", "x_3"]
    assert [one["call_id"] for one in context.messages if one["role"] == "tool"] == calls
    assert context.left_out.renamed_ids == 3


def test_changed_ids_can_not_lift_a_context_over_its_budget():
    messages, calls = turns(3)
    for one in range(3):
        calls[one] = call(str(one), call_id="x")
    messages[-4] = user(20, "u")

    def by_id(message):
        return sum(len(one["call_id"]) for one in message.get("tool_calls", ()))

    context = plan(state_of(messages, *calls), max_tokens=3, count_tokens=by_id)
    assert context.tokens <= 3
    assert context.left_out.turns == 2


def test_changed_ids_never_cost_the_newest_turn_its_request():
    keys = ["2.0", "3.0", "4.0"]
    messages = [user(1), *(reply(int(key[0]), "", key) for key in keys)]

    def by_id(message):
        return sum(len(one["call_id"]) for one in message.get("tool_calls", ()))

    state = state_of(messages, *(call(key, call_id="x") for key in keys))
    assert seqs(plan(state, max_tokens=3, count_tokens=by_id)) == [1, 4, 0]


def test_newest_reply_is_there_when_no_user_message_is():
    state = state_of([reply(1, "a"), reply(2, "b")])
    assert seqs(plan(state, max_tokens=0)) == [2]


def test_stored_references_become_their_values():
    blobs = {"ref:content": "long text", "ref:arguments": {"a": 1}, "ref:output": "out"}
    state = state_of(
        [user(1, "ref:content"), reply(2, "", "a"), result(3, "a", "ref:output")],
        call("a", arguments="ref:arguments"),
    )
    context = plan(
        state, resolve=lambda value: blobs.get(value, value) if isinstance(value, str) else value
    )
    assert [one["content"] for one in context.messages] == ["long text", "", "out"]
    assert context.messages[1]["tool_calls"][0]["arguments"] == {"a": 1}


def test_counter_gets_each_neutral_message_and_the_system_text():
    state = state_of([user(1, "hi")], system=[SystemPart("prompt", "be good", 1)])
    counted = []
    context = plan(state, count_tokens=lambda message: counted.append(message) or 5)
    assert context.tokens == 10
    assert {"role": "user", "content": "hi", "seq": 1} in counted
    assert {"role": "system", "content": "be good", "seq": 0} in counted


def test_conversation_that_begins_with_a_reply_has_a_user_first_for_anthropic():
    context = plan(state_of([reply(5, "so far"), user(6)], runs=[RUN]))
    roles = [one["role"] for one in context.anthropic()["messages"]]
    assert roles == ["user", "assistant", "user"]
    assert broken(context) == []


def test_reply_at_the_end_loses_trailing_blanks_for_anthropic_alone():
    context = plan(state_of([user(1), reply(2, "done \n")]))
    assert context.anthropic()["messages"][-1]["content"] == [{"type": "text", "text": "done"}]
    assert context.openai()[-1]["content"] == "done \n"


def test_context_whose_messages_are_all_compacted_still_asks() -> None:
    state = SessionState(seq=9, compactions=[Compaction(seq=9, through=8, summary="told")])
    context = plan(state)
    assert [message["role"] for message in context.messages] == ["user"]
    assert context.anthropic()["messages"] and context.openai_responses()["input"]
