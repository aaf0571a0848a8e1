"""What the lines of a Claude Code session mean in events, one after the other.

The tree: all lines of a reply and its results are one node of it. Where a line goes on from an
earlier node, what came after that is rewound, and what had been rewound before is said again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from durasess.interop.claude_reply import Counted, Reply, results_in
from durasess.interop.claude_users import Users
from durasess.interop.importer import (
    AtLine,
    Line,
    Lines,
    Mapped,
    between,
    kept,
)
from durasess.interop.timeline import Timeline
from durasess.interop.tree import NO_PARENT, ROOT, Tree

Maps = Iterator[Mapped]

_REMEMBERED = 4096
"""Replies whose usage was counted: lines of one are near each other."""

_FINAL = frozenset(["end_turn", "stop_sequence", "refusal"])
_CUT_OFF = frozenset(["max_tokens", "model_context_window_exceeded"])


class Conversation:
    """Maps messages one after the other. `title_rank`: how much the title counts that was given."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self.tree = Tree(lines.scratch)
        self.timeline = Timeline()
        self._reply: Reply | None = None
        self._told: Reply | None = None
        self._parts: set[int] = set()
        self._counted: OrderedDict[str, Counted] = OrderedDict()
        self._users = Users(self.timeline)
        self._is_sidechain: bool | None = None
        self.title_rank = 0

    def end(self) -> Maps:
        """The file ends here, for now."""
        yield from self.flush()
        if (rest := self.tree.rest()) is not None:
            yield from self._go(self._users.at, self.tree.tip, *rest)
        if drafts := self.timeline.end(self._users.at):
            yield between(drafts)

    def aside(self, line: Line, reason: str) -> Maps:
        """No part of the conversation, but perhaps of its tree."""
        self.name(line, self._placed(line))
        yield kept(line, reason)

    # -- the tree -----------------------------------------------------------------------------

    def _placed(self, line: Line) -> int:
        """The node that a line goes on from: the tip when it names none that is there."""
        parent = line.item.get("parentUuid")
        if "parentUuid" not in line.item:
            return self.tree.tip
        if parent is None:
            return ROOT
        node = self.tree.node(parent) if isinstance(parent, str) else None
        if node is None:
            line.note = NO_PARENT
            return self.tree.tip
        return node

    def name(self, line: Line, node: int) -> None:
        """A line belongs to a node."""
        if isinstance(line.item.get("uuid"), str):
            self.tree.name(line.item["uuid"], node)

    def _node(self, line: Line) -> Maps:
        """Where a message goes on from decides on the branch; it becomes the tip."""
        parent = self._placed(line)
        if parent != self.tree.tip:
            way = self.tree.way_to(parent, line.number)
            yield from self._go(line.item.get("timestamp"), parent, *way)
        self.name(line, self.tree.add(line.number, self.tree.tip))

    def _go(self, at: Any, tip: int, to: int, path: list[int]) -> Maps:
        """Back to where both ways part, then along the other one."""
        tree = self.tree
        drafts = self.timeline.end(at)
        drafts.append(self.timeline.event("rewound", {"to": AtLine(to)}, at))
        yield between(drafts)
        for node in path:
            tree.tip = node
            self.timeline.is_again = True
            told = 0
            for mapped in self._retold(node):
                if mapped.drafts:
                    mapped.again = True
                    told = mapped.line.number
                    yield mapped
            self.timeline.is_again = False
            tree.tell_again(node, told)
        tree.tip = tip
        # Results are of the node of their calls, so none came on another branch.
        self.timeline.unanswered_again()

    def _retold(self, node: int) -> Maps:
        """The messages of a node once more."""
        before = self.tree.told(self.tree.parent_of(node))
        first = self.tree.line_of(node)
        for number in range(first, self.tree.last_line_of(node) + 1):
            line = self._lines.reread(number, was_sound=number == first)
            if self._is_message(line) and self._tree_node(line) == node:
                yield from self._said(line, node, before)
        yield from self.flush()

    def _is_message(self, line: Line) -> bool:
        item = line.item
        return (
            isinstance(item, dict)
            and item.get("type") in ("user", "assistant")
            and isinstance(item.get("message"), dict)
            and (item.get("isSidechain") is True) == self._is_sidechain
        )

    def _tree_node(self, line: Line) -> int | None:
        uuid = line.item.get("uuid")
        return self.tree.node(uuid) if isinstance(uuid, str) else None

    # -- messages -----------------------------------------------------------------------------

    def message(self, line: Line, kind: str) -> Maps:
        """A line of the user's or of the model's."""
        item = line.item
        if self._is_sidechain is None:
            self._is_sidechain = item.get("isSidechain") is True
        if (item.get("isSidechain") is True) != self._is_sidechain:
            yield kept(line, "of a subagent: no part of this conversation")
            return
        if isinstance(item.get("uuid"), str) and self.tree.node(item["uuid"]) is not None:
            yield kept(line, "a line with this uuid was there before")
            return
        if kind == "assistant":
            is_joined = self._continues(line)
            if is_joined and self._reply is None:
                # Said again, the reply has the same parts: calls are found by their place in them.
                self._parts.add(line.number)
        else:
            is_joined = bool(results_in(line)) and self._answers(line)
        if is_joined:
            self._join(line)
        else:
            yield from self.flush()
            yield from self._node(line)
        yield from self._said(line, self.tree.tip, line.number - 1)

    def _join(self, line: Line) -> None:
        """It belongs to the newest reply, whichever of its lines it names as its parent."""
        self.name(line, self.tree.tip)
        self.tree.stretch(self.tree.tip, line.number)

    def _continues(self, line: Line) -> bool:
        """Whether a line is of the newest reply, also where that was told without it because an
        import ended there."""
        if self._reply is not None:
            return self._reply.has(line)
        told, tip = self._told, self.tree.tip
        return told is not None and told.has(line) and told.node == tip == self._placed(line)

    def _answers(self, line: Line) -> bool:
        """Whether a result is of the newest reply: it goes on from there or from nowhere else."""
        return self._placed(line) == self.tree.tip

    def _said(self, line: Line, node: int, before: int) -> Maps:
        """`before` is the line of what was told before it."""
        item = line.item
        if item["type"] == "assistant":
            if self._reply is None or not self._reply.has(line) or line.number in self._parts:
                if self._reply is not None:
                    yield from self.flush()
                self._reply = Reply(node)
            self._reply.add(line)
        elif results_in(line) and self._reply is not None:
            # It may be between the lines of the reply.
            self._reply.others.append(line)
        else:
            yield self._users.map(line, before)

    def flush(self) -> Maps:
        """The reply is whole."""
        reply, self._reply = self._reply, None
        if reply is None:
            return
        self._told = reply
        first, *others = reply.lines
        self._users.at = reply.lines[-1].item.get("timestamp")
        data = reply.data()
        self._count(reply, data)
        drafts = self.timeline.reply(first.item.get("timestamp"), first, data, reply.calls)
        if reply.error:
            drafts += self.timeline.finish(self._users.at, "failed", error=reply.error)
        elif not reply.calls and reply.stop_reason in _FINAL:
            drafts += self.timeline.finish(self._users.at, "succeeded")
        elif not reply.calls and reply.stop_reason in _CUT_OFF:
            drafts += self.timeline.finish(self._users.at, "failed", error=reply.stop_reason)
        self._users.answered = not reply.calls
        yield Mapped(first, drafts)
        for line in others:
            yield Mapped(line)
        for line in reply.others:
            yield self._users.map(line, first.number)

    def _count(self, reply: Reply, data: dict[str, Any]) -> None:
        """Each message once, and of its usage what was not counted with an earlier part of it: an
        import may have ended between its lines."""
        if not reply.message_id:
            data["usage"] = reply.usage.as_data(Counted())
            return
        before = self._counted.get(reply.identity)
        data["usage"] = reply.usage.as_data(before or Counted())
        if before is not None and not self.timeline.is_again:
            data["part"] = True
        self._counted[reply.identity] = reply.usage.most(before or Counted())
        self._counted.move_to_end(reply.identity)
        if len(self._counted) > _REMEMBERED:
            self._counted.popitem(last=False)
