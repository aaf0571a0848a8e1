"""Sessions in the order of a tree: each with its forks and children under it.

Iterative, since parents may be a thousand deep; a circle of parents, which only a copied or edited
session can make, is cut where it comes round.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple


class Member(NamedTuple):
    """A session: its place in a flat order (`key`, which no two share), and its parent's id."""

    key: Any
    session_id: str
    parent: str


class Placed(NamedTuple):
    """A session in the tree: `depth` is 0 for one without a parent among those that are shown."""

    session_id: str
    depth: int


def ordered(members: Iterable[Member], *, descending: bool) -> list[Placed]:
    """All members, parents first. A family stands where that one of it would stand in the flat
    order that comes first there."""
    by_id = {one.session_id: one for one in members}
    below: dict[str, list[str]] = {name: [] for name in by_id}
    tops: list[str] = []
    for one in by_id.values():
        is_below = one.parent in by_id and one.parent != one.session_id
        (below[one.parent] if is_below else tops).append(one.session_id)
    chosen = max if descending else min
    first = {name: one.key for name, one in by_id.items()}
    tops += _cut_circles(tops, by_id, below, descending=descending)
    for top in tops:
        # Behind its members a family's own place is known, so from the last to the first.
        for name in reversed(_members(top, below)):
            for inner in below[name]:
                first[name] = chosen(first[name], first[inner])
    return _flat(tops, below, first, descending=descending)


def _cut_circles(
    tops: list[str],
    by_id: dict[str, Member],
    below: dict[str, list[str]],
    *,
    descending: bool,
) -> list[str]:
    """One of each circle, which is taken out from below its parent and is a top itself."""
    seen = {name for top in tops for name in _members(top, below)}
    rest = sorted(by_id.keys() - seen, key=lambda name: by_id[name].key, reverse=descending)
    cut = []
    for name in rest:
        if name in seen:
            continue
        name = _in_circle(name, by_id)
        below[by_id[name].parent].remove(name)
        cut.append(name)
        seen.update(_members(name, below))
    return cut


def _in_circle(name: str, by_id: dict[str, Member]) -> str:
    """The first that comes twice, parent by parent."""
    passed: set[str] = set()
    while name not in passed:
        passed.add(name)
        name = by_id[name].parent
    return name


def _members(top: str, below: dict[str, list[str]]) -> list[str]:
    """A family, each behind its parent."""
    found, waiting = [], [top]
    while waiting:
        name = waiting.pop()
        found.append(name)
        waiting += below[name]
    return found


def _flat(
    tops: list[str], below: dict[str, list[str]], first: dict[str, Any], *, descending: bool
) -> list[Placed]:
    def last_first(names: list[str], depth: int) -> list[Placed]:
        names = sorted(names, key=lambda name: first[name], reverse=not descending)
        return [Placed(name, depth) for name in names]

    found, waiting = [], last_first(tops, 0)
    while waiting:
        one = waiting.pop()
        found.append(one)
        waiting += last_first(below[one.session_id], one.depth + 1)
    return found
