"""The findings of a run as one Markdown page with its pictures."""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks import bounds, targets
from benchmarks.findings import Findings, Table
from benchmarks.peers.registry import PEERS
from benchmarks.pictures import svg

PICTURES = "pictures"


def write(path: Path, findings: Findings, *, machine: list[tuple[str, str]], command: str) -> None:
    """The page at `path`, and its pictures beside it in `pictures/`."""
    directory = path.parent / PICTURES
    os.makedirs(directory, exist_ok=True)
    for picture in findings.pictures:
        (directory / f"{picture.name}.svg").write_text(svg(picture), encoding="utf-8")
    path.write_text(page(findings, machine=machine, command=command), encoding="utf-8")


def page(findings: Findings, *, machine: list[tuple[str, str]], command: str) -> str:
    """The Markdown."""
    parts = [
        "# Benchmarks",
        f"Made by `{command}`; don't edit. What is compared took turns in one run, so read the "
        "ratios: absolute times depend on the disk and on what else the machine did. Events are "
        "generated agent sessions of about 1,300 bytes each, text like code and logs.",
        "## Targets",
        _rows(("target", "limit", "found", "verdict"), targets.rows(findings.figures)),
        "## What is missed, and why",
        "Where the time goes, and how near anything could come. The figures in this table were "
        "measured for the decisions that it names.",
        _rows(("targets", "bound"), bounds.rows(findings.figures)),
        "## Machine",
        _rows(("", ""), machine),
        "## Contenders",
        _rows(("name", "is", "measured"), _contenders()),
        "## Pictures",
        *[f"![{one.title}]({PICTURES}/{one.name}.svg)" for one in findings.pictures],
        *[_section(table) for table in findings.tables],
    ]
    return "\n\n".join(parts) + "\n"


def _contenders() -> list[tuple[str, ...]]:
    return [
        (peer.name, peer.note, peer.missing or f"up to {peer.most_events:,} events")
        for peer in PEERS.values()
    ]


def _section(table: Table) -> str:
    return f"## {table.title}\n\n{table.note}\n\n{_rows(table.columns, table.rows)}"


def _rows(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [columns, tuple("---" for _ in columns), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
