"""Sessions of the pi coding agent, formats 1 to 3: a file of entries, since format 2 a tree.

The last entry's branch is the conversation: where an entry goes on from an earlier one, what came
after that is rewound, and what had been rewound before is said again. What each kind of entry means
is in pi_entries.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from durasess.interop import places
from durasess.interop.aside import Ids
from durasess.interop.importer import (
    AtLine,
    End,
    Identity,
    Line,
    Lines,
    Mapped,
    between,
    kept,
    member,
    reported,
    text,
)
from durasess.interop.pi_entries import Entries
from durasess.interop.tree import NO_PARENT, ROOT, Tree

_ENTRY_TYPES = frozenset(["message", "model_change", "thinking_level_change", "compaction"])


class Pi:
    """The importer."""

    name = "pi"

    def find(self, root: str | None, environment: Mapping[str, str]) -> Iterator[str]:
        """All files below the directory of sessions, one directory a project there."""
        return places.files_below(root or places.pi(environment), (".jsonl",))

    def recognizes(self, first: list[Any]) -> bool:
        """The header, or entries of a file without one."""
        if not first:
            return False
        head = first[0]
        if head.get("type") == "session":
            return isinstance(head.get("id"), str) and "createdAt" not in head
        if head.get("type") == "message":
            return isinstance(member(head, "message", "role"), str) and "uuid" not in head
        return text(head.get("type")) in _ENTRY_TYPES and "uuid" not in head

    def identify(self, path: str, first: list[Any]) -> Identity:
        """By the header; a file without one by its name."""
        head = first[0] if first[0].get("type") == "session" else {}
        stem = os.path.basename(path).removesuffix(".jsonl")
        labels = {"foreign_version": str(head.get("version", 1))}
        origin = text(head.get("parentSession")) or text(head.get("branchedFrom"))
        if origin:
            labels["forked_from"] = origin
        model, provider = text(head.get("modelId")), text(head.get("provider"))
        config = {"model": model, "provider": provider}
        config["thinking"] = text(head.get("thinkingLevel"))
        return Identity(
            foreign_id=text(head.get("id")) or stem,
            workspace=text(head.get("cwd")),
            labels=labels,
            config={name: value for name, value in config.items() if value},
        )

    def read(self, lines: Lines) -> Iterator[Mapped]:
        """One event or more for each entry, each at once."""
        reading = _Reading(lines)
        for line in lines:
            if isinstance(line, End):
                yield from reading.end()
            elif line.problem:
                yield reported(line)
            else:
                yield from reading.entry(line)


class _Reading:
    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._tree = Tree(lines.scratch)
        self._entries = Entries(self._tree, Ids(lines.scratch))

    def end(self) -> Iterator[Mapped]:
        if (rest := self._tree.rest()) is not None:
            yield from self._go(self._entries.at, self._tree.tip, *rest)
        if drafts := self._entries.end():
            yield between(drafts)

    def entry(self, line: Line) -> Iterator[Mapped]:
        item = line.item
        if item.get("type") == "session":
            yield self._header(line)
            return
        tree = self._tree
        if isinstance(item.get("id"), str):
            if tree.node(item["id"]) is not None:
                yield kept(line, "an entry with this id was there before")
                return
            parent = self._parent(line, item)
            if parent != tree.tip:
                way = tree.way_to(parent, line.number)
                yield from self._go(item.get("timestamp"), parent, *way)
        node = tree.add(line.number, tree.tip)
        if isinstance(item.get("id"), str):
            tree.name(item["id"], node)
        yield self._entries.map(line)

    def _header(self, line: Line) -> Mapped:
        if self._tree.tip != ROOT:
            return kept(line, "a second header")
        return Mapped(line)

    def _parent(self, line: Line, item: dict[str, Any]) -> int:
        """The node that the entry goes on from: the tip when it names none that is there."""
        parent = item.get("parentId")
        if parent is None:
            return ROOT
        node = self._tree.node(parent) if isinstance(parent, str) else None
        if node is None:
            line.note = NO_PARENT
            return self._tree.tip
        return node

    def _go(self, at: Any, tip: int, to: int, path: list[int]) -> Iterator[Mapped]:
        """Back to where both ways part, then along the other one."""
        tree = self._tree
        yield between(self._entries.leave(at, AtLine(to)))
        for node in path:
            tree.tip = node
            mapped = self._again(tree.line_of(node))
            if mapped.drafts:
                yield mapped
            tree.tell_again(node, mapped.line.number if mapped.drafts else 0)
        tree.tip = tip
        for number in self._entries.elsewhere():
            yield self._again(number)

    def _again(self, number: int) -> Mapped:
        before = self._lines.reread(number, was_sound=True)
        return Mapped(before, self._entries.again(before).drafts, again=True)
