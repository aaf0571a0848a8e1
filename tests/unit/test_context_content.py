"""Contents: three providers' shapes become one, and each provider gets its own."""

import pytest

from durasess.session.context import plan
from durasess.session.context_content import returned, spoken, text_of
from tests.support.contexts import broken, call, reply, result, state_of, user

PNG = {"type": "image", "media_type": "image/png", "data": "QUFB"}
LINK = {"type": "image", "url": "https://a.example/b.png"}


@pytest.mark.parametrize(
    "part, neutral",
    [
        (
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": "QUFB"},
            },
            PNG,
        ),
        ({"type": "image", "source": {"type": "url", "url": LINK["url"]}}, LINK),
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,QUFB"}}, PNG),
        ({"type": "image_url", "image_url": {"url": LINK["url"]}}, LINK),
        ({"type": "input_image", "image_url": LINK["url"]}, LINK),
        ({"type": "image", "data": "QUFB", "mimeType": "image/png"}, PNG),
        (PNG, PNG),
        (LINK, LINK),
    ],
)
def test_image_of_any_shape_becomes_neutral(part, neutral):
    assert spoken([part]) == [neutral]
    assert spoken(part) == [neutral]
    assert returned([part]) == [neutral]


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image", "data": "QUFB", "mimeType": "image/bmp"},
        {"type": "image", "data": "not base64", "mimeType": "image/png"},
        {"type": "image_url", "image_url": {"url": "file:///etc/passwd"}},
        {"type": "image"},
    ],
)
def test_image_that_no_provider_takes_is_named_only(part):
    assert spoken([part]) == f"[{part['type']} not shown]"


@pytest.mark.parametrize(
    "content, neutral",
    [
        ("hi", "hi"),
        (" \n", ""),
        (None, ""),
        ([], ""),
        ([{"type": "text", "text": ""}, {"type": "output_text", "text": "a"}], "a"),
        ([{"type": "audio", "data": "QQ=="}], "[audio not shown]"),
        ([{"type": "thinking", "thinking": "hm", "signature": "s"}], ""),
        (["a", {"b": 1}], [{"type": "text", "text": "a"}, {"type": "text", "text": '{"b":1}'}]),
        ({"b": 1}, '{"b":1}'),
        (7, "7"),
    ],
)
def test_what_was_said_becomes_texts(content, neutral):
    assert spoken(content) == neutral


@pytest.mark.parametrize(
    "output, neutral",
    [
        (None, ""),
        ({"ok": True}, '{"ok":true}'),
        ([{"type": "file", "name": "a"}], '[{"type":"file","name":"a"}]'),
        ([{"type": "text", "text": "a"}], "a"),
        ([], "[]"),
        (" ", " "),
    ],
)
def test_output_of_a_tool_loses_nothing(output, neutral):
    assert returned(output) == neutral


def test_text_of_a_content_with_an_image_says_so():
    assert text_of([{"type": "text", "text": "see"}, PNG]) == "see\n[image not shown]"


def shown():
    state = state_of(
        [user(1, ["see", PNG]), reply(2, [LINK], "a"), result(3, "a", [PNG]), reply(4, "ok")],
        call("a"),
    )
    context = plan(state)
    assert broken(context) == []
    return context


def test_chat_gets_images_of_users_alone():
    asked, said, answered, _ = shown().openai()
    assert asked["content"][1]["image_url"]["url"] == "data:image/png;base64,QUFB"
    assert said["content"] == answered["content"] == "[image not shown]"


def test_responses_get_images_of_users_and_tools():
    asked, _, _, answered, _ = shown().openai_responses()["input"]
    image = {"type": "input_image", "image_url": "data:image/png;base64,QUFB"}
    assert asked["content"] == [{"type": "input_text", "text": "see"}, image]
    assert answered["output"] == [image]


def test_anthropic_gets_images_of_users_and_tools():
    asked, _, answered, _ = shown().anthropic()["messages"]
    source = {"type": "base64", "media_type": "image/png", "data": "QUFB"}
    assert asked["content"][1] == {"type": "image", "source": source}
    assert answered["content"][0]["content"] == [{"type": "image", "source": source}]


def test_error_and_blank_output_for_anthropic():
    state = state_of(
        [user(1), reply(2, "", "a", "b"), result(3, "a", " "), result(4, "b", "no", ok=False)],
        call("a"),
        call("b", "failed"),
    )
    assert plan(state).anthropic()["messages"][2]["content"] == [
        {"type": "tool_result", "tool_use_id": "a"},
        {"type": "tool_result", "tool_use_id": "b", "content": "no", "is_error": True},
    ]


def test_results_come_before_what_the_user_said_and_neighbours_are_one():
    state = state_of([user(1), user(2), reply(3, "", "a"), result(4, "a"), user(5)], call("a"))
    made = plan(state).anthropic()["messages"]
    kinds = [[block["type"] for block in message["content"]] for message in made]
    assert kinds == [["text", "text"], ["tool_use"], ["tool_result", "text"]]


def test_ids_too_long_for_chat_alone_are_shorter_there_alone():
    long = "i" * 50
    state = state_of([user(1), reply(2, "", "a"), result(3, "a")], call("a", call_id=long))
    context = plan(state)
    assert context.openai()[1]["tool_calls"][0]["id"] == "i" * 40
    assert context.openai()[2]["tool_call_id"] == "i" * 40
    assert context.openai_responses()["input"][1]["call_id"] == long
    assert context.left_out.renamed_ids == 0


@pytest.mark.parametrize("kind", [["text"], {"text": 1}, 7, None])
def test_part_whose_type_is_no_text_is_shown_as_it_is(kind: object) -> None:
    assert spoken([{"type": kind, "text": "x"}])
    assert returned([{"type": kind, "text": "x"}])
