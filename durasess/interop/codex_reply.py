"""One reply of a model in a Codex rollout: its items, gathered. When it ends is said elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from durasess.engine.types import LineError
from durasess.interop.importer import Line, Mapped, text, texts
from durasess.interop.timeline import Call

_CALLS = frozenset(
    ["function_call", "custom_tool_call", "local_shell_call", "tool_search_call", "mcp_call"]
)

REPLY_TYPES = _CALLS | {"reasoning", "web_search_call", "image_generation_call"}
"""Items of a reply beside its message. The last two were carried out by the provider: they are no
calls of the harness."""


Decoded = Callable[[str], tuple[Any, list[str]]]
"""What a JSON text stands for, without its secrets, and where they were; LineError for another."""


class Reply:
    """`lines` are those of the items, `asides` what came between them. `is_part`: it is the rest of
    one in which an import ended."""

    def __init__(self, decoded: Decoded, *, is_part: bool) -> None:
        self.is_part = is_part
        self._decoded = decoded
        self.lines: list[Line] = []
        self.calls: list[Call] = []
        self.asides: list[Mapped] = []
        self._texts: list[str] = []
        self._items: list[dict[str, Any]] = []
        self.has_message = False

    def add(self, line: Line, payload: dict[str, Any]) -> None:
        """One more item."""
        self.lines.append(line)
        self._items.append(payload)
        if payload["type"] == "message":
            self.has_message = True
            self._texts += texts(payload.get("content"))
        elif payload["type"] in _CALLS:
            self.calls.append(self._call(line, payload))

    def _call(self, line: Line, payload: dict[str, Any]) -> Call:
        kind = payload["type"]
        given: Any
        call_id = text(payload.get("call_id")) or text(payload.get("id"))
        if kind == "custom_tool_call":
            name, given = _name(payload), {"input": payload.get("input")}
        elif kind == "local_shell_call":
            name, given = "local_shell", payload.get("action")
        else:
            name, given = _name(payload), payload.get("arguments")
        arguments, paths = self._arguments(given)
        return Call(call_id, name, arguments, (*line.masked, *paths))

    def _arguments(self, given: Any) -> tuple[Any, list[str]]:
        """An object; a text that is not JSON of one stays as it is. What was a text is an object
        now, whose keys may name a credential."""
        if isinstance(given, dict):
            return given, []
        if not isinstance(given, str):
            return {} if given is None else {"value": given}, []
        try:
            parsed, paths = self._decoded(given)
        except LineError:
            return given, []
        return (parsed, paths) if isinstance(parsed, dict) else (given, [])

    def data(self, provider: str, model: str) -> dict[str, Any]:
        """The data of its event; without content where no message was among the items."""
        api = "openai_responses" if provider == "openai" else provider
        raw: dict[str, Any] = {"provider": api, "item": self._items}
        if model:
            raw["model"] = model
        data: dict[str, Any] = {"raw": raw}
        if self.has_message:
            data["content"] = "\n\n".join(self._texts)
        return data | ({"model": model} if model else {})


def _name(payload: dict[str, Any]) -> str:
    name = text(payload.get("name")) or str(payload["type"]).removesuffix("_call")
    namespace = text(payload.get("namespace"))
    return f"{namespace}.{name}" if namespace else name
