"""What tells statuses apart without colours: a shape, a pattern and a word for each."""

from __future__ import annotations

from typing import NamedTuple


class Look(NamedTuple):
    """`kind` is the style's class and the shape's name; `word` is for people."""

    kind: str
    word: str


CALLS: dict[str, Look] = {
    "completed": Look("good", "completed"),
    "failed": Look("bad", "failed"),
    "uncertain": Look("unknown", "outcome unknown"),
    "waiting": Look("wait", "waiting"),
    "running": Look("open", "running"),
    "pending": Look("open", "not started yet"),
    "not_started": Look("off", "never started"),
}
RUNS: dict[str, Look] = {
    "succeeded": Look("good", "succeeded"),
    "failed": Look("bad", "failed"),
    "interrupted": Look("cut", "interrupted"),
    "cancelled": Look("stop", "cancelled"),
    "running": Look("open", "not ended"),
}
TROUBLE = frozenset(["bad", "unknown", "wait", "off", "cut", "stop"])
"""What people look for who look for a fault."""

SHAPES: dict[str, str] = {
    "good": '<circle cx="8" cy="8" r="7"/><path class="in" d="M4.5 8.2l2.4 2.5 4.6-5.2"/>',
    "bad": '<rect x="1.5" y="1.5" width="13" height="13" rx="1.5"/>'
    '<path class="in" d="M5 5l6 6M11 5l-6 6"/>',
    "unknown": '<path d="M8 0l8 8-8 8-8-8z"/>'
    '<path class="in" d="M6 6.3c0-1.3.9-2 2-2s2 .8 2 1.9c0 1.4-2 1.5-2 2.9M8 11.4v.3"/>',
    "wait": '<rect x="2.5" y="1.5" width="4" height="13" rx="1"/>'
    '<rect x="9.5" y="1.5" width="4" height="13" rx="1"/>',
    "open": '<path d="M3 1.5l11 6.5-11 6.5z"/>',
    "off": '<circle class="ring" cx="8" cy="8" r="6"/>',
    "cut": '<path d="M9.5 0L2.5 9h4.2L5.5 16l8-10H9z"/>',
    "stop": '<path d="M5 1h6l4 4v6l-4 4H5l-4-4V5z"/><path class="in" d="M4.5 8h7"/>',
    "user": '<circle cx="8" cy="4.6" r="3.6"/><path d="M1 15.5a7 7 0 0 1 14 0z"/>',
    "assistant": '<path d="M8 0l1.9 6.1L16 8l-6.1 1.9L8 16l-1.9-6.1L0 8l6.1-1.9z"/>',
    "program": '<rect x="1.5" y="4" width="13" height="8" rx="2"/>'
    '<path class="in" d="M4.5 8h2M9.5 8h2"/>',
    "mark": '<path d="M3 1h10v14l-5-3.6L3 15z"/>',
}
"""16 by 16; `in` is drawn in the colour of what lies behind."""

_PATTERNS: dict[str, str] = {
    "bad": '<path d="M-1 7L7 -1M-1 1L1 -1M5 7L7 5"/>',
    "unknown": '<circle cx="3" cy="3" r="1.5"/>',
    "wait": '<path d="M1.5 0v6M4.5 0v6"/>',
    "cut": '<path d="M-1 7L7 -1M-1 -1L7 7"/>',
    "stop": '<path d="M0 1.5h6M0 4.5h6"/>',
}


def definitions() -> str:
    """The shapes and patterns, to stand once in a page."""
    symbols = "".join(
        f'<symbol id="i-{name}" viewBox="0 0 16 16">{drawn}</symbol>'
        for name, drawn in SHAPES.items()
    )
    patterns = "".join(
        f'<pattern id="p-{name}" width="6" height="6" patternUnits="userSpaceOnUse">'
        f'<rect class="under k-{name}" width="6" height="6"/><g class="over k-{name}">{drawn}</g>'
        "</pattern>"
        for name, drawn in _PATTERNS.items()
    )
    return (
        '<svg class="defs" aria-hidden="true" width="0" height="0">'
        f"{symbols}<defs>{patterns}</defs></svg>"
    )
