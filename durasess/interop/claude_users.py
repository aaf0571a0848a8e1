"""What the user's lines of a Claude Code session mean: requests, results, summaries, and what the
program puts in as the user's."""

from __future__ import annotations

from typing import Any

from durasess.engine.types import Draft
from durasess.interop.claude_reply import results_in
from durasess.interop.importer import AtLine, Line, Mapped, Taken, dicts, kept, member, text, texts
from durasess.interop.timeline import Timeline

_CONTENT = (
    Taken(("message", "content"), ("request",)),
    Taken(("message", "content"), ("content",)),
)

_NO_REQUEST = ("<local-command-", "<bash-input>", "<bash-stdout>", "<task-notification>")
"""How texts begin that the program puts in as the user's."""

_INTERRUPTED = "[Request interrupted by user"


class Users:
    """Maps the lines one after the other. `answered`: the newest reply asked for nothing; `at` is
    the time of the newest line."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self.answered = False
        self.at: Any = None

    def map(self, line: Line, before: int) -> Mapped:
        """A request, results, or something that the model sees as the user's. A summary tells what
        came up to the line `before`."""
        item = line.item
        at = self.at = item.get("timestamp")
        content = member(item, "message", "content") or ""
        if results_in(line):
            return self._results(line, at, content)
        if item.get("isCompactSummary") is True:
            return self._compacted("\n".join(texts(content)), line, before)
        if item.get("isVisibleInTranscriptOnly") is True:
            return kept(line, "only for people")
        begin = "".join(texts(content)[:1]).lstrip()
        if begin.startswith(_INTERRUPTED):
            drafts = self._timeline.user(at, content)
            drafts = [*self._timeline.finish(at, "cancelled"), *drafts]
            return Mapped(line, drafts, taken=_CONTENT)
        if item.get("isMeta") is True or begin.startswith(_NO_REQUEST):
            return Mapped(line, self._timeline.user(at, content), taken=_CONTENT)
        drafts = []
        if self.answered:
            # No reason says so in some versions; that the user goes on does.
            drafts = self._timeline.finish(at, "succeeded")
        self.answered = False
        return Mapped(line, [*drafts, *self._timeline.begin(at, content)], taken=_CONTENT)

    def _results(self, line: Line, at: Any, content: Any) -> Mapped:
        drafts: list[Draft] = []
        orphans = 0
        for block in results_in(line):
            call_id = text(block.get("tool_use_id"))
            key = self._timeline.answered(call_id)
            if key is None:
                orphans += 1
                continue
            drafts += self._child(line, at, call_id)
            ok = block.get("is_error") is not True
            drafts += self._timeline.result(at, key, call_id, block.get("content"), ok=ok)
        rest = [one for one in dicts(content) if one.get("type") != "tool_result"]
        if rest:
            drafts += self._timeline.user(at, rest)
            if "".join(texts(rest)[:1]).startswith(_INTERRUPTED):
                drafts[-1:-1] = self._timeline.finish(at, "cancelled")
        note = "a result of no call, or a second one" if orphans else ""
        if not drafts:
            return kept(line, note)
        part = Taken(("message", "content", 0, "content"), ("output",))
        return Mapped(line, drafts, reason=note, taken=(part,))

    def _child(self, line: Line, at: Any, call_id: str) -> list[Draft]:
        """A call that a subagent worked for, in a session of its own."""
        agent = text(member(line.item, "toolUseResult", "agentId"))
        if not agent:
            return []
        child = f"claude-code-{text(line.item.get('sessionId'))}.{agent}"
        started = self._timeline.event("child_started", {"session_id": child}, at, call_id)
        done = {"session_id": child, "status": "succeeded"}
        return [started, self._timeline.event("child_finished", done, at, call_id)]

    def _compacted(self, summary: str, line: Line, before: int) -> Mapped:
        data = {"summary": summary, "through": AtLine(before)}
        return Mapped(line, [self._timeline.event("context_compacted", data, self.at)])
