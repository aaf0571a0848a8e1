"""`durasess runs`: the newest runs of all sessions, or their sums by day, model, workspace."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from durasess.cli import options, stores
from durasess.cli.blocks import Block, Column, Fact, Facts, Row, Table, count, number
from durasess.cli.output import SOUND, Output
from durasess.store.index import Group, IndexedRun

LIMIT = 100


def add_to(verbs: options.Verbs) -> None:
    """Declare the verb."""
    parser = options.add_verb(
        verbs,
        "runs",
        run,
        summary="Show the newest runs of all sessions of a store.",
        more="Uses the store's index, which it brings up to date. Exit status: 0 done, 2 usage,\n"
        "3 not readable.",
        example="durasess runs ~/.myagent/sessions --by model",
    )
    stores.add_store(parser, place=True)
    parser.add_argument(
        "--failed", action="store_true", help="all that failed or were interrupted, and no others"
    )
    parser.add_argument(
        "--by", choices=("day", "model", "workspace"), help="sum up: runs, time, tokens, cost"
    )
    parser.add_argument(
        "--limit", metavar="N", type=options.positive, default=LIMIT, help="runs (default: 100)"
    )


def run(chosen: argparse.Namespace, output: Output) -> int:
    """Print them."""
    store = stores.existing(chosen)
    if chosen.by:
        groups = store.statistics(chosen.by)
        report = {"by": chosen.by, "groups": [options.fields(one) for one in groups]}
        output.report(report, lambda: _summed_up(chosen.by, groups))
        return SOUND
    found = store.runs(limit=chosen.limit, failed=chosen.failed)
    report = {"runs": [options.fields(one) for one in found]}
    output.report(report, lambda: _listed(found))
    return SOUND


def _summed_up(by: str, groups: tuple[Group, ...]) -> Iterator[Block]:
    names = ("runs", "failed", "mean time", "tokens", "cost")
    columns = (Column(by), *(Column(name, right=True) for name in names))
    rows = [
        Row(
            (
                one.key or "-",
                number(one.runs),
                number(one.failed),
                _seconds(one.mean_seconds),
                number(one.total),
                f"{one.cost:,.4f}",
            )
        )
        for one in groups
    ]
    yield Table("", columns, rows)


def _listed(found: tuple[IndexedRun, ...]) -> Iterator[Block]:
    if found:
        columns = (
            *(Column("session", whole=True), Column("run"), Column("started"), Column("status")),
            *(Column("time", right=True), Column("tokens", right=True), Column("error")),
        )
        rows = [
            Row(
                (
                    *(one.session_id, one.run_id, stores.short_time(one.started_at), one.status),
                    *(_seconds(one.seconds), number(one.total), one.error[:60]),
                ),
                "bad" if one.status in ("failed", "interrupted") else "plain",
            )
            for one in found
        ]
        yield Table("", columns, rows)
    yield Facts("", [Fact("in all", count(len(found), "run"))])


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f} s"
