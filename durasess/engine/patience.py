"""Reading beside a running writer: a finding counts when it is there twice (R19)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Read = TypeVar("Read")

ATTEMPTS = 6
"""How often a reader looks again before it believes in changing findings."""

_PAUSE = 0.005


def look_until_settled(
    read: Callable[[], Read],
    findings: Callable[[Read], list[str]],
    *,
    passing: tuple[type[Exception], ...],
) -> Read:
    """What `read` gives once it finds nothing wrong, or the same wrong twice.

    A writer may rotate, snapshot or prune between two steps of a reader. Exceptions of the types in
    `passing` count as findings and are raised when they stay.
    """
    before: list[str] | None = None
    for attempt in range(ATTEMPTS):
        last = attempt == ATTEMPTS - 1
        try:
            found = read()
            now = findings(found)
            if not now or now == before or last:
                return found
        except passing as error:
            now = [repr(error)]
            if now == before or last:
                raise
        before = now
        time.sleep(_PAUSE * 2**attempt)
    raise AssertionError("the last attempt returns or raises")
