"""Damages a SQLite database and a durasess session in the same ways and counts what goes unsaid.

    python -m tools.peer_mutations [--events 12] [--bits 61]

Both hold the same acknowledged rows and were left as a killed process leaves them: SQLite in WAL
mode with synchronous=FULL and nothing checkpointed, durasess with its newest segment unsealed. Each
mutation flips one bit of, or cuts short, one file that holds rows. An outcome is *exact* (all rows,
no error), *refused* (an error), or *silently wrong*: no error, and rows are missing or others. What
of durasess is missing without an error is told apart: where a cut equals what a crash may leave,
only a receipt can tell, and it is asked. Prints one Markdown table; SQLite's own check is asked
too.
"""

from __future__ import annotations

import argparse
import sqlite3
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from durasess.engine.engine import Engine
from durasess.engine.receipt import Receipt
from durasess.errors import DurasessError

Tree = Mapping[str, bytes]


class Mutation(NamedTuple):
    """File `name` gets `content`."""

    kind: str
    name: str
    content: bytes


def mutations(tree: Tree, names: list[str], stride: int) -> Iterator[Mutation]:
    """Every stride-th bit flipped, and every stride // 8-th length."""
    for name in names:
        data = tree[name]
        for bit in range(0, len(data) * 8, stride):
            changed = bytearray(data)
            changed[bit // 8] ^= 1 << bit % 8
            yield Mutation("bit flip", name, bytes(changed))
        for size in range(0, len(data), max(1, stride // 8)):
            yield Mutation("cut short", name, data[:size])


def tree_of(folder: Path) -> dict[str, bytes]:
    """What stands in a directory, one level deep."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def put(folder: Path, tree: Tree) -> None:
    """Exactly these files."""
    folder.mkdir(mode=0o700, exist_ok=True)
    for path in folder.iterdir():
        if path.is_file():
            path.unlink()
    for name, data in tree.items():
        (folder / name).write_bytes(data)


# -- the two ----------------------------------------------------------------------------------


def killed_database(folder: Path, events: int) -> dict[str, bytes]:
    """The files of a database while its writer still has it open: what a kill leaves."""
    folder.mkdir(mode=0o700)
    database = sqlite3.connect(folder / "db", isolation_level=None)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=FULL")
    database.execute("PRAGMA wal_autocheckpoint=0")
    database.execute("CREATE TABLE t (n INTEGER PRIMARY KEY, text TEXT)")
    for n in range(1, events + 1):
        database.execute("INSERT INTO t VALUES (?, ?)", (n, row(n)))
    tree = {name: data for name, data in tree_of(folder).items() if name != "db-shm"}
    database.close()
    return tree


def row(n: int) -> str:
    """The content of row n."""
    return f"row {n} " + "x" * 40


def database_outcome(folder: Path, events: int) -> str:
    """What a program sees that opens the damaged database and asks for all rows."""
    try:
        database = sqlite3.connect(folder / "db")
        try:
            found = database.execute("SELECT n, text FROM t ORDER BY n").fetchall()
            checked = database.execute("PRAGMA integrity_check").fetchall()
        finally:
            database.close()
    except (sqlite3.Error, UnicodeDecodeError):
        return "refused"
    if found == [(n, row(n)) for n in range(1, events + 1)]:
        return "exact"
    return "silently wrong" if checked == [("ok",)] else "refused"


def opened(folder: Path, receipt: Receipt | None = None) -> Engine:
    """The session; its state is the list of rows."""
    return Engine.open(
        folder,
        initial=list,
        apply=lambda state, event: [*state, event.data],
        create=receipt is None,
        at_least=receipt,
        snapshot_every=10**6,
        preallocate=0,
    )


def killed_session(folder: Path, events: int) -> tuple[dict[str, bytes], Receipt]:
    """The files of a session whose writer was killed, and its last receipt."""
    engine = opened(folder)
    for n in range(1, events + 1):
        receipt = engine.append("row", row(n))
    engine.abandon()
    return tree_of(folder), receipt


def session_outcome(folder: Path, events: int, receipt: Receipt) -> str:
    """What a program sees that opens the damaged session."""
    tree = tree_of(folder)
    try:
        engine = opened(folder)
    except DurasessError:
        return "refused"
    found = engine.state
    engine.abandon()
    if found == [row(n) for n in range(1, events + 1)]:
        return "exact"
    put(folder, tree)
    try:
        opened(folder, receipt).abandon()
    except DurasessError:
        return "refused with a receipt"
    return "silently wrong"


def count(
    folder: Path, tree: Tree, names: list[str], stride: int, outcome: Callable[[Path], str]
) -> Counter[tuple[str, str]]:
    """(kind, outcome) → how often."""
    counts: Counter[tuple[str, str]] = Counter()
    for mutation in mutations(tree, names, stride):
        put(folder, {**tree, mutation.name: mutation.content})
        counts[mutation.kind, outcome(folder)] += 1
    return counts


def table(rows: Mapping[str, Counter[tuple[str, str]]]) -> str:
    """Markdown: who, what, how often each outcome."""
    outcomes = ("exact", "refused", "refused with a receipt", "silently wrong")
    lines = [f"| | mutation | tried | {' | '.join(outcomes)} |", "|---|---|" + "---:|" * 5]
    for who, counts in rows.items():
        for kind in ("bit flip", "cut short"):
            numbers = [counts[kind, outcome] for outcome in outcomes]
            cells = " | ".join(f"{number:,}" for number in (sum(numbers), *numbers))
            lines.append(f"| {who} | {kind} | {cells} |")
    return "\n".join(lines)


def measured(events: int, stride: int) -> dict[str, Counter[tuple[str, str]]]:
    """Both, with as many mutations for each byte."""
    with tempfile.TemporaryDirectory(prefix="peer") as work:
        root = Path(work)
        database = killed_database(root / "made", events)
        session, receipt = killed_session(root / "s", events)
        segments = [name for name in session if name.startswith("events_")]
        return {
            f"SQLite {sqlite3.sqlite_version}, WAL, FULL": count(
                root / "d", database, ["db-wal"], stride, lambda at: database_outcome(at, events)
            ),
            "durasess": count(
                root / "s",
                session,
                segments,
                max(1, stride // 8),
                lambda at: session_outcome(at, events, receipt),
            ),
        }


def main(arguments: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="peer_mutations", description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=12)
    parser.add_argument("--bits", type=int, default=61, help="every so many-th bit is flipped")
    options = parser.parse_args(arguments)
    print(table(measured(options.events, options.bits)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
