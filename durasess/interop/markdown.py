"""A session as one Markdown page for people, as GitHub shows it.

Nothing in a session is Markdown or HTML in it: prose is escaped, all else stands in fences that
their content cannot end. Written while the log is read, in bounded memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from durasess.interop.conversation import entries
from durasess.interop.entries import Began, CallEntry, Ended, Entry, Late, Mark, RunFacts, Said
from durasess.interop.markdown_text import fenced, folded, inline, is_long, quoted, size_of
from durasess.interop.overview import Overview
from durasess.interop.parts import Part, output_parts, parts_of
from durasess.interop.survey import look
from durasess.interop.visible import (
    as_json,
    as_shown,
    counted,
    duration,
    moment,
    one_line,
    seconds_between,
    time_of_day,
)
from durasess.session.masking import Masker
from durasess.session.view import SessionView

RUN_SIGNS = {
    "running": "⏳ not ended",
    "succeeded": "✅ succeeded",
    "failed": "❌ failed",
    "cancelled": "⏹️ cancelled",
    "interrupted": "⚡ interrupted",
}
CALL_SIGNS = {
    "pending": "⏳ not started yet",
    "running": "⏳ running",
    "completed": "✅",
    "failed": "❌ failed",
    "uncertain": "❓ outcome unknown",
    "waiting": "✋ waiting",
    "not_started": "⭕ never started",
}
REMARK_SIGNS = {
    "uncertain": "❓",
    "not_started": "⭕",
    "applied": "✅",
    "not_applied": "⭕",
    "abandoned": "⏹️",
    "rerun": "🔁",
    "approval_requested": "✋",
    "callback_requested": "✋",
    "approved": "✅",
    "denied": "❌",
}
"""Statuses as signs and words; a sign never stands alone but for what went well."""

_ROLES = {"user": "👤 User", "assistant": "🤖 Assistant", "program": "⚙️ Program"}


def write(session: SessionView, send: Callable[[str], object], *, masker: Masker) -> None:
    """Send the page piece by piece. `session` may be open in mode "read", damaged as well: the page
    says what is missing. `masker` takes secrets out, and counts them.

    Raises StorageError when the disk refuses.
    """
    for piece in pieces(session, masker):
        send(piece)


def pieces(session: SessionView, masker: Masker) -> Iterator[str]:
    """The page as pieces of text, each ending with a line feed."""
    overview = look(session, masker)
    yield from (f"{block}\n\n" for block in _head(overview))
    minor = 0
    for entry in entries(session, overview, masker):
        if isinstance(entry, Mark) and entry.kind == "minor":
            minor += 1
            continue
        yield from (f"{block}\n\n" for block in _blocks(entry))
    yield "---\n\n"
    if minor:
        yield f"{counted(minor, 'event')} of bookkeeping left out; the JSONL export has all.\n\n"
    if not overview.damage:
        yield from (f"Notice: {inline(one)}\n\n" for one in overview.notices[:50])
    if masker.count:
        yield f"{counted(masker.count, 'secret')} masked.\n\n"
    yield f"Exported by durasess up to seq {overview.last_seq:,}.\n"


def _head(overview: Overview) -> Iterator[str]:
    yield f"# {inline(overview.title) or 'Session'}"
    problems = [*overview.damage, *(f"notice: {one}" for one in overview.notices)]
    if overview.damage:
        told = "\n".join(f"> * {inline(one)}" for one in problems[:50])
        yield (
            "> [!WARNING]\n> This session is damaged: what follows is what could be read of it.\n"
            f">\n{told}"
        )
    rows = [f"| {name} | {inline(value)} |" for name, value in _facts(overview) if value]
    yield "\n".join(["| | |", "|---|---|", *rows])


def _facts(overview: Overview) -> Iterator[tuple[str, str]]:
    meta, usage = overview.meta, overview.usage
    yield "Session", overview.session_id
    yield "Status", meta.status
    yield "Model", overview.model
    yield "Workspace", meta.workspace
    yield "User", meta.user_id
    yield "Labels", ", ".join(f"{name}: {value}" for name, value in meta.labels.items())
    yield "Origin", meta.origin
    yield "Parent session", meta.parent
    length = duration(seconds_between(overview.started_at, overview.ended_at))
    yield "Time", f"{moment(overview.started_at)} to {moment(overview.ended_at)} UTC, {length}"
    yield "Events", f"{overview.first_seq:,} to {overview.last_seq:,}"
    yield "Runs", f"{overview.counted_runs:,}"
    yield "Messages", f"{overview.messages:,}"
    yield "Tool calls", ", ".join(f"{n:,} {name}" for name, n in overview.outcomes.items())
    yield "Tokens", _tokens(usage.prompt, usage.completion, usage.total)
    yield "Cost", f"{usage.cost:.4g}" if usage.cost else ""


def _tokens(prompt: int, completion: int, total: int) -> str:
    return f"{total:,} ({prompt:,} in, {completion:,} out)" if total else ""


def _blocks(entry: Entry) -> Iterator[str]:
    match entry:
        case Began(run):
            yield from _began(run)
        case Ended(run):
            yield from _ended(run)
        case Said():
            yield from _said(entry)
        case Late():
            yield from _late(entry)
        case Mark():
            yield from _mark(entry)


def _began(run: RunFacts) -> Iterator[str]:
    length = duration(seconds_between(run.started_at, run.worked_until))
    tokens = f"{run.usage.total:,} tokens" if run.usage.total else ""
    said = [f"Run {run.number}", RUN_SIGNS[run.status], length, tokens]
    hidden = ["↩️ rewound"] if run.is_hidden else []
    yield "## " + " · ".join(one for one in [*said, *hidden] if one)
    told = [f"{inline(run.run_id)}, began {moment(run.started_at)} UTC"]
    if run.resumes:
        told.append(f"continues {inline(run.resumes)}")
    if run.outcomes:
        told.append("calls: " + ", ".join(f"{n} {name}" for name, n in run.outcomes.items()))
    yield "; ".join(told)


def _ended(run: RunFacts) -> Iterator[str]:
    if run.status == "succeeded" and not run.reason:
        return
    reason = f": {inline(run.reason)}" if run.reason else ""
    yield f"**Run {run.number} {RUN_SIGNS[run.status]}**{reason}"


def _said(said: Said) -> Iterator[str]:
    notes = [said.model and inline(said.model), _at(said.ts, said.seq)]
    if said.usage.total:
        notes.append(f"{said.usage.prompt:,} + {said.usage.completion:,} tokens")
    notes += ["✂️ cut off"] * said.is_partial + ["↩️ rewound"] * said.is_hidden
    notes += ["⚠️ not proven: it stands behind damage"] * (not said.is_proven)
    yield f"### {_ROLES[said.role]} · " + " · ".join(one for one in notes if one)
    for thought in said.thinking:
        yield folded(f"💭 Thinking, {size_of(thought)}", _block(Part("value", thought)))
    for part in parts_of(said.content):
        yield _block(part)
    for call in said.calls:
        yield from _call(call)


def _at(ts: str, seq: int) -> str:
    return " · ".join(one for one in (time_of_day(ts), f"seq {seq:,}" if seq else "") if one)


def _block(part: Part) -> str:
    shown, left_out = as_shown(part.text)
    if part.kind == "image":
        return f"*Image, {inline(part.note)}, {len(part.text) * 3 // 4:,} bytes: not shown here.*"
    if part.kind == "link":
        return f"*Image at* {inline(shown)}"
    cut = f"\n\n*{left_out:,} more characters are left out.*" if left_out else ""
    if part.kind == "text":
        return quoted(shown) + cut
    return fenced(shown, part.note or "text") + cut


def _call(call: CallEntry) -> Iterator[str]:
    length = duration(seconds_between(call.started_at, call.ended_at))
    notes = [inline(call.name), CALL_SIGNS[call.status], length, inline(call.call_id)]
    notes += ["settled: " + inline(call.decision.replace("_", " "))] * bool(call.decision)
    notes += [f"attempt {call.attempt}"] * (call.attempt > 1)
    notes += ["a child session: " + inline(call.child)] * bool(call.child)
    notes += [f"{counted(call.masked, 'argument')} masked when recorded"] * bool(call.masked)
    yield "#### 🔧 " + " · ".join(one for one in notes if one)
    if call.arguments not in ({}, None, ""):
        yield _value("Arguments", call.arguments)
    for remark in call.remarks:
        sign = REMARK_SIGNS.get(remark.kind, "⚠️")
        yield f"* {sign} {inline(remark.text)} · {_at(remark.ts, remark.seq)}"
        if remark.detail is not None:
            yield _value("Evidence", remark.detail)
    if call.has_output:
        title = "Result" if call.ok else "Error"
        blocks = [_part(title, part) for part in output_parts(call.output)]
        yield from blocks or [f"*{title}: empty.*"]
    if call.traceback:
        yield folded("Traceback", _block(Part("value", call.traceback)))


def _value(title: str, value: Any) -> str:
    if isinstance(value, str):
        return _part(title, Part("value", value))
    return _part(title, Part("value", as_json(value), "json"))


def _part(title: str, part: Part) -> str:
    block = _block(part)
    if is_long(part.text) and part.kind == "value":
        return folded(f"{title}, {size_of(part.text)}: {one_line(part.text, 80)}", block)
    return f"{title}:\n\n{block}"


def _late(late: Late) -> Iterator[str]:
    hidden = " · ↩️ rewound" * late.is_hidden
    yield f"### ⏰ News of a call of seq {late.call.seq:,} · {_at(late.ts, late.seq)}{hidden}"
    yield from _call(late.call)


def _mark(mark: Mark) -> Iterator[str]:
    signs = {"compaction": "🗜️ ", "rewind": "↩️ ", "gap": "⚠️ ", "note": "📝 ", "stray": "⚠️ "}
    at = _at(mark.ts, mark.seq)
    line = f"**{signs.get(mark.kind, '')}{inline(mark.title)}**{f' · {at}' if at else ''}"
    if mark.kind in ("compaction", "rewind"):
        yield "---"
    yield line
    if isinstance(mark.detail, str):
        yield from (_part("", part).removeprefix(":\n\n") for part in _prose(mark))
    elif mark.detail is not None:
        yield _value("Details", mark.detail)


def _prose(mark: Mark) -> list[Part]:
    """A summary or a note is to be read; a prompt may be very long."""
    if mark.kind in ("compaction", "note"):
        return parts_of(mark.detail)
    return [Part("value", mark.detail)]
