"""What an open refuses before it looks at the disk: a mistake of the caller is told as one, and not
as damage or as a failed write."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from durasess.engine.receipt import Receipt
from durasess.engine.types import MAX_PREALLOCATE, SECTOR


def check_arguments(
    mode: str, schema_version: int, at_least: Any, functions: Iterable[Any]
) -> None:
    """ValueError or TypeError for arguments that no session can be opened with."""
    if mode not in ("own", "shared", "read"):
        raise ValueError(f'mode is "own", "shared" or "read", not {mode!r}')
    if type(schema_version) is not int or schema_version < 1:
        raise ValueError(f"schema_version is a whole number from 1, not {schema_version!r}")
    if at_least is not None and not isinstance(at_least, Receipt):
        raise TypeError(f"at_least is a Receipt (see Receipt.from_json), not {at_least!r:.60}")
    for one in functions:
        if one is not None and not callable(one):
            raise TypeError(
                f"initial, apply, validate, summary and clock are functions, not {one!r:.60}"
            )


def checked_step(preallocate: int) -> int:
    """The step, or ValueError when files cannot grow by it."""
    if preallocate not in range(0, MAX_PREALLOCATE + 1, SECTOR):
        raise ValueError(
            f"preallocate is a multiple of {SECTOR} up to {MAX_PREALLOCATE} bytes, "
            f"not {preallocate!r}"
        )
    return int(preallocate)
