"""One reply of a model in a Claude Code session: its lines with their blocks, gathered."""

from __future__ import annotations

from typing import Any, NamedTuple

from durasess.interop.importer import Line, dicts, member, number, text, texts
from durasess.interop.timeline import Call

_THINKING = frozenset(["thinking", "redacted_thinking"])
_SERVER_SIDE = frozenset(["server_tool_use", "web_search_tool_result"])


class Counted(NamedTuple):
    """Tokens that a message was said to have used."""

    prompt: int | float = 0
    completion: int | float = 0

    def most(self, other: Counted) -> Counted:
        """Each line says it anew, and it grows while the reply comes."""
        return Counted(*map(max, self, other))

    def as_data(self, before: Counted) -> dict[str, Any]:
        """Deltas; nothing where nothing was said."""
        if self == Counted():
            return {}
        left = (max(now - then, 0) for now, then in zip(self, before, strict=True))
        return dict(zip(self._fields, left, strict=True))


class Reply:
    """`lines` share a message's id, and that of the request that it answers; `others` are the lines
    of results and asides that came while it was held back."""

    def __init__(self, node: int) -> None:
        self.message_id = self.request_id = ""
        self.node = node
        self.lines: list[Line] = []
        self.others: list[Line] = []
        self.calls: list[Call] = []
        self.stop_reason = ""
        self.error = ""
        self._blocks: list[Any] = []
        self.usage = Counted()
        self._model = ""

    @property
    def identity(self) -> str:
        """Of the message: some services give the same id to several."""
        return f"{self.message_id}\0{self.request_id}"

    def has(self, line: Line) -> bool:
        """Whether a line of the model's is of this reply."""
        message_id, request_id = _ids(line)
        if message_id != self.message_id or not message_id:
            return False
        return not (request_id and self.request_id) or request_id == self.request_id

    def add(self, line: Line) -> None:
        """One more line."""
        message = line.item["message"]
        self.message_id, request_id = _ids(line)
        self.request_id = self.request_id or request_id
        self.lines.append(line)
        content = message.get("content")
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
        self._blocks += blocks
        self._model = text(message.get("model")) or self._model
        self.stop_reason = text(message.get("stop_reason")) or self.stop_reason
        if line.item.get("isApiErrorMessage") is True:
            self.error = "\n".join(texts(content)) or "the provider reported an error"
        for block in dicts(blocks):
            if block.get("type") == "tool_use":
                name, given = text(block.get("name")), block.get("input")
                arguments = given if isinstance(given, dict | str) else {"value": given}
                self.calls.append(Call(text(block.get("id")), name, arguments, tuple(line.masked)))
        self._note_usage(message.get("usage"))

    def _note_usage(self, reported: Any) -> None:
        """Each line repeats it; it grows while the reply comes."""
        if not isinstance(reported, dict):
            return
        names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
        prompt = sum(number(reported.get(name)) for name in names)
        completion = number(reported.get("output_tokens"))
        self.usage = self.usage.most(Counted(prompt, completion))

    def data(self) -> dict[str, Any]:
        """The data of its event, without usage."""
        said = [one for one in dicts(self._blocks) if _is_said(one)]
        content: Any = said
        if all(one.get("type") == "text" for one in said):
            content = "\n\n".join(text(one.get("text")) for one in said)
        data: dict[str, Any] = {"content": content}
        if any(text(one.get("type")) in _THINKING for one in dicts(self._blocks)):
            item = {"type": "message", "role": "assistant", "content": self._blocks}
            data["raw"] = {"provider": "anthropic", "item": item, "model": self._model}
        return data | ({"model": self._model} if self._model else {})


def _ids(line: Line) -> tuple[str, str]:
    return text(line.item["message"].get("id")), text(line.item.get("requestId"))


def _is_said(block: dict[str, Any]) -> bool:
    kind = text(block.get("type"))
    return kind != "tool_use" and kind not in _THINKING and kind not in _SERVER_SIDE


def results_in(line: Line) -> list[dict[str, Any]]:
    """The result blocks on a line."""
    blocks = member(line.item, "message", "content")
    if type(blocks) is not list:
        return []
    return [one for one in blocks if type(one) is dict and one.get("type") == "tool_result"]
