"""Providers' own items: back to who made them, byte for byte, or not at all."""

import copy
import json

import pytest

from durasess.session.context import plan
from tests.support.contexts import broken, call, own_item, reply, result, state_of, user

CALL = call("2.0", call_id="c1")
SHAPES = ["anthropic", "openai", "openai_responses"]


def context_of(shape, item, *, model="m-1", maker="m-1", one=CALL, text="said"):
    raw = {"provider": shape, "item": item, "model": maker}
    state = state_of(
        [user(1), reply(2, text, "2.0", raw=raw), result(3, "2.0"), reply(4, "ok")],
        one,
        runtime_config={"model": model} if model else {},
    )
    context = plan(state)
    assert broken(context) == []
    return context


def sent(context, shape):
    """The reply with the call, as the provider gets it."""
    if shape == "openai":
        return context.openai()[1]
    if shape == "anthropic":
        return context.anthropic()["messages"][1]
    items = context.openai_responses()["input"]
    return [one for one in items[1:] if one["type"] != "function_call_output"][:-1]


def item_of(shape):
    item = own_item(shape, "said", [CALL])
    if shape == "openai":
        item["tool_calls"][0]["function"]["arguments"] = '{ "a" : 1.0 }'
    return item


@pytest.mark.parametrize("shape", SHAPES)
def test_item_goes_back_as_it_came(shape):
    item = item_of(shape)
    context = context_of(shape, copy.deepcopy(item))
    assert json.dumps(sent(context, shape)) == json.dumps(item)
    assert context.left_out.blocks == 0


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("other", SHAPES)
def test_item_goes_to_no_other_provider(shape, other):
    if shape != other:
        context = context_of(shape, item_of(shape))
        plain = context_of(shape, None)
        assert sent(context, other) == sent(plain, other)


@pytest.mark.parametrize(
    "model, maker, is_sent",
    [
        ("m-1", "m-1", True),
        ("m-2", "m-1", False),
        ("m-1", "m-1-20250929", True),
        ("m-1", "m-1-mini", False),
        (None, "m-1", True),
        ("m-1", None, True),
    ],
)
def test_item_of_another_model_is_left_out_and_counted(model, maker, is_sent):
    context = context_of("anthropic", item_of("anthropic"), model=model, maker=maker)
    kinds = [block["type"] for block in sent(context, "anthropic")["content"]]
    assert ("thinking" in kinds) is is_sent
    assert context.left_out.blocks == int(not is_sent)


def altered(shape, *path, value):
    item = item_of(shape)
    place = item
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return shape, item


@pytest.mark.parametrize(
    "shape, item",
    [
        altered("anthropic", "content", 0, "option", value=1),
        altered("anthropic", "content", 0, "signature", value=None),
        altered("anthropic", "content", 0, "thinking", value="\ud800"),
        altered("anthropic", "content", 1, "text", value=" "),
        altered("anthropic", "content", 1, "type", value="new_kind"),
        altered("anthropic", "content", 2, "id", value="other"),
        altered("anthropic", "content", 2, "name", value="other"),
        altered("anthropic", "content", 2, "input", value="{}"),
        altered("anthropic", "content", 2, value={"type": "redacted_thinking", "data": "x"}),
        altered("anthropic", "content", value=[]),
        altered("anthropic", "content", value="said"),
        altered("openai", "service_tier", value="flex"),
        altered("openai", "role", value="user"),
        altered("openai", "tool_calls", value=[]),
        altered("openai", "tool_calls", value=None),
        altered("openai", "tool_calls", 0, "index", value=0),
        altered("openai", "tool_calls", 0, "function", "arguments", value={}),
        altered("openai", "tool_calls", 0, "function", "arguments", value='{"a":"\\ud800"}'),
        altered("openai", "content", value=[{"type": "text", "text": ""}]),
        altered("openai", "content", value=None),
        altered("openai_responses", 0, "content", value=[{"type": "reasoning_text", "text": "x"}]),
        altered("openai_responses", 0, "id", value=""),
        altered("openai_responses", 0, "max_tokens", value=1),
        altered("openai_responses", 1, "content", value=[]),
        altered("openai_responses", 1, "role", value="user"),
        altered("openai_responses", 2, "arguments", value={}),
        altered("openai_responses", 2, "type", value="web_search_call"),
        ("gemini", {"parts": []}),
        ("anthropic", None),
    ],
)
def test_item_that_may_be_refused_is_left_out_whole_and_counted(shape, item):
    context = context_of(shape, item)
    assert context.left_out.blocks == 1
    assert all("raw" not in message for message in context.messages)
    plain = context_of(shape, {})
    for one in SHAPES:
        assert sent(context, one) == sent(plain, one)


@pytest.mark.parametrize("shape", SHAPES)
def test_item_whose_call_id_was_changed_is_left_out(shape):
    one = call("2.0", call_id="a b")
    context = context_of(shape, own_item(shape, "said", [one]), one=one)
    assert context.left_out.blocks == context.left_out.renamed_ids == 1


def test_item_whose_call_id_is_too_long_for_chat_is_left_out_there():
    one = call("2.0", call_id="i" * 50)
    context = context_of("openai", own_item("openai", "said", [one]), one=one)
    assert sent(context, "openai")["tool_calls"][0]["id"] == "i" * 40


def test_thinking_alone_goes_before_what_was_said():
    context = context_of("anthropic", own_item("thinking", "", []))
    kinds = [block["type"] for block in sent(context, "anthropic")["content"]]
    assert kinds == ["thinking", "text", "tool_use"]


def test_reasoning_alone_goes_before_what_was_said():
    context = context_of("openai_responses", own_item("openai_responses", "", []))
    kinds = [item["type"] for item in sent(context, "openai_responses")]
    assert kinds == ["reasoning", "message", "function_call"]


def test_thinking_that_nothing_follows_is_left_out():
    raw = {"provider": "anthropic", "item": own_item("thinking", "", [])}
    context = plan(state_of([user(1), reply(2, "", raw=raw), user(3)]))
    assert len(context.anthropic()["messages"]) == 1
    assert (context.left_out.blocks, context.left_out.empty) == (1, 1)


@pytest.mark.parametrize(
    "shape, item",
    [
        (
            "anthropic",
            [*own_item("anthropic", "said", [])["content"], *own_item("thinking", "", [])],
        ),
        ("openai", {**own_item("openai", "said", []), "tool_calls": []}),
        ("openai", {**own_item("openai", "said", []), "tool_calls": None}),
        ("openai_responses", own_item("openai_responses", "said", [])[::-1]),
    ],
)
def test_item_without_calls_that_may_be_refused_is_left_out(shape, item):
    raw = {"provider": shape, "item": item}
    context = plan(state_of([user(1), reply(2, "said", raw=raw)]))
    assert broken(context) == []
    assert context.left_out.blocks == 1


def test_envelope_of_a_response_is_no_history():
    blocks = item_of("anthropic")["content"]
    item = {"type": "message", "id": "msg_1", "content": blocks, "usage": {"input_tokens": 1}}
    assert sent(context_of("anthropic", item), "anthropic")["content"] == blocks
    items = item_of("openai_responses")
    response = {"id": "resp_1", "output": items, "usage": {}}
    assert sent(context_of("openai", response), "openai_responses") == items


def test_item_id_that_stands_twice_goes_once():
    raw = {"provider": "openai_responses", "item": own_item("openai_responses", "said", [])}
    context = plan(state_of([user(1), reply(2, "said", raw=raw), reply(3, "said", raw=raw)]))
    assert broken(context) == []
    assert context.left_out.blocks == 1


def test_item_at_the_end_with_trailing_blanks_gives_way_to_the_neutral_text():
    raw = {"provider": "anthropic", "item": own_item("anthropic", "done \n", [])}
    context = plan(state_of([user(1), reply(2, "done \n", raw=raw)]))
    assert context.anthropic()["messages"][1]["content"] == [{"type": "text", "text": "done"}]


def test_estimate_counts_the_larger_form():
    raw = {"provider": "anthropic", "item": own_item("anthropic", "hi", [])}
    raw["item"]["content"][0]["thinking"] = "t" * 4000
    assert plan(state_of([user(1), reply(2, "hi", raw=raw)])).tokens > 1000


@pytest.mark.parametrize("wrong", [None, 1.5, True, ["x"], {"a": 1}])
@pytest.mark.parametrize(
    ("shape", "item"),
    [
        ("openai", {"role": "assistant", "content": [{"type": "text", "text": "said"}]}),
        ("openai", {"role": "assistant", "content": [{"type": "refusal", "refusal": "said"}]}),
        (
            "openai_responses",
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "said"}],
            },
        ),
        (
            "openai_responses",
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "refusal", "refusal": "said"}],
            },
        ),
    ],
)
def test_part_whose_text_is_damaged_does_not_go_back(shape, item, wrong):
    part = item["content"][0]
    damaged = {**item, "content": [{**part, part["type"].removeprefix("output_"): wrong}]}
    context = context_without_calls(shape, damaged)
    assert sent_without_calls(context, shape) == "said"
    assert context.left_out.blocks == 1


@pytest.mark.parametrize(
    "field",
    [
        {"phase": 1.5},
        {"status": ["completed"]},
        {"id": 7},
        {"content": [{"type": "output_text", "text": "said", "annotations": "x"}]},
    ],
)
def test_field_of_a_wrong_kind_does_not_go_back(field):
    content = [{"type": "output_text", "text": "said"}]
    item = {"type": "message", "role": "assistant", "content": content}
    context = context_without_calls("openai_responses", {**item, **field})
    assert sent_without_calls(context, "openai_responses") == "said"


@pytest.mark.parametrize("summary", [[5], [{}], [{"type": "summary_text", "text": None}], ["x"]])
def test_reasoning_whose_summary_is_damaged_does_not_go_back(summary):
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": summary}
    said = {"type": "message", "role": "assistant", "content": "said"}
    context = context_without_calls("openai_responses", [reasoning, said])
    assert sent_without_calls(context, "openai_responses") == "said"


def test_field_that_a_program_wrote_out_as_null_goes_back_as_it_came():
    content = [{"type": "output_text", "text": "said", "annotations": [], "logprobs": None}]
    item = {"type": "message", "role": "assistant", "content": content, "phase": None}
    context = context_without_calls("openai_responses", item)
    assert sent_without_calls(context, "openai_responses") == content


def context_without_calls(shape, item):
    raw = {"provider": shape, "item": item}
    context = plan(state_of([user(1), reply(2, "said", raw=raw), user(3)]))
    assert broken(context) == []
    return context


def sent_without_calls(context, shape):
    if shape == "openai":
        return context.openai()[1]["content"]
    return context.openai_responses()["input"][1]["content"]


@pytest.mark.parametrize("wrong", [["text"], {"a": 1}])
@pytest.mark.parametrize("shape", ["anthropic", "openai_responses"])
def test_block_whose_type_is_no_text_does_not_go_back(shape, wrong):
    context = context_of(shape, [{"type": wrong, "text": "said"}])
    assert sent(context, shape) == sent(context_of(shape, None), shape)
    assert context.left_out.blocks == 1


def test_half_a_character_beside_the_blocks_of_an_item_is_counted():
    item = {**item_of("anthropic"), "stop_sequence": "\ud83d"}
    context = context_of("anthropic", item)
    assert sent(context, "anthropic")["content"] == item["content"]
