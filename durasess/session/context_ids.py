"""Ids and names of calls that every provider takes: legal characters, not too long, ids unique."""

from __future__ import annotations

import re
from collections.abc import Sequence

LONGEST_ID = 64
"""Characters of a call id; what is longer is refused."""

LONGEST_NAME = 64
"""Characters of a tool's name."""

_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")


def legal_ids(ids: Sequence[str], *, longest: int = LONGEST_ID) -> list[str]:
    """One id for each, in order. The first use of a legal id keeps it; the others get one that is
    made from theirs. The same ids always give the same."""
    kept: set[str] = set()
    numbers: dict[str, int] = {}
    made = [one if _keeps(one, kept, longest) else "" for one in ids]
    for index, one in enumerate(ids):
        if not made[index]:
            wish = _ILLEGAL.sub("_", one) or "call"
            made[index] = _free(wish, kept, longest, numbers)
    return made


def legal_name(name: str) -> str:
    """A tool's name with every illegal character replaced; "unnamed" for none."""
    return _ILLEGAL.sub("_", name)[:LONGEST_NAME] or "unnamed"


def _keeps(one: str, kept: set[str], longest: int) -> bool:
    if not one or len(one) > longest or _ILLEGAL.search(one) or one in kept:
        return False
    kept.add(one)
    return True


def _free(wish: str, kept: set[str], longest: int, numbers: dict[str, int]) -> str:
    """The first that is free; all numbers up to the last one of this wish in `numbers` are taken,
    and a long session may have one id for all its calls."""
    number = numbers.get(wish, 1)
    found = _numbered(wish, number, longest)
    while found in kept:
        number += 1
        found = _numbered(wish, number, longest)
    numbers[wish] = number
    kept.add(found)
    return found


def _numbered(wish: str, number: int, longest: int) -> str:
    suffix = f"_{number}" if number > 1 else ""
    return wish[: longest - len(suffix)] + suffix
