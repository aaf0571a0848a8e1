"""What the model sees as the result of a call that has none: one table of texts.

Each text says what is known and no more: an unknown outcome is never told as a failure (P9).
"""

from __future__ import annotations

from typing import NamedTuple

from durasess.session.context_text import quoted
from durasess.session.state import Message, Run, ToolState

EVIDENCE_CHARACTERS = 600
"""Of a reason or of evidence, as JSON."""


class Told(NamedTuple):
    """A result made here. `is_error` is what providers that know of errors are told."""

    text: str
    is_error: bool


TEXTS: dict[str, Told] = {
    "pending": Told("No result yet: the call was asked for and has not been started.", False),
    "running": Told("Still running: the call was started{at} and has not ended.", False),
    "approval": Told("Waiting for approval: the call has not been started.", False),
    "callback": Told("Waiting: the call was started{at}, its result will come later.", False),
    "uncertain": Told(
        "UNKNOWN OUTCOME: the call was started{at} and no result was recorded. It may or may not"
        " have taken effect. Check before repeating it.{why}",
        False,
    ),
    "not_started": Told("NEVER STARTED: the call was not run and had no effect.{why}", True),
    "denied": Told("NOT APPROVED: the call was not run and had no effect.{why}", True),
    "not_applied": Told(
        "NOT APPLIED: the call was interrupted; a check found that it had no effect.{why}", True
    ),
    "applied": Told(
        "APPLIED: the call was interrupted; a check found that it took effect. Its output is not"
        " known.{why}",
        False,
    ),
    "abandoned": Told(
        "ABANDONED: the call was interrupted and its outcome will not be looked for. It may or may"
        " not have taken effect.{why}",
        True,
    ),
    "completed": Told("Completed; the output is not in this conversation.{why}", False),
    "failed": Told("Failed; the error is not in this conversation.{why}", True),
}
"""What is known of a call → what is told. `{at}` is when it started, `{why}` what was found."""

LATER = {
    True: Told("Completed later; the output is told below, where it came.", False),
    False: Told("Failed later; the error is told below, where it came.", True),
}
"""Whether a result that came as news is one of success → what stands in its place."""


def result_of(call: ToolState, open_run: Run | None, *, later: Message | None = None) -> Told:
    """The result that stands for the missing one. `later` is the news of it, where the message that
    asked had left the state: what is known of the call is older than that."""
    if later is not None:
        return LATER[later.ok]
    told = TEXTS[standing(call, open_run)]
    at = f" at {call.started_at}" if call.started_at else ""
    return Told(told.text.format(at=at, why=_why(call)), told.is_error)


def standing(call: ToolState, open_run: Run | None) -> str:
    """What is known of a call: a key of TEXTS. Only in an open run is anything still going on."""
    if call.decision in ("applied", "not_applied", "abandoned"):
        return call.decision
    if call.status == "waiting":
        return "approval" if call.waits_for == "approval" else "callback"
    if call.approved is False and not call.started_seq:
        return "denied"
    if call.status == "running":
        return "running" if _is_live(call, open_run) else "uncertain"
    if call.status == "pending" and not _is_live(call, open_run):
        return "uncertain" if call.started_seq else "not_started"
    return call.status


def _is_live(call: ToolState, open_run: Run | None) -> bool:
    """Whether the open run asked for the call, or it was offered again in it."""
    if open_run is None:
        return False
    return call.run_id in ("", open_run.run_id) or call.recovery_seq > open_run.seq


def _why(call: ToolState) -> str:
    reason = f" Reason: {quoted(call.reason, EVIDENCE_CHARACTERS)}." if call.reason else ""
    if call.evidence is None:
        return reason
    return f"{reason} Evidence: {quoted(call.evidence, EVIDENCE_CHARACTERS)}."
