"""Reading beside a running writer: a finding counts when it is there twice (R19)."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from typing import TypeVar

from durasess.errors import DurasessError, StorageError

Read = TypeVar("Read")

ATTEMPTS = 6
"""How often a reader looks again before it believes in changing findings."""

_PAUSE = 0.005


def vanished(error: DurasessError) -> bool:
    """A file that was there a moment ago: a writer replaced or pruned it."""
    return isinstance(error, StorageError) and error.errno == errno.ENOENT


def look_until_settled(
    read: Callable[[], Read],
    findings: Callable[[Read], list[str]],
    *,
    passing: Callable[[DurasessError], bool],
) -> Read:
    """What `read` gives once it finds nothing wrong, or the same wrong twice.

    A writer may rotate, snapshot or prune between two steps of a reader. Errors of which `passing`
    says that a writer may be the reason count as findings and are raised when they stay.
    """
    before: list[str] | None = None
    attempt = 0
    while True:
        last = attempt == ATTEMPTS - 1
        try:
            found = read()
            now = findings(found)
            if not now or now == before or last:
                return found
        except DurasessError as error:
            now = [repr(error)]
            if not passing(error) or now == before or last:
                raise
        before = now
        time.sleep(_PAUSE * 2**attempt)
        attempt += 1
