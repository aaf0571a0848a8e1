"""What the model's own log in a Codex rollout means in events: settings, items, compactions."""

from __future__ import annotations

from typing import Any

from durasess.interop.codex_reply import REPLY_TYPES, Reply
from durasess.interop.codex_rollout import Maps, Rollout
from durasess.interop.importer import AtLine, Line, Mapped, Taken, dicts, member, text, texts

_CONTENT = (Taken(("payload", "content"), ("content",)),)
_REQUEST = (Taken(("payload", "content"), ("request",)),)
_OUTPUT = (Taken(("payload", "output"), ("output",)),)

_INJECTED = (
    "<environment_context>",
    "<user_instructions>",
    "<permissions instructions>",
    "<collaboration_mode>",
    "<turn_aborted>",
    "<subagent_notification>",
    "<user_shell_command>",
    "<skill>",
    "<skills_instructions>",
    "# AGENTS.md instructions",
)
"""How texts begin that the program itself puts in as the user's."""

_SAID = "the same as what was shown before, where an earlier import ended"

_SYSTEM_PARTS = 8
"""Messages of the developer that are told apart; a later one replaces the last of them."""


def meta(rollout: Rollout, line: Line, payload: dict[str, Any]) -> Maps:
    """Whose session this is; a later one was copied with the history of another."""
    at = rollout.start(line)
    if rollout.has_meta:
        yield rollout.aside(line, "session_meta of the session that this one was forked from")
        return
    rollout.has_meta = True
    rollout.provider = text(payload.get("model_provider")) or "openai"
    rollout.workspace = text(payload.get("cwd"))
    drafts = []
    instructions = member(payload, "base_instructions", "text") or payload.get("instructions")
    if text(instructions):
        data = {"name": "prompt", "content": instructions}
        drafts.append(rollout.timeline.event("system_message", data, at))
    yield Mapped(line, drafts)


def context(rollout: Rollout, line: Line, payload: dict[str, Any]) -> Maps:
    """The settings of a turn: what changed of them."""
    if rollout.reply is not None:
        yield from rollout.flush()
    at = rollout.start(line)
    names = ("model", "effort", "approval_policy", "sandbox_policy")
    given = {name: payload[name] for name in names if payload.get(name) is not None}
    changed = {name: one for name, one in given.items() if rollout.config.get(name) != one}
    drafts = []
    cwd = text(payload.get("cwd"))
    if cwd and cwd != rollout.workspace:
        rollout.workspace = cwd
        drafts.append(rollout.timeline.event("workspace_bound", {"path": cwd}, at))
    if changed:
        rollout.config |= changed
        drafts.append(rollout.timeline.event("config_changed", {"config": changed}, at))
    yield Mapped(line, drafts) if drafts else rollout.aside(line, "turn_context: nothing changed")


def item(rollout: Rollout, line: Line, payload: dict[str, Any]) -> Maps:
    """An item of the model's own log."""
    kind, role = text(payload.get("type")), payload.get("role")
    if kind in REPLY_TYPES:
        _gather(rollout, line, payload)
        return iter(())
    if kind == "message" and role == "assistant":
        return _reply_message(rollout, line, payload)
    return _other_item(rollout, line, payload, kind)


def _other_item(rollout: Rollout, line: Line, payload: dict[str, Any], kind: str) -> Maps:
    """One that ends a reply."""
    role = payload.get("role")
    if rollout.reply is not None:
        yield from rollout.flush()
    if kind == "message" and role == "user":
        yield from _user_item(rollout, line, payload)
    elif kind == "message" and role in ("developer", "system"):
        yield _developer_item(rollout, line, payload)
    elif kind.endswith("_output"):
        yield _output(rollout, line, payload)
    else:
        yield rollout.aside(line, f"{kind:.60}: no part of the conversation")


def _reply_message(rollout: Rollout, line: Line, payload: dict[str, Any]) -> Maps:
    shown, is_said = rollout.match("assistant", line, payload.get("content"))
    yield from shown
    if is_said:
        rollout.start(line)
        yield from rollout.beside(rollout.aside(line, _SAID))
    else:
        _gather(rollout, line, payload)


def _gather(rollout: Rollout, line: Line, payload: dict[str, Any]) -> None:
    """An item of the reply that is open, or of a new one."""
    is_part = rollout.is_cut
    rollout.start(line)
    if rollout.reply is None:
        rollout.reply = Reply(rollout.decoded, is_part=is_part)
    rollout.reply.add(line, payload)


def _user_item(rollout: Rollout, line: Line, payload: dict[str, Any]) -> Maps:
    content = payload.get("content") or ""
    is_injected = "".join(texts(content)[:1]).lstrip().startswith(_INJECTED)
    if not is_injected:
        shown, is_said = rollout.match("user", line, content)
        yield from shown
        if is_said:
            yield rollout.aside(line, _SAID)
            return
        rollout.turns.append(line.number - 1)
    at = rollout.start(line)
    drafts = rollout.timeline.user(at, content) if is_injected else rollout.user(at, content)
    yield Mapped(line, drafts, taken=(*_CONTENT, *_REQUEST))


def _developer_item(rollout: Rollout, line: Line, payload: dict[str, Any]) -> Mapped:
    at = rollout.start(line)
    rollout.developer = min(rollout.developer + 1, _SYSTEM_PARTS)
    content = payload.get("content") or ""
    data = {"name": f"developer_{rollout.developer}", "content": content}
    return Mapped(line, [rollout.timeline.event("system_message", data, at)], taken=_CONTENT)


def _output(rollout: Rollout, line: Line, payload: dict[str, Any]) -> Mapped:
    at = rollout.start(line)
    call_id = text(payload.get("call_id"))
    key = rollout.timeline.answered(call_id)
    if key is None:
        return rollout.aside(line, "a result of no call, or a second one")
    output = payload.get("output", payload.get("tools"))
    ok = member(output, "success") is not False
    drafts = rollout.timeline.result(at, key, call_id, output, ok=ok)
    return Mapped(line, drafts, taken=_OUTPUT)


def compacted(rollout: Rollout, line: Line, payload: dict[str, Any]) -> Maps:
    """A summary tells everything before; the messages that it keeps are part of it."""
    if rollout.reply is not None:
        yield from rollout.flush()
    at = rollout.start(line)
    summary = text(payload.get("message"))
    if not summary:
        history = dicts(payload.get("replacement_history"))
        summary = "\n\n".join(one for item in history for one in texts(item.get("content")))
    data = {"summary": summary, "through": AtLine(line.number - 1)}
    yield Mapped(line, [rollout.timeline.event("context_compacted", data, at)])
