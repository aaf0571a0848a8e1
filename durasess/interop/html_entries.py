"""Entries of a conversation as elements: sections of runs, messages, marks."""

from __future__ import annotations

from collections.abc import Iterator

from durasess.interop.entries import Began, Ended, Entry, Late, Mark, RunFacts, Said
from durasess.interop.html_calls import call_element, is_trouble
from durasess.interop.html_content import element_of, fields, folded, shown_block
from durasess.interop.html_shapes import CALLS, RUNS, TROUBLE
from durasess.interop.html_text import block, icon, text
from durasess.interop.parts import Part, parts_of
from durasess.interop.visible import (
    LONGEST,
    as_json,
    counted,
    duration,
    moment,
    seconds_between,
    time_of_day,
)

OPEN_RUNS = 12
"""The newest runs are unfolded, so that a page of hundreds shows at once."""

_TITLES = {"user": "User", "assistant": "Assistant", "program": "Program"}
_LONG_MARK = 600


def elements(entries: Iterator[Entry], *, runs: int) -> Iterator[str]:
    """The elements of all entries, in order. What is between runs gets sections of its own; `runs`
    is how many there are."""
    run: RunFacts | None = None
    place, begun = "", 0
    for entry in entries:
        if isinstance(entry, Began):
            yield _closing(place)
            run, place, begun = entry.run, "run", begun + 1
            yield _opening(run, is_open=begun > runs - OPEN_RUNS)
        elif isinstance(entry, Ended):
            yield f"{_outcome(entry.run)}{_closing(place)}"
            run, place = None, ""
        else:
            if not place:
                place = "loose"
                yield '<section class="loose">\n'
            yield _element(entry, run)
    yield _closing(place)


def _closing(place: str) -> str:
    return {"": "", "run": "</details>\n", "loose": "</section>\n"}[place]


def _opening(run: RunFacts, *, is_open: bool) -> str:
    look = RUNS[run.status]
    kinds = {look.kind, *(CALLS[status].kind for status in run.outcomes if status in CALLS)}
    marks = " hidden" * run.is_hidden + " trouble" * bool(kinds & TROUBLE)
    resumes = f"continues {run.resumes}" if run.resumes else ""
    title = text(run.request or resumes or run.run_id)
    return (
        f'<details class="run-part{marks}" id="run-{run.number}"{" open" * is_open}>'
        f'<summary class="{look.kind}">{icon(look.kind)}<h2>Run {run.number} '
        f'<small>{title}</small></h2><span class="fold"></span>'
        f'<span class="sum">{"".join(_summed(run))}</span></summary>\n'
    )


def _summed(run: RunFacts) -> Iterator[str]:
    look = RUNS[run.status]
    yield f'<span class="{look.kind}">{look.word}</span>'
    if run.is_hidden:
        yield '<span class="tag">rewound</span>'
    yield f"<span>{moment(run.started_at)}</span>"
    length = duration(seconds_between(run.started_at, run.worked_until))
    yield f"<span>{length}</span>" if length else ""
    if run.usage.total:
        yield f"<span>{run.usage.total:,} tokens</span>"
    for status, count in run.outcomes.items():
        call = CALLS[status]
        yield f'<span class="{call.kind}">{icon(call.kind)} {count} {call.word}</span>'


def _outcome(run: RunFacts) -> str:
    if run.status == "succeeded" and not run.reason:
        return ""
    look = RUNS[run.status]
    reason = f": {text(run.reason)}" if run.reason else ""
    return (
        f'<p class="outcome"><span class="{look.kind}">{icon(look.kind)} {look.word}</span>'
        f"{reason}</p>\n"
    )


def _element(entry: Entry, run: RunFacts | None) -> str:
    match entry:
        case Said():
            return _said(entry, run)
        case Late():
            return _late(entry)
        case Mark():
            return _mark(entry)
    raise AssertionError("runs open and close sections")


def _said(said: Said, run: RunFacts | None) -> str:
    trouble = said.is_partial or not said.is_proven or any(map(is_trouble, said.calls))
    classes = f"from-{said.role}" + " trouble" * trouble + " hidden" * said.is_hidden
    thinking = [
        folded(f"Thinking, {counted(thought.count(chr(10)) + 1, 'line')}", block(thought[:LONGEST]))
        for thought in said.thinking
    ]
    content = "".join([*thinking, *map(element_of, parts_of(said.content))])
    calls = "".join(call_element(call, run) for call in said.calls)
    tools = f'<div class="calls">{calls}</div>' if calls else ""
    return (
        f'<article class="entry {classes}"{_place(said.seq)}>{icon(said.role)}<div class="what">'
        f'<p class="who">{"".join(_who(said))}</p>{content}</div>{tools}</article>\n'
    )


def _place(seq: int) -> str:
    return f' id="seq-{seq}"' if seq else ""


def _who(said: Said) -> Iterator[str]:
    yield f"<strong>{_TITLES[said.role]}</strong>"
    if said.model:
        yield f"<span>{text(said.model)}</span>"
    yield _when(said.ts, said.seq)
    if said.usage.total:
        used = f"{said.usage.prompt:,} in, {said.usage.completion:,} out"
        yield f"<span>{used}</span>"
    if said.is_partial:
        yield f'<span class="tag cut">{icon("cut")} cut off</span>'
    if said.is_hidden:
        yield '<span class="tag">rewound</span>'
    if not said.is_proven:
        yield '<span class="tag bad">not proven: stands behind damage</span>'


def _when(ts: str, seq: int) -> str:
    time = f"<span>{time_of_day(ts)}</span>" if ts else ""
    return f"{time}<span>seq {seq:,}</span>" if seq else time


def _late(late: Late) -> str:
    hidden = " hidden" * late.is_hidden
    return (
        f'<article class="entry late trouble{hidden}">{icon("wait")}<div class="what">'
        f'<p class="who"><strong>News of a call of seq {late.call.seq:,}</strong>'
        f'{_when(late.ts, late.seq)}</p></div><div class="calls">{call_element(late.call, None)}'
        "</div></article>\n"
    )


def _mark(mark: Mark) -> str:
    trouble = mark.kind in ("gap", "stray")
    classes = f"mark {mark.kind}" + " trouble" * trouble + " hidden" * mark.is_hidden
    sign = f'<span class="bad">{icon("bad")}</span> ' if trouble else ""
    return (
        f'<article class="entry {classes}">{icon("mark")}<div class="what"><p class="who">{sign}'
        f"<strong>{text(mark.title)}</strong>{_when(mark.ts, mark.seq)}</p>{_detail(mark)}</div>"
        "</article>\n"
    )


def _system_part(part: Part) -> str:
    return element_of(part) if part.kind in ("image", "link") else shown_block(part.text)


def _detail(mark: Mark) -> str:
    if mark.detail is None:
        return ""
    if isinstance(mark.detail, str) and mark.kind in ("note", "compaction"):
        return "".join(map(element_of, parts_of(mark.detail)))
    if isinstance(mark.detail, list) and mark.kind == "system":
        return "".join(map(_system_part, parts_of(mark.detail)))
    if isinstance(mark.detail, dict) and mark.kind != "minor":
        return fields(mark.detail)
    shown = mark.detail if isinstance(mark.detail, str) else as_json(mark.detail)
    if mark.kind == "minor" or len(shown) > _LONG_MARK:
        return folded(counted(shown.count("\n") + 1, "line"), shown_block(shown))
    return shown_block(shown)
