"""Rollouts of Codex CLI: plain or compressed, archived, forked, rolled back, compacted.

A rollout holds two logs: what the model saw (`response_item`) and what was shown (`event_msg`). The
first is the conversation; of the second, what is not in the first counts. What lines mean is in
codex_items.py and codex_shown.py.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from durasess.interop import codex_items, codex_shown, places
from durasess.interop.aside import Numbers
from durasess.interop.codex_rollout import Rollout
from durasess.interop.importer import (
    End,
    Identity,
    Line,
    Lines,
    Mapped,
    member,
    reported,
    text,
)

_NAME = re.compile(r"rollout-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-(.+?)\.jsonl(?:\.zst)?")


class Codex:
    """The importer."""

    name = "codex"

    def find(self, root: str | None, environment: Mapping[str, str]) -> Iterator[str]:
        """All rollouts, archived ones too."""
        for directory in [root] if root else places.codex(environment):
            for path in places.files_below(directory, (".jsonl", ".jsonl.zst")):
                # A directory stands there when it cannot be read.
                if os.path.basename(path).startswith("rollout-") or os.path.isdir(path):
                    yield path

    def recognizes(self, first: list[Any]) -> bool:
        """Lines of its types with a payload. Others write `type` and `payload` too."""
        return any(map(_is_of_a_rollout, first))

    def identify(self, path: str, first: list[Any]) -> Identity:
        """By the first session_meta: a fork has those of its origin behind its own. A thread that
        was reverted has a second rollout, which only its file's name tells."""
        metas = (one.get("payload") for one in first if one.get("type") == "session_meta")
        meta = next((one for one in metas if isinstance(one, dict)), {})
        thread = text(meta.get("id"))
        name = _NAME.fullmatch(os.path.basename(path))
        if name is not None and (not thread or name[1].startswith(f"{thread}_")):
            thread = name[1]
        if not thread:
            raise ValueError("no session_meta with an id, and no id in the file's name")
        return Identity(
            foreign_id=thread,
            parent=_parent(meta),
            workspace=text(meta.get("cwd")),
            labels=_labels(meta),
        )

    def read(self, lines: Lines) -> Iterator[Mapped]:
        """A reply's items are held back until it is whole, shown messages until their turn ends."""
        rollout = Rollout(lines.decoded, Numbers(lines.scratch))
        for line in lines:
            if isinstance(line, End):
                yield from rollout.end()
            elif line.problem:
                yield reported(line)
            else:
                yield from _line(rollout, line)


def _is_of_a_rollout(item: dict[str, Any]) -> bool:
    kind, payload = item.get("type"), item.get("payload")
    if not isinstance(kind, str) or kind not in _KINDS or not isinstance(payload, dict):
        return False
    return kind not in ("response_item", "event_msg") or isinstance(payload.get("type"), str)


def _line(rollout: Rollout, line: Line) -> Iterator[Mapped]:
    kind, payload = line.item.get("type"), line.item.get("payload")
    known = _KINDS.get(kind) if isinstance(kind, str) else None
    if known is None:
        return iter([rollout.aside(line, f"unknown type {kind!r:.60}")])
    if not isinstance(payload, dict):
        return iter([rollout.aside(line, f"{kind} without a payload")])
    return known(rollout, line, payload)


def _parent(meta: dict[str, Any]) -> str:
    """The thread that a subagent works for."""
    source = meta.get("source")
    spawn = member(source, "subagent", "thread_spawn", "parent_thread_id")
    return text(meta.get("parent_thread_id")) or text(spawn)


def _labels(meta: dict[str, Any]) -> dict[str, str]:
    names = {
        "foreign_version": "cli_version",
        "forked_from": "forked_from_id",
        "agent": "agent_nickname",
        "originator": "originator",
    }
    return {label: meta[name] for label, name in names.items() if text(meta.get(name))}


def _aside(rollout: Rollout, line: Line, payload: dict[str, Any]) -> Iterator[Mapped]:
    yield rollout.aside(line, f"{line.item['type']}: no part of the conversation")


_KINDS: dict[str, Callable[[Rollout, Line, dict[str, Any]], Iterator[Mapped]]] = {
    "session_meta": codex_items.meta,
    "turn_context": codex_items.context,
    "response_item": codex_items.item,
    "event_msg": codex_shown.shown,
    "compacted": codex_items.compacted,
    "world_state": _aside,
    "inter_agent_communication": _aside,
    "inter_agent_communication_metadata": _aside,
    "token_usage_record": _aside,
    "retained_context": _aside,
    "security_risk_score": _aside,
    "realtime_item": _aside,
    "rollout_reference": _aside,
}
