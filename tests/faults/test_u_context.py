"""FAULTS U, the copy that the model gets: half characters end here."""

import pytest

from durasess.session.context import plan
from durasess.session.state import Compaction, SystemPart, Task
from tests.support.contexts import broken, call, reply, result, state_of, user


def test_u2_output_with_a_raw_byte_is_clean_in_the_copy_and_as_it_was_in_the_state():
    state = state_of([user(1), reply(2, "", "a"), result(3, "a", "caf\udce9 nul\0")], call("a"))
    context = plan(state)
    assert broken(context) == []
    assert context.messages[2]["content"] == "caf\ufffd nul\0"
    assert context.left_out.surrogates == 1
    assert state.messages[2].content == "caf\udce9 nul\0"


PLACES = {
    "user": state_of([user(1, "a\ud800")]),
    "part": state_of([user(1, [{"type": "text", "text": "a\ud800"}])]),
    "reply": state_of([user(1), reply(2, "a\ud800"), user(3)]),
    "arguments": state_of([user(1), reply(2, "", "a")], call("a", arguments={"k\udfff": "v"})),
    "evidence": state_of([user(1), reply(2, "", "a")], call("a", "uncertain", evidence="\ud800")),
    "system": state_of([user(1)], system=[SystemPart("prompt", "a\ud800", 1)]),
    "summary": state_of([user(1)], compactions=[Compaction(1, 0, "a\ud800")]),
    "task": state_of([user(1)], task=Task("a\ud800", "", [{"k\ud800": 1}])),
}


@pytest.mark.parametrize("place", PLACES)
def test_u4_half_character_anywhere_is_cleaned(place):
    assert broken(plan(PLACES[place], workspace_note="w\ud800")) == []


@pytest.mark.parametrize("place", PLACES)
def test_u4_half_character_anywhere_is_counted(place):
    assert plan(PLACES[place]).left_out.surrogates >= 1


def test_u8_half_character_of_a_user_is_replaced_and_the_rest_stays():
    context = plan(state_of([user(1, "fix \ud83d\ude00 caf\ud800")]))
    assert context.openai() == [{"role": "user", "content": "fix \U0001f600 caf\ufffd"}]
