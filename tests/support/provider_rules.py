"""What three providers refuse, as strict checkers: each returns the rules that a request breaks.

Written from the providers' public rules alone; nothing here knows how a context is made.
"""

from __future__ import annotations

import json
import re
from typing import Any

ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
CHAT_ID = re.compile(r"[a-zA-Z0-9_-]{1,40}")
MEDIA_TYPES = {"image/jpeg", "image/png", "image/gif", "image/webp"}


def openai_chat(messages: list[dict[str, Any]]) -> list[str]:
    """Broken rules of a list of chat messages."""
    broken = strict_json(messages)
    due: list[str] = []
    seen: set[str] = set()
    for number, message in enumerate(messages):
        role, content = message.get("role"), message.get("content")
        at = f"message {number}: "
        if role == "tool":
            if message.get("tool_call_id") not in due[:1]:
                broken.append(at + "result without its call before it, or out of order")
            due = due[1:]
            broken += [at + "output is no text"] * (not isinstance(content, str))
            continue
        broken += [at + "calls without results"] * bool(due)
        due = []
        if role == "system":
            broken += [at + "system text not first"] * (number > 0 or not content)
        elif role == "user":
            broken += [at + one for one in chat_content(content)]
        elif role == "assistant":
            broken += [at + one for one in chat_reply(message, seen)]
            due = [call.get("id", "") for call in message.get("tool_calls", ())]
        else:
            broken.append(at + "unknown role")
    return broken + ["calls without results"] * bool(due)


def chat_content(content: Any) -> list[str]:
    if isinstance(content, str):
        return ["empty content"] * (not content)
    if not isinstance(content, list) or not content:
        return ["empty content"]
    broken = []
    for part in content:
        if part.get("type") == "text":
            broken += ["empty text"] * (not part.get("text"))
        elif part.get("type") == "image_url":
            broken += image_url(part["image_url"]["url"])
        else:
            broken.append("unknown part")
    return broken


def chat_reply(message: dict[str, Any], seen: set[str]) -> list[str]:
    broken = ["unknown option"] * bool(
        set(message) - {"role", "content", "refusal", "tool_calls", "name"}
    )
    calls = message.get("tool_calls", [])
    broken += ["empty list of calls"] * ("tool_calls" in message and not calls)
    if not calls and not message.get("content") and not message.get("refusal"):
        broken.append("reply without content")
    for call in calls:
        function = call["function"]
        broken += call_id(call.get("id"), seen, CHAT_ID) + arguments_text(function["arguments"])
        broken += ["illegal name"] * (not ID.fullmatch(function["name"]))
    return broken


def openai_responses(request: dict[str, Any]) -> list[str]:
    """Broken rules of `{"instructions", "input"}`."""
    broken = strict_json(request)
    due: list[str] = []
    seen: set[str] = set()
    own: set[str] = set()
    is_answering = False
    before = ""
    for number, item in enumerate(request["input"]):
        kind = item.get("type")
        at = f"item {number}: "
        if kind == "function_call_output":
            if item.get("call_id") not in due[:1]:
                broken.append(at + "result without its call before it, or out of order")
            due, is_answering = due[1:], True
            broken += [at + one for one in responses_output(item["output"])]
        else:
            is_reply = kind in ("reasoning", "function_call") or item.get("role") == "assistant"
            broken += [at + "calls without results"] * bool(due and (is_answering or not is_reply))
            broken += [at + one for one in responses_item(item, seen)]
            if kind == "function_call":
                due.append(item.get("call_id", ""))
            is_answering = False
        if before == "reasoning" and kind not in ("reasoning", "message", "function_call"):
            broken.append(at + "reasoning that nothing follows")
        if "id" in item:
            broken += [at + "item id used twice"] * (item["id"] in own)
            broken += [at + "empty item id"] * (not item["id"])
            own.add(item["id"])
        before = kind or ""
    broken += ["reasoning that nothing follows"] * (before == "reasoning")
    return broken + ["calls without results"] * bool(due)


def responses_item(item: dict[str, Any], seen: set[str]) -> list[str]:
    kind = item.get("type")
    if kind == "function_call":
        names = ["illegal name"] * (not ID.fullmatch(item["name"]))
        return names + call_id(item.get("call_id"), seen, ID) + arguments_text(item["arguments"])
    if kind == "reasoning":
        return ["reasoning with content"] * bool(item.get("content"))
    if kind != "message":
        return ["unknown item"]
    if item["role"] == "assistant":
        content = item["content"]
        texts = content if isinstance(content, list) else [{"text": content}]
        said = [one.get("text") or one.get("refusal") for one in texts]
        return ["empty content"] * (not said or not all(said))
    return responses_output(item["content"]) if isinstance(item["content"], list) else []


def responses_output(content: Any) -> list[str]:
    if isinstance(content, str):
        return []
    broken = ["empty content"] * (not content)
    for part in content:
        if part["type"] == "input_text":
            broken += ["empty text"] * (not part["text"])
        elif part["type"] == "input_image":
            broken += image_url(part["image_url"])
        else:
            broken.append("unknown part")
    return broken


def anthropic(request: dict[str, Any]) -> list[str]:
    """Broken rules of `{"system", "messages"}`."""
    broken = strict_json(request)
    seen: set[str] = set()
    due: list[str] = []
    role = "assistant"
    for number, message in enumerate(request["messages"]):
        at = f"message {number}: "
        broken += [at + "roles do not alternate, or the first is no user"] * (
            message["role"] == role or message["role"] not in ("user", "assistant")
        )
        role = message["role"]
        blocks = message["content"]
        broken += [at + "no content"] * (not blocks)
        results = [one["tool_use_id"] for one in blocks if one["type"] == "tool_result"]
        broken += [at + "results are not those of the calls before"] * (results != due)
        kinds = [one["type"] == "tool_result" for one in blocks]
        broken += [at + "results are not first"] * (kinds != sorted(kinds, reverse=True))
        for block in blocks:
            broken += [at + one for one in anthropic_block(block, role, seen)]
        due = [one["id"] for one in blocks if one["type"] == "tool_use"]
        thinks = bool(blocks) and blocks[-1]["type"] in ("thinking", "redacted_thinking")
        broken += [at + "ends with thinking"] * thinks
    if role == "assistant" and request["messages"]:
        last = request["messages"][-1]["content"][-1]
        ends_blank = last["type"] == "text" and last["text"] != last["text"].rstrip()
        broken += ["trailing whitespace at the end"] * ends_blank
    return broken + ["calls without results"] * bool(due)


ANTHROPIC_FIELDS = {
    "text": {"type", "text", "citations", "cache_control"},
    "image": {"type", "source", "cache_control"},
    "thinking": {"type", "thinking", "signature"},
    "redacted_thinking": {"type", "data"},
    "tool_use": {"type", "id", "name", "input", "cache_control", "caller"},
    "tool_result": {"type", "tool_use_id", "content", "is_error", "cache_control"},
}


def anthropic_block(block: dict[str, Any], role: str, seen: set[str]) -> list[str]:
    kind = block["type"]
    if kind not in ANTHROPIC_FIELDS:
        return ["unknown block"]
    broken = ["unknown option"] * bool(set(block) - ANTHROPIC_FIELDS[kind])
    by_role = {"user": ("text", "image", "tool_result"), "assistant": ("image", "tool_result")}
    if (kind in by_role[role]) != (role == "user") and kind != "text":
        broken.append("block of the other role")
    if kind == "text":
        broken += ["empty text"] * (not block["text"].strip())
    elif kind == "image":
        broken += anthropic_image(block["source"])
    elif kind == "tool_use":
        broken += call_id(block["id"], seen, ID)
        broken += ["illegal name"] * (not ID.fullmatch(block["name"]))
        broken += ["input is no object"] * (not isinstance(block["input"], dict))
    elif kind == "tool_result" and isinstance(block.get("content"), list):
        broken += ["empty content"] * (not block["content"])
        for inner in block["content"]:
            broken += anthropic_block(inner, "user", seen)
    return broken


def anthropic_image(source: dict[str, Any]) -> list[str]:
    if source["type"] == "url":
        return image_url(source["url"])
    return ["unknown image"] * (source["media_type"] not in MEDIA_TYPES or not source["data"])


def image_url(url: str) -> list[str]:
    is_data = any(url.startswith(f"data:{kind};base64,") for kind in MEDIA_TYPES)
    return ["unknown image"] * (not is_data and not url.startswith(("https://", "http://")))


def call_id(value: Any, seen: set[str], form: re.Pattern[str]) -> list[str]:
    if not isinstance(value, str) or not form.fullmatch(value):
        return ["illegal call id"]
    twice = ["call id used twice"] * (value in seen)
    seen.add(value)
    return twice


def arguments_text(value: Any) -> list[str]:
    try:
        found = json.loads(value)
    except (TypeError, ValueError):
        found = None
    if not isinstance(found, dict):
        return ["arguments are no JSON text of an object"]
    return [one + " behind an escape" for one in strict_json(found)]


def strict_json(value: Any) -> list[str]:
    """Strict UTF-8, no NaN, no half characters."""
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8")
    except (TypeError, ValueError):
        return ["not strict JSON in strict UTF-8"]
    return []
