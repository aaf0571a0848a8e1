"""Contents of messages, results and marks as elements; long ones are folded."""

from __future__ import annotations

from typing import Any

from durasess.interop.html_text import block, prose, text
from durasess.interop.parts import Part
from durasess.interop.visible import as_json, as_line, as_shown, counted

FOLDED = 2400
"""Characters of prose from which on its rest is folded."""

_ONE_LINE = 160

IMAGE_CHARACTERS = 4_000_000
"""Of the base64 of an image that is put into the page."""


def element_of(part: Part) -> str:
    """One part of a content."""
    match part.kind:
        case "text":
            shown, left_out = as_shown(part.text)
            return _prose(shown) + cut_note(left_out)
        case "code":
            label = f'<div class="lang">{text(part.note)}</div>' if part.note else ""
            return label + shown_block(part.text)
        case "image" if len(part.text) <= IMAGE_CHARACTERS:
            return f'<img alt="an image of the session" src="data:{part.note};base64,{part.text}">'
        case "image":
            size = f"{len(part.text) * 3 // 4:,}"
            return f'<p class="note">an image of {size} bytes, not put into this page</p>'
        case "link":
            return f'<p class="note">an image elsewhere, not loaded: {text(part.text[:2000])}</p>'
        case _:
            return shown_block(part.text)


def shown_block(value: str) -> str:
    """A text as a block, cut where it is too long for a page."""
    shown, left_out = as_shown(value)
    return block(shown) + cut_note(left_out)


def folded(title: str, inside: str) -> str:
    """Elements that are shown when somebody asks for them; `title` is any text."""
    return f'<details class="think"><summary>{text(title)}</summary>{inside}</details>'


def fields(value: Any) -> str:
    """An object as a list of its fields, any other value as a block."""
    if not isinstance(value, dict):
        return shown_block(value if isinstance(value, str) else as_json(value))
    rows = "".join(
        f"<dt>{text(name)}</dt><dd>{_field(inside)}</dd>" for name, inside in value.items()
    )
    return f'<dl class="args">{rows}</dl>'


def cut_note(left_out: int) -> str:
    """Says that something is missing at the end."""
    if not left_out:
        return ""
    return f'<p class="note">{counted(left_out, "more character")} left out</p>'


def _prose(value: str) -> str:
    if len(value) <= FOLDED:
        return f'<div class="prose">{prose(value)}</div>'
    at = value.rfind("\n", FOLDED // 2, FOLDED)
    at = FOLDED if at < 0 else at
    rest = value[at:].lstrip("\n")
    return (
        f'<div class="prose">{prose(value[:at])}</div><details class="more"><summary>'
        f'{counted(len(rest), "more character")}</summary><div class="prose">{prose(rest)}</div>'
        "</details>"
    )


def _field(value: Any) -> str:
    if not isinstance(value, str) and len(as_line(value)) <= _ONE_LINE:
        value = as_line(value)
    shown, left_out = as_shown(value)
    if "\n" in shown or len(shown) > _ONE_LINE:
        return shown_block(shown) + cut_note(left_out)
    return f"<code>{text(shown)}</code>"
