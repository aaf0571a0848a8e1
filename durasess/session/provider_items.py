"""Providers' own items of a reply: whether one may be sent back as it came, and as which blocks.

`Message.raw` is `{"provider": …, "item": …}`, perhaps with "model". An item is opaque: it goes
whole or not at all, and nothing in it is edited. It goes only to the provider that made it, and
only if every block of it is of a known type with known fields: a field that is not known may be an
option of an old request, and those are not history. Rendering is elsewhere.
"""

from __future__ import annotations

import json
import re
from typing import Any, Literal, NamedTuple

from durasess.session.context_content import THINKING
from durasess.session.context_text import is_whole_json

Api = Literal["anthropic", "openai", "openai_responses"]


class Blocks(NamedTuple):
    """An item as blocks of an API. Without `is_whole` it is only thinking: it goes before what the
    neutral message says."""

    api: Api
    blocks: list[dict[str, Any]]
    is_whole: bool


def blocks_of(message: dict[str, Any], raw: Any, model: str | None) -> Blocks | None:
    """The blocks of a neutral assistant message's own item; None when it may not be sent.

    `model` is the one that will read it, None when nobody said: thinking is signed by the model
    that made it, so where another made it (`raw["model"]`, else the item's) the item is left out.
    """
    if not isinstance(raw, dict) or "provider" not in raw or not _made_by(raw, model):
        return None
    found = _shaped(raw["provider"], raw.get("item"))
    if found is None or not found.blocks or not _is_sound(found, message):
        return None
    return found


def ids_of(blocks: Blocks) -> set[str]:
    """The ids of the blocks, each of which may stand in a context once."""
    return {block["id"] for block in blocks.blocks if isinstance(block.get("id"), str)}


_DATED = re.compile(r"-(\d{8}|\d{4}-\d{2}-\d{2})$")
"""What a provider adds to the name that was asked for."""


def _made_by(raw: dict[str, Any], model: str | None) -> bool:
    item = raw.get("item")
    maker = raw.get("model") or (item.get("model") if isinstance(item, dict) else None)
    if not maker or not model:
        return True
    return _DATED.sub("", str(maker)) == _DATED.sub("", model)


def _shaped(provider: Any, item: Any) -> Blocks | None:
    """The envelope of a response is no history; what is inside is."""
    if provider == "anthropic":
        is_reply = isinstance(item, dict) and item.get("type", "message") == "message"
        return _listed("anthropic", item.get("content") if is_reply else item)
    is_chat = isinstance(item, dict) and not {"type", "output"}.intersection(item)
    if provider in ("openai", "openai_chat") and is_chat:
        return Blocks("openai", [item], True)
    if provider in ("openai", "openai_responses"):
        blocks = item["output"] if isinstance(item, dict) and "output" in item else item
        return _listed("openai_responses", blocks)
    return None


def _listed(api: Api, blocks: Any) -> Blocks | None:
    found = [blocks] if isinstance(blocks, dict) else blocks
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        return None
    return Blocks(api, found, not all(map(_is_thinking, found)))


def _is_thinking(block: dict[str, Any]) -> bool:
    kind = block.get("type")
    # What a record holds may be damaged: a list is no key of a set.
    return isinstance(kind, str) and kind in THINKING


_FIELDS: dict[tuple[Api, str], str] = {
    ("anthropic", "text"): "type text citations",
    ("anthropic", "thinking"): "type thinking signature",
    ("anthropic", "redacted_thinking"): "type data",
    ("anthropic", "tool_use"): "type id name input caller",
    ("openai", ""): "role content refusal tool_calls",
    ("openai", "text"): "type text",
    ("openai", "refusal"): "type refusal",
    ("openai", "function"): "type id function",
    ("openai_responses", "reasoning"): "type id summary content encrypted_content status",
    ("openai_responses", "message"): "type id role status content phase",
    ("openai_responses", "output_text"): "type text annotations logprobs",
    ("openai_responses", "refusal"): "type refusal",
    ("openai_responses", "function_call"): "type id call_id name arguments status",
}
"""The API and a block's type → the fields that it takes back."""

_TYPES: dict[str, type | tuple[type, ...]] = {
    "text": str,
    **dict.fromkeys(("annotations", "citations", "logprobs", "summary"), (list, type(None))),
    "caller": (dict, type(None)),
    **dict.fromkeys(
        ("call_id", "encrypted_content", "id", "name", "phase", "refusal", "status"),
        (str, type(None)),
    ),
}
"""Fields that an API takes back with these values alone; what a record holds may be damaged."""


def _is_sound(found: Blocks, message: dict[str, Any]) -> bool:
    blocks = found.blocks
    if not all(_is_known(found.api, block) for block in blocks) or not _is_strict(blocks):
        return False
    if not found.is_whole:
        # Thinking that nothing follows is refused.
        return bool(message["content"] or message.get("tool_calls"))
    if _is_thinking(blocks[-1]):
        return False
    asked = [(call["call_id"], call["name"]) for call in message.get("tool_calls", ())]
    texts = [text for block in blocks for text in _texts(block)]
    says = bool(texts) or not message["content"]
    return says and all(text.strip() for text in texts) and _calls(found) == asked


def _is_known(api: Api, block: dict[str, Any]) -> bool:
    kind = block.get("type", "")
    fields = _FIELDS.get((api, kind)) if isinstance(kind, str) else None
    if fields is None or not set(fields.split()).issuperset(block):
        return False
    if not all(isinstance(block[name], _TYPES.get(name, object)) for name in block):
        return False
    if kind in ("text", "output_text", "refusal") and _said_in(block) is None:
        return False
    check = {"anthropic": _anthropic, "openai": _chat, "openai_responses": _responses}[api]
    return check(block)


def _anthropic(block: dict[str, Any]) -> bool:
    kind = block["type"]
    if kind == "tool_use":
        return isinstance(block.get("input"), dict)
    if kind == "thinking":
        return all(isinstance(block.get(name), str) for name in ("thinking", "signature"))
    return isinstance(block.get("text" if kind == "text" else "data"), str)


def _chat(block: dict[str, Any]) -> bool:
    if "type" in block:
        return True
    content, calls = block.get("content"), block.get("tool_calls", ())
    if block.get("role") != "assistant" or not _is_said("openai", content) or calls == []:
        return False
    if not isinstance(calls, list | tuple) or not (content or calls or block.get("refusal")):
        return False
    return all(isinstance(call, dict) and _is_chat_call(call) for call in calls)


def _is_chat_call(call: dict[str, Any]) -> bool:
    function = call.get("function")
    return (
        call.get("type") == "function"
        and set(call) == {"type", "id", "function"}
        and isinstance(function, dict)
        and set(function) == {"name", "arguments"}
        and isinstance(function["arguments"], str)
    )


def _responses(block: dict[str, Any]) -> bool:
    kind = block["type"]
    if kind == "reasoning":
        # The service gives a list of texts here and refuses to take one back.
        is_named = block.get("id") != ""
        return is_named and not block.get("content") and _is_summary(block.get("summary"))
    if kind == "function_call":
        return isinstance(block.get("arguments"), str)
    if kind == "message":
        content = block.get("content")
        is_reply = block.get("role") == "assistant" and bool(content)
        return is_reply and _is_said("openai_responses", content)
    return True


def _is_summary(parts: Any) -> bool:
    return isinstance(parts, list) and all(
        isinstance(one, dict)
        and set(one) == {"type", "text"}
        and one["type"] == "summary_text"
        and isinstance(one["text"], str)
        for one in parts
    )


def _said_in(block: dict[str, Any]) -> str | None:
    found: str | None = block.get("refusal" if block["type"] == "refusal" else "text")
    return found


def _is_said(api: Api, content: Any) -> bool:
    if not isinstance(content, list):
        return content is None or isinstance(content, str)
    inside = ("text", "refusal") if api == "openai" else ("output_text", "refusal")
    return bool(content) and all(
        isinstance(one, dict) and one.get("type") in inside and _is_known(api, one)
        for one in content
    )


def _is_strict(blocks: list[dict[str, Any]]) -> bool:
    """Whether strict UTF-8 and strict JSON can hold it; nothing in it may be cleaned."""
    try:
        json.dumps(blocks, ensure_ascii=False, allow_nan=False).encode("utf-8")
    except (ValueError, TypeError):
        return False
    return all(is_whole_json(text) for block in blocks for text in _arguments(block))


def _arguments(block: dict[str, Any]) -> list[str]:
    found = [block["arguments"]] if "arguments" in block else []
    return found + [call["function"]["arguments"] for call in block.get("tool_calls") or ()]


def _texts(block: dict[str, Any]) -> list[str]:
    kind = block.get("type", "")
    if kind in ("text", "output_text", "refusal"):
        return [_said_in(block) or ""]
    content = block.get("content")
    if kind not in ("", "message") or content is None:
        return [str(block["refusal"])] if block.get("refusal") else []
    if isinstance(content, str):
        return [content]
    return [text for part in content for text in _texts(part)]


def _calls(found: Blocks) -> list[tuple[str, str]]:
    made = []
    for block in found.blocks:
        if block.get("type") == "tool_use":
            made.append((block.get("id", ""), block.get("name", "")))
        elif block.get("type") == "function_call":
            made.append((block.get("call_id", ""), block.get("name", "")))
        for call in block.get("tool_calls") or ():
            made.append((call["id"], call["function"]["name"]))
    return made
