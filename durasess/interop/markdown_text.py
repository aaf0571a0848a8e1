"""Text of a session made safe in Markdown: prose that stays prose, fences that nothing ends."""

from __future__ import annotations

import html
import re

from durasess.interop.visible import counted, visible

_ACTIVE = re.compile(r"[\\`*_\[\]<~|&$#]|:(?=//|[a-z+-][\w+-]*:|(?:100|1234|8ball):)|(?<=www)\.")
"""Also what links by itself and what stands for an emoji."""

_AT_START = re.compile(r"[-+>=]|\d{1,9}[.)]")
"""A list, a quotation, an underlined heading."""

_TICKS = re.compile("`+")

LONG_LINES = 24
LONG_CHARACTERS = 2_400
"""From here on a block is folded."""


def inline(text: str) -> str:
    """A text on one line in which nothing is Markdown or HTML."""
    return _escaped(" ".join(visible(text).split()))


def quoted(text: str) -> str:
    """Prose as a quotation, line for line as it was, in which nothing is Markdown or HTML."""
    lines = visible(text).expandtabs(4).split("\n")
    made = []
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        # A backslash at the end breaks the line; before an empty line it would be shown.
        end = "\\" if line.strip() and after.strip() else ""
        made.append(f"> {_indented(line.rstrip())}{end}".rstrip())
    return "\n".join(made)


def fenced(text: str, language: str = "text") -> str:
    """A block whose fence is longer than any run of backticks in it."""
    shown = visible(text)
    longest = max(map(len, _TICKS.findall(shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{shown}\n{fence}"


def is_long(text: str) -> bool:
    """Whether a block is folded."""
    return len(text) > LONG_CHARACTERS or text.count("\n") >= LONG_LINES


def folded(title: str, block: str) -> str:
    """A block that is shown when somebody asks for it; `title` is any text."""
    summary = html.escape(" ".join(visible(title).split()))
    return f"<details>\n<summary>{summary}</summary>\n\n{block}\n\n</details>"


def size_of(text: str) -> str:
    """How much a folded block holds."""
    return counted(text.count("\n") + 1, "line")


def _indented(line: str) -> str:
    bare = line.lstrip(" ")
    # Four blanks would make it code, and fewer would vanish.
    return "&nbsp;" * (len(line) - len(bare)) + _escaped(bare)


def _escaped(text: str) -> str:
    found = _AT_START.match(text)
    if not found:
        return _active(text)
    sign = found[0]
    return f"{sign[:-1]}\\{sign[-1]}{_active(text[found.end() :])}"


def _active(text: str) -> str:
    return _ACTIVE.sub(r"\\\g<0>", text)
