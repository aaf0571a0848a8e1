"""Text of a session made safe in HTML. Whatever a page shows of a session goes through here."""

from __future__ import annotations

import html
import re

from durasess.interop.visible import HIDDEN, clean, name_of, visible

_CODE = re.compile(r"`([^`\n]{1,200})`")
_STRONG = re.compile(r"(?<![\w*])\*\*(?=[^\s*])([^*`\n]{1,200})(?<=[^\s*])\*\*(?![\w*])")


def text(value: str) -> str:
    """The text as content of an element; hidden characters are shown, and stand out."""
    return HIDDEN.sub(_hidden, html.escape(clean(value)))


def prose(value: str) -> str:
    """The same, with what stands between single backticks as code, and between two asterisks each
    as strong."""
    parts = _CODE.split(text(value))
    # Every second one stood between backticks; nothing is strong across one of these.
    return "".join(
        f"<code>{part}</code>" if index % 2 else _STRONG.sub(r"<strong>\1</strong>", part)
        for index, part in enumerate(parts)
    )


def attribute(value: str) -> str:
    """The text as the value of an attribute in double quotes, on one line."""
    return html.escape(" ".join(visible(value).split()))


def block(value: str) -> str:
    """The text as a block that keeps its lines, reachable by the keyboard when it scrolls."""
    # A line feed right behind the tag is not shown, so there is always one.
    return f'<pre tabindex="0">\n{text(value)}</pre>'


def icon(name: str) -> str:
    """A shape that is defined once in the page; `name` is one of html_shapes.SHAPES."""
    return f'<svg class="icon" aria-hidden="true"><use href="#i-{name}"/></svg>'


def _hidden(found: re.Match[str]) -> str:
    return f'<span class="hid">{name_of(found[0])}</span>'
