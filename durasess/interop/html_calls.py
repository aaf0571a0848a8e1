"""A tool call as an element: one line with its bar on the run's time, and all of it when opened."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from durasess.interop.entries import CallEntry, Remark, RunFacts
from durasess.interop.html_content import element_of, fields, folded, shown_block
from durasess.interop.html_shapes import CALLS, TROUBLE, Look
from durasess.interop.html_text import icon, text
from durasess.interop.parts import output_parts
from durasess.interop.visible import (
    as_json,
    counted,
    duration,
    one_line,
    seconds,
    seconds_between,
    time_of_day,
)

_TELLING = ("path", "file", "command", "cmd", "query", "pattern", "url", "to", "name", "title")
"""Arguments that say most, the best first."""

_SHORT = 90

_REMARK_KINDS = {
    "uncertain": "unknown",
    "not_started": "off",
    "applied": "good",
    "not_applied": "off",
    "abandoned": "stop",
    "rerun": "open",
    "approval_requested": "wait",
    "callback_requested": "wait",
    "approved": "good",
    "denied": "bad",
}


def is_trouble(call: CallEntry) -> bool:
    """Whether somebody who looks for a fault wants to see it: what went wrong, and what was settled
    afterwards."""
    return CALLS[call.status].kind in TROUBLE or bool(call.remarks)


def call_element(call: CallEntry, run: RunFacts | None) -> str:
    """The call; its bar stands on the time of `run`."""
    look = CALLS[call.status]
    length = seconds_between(call.started_at, call.ended_at)
    trouble = " trouble" if is_trouble(call) else ""
    title = (
        f'<span class="name">{text(call.name)}</span>{_state(call, look)}'
        f"{text(_short(call.arguments))}"
    )
    return (
        f'<details class="call {look.kind}{trouble}"><summary>{icon(look.kind)}'
        f'<span class="title">{title}</span>{_bar(call, run, look.kind)}'
        f'<span class="length">{duration(length)}</span></summary>'
        f'<div class="inside">{"".join(_inside(call))}</div></details>'
    )


def _state(call: CallEntry, look: Look) -> str:
    """In words; what went well needs none, unless its outcome was unknown for a time."""
    if call.decision:
        settled = CALLS["uncertain"].kind
        decision = text(call.decision.replace("_", " "))
        return f'<span class="state {settled}">{icon(settled)} settled: {decision}</span> '
    return "" if look.kind == "good" else f'<span class="state">{look.word}</span> '


def _short(arguments: Any) -> str:
    """The argument that says most, on one line."""
    if isinstance(arguments, str):
        return one_line(arguments, _SHORT)
    if not isinstance(arguments, dict):
        return ""
    names = [name for name in _TELLING if isinstance(arguments.get(name), str)]
    names += [name for name, value in arguments.items() if isinstance(value, str)]
    return one_line(arguments[names[0]], _SHORT) if names else ""


def _bar(call: CallEntry, run: RunFacts | None, kind: str) -> str:
    """Where the call lies in its run; an empty track when that is not known."""
    bar = ""
    times = [seconds(one) for one in (call.started_at, call.ended_at)]
    if run is not None and times[0] is not None:
        begins = seconds(run.started_at)
        whole = seconds_between(run.started_at, run.worked_until)
        if begins is not None and whole and times[0] >= begins:
            left = min((times[0] - begins) / whole * 100, 99.0)
            right = 100.0 if times[1] is None else (times[1] - begins) / whole * 100
            width = max(min(right, 100.0) - left, 0.8)
            bar = (
                f'<rect class="k-{kind}" x="{left:.2f}%" y="1" width="{width:.2f}%" height="10" '
                'rx="2"/>'
            )
    return (
        '<svg class="water" aria-hidden="true"><rect class="track" y="4.5" width="100%" height="3" '
        f'rx="1.5"/>{bar}</svg>'
    )


def _inside(call: CallEntry) -> Iterator[str]:
    yield f'<p class="note">{" · ".join(_facts(call))}</p>'
    if call.remarks:
        yield f'<ul class="remarks">{"".join(map(_remark, call.remarks))}</ul>'
    if call.arguments not in ({}, None, ""):
        yield f"<h4>Arguments</h4>{fields(call.arguments)}"
    if call.has_output:
        found = output_parts(call.output)
        yield f"<h4>{'Result' if call.ok else 'Error'}</h4>"
        yield "".join(map(element_of, found)) or '<p class="note">empty</p>'
    if call.traceback:
        yield folded("Traceback", shown_block(call.traceback))


def _facts(call: CallEntry) -> Iterator[str]:
    yield f'<span class="mono">{text(call.call_id)}</span>'
    yield f"asked for at seq {call.seq:,}"
    if call.started_at:
        yield f"started {time_of_day(call.started_at)}"
    if call.attempt > 1:
        yield f"attempt {call.attempt}"
    if call.effect:
        yield text(call.effect)
    if call.operation_id:
        yield f'operation <span class="mono">{text(call.operation_id)}</span>'
    if call.masked:
        yield f"{counted(call.masked, 'argument')} masked when recorded"
    if call.child:
        yield f'child session <span class="mono">{text(call.child)}</span>'
    if call.waits_for:
        yield f"waits for {text(call.waits_for)}"


def _remark(remark: Remark) -> str:
    kind = _REMARK_KINDS.get(remark.kind, "mark")
    detail = "" if remark.detail is None else shown_block(as_json(remark.detail))
    at = " · ".join(one for one in (time_of_day(remark.ts), f"seq {remark.seq:,}") if one)
    return (
        f'<li><span class="{kind}">{icon(kind)}</span><span>{text(remark.text)} '
        f'<span class="note">{at}</span></span>{detail}</li>'
    )
