"""The live conversation as providers take it: valid, whole, without secrets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from durasess.interop import provider_messages
from durasess.session.masking import Masker, mask_secrets
from tests.support import exports, provider_rules
from tests.support.exports import HOSTILE, exported, reading

KEY = "ghp_" + "a1B2c3D4e5" * 4


def both(path: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """What OpenAI and Anthropic get."""
    openai = json.loads(exported(provider_messages.write_openai, path))
    return openai["messages"], json.loads(exported(provider_messages.write_anthropic, path))


def assert_valid(path: str) -> None:
    messages, request = both(path)
    assert provider_rules.openai_chat(messages) == []
    assert provider_rules.anthropic(request) == []


def test_conversation_is_valid_for_both(tmp_path: Path) -> None:
    assert_valid(exports.worked(tmp_path))


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_stays_valid(text: str, tmp_path: Path) -> None:
    assert_valid(exports.hostile(tmp_path, text))


def test_every_live_message_is_there_however_many_are_only_in_the_log(tmp_path: Path) -> None:
    with exports.store_at(tmp_path, resident_messages=4).create("s") as session:
        for number in range(30):
            with session.run(f"ask {number}") as run:
                run.assistant(f"reply {number}")
    messages, _ = both(session.path)
    assert [one["content"] for one in messages if one["role"] == "user"] == [
        f"ask {number}" for number in range(30)
    ]


def test_workspace_that_is_not_here_is_not_told(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    store = exports.store_at(tmp_path)
    with store.create("s", workspace=tmp_path / "project") as session, session.run("go") as run:
        run.assistant("done")
    (tmp_path / "project").rmdir()
    messages, _ = both(session.path)
    assert messages[0] == {"role": "user", "content": "go"}


def with_secret(below: Path, raw: Any = None) -> str:
    """A session with a key in a reply, in arguments, in a result, and in the provider's item."""
    with exports.store_at(below, mask=None).create("s") as session, session.run("go") as run:
        run.assistant(f"it is {KEY}", tool_calls=[exports.call("c1", "use", key=KEY)], raw=raw)
        with run.tool("c1") as call:
            call.result(f"used {KEY}")
        run.assistant("", raw={"provider": "anthropic", "item": [{"type": "text", "text": KEY}]})
    return session.path


def test_secrets_are_masked_everywhere_and_the_rest_stays_valid(tmp_path: Path) -> None:
    path = with_secret(tmp_path)
    masker = Masker()
    assert KEY not in exported(provider_messages.write_openai, path, masker)
    assert KEY not in exported(provider_messages.write_anthropic, path)
    assert masker.count >= 3
    assert_valid(path)


def test_reply_of_which_only_the_provider_s_item_had_text_says_that_it_was_masked(
    tmp_path: Path,
) -> None:
    found = provider_messages.conversation(reading(with_secret(tmp_path)), Masker())
    assert found.messages[-1]["content"] == "[masked]" and "raw" not in found.messages[-1]


def test_image_is_never_touched_by_masking(tmp_path: Path) -> None:
    data = "AKIA" + "ABCDEFGHIJKLMNOP"
    assert mask_secrets(data).paths
    image = {"type": "image", "source": {"media_type": "image/png", "data": data}}
    store = exports.store_at(tmp_path, mask=None)
    with store.create("s") as session, session.run([image]) as run:
        run.assistant("seen")
    found = provider_messages.conversation(reading(session.path), Masker())
    assert found.messages[0]["content"][0]["data"] == data
