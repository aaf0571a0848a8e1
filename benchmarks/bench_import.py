"""What `import durasess` costs beside its dependencies and beside other libraries, each in a fresh
interpreter."""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks import measure
from benchmarks.findings import TINY, Findings, Sizes, Table, milliseconds, times
from benchmarks.peers.registry import PEERS

DEPENDENCIES = "msgspec + zstandard"
CODES = {
    "python alone": "pass",
    DEPENDENCIES: "import msgspec, zstandard",
    "durasess": "import durasess",
    "durasess.Engine": "import durasess; durasess.Engine",
    "durasess.Store": "import durasess; durasess.Store",
}
OTHERS = {
    "agents": "import agents",
    "eventsourcing": "import eventsourcing.sqlite",
    "langgraph": "import langgraph.checkpoint.sqlite",
}


def measured(sizes: Sizes) -> Findings:
    """Medians of whole processes, taking turns."""
    codes = CODES | {name: code for name, code in OTHERS.items() if not PEERS[name].missing}
    with tempfile.TemporaryDirectory() as bytecode:
        calls = {
            name: lambda code=code: measure.import_time(code, bytecode)
            for name, code in codes.items()
        }
        for compile_all in calls.values():
            compile_all()
        found = measure.medians(calls, rounds=sizes.imports)
    rows = [
        (name, milliseconds(seconds), times(seconds, found[DEPENDENCIES]))
        for name, seconds in found.items()
    ]
    table = Table(
        "Process with one import",
        "From start to end, with compiled modules. durasess imports a name when it is first asked "
        "for; Engine and Store are what a program uses.",
        ("", "median", f"to {DEPENDENCIES}"),
        rows,
    )
    return Findings([table], {"import": found["durasess"] / found[DEPENDENCIES]})


def test_the_import_is_measured(tmp_path: Path) -> None:
    assert measured(TINY).figures["import"] > 0
