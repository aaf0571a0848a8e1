"""What a program declares about its tools: what running one twice would do, and how to find out
whether it did anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast, get_args

import msgspec

from durasess.session.state import Effect, ToolState

Verdict = str | tuple[str, Any] | None
"""What a verifier returns: "applied", "not_applied", ("applied", output), or None: cannot tell."""

Verifier = Callable[[ToolState], Verdict]
"""Looks at the world outside for a call that started and has no result. Never repeats it."""


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as `Store.tool` declares it.

    `effect`: calls of a "read_only" or "idempotent" tool may be offered again after an
    interruption; those of an "unsafe" one, which is the default, never are. `timeout_s`: how long
    a call may take, 0 for any time. Nothing is stopped then; a call that fails later than that is
    uncertain, not failed. `verify` is asked in recovery what became of a call without a result.
    """

    name: str
    effect: Effect = "unsafe"
    timeout_s: float = 0.0
    verify: Verifier | None = None


def declared(name: str, *, effect: str, timeout_s: float, verify: Verifier | None) -> Tool:
    """A checked declaration; ValueError for an unknown effect."""
    if effect not in get_args(Effect):
        raise ValueError(f"effect is one of {', '.join(get_args(Effect))}, not {effect!r}")
    if timeout_s < 0:
        raise ValueError(f"timeout_s is seconds, 0 for none, not {timeout_s!r}")
    return Tool(name=name, effect=cast(Effect, effect), timeout_s=timeout_s, verify=verify)
