"""The end of an open segment, where its writer goes on: behind the last line, over the filler."""

from __future__ import annotations

from pathlib import Path

import pytest

from durasess.engine.types import FILLER, PREALLOCATE

with_and_without_filler = pytest.mark.parametrize("preallocate", [0, 512, PREALLOCATE])
"""A file that is no longer than its lines, and files that are: what a cut write, a full disk or a
foreign hand leaves at the end must come to the same."""

in_small_steps = pytest.mark.parametrize("preallocate", [0, 512, 2048])
"""The same where every disk that a power cut may leave is read."""


def end_of_lines(file: Path) -> int:
    """The size without filler."""
    return len(file.read_bytes().rstrip(FILLER))


def overwrite(file: Path, start: int, data: bytes) -> None:
    """Other bytes in place of those from `start` on."""
    with open(file, "r+b") as target:
        target.seek(start)
        target.write(data)


def write_on(file: Path, data: bytes) -> None:
    """As the segment's writer does: behind the last line, over the filler if there is any."""
    overwrite(file, end_of_lines(file), data)
