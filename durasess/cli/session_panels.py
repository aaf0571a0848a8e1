"""What `durasess inspect` says of a session of the session layer: facts, runs as a tree, recovery,
findings. No effects; what is so is found in session_view.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from durasess.cli.blocks import (
    Block,
    Branch,
    Fact,
    Facts,
    Notes,
    Tone,
    Tree,
    count,
    number,
    shortened,
    to_second,
)
from durasess.cli.session_runs import CallLook, RunLook
from durasess.cli.session_view import PendingEvent, SessionLook
from durasess.engine import codec
from durasess.session.state import Child, Usage

_REQUEST_WIDTH = 60
"""Characters of a run's request."""

_ARGUMENTS_WIDTH = 60
"""Characters of an open call's arguments."""

_RUN_TONES: dict[str, Tone] = {
    "succeeded": "good",
    "failed": "bad",
    "interrupted": "warn",
    "running": "warn",
}


def blocks(shown: SessionLook | None, problem: str | None) -> Iterator[Block]:
    """The session in its own terms, or why it cannot be shown so."""
    if problem is not None:
        yield Notes("about the session", [problem[0].upper() + problem[1:]], "bad")
    if shown is None:
        return
    yield Facts("session", list(_facts(shown)))
    if shown.runs or shown.other_calls:
        yield Tree("", _tree(shown))
    recovery = shown.recovery
    if recovery.pending:
        lines = [_pending_words(one) for one in recovery.pending]
        yield Notes("the next writer would write first", [*lines, *recovery.remarks], "warn")
    elif recovery.remarks:
        yield Notes("about recovery", recovery.remarks, "warn")
    if shown.findings:
        lines = [*shown.findings, "With these no writer opens it; nothing was changed."]
        yield Notes("self-check", lines, "bad")
    if shown.remarks:
        yield Notes("about the session", shown.remarks, "warn")


def _facts(shown: SessionLook) -> Iterator[Fact]:
    identity = shown.identity
    pinned = ", pinned" if identity.pinned else ""
    yield Fact("title", identity.title or "none")
    yield Fact("status", identity.status, f"updated {to_second(identity.updated_at)}{pinned}")
    yield _workspace(shown)
    yield from _named(shown)
    yield Fact("usage", count(shown.usage.total, "token"), _usage_words(shown.usage))
    counts = shown.counts
    runs_and_calls = f"{count(counts.runs, 'run')}, {count(counts.calls, 'call')}"
    yield Fact("messages", number(counts.messages), f"{runs_and_calls}; {_resident_words(shown)}")
    yield from _open(shown)
    yield from _positions(shown)
    yield from _oddities(shown)


def _workspace(shown: SessionLook) -> Fact:
    if shown.workspace is None:
        return Fact("workspace", "none")
    if shown.workspace.exists:
        return Fact("workspace", shown.workspace.path)
    note = "is not there; give workspace= to open, or rebind"
    return Fact("workspace", shown.workspace.path, note, "warn")


def _named(shown: SessionLook) -> Iterator[Fact]:
    identity = shown.identity
    labels = ", ".join(f"{name}={value}" for name, value in identity.labels.items())
    config = [name for name in shown.config if name != "model"]
    for label, value, note in (
        ("model", identity.model, f"config has {', '.join(config)}" if config else ""),
        ("system", ", ".join(shown.system), ""),
        ("labels", labels, ""),
        ("user", identity.user_id, ""),
        ("origin", identity.origin, ""),
        ("parent", identity.parent, f"for its call {identity.parent_call}"),
    ):
        if value:
            is_empty_call = label == "parent" and not identity.parent_call
            yield Fact(label, value, "" if is_empty_call else note)


def _open(shown: SessionLook) -> Iterator[Fact]:
    recovery = shown.recovery
    if shown.open_calls:
        yield Fact("open calls", number(len(shown.open_calls)), "marked below", "warn")
    if recovery.pending:
        note = "the next writer writes them first; see below"
        yield Fact("recovery", f"{count(len(recovery.pending), 'event')} pending", note, "warn")
    if recovery.notice is not None:
        notice = recovery.notice
        calls = f"{count(len(notice.keys), 'call')} of unknown or open outcome"
        why = f": {notice.reason}" if notice.reason else ""
        note = f"run {notice.run_id}, {calls}{why}"
        yield Fact("notice", "until the model answers", note, "warn")


def _positions(shown: SessionLook) -> Iterator[Fact]:
    checkpoint = shown.checkpoint
    if checkpoint.seq:
        said = "" if checkpoint.next is None else f"next is {_json(checkpoint.next)}"
        yield Fact("checkpoint", f"seq {number(checkpoint.dispatched)}", said)
    if shown.task.goal or shown.task.status:
        steps = f"{len(shown.task.completed)} steps done, {len(shown.task.pending)} pending"
        status = f"{shown.task.status}, " if shown.task.status else ""
        yield Fact("task", shortened(shown.task.goal, _REQUEST_WIDTH), f"{status}{steps}")
    if shown.compactions:
        newest = shown.compactions[-1]
        made = len(shown.compactions) + shown.compactions_left_out
        note = f"a summary of {count(len(newest.summary), 'character')} tells up to seq " + number(
            newest.through
        )
        yield Fact("compactions", number(made), note)
    if shown.rewound:
        ranges = ", ".join(f"{number(first)} to {number(last)}" for first, last in shown.rewound)
        yield Fact("rewound", f"seq {ranges}", "does not count any more")
    if shown.custom.keys:
        versions = f"version {shown.custom.version}"
        yield Fact("custom state", count(len(shown.custom.keys), "key"), versions)
        yield Fact("", ", ".join(shown.custom.keys))


def _oddities(shown: SessionLook) -> Iterator[Fact]:
    counts = shown.counts
    for value, label, note in (
        (counts.duplicates, "duplicates", "second results of a call, not counted as messages"),
        (counts.orphans, "orphans", "events about a call that nobody knows"),
        (counts.unreadable, "unreadable", "events of a known type with data that is none of it"),
    ):
        if value:
            yield Fact(label, number(value), note, "warn")
    if counts.masked:
        yield Fact("masked", number(counts.masked), "secrets, before they were recorded")


def _resident_words(shown: SessionLook) -> str:
    older = f", live ones from seq {number(shown.older_since)} on are only in the log"
    held = f"{number(shown.resident_messages)} in the state with the calls' results"
    return held + (older if shown.older_since else "")


def _usage_words(usage: Usage) -> str:
    cost = f", cost {usage.cost:g}" if usage.cost else ""
    return f"{number(usage.prompt)} prompt, {number(usage.completion)} completion{cost}"


# -- runs -------------------------------------------------------------------------------------


def _tree(shown: SessionLook) -> Branch:
    children = {child.session_id: child for child in shown.children}
    runs = [_run(one, children) for one in shown.runs]
    if shown.runs_left_out:
        note = "--runs N or --all shows more"
        runs.insert(0, Branch(f"… {count(shown.runs_left_out, 'older run')}", note, "dim"))
    if shown.other_calls:
        inside = tuple(_call(one, children) for one in shown.other_calls)
        runs.append(Branch("calls of no run above", "", "plain", inside))
    loose = _loose(shown, children)
    if loose:
        runs.append(Branch("children of no call above", "", "plain", tuple(loose)))
    return Branch("runs", count(shown.counts.runs, "run"), "plain", tuple(runs))


def _loose(shown: SessionLook, children: dict[str, Child]) -> list[Branch]:
    calls = [*shown.other_calls, *(call for run in shown.runs for call in run.calls)]
    placed = {call.child for call in calls}
    loose = [_child(one) for name, one in children.items() if name not in placed]
    if shown.children_left_out:
        older = f"… {number(shown.children_left_out)} that ended before"
        loose.insert(0, Branch(older, "in the log, and sessions of the store", "dim"))
    return loose


def _run(run: RunLook, children: dict[str, Child]) -> Branch:
    parts = [
        run.status,
        to_second(run.started_at),
        _duration(run.seconds),
        count(run.usage.total, "token") if run.usage.total else "",
        count(run.messages, "message"),
        count(run.call_count, "call") if run.call_count else "",
        f"resumes {run.resumes}" if run.resumes else "",
    ]
    said = ", ".join(filter(None, parts))
    if run.error:
        said += f": {shortened(run.error, _REQUEST_WIDTH)}"
    elif run.request:
        said += f": {shortened(run.request, _REQUEST_WIDTH)}"
    calls = tuple(_call(one, children) for one in run.calls)
    return Branch(run.run_id, said, _RUN_TONES.get(run.status, "plain"), calls)


def _call(call: CallLook, children: dict[str, Child]) -> Branch:
    status = f"open, {call.status}" if call.is_open else call.status
    parts = [
        status,
        f"for {call.waits_for}" if call.waits_for else "",
        call.decision,
        _duration(call.seconds),
        f"attempt {call.attempt}" if call.attempt > 1 else "",
        call.effect if call.attempt else "",
    ]
    said = ", ".join(filter(None, parts))
    if call.reason:
        said += f": {call.reason}"
    inside = []
    if call.is_open:
        inside.append(Branch(shortened(_json(call.arguments), _ARGUMENTS_WIDTH), "", "dim"))
    if call.child in children:
        inside.append(_child(children[call.child]))
    tone: Tone = "warn" if call.is_open else "bad" if call.status == "failed" else "plain"
    return Branch(f"{call.name} ({call.call_id})", said, tone, tuple(inside))


def _child(child: Child) -> Branch:
    return Branch(f"child {child.session_id}", child.status)


def _pending_words(one: PendingEvent) -> str:
    data = one.data if isinstance(one.data, dict) else {}
    about = (
        f"run {one.run_id}" if one.call_id is None else f"call {one.call_id} of run {one.run_id}"
    )
    if one.type == "child_finished":
        about = f"child {data.get('session_id')}"
    what = data.get("outcome") or data.get("status")
    reason = f": {data['reason']}" if data.get("reason") else ""
    return f"{one.type} of {about}, {what}{reason}"


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return ""
    if abs(seconds) < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def _json(value: Any) -> str:
    return codec.encode(value).decode("utf-8", "surrogatepass")
