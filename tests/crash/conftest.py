"""Where programs work that make thousands of sessions."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import agreement
from tests.support.loop_disk import memory_or
from tests.support.tiers import FULL


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A directory; in the full tier one in memory, since most of the time would be syncs of a disk
    that is not what is tried. Both readers agree on what is left there."""
    if not FULL:
        yield tmp_path
        return
    directory = memory_or(tmp_path)
    try:
        yield directory
        for one in agreement.session_directories(directory):
            agreement.assert_readers_agree(one)
    finally:
        shutil.rmtree(directory)
