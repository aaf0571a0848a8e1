"""The live conversation as the messages of a provider: what a model would get without a budget.

Made by the context planner (session/context.py), so every call has exactly one result. It is all of
the conversation that counts: compacted messages are told by their summary, rewound ones not at all.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from durasess.interop.resolving import Resolver
from durasess.session.context import Context, plan
from durasess.session.masking import MASK, Masker
from durasess.session.transcript import older_chunks
from durasess.session.view import SessionView


def openai(session: SessionView, masker: Masker) -> dict[str, Any]:
    """`{"messages"}` of OpenAI's chat completions, the system text first."""
    return {"messages": conversation(session, masker).openai()}


def anthropic(session: SessionView, masker: Masker) -> dict[str, Any]:
    """`{"system", "messages"}` of Anthropic's messages."""
    return conversation(session, masker).anthropic()


def write_openai(session: SessionView, send: Callable[[str], object], *, masker: Masker) -> None:
    """Send `openai` as one JSON document. Raises what reading the session raises."""
    send(_document(openai(session, masker)))


def write_anthropic(session: SessionView, send: Callable[[str], object], *, masker: Masker) -> None:
    """Send `anthropic` as one JSON document. Raises what reading the session raises."""
    send(_document(anthropic(session, masker)))


def conversation(session: SessionView, masker: Masker) -> Context:
    """The context of all live messages, without secrets; the same on every machine.

    It is in memory as a whole. Raises StorageError when the disk refuses.
    """
    state, core = session.state, session.core
    found = plan(
        state,
        older=older_chunks(core.events_left, state, core.reducer),
        resolve=Resolver(session).value,
    )
    messages = [_masked(message, masker) for message in found.messages]
    return replace(found, messages=messages, system=masker.text(found.system))


def _masked(message: dict[str, Any], masker: Masker) -> dict[str, Any]:
    """A message without secrets. Images stay: half a picture is none."""
    made = {
        name: masker.value(value)
        for name, value in message.items()
        if name not in ("raw", "content")
    }
    content = message["content"]
    if isinstance(content, list):
        made["content"] = [one if one["type"] == "image" else masker.value(one) for one in content]
    else:
        made["content"] = masker.value(content)
    if "raw" in message:
        # A provider's own item is signed: with a secret in it, it does not go at all.
        if masker.value(message["raw"]) is message["raw"]:
            made["raw"] = message["raw"]
        elif not made["content"] and not made.get("tool_calls"):
            made["content"] = MASK
    return made


def _document(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
