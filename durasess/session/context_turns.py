"""The live history read backwards, turn by turn, and each turn as units that are never split.

A turn is a user message and all up to the next. A unit is one user message, or an assistant message
with one result for each of its calls, in the calls' order. Which of them go is decided elsewhere.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from durasess.session.context_content import returned, spoken
from durasess.session.context_ids import legal_name
from durasess.session.context_results import result_of
from durasess.session.context_text import Cleaner, as_text, read_json
from durasess.session.provider_items import blocks_of
from durasess.session.state import Chunk, Message, SessionState, ToolState

EMPTY = "(empty message)"
"""Stands for a user message without content, which no provider takes."""


class Unit(msgspec.Struct):
    """Neutral messages that go together, and what making them cost.

    `keys` are those of the calls, `sources` the seqs of the record's messages that are told,
    `surrogates` halves of characters that were replaced, `blocks` replies whose own item may not be
    sent, `tools` names that were changed, `empty` replies that say nothing.
    """

    messages: list[dict[str, Any]]
    keys: list[str] = msgspec.field(default_factory=list)
    sources: list[int] = msgspec.field(default_factory=list)
    surrogates: int = 0
    blocks: int = 0
    tools: int = 0
    empty: int = 0

    @property
    def is_request(self) -> bool:
        """Whether it is a user message, with which a turn begins."""
        return bool(self.messages) and self.messages[0]["role"] == "user"

    @property
    def call_ids(self) -> list[str]:
        """The ids of the calls as they were recorded."""
        calls = self.messages[0].get("tool_calls", ()) if self.messages else ()
        return [call["call_id"] for call in calls]


class History:
    """The live messages of a state, newest turn first; older ones are pulled when asked for."""

    def __init__(
        self, state: SessionState, older: Iterable[Chunk], resolve: Callable[[Any], Any]
    ) -> None:
        self._state = state
        self._older = iter(older)
        self._resolve = resolve
        self._calls: dict[str, ToolState] = {}
        self._results: dict[str, Message] = {}
        self._news: dict[str, Message] = {}
        self._asked: set[str] = set()
        model = state.runtime_config.get("model")
        self._model = model if isinstance(model, str) else None
        self.read: list[Message] = []
        """Every message that was read, in no order."""
        self.has_unread = state.older_since > 0
        """Whether there may be older messages that were not read."""
        self._take((state.messages, state.tool_states))

    def turns(self) -> Iterator[list[Message]]:
        """Turns, newest first, as messages, oldest first. The oldest may lack its user message."""
        rest = list(self._state.messages)
        while True:
            for start in reversed([at for at, one in enumerate(rest) if one.role == "user"]):
                yield rest[start:]
                del rest[start:]
            chunk = next(self._older, None)
            if chunk is None:
                break
            self._take(chunk)
            rest = [*chunk[0], *rest]
        self.has_unread = False
        if rest:
            yield rest

    def units(self, turn: list[Message]) -> Iterator[Unit]:
        """The units of a turn, newest first. Results stand with their calls, wherever they are in
        the record: it has them in the order in which calls ended."""
        for message in reversed(turn):
            if message.role == "user":
                yield self._request(message)
            elif message.role == "assistant":
                yield self._reply(message)

    def unanswered(self, told: set[int]) -> tuple[int, int]:
        """How many of the results that were read answer no call, and how many a call that has its
        result. `told` are seqs of messages that are in the context."""
        results = [one for one in self.read if one.role == "tool" and one.seq not in told]
        orphans = sum(not self._is_asked(one.key) for one in results)
        first = {one.seq for one in self._results.values()}
        second = sum(one.key in self._asked and one.seq not in first for one in results)
        return orphans, second

    def _is_asked(self, key: str) -> bool:
        """While there are older messages, one of them may ask for a call that is known."""
        return key in self._asked or (key in self._calls and self.has_unread)

    def _take(self, chunk: Chunk) -> None:
        messages, calls = chunk
        self.read += messages
        self._calls = {**calls, **self._calls}
        found: dict[str, Message] = {}
        for message in messages:
            self._asked.update(message.calls)
            if message.role == "tool":
                found.setdefault(message.key, message)
            elif message.late:
                self._news[message.late] = message
        self._results.update(found)

    def _request(self, message: Message) -> Unit:
        cleaner = Cleaner()
        content = spoken(cleaner.value(self._resolve(message.content))) or EMPTY
        made = {"role": "user", "content": content, "seq": message.seq}
        return Unit([made], sources=[message.seq], surrogates=cleaner.replaced)

    def _reply(self, message: Message) -> Unit:
        cleaner = Cleaner()
        keys = list(dict.fromkeys(message.calls))
        calls = [self._calls.get(key) or _unknown(key, message.seq) for key in keys]
        content = spoken(cleaner.value(self._resolve(message.content)))
        made: dict[str, Any] = {"role": "assistant", "content": content, "seq": message.seq}
        if calls:
            made["tool_calls"] = [self._call(call, cleaner) for call in calls]
        unit = Unit([made], keys=keys, sources=[message.seq])
        unit.tools = sum(
            said["name"] != call.name
            for said, call in zip(made.get("tool_calls", ()), calls, strict=True)
        )
        raw = self._resolve(message.raw)
        if raw is not None:
            if blocks_of(made, raw, self._model) is not None:
                made["raw"] = copy.deepcopy(raw)
            else:
                unit.blocks = 1
        if not content and not calls and "raw" not in made:
            return Unit([], sources=[message.seq], empty=1, blocks=unit.blocks)
        for call in calls:
            self._answer(call, unit, cleaner)
        unit.surrogates = cleaner.replaced
        return unit

    def _call(self, call: ToolState, cleaner: Cleaner) -> dict[str, Any]:
        arguments = cleaner.value(self._resolve(call.arguments))
        return {
            "call_id": _countable(call.call_id),
            "name": legal_name(call.name),
            "arguments": _object(arguments),
        }

    def _answer(self, call: ToolState, unit: Unit, cleaner: Cleaner) -> None:
        result = self._results.get(call.key)
        if result is None:
            found = replace(
                call,
                reason=cleaner.text(call.reason),
                evidence=cleaner.value(self._resolve(call.evidence)),
            )
            later = self._news.get(call.key)
            told = result_of(found, self._state.open_run, later=later)
            content, is_error, seq = cleaner.value(told.text), told.is_error, 0
        else:
            content = returned(cleaner.value(self._resolve(result.content)))
            is_error, seq = not result.ok, result.seq
            unit.sources.append(seq)
        unit.messages.append(
            {
                "role": "tool",
                "call_id": _countable(call.call_id),
                "content": content,
                "is_error": is_error,
                "seq": seq,
            }
        )


def _countable(call_id: str) -> str:
    """The id without halves of characters: the caller's counter sees it before it is renamed."""
    return Cleaner().text(call_id)


def _unknown(key: str, seq: int) -> ToolState:
    """A call that a message names and no state knows."""
    reason = "the record of this call is missing"
    return ToolState(key, key, "unknown", {}, "uncertain", seq, reason=reason)


def _object(arguments: Any) -> dict[str, Any]:
    """Arguments are an object everywhere: a JSON text of one is read, all else is `_raw`."""
    if arguments is None or arguments == "":
        return {}
    found = read_json(arguments) if isinstance(arguments, str) else arguments
    return found if isinstance(found, dict) else {"_raw": as_text(arguments)}
