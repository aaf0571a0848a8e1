"""The picture at the top of the page: runs and calls on one axis of time, tokens below it.

The axis shows the time in which somebody worked; what lies between two runs is cut to a narrow gap.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from durasess.interop.entries import RunFacts
from durasess.interop.html_shapes import CALLS, RUNS
from durasess.interop.html_text import attribute
from durasess.interop.overview import Bar, Overview
from durasess.interop.visible import duration, seconds, time_of_day

RUNS_SHOWN = 80
"""The newest ones; all are in the list beside the page."""

LANES = 4
"""Rows of calls that ran side by side."""

_SHARE_OF_GAPS = 18.0
"""Percent of the width at most."""

_PIXELS_OF_A_PERCENT = 9.0
"""Of the width of the picture, about, on most screens."""

_RUN_TOP, _RUN_HEIGHT = 20, 26
_CALLS_TOP, _LANE, _BAR = 54, 14, 11
_CHART_HEIGHT, _KEY_HEIGHT = 84, 22


class Span(NamedTuple):
    """A stretch of work: seconds since 1970, and where it stands, in percent of the width."""

    begins: float
    ends: float
    left: float
    right: float


class Axis:
    """Moments → percent of the width."""

    def __init__(self, times: Sequence[tuple[float, float]]) -> None:
        merged = _merged(times)
        gap = min(2.0, _SHARE_OF_GAPS / max(len(merged) - 1, 1))
        room = 100.0 - gap * (len(merged) - 1)
        least = min(1.0, 0.4 * room / max(len(merged), 1))
        total = sum(ends - begins for begins, ends in merged) or 1.0
        share = (room - least * len(merged)) / total
        self.spans: list[Span] = []
        left = 0.0
        for begins, ends in merged:
            right = left + least + (ends - begins) * share
            self.spans.append(Span(begins, ends, left, right))
            left = right + gap
        self._begins = [span.begins for span in self.spans]

    def at(self, moment: float) -> float:
        """Where a moment stands; one in a gap stands at the end of the work before it."""
        span = self.spans[max(bisect_right(self._begins, moment) - 1, 0)]
        if moment <= span.begins:
            return span.left
        if moment >= span.ends:
            return span.right
        return span.left + (span.right - span.left) * (moment - span.begins) / (
            span.ends - span.begins
        )


def _merged(times: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Times of work, those put together that lie close to each other."""
    total = sum(ends - begins for begins, ends in times)
    merged: list[tuple[float, float]] = []
    for begins, ends in sorted(times):
        if merged and begins - merged[-1][1] <= 0.02 * total:
            merged[-1] = (merged[-1][0], max(merged[-1][1], ends))
        else:
            merged.append((begins, ends))
    return merged


class _Drawn(NamedTuple):
    run: RunFacts
    begins: float
    ends: float


class _Placed(NamedTuple):
    bar: Bar
    left: float
    width: float
    lane: int


def picture(overview: Overview) -> str:
    """The picture as an element; "" when there was no run."""
    drawn = _drawn(overview)
    if not drawn:
        return ""
    axis = Axis([(one.begins, one.ends) for one in drawn])
    calls = _placed(overview, drawn, axis)
    top = _CALLS_TOP + _LANE * max((one.lane + 1 for one in calls), default=0) + 14
    height = top + _CHART_HEIGHT + _KEY_HEIGHT if overview.points else top
    layers = (
        _gaps(axis, height - _KEY_HEIGHT),
        _runs(drawn, axis),
        _calls(calls),
        _chart(overview, drawn[0].begins, axis, top),
    )
    inside = "".join(one for layer in layers for one in layer)
    label = "Runs, tool calls and tokens over time"
    return (
        f'<svg class="picture" role="group" aria-label="{label}" height="{height}" '
        f'width="100%">{inside}</svg>'
    )


def is_shortened(overview: Overview) -> bool:
    """Whether there are older runs than the picture shows."""
    return len(overview.runs) > RUNS_SHOWN


def _drawn(overview: Overview) -> list[_Drawn]:
    found = []
    for run in overview.runs[-RUNS_SHOWN:]:
        begins = seconds(run.started_at)
        ends = seconds(run.worked_until)
        if begins is not None:
            found.append(_Drawn(run, begins, max(ends or begins, begins)))
    return found


def _gaps(axis: Axis, bottom: int) -> Iterator[str]:
    for before, after in zip(axis.spans, axis.spans[1:], strict=False):
        middle = (before.right + after.left) / 2
        idle = duration(after.begins - before.ends)
        yield (
            f'<svg class="gap" x="{middle:.3f}%" overflow="visible"><title>{idle} between</title>'
            f'<path d="M0 {_RUN_TOP}V{bottom}"/></svg>'
        )


def _runs(drawn: list[_Drawn], axis: Axis) -> Iterator[str]:
    free = -10.0
    for run, begins, ends in drawn:
        left, right = axis.at(begins), axis.at(ends)
        width = max(right - left, 0.35)
        look = RUNS[run.status]
        said = attribute(
            f"Run {run.number}, {look.word}, {duration(ends - begins)}: {run.request[:120]}"
        )
        hidden = " hidden" if run.is_hidden else ""
        label = _label(run, left + width / 2, width)
        yield (
            f'<a class="block{hidden}" href="#run-{run.number}" aria-label="{said}">'
            f'<title>{said}</title><rect class="run k-{look.kind}" x="{left:.3f}%" '
            f'y="{_RUN_TOP}" width="{width:.3f}%" height="{_RUN_HEIGHT}" rx="4"/>{label}</a>'
        )
        if left - free > 9 and left < 94:
            free = left
            yield f'<text class="time" x="{left:.3f}%" y="12">{time_of_day(run.started_at)}</text>'


def _label(run: RunFacts, middle: float, width: float) -> str:
    """Shape and number, where there is room for them."""
    plate = 24 + 8 * len(str(run.number))
    if width < (plate + 6) / _PIXELS_OF_A_PERCENT:
        return ""
    kind = RUNS[run.status].kind
    left = -plate / 2
    return (
        f'<svg x="{middle:.3f}%" y="{_RUN_TOP + _RUN_HEIGHT / 2}" overflow="visible">'
        f'<rect class="plate" x="{left}" y="-9" width="{plate}" height="18" rx="9"/>'
        f'<use class="k-{kind}" href="#i-{kind}" x="{left + 4}" y="-6.5" width="13" height="13"/>'
        f'<text class="number" x="{left + 20}" y="4">{run.number}</text></svg>'
    )


def _placed(overview: Overview, drawn: list[_Drawn], axis: Axis) -> list[_Placed]:
    """The calls of each run in as few rows as they need to stand side by side."""
    placed = []
    for run, _, _ in drawn:
        ends = [0.0] * LANES
        for bar in sorted(overview.bars.get(run.number, ()), key=lambda bar: bar.begins):
            left = axis.at(bar.begins)
            width = max(axis.at(bar.ends) - left, 0.18)
            lane = next((at for at, end in enumerate(ends) if end <= left), LANES - 1)
            ends[lane] = axis.at(bar.ends)
            placed.append(_Placed(bar, left, width, lane))
    return placed


def _calls(placed: list[_Placed]) -> Iterator[str]:
    for bar, left, width, lane in placed:
        look = CALLS[bar.status]
        said = attribute(f"{bar.name[:80]}, {look.word}, {duration(bar.ends - bar.begins)}")
        yield (
            f'<rect class="bar k-{look.kind}" x="{left:.3f}%" y="{_CALLS_TOP + lane * _LANE}" '
            f'width="{width:.3f}%" height="{_BAR}" rx="2"><title>{said}</title></rect>'
        )


def _chart(overview: Overview, since: float, axis: Axis, top: int) -> Iterator[str]:
    points = [one for one in overview.points if one.at >= since]
    if not points:
        return
    bottom = top + _CHART_HEIGHT
    highest = max(1, *(one.prompt for one in points))
    most = max(1, *(one.total for one in points))
    context = _steps([(axis.at(one.at), one.prompt / highest) for one in points])
    total = _line([(axis.at(one.at), one.total / most) for one in points])
    yield (
        f'<svg x="0" y="{top}" width="100%" height="{_CHART_HEIGHT}" viewBox="0 0 1000 100" '
        'preserveAspectRatio="none"><title>Tokens over time</title>'
        f'<path class="ground" d="M0 100H1000"/><path class="area" d="{context} V100 Z"/>'
        f'<path class="context" d="{context}"/><path class="total" d="{total}"/></svg>'
    )
    for at in overview.passed_at:
        if at >= since:
            yield (
                f'<svg class="compaction" x="{axis.at(at):.3f}%" overflow="visible"><title>context '
                f'compacted</title><path d="M0 {top - 6}v{bottom - top + 6}M-4 {top - 6}h8"/></svg>'
            )
    yield (
        f'<text class="key" x="0" y="{bottom + 17}"><tspan class="k-context">▇</tspan> prompt of a '
        f'model call, at most {highest:,} tokens</text><text class="key end" x="100%" '
        f'y="{bottom + 17}"><tspan class="k-total">━</tspan> {most:,} tokens in all</text>'
    )


def _steps(points: list[tuple[float, float]]) -> str:
    """From one height to the next in steps, from the left edge of the first."""
    path = [f"M{points[0][0] * 10:.1f} 100"]
    for x, share in points:
        path.append(f"H{x * 10:.1f}V{_y(share)}")
    return "".join([*path, f"H{min(points[-1][0] * 10 + 4, 1000):.1f}"])


def _line(points: list[tuple[float, float]]) -> str:
    first, *others = [f"{x * 10:.1f} {_y(share)}" for x, share in points]
    return f"M{first}" + "".join(f"L{one}" for one in others)


def _y(share: float) -> str:
    return f"{97 - 92 * share:.1f}"
