"""Sessions of Claude Code: one file a session, one content block a line, a tree by parentUuid.

Lines of one reply share their message's id and become one message; the results of its calls, which
may stand between them, come behind it. What lines mean is in claude_lines.py and
claude_notes.py.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from durasess.interop import places
from durasess.interop.claude_lines import Conversation
from durasess.interop.claude_notes import note
from durasess.interop.importer import End, Identity, Line, Lines, Mapped, reported, text

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)

_TYPES = frozenset(
    [
        *("user", "assistant", "system", "summary", "attachment", "progress", "queue-operation"),
        *("file-history-snapshot", "last-prompt", "custom-title", "ai-title", "agent-name", "mode"),
    ]
)


class ClaudeCode:
    """The importer."""

    name = "claude-code"

    def find(self, root: str | None, environment: Mapping[str, str]) -> Iterator[str]:
        """All sessions and those of their subagents."""
        return places.files_below(root or places.claude_code(environment), (".jsonl",))

    def recognizes(self, first: list[Any]) -> bool:
        """Lines of its types that name a session, or a summary of one."""
        return any(
            one.get("type") in _TYPES
            and ("sessionId" in one or "leafUuid" in one or "uuid" in one or "snapshot" in one)
            for one in first
            if isinstance(one.get("type"), str)
        )

    def identify(self, path: str, first: list[Any]) -> Identity:
        """By the file's name where that is an id, since lines may be copied from another session;
        else by the lines. A subagent's file is a session of its own."""
        stem = os.path.basename(path).removesuffix(".jsonl")
        named = next(
            (text(one.get("sessionId")) for one in first if text(one.get("sessionId"))), ""
        )
        said: dict[str, Any] = next((one for one in first if text(one.get("cwd"))), {})
        agent = text(said.get("agentId")) if said.get("isSidechain") is True else ""
        foreign_id = stem if _UUID.fullmatch(stem) else named
        if agent:
            foreign_id = f"{named}.{agent}"
        if not foreign_id:
            raise ValueError("no line has a sessionId, and the file's name is none")
        labels = {
            "foreign_version": text(said.get("version")),
            "branch": text(said.get("gitBranch")),
        }
        return Identity(
            foreign_id=foreign_id,
            parent=named if agent else "",
            workspace=text(said.get("cwd")),
            labels={name: value for name, value in labels.items() if value},
        )

    def read(self, lines: Lines) -> Iterator[Mapped]:
        """A reply's lines and its results are held back until it is whole."""
        conversation = Conversation(lines)
        for line in lines:
            if isinstance(line, End):
                yield from conversation.end()
            elif line.problem:
                yield reported(line)
            else:
                yield from _line(conversation, line)


def _line(conversation: Conversation, line: Line) -> Iterator[Mapped]:
    kind = line.item.get("type")
    if kind in ("user", "assistant") and isinstance(line.item.get("message"), dict):
        return conversation.message(line, kind)
    return note(conversation, line)
