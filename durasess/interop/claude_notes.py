"""What the lines of a Claude Code session mean that are no messages: boundaries, titles, notes."""

from __future__ import annotations

from collections.abc import Callable

from durasess.interop.claude_lines import Conversation, Maps
from durasess.interop.importer import Line, Mapped, kept, text

_TITLES = ("summary", "ai-title", "custom-title")
"""The last counts most."""


def note(conversation: Conversation, line: Line) -> Maps:
    """One line. Types that are not known are kept."""
    kind = line.item.get("type")
    known = _KINDS.get(kind) if isinstance(kind, str) else None
    if known is not None:
        yield from known(conversation, line)
    else:
        yield from conversation.aside(line, f"unknown type {kind!r:.60}")


def _system(conversation: Conversation, line: Line) -> Maps:
    """Boundaries, ends of turns, and notes for people."""
    subtype = line.item.get("subtype")
    if subtype == "compact_boundary":
        yield from conversation.flush()
        conversation.name(line, conversation.tree.tip)
        yield kept(line, "the boundary of a compaction: its summary follows")
    elif subtype == "turn_duration":
        yield from conversation.flush()
        conversation.name(line, conversation.tree.tip)
        drafts = conversation.timeline.finish(line.item.get("timestamp"), "succeeded")
        yield Mapped(line, drafts) if drafts else kept(line, "the end of a turn")
    else:
        yield from conversation.aside(line, f"system {subtype!s:.60}: no part of the conversation")


def _title(conversation: Conversation, line: Line) -> Maps:
    """The user's title before a model's, and that before a summary."""
    rank = _TITLES.index(line.item["type"])
    title = text(line.item.get(("summary", "aiTitle", "customTitle")[rank]))
    if rank < conversation.title_rank or not title:
        yield kept(line, "a title that another one stands before")
        return
    conversation.title_rank = rank
    yield Mapped(line, [conversation.timeline.event("session_changed", {"title": title}, None)])


def _aside(conversation: Conversation, line: Line) -> Maps:
    """What the model never sees."""
    yield from conversation.aside(line, f"{line.item['type']}: no part of the conversation")


_KINDS: dict[str, Callable[[Conversation, Line], Maps]] = {
    "system": _system,
    **dict.fromkeys(_TITLES, _title),
    **dict.fromkeys(
        [
            *("attachment", "progress", "queue-operation", "file-history-snapshot", "last-prompt"),
            *(
                "agent-name",
                "mode",
                "pr-link",
                "relocated",
                "file-history-delta",
                "permission-mode",
            ),
        ],
        _aside,
    ),
}
