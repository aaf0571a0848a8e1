"""Sessions for the command to look at, the command itself, and its output made comparable."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from durasess.cli.main import main

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests/conformance/golden/v1"
EXPECTED = Path(__file__).parent / "expected_output"

REPLACEMENTS = (
    (r"process \d+ on host \S+ since \S+ \(.*\)", "process PID on host HOST since TIME (COMMAND)"),
    (r"(?m)^\d+-\d+-\d+ .*\n", "WORKER PID TIME COMMAND\n"),
    (r"\b\d+-\d{19}-\d+(   \d+ bytes)?", "WORKER"),
    # How far the notes of a tree stand to the right depends on its longest name.
    (r"(?m)^([├└│].*?\S) {3,}(?=\S)", r"\1   "),
    (r"(?m)^worker +process.*$", "worker process since command"),
    (r"(?m)^file system .*$", "file system   KIND   mounted at MOUNT"),
    (r"\.[0-9a-f]{16}\b", ".HASH"),
)


def copy(case: str, below: Path) -> Path:
    """A copy of the session of a golden case, with the bytes it has everywhere."""
    (source,) = (path for path in (GOLDEN / case).iterdir() if path.is_dir())
    target = below / source.name
    shutil.copytree(source, target)
    return target


def flip(path: Path, at: int) -> None:
    """Change one bit of a file."""
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(bytes(data))


def normalised(text: str, below: Path) -> str:
    """The text without what is different on every machine."""
    text = text.replace(str(below), "TMP")
    for pattern, instead in REPLACEMENTS:
        text = re.sub(pattern, instead, text)
    return text


def assert_expected(name: str, text: str, below: Path) -> None:
    """The text is that of a file in expected_output/; DURASESS_UPDATE_EXPECTED=1 writes it."""
    path = EXPECTED / f"{name}.txt"
    found = normalised(text, below)
    if os.environ.get("DURASESS_UPDATE_EXPECTED"):
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8")


def command(*arguments: str) -> list[str]:
    """The command line of a process of its own."""
    return [sys.executable, "-m", "durasess", *arguments]


def environment() -> dict[str, str]:
    """Without what colours output, with this package."""
    kept = {k: v for k, v in os.environ.items() if k not in ("FORCE_COLOR", "NO_COLOR")}
    return {**kept, "PYTHONPATH": str(ROOT)}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command, piped."""
    return subprocess.run(
        command(*arguments), capture_output=True, text=True, env=environment(), check=False
    )


def inspect(capsys: pytest.CaptureFixture[str], path: Path, *more: str) -> dict[str, Any]:
    """The report of `--json`; nothing may be said on stderr."""
    main(["inspect", str(path), "--json", *more])
    said = capsys.readouterr()
    assert said.err == ""
    report: dict[str, Any] = json.loads(said.out)
    return report
