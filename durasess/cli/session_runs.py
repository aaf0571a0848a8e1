"""The newest runs of a session with the calls in them, put together from the state and the log.

The state holds the newest runs and the calls of its messages; older ones, and when a call ended,
are in the log. How they are shown is in session_panels.py.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from durasess.engine.types import Event
from durasess.session.pairing import CALL_EVENTS, detached_key, find_call
from durasess.session.reducer import Reducer
from durasess.session.state import OPEN_CALLS, Run, SessionState, ToolState, Usage

SHOWN = 20
"""Runs that are shown unless told otherwise."""

_ENDS = frozenset(["tool_result", "tool_recovery"])
_OF_RUNS = CALL_EVENTS | frozenset(
    [
        "run_started",
        "run_finished",
        "user_message",
        "assistant_message",
        "usage_recorded",
        "child_started",
        "child_finished",
    ]
)


class CallLook(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call. `seq` is of the message that asked for it; `seconds` from its start to its end,
    None when one of them is not known. `arguments` are those of an open call only."""

    key: str
    call_id: str
    name: str
    status: str
    is_open: bool
    run_id: str
    seq: int
    started_at: str
    seconds: float | None
    reason: str
    attempt: int
    effect: str
    waits_for: str
    decision: str
    child: str
    arguments: Any


class RunLook(msgspec.Struct, frozen=True, kw_only=True):
    """A run and its calls, oldest first. `seconds` is None while it has no end; `messages` and
    `call_count` are numbers, which pruning leaves as they are."""

    run_id: str
    seq: int
    status: str
    request: str
    started_at: str
    finished_at: str
    seconds: float | None
    error: str
    resumes: str
    code_version: str
    worker: dict[str, Any]
    usage: Usage
    messages: int
    call_count: int
    calls: list[CallLook]


class Runs(msgspec.Struct, frozen=True):
    """The newest runs, oldest first; `left_out` older ones; calls that are in none of them: open
    ones of older runs, and those that were made outside of a run."""

    shown: list[RunLook]
    left_out: int
    other_calls: list[CallLook]


def newest_runs(
    state: SessionState,
    events: Callable[[int], Iterator[Event]],
    reducer: Reducer,
    *,
    limit: int | None,
) -> Runs:
    """The newest `limit` runs, or all of them. `events(after)` reads the log."""
    gathered = _Gathered(limit)
    gathered.read(_of_runs(events(_begin(state, limit) - 1), state.seq), reducer)
    gathered.overlay(state)
    return gathered.told(state.counts.runs)


def _begin(state: SessionState, limit: int | None) -> int:
    """The seq from which the log is read: the first of these runs, if the state says where."""
    counted = [run for run in state.runs if not run.again]
    if limit is None or (limit > len(counted) and state.counts.runs > len(counted)):
        return 1
    runs = counted[-limit:] if limit else []
    return runs[0].seq if runs else state.seq + 1


def _of_runs(events: Iterable[Event], through: int) -> Iterator[Event]:
    for event in events:
        if event.seq > through:
            return
        if event.type in _OF_RUNS:
            yield event


class _Gathered:
    """Runs by their seq and calls by their key. What was rewound did happen, and is shown."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._runs: dict[int, Run] = {}
        self._calls: dict[str, ToolState] = {}
        self._ended: dict[str, str] = {}

    def read(self, events: Iterable[Event], reducer: Reducer) -> None:
        """Fold the events and keep what the state would let go of."""
        before = reducer.initial()
        for event in events:
            after = reducer.apply(before, event)
            self._runs.update((run.seq, run) for run in after.runs[-2:] if not run.again)
            for key in _touched(before, after, event):
                self._note(key, before, after, event)
            before = after
            if self._limit is not None and len(self._runs) > 2 * self._limit + 8:
                self._forget()

    def _note(self, key: str, before: SessionState, after: SessionState, event: Event) -> None:
        call = after.tool_states.get(key)
        known = before.tool_states.get(key)
        if call is None and known is not None:
            # The message that asked had left the state; the result took the call with it.
            ok = bool(event.data.get("ok", True))
            call = replace(known, status="completed" if ok else "failed", result_seq=event.seq)
        if call is None:
            return
        self._calls[key] = call
        if event.type in _ENDS and call.result_seq == event.seq:
            self._ended[key] = event.ts

    def _forget(self) -> None:
        """Drop the runs that are too many, and their calls."""
        assert self._limit is not None
        kept = sorted(self._runs)[-self._limit :] if self._limit else []
        self._runs = {seq: self._runs[seq] for seq in kept}
        ids = {run.run_id for run in self._runs.values()}
        self._calls = {
            key: call
            for key, call in self._calls.items()
            if call.run_id in ids or call.status in OPEN_CALLS
        }

    def overlay(self, state: SessionState) -> None:
        """What the state says is right; what was read began somewhere in the middle."""
        self._runs.update((run.seq, run) for run in state.runs if not run.again)
        for key in [key for key, call in self._calls.items() if call.status in OPEN_CALLS]:
            if key not in state.tool_states:
                del self._calls[key]
        self._calls.update(state.tool_states)

    def told(self, runs_in_all: int) -> Runs:
        """The newest runs, each call at the run that worked on it last."""
        order = sorted(self._runs)
        shown = order if self._limit is None else order[len(order) - self._limit :]
        if self._limit is not None and self._limit >= len(order):
            shown = order
        home = {self._runs[seq].run_id: seq for seq in order}
        by_run: dict[int, list[CallLook]] = {seq: [] for seq in shown}
        others = []
        for call in sorted(self._calls.values(), key=lambda call: call.seq):
            seq = home.get(call.run_id, 0)
            if seq in by_run:
                by_run[seq].append(self._call(call))
            elif call.status in OPEN_CALLS or not call.run_id:
                others.append(self._call(call))
        looks = [_run(self._runs[seq], by_run[seq]) for seq in shown]
        return Runs(looks, max(runs_in_all - len(looks), 0), others)

    def _call(self, call: ToolState) -> CallLook:
        is_open = call.status in OPEN_CALLS
        return CallLook(
            key=call.key,
            call_id=call.call_id,
            name=call.name,
            status=call.status,
            is_open=is_open,
            run_id=call.run_id,
            seq=call.seq,
            started_at=call.started_at,
            seconds=_seconds(call.started_at, self._ended.get(call.key, "")),
            reason=call.reason,
            attempt=call.attempt,
            effect=call.effect,
            waits_for=call.waits_for,
            decision=call.decision,
            child=call.child,
            arguments=call.arguments if is_open else None,
        )


def _touched(before: SessionState, after: SessionState, event: Event) -> list[str]:
    """The keys of the calls that an event is about."""
    if event.type == "assistant_message":
        newest = after.messages[-1:]
        return newest[0].calls if newest and newest[0].seq == event.seq else []
    if event.type not in CALL_EVENTS or not isinstance(event.data, dict):
        return []
    key = event.data.get("key")
    if isinstance(key, str) and key:
        return [key]
    call = find_call(before, event.call_id)
    if call is not None:
        return [call.key]
    return [detached_key(str(event.data.get("operation_id")))]


def _run(run: Run, calls: list[CallLook]) -> RunLook:
    return RunLook(
        run_id=run.run_id,
        seq=run.seq,
        status=run.status,
        request=run.request,
        started_at=run.started_at,
        finished_at=run.finished_at,
        seconds=_seconds(run.started_at, run.finished_at),
        error=run.error,
        resumes=run.resumes,
        code_version=run.code_version,
        worker=run.worker,
        usage=run.usage,
        messages=run.messages,
        call_count=run.calls,
        calls=calls,
    )


def _seconds(begin: str, end: str) -> float | None:
    try:
        times = [datetime.datetime.fromisoformat(one) for one in (begin, end)]
        return round((times[1] - times[0]).total_seconds(), 6)
    except (ValueError, TypeError):
        return None
