"""What a tool call writes: its start before the effect, its result after it, or that nobody knows.

Each operation is a generator that yields batches (core.Operation).
"""

from __future__ import annotations

import contextlib
import traceback
from typing import Any

from durasess.engine.types import Draft
from durasess.errors import DurasessError, EventRejectedError
from durasess.session import events
from durasess.session.core import Core, Emission, Operation, draft
from durasess.session.endings import error_text
from durasess.session.pairing import find_call
from durasess.session.refusal import refuse
from durasess.session.state import SessionState, ToolState
from durasess.session.tools import Tool

TRACEBACK_CHARACTERS = 8000
"""Of a traceback that are recorded, the last ones."""

NO_RESULT = "the tool ended without a result"


def find(core: Core, call_id: str, statuses: tuple[str, ...]) -> ToolState | None:
    """The call with this id or key, as it is now for all who write."""
    found = _find(core.state, call_id, statuses)
    if found is None or found.status not in statuses:
        # Another process may have decided.
        core.engine.refresh()
        found = _find(core.state, call_id, statuses)
    return found


def _find(state: SessionState, call_id: str, statuses: tuple[str, ...]) -> ToolState | None:
    """A provider's id may look like the key of another call: then the one counts that fits."""
    named = state.tool_states.get(call_id)
    called = find_call(state, call_id, statuses=statuses)
    if named is None or called is None or called is named or called.status not in statuses:
        return named or called
    if named.status not in statuses:
        return called
    refuse(
        f"{call_id!r:.80} is the id of the call with key {called.key} ({called.name}) and the key "
        f"of the call with id {named.call_id!r:.80} ({named.name})",
        "have the provider give other ids; either could be meant",
    )


def start(
    core: Core, run_id: str, call_id: str, *, tool: Tool | None, writes: list[dict[str, Any]]
) -> Operation[ToolState]:
    """Say that the call begins; when this returns, that is durable and the effect may happen."""
    while True:
        call = find(core, call_id, ("pending",))
        if call is not None and call.status == "pending":
            _check_arguments(core, call)
        one = _started(core, run_id, call_id, call, tool=tool, writes=writes)
        try:
            return (yield from begin(core, call.key if call is not None else "", one))
        except EventRejectedError:
            # Of calls with the same id, somebody else began this one meanwhile.
            other = _find(core.state, call_id, ("pending",))
            if call is None or other is None or other.key == call.key:
                raise


def _check_arguments(core: Core, call: ToolState) -> None:
    """Arguments that were secrets are in no record: a tool would get the masks for them."""
    if call.masked and call.key not in core.originals:
        refuse(
            f"the call {call.call_id!r:.80} cannot run here: {len(call.masked)} of its arguments "
            "were secrets and are not recorded",
            "settle or answer it, and let the model ask anew",
        )


def _started(
    core: Core,
    run_id: str,
    call_id: str,
    call: ToolState | None,
    *,
    tool: Tool | None,
    writes: list[dict[str, Any]],
) -> Draft:
    if call is not None and tool is None:
        tool = core.tools.get(call.name)
    data = events.ToolStarted(
        key=call.key if call is not None else "",
        operation_id=_operation_id(core, call),
        effect=tool.effect if tool is not None else "unsafe",
        timeout_s=tool.timeout_s if tool is not None else 0.0,
        attempt=call.attempt + 1 if call is not None else 1,
        writes=writes,
        worker_id=core.engine.worker_id,
    )
    return draft(data, run_id=run_id, call_id=call.call_id if call else call_id)


def begin(core: Core, key: str, one: Draft) -> Operation[ToolState]:
    """Write a `tool_started`. Where the caller is interrupted while it waits for that, the body
    will never run, and that is said."""
    before = core.state.seq
    try:
        yield Emission([one])
    except (Exception, GeneratorExit):
        raise
    except BaseException:
        with contextlib.suppress(DurasessError):
            yield Emission([])
            call = core.state.tool_states.get(key)
            if call is not None and _is_begun(core, call, before):
                yield Emission([_never_ran(call)])
        raise
    return core.state.tool_states[key]


def _is_begun(core: Core, call: ToolState, before: int) -> bool:
    is_ours = call.started_seq > before and call.worker_id == core.engine.worker_id
    return is_ours and call.status == "running"


def _never_ran(call: ToolState) -> Draft:
    reason = "interrupted before its body began"
    data = events.ToolRecovery(outcome="not_applied", key=call.key, reason=reason, by="interrupt")
    return draft(data, run_id=call.run_id, call_id=call.call_id)


def _operation_id(core: Core, call: ToolState | None) -> str:
    """Stays the same when the call is offered again, and is no other session's."""
    if call is None:
        return ""
    return call.operation_id or f"{core.engine.session_id}:{call.key}"


def finish(core: Core, call: ToolState, output: Any, *, ok: bool) -> Operation[None]:
    """The call's result. One that cannot be recorded is raised, EventRejectedError, and closes the
    call: as failed, or where it must happen once as applied, so that it does not happen again."""
    data = events.ToolResult(output=output, ok=ok, key=call.key)
    try:
        yield from _end(core, call, data)
    except EventRejectedError as error:
        if not _is_open(core, call):
            raise
        text = f"the tool ran, but its result could not be recorded: {error}"
        if call.detached and ok:
            happened = events.ToolRecovery(
                outcome="applied", key=call.key, reason=text, by="caller"
            )
            yield Emission([draft(happened, run_id=call.run_id, call_id=call.call_id)])
            error.add_note("That it happened is recorded; its result is not.")
        else:
            failed = events.ToolResult(output=text, ok=False, key=call.key, error=_described(error))
            yield from _end(core, call, failed)
            error.add_note("The call is recorded as failed, and says why.")
        raise


def _end(core: Core, call: ToolState, data: events.ToolResult) -> Operation[None]:
    """Write a result. Where the caller is interrupted while it waits, and the result was not
    written, nobody will know it: the call is uncertain."""
    try:
        yield Emission([draft(data, run_id=call.run_id, call_id=call.call_id)])
    except (Exception, GeneratorExit):
        raise
    except BaseException:
        with contextlib.suppress(DurasessError):
            yield Emission([])
            if _is_open(core, call):
                yield from unknown(core, call, "interrupted before its result", by="interrupt")
        raise


def _is_open(core: Core, call: ToolState) -> bool:
    now = core.state.tool_states.get(call.key)
    return now is not None and now.status in ("running", "waiting")


def fail(core: Core, call: ToolState, error: BaseException) -> Operation[None]:
    """The body raised: the error's text is the result. Never pickled, so whatever the exception is,
    it can be read back."""
    described = _described(error)
    data = events.ToolResult(output=error_text(error), ok=False, key=call.key, error=described)
    yield from _end(core, call, data)


def _described(error: BaseException) -> dict[str, str]:
    kind = type(error)
    try:
        lines = "".join(traceback.format_exception(error))
    except Exception:
        lines = ""
    return {
        "type": f"{kind.__module__}.{kind.__qualname__}",
        "message": error_text(error),
        "traceback": lines[-TRACEBACK_CHARACTERS:],
    }


def unknown(core: Core, call: ToolState, reason: str, *, by: str) -> Operation[None]:
    """Nobody knows whether the effect happened."""
    data = events.ToolRecovery(outcome="uncertain", key=call.key, reason=reason, by=by)
    yield Emission([draft(data, run_id=call.run_id, call_id=call.call_id)])


def wait_for_callback(core: Core, call: ToolState, prompt: str) -> Operation[None]:
    """The result will come from outside, perhaps after a restart."""
    data = events.CallbackRequested(key=call.key, prompt=prompt)
    yield Emission([draft(data, run_id=call.run_id, call_id=call.call_id)])


def ask_approval(core: Core, run_id: str, call_id: str, prompt: str) -> Operation[None]:
    """The call may not start before somebody decided."""
    call = find(core, call_id, ("pending",))
    data = events.ApprovalRequested(key=call.key if call else "", prompt=prompt)
    yield Emission([draft(data, run_id=run_id, call_id=call.call_id if call else call_id)])


def decide(
    core: Core, call_id: str, *, approved: bool, by: str, comment: str
) -> Operation[ToolState]:
    """Answer a call that waits for approval. One that is denied has that as its result."""
    call = find(core, call_id, ("waiting",))
    key, run_id, name = (call.key, call.run_id, call.call_id) if call else ("", "", call_id)
    decision = events.ApprovalDecided(approved=approved, key=key, by=by, comment=comment)
    drafts = [draft(decision, run_id=run_id, call_id=name)]
    if not approved:
        text = f"denied{f' by {by}' if by else ''}{f': {comment}' if comment else ''}"
        denied = events.ToolResult(output=text, ok=False, key=key)
        drafts.append(draft(denied, run_id=run_id, call_id=name))
    yield Emission(drafts)
    assert call is not None
    return core.state.tool_states.get(call.key, call)


def answer(core: Core, call_id: str, output: Any, *, ok: bool) -> Operation[ToolState]:
    """The result of a call that ends outside of its process: a callback, a late answer."""
    call = find(core, call_id, ("waiting", "running", "uncertain", "pending", "not_started"))
    if call is None:
        data = events.ToolResult(output=output, ok=ok)
        yield Emission([draft(data, call_id=call_id)])
        raise AssertionError("a result of no call was taken")
    data = events.ToolResult(output=output, ok=ok, key=call.key)
    yield Emission([draft(data, run_id=call.run_id, call_id=call.call_id)])
    return core.state.tool_states.get(call.key, call)


def settle(
    core: Core, key: str, outcome: str, *, output: Any, reason: str, by: str
) -> Operation[ToolState]:
    """Decide what became of a call: applied, not_applied, abandoned; or offer it again: rerun."""
    call = find(core, key, ("uncertain", "running", "waiting", "not_started", "pending"))
    if call is not None and outcome == "rerun":
        _check_arguments(core, call)
    data = events.ToolRecovery(
        outcome=outcome, key=call.key if call else "", reason=reason, by=by, output=output
    )
    name, run_id = (call.call_id, call.run_id) if call else (key, "")
    yield Emission([draft(data, run_id=run_id, call_id=name)])
    assert call is not None
    return core.state.tool_states.get(call.key, call)
