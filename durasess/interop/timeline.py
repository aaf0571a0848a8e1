"""The runs and calls of a foreign session as events: what begins, ends, is answered or is not.

Shared by all importers. A call without a result is uncertain: no format says that it was never
started (P9). A run without an end is interrupted.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from durasess.engine.types import Draft
from durasess.interop.importer import KeyOf, Line

NO_RESULT = "the imported file has no result of it"
NO_END = "the imported file has no end of it"
_MAX_ID = 512
"""Characters of an id."""


_AGAIN = frozenset(
    ["run_started", "user_message", "assistant_message", "tool_result", "context_compacted"]
)
"""Events that say so when they are said again."""


class Call(NamedTuple):
    """A tool call of a reply, as it is recorded."""

    call_id: str
    name: str
    arguments: Any
    masked: tuple[str, ...] = ()
    """The JSON paths of what is not the original in its line."""


class _Asked(NamedTuple):
    key: KeyOf
    call_id: str
    run_id: str


class Timeline:
    """What is open now. Every method returns the events that say what happened; `at` is when the
    foreign file says it did, and goes into their data, since the log has its own time. While
    `is_again`, they were said before and count for nothing (session/events.py)."""

    def __init__(self) -> None:
        self.run_id: str | None = None
        self.is_again = False
        self._runs = self._runs_again = 0
        self._last_run = ""
        self._goes_on = False
        self._last_status = ""
        self._open: dict[KeyOf, _Asked] = {}
        self._asked: dict[str, list[_Asked]] = {}
        self._asked_again: dict[KeyOf, None] = {}

    def begin(self, at: Any, request: Any = None) -> list[Draft]:
        """A run; one that is open was interrupted. Without a request it goes on with what the last
        one left."""
        drafts = self.end(at)
        before, self._last_run = self._last_run, self._next_run()
        self.run_id = self._last_run
        # What comes new into a run that was said again makes it one that counts.
        self._goes_on = self.is_again
        data: dict[str, Any] = {"request": request}
        if request is None and self._last_status in ("interrupted", "cancelled", "failed"):
            data["resumes"] = before
        return [*drafts, self.event("run_started", data, at)]

    def _next_run(self) -> str:
        if self.is_again:
            self._runs_again += 1
            return f"again_{self._runs_again}"
        self._runs += 1
        return f"run_{self._runs}"

    def finish(self, at: Any, status: str, *, error: str = "", reason: str = "") -> list[Draft]:
        """The end of the open run, and of its calls; nothing when none is open."""
        if self.run_id is None:
            return []
        drafts = self._uncertain(at)
        data = {"status": status}
        if error:
            data["error"] = error
        if reason:
            data["reason"] = reason
        drafts.append(self.event("run_finished", data, at))
        self.run_id = None
        self._last_status = status
        return drafts

    def end(self, at: Any) -> list[Draft]:
        """The file ends here, for now."""
        return self.finish(at, "interrupted", reason=NO_END)

    def _uncertain(self, at: Any) -> list[Draft]:
        drafts = []
        for asked in self._open.values():
            data = {
                "outcome": "uncertain",
                "key": asked.key,
                "reason": NO_RESULT,
                "by": "import",
            }
            drafts.append(self.event("tool_recovery", data, at, asked.call_id, asked.run_id))
        self._open.clear()
        return drafts

    def user(self, at: Any, content: Any) -> list[Draft]:
        """Something said to the model that begins no run."""
        return [self.event("user_message", {"content": content}, at)]

    def reply(self, at: Any, line: Line, data: dict[str, Any], calls: list[Call]) -> list[Draft]:
        """The model's message, of this line, with its calls; it needs a run."""
        drafts = self.begin(at) if self.run_id is None else []
        run_id = self.run_id or ""
        if calls:
            data["tool_calls"] = [_recorded(call) for call in calls]
        if self.is_again:
            for index, made in enumerate(data.get("tool_calls", ())):
                made["earlier"] = key = KeyOf(line.number, index)
                self._asked_again[key] = None
        elif self._goes_on:
            data["goes_on"], self._goes_on = True, False
        for index, call in enumerate(calls):
            asked = _Asked(KeyOf(line.number, index), call.call_id, run_id)
            self._open[asked.key] = asked
            self._asked.setdefault(call.call_id, []).append(asked)
        return [*drafts, self.event("assistant_message", data, at)]

    def answered(self, call_id: str) -> KeyOf | None:
        """The call that a result with this id is of: of the newest message that asked for it and
        has no result, the first. None when there is none. It is answered from here on."""
        waiting = self._asked.get(call_id)
        if not waiting:
            return None
        newest = waiting[-1].key.line
        index = next(i for i, one in enumerate(waiting) if one.key.line == newest)
        asked = waiting.pop(index)
        if not waiting:
            del self._asked[call_id]
        self._open.pop(asked.key, None)
        self._asked_again.pop(asked.key, None)
        return asked.key

    def unanswered_again(self) -> list[KeyOf]:
        """The calls that were said again since this was asked last, and have no result so far."""
        keys, self._asked_again = self._asked_again, {}
        return list(keys)

    def result(
        self, at: Any, key: KeyOf, call_id: str, output: Any, *, ok: bool = True
    ) -> list[Draft]:
        """The result of a call."""
        data: dict[str, Any] = {"key": key, "output": output}
        if not ok:
            data["ok"] = False
        return [self.event("tool_result", data, at, call_id)]

    def event(
        self, type: str, data: dict[str, Any], at: Any, call_id: str = "", run_id: str = ""
    ) -> Draft:
        """An event of the open run, or of `run_id`."""
        if isinstance(at, str) and at:
            data["at"] = at
        if self.is_again and type in _AGAIN:
            data["again"] = True
        short = call_id[:_MAX_ID] or None
        return Draft(type, data, run_id or self.run_id, short)


def _recorded(call: Call) -> dict[str, Any]:
    made = {"call_id": call.call_id, "name": call.name or "unnamed", "arguments": call.arguments}
    if call.masked:
        made["masked"] = list(call.masked)
    return made
