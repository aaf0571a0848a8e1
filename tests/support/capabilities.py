"""What a test needs of the machine: where it is missing a run skips it, but never under CI=true."""

from __future__ import annotations

import os
import shutil
from typing import NoReturn

import pytest

MUST_RUN = os.environ.get("CI") == "true"


def unavailable(reason: str) -> NoReturn:
    """Skip, or fail where every test must run."""
    if MUST_RUN:
        pytest.fail(reason)
    pytest.skip(reason)


def needs(tool: str) -> pytest.MarkDecorator:
    """A test that calls this program; where it must run it fails for want of it."""
    missing = shutil.which(tool) is None
    return pytest.mark.skipif(missing and not MUST_RUN, reason=f"{tool} is not installed")
