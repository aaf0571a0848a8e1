"""What each kind of entry of a pi session means in events. The tree is in pi.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from durasess.engine.types import Draft
from durasess.interop.aside import Ids
from durasess.interop.importer import (
    AtLine,
    Line,
    Mapped,
    Taken,
    dicts,
    kept,
    member,
    number,
    text,
    texts,
)
from durasess.interop.timeline import Call, Timeline
from durasess.interop.tree import ROOT, Tree

_CONTENT = (Taken(("message", "content"), ("content",)),)
_REQUEST = (Taken(("message", "content"), ("request",)),)
_OUTPUT = (Taken(("message", "content"), ("output",)),)

_ENDS = {
    "stop": ("succeeded", ""),
    "length": ("failed", "the reply was cut off at the length limit"),
    "error": ("failed", "the provider reported an error"),
    "aborted": ("cancelled", ""),
}
"""stopReason → how the run ended."""


class Entries:
    """Maps entries one after the other; `tree` says where the conversation is."""

    def __init__(self, tree: Tree, answers: Ids) -> None:
        self._tree = tree
        self._answers = answers
        self._timeline = Timeline()
        self.at: Any = None
        self._firsts: dict[int, int] = {}

    def end(self) -> list[Draft]:
        """The file ends here, for now."""
        return self._timeline.end(self.at)

    def leave(self, at: Any, to: AtLine) -> list[Draft]:
        """What was said behind `to` counts no more: an entry goes on from there."""
        drafts = self._timeline.end(at)
        return [*drafts, self._timeline.event("rewound", {"to": to}, at)]

    def again(self, line: Line) -> Mapped:
        """An entry that was mapped before."""
        self._timeline.is_again = True
        mapped = self.map(line)
        self._timeline.is_again = False
        return mapped

    def elsewhere(self) -> list[int]:
        """The lines with results of calls of a branch that was said again, which came on another
        one: what was done was done."""
        lines = (self._answers.get(hash(key)) for key in self._timeline.unanswered_again())
        return sorted(line for line in lines if line is not None)

    def map(self, line: Line) -> Mapped:
        """One entry. Types that are not known are kept."""
        item = line.item
        self.at = item.get("timestamp")
        kind = item.get("type")
        known = _KINDS.get(kind) if isinstance(kind, str) else None
        if known is None:
            return kept(line, f"unknown type {kind!r:.60}")
        return known(self, line, item)

    # -- messages -----------------------------------------------------------------------------

    def message(self, line: Line, item: dict[str, Any]) -> Mapped:
        """A message of any role."""
        message = item.get("message")
        role = member(item, "message", "role")
        known = _ROLES.get(role) if isinstance(role, str) else None
        if not isinstance(message, dict) or known is None:
            return kept(line, f"unknown role {role!r:.60}")
        return known(self, line, message)

    def user(self, line: Line, message: dict[str, Any]) -> Mapped:
        """A request: a run begins."""
        content = message.get("content")
        return Mapped(line, self._timeline.begin(self.at, content or ""), taken=_REQUEST)

    def assistant(self, line: Line, message: dict[str, Any]) -> Mapped:
        """A reply with its calls and its usage; it may end the run."""
        parts = message.get("content")
        calls = [
            Call(
                text(one.get("id")),
                text(one.get("name")),
                one.get("arguments", {}),
                tuple(line.masked),
            )
            for one in dicts(parts)
            if one.get("type") == "toolCall"
        ]
        data: dict[str, Any] = {"content": _spoken(parts)}
        data["usage"] = _usage(message.get("usage"))
        data["model"] = text(message.get("model"))
        reason = text(message.get("stopReason"))
        if reason in ("aborted", "error"):
            data["partial"] = True
        drafts = self._timeline.reply(self.at, line, data, calls)
        if reason in _ENDS:
            status, error = _ENDS[reason]
            said = text(message.get("errorMessage")) if status == "failed" else ""
            drafts += self._timeline.finish(self.at, status, error=said or error)
        return Mapped(line, drafts, taken=_CONTENT)

    def result(self, line: Line, message: dict[str, Any]) -> Mapped:
        """The result of a call."""
        call_id = text(message.get("toolCallId"))
        key = self._timeline.answered(call_id)
        if key is None:
            return kept(line, "a result of no call, or a second one")
        if not self._timeline.is_again:
            self._answers.put(hash(key), line.number)
        ok = message.get("isError") is not True
        output = message.get("content")
        drafts = self._timeline.result(self.at, key, call_id, output, ok=ok)
        return Mapped(line, drafts, taken=_OUTPUT)

    def shell(self, line: Line, message: dict[str, Any]) -> Mapped:
        """A command that the user ran and showed to the model."""
        if message.get("excludeFromContext") is True:
            return kept(line, "a command of the user that the model does not see")
        said = f"$ {text(message.get('command'))}\n{text(message.get('output'))}"
        return Mapped(line, self._timeline.user(self.at, said))

    def context(self, line: Line, message: dict[str, Any]) -> Mapped:
        """Something else that the model sees as the user's."""
        content = message.get("content", message.get("summary")) or ""
        return Mapped(line, self._timeline.user(self.at, content), taken=_CONTENT)

    # -- the rest -----------------------------------------------------------------------------

    def model(self, line: Line, item: dict[str, Any]) -> Mapped:
        """Another model from here on."""
        config = {"model": item.get("modelId"), "provider": item.get("provider")}
        return self._config(line, config)

    def thinking(self, line: Line, item: dict[str, Any]) -> Mapped:
        """Another level of thinking from here on."""
        return self._config(line, {"thinking": item.get("thinkingLevel")})

    def _config(self, line: Line, config: dict[str, Any]) -> Mapped:
        draft = self._timeline.event("config_changed", {"config": config}, self.at)
        return Mapped(line, [draft])

    def compaction(self, line: Line, item: dict[str, Any]) -> Mapped:
        """A summary, then what follows from the first entry that was kept."""
        through = AtLine(self._before_kept(item))
        data = {"summary": text(item.get("summary")), "through": through}
        return Mapped(line, [self._timeline.event("context_compacted", data, self.at)])

    def _before_kept(self, item: dict[str, Any]) -> int:
        """The line of the entry before the first that was kept; of the compaction's own parent
        when none is named."""
        tree = self._tree
        index = item.get("firstKeptEntryIndex")
        if isinstance(index, int) and not isinstance(index, bool):
            # Of the lines, the header being 0: the entry before the kept one is line `index`.
            return max(index, 0)
        first = item.get("firstKeptEntryId")
        node = tree.node(first) if isinstance(first, str) else None
        if node is None:
            return tree.told(tree.parent_of(tree.tip))
        return tree.told(tree.parent_of(node)) if node != ROOT else 0

    def branch(self, line: Line, item: dict[str, Any]) -> Mapped:
        """What a branch that was left had come to; the model sees it."""
        said = f"Summary of a branch that was left:\n{text(item.get('summary'))}"
        return Mapped(line, self._timeline.user(self.at, said))

    def custom_message(self, line: Line, item: dict[str, Any]) -> Mapped:
        """Context of an extension."""
        drafts = self._timeline.user(self.at, item.get("content") or "")
        return Mapped(line, drafts, taken=(Taken(("content",), ("content",)),))

    def info(self, line: Line, item: dict[str, Any]) -> Mapped:
        """The session's name."""
        if not isinstance(item.get("name"), str):
            return kept(line, "session_info without a name")
        data = {"title": item["name"]}
        return Mapped(line, [self._timeline.event("session_changed", data, self.at)])

    def aside(self, line: Line, item: dict[str, Any]) -> Mapped:
        """What the model never sees."""
        return kept(line, f"{item['type']}: no part of the conversation")


def _spoken(parts: Any) -> Any:
    """What the model said: thinking and calls are not of it."""
    if not isinstance(parts, list):
        return parts or ""
    said = [part for part in dicts(parts) if part.get("type") not in ("thinking", "toolCall")]
    if len(said) == len(parts):
        return parts
    found = texts(said)
    return found[0] if len(found) == len(said) == 1 else said


def _usage(reported: Any) -> dict[str, Any]:
    """Deltas: what was cached is part of the prompt here."""
    if not isinstance(reported, dict):
        return {}
    prompt = sum(number(reported.get(name)) for name in ("input", "cacheRead", "cacheWrite"))
    completion = number(reported.get("output"))
    return {
        "prompt": prompt,
        "completion": completion,
        "total": max(number(reported.get("totalTokens")), prompt + completion),
        "cost": number(member(reported, "cost", "total")),
    }


_Map = Callable[[Entries, Line, dict[str, Any]], Mapped]

_ROLES: dict[str, _Map] = {
    "user": Entries.user,
    "assistant": Entries.assistant,
    "toolResult": Entries.result,
    "bashExecution": Entries.shell,
    "custom": Entries.context,
    "hookMessage": Entries.context,
    "branchSummary": Entries.context,
    "compactionSummary": Entries.context,
}

_KINDS: dict[str, _Map] = {
    "message": Entries.message,
    "model_change": Entries.model,
    "thinking_level_change": Entries.thinking,
    "compaction": Entries.compaction,
    "branch_summary": Entries.branch,
    "custom_message": Entries.custom_message,
    "session_info": Entries.info,
    "custom": Entries.aside,
    "label": Entries.aside,
}
