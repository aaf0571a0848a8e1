"""Which branches of the engine no test takes.

    python -m tools.engine_coverage [--least 99]

Runs the tests of the engine under coverage, those in child processes too, and prints what no test
comes by. Exit code 1 below `--least` per cent.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTS = (
    ("tests/unit", "tests/crash/test_disk.py", "tests/crash/test_blobs.py"),
    (
        "tests/promises",
        "tests/faults",
        "tests/conformance",
        "tests/crash/test_overwrites.py",
        "tests/crash/test_interrupts.py",
        "tests/crash/test_kill.py",
    ),
)
"""Each in a process of its own."""

LEAST = 100.0
"""Per cent. What a test comes by only when threads happen to meet needs another that makes them."""

CONFIG = """\
[run]
branch = true
source_dirs = {source}
parallel = true
patch = subprocess
concurrency = thread,multiprocessing
data_file = {data}
[report]
skip_covered = true
show_missing = true
precision = 2
"""


def main(arguments: list[str] | None = None) -> int:
    """Measure and report."""
    parser = argparse.ArgumentParser(prog="engine_coverage", description=__doc__.splitlines()[0])
    parser.add_argument("--least", type=float, default=LEAST, metavar="PERCENT")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as directory:
        config = Path(directory, "config")
        source, data = ROOT / "durasess" / "engine", Path(directory, "data")
        config.write_text(CONFIG.format(source=source, data=data))
        coverage = [sys.executable, "-m", "coverage"]
        tests = [
            subprocess.Popen(
                [*coverage, "run", f"--rcfile={config}", "-m", "pytest", *paths], cwd=ROOT
            )
            for paths in TESTS
        ]
        if any([process.wait() for process in tests]):
            return 1
        subprocess.run([*coverage, "combine", f"--rcfile={config}", "-q"], cwd=ROOT, check=True)
        report = [*coverage, "report", f"--rcfile={config}", f"--fail-under={options.least}"]
        return 1 if subprocess.run(report, cwd=ROOT).returncode else 0


if __name__ == "__main__":
    sys.exit(main())
