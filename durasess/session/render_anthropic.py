"""Neutral messages as Anthropic's messages take them."""

from __future__ import annotations

import copy
from typing import Any

from durasess.session.context_content import Content
from durasess.session.provider_items import blocks_of

OPENING = "(The conversation goes on from here.)"
"""Said by the user where the first message would be a reply: that is refused."""


def anthropic_request(system: str, messages: list[dict[str, Any]]) -> dict[str, Any]:
    """`{"system", "messages"}`: roles alternate, the user's is first, results come before what the
    user said. A reply at the end loses trailing blanks. No messages stay none."""
    made: list[dict[str, Any]] = []
    for message in reversed(messages):
        blocks = _blocks(message, is_last=not made)
        role = "assistant" if message["role"] == "assistant" else "user"
        if blocks and made and made[0]["role"] == role:
            made[0]["content"][:0] = blocks
        elif blocks:
            made.insert(0, {"role": role, "content": blocks})
    if made and made[0]["role"] == "assistant":
        made.insert(0, {"role": "user", "content": [{"type": "text", "text": OPENING}]})
    return {"system": system, "messages": made}


def _blocks(message: dict[str, Any], *, is_last: bool) -> list[dict[str, Any]]:
    if message["role"] == "user":
        return _parts(message["content"])
    if message["role"] == "assistant":
        return _closing(message) if is_last else _reply(message)
    return [_result(message)]


def _reply(message: dict[str, Any]) -> list[dict[str, Any]]:
    own = blocks_of(message, message.get("raw"), None)
    if own is None or own.api != "anthropic":
        return _said(message)
    first = copy.deepcopy(own.blocks)
    return first if own.is_whole else first + _said(message)


def _closing(message: dict[str, Any]) -> list[dict[str, Any]]:
    """A reply that nothing follows: its own item only where it does not end in a blank."""
    blocks = _reply(message)
    if not blocks or blocks[-1]["type"] != "text" or not _ends_blank(blocks):
        return blocks
    own = blocks_of(message, message["raw"], None) if "raw" in message else None
    if own is not None and own.api == "anthropic" and own.is_whole:
        blocks = _said(message)
    if blocks and blocks[-1]["type"] == "text":
        blocks[-1]["text"] = blocks[-1]["text"].rstrip()
    return blocks


def _ends_blank(blocks: list[dict[str, Any]]) -> bool:
    text: str = blocks[-1]["text"]
    return text != text.rstrip()


def _said(message: dict[str, Any]) -> list[dict[str, Any]]:
    calls = [
        {
            "type": "tool_use",
            "id": call["call_id"],
            "name": call["name"],
            "input": copy.deepcopy(call["arguments"]),
        }
        for call in message.get("tool_calls", ())
    ]
    texts = [
        {"type": "text", "text": "[image not shown]"} if part["type"] != "text" else part
        for part in _parts(message["content"])
    ]
    return texts + calls


def _result(message: dict[str, Any]) -> dict[str, Any]:
    """An output that is blank has no content; an empty text block is refused."""
    made: dict[str, Any] = {"type": "tool_result", "tool_use_id": message["call_id"]}
    content = message["content"]
    if isinstance(content, list) or content.strip():
        made["content"] = content if isinstance(content, str) else _parts(content)
    if message["is_error"]:
        made["is_error"] = True
    return made


def _parts(content: Content) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [_part(part) for part in content]


def _part(part: dict[str, Any]) -> dict[str, Any]:
    if part["type"] == "text":
        return {"type": "text", "text": part["text"]}
    if "url" in part:
        return {"type": "image", "source": {"type": "url", "url": part["url"]}}
    source = {"type": "base64", "media_type": part["media_type"], "data": part["data"]}
    return {"type": "image", "source": source}
