"""`durasess inspect`: show what is on disk. Never changes anything, goes on past damage."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from durasess.cli import (
    difference,
    events,
    inspect_options,
    options,
    reducer,
    session_context,
    session_fold,
    session_panels,
    session_view,
    states,
    stores,
)
from durasess.cli.blocks import Block, Fact, Facts, Notes, Value, number
from durasess.cli.examine import STATUS, Inspected, examine
from durasess.cli.inspect_options import MODELS
from durasess.cli.inspect_report import blocks
from durasess.cli.masking import Masker
from durasess.cli.metered import bytes_to_read
from durasess.cli.output import DAMAGE, Items, Output, Step
from durasess.cli.session_view import SessionLook, View
from durasess.errors import SessionNotFoundError


class Section(NamedTuple):
    """What an option adds to the report: a JSON member, and blocks that say the same."""

    name: str
    value: Any
    blocks: list[Block]


def add_to(verbs: options.Verbs) -> None:
    """Declare the verb."""
    parser = options.add_verb(
        verbs,
        "inspect",
        run,
        summary="Show what is on disk of a session, damaged or not.",
        more="Changes nothing and may run beside writers. Secrets (keys of known shapes, values\n"
        "under keys named like credentials) are masked and counted. Exit status: 0 sound (a torn\n"
        "tail is sound: the next open sets it aside), 1 damage or a session that contradicts\n"
        "itself, 2 usage, 3 not readable.",
        example="durasess inspect ~/.myagent/sessions/a1 --around 412 --context 3",
    )
    inspect_options.declare(parser)


def run(chosen: argparse.Namespace, output: Output) -> int:
    """Look and print; the status tells the health."""
    directory = stores.directory(chosen)
    inspect_options.check(chosen)
    fold: states.Folding | None = reducer.load(chosen.reducer, chosen.initial)
    found = _examined(directory, output)
    seqs = [*([chosen.at] if chosen.at else []), *(chosen.diff or [])]
    events.check_reached(found, chosen.around or 0, *seqs)
    view = _view(chosen, found, output)
    if view is None and chosen.context == MODELS:
        raise options.UsageError(
            f"--context is for sessions of agents; {found.path} holds other events."
        )
    if fold is None and view is not None:
        fold = view.folding
    masker = Masker(show=chosen.show_secrets)
    shown = msgspec.convert(masker.value(options.fields(found)), Inspected)
    session = _session(view, masker)
    total = states.events_to_fold(found, *seqs) if fold is not None else 0
    with output.progress("folding", total) as step:
        sections = list(_sections(chosen, found, fold, masker, step))
    if view is not None and chosen.context == MODELS:
        sections.append(_model_context(chosen, view, masker))
    report = options.fields(shown)
    report |= {"session": session.plain, "session_problem": session.problem}
    report |= {one.name: one.value for one in sections}

    def count() -> dict[str, int]:
        return {"masked": masker.count}

    def items() -> Items:
        return Items("events", events.values(found, masker), count)

    def all_blocks() -> Iterator[Block]:
        yield from blocks(shown, session_panels.blocks(session.look, session.problem))
        if chosen.events:
            yield events.listing(found, masker)
        for one in sections:
            yield from one.blocks
        yield from options.masked_blocks(masker)

    if chosen.events:
        output.report(report, all_blocks, items)
    else:
        output.report(report | count(), all_blocks)
    is_refused = session.problem or (session.look is not None and session.look.findings)
    return max(STATUS[found.health], DAMAGE if is_refused else 0)


def _examined(directory: str, output: Output) -> Inspected:
    try:
        with output.progress("reading", bytes_to_read(directory), in_bytes=True) as step:
            return examine(directory, step)
    except SessionNotFoundError:
        raise stores.not_there(directory) from None


def _view(chosen: argparse.Namespace, found: Inspected, output: Output) -> View | None:
    """The session in its own terms; None when it is no session of the session layer."""
    if not session_fold.is_session(found):
        return None
    with output.progress("folding", found.after_snapshot) as step:
        limit = None if chosen.all else chosen.runs
        return View(found, step, runs=limit, now=time.time_ns())


class _Session(NamedTuple):
    """A session in its own terms with its secrets masked: as JSON readers get it, as people do; or
    why there is none."""

    plain: dict[str, Any] | None = None
    look: SessionLook | None = None
    problem: str | None = None


def _session(view: View | None, masker: Masker) -> _Session:
    if view is None:
        return _Session()
    if view.look is None:
        return _Session(problem=masker.text(view.problem or ""))
    plain = masker.value(session_view.values(view.look))
    return _Session(plain, msgspec.convert(plain, SessionLook))


def _model_context(chosen: argparse.Namespace, view: View, masker: Masker) -> Section:
    planned = view.context(chosen.format or "neutral", chosen.max_tokens)
    planned.request = masker.value(planned.request)
    planned.remarks = [masker.text(one) for one in planned.remarks]
    return Section("context", planned, list(session_context.blocks(planned)))


def _sections(
    chosen: argparse.Namespace,
    found: Inspected,
    fold: states.Folding | None,
    masker: Masker,
    step: Step,
) -> Iterator[Section]:
    if chosen.around is not None:
        near = events.around(found, chosen.around, inspect_options.beside(chosen.context), masker)
        shown: list[Block] = [events.around_listing(near, found)]
        if all(one["seq"] != chosen.around for one in near.events):
            remark = events.why_not_readable(found, chosen.around)
            shown.append(Notes(f"about seq {number(chosen.around)}", [remark]))
        yield Section("around", near, shown)
    if chosen.at is not None:
        yield _at(found, chosen.at, states.after(found, chosen.at, fold, step), masker)
    if chosen.diff is not None:
        before, after = (states.after(found, seq, fold, step) for seq in chosen.diff)
        yield _diff(before, after, masker)


def _at(found: Inspected, seq: int, at: states.StateAt, masker: Masker) -> Section:
    event = events.one(found, seq, masker)
    at.state = masker.value(at.state)
    shown: list[Block] = []
    if event is None:
        at.remarks.append(events.why_not_readable(found, seq))
    else:
        shown.append(Value(f"event {number(seq)}", event))
    if at.known:
        shown.append(Value(f"state after event {number(seq)}, {at.origin}", at.state))
    if at.remarks:
        shown.append(Notes(f"about seq {number(seq)}", at.remarks))
    return Section("at", {**options.fields(at), "event": event}, shown)


def _diff(before: states.StateAt, after: states.StateAt, masker: Masker) -> Section:
    known = before.known and after.known
    changes = []
    if known:
        found = difference.differences(before.state, after.state)
        changes = [difference.masked(one, masker) for one in found]
    ends = {"before": before, "after": after}
    value = {name: msgspec.structs.asdict(one) for name, one in ends.items()}
    for one in value.values():
        # The states themselves are what --at shows.
        del one["state"]
    said = {"known": known, **value, "changes": [difference.fields(one) for one in changes]}
    return Section("diff", said, list(_diff_blocks(before, after, changes)))


def _diff_blocks(
    before: states.StateAt, after: states.StateAt, changes: list[difference.Change]
) -> Iterator[Block]:
    title = f"difference of seq {number(before.seq)} and seq {number(after.seq)}"
    if before.known and after.known:
        said = difference.summed_up(changes)
        ends = [
            Fact(f"seq {number(one.seq)}", one.origin, said if one is after else "")
            for one in (before, after)
        ]
        yield Facts(title, ends)
        if changes:
            yield difference.listing(changes)
    remarks = [remark for one in (before, after) for remark in one.remarks]
    if remarks:
        yield Notes(title, remarks)
