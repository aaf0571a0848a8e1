"""How runs, messages, usage and compactions change the state: one pure function for each type."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from durasess.engine.types import Event
from durasess.session import events, said_again, usage
from durasess.session.pairing import answered_seq, call_key
from durasess.session.report import beginning, opening_request
from durasess.session.residency import (
    hide,
    with_cut_off,
    with_message,
    without_before,
    without_behind,
)
from durasess.session.state import (
    COMPACTIONS_KEPT,
    OPEN_CALLS,
    RECENT_RUNS,
    Compaction,
    Message,
    Notice,
    Partial,
    Run,
    SessionState,
    ToolState,
    Usage,
)
from durasess.session.when import happened_at


def run_started(
    state: SessionState, event: Event, data: events.RunStarted, resident: int
) -> SessionState:
    """A run begins; its request is a user's message."""
    open_run = state.open_run
    if open_run is not None:
        # No writer of ours does this; a log made by hand may.
        interrupted = events.RunFinished(status="interrupted", reason="another run began")
        state = _ended(state, event, open_run, interrupted, resident)
    run = Run(
        run_id=event.run_id or f"run_{state.counts.runs + 1}",
        seq=event.seq,
        started_at=happened_at(event),
        request=beginning(data.request),
        worker=data.worker,
        code_version=data.code_version,
        resumes=data.resumes,
        again=data.again,
    )
    state = replace(
        state,
        runs=[*state.runs, run][-RECENT_RUNS - 1 :],
        first_request=opening_request(state) or run.request,
        counts=replace(state.counts, runs=state.counts.runs + (not data.again)),
    )
    if state.meta.status == "completed":
        state = replace(state, meta=replace(state.meta, status="active"))
    if data.request is None:
        return state
    message = Message(seq=event.seq, role="user", content=data.request, run_id=run.run_id)
    return _said(state, message, resident, is_new=not data.again)


def user_message(
    state: SessionState, event: Event, data: events.UserMessage, resident: int
) -> SessionState:
    """Somebody said something."""
    message = Message(
        seq=event.seq,
        role="user",
        content=data.content,
        run_id=event.run_id or "",
        raw=data.raw,
    )
    return _said(state, message, resident, is_new=not data.again)


def message_delta(
    state: SessionState, event: Event, data: events.MessageDelta, resident: int
) -> SessionState:
    """A piece of a reply; it becomes a message when the reply ends, or is cut off."""
    run_id = event.run_id or ""
    if state.partial is None or state.partial.run_id != run_id:
        return replace(state, partial=Partial(run_id, event.seq, [data.text]))
    state.partial.chunks.append(data.text)
    return state


def assistant_message(
    state: SessionState, event: Event, data: events.AssistantMessage, resident: int
) -> SessionState:
    """The model's reply: its calls are armed, its usage counts, and it has been told what there was
    to tell; one that was cut off has not."""
    run_id = event.run_id or ""
    calls = dict(state.tool_states)
    for asked in data.tool_calls:
        said_again.drop_earlier(state, calls, asked.earlier)
    keys = []
    for index, asked in enumerate(data.tool_calls):
        key = call_key(event.seq, index)
        keys.append(key)
        calls[key] = ToolState(
            key=key,
            call_id=asked.call_id,
            name=asked.name,
            arguments=asked.arguments,
            status="pending",
            seq=event.seq,
            run_id=run_id,
            operation_id=asked.operation_id,
            masked=asked.masked,
        )
    message = Message(
        seq=event.seq,
        role="assistant",
        content=data.content,
        run_id=run_id,
        calls=keys,
        raw=_of_model(data.raw, data.model or state.runtime_config.get("model")),
        partial=data.partial,
    )
    state = replace(
        state,
        tool_states=calls,
        notice=state.notice if data.partial else None,
        partial=None,
        counts=replace(state.counts, calls=state.counts.calls + (0 if data.again else len(keys))),
    )
    if data.goes_on:
        state = said_again.gone_on(state)
    state = _used(state, run_id, usage.from_data(data.usage))
    is_new = not (data.again or data.part)
    return _said(state, message, resident, calls=len(keys), is_new=is_new)


def _of_model(raw: Any, model: Any) -> Any:
    """A provider's item with the model that made it: it may go back to no other."""
    if isinstance(raw, dict) and isinstance(model, str) and model:
        return raw if "model" in raw else {**raw, "model": model}
    return raw


def run_finished(
    state: SessionState, event: Event, data: events.RunFinished, resident: int
) -> SessionState:
    """A run ends; what the model must know of one that was cut short is kept for it."""
    run = state.open_run
    if run is None:
        return state
    return _ended(state, event, run, data, resident)


def _ended(
    state: SessionState, event: Event, run: Run, data: events.RunFinished, resident: int
) -> SessionState:
    if state.partial is not None:
        state = with_cut_off(replace(state, partial=None), state.partial, resident)
    ended = replace(
        run,
        status=data.status,
        finished_at=happened_at(event),
        finished_seq=event.seq,
        error=data.error,
    )
    notice = _notice(state, event, run, data) or state.notice
    return replace(state, runs=[*state.runs[:-1], ended], notice=notice)


def _notice(state: SessionState, event: Event, run: Run, data: events.RunFinished) -> Notice | None:
    """None when the run ended as it should, or failed and left nothing open."""
    if data.status == "succeeded":
        return None
    answered = answered_seq(state)
    told = [
        call
        for call in state.tool_states.values()
        if call.status in OPEN_CALLS or call.recovery_seq > max(answered, run.seq)
    ]
    if data.status == "failed" and not told:
        return None
    # What an earlier interruption left to tell, the model has not heard yet.
    earlier = state.notice or Notice(run.run_id, event.seq)
    keys = list(dict.fromkeys([*earlier.keys, *(call.key for call in told)]))
    calls = [state.tool_states[key] for key in keys if key in state.tool_states]
    messages = {call.seq for call in calls if not call.detached}
    finished = [
        call.key
        for call in state.tool_states.values()
        if call.seq in messages and call.key not in keys and call.result_seq
    ]
    gaps = [*earlier.gaps, *data.gaps]
    reason = data.reason or data.error
    return Notice(run.run_id, event.seq, reason, keys, finished, gaps)


def _said(
    state: SessionState, message: Message, resident: int, *, calls: int = 0, is_new: bool
) -> SessionState:
    counts, runs = state.counts, state.runs
    if runs and message.run_id and runs[-1].run_id == message.run_id:
        newest = runs[-1]
        grown = replace(newest, messages=newest.messages + 1, calls=newest.calls + calls)
        runs = [*runs[:-1], grown]
    state = replace(state, counts=replace(counts, messages=counts.messages + is_new), runs=runs)
    return with_message(state, message, resident)


def _used(state: SessionState, run_id: str, delta: Usage) -> SessionState:
    if delta == usage.NOTHING:
        return state
    runs = state.runs
    if runs and run_id and runs[-1].run_id == run_id:
        newest = replace(runs[-1], usage=usage.plus(runs[-1].usage, delta))
        runs = [*runs[:-1], newest]
    return replace(state, runs=runs, usage=usage.plus(state.usage, delta))


def usage_recorded(
    state: SessionState, event: Event, data: events.UsageRecorded, resident: int
) -> SessionState:
    """Deltas; with a source, where its cumulative counters stand."""
    state = _used(state, event.run_id or "", usage.from_data(data.usage))
    if not data.source:
        return state
    counters = {**state.counters, data.source: usage.from_data(data.counters)}
    return replace(state, counters=counters)


def context_compacted(
    state: SessionState, event: Event, data: events.ContextCompacted, resident: int
) -> SessionState:
    """A summary tells the messages up to `through` from here on."""
    compaction = state.compaction
    if compaction is not None and data.through <= compaction.through:
        return state
    made = Compaction(event.seq, data.through, data.summary)
    kept = [*state.compactions, made]
    left = len(kept) - COMPACTIONS_KEPT
    state = replace(
        state,
        compactions=kept[-COMPACTIONS_KEPT:],
        compactions_left_out=state.compactions_left_out + max(left, 0),
    )
    if left > 0:
        # No rewind goes back behind the oldest compaction that is kept.
        oldest = state.compactions[0].through
        state = replace(state, hidden=[one for one in state.hidden if one[1] > oldest])
    return without_before(state, data.through)


def rewound(state: SessionState, event: Event, data: events.Rewound, resident: int) -> SessionState:
    """What was said behind `to` does not count any more; compactions made since are undone."""
    undone = [one for one in state.compactions if one.seq > data.to]
    compactions = [one for one in state.compactions if one.seq <= data.to]
    before = state.compaction
    state = without_behind(state, data.to)
    if undone and before is not None:
        # What the undone summary told is in the log.
        after = compactions[-1].through if compactions else 0
        if not state.messages or after < before.through:
            state = replace(state, older_since=after + 1)
    if state.partial is not None:
        state = replace(state, partial=None)
    return replace(
        state,
        compactions=compactions,
        notice=_still_told(state, event, data.to),
        hidden=hide(state.hidden, data.to + 1, event.seq),
    )


def _still_told(state: SessionState, event: Event, to: int) -> Notice | None:
    """What the model must know behind a rewind: calls whose message was taken back, and whose
    effect may have happened all the same (P9)."""
    notice = state.notice if state.notice is not None and state.notice.seq <= to else None
    unknown = [
        call for call in state.tool_states.values() if call.status == "uncertain" and call.seq > to
    ]
    if not unknown:
        return notice
    keys = [call.key for call in unknown]
    if notice is not None:
        return replace(notice, keys=list(dict.fromkeys([*notice.keys, *keys])))
    reason = f"what was said behind seq {to} was taken back, what was done was not"
    return Notice(unknown[-1].run_id, event.seq, reason, keys)
