"""Neutral messages as OpenAI's responses take them."""

from __future__ import annotations

import copy
from typing import Any

from durasess.session.context_content import Content, text_of
from durasess.session.context_text import json_text
from durasess.session.provider_items import blocks_of


def responses_request(system: str, messages: list[dict[str, Any]]) -> dict[str, Any]:
    """`{"instructions", "input"}`. Arguments are JSON texts of objects; an output with images is a
    list of parts."""
    return {
        "instructions": system,
        "input": [item for message in messages for item in _items(message)],
    }


def _items(message: dict[str, Any]) -> list[dict[str, Any]]:
    if message["role"] == "user":
        return [{"type": "message", "role": "user", "content": _parts(message["content"])}]
    if message["role"] == "assistant":
        return _reply(message)
    content = message["content"]
    output = _parts(content) if _has_images(content) else text_of(content)
    return [{"type": "function_call_output", "call_id": message["call_id"], "output": output}]


def _reply(message: dict[str, Any]) -> list[dict[str, Any]]:
    own = blocks_of(message, message.get("raw"), None)
    first: list[dict[str, Any]] = []
    if own is not None and own.api == "openai_responses":
        first = copy.deepcopy(own.blocks)
        if own.is_whole:
            return first
    text = text_of(message["content"])
    said = [{"type": "message", "role": "assistant", "content": text}] if text else []
    calls = [
        {
            "type": "function_call",
            "call_id": call["call_id"],
            "name": call["name"],
            "arguments": json_text(call["arguments"]),
        }
        for call in message.get("tool_calls", ())
    ]
    return first + said + calls


def _has_images(content: Content) -> bool:
    return not isinstance(content, str) and any(part["type"] == "image" for part in content)


def _parts(content: Content) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "input_text", "text": content}]
    return [_part(part) for part in content]


def _part(part: dict[str, Any]) -> dict[str, Any]:
    if part["type"] == "text":
        return {"type": "input_text", "text": part["text"]}
    url = part.get("url") or f"data:{part['media_type']};base64,{part['data']}"
    return {"type": "input_image", "image_url": url}
