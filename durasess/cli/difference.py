"""The difference of two JSON values as a list of paths: added, removed, changed. No effects."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Literal

import msgspec
from msgspec import UNSET

from durasess.cli.blocks import Column, Listing, Row, Tone, shortened
from durasess.cli.masking import Masker, is_credential_name
from durasess.engine import codec

Key = str | int
Path = tuple[Key, ...]
Kind = Literal["added", "removed", "changed"]

KINDS: tuple[Kind, ...] = ("added", "removed", "changed")
TONES: dict[Kind, Tone] = {"added": "good", "removed": "bad", "changed": "warn"}
PATH_WIDTH = 48
VALUE_WIDTH = 60
"""Characters of one side of a change in a line of the list."""

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class Change(msgspec.Struct, frozen=True):
    """What is different at one place; `before` or `after` is unset where there was nothing."""

    keys: Path
    kind: Kind
    before: Any = UNSET
    after: Any = UNSET

    @property
    def path(self) -> str:
        """As people write it: `$.files[3]["a b"]`."""
        return "$" + "".join(map(_step, self.keys))


def differences(before: Any, after: Any, keys: Path = ()) -> Iterator[Change]:
    """Each place where the values differ, as deep as it can be told, in the order of `before`.

    Lists are compared from both ends, so that one entry more at the front is one addition.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        yield from _of_objects(before, after, keys)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _of_lists(before, after, keys)
    elif not _is_same(before, after):
        yield Change(keys, "changed", before, after)


def _of_objects(before: dict[str, Any], after: dict[str, Any], keys: Path) -> Iterator[Change]:
    for key, value in before.items():
        if key in after:
            yield from differences(value, after[key], (*keys, key))
        else:
            yield Change((*keys, key), "removed", before=value)
    for key, value in after.items():
        if key not in before:
            yield Change((*keys, key), "added", after=value)


def _of_lists(before: list[Any], after: list[Any], keys: Path) -> Iterator[Change]:
    shorter = min(len(before), len(after))
    head = tail = 0
    if len(before) != len(after):
        while head < shorter and _is_same(before[head], after[head]):
            head += 1
        while tail < shorter - head and _is_same(before[-1 - tail], after[-1 - tail]):
            tail += 1
    for index in range(head, shorter - tail):
        yield from differences(before[index], after[index], (*keys, index))
    for index in range(shorter - tail, len(before) - tail):
        yield Change((*keys, index), "removed", before=before[index])
    for index in range(shorter - tail, len(after) - tail):
        yield Change((*keys, index), "added", after=after[index])


def _is_same(before: Any, after: Any) -> bool:
    """Equal as JSON: 1, 1.0 and true are three values."""
    if type(before) is not type(after):
        return False
    if isinstance(before, dict):
        return before.keys() == after.keys() and all(
            _is_same(value, after[key]) for key, value in before.items()
        )
    if isinstance(before, list):
        return len(before) == len(after) and all(map(_is_same, before, after))
    return bool(before == after)


def _step(key: Key) -> str:
    if isinstance(key, int):
        return f"[{key}]"
    return f".{key}" if _PLAIN_KEY.fullmatch(key) else f"[{json.dumps(key, ensure_ascii=False)}]"


def masked(change: Change, masker: Masker) -> Change:
    """The change without secrets; it stays a change where both sides are masked."""
    is_credential = any(isinstance(key, str) and is_credential_name(key) for key in change.keys)
    return Change(
        tuple(masker.text(key) if isinstance(key, str) else key for key in change.keys),
        change.kind,
        *(
            side if side is UNSET else masker.value(side, is_credential=is_credential)
            for side in (change.before, change.after)
        ),
    )


def fields(change: Change) -> dict[str, Any]:
    """A change as JSON readers get it."""
    said = {"path": change.path, "keys": list(change.keys), "change": change.kind}
    sides = {"before": change.before, "after": change.after}
    return said | {name: side for name, side in sides.items() if side is not UNSET}


def summed_up(changes: list[Change]) -> str:
    """How many of each kind, in words."""
    kinds = [change.kind for change in changes]
    parts = [f"{kinds.count(kind):,} {kind}" for kind in KINDS if kind in kinds]
    return ", ".join(parts) or "no difference"


def listing(changes: list[Change]) -> Listing:
    """The changes, one a line."""
    longest = max(len(change.path) for change in changes)
    columns = (
        Column("change", width=len("removed")),
        Column("path", width=min(longest, PATH_WIDTH)),
        Column("value"),
    )
    rows = [Row((one.kind, one.path, _sides(one)), TONES[one.kind]) for one in changes]
    return Listing("", columns, rows)


def _sides(change: Change) -> str:
    shown = [
        shortened(codec.encode(side).decode("utf-8", "surrogatepass"), VALUE_WIDTH)
        for side in (change.before, change.after)
        if side is not UNSET
    ]
    return " → ".join(shown)
