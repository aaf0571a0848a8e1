"""What the events for people in a Codex rollout mean: turns, tokens, rollbacks, names, errors; and
messages, where the model's own log has none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from durasess.interop.codex_rollout import Maps, Rollout
from durasess.interop.importer import AtLine, Line, Mapped, member, text
from durasess.session import usage
from durasess.session.state import Usage


def shown(rollout: Rollout, line: Line, payload: dict[str, Any]) -> Maps:
    """An event for people."""
    kind = text(payload.get("type"))
    known = _SHOWN.get(kind)
    if known is not None:
        return known(rollout, line, payload)
    name = "an event for people" if kind in _FOR_PEOPLE else "unknown event"
    return rollout.beside(rollout.aside(line, f"{name}: {kind:.60}"))


def _message(rollout: Rollout, line: Line, payload: dict[str, Any]) -> Maps:
    role = "user" if payload.get("type") == "user_message" else "assistant"
    said = text(payload.get("message"))
    key = (role, hash(said))
    if rollout.said[key] > 0:
        rollout.said[key] -= 1
        yield from rollout.beside(rollout.aside(line, "the same as an item of the model's log"))
    elif not said:
        yield from rollout.beside(rollout.aside(line, "a message without a text"))
    else:
        yield from rollout.wait(key, Mapped(line))


def _begin(rollout: Rollout, line: Line, payload: dict[str, Any]) -> Maps:
    yield from rollout.flush()
    yield from rollout.end_turn()
    at = rollout.start(line)
    drafts = rollout.timeline.end(at)
    rollout.is_turn, rollout.error = True, ""
    yield Mapped(line, drafts) if drafts else rollout.aside(line, "the beginning of a turn")


def _complete(rollout: Rollout, line: Line, payload: dict[str, Any]) -> Maps:
    yield from rollout.flush()
    yield from rollout.end_turn()
    at = rollout.start(line)
    status = "failed" if rollout.error else "succeeded"
    if payload.get("type") == "turn_aborted":
        status = "cancelled"
    error = rollout.error or text(payload.get("reason"))
    drafts = rollout.timeline.finish(at, status, error=error)
    rollout.is_turn, rollout.error = False, ""
    yield (
        Mapped(line, drafts) if drafts else rollout.aside(line, "the end of a turn without a run")
    )


def _tokens(rollout: Rollout, line: Line, payload: dict[str, Any]) -> Maps:
    """Cumulative counters of the session, or of the program since it was started."""
    if rollout.reply is not None:
        yield from rollout.flush()
    at = rollout.start(line)
    reported = member(payload, "info", "total_token_usage")
    if not isinstance(reported, dict):
        yield rollout.aside(line, "token_count without counters")
        return
    counters = _counters(reported)
    before, rollout.counters = rollout.counters, counters
    last = member(payload, "info", "last_token_usage")
    if counters != before and isinstance(last, dict) and _counters(last) == counters:
        # All of it is of the last call: the program was started again, and the counters with it.
        before = usage.NOTHING
    delta = usage.since(counters, before)
    data = {
        "usage": usage.as_data(delta),
        "source": "codex",
        "counters": usage.as_data(counters),
    }
    yield Mapped(line, [rollout.timeline.event("usage_recorded", data, at)])


def _counters(reported: dict[str, Any]) -> Usage:
    return usage.from_data(
        {
            "prompt": reported.get("input_tokens", 0),
            "completion": reported.get("output_tokens", 0),
            "total": reported.get("total_tokens", 0),
        }
    )


def _rolled_back(rollout: Rollout, line: Line, payload: dict[str, Any]) -> Maps:
    """The newest turns of the user do not count any more."""
    yield from rollout.flush()
    yield from rollout.end_turn()
    at = rollout.start(line)
    count = payload.get("num_turns")
    turns = rollout.turns
    if not isinstance(count, int) or count < 1 or not len(turns):
        yield rollout.aside(line, "a rollback of no turns")
        return
    left = max(len(turns) - count, 0)
    before = turns[left]
    turns.cut(left)
    drafts = rollout.timeline.end(at)
    drafts.append(rollout.timeline.event("rewound", {"to": AtLine(before)}, at))
    yield Mapped(line, drafts)


def _named(rollout: Rollout, line: Line, payload: dict[str, Any]) -> Maps:
    yield from rollout.flush()
    name = text(payload.get("thread_name")) or text(payload.get("name"))
    at = rollout.start(line)
    if name:
        yield Mapped(line, [rollout.timeline.event("session_changed", {"title": name}, at)])
    else:
        yield rollout.aside(line, "a name that is none")


def _failed(rollout: Rollout, line: Line, payload: dict[str, Any]) -> Maps:
    rollout.error = text(payload.get("message")) or "error"
    yield from rollout.beside(rollout.aside(line, "an error: it is that of the run"))


_SHOWN: dict[str, Callable[[Rollout, Line, dict[str, Any]], Maps]] = {
    "user_message": _message,
    "agent_message": _message,
    "task_started": _begin,
    "turn_started": _begin,
    "task_complete": _complete,
    "turn_complete": _complete,
    "turn_aborted": _complete,
    "token_count": _tokens,
    "thread_rolled_back": _rolled_back,
    "thread_name_updated": _named,
    "error": _failed,
}

_FOR_PEOPLE = frozenset(
    [
        *("agent_reasoning", "context_compacted", "entered_review_mode", "exited_review_mode"),
        *("patch_apply_end", "mcp_tool_call_end", "web_search_end", "thread_goal_updated"),
        *("view_image_tool_call", "sub_agent_activity", "item_completed", "exec_command_end"),
    ]
)
