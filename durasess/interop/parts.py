"""The content of a message as parts that a page can show: texts, code, images, other values.

Thinking is not among them: it has its own place (entries.Said.thinking).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from durasess.interop.visible import as_json
from durasess.session.context_content import THINKING, spoken

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*([\w+#.-]{0,30})[^`\n]*")


class Part(NamedTuple):
    """`kind` "text" or "code" with its `text` (`note` is the language), "image" with base64 in
    `text` (`note` is the media type), "link" to an image in `text`, "value" as JSON."""

    kind: Literal["text", "code", "image", "link", "value"]
    text: str
    note: str = ""


def parts_of(content: Any) -> list[Part]:
    """The parts of a message's content, code blocks by themselves; [] for nothing."""
    if content is None or content == "" or content == []:
        return []
    if isinstance(content, str):
        return list(_split(content))
    is_parts = isinstance(content, list) and all(_is_part(one) for one in content)
    if not is_parts and not _is_part(content):
        return [Part("value", as_json(content))]
    listed = content if isinstance(content, list) else [content]
    return [part for one in listed for part in _part(one)]


def output_parts(output: Any) -> list[Part]:
    """The parts of a tool's output: a text is never looked into, images are shown."""
    if isinstance(output, str):
        return [Part("value", output)] if output else []
    listed = output if isinstance(output, list) else [output]
    if listed and all(_is_part(one) for one in listed):
        found = [part for one in listed for part in _part(one)]
        return [
            one._replace(kind="value") if one.kind in ("text", "code") else one for one in found
        ]
    return [] if output is None else [Part("value", as_json(output))]


def _is_part(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("type"), str)


def _part(value: dict[str, Any]) -> Iterator[Part]:
    if value["type"] in THINKING:
        return
    found = spoken([value])
    if isinstance(found, str):
        yield from _split(found)
        return
    for one in found:
        if one["type"] == "text":
            yield from _split(one["text"])
        elif "url" in one:
            yield Part("link", one["url"])
        else:
            yield Part("image", one["data"], one["media_type"])


def _split(text: str) -> Iterator[Part]:
    """Prose and fenced code, in turn; an open fence reaches to the end."""
    prose: list[str] = []
    code: list[str] = []
    fence, language = "", ""
    for line in text.split("\n"):
        found = _FENCE.fullmatch(line.rstrip("\r"))
        if not fence and found:
            yield from _joined(prose)
            prose, code, fence, language = [], [], found[1], found[2]
        elif fence and found and found[1].startswith(fence) and not found[2]:
            yield Part("code", "\n".join(code), language)
            fence = ""
        else:
            (code if fence else prose).append(line)
    if fence:
        yield Part("code", "\n".join(code), language)
    yield from _joined([] if fence else prose)


def _joined(lines: list[str]) -> Iterator[Part]:
    text = "\n".join(lines).strip("\n")
    if text.strip():
        yield Part("text", text)
