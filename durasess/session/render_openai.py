"""Neutral messages as OpenAI's chat completions take them."""

from __future__ import annotations

import copy
from typing import Any

from durasess.session.context_content import Content, text_of
from durasess.session.context_ids import legal_ids
from durasess.session.context_text import json_text
from durasess.session.provider_items import blocks_of

LONGEST_ID = 40
"""Characters of a call id; other APIs allow more."""


def chat_messages(system: str, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The system text, when there is one, and the messages. Arguments are JSON texts of objects;
    images are for users only, elsewhere a text says that there was one."""
    ids = _ids(messages)
    made = [{"role": "system", "content": system}] if system else []
    for message in messages:
        made += _message(message, ids)
    return made


def _ids(messages: list[dict[str, Any]]) -> dict[str, str]:
    ids = [call["call_id"] for message in messages for call in message.get("tool_calls", ())]
    return dict(zip(ids, legal_ids(ids, longest=LONGEST_ID), strict=True))


def _message(message: dict[str, Any], ids: dict[str, str]) -> list[dict[str, Any]]:
    if message["role"] == "user":
        return [{"role": "user", "content": _said(message["content"])}]
    if message["role"] == "assistant":
        return _reply(message, ids)
    output = text_of(message["content"])
    return [{"role": "tool", "tool_call_id": ids[message["call_id"]], "content": output}]


def _reply(message: dict[str, Any], ids: dict[str, str]) -> list[dict[str, Any]]:
    calls = message.get("tool_calls", [])
    own = blocks_of(message, message.get("raw"), None)
    is_same = all(ids[call["call_id"]] == call["call_id"] for call in calls)
    if own is not None and own.api == "openai" and is_same:
        return copy.deepcopy(own.blocks)
    text = text_of(message["content"])
    if not text and not calls:
        return []
    made: dict[str, Any] = {"role": "assistant", "content": text or None}
    if calls:
        made["tool_calls"] = [
            {
                "id": ids[call["call_id"]],
                "type": "function",
                "function": {"name": call["name"], "arguments": json_text(call["arguments"])},
            }
            for call in calls
        ]
    return [made]


def _said(content: Content) -> Content:
    if isinstance(content, str):
        return content
    return [_part(part) for part in content]


def _part(part: dict[str, Any]) -> dict[str, Any]:
    if part["type"] == "text":
        return dict(part)
    url = part.get("url") or f"data:{part['media_type']};base64,{part['data']}"
    return {"type": "image_url", "image_url": {"url": url}}
