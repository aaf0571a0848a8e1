"""FAULTS X: what one provider made and another, or a newer one, refuses."""

import copy

from durasess.session.context import plan
from tests.support.contexts import broken, call, own_item, reply, result, state_of, user

CALL = call("2.0", call_id="c1")


def with_item(provider, item, *, model="m-1"):
    raw = {"provider": provider, "item": item, "model": "m-1"}
    state = state_of(
        [user(1), reply(2, "said", "2.0", raw=raw), result(3, "2.0")],
        CALL,
        runtime_config={"model": model},
    )
    context = plan(state)
    assert broken(context) == []
    assert state.messages[1].raw["item"] == item
    return context


def test_x1_signed_thinking_is_whole_for_its_model_and_gone_for_another():
    item = own_item("anthropic", "said", [CALL])
    same = with_item("anthropic", copy.deepcopy(item)).anthropic()["messages"][1]
    other = with_item("anthropic", item, model="m-2").anthropic()["messages"][1]
    assert same == item
    assert [one["type"] for one in other["content"]] == ["text", "tool_use"]


def test_x2_reasoning_with_a_list_stays_in_the_record_and_the_neutral_form_goes():
    items = own_item("openai_responses", "said", [CALL])
    items[0]["content"] = [{"type": "reasoning_text", "text": "hm"}]
    context = with_item("openai_responses", items)
    kinds = [one["type"] for one in context.openai_responses()["input"]]
    assert kinds == ["message", "message", "function_call", "function_call_output"]
    assert context.left_out.blocks == 1


def test_x4_repeated_id_is_changed_in_the_copy_and_refuses_nothing():
    state = state_of(
        [user(1), *(reply(seq, "", f"{seq}.0") for seq in range(2, 12))],
        *(call(f"{seq}.0", call_id="x") for seq in range(2, 12)),
    )
    context = plan(state)
    assert broken(context) == []
    assert context.left_out.renamed_ids == 9
    assert {one.call_id for one in state.tool_states.values()} == {"x"}


def test_x5_options_of_an_old_request_are_not_sent():
    item = {**own_item("openai", "said", [CALL]), "reasoning_split": True}
    item["tool_calls"][0]["function"]["arguments"] = "{}"
    made = with_item("openai", item).openai()[1]
    assert "reasoning_split" not in made
    assert made["tool_calls"][0]["id"] == "c1"
