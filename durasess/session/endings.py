"""How the body of a run or of a call ended → what is recorded. The same for threads and tasks."""

from __future__ import annotations

import sys

from durasess.errors import FencedError, SessionClosedError, SessionFailedError
from durasess.session.state import RunStatus, ToolState

ENDS_THE_HANDLE = (SessionFailedError, FencedError, SessionClosedError)
"""Behind these nothing can be recorded any more: the next open finds what was open."""

ERROR_CHARACTERS = 2**19
"""Of an exception's text. Each may take six bytes, and an event of 16 MiB has it twice."""


def run_ending(error: BaseException | None) -> tuple[RunStatus, str, str]:
    """Status, error and reason of a run whose body ended so."""
    if error is None:
        return "succeeded", "", ""
    text = error_text(error)
    if is_cancellation(error):
        return "cancelled", "", "it was cancelled"
    if isinstance(error, Exception):
        return "failed", text, ""
    return "interrupted", "", f"interrupted by {text}"


def is_cancellation(error: BaseException) -> bool:
    """Whether a task was cancelled. A program that never imported asyncio has no tasks."""
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and isinstance(error, asyncio.CancelledError)


def error_text(error: BaseException) -> str:
    """`ValueError: what it says`, whatever the exception's own code does. The middle of one that
    no event could hold is left out: how a block ended has to be recorded."""
    name = type(error).__name__
    try:
        said = str(error)
    except Exception:
        return name
    if len(said) > ERROR_CHARACTERS:
        half = ERROR_CHARACTERS // 2
        left_out = len(said) - 2 * half
        said = f"{said[:half]} … {left_out} characters are left out … {said[-half:]}"
    return f"{name}: {said}" if said else name


def call_ending(error: BaseException, call: ToolState, *, seconds: float) -> tuple[str, str]:
    """("failed", "") when the tool said no; ("unknown", reason) when its effect may have happened:
    it was interrupted, or raised after its time limit."""
    if not isinstance(error, Exception):
        return "unknown", f"interrupted by {error_text(error)}"
    if call.timeout_s and seconds > call.timeout_s:
        return "unknown", f"its time limit of {call.timeout_s:g} s is over ({error_text(error)})"
    return "failed", ""
