"""Line charts as SVG text, readable on light and dark pages; nothing but the standard library."""

from __future__ import annotations

import math
from html import escape

from benchmarks.findings import Picture

WIDTH, HEIGHT = 860, 480
LEFT, RIGHT, TOP, BOTTOM = 80, 210, 50, 60
LABEL_STEP = 16
"""Pixels between two names at the right."""
COLOURS = {
    "durasess": "#d1242f",
    "durasess closed": "#ff8182",
    "bare": "#57606a",
    "article": "#1a7f37",
    "jsonl": "#9a6700",
    "sqlite full": "#0969da",
    "sqlite normal": "#54aeff",
    "sqlite newest": "#0a3069",
    "agents": "#8250df",
    "agents newest": "#c297ff",
    "eventsourcing": "#bf3989",
    "eventsourcing snapshots": "#ff80c8",
    "langgraph": "#bc4c00",
}
"""Of a contender, the same in every picture."""
OTHER = "#24292f"
BEYOND = 0.02
"""Of a decade: how far a line may reach beyond the last tick before another decade is drawn."""
OWN = "durasess"


def svg(picture: Picture) -> str:
    """The picture with logarithmic axes, or with its own ticks below."""
    points = [point for line in picture.lines.values() for point in line]
    if not points:
        raise ValueError(f"picture {picture.name!r} has no points; give it at least one line")
    across = _Axis([x for x, _ in points], LEFT, WIDTH - RIGHT, linear=picture.ticks)
    up = _Axis([y for _, y in points], HEIGHT - BOTTOM, TOP, linear=())
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'font-family="sans-serif" font-size="12">',
        f"<title>{escape(picture.title)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        _text(LEFT, 26, picture.title, size=16),
        *_grid(across, up),
        _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 16, picture.x_label, anchor="middle"),
        _text(LEFT, TOP - 8, picture.y_label, anchor="end"),
        *_lines(picture, across, up),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


class _Axis:
    """From values to pixels; `linear` are its ticks when it is not logarithmic."""

    def __init__(
        self,
        values: list[float],
        first: float,
        last: float,
        *,
        linear: tuple[tuple[float, str], ...],
    ) -> None:
        self._linear = linear
        low, high = min(values), max(values)
        self._low = low if linear else 10 ** math.floor(math.log10(low) + BEYOND)
        self._high = high if linear else 10 ** math.ceil(math.log10(high) - BEYOND)
        if self._high <= self._low:
            self._high = self._low + 1 if linear else self._low * 10
        self._first, self._last = first, last

    def pixel(self, value: float) -> float:
        """Where a value is."""
        if self._linear:
            share = (value - self._low) / (self._high - self._low)
        else:
            share = math.log(value / self._low) / math.log(self._high / self._low)
        return self._first + share * (self._last - self._first)

    def ticks(self) -> list[tuple[float, str]]:
        """Pixel and label of each."""
        if self._linear:
            return [(self.pixel(value), label) for value, label in self._linear]
        steps = round(math.log10(self._high / self._low))
        values = [self._low * 10**step for step in range(steps + 1)]
        return [(self.pixel(value), f"{value:,.9f}".rstrip("0").rstrip(".")) for value in values]


def _grid(across: _Axis, up: _Axis) -> list[str]:
    parts = []
    for x, label in across.ticks():
        parts.append(_line(x, TOP, x, HEIGHT - BOTTOM))
        parts.append(_text(x, HEIGHT - BOTTOM + 18, label, anchor="middle"))
    for y, label in up.ticks():
        parts.append(_line(LEFT, y, WIDTH - RIGHT, y))
        parts.append(_text(LEFT - 8, y + 4, label, anchor="end"))
    return parts


def _lines(picture: Picture, across: _Axis, up: _Axis) -> list[str]:
    """The lines, each named at its end; names that would overlap are moved apart."""
    parts, ends = [], []
    for name, points in picture.lines.items():
        colour = COLOURS.get(name, OTHER)
        pixels = [(across.pixel(x), up.pixel(y)) for x, y in sorted(points)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in pixels)
        width = 4 if name == OWN else 1.8
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"/>'
        )
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in pixels]
        ends.append((pixels[-1][1], pixels[-1][0], name, colour))
    for at, (y, x, name, colour) in zip(
        _apart([end[0] for end in ends]), sorted(ends), strict=True
    ):
        right = WIDTH - RIGHT + 22
        parts.append(_line(x + 4, y, right - 4, at, colour=colour, width=0.6))
        weight = "bold" if name == OWN else "normal"
        parts.append(_text(right, at + 4, name, colour=colour, weight=weight))
    return parts


def _apart(heights: list[float]) -> list[float]:
    """Sorted, at least a line of text between two, and none below the chart."""
    found: list[float] = []
    for height in sorted(heights):
        found.append(max(height, found[-1] + LABEL_STEP) if found else height)
    beyond = max(0.0, found[-1] - (HEIGHT - BOTTOM)) if found else 0.0
    found = [height - beyond for height in found]
    for index in range(len(found) - 2, -1, -1):
        found[index] = min(found[index], found[index + 1] - LABEL_STEP)
    return found


def _line(
    x1: float, y1: float, x2: float, y2: float, *, colour: str = "#d0d7de", width: float = 1
) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
        f'stroke-width="{width}"/>'
    )


def _text(
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "start",
    size: int = 12,
    colour: str = "#24292f",
    weight: str = "normal",
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
        f'font-weight="{weight}" fill="{colour}">{escape(text)}</text>'
    )
