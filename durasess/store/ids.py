"""New session ids: when, in UTC, and something random. They sort by time and name nothing else."""

from __future__ import annotations

import datetime
import os


def new_id(now: int) -> str:
    """A session id for a moment in nanoseconds since 1970: `20261129-100000-1a2b3c4d5e`."""
    moment = datetime.datetime.fromtimestamp(now // 1_000_000_000, datetime.UTC)
    return f"{moment:%Y%m%d-%H%M%S}-{os.urandom(5).hex()}"


def token() -> str:
    """A part of a file name that nobody else has."""
    return os.urandom(8).hex()
