"""What a run writes: its beginning, what is said in it, its end. Each operation is a generator that
yields batches (core.Operation)."""

from __future__ import annotations

import contextlib
import itertools
import os
from typing import Any

from durasess.engine.receipt import Receipt
from durasess.engine.types import Draft
from durasess.errors import DurasessError, EventRejectedError, WorkspaceNotFoundError
from durasess.session import events, usage
from durasess.session.core import Core, Emission, Operation, draft
from durasess.session.event_data import RecordedCall
from durasess.session.pairing import call_key, unstarted_outcome
from durasess.session.provider_calls import recorded_calls
from durasess.session.state import RunStatus, SessionState, ToolState

_TRIES = 5
"""Attempts to begin a run, where others begin theirs in the same moment."""


def start(
    core: Core, request: Any, *, run_id: str | None, resumes: str, code_version: str
) -> Operation[str]:
    """Begin a run; returns its id. What a worker left that died in its run is settled first. A
    number that another process took meanwhile gives way to the next.

    Raises WorkspaceNotFoundError when the session's workspace is not there.
    """
    _check_workspace(core)
    for _ in range(_TRIES):
        chosen = run_id or _next_run_id(core.state)
        data = events.RunStarted(
            request=request, worker=core.worker, code_version=code_version, resumes=resumes
        )
        try:
            yield from _begin(core, draft(data, run_id=chosen))
        except EventRejectedError:
            is_stale = run_id is None and chosen != _next_run_id(core.state)
            if not (is_stale or (yield from _end_unended(core)) or _recovered(core)):
                raise
            continue
        core.unended.discard(chosen)
        return chosen
    raise EventRejectedError(
        f"event rejected: others began runs in each of {_TRIES} attempts. Nothing was written; try "
        "again."
    )


def _end_unended(core: Core) -> Operation[bool]:
    """Whether the run that is open was this handle's own, and is ended now: whoever was to do that
    was interrupted, and again while it was written down."""
    run = core.state.open_run
    if run is None or run.run_id not in core.unended or run.worker != core.worker:
        return False
    core.unended.discard(run.run_id)
    yield from finish(
        core, run.run_id, "interrupted", error="", reason="interrupted while it ended"
    )
    return True


def _recovered(core: Core) -> bool:
    return core.state.open_run is not None and core.recover()


def _next_run_id(state: SessionState) -> str:
    """By the number of runs, past what the program chose for itself."""
    taken = {run.run_id for run in state.runs}
    numbers = itertools.count(state.counts.runs + 1)
    return next(name for name in map("run_{}".format, numbers) if name not in taken)


def _begin(core: Core, one: Draft) -> Operation[None]:
    """Where the caller is interrupted while it waits, nobody gets the run: if it began, it ends."""
    before = core.state.seq
    try:
        yield Emission([one])
    except (Exception, GeneratorExit):
        raise
    except BaseException:
        core.unended.add(one.run_id or "")
        with contextlib.suppress(DurasessError):
            yield Emission([])
            run = core.state.open_run
            if run is not None and run.seq > before and run.worker == core.worker:
                ended = events.RunFinished(status="cancelled", reason="interrupted while it began")
                yield Emission([draft(ended, run_id=run.run_id)])
        raise


def _check_workspace(core: Core) -> None:
    path = core.state.meta.workspace
    if path and not os.path.isdir(path):
        raise WorkspaceNotFoundError(
            f"{path}: the workspace of session {core.engine.session_id} is not there, so no run "
            "can work in it. Bring it back, or say where it is now: rebind, or "
            "open(workspace=…). Nothing was written.",
            path=path,
        )


def say(core: Core, run_id: str, content: Any, *, event_id: str | None) -> Operation[Receipt]:
    """A user's message."""
    data = events.UserMessage(content=content)
    receipts = yield Emission([draft(data, run_id=run_id, event_id=event_id)])
    return receipts[0]


def delta(core: Core, run_id: str, text: str) -> Operation[None]:
    """A piece of a reply, written and not waited for."""
    yield Emission([draft(events.MessageDelta(text=text), run_id=run_id)], durable=False)


def reply(
    core: Core,
    run_id: str,
    content: Any,
    *,
    tool_calls: Any = (),
    reported: Any = None,
    raw: Any = None,
    model: str = "",
    event_id: str | None = None,
    streamed: bool = False,
    partial: bool = False,
) -> Operation[list[ToolState]]:
    """The model's message with the calls it asks for; returns these. Their arguments are recorded
    masked, and kept as they are for the tools that this process runs."""
    calls = recorded_calls(tool_calls or ())
    masked = []
    for call in calls:
        found = core.mask_arguments(call.arguments)
        masked.append(
            RecordedCall(
                call_id=call.call_id,
                name=call.name,
                arguments=found.value,
                operation_id=call.operation_id,
                masked=list(found.paths),
            )
        )
    data = events.AssistantMessage(
        content=content,
        tool_calls=masked,
        usage=usage.as_data(usage.normalized(reported)),
        # Opaque, so whole or not at all: what is taken out of it may be what it is signed for.
        raw=None if core.mask_arguments(raw).paths else raw,
        model=model,
        streamed=streamed,
        partial=partial,
    )
    receipts = yield Emission([draft(data, run_id=run_id, event_id=event_id)])
    seq = receipts[0].seq
    for index, (call, recorded) in enumerate(zip(calls, masked, strict=True)):
        if recorded.masked:
            core.originals[call_key(seq, index)] = call.arguments
    found_calls = [core.state.tool_states.get(call_key(seq, index)) for index in range(len(calls))]
    return [call for call in found_calls if call is not None]


def finish(
    core: Core, run_id: str, status: RunStatus, *, error: str, reason: str
) -> Operation[None]:
    """End a run. When it did not succeed, calls that were asked for and not started never will be;
    one that succeeded may leave calls to be answered later."""
    drafts: list[Draft] = []
    if status != "succeeded":
        # A message whose writer was interrupted may be on its way, with calls that nobody starts.
        yield Emission([])
        drafts = [
            _unstarted(call, f"the run {status}")
            for call in core.state.tool_states.values()
            if call.status == "pending" and call.run_id == run_id
        ]
    drafts += cut_off(core, run_id)
    ended = events.RunFinished(status=status, error=error, reason=reason)
    drafts.append(draft(ended, run_id=run_id))
    try:
        yield Emission(drafts)
    except (Exception, GeneratorExit):
        raise
    except BaseException:
        # Interrupted while it waits: what was withdrawn is written all the same.
        with contextlib.suppress(DurasessError):
            yield Emission([])
            if core.state.open_run is not None and core.state.open_run.run_id == run_id:
                yield Emission(drafts)
        raise


def cut_off(core: Core, run_id: str) -> list[Draft]:
    """The message of a reply that was cut off, where its pieces make a secret together: from the
    pieces alone, it would come whole."""
    partial = core.state.partial
    if partial is None or partial.run_id != run_id:
        return []
    found = core.mask_arguments("".join(partial.chunks))
    if not found.paths:
        return []
    data = events.AssistantMessage(content=found.value, streamed=True, partial=True)
    return [draft(data, run_id=run_id)]


def _unstarted(call: ToolState, reason: str) -> Draft:
    outcome = unstarted_outcome(call)
    data = events.ToolRecovery(outcome=outcome, key=call.key, reason=reason, by="run")
    return draft(data, run_id=call.run_id, call_id=call.call_id)


def record_usage(core: Core, run_id: str, reported: Any, *, counter: str) -> Operation[Receipt]:
    """Deltas; with the name of a `counter`, what it reports is cumulative and the deltas are made
    from where it stood before. Where somebody else reported it meanwhile, they are made anew.
    """
    given = usage.normalized(reported)
    while True:
        before = core.state.counters.get(counter)
        data = events.UsageRecorded(
            usage=usage.as_data(usage.since(given, before) if before is not None else given),
            source=counter,
            counters=usage.as_data(given) if counter else {},
        )
        try:
            receipts = yield Emission([draft(data, run_id=run_id)])
        except EventRejectedError:
            if core.state.counters.get(counter) == before:
                raise
        else:
            return receipts[0]


def last_answer(state: SessionState) -> Any:
    """The content of the newest reply, None when there is none."""
    for message in reversed(state.messages):
        if message.role == "assistant" and not message.calls:
            return message.content
    return None
