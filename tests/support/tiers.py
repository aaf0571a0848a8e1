"""Which part of a large test runs: the suite takes a sample, `DURASESS_TIER=full` everything."""

from __future__ import annotations

import os

FULL = os.environ.get("DURASESS_TIER") == "full"


def sampled(stride: int) -> int:
    """The stride of a sample in the suite; 1, which is everything, in the full tier."""
    return 1 if FULL else stride
