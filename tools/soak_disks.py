"""The long runs that need a real kernel: power cuts, kills of writers, block images."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tools.soak_crash import Found

# By name, because tests are not typed like the package.
block_images: Any = importlib.import_module("tests.support.block_images")
cut_lab: Any = importlib.import_module("tests.support.cut_lab")


def _here() -> Path:
    """Where what is too large for memory may lie."""
    return Path(tempfile.gettempdir())


def power_cuts(name: str) -> Callable[[int], Found]:
    """Power cuts on one file system, which is made anew for each seed."""

    def run(seed: int) -> Found:
        totals = cut_lab.power_cuts(cut_lab.KINDS[name], seed, _here())
        return Found(totals.rounds, list(totals.problems))

    return run


def kills(seed: int) -> Found:
    """Kills among four writers of one session."""
    totals = cut_lab.storm(seed, _here())
    return Found(totals.rounds, list(totals.problems))


SHARE = {"ext4": 0.2, "xfs": 1.0}
"""Of a plan's images; ext4 with its small blocks has some hundreds."""


def images(name: str) -> Callable[[int], Found]:
    """Block images without some of the newest writes, of one plan for each seed."""

    def run(seed: int) -> Found:
        totals = block_images.run(name, seed, _here(), share=SHARE[name])
        return Found(totals.images, list(totals.problems))

    return run


METHODS: dict[str, Callable[[int], Found]] = {
    "kills": kills,
    **{f"cuts-{name}": power_cuts(name) for name in cut_lab.KINDS},
    **{f"images-{name}": images(name) for name in block_images.KINDS},
}
