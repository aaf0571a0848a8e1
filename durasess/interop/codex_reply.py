"""One reply of a model in a Codex rollout: its items, gathered. When it ends is said elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from durasess.engine import codec
from durasess.engine.types import LineError
from durasess.interop.importer import Line, Mapped, text, texts
from durasess.interop.timeline import Call

_CALLS = frozenset(
    ["function_call", "custom_tool_call", "local_shell_call", "tool_search_call", "mcp_call"]
)

REPLY_TYPES = _CALLS | {"reasoning", "web_search_call", "image_generation_call"}
"""Items of a reply beside its message. The last two were carried out by the provider: they are no
calls of the harness."""


Masked = Callable[[Any], tuple[Any, list[str]]]
"""Takes the secrets out of a value; says where they were."""


class Reply:
    """`lines` are those of the items, `asides` what came between them."""

    def __init__(self, masked: Masked) -> None:
        self._masked = masked
        self.lines: list[Line] = []
        self.calls: list[Call] = []
        self.asides: list[Mapped] = []
        self._texts: list[str] = []
        self._items: list[dict[str, Any]] = []
        self._has_message = False

    def add(self, line: Line, payload: dict[str, Any]) -> None:
        """One more item."""
        self.lines.append(line)
        self._items.append(payload)
        if payload["type"] == "message":
            self._has_message = True
            self._texts += texts(payload.get("content"))
        elif payload["type"] in _CALLS:
            call = _call(payload)
            # What was a text is an object now, whose keys may name a credential.
            arguments, paths = self._masked(call.arguments)
            self.calls.append(call._replace(arguments=arguments, masked=(*line.masked, *paths)))

    def data(self, provider: str, model: str) -> dict[str, Any]:
        """The data of its event; without content where no message was among the items."""
        api = "openai_responses" if provider == "openai" else provider
        raw: dict[str, Any] = {"provider": api, "item": self._items}
        if model:
            raw["model"] = model
        data: dict[str, Any] = {"raw": raw}
        if self._has_message:
            data["content"] = "\n\n".join(self._texts)
        return data | ({"model": model} if model else {})


def _call(payload: dict[str, Any]) -> Call:
    kind = payload["type"]
    call_id = text(payload.get("call_id")) or text(payload.get("id"))
    if kind == "local_shell_call":
        return Call(call_id, "local_shell", _arguments(payload.get("action")))
    name = text(payload.get("name")) or kind.removesuffix("_call")
    if namespace := text(payload.get("namespace")):
        name = f"{namespace}.{name}"
    if kind == "custom_tool_call":
        return Call(call_id, name, {"input": payload.get("input")})
    return Call(call_id, name, _arguments(payload.get("arguments")))


def _arguments(given: Any) -> Any:
    """An object; a text that is none stays as it is."""
    if isinstance(given, dict):
        return given
    if not isinstance(given, str):
        return {} if given is None else {"value": given}
    try:
        parsed = codec.decode(given.encode("utf-8", "surrogatepass"))
    except LineError:
        return given
    return parsed if isinstance(parsed, dict) else given
