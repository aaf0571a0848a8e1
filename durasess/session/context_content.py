"""Contents of messages in one neutral form: a text, or a list of text and image parts.

A part is `{"type": "text", "text"}`, `{"type": "image", "url"}` or `{"type": "image", "media_type",
"data"}` with base64 data. The shapes of three providers and of MCP are understood; a part that is
not becomes a text that names its type. Nothing here knows of turns or calls.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from durasess.session.context_text import as_text

MEDIA_TYPES = frozenset(["image/jpeg", "image/png", "image/gif", "image/webp"])
"""Images that every provider takes."""

THINKING = frozenset(["thinking", "redacted_thinking", "reasoning"])
"""Parts that only the provider that made them may see again, in its own item."""

_TEXT = frozenset(["text", "input_text", "output_text"])
_IMAGE = frozenset(["image", "image_url", "input_image"])
_PICTURE = frozenset(["source", "data", "url", "image_url"])
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,(.*)", re.DOTALL)
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")

Content = str | list[dict[str, Any]]


def spoken(content: Any) -> Content:
    """What a user or the model said; thinking is left out. Blank texts are no content: "" is what
    is left of nothing."""
    if isinstance(content, dict) and isinstance(content.get("type"), str):
        content = [content]
    if not isinstance(content, list):
        return _not_blank(as_text(content))
    return _joined(part for one in content for part in _part(one))


def returned(output: Any) -> Content:
    """What a tool gave back: any JSON value as text, but a list of text and image parts as such,
    and of nothing else: a listing of files has types, too. An output may be blank."""
    if isinstance(output, dict) and _is_shown(output):
        output = [output]
    if isinstance(output, list) and output and all(_is_shown(one) for one in output):
        return _joined(part for one in output for part in _part(one))
    return as_text(output)


def text_of(content: Content) -> str:
    """The content as text alone; an image becomes a text that says so."""
    return "\n".join(text_parts(content))


def text_parts(content: Content) -> list[str]:
    """The texts of a content, none of them empty."""
    if isinstance(content, str):
        return [content] if content else []
    return [part["text"] if part["type"] == "text" else "[image not shown]" for part in content]


def _part(value: Any) -> Iterator[dict[str, Any]]:
    kind = value.get("type") if isinstance(value, dict) else None
    if not isinstance(kind, str):
        text = as_text(value)
    elif kind in THINKING:
        return
    elif kind in _TEXT or kind == "refusal":
        said = value.get("text", value.get("refusal"))
        if not isinstance(said, str):
            # The output of a tool that is told late stands as it came.
            yield from _parts_of(returned(said))
            return
        text = said
    else:
        image = _image(value) if kind in _IMAGE else None
        if image is not None:
            yield image
            return
        text = f"[{kind} not shown]"
    if text.strip():
        yield {"type": "text", "text": text}


def _parts_of(content: Content) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content.strip() else []
    return content


def _image(part: dict[str, Any]) -> dict[str, Any] | None:
    """None when no provider could take it."""
    inner = part.get("source")
    source: dict[str, Any] = inner if isinstance(inner, dict) else part
    url = part.get("image_url", source.get("url"))
    if isinstance(url, dict):
        url = url.get("url")
    media_type, data = source.get("media_type", source.get("mimeType")), source.get("data")
    if isinstance(url, str):
        found = _DATA_URL.fullmatch(url)
        if found is None:
            is_link = url.startswith(("https://", "http://"))
            return {"type": "image", "url": url} if is_link else None
        media_type, data = found[1], found[2]
    if media_type not in MEDIA_TYPES or not isinstance(data, str) or not _BASE64.fullmatch(data):
        return None
    return {"type": "image", "media_type": media_type, "data": data}


def _is_shown(value: Any) -> bool:
    kind = value.get("type") if isinstance(value, dict) else None
    if not isinstance(kind, str):
        return False
    if kind in _TEXT:
        return isinstance(value.get("text"), str)
    return kind in _IMAGE and not _PICTURE.isdisjoint(value)


def _joined(parts: Iterator[dict[str, Any]]) -> Content:
    found = list(parts)
    if all(part["type"] == "text" for part in found):
        return found[0]["text"] if len(found) == 1 else (found or "")
    return found


def _not_blank(text: str) -> str:
    return text if text.strip() else ""
