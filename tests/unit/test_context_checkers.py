"""The checkers of provider rules: each rule, broken once."""

import copy

import pytest

from tests.support import provider_rules

CHAT = [
    {"role": "system", "content": "s"},
    {"role": "user", "content": "u"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": one, "type": "function", "function": {"name": "n", "arguments": "{}"}}
            for one in ("a", "b")
        ],
    },
    {"role": "tool", "tool_call_id": "a", "content": ""},
    {"role": "tool", "tool_call_id": "b", "content": "x"},
    {"role": "assistant", "content": "done"},
]
RESPONSES = {
    "instructions": "",
    "input": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "u"}]},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "function_call", "call_id": "a", "name": "n", "arguments": "{}"},
        {"type": "function_call", "call_id": "b", "name": "n", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": ""},
        {"type": "function_call_output", "call_id": "b", "output": "x"},
        {"type": "message", "role": "assistant", "content": "done"},
    ],
}
ANTHROPIC = {
    "system": "",
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "u"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "", "signature": "s"},
                {"type": "tool_use", "id": "a", "name": "n", "input": {}},
                {"type": "tool_use", "id": "b", "name": "n", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a"},
                {"type": "tool_result", "tool_use_id": "b", "content": "x"},
                {"type": "text", "text": "and"},
            ],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "done"}]},
    ],
}


def changed(request, change):
    made = copy.deepcopy(request)
    change(made)
    return made


def swap(values, one, other):
    values[one], values[other] = values[other], values[one]


def test_sound_requests_break_no_rule():
    assert provider_rules.openai_chat(CHAT) == []
    assert provider_rules.openai_responses(RESPONSES) == []
    assert provider_rules.anthropic(ANTHROPIC) == []


CHAT_FAULTS = {
    "result without its call": [
        lambda made: made.pop(2),
        lambda made: swap(made, 3, 4),
        lambda made: made.insert(5, made[4]),
    ],
    "calls without results": [lambda made: made.pop(4), lambda made: made.__delitem__(slice(3, 9))],
    "system text not first": [lambda made: swap(made, 0, 1)],
    "output is no text": [lambda made: made[3].update(content=None)],
    "empty content": [
        lambda made: made[1].update(content=""),
        lambda made: made[1].update(content=[]),
    ],
    "empty text": [lambda made: made[1].update(content=[{"type": "text", "text": ""}])],
    "unknown image": [
        lambda made: made[1].update(
            content=[{"type": "image_url", "image_url": {"url": "data:image/bmp;base64,QQ=="}}]
        )
    ],
    "unknown part": [lambda made: made[1].update(content=[{"type": "audio"}])],
    "unknown role": [lambda made: made[1].update(role="developer2")],
    "unknown option": [lambda made: made[2].update(service_tier="x")],
    "empty list of calls": [lambda made: made[5].update(tool_calls=[])],
    "reply without content": [lambda made: made[5].update(content="")],
    "illegal call id": [
        lambda made: made[2]["tool_calls"][0].update(id="a b"),
        lambda made: made[2]["tool_calls"][0].update(id=""),
        lambda made: made[2]["tool_calls"][0].update(id="i" * 41),
    ],
    "call id used twice": [lambda made: made[2]["tool_calls"][1].update(id="a")],
    "illegal name": [lambda made: made[2]["tool_calls"][0]["function"].update(name="a.b")],
    "arguments are no JSON text": [
        lambda made: made[2]["tool_calls"][0]["function"].update(arguments="[]"),
        lambda made: made[2]["tool_calls"][0]["function"].update(arguments="{"),
        lambda made: made[2]["tool_calls"][0]["function"].update(arguments={}),
    ],
    "behind an escape": [
        lambda made: made[2]["tool_calls"][0]["function"].update(arguments='{"a":"\\ud800"}')
    ],
    "not strict JSON": [
        lambda made: made[1].update(content="\ud800"),
        lambda made: made[1].update(content=float("nan")),
    ],
}
RESPONSES_FAULTS = {
    "result without its call": [
        lambda made: made["input"].pop(2),
        lambda made: swap(made["input"], 4, 5),
    ],
    "calls without results": [
        lambda made: made["input"].pop(5),
        lambda made: made["input"].__delitem__(slice(5, 9)),
        lambda made: made["input"].insert(4, made["input"][0]),
    ],
    "reasoning that nothing follows": [
        lambda made: made["input"].append({"type": "reasoning", "summary": []})
    ],
    "item id used twice": [lambda made: made["input"].insert(1, made["input"][1])],
    "empty item id": [lambda made: made["input"][1].update(id="")],
    "reasoning with content": [lambda made: made["input"][1].update(content=[{"text": "x"}])],
    "unknown item": [lambda made: made["input"][1].update(type="web_search_call")],
    "empty content": [
        lambda made: made["input"][6].update(content=""),
        lambda made: made["input"][0].update(content=[]),
    ],
    "empty text": [lambda made: made["input"][0]["content"][0].update(text="")],
    "unknown part": [lambda made: made["input"][4].update(output=[{"type": "text", "text": "x"}])],
    "unknown image": [
        lambda made: made["input"][4].update(output=[{"type": "input_image", "image_url": "file:"}])
    ],
    "illegal call id": [lambda made: made["input"][2].update(call_id="i" * 65)],
    "call id used twice": [lambda made: made["input"][3].update(call_id="a")],
    "illegal name": [lambda made: made["input"][2].update(name="")],
    "arguments are no JSON text": [lambda made: made["input"][2].update(arguments="x")],
    "not strict JSON": [lambda made: made.update(instructions="\udfff")],
}


def blocks(number):
    return lambda made: made["messages"][number]["content"]


ANTHROPIC_FAULTS = {
    "roles do not alternate": [
        lambda made: made["messages"].pop(0),
        lambda made: made["messages"].insert(0, made["messages"][0]),
    ],
    "no content": [lambda made: made["messages"][0].update(content=[])],
    "results are not those": [
        lambda made: blocks(2)(made).pop(0),
        lambda made: blocks(1)(made).pop(1),
        lambda made: swap(blocks(2)(made), 0, 1),
        lambda made: blocks(2)(made).insert(1, blocks(2)(made)[1]),
    ],
    "results are not first": [lambda made: swap(blocks(2)(made), 1, 2)],
    "calls without results": [lambda made: made["messages"].__delitem__(slice(2, 9))],
    "ends with thinking": [
        lambda made: blocks(3)(made).append({"type": "redacted_thinking", "data": "x"})
    ],
    "trailing whitespace": [lambda made: blocks(3)(made)[0].update(text="done \n")],
    "unknown block": [lambda made: blocks(0)(made)[0].update(type="audio")],
    "unknown option": [lambda made: blocks(1)(made)[0].update(option=1)],
    "block of the other role": [
        lambda made: blocks(0)(made).append({"type": "thinking", "thinking": "", "signature": ""}),
        lambda made: blocks(3)(made).insert(
            0, {"type": "image", "source": {"type": "url", "url": "https://a"}}
        ),
    ],
    "empty text": [
        lambda made: blocks(0)(made)[0].update(text=" \n"),
        lambda made: blocks(2)(made)[0].update(content=[{"type": "text", "text": ""}]),
    ],
    "empty content": [lambda made: blocks(2)(made)[0].update(content=[])],
    "unknown image": [
        lambda made: blocks(0)(made).append(
            {"type": "image", "source": {"type": "base64", "media_type": "image/bmp", "data": "Q"}}
        )
    ],
    "illegal call id": [lambda made: blocks(1)(made)[1].update(id="")],
    "call id used twice": [lambda made: blocks(1)(made)[2].update(id="a")],
    "illegal name": [lambda made: blocks(1)(made)[1].update(name="é")],
    "input is no object": [lambda made: blocks(1)(made)[1].update(input="{}")],
    "not strict JSON": [lambda made: made.update(system="\ud800")],
}


def cases(request, check, faults):
    return [(request, check, rule, change) for rule, every in faults.items() for change in every]


@pytest.mark.parametrize(
    "request_, check, rule, change",
    [
        *cases(CHAT, provider_rules.openai_chat, CHAT_FAULTS),
        *cases(RESPONSES, provider_rules.openai_responses, RESPONSES_FAULTS),
        *cases(ANTHROPIC, provider_rules.anthropic, ANTHROPIC_FAULTS),
    ],
)
def test_checker_names_the_rule_that_is_broken(request_, check, rule, change):
    broken = check(changed(request_, change))
    assert [one for one in broken if rule in one] != []
