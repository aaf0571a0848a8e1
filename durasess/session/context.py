"""The context planner: what one model call receives of a state, within a budget of tokens.

It chooses; how contents, results, the system text and each provider's messages are made is in the
modules beside it. Planning changes nothing: every plan of a state is made anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from durasess.session.context_ids import legal_ids
from durasess.session.context_system import system_text
from durasess.session.context_text import Cleaner, estimate_tokens
from durasess.session.context_turns import History, Unit
from durasess.session.provider_items import blocks_of, ids_of
from durasess.session.render_anthropic import OPENING, anthropic_request
from durasess.session.render_openai import chat_messages
from durasess.session.render_responses import responses_request
from durasess.session.state import Chunk, SessionState


class LeftOut(msgspec.Struct, frozen=True):
    """What the context does not hold of the record, or holds in another form.

    `turns` and `messages` were read and did not fit; a turn counts when its user message is left
    out. `unread`: there may be older live messages that were never read. `orphans` are results of
    no call, `duplicates` second results of a call, `empty` replies that say nothing. In the copy
    `renamed_ids` calls have another id and `renamed_tools` another name than in the record,
    `surrogates` halves of characters became U+FFFD (the recovery block not counted), `blocks`
    replies go without their provider's own item.
    """

    turns: int = 0
    messages: int = 0
    unread: bool = False
    orphans: int = 0
    duplicates: int = 0
    empty: int = 0
    renamed_ids: int = 0
    renamed_tools: int = 0
    surrogates: int = 0
    blocks: int = 0


class Context(msgspec.Struct, frozen=True):
    """What one model call receives. `tokens` counts `system` and `messages`.

    A neutral message is a dict: `role` ("user", "assistant", "tool"), `content` (a text, or parts
    `{"type": "text", "text"}` and `{"type": "image", "url"}` or `{…, "media_type", "data"}`),
    `seq` of its event (0 for a result that was made here). An assistant message may have
    `tool_calls` ([{"call_id", "name", "arguments"}], arguments an object) and `raw`, its provider's
    own item, where that may be sent. A tool message has `call_id` and `is_error`.
    """

    messages: list[dict[str, Any]]
    system: str
    tokens: int
    left_out: LeftOut

    def openai(self) -> list[dict[str, Any]]:
        """Messages of OpenAI's chat completions, the system text first; a fresh copy."""
        return chat_messages(self.system, self.messages)

    def openai_responses(self) -> dict[str, Any]:
        """`{"instructions", "input"}` of OpenAI's responses; a fresh copy."""
        return responses_request(self.system, self.messages)

    def anthropic(self) -> dict[str, Any]:
        """`{"system", "messages"}` of Anthropic's messages; a fresh copy."""
        return anthropic_request(self.system, self.messages)


def plan(
    state: SessionState,
    *,
    older: Iterable[Chunk] = (),
    max_tokens: int | None = None,
    count_tokens: Callable[[Any], int] | None = None,
    resolve: Callable[[Any], Any] | None = None,
    workspace_note: str = "",
) -> Context:
    """The context of a state: system text, and as many of the newest whole turns as fit.

    Always there, even beyond `max_tokens`: the system text and the newest user message. Of a newest
    turn that is too big by itself the oldest replies are left out, each with its results. `older`
    are chunks of live messages that the state does not hold, newest first, pulled while there is
    room. `count_tokens` gets one neutral message (role "system" for the system text), else
    `estimate_tokens` counts. `resolve` turns a stored reference to a large value into the value.
    """
    return _Planning(
        state,
        older,
        room=max_tokens,
        count=count_tokens or estimate_tokens,
        resolve=resolve or _same,
        workspace_note=workspace_note,
    ).context()


def _same(value: Any) -> Any:
    return value


class _Planning:
    """One plan. Units are chosen by what they cost as they are in the record; when ids that had to
    be changed made them dearer, the oldest go again."""

    def __init__(
        self,
        state: SessionState,
        older: Iterable[Chunk],
        *,
        room: int | None,
        count: Callable[[Any], int],
        resolve: Callable[[Any], Any],
        workspace_note: str,
    ) -> None:
        self._state = state
        self._history = History(state, older, resolve)
        self._room = room
        self._counter = count
        self._counted: dict[int, tuple[dict[str, Any], int]] = {}
        self._resolve = resolve
        self._workspace_note = workspace_note

    def context(self) -> Context:
        turns = self._chosen()
        while True:
            context = self._written([unit for turn in turns for unit in turn])
            if self._room is None or context.tokens <= self._room or not _without_oldest(turns):
                return context

    def _chosen(self) -> list[list[Unit]]:
        """Turns as units, oldest first: the newest as far as it fits, older ones whole."""
        left = None if self._room is None else self._room - self._system({})[1]
        turns: list[list[Unit]] = []
        for turn in self._history.turns():
            units = list(self._history.units(turn))
            if not turns and left is not None:
                units = self._newest_of(units, left)
            cost = sum(self._cost(unit) for unit in units)
            if turns and left is not None and cost > left:
                break
            if units:
                turns.insert(0, units[::-1])
            left = None if left is None else left - cost
            if left is not None and left <= 0 and turns:
                break
        return turns

    def _newest_of(self, units: list[Unit], left: int) -> list[Unit]:
        """The newest units that fit beside the turn's user message, newest first."""
        request = units[-1:] if units and units[-1].is_request else []
        left -= sum(self._cost(unit) for unit in request)
        chosen: list[Unit] = []
        for unit in units[: len(units) - len(request)]:
            left -= self._cost(unit)
            if left < 0 and (chosen or request):
                break
            chosen.append(unit)
        return chosen + request

    def _cost(self, unit: Unit) -> int:
        return sum(self._tokens(message) for message in unit.messages)

    def _tokens(self, message: dict[str, Any]) -> int:
        """Counted once, and again when it was changed."""
        known = self._counted.get(id(message))
        if known is None or known[0] is not message:
            known = self._counted[id(message)] = (message, self._counter(message))
        return known[1]

    def _system(self, ids: dict[str, str]) -> tuple[str, int, int]:
        """The text, its tokens, and the halves of characters that were replaced in it."""
        cleaner = Cleaner()
        text = system_text(
            self._state,
            cleaner,
            ids=ids,
            resolve=self._resolve,
            workspace_note=self._workspace_note,
        )
        tokens = self._counter({"role": "system", "content": text, "seq": 0}) if text else 0
        return text, tokens, cleaner.replaced

    def _written(self, units: list[Unit]) -> Context:
        ids = _ids(units)
        changed = {
            key: new
            for unit, made in zip(units, ids, strict=True)
            for key, old, new in zip(unit.keys, unit.call_ids, made, strict=True)
            if new != old
        }
        renamed = [_renamed(unit, made) for unit, made in zip(units, ids, strict=True)]
        messages = _with_own_ids_once([message for unit in renamed for message in unit])
        if not messages and self._state.compaction is not None:
            # The summary tells all of it, and a model is asked with a message.
            messages = [{"role": "user", "content": OPENING, "seq": 0}]
        system, tokens, replaced = self._system(changed)
        tokens += sum(self._tokens(message) for message in messages)
        owned = sum("raw" in message for unit in units for message in unit.messages)
        left_out = msgspec.structs.replace(
            self._left_out(units),
            renamed_ids=sum(map(_count_changed, units, ids)),
            renamed_tools=sum(unit.tools for unit in units),
            surrogates=replaced + sum(unit.surrogates for unit in units),
            blocks=owned
            - sum("raw" in message for message in messages)
            + sum(unit.blocks for unit in units),
        )
        return Context(messages, system, tokens, left_out)

    def _left_out(self, units: list[Unit]) -> LeftOut:
        history = self._history
        told = {seq for unit in units for seq in unit.sources}
        orphans, duplicates = history.unanswered(told)
        missing = [message for message in history.read if message.seq not in told]
        return LeftOut(
            turns=sum(message.role == "user" for message in missing),
            messages=len(missing) - orphans - duplicates,
            unread=history.has_unread,
            orphans=orphans,
            duplicates=duplicates,
            empty=sum(unit.empty for unit in units),
        )


def _without_oldest(turns: list[list[Unit]]) -> bool:
    """Drop the oldest turn, or the oldest reply of the only one; False when nothing may go."""
    if len(turns) > 1:
        del turns[0]
        return True
    units = turns[0] if turns else []
    first = int(bool(units) and units[0].is_request)
    if len(units) < 2:
        return False
    del units[first]
    return True


def _ids(units: list[Unit]) -> list[list[str]]:
    """For each unit the ids that its calls have in this context."""
    legal = iter(legal_ids([call_id for unit in units for call_id in unit.call_ids]))
    return [[next(legal) for _ in unit.keys] for unit in units]


def _count_changed(unit: Unit, ids: list[str]) -> int:
    return sum(old != new for old, new in zip(unit.call_ids, ids, strict=True))


def _renamed(unit: Unit, ids: list[str]) -> list[dict[str, Any]]:
    """The unit's messages with the new ids; without the provider's item, which is never edited."""
    if not _count_changed(unit, ids):
        return unit.messages
    reply, *results = unit.messages
    calls = [{**call, "call_id": new} for call, new in zip(reply["tool_calls"], ids, strict=True)]
    answers = [{**result, "call_id": new} for result, new in zip(results, ids, strict=True)]
    return [{**_without_raw(reply), "tool_calls": calls}, *answers]


def _with_own_ids_once(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A provider refuses two items with one id; the first keeps it."""
    seen: set[str] = set()
    made = []
    for message in messages:
        blocks = blocks_of(message, message["raw"], None) if "raw" in message else None
        own = ids_of(blocks) if blocks is not None else set()
        made.append(message if seen.isdisjoint(own) else _without_raw(message))
        seen |= own
    return made


def _without_raw(message: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in message.items() if name != "raw"}
