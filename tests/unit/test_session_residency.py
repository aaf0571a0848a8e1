"""What leaves the state with a message, what stays of it, and what comes back as news."""

import pytest

from tests.support.harness import reply, state_after

CREATED = ("session_created", {})
RUN = ("run_started", {"request": "go"}, "r1")


def said(*calls: str) -> tuple:
    return ("assistant_message", reply(*calls, content="a"), "r1")


def test_state_that_is_full_is_cut_before_a_request_and_not_inside_its_turn():
    turn = [("user_message", {"content": "q"}, "r1"), said(), said(), said()]
    state = state_after(CREATED, RUN, *turn * 3, resident=6)
    assert state.older_since
    assert state.messages[0].role == "user"


def test_turn_that_is_too_long_alone_is_cut_before_a_reply():
    state = state_after(CREATED, RUN, *[said("c"), ("tool_result", {}, "r1", "c")] * 8, resident=6)
    assert state.messages[0].role == "assistant"


def test_result_behind_the_rewound_seq_stays_with_the_call_before_it():
    late = ("tool_result", {"output": "done"}, "r1", "c")
    state = state_after(CREATED, RUN, said("c"), said(), late, ("rewound", {"to": 3}))
    assert [(one.seq, one.role) for one in state.messages][-2:] == [(3, "assistant"), (5, "tool")]


def test_result_of_a_call_whose_message_left_is_news_that_names_the_call():
    late = ("tool_result", {"output": "done"}, "r1", "old")
    state = state_after(CREATED, RUN, said("old"), *[said()] * 12, late, resident=4)
    newest = state.messages[-1]
    assert (newest.role, newest.key) == ("user", "")
    told, output = (part["text"] for part in newest.content)
    assert "late result of the tool call work (old) of seq 3" in told
    assert output == "done"


@pytest.mark.parametrize(("to", "stays"), [(20, True), (2, False)])
def test_result_that_came_as_news_stays_behind_a_rewind_if_its_call_does(to, stays):
    """The call was told to be of unknown outcome again, though its result was known."""
    late = ("tool_result", {"output": "done"}, "r1", "old")
    talk = (CREATED, RUN, said("old"), *[said()] * 20, late, said())
    for resident in (4, 1000):
        state = state_after(*talk, ("rewound", {"to": to}), resident=resident)
        assert ("done" in str(state.messages)) == stays


def test_reply_that_was_cut_off_stands_where_its_first_piece_came():
    pieces = [("message_delta", {"text": text}, "r1") for text in ("Wor", "king")]
    between = ("user_message", {"content": "are you there?"}, "r1")
    ended = ("run_finished", {"status": "interrupted"}, "r1")
    state = state_after(CREATED, RUN, pieces[0], between, pieces[1], ended)
    told = [(one.role, one.content) for one in state.messages]
    assert told == [("user", "go"), ("assistant", "Working"), ("user", "are you there?")]
