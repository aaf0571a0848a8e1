"""What is held back and open while a Codex rollout is read.

The items of one reply (reasoning, message, calls) become one message; it is whole when an item of
another kind comes. Shown messages that the model's log has too are kept, and not said twice. What
each kind of line means is in codex_items.py and codex_shown.py.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from typing import Any

from durasess.engine.types import Draft
from durasess.interop.aside import Numbers
from durasess.interop.codex_reply import Decoded, Reply
from durasess.interop.importer import Line, Mapped, Taken, between, kept, text, texts
from durasess.interop.timeline import Timeline
from durasess.session.state import Usage

Maps = Iterator[Mapped]

_Said = tuple[str, int]
"""Who said it, and the hash of the text."""

_MOST_SAID = 4096
"""Texts of one turn that are remembered."""


class Rollout:
    """What is held back and what is open while a rollout is read. What methods give may be of
    earlier lines, too.

    `waiting` was shown and may come in the model's log, `said` is there and may be shown,
    `said_first` was taken from what was shown; `speakers` have something in the log of this turn.
    `turns` are the lines before the user's requests, `config`, `workspace`, `counters` and
    `provider` what was said last, `error` is that of the open turn; `is_cut` while an import has
    ended in a reply that has a message.
    """

    def __init__(self, decoded: Decoded, turns: Numbers) -> None:
        self.decoded = decoded
        self.timeline = Timeline()
        self.reply: Reply | None = None
        self.waiting: dict[_Said, deque[Mapped]] = {}
        self.said: Counter[_Said] = Counter()
        self.speakers: set[str] = set()
        self.turns = turns
        self.config: dict[str, Any] = {}
        self.workspace = ""
        self.counters = Usage()
        self.developer = 0
        self.has_meta = False
        self.is_turn = False
        self.error = ""
        self.provider = "openai"
        self.at: Any = None
        self.said_first: Counter[_Said] = Counter()
        self.is_cut = False

    # -- holding back -------------------------------------------------------------------------

    def end(self) -> Maps:
        """The file ends here, for now."""
        is_cut = self.reply is not None and self.reply.has_message
        yield from self.flush()
        self.is_cut = is_cut
        yield from self._decide()
        if drafts := self.timeline.end(self.at):
            yield between(drafts)

    def flush(self) -> Maps:
        """The reply is whole."""
        reply, self.reply = self.reply, None
        if reply is None:
            return
        data = reply.data(self.provider, text(self.config.get("model")))
        if reply.is_part:
            data["part"] = True
        first, *others = reply.lines
        drafts = self.timeline.reply(first.item.get("timestamp"), first, data, reply.calls)
        for index, line in enumerate([first, *others]):
            taken = (Taken(("payload",), ("raw", "item", index)),)
            yield Mapped(line, [] if index else drafts, taken=taken)
        yield from reply.asides

    def end_turn(self) -> Maps:
        """What was shown in a turn and is not in the model's log by now will not come."""
        yield from self._decide()
        self.speakers.clear()
        self.said.clear()
        self.said_first.clear()

    def _decide(self) -> Maps:
        """Where a turn's log of the model has nothing of somebody, what was shown is all there is;
        else it was only shown in another form."""
        waiting, self.waiting = self.waiting, {}
        shown = [(one.line.number, key, one.line) for key, ones in waiting.items() for one in ones]
        for number, key, line in sorted(shown):
            if key[0] in self.speakers:
                yield kept(line, "shown in another form than in the model's log")
                continue
            self.said_first[key] += 1
            at, said = line.item.get("timestamp"), line.item["payload"].get("message")
            part = Taken(("payload", "message"), ("content",))
            if key[0] == "user":
                self.turns.append(number - 1)
                drafts = self.user(at, said)
            else:
                drafts = self.timeline.reply(at, line, {"content": said}, [])
            yield Mapped(line, drafts, taken=(part,))

    def aside(self, line: Line, reason: str) -> Mapped:
        """A line that is no part of the conversation."""
        return kept(line, reason)

    def start(self, line: Line) -> Any:
        """The time of a line, at which what is open ends if nothing comes behind it. A reply that
        an import ended in goes on with the next line only."""
        self.is_cut = False
        self.at = line.item.get("timestamp")
        return self.at

    def user(self, at: Any, content: Any) -> list[Draft]:
        """A request begins a run; a second one in the same turn is said to the run that is open."""
        if self.is_turn and self.timeline.run_id is not None:
            return self.timeline.user(at, content)
        return self.timeline.begin(at, content)

    def match(self, role: str, line: Line, content: Any) -> tuple[list[Mapped], bool]:
        """The same was shown, or will be: all of it, or a part without its pictures. What becomes
        of the shown line; and whether it was said from there already."""
        parts = texts(content)
        keys = {(role, hash(one)) for one in ("\n".join(parts), *parts)}
        if first := {key for key in keys if self.said_first[key] > 0}:
            self.said_first.subtract(first)
            return [], True
        self.speakers.add(role)
        for key in keys & self.waiting.keys():
            ones = self.waiting[key]
            shown = ones.popleft().line
            if not ones:
                del self.waiting[key]
            return [kept(shown, "the same as a later item of the model's log")], False
        if len(self.said) > _MOST_SAID:
            self.said.clear()
        self.said.update(keys)
        return [], False

    def wait(self, key: _Said, mapped: Mapped) -> Maps:
        """It was shown, and the model's log may have it later in this turn."""
        self.waiting.setdefault(key, deque()).append(mapped)
        if len(self.waiting) > _MOST_SAID:
            yield from self._decide()

    def beside(self, mapped: Mapped) -> Maps:
        """What comes between the items of a reply does not end it, and is told behind it."""
        if self.reply is None:
            yield mapped
        else:
            self.reply.asides.append(mapped)
