"""`durasess inspect`: show what is on disk. Never changes anything, goes on past damage."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from durasess.cli import difference, events, options, reducer, states
from durasess.cli.blocks import Block, Fact, Facts, Notes, Value, number
from durasess.cli.examine import STATUS, Inspected, examine
from durasess.cli.inspect_report import blocks
from durasess.cli.masking import Masker
from durasess.cli.metered import bytes_to_read
from durasess.cli.output import Items, Output, Step
from durasess.cli.reducer import Reducer

CONTEXT = 5
"""Events shown before and behind the one that was asked for."""


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
        "tail is sound: the next open sets it aside), 1 damage, 2 usage, 3 not readable.",
        example="durasess inspect ~/.myagent/sessions/a1 --around 412 --context 3",
    )
    parser.add_argument("path", metavar="PATH", help="the session's directory")
    parser.add_argument("--events", action="store_true", help="list the events, data shortened")
    parser.add_argument(
        "--around", metavar="SEQ", type=options.positive, help="list the events around this seq"
    )
    parser.add_argument(
        "--context",
        metavar="N",
        type=options.count,
        default=CONTEXT,
        help="so many before and behind --around (default: %(default)s)",
    )
    parser.add_argument(
        "--at",
        metavar="SEQ",
        type=options.positive,
        help="show the event with this seq in full, and the state after it",
    )
    parser.add_argument(
        "--diff",
        metavar=("A", "B"),
        nargs=2,
        type=options.count,
        help="show how the states after these two seqs differ, as JSON paths",
    )
    parser.add_argument(
        "--reducer",
        metavar="MODULE:NAME",
        help="your apply(state, event): folds events where no snapshot is of exactly that seq",
    )
    parser.add_argument(
        "--initial",
        metavar="MODULE:NAME",
        help="your function that makes the state before the first event (default: dict)",
    )
    options.add_show_secrets(parser)


def run(chosen: argparse.Namespace, output: Output) -> int:
    """Look and print; the status tells the health."""
    directory = options.directory(chosen.path)
    fold = reducer.load(chosen.reducer, chosen.initial)
    with output.progress("reading", bytes_to_read(directory), in_bytes=True) as step:
        found = examine(directory, step)
    seqs = [*([chosen.at] if chosen.at else []), *(chosen.diff or [])]
    events.check_reached(found, chosen.around or 0, *seqs)
    masker = Masker(show=chosen.show_secrets)
    shown = msgspec.convert(masker.value(options.fields(found)), Inspected)
    total = states.events_to_fold(found, *seqs) if fold is not None else 0
    with output.progress("folding", total) as step:
        sections = list(_sections(chosen, found, fold, masker, step))
    report = options.fields(shown) | {one.name: one.value for one in sections}

    def count() -> dict[str, int]:
        return {"masked": masker.count}

    def items() -> Items:
        return Items("events", events.values(found, masker), count)

    def all_blocks() -> Iterator[Block]:
        yield from blocks(shown)
        if chosen.events:
            yield events.listing(found, masker)
        for one in sections:
            yield from one.blocks
        yield from options.masked_blocks(masker)

    if chosen.events:
        output.report(report, all_blocks, items)
    else:
        output.report(report | count(), all_blocks)
    return STATUS[found.health]


def _sections(
    chosen: argparse.Namespace,
    found: Inspected,
    fold: Reducer | None,
    masker: Masker,
    step: Step,
) -> Iterator[Section]:
    if chosen.around is not None:
        near = events.around(found, chosen.around, chosen.context, masker)
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
