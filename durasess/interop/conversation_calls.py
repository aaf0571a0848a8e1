"""Tool calls while their messages are held back: what each event makes of one.

Which call an event is about is the reducer's to say; here its state becomes what people read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from durasess.engine.types import Event
from durasess.interop.entries import CallEntry, Remark, Said
from durasess.interop.survey import plain_data
from durasess.session.context_results import TEXTS
from durasess.session.state import OPEN_CALLS, Message, ToolState

_SENTENCES = {
    "approval_requested": "waits for approval",
    "callback_requested": "started; its result will come from outside",
    "uncertain": "outcome unknown: it was started and no result was recorded",
    "not_started": "never started: it had no effect",
    "applied": "settled: it took effect",
    "not_applied": "settled: it had no effect",
    "abandoned": "abandoned: its outcome will not be looked for",
    "rerun": "offered again",
}


class CallBook:
    """Calls by key, as long as something may still happen to them. `shown` makes a value ready for
    people. `pruned` are keys of calls that were told from the state alone."""

    def __init__(self, shown: Callable[[Any], Any]) -> None:
        self._shown = shown
        self._calls: dict[str, CallEntry] = {}
        self._told: set[str] = set()
        self.pruned: set[str] = set()

    def asked(self, call: ToolState) -> CallEntry:
        """A call that a message asks for."""
        made = CallEntry(
            key=call.key,
            call_id=self._text(call.call_id),
            name=self._text(call.name),
            arguments=self._shown(call.arguments),
            seq=call.seq,
            run_id=call.run_id,
            masked=len(call.masked),
            is_detached=call.detached,
        )
        self._calls[call.key] = made
        return made

    def is_open(self, said: Said) -> bool:
        """Whether the message waits for one of its calls."""
        return any(call.status in OPEN_CALLS for call in said.calls)

    def told(self, said: Said) -> None:
        """The message was shown; what comes later of its open calls is news."""
        for call in said.calls:
            if call.status in OPEN_CALLS:
                self._told.add(call.key)
            else:
                self._calls.pop(call.key, None)

    def changed(self, call: ToolState, event: Event) -> CallEntry | None:
        """Take over what an event made of a call; returns what is news of one that was told."""
        made = self._calls.get(call.key)
        if made is None or call.key in self._told:
            made = self.asked(call)
            self._told.add(call.key)
        self._take_over(made, call)
        if event.type == "tool_result":
            self._answered(made, event)
        elif event.type != "tool_started":
            self._remarked(made, event)
        is_late = call.key in self._told
        if is_late and call.status not in OPEN_CALLS:
            self._told.discard(call.key)
            del self._calls[call.key]
        return made if is_late else None

    def closed(self, call: ToolState, result: Message | None) -> CallEntry:
        """A call with its result as the state has them."""
        made = self.asked(call)
        del self._calls[call.key]
        self.pruned.add(call.key)
        self._take_over(made, call)
        if result is not None:
            made.output, made.has_output = self._shown(result.content), True
            made.ok = result.ok
        elif call.status not in OPEN_CALLS:
            text = TEXTS.get(call.decision or call.status)
            made.remarks.append(
                Remark(call.recovery_seq, "", call.status, text.text if text else "")
            )
        return made

    def _take_over(self, made: CallEntry, call: ToolState) -> None:
        made.status = call.status
        made.started_at = call.started_at
        made.attempt = call.attempt
        made.effect = call.effect if call.started_at else ""
        made.operation_id = self._text(call.operation_id)
        made.waits_for = call.waits_for
        made.decision = call.decision
        made.child = self._text(call.child)

    def _answered(self, made: CallEntry, event: Event) -> None:
        data = plain_data(event)
        made.output, made.has_output = self._shown(data.get("output")), True
        made.ok = data.get("ok", True) is not False
        made.ended_at = event.ts
        error = data.get("error")
        traceback = error.get("traceback") if isinstance(error, dict) else None
        made.traceback = self._text(traceback) if isinstance(traceback, str) else ""

    def _remarked(self, made: CallEntry, event: Event) -> None:
        data = {name: self._shown(value) for name, value in plain_data(event).items()}
        outcome = str(data.get("outcome") or event.type)
        if event.type == "approval_decided":
            outcome = "approved" if data.get("approved") else "denied"
        text = _SENTENCES.get(outcome, outcome)
        by = data.get("by") if data.get("by") not in ("recovery", "run", "interrupt") else ""
        said = [f" (by {by})" if by else ""]
        said += [f"; {data[name]}" for name in ("reason", "prompt", "comment") if data.get(name)]
        text += "".join(map(str, said))
        made.remarks.append(Remark(event.seq, event.ts, outcome, text, data.get("evidence")))
        if outcome == "applied" and data.get("output") is not None:
            made.output, made.has_output = data["output"], True

    def _text(self, text: str) -> str:
        return str(self._shown(text))
