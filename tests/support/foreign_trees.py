"""Sessions of pi and Claude Code as trees that were gone back and forth in, made by chance; and
what is in them, counted straight from the lines by what the formats say and nothing else."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

from tests.support.foreign import (
    PI_HEADER,
    Lines,
    claude,
    claude_block,
    claude_result,
    claude_text,
    claude_use,
    claude_user,
    pi_entry,
    pi_reply,
    pi_result,
    pi_user,
)


class Expected(NamedTuple):
    """`said` are the texts of users and models on the branch of the last line, in order; the rest
    counts every message, call, call without a result and token once."""

    said: list[tuple[str, str]]
    messages: int
    calls: int
    open_calls: int
    completion: int


def pi_tree(chance: random.Random, length: int) -> Lines:
    """A header, and entries of which some go on from any entry before."""
    lines: Lines = [PI_HEADER]
    parents: dict[str, str | None] = {}
    asked: dict[str, str] = {}
    tip: str | None = None
    for number in range(length):
        name = f"e{number}"
        if parents and chance.random() < 0.25:
            tip = chance.choice([*parents, None])
        path = _up(parents, tip)
        waiting = [call for call, entry in asked.items() if entry in path]
        kind = chance.random()
        if kind < 0.25:
            made = pi_user(name, tip, f"u{number}")
        elif kind < 0.6:
            calls = tuple(f"c{number}.{index}" for index in range(chance.choice([0, 0, 1, 2])))
            made = pi_reply(name, tip, f"a{number}", calls=calls)
            asked |= dict.fromkeys(calls, name)
        elif kind < 0.8 and waiting:
            call = chance.choice(waiting)
            del asked[call]
            made = pi_result(name, tip, call, f"r{number}")
        elif kind < 0.87:
            made = pi_entry(name, tip, type="custom_message", content=f"u{number}")
        else:
            other = chance.choice(["label", "custom", "model_change", "session_info", "of later"])
            made = pi_entry(name, tip, type=other, name="n", modelId="m", provider="p")
        lines.append(made)
        parents[name], tip = tip, name
    return lines


def pi_expected(lines: Lines) -> Expected:
    """The last entry is the leaf."""
    entries = {one["id"]: one for one in lines[1:]}
    parents = {name: one["parentId"] for name, one in entries.items()}
    path = [entries[name] for name in reversed(_up(parents, lines[-1]["id"]))]
    said = [_pi_said(one) for one in entries.values()]
    replies = [one["message"] for one in entries.values() if _pi_said(one)[:1] == ("assistant",)]
    calls = [part["id"] for one in replies for part in one["content"] if part["type"] == "toolCall"]
    messages = [one.get("message", {}) for one in entries.values()]
    done = {one["toolCallId"] for one in messages if one.get("role") == "toolResult"}
    return Expected(
        said=[one for one in map(_pi_said, path) if one],
        messages=sum(map(bool, said)),
        calls=len(calls),
        open_calls=len(set(calls) - done),
        completion=sum(one["usage"]["output"] for one in replies),
    )


def _pi_said(entry: dict[str, Any]) -> Any:
    message = entry.get("message", {})
    if message.get("role") == "user":
        return "user", message["content"]
    if message.get("role") == "assistant":
        return "assistant", message["content"][0]["text"]
    return ("user", entry["content"]) if entry["type"] == "custom_message" else ()


def claude_tree(chance: random.Random, length: int) -> Lines:
    """Requests, and replies over several lines with results between and behind them; notes."""
    lines: Lines = []
    ends: list[str | None] = [None]
    tip: str | None = None
    while len(lines) < length:
        number = len(lines)
        if chance.random() < 0.25:
            tip = chance.choice(ends)
        kind = chance.random()
        if kind < 0.35:
            lines.append(claude_user(f"l{number}", tip, f"u{number}"))
            tip = f"l{number}"
        elif kind < 0.45:
            lines.append({"type": "queue-operation", "operation": "enqueue", "content": "x"})
            continue
        elif kind < 0.52 and tip == ends[-1]:
            lines.append(claude("system", f"l{number}", tip, subtype="stop_hook_summary"))
            tip = f"l{number}"
        else:
            tip = _claude_reply(chance, lines, tip)
        ends.append(tip)
    return lines


def _claude_reply(chance: random.Random, lines: Lines, tip: str | None) -> str:
    message = f"m{len(lines)}"
    waiting: list[str] = []
    for index in range(chance.randint(1, 3)):
        name = f"l{len(lines)}"
        is_call = index > 0 and chance.random() < 0.6
        block = claude_use(f"t{name}") if is_call else claude_text(f"a{name}")
        lines.append(claude_block(name, tip, message, block, output=index + 1))
        tip = name
        if is_call:
            waiting.append(name)
        if waiting and chance.random() < 0.3:
            tip = _claude_result(lines, waiting.pop(), tip)
    for asker in waiting:
        if chance.random() < 0.7:
            tip = _claude_result(lines, asker, tip)
    return str(tip)


def _claude_result(lines: Lines, asker: str, tip: str | None) -> str:
    name = f"l{len(lines)}"
    lines.append(claude_result(name, tip, f"t{asker}", f"r{name}"))
    return name


def claude_expected(lines: Lines) -> Expected:
    """The newest line with an id is the leaf; lines of one message are one."""
    named = {one["uuid"]: one for one in lines if "uuid" in one}
    parents = {name: one["parentUuid"] for name, one in named.items()}
    path = [named[name] for name in reversed(_up(parents, list(named)[-1]))]
    said: dict[str, tuple[str, str]] = {}
    for one in path:
        role, text = _claude_said(one)
        if role:
            name = one["message"].get("id", one["uuid"])
            said[name] = (role, said.get(name, ("", ""))[1] + text)
    replies: dict[str, int] = {}
    calls, done = set(), set()
    for one in named.values():
        if one["type"] == "assistant":
            message = one["message"]
            replies[message["id"]] = message["usage"]["output_tokens"]
        content = one.get("message", {}).get("content", "")
        for block in content if isinstance(content, list) else ():
            if block["type"] == "tool_use":
                calls.add(block["id"])
            elif block["type"] == "tool_result":
                done.add(block["tool_use_id"])
    return Expected(
        said=list(said.values()),
        messages=sum(_claude_said(one)[0] == "user" for one in named.values()) + len(replies),
        calls=len(calls),
        open_calls=len(calls - done),
        completion=sum(replies.values()),
    )


def _claude_said(line: dict[str, Any]) -> tuple[str, str]:
    if line["type"] not in ("user", "assistant"):
        return "", ""
    content = line["message"]["content"]
    if isinstance(content, str):
        return "user", content
    if content[0]["type"] == "tool_result":
        return "", ""
    return "assistant", content[0].get("text", "")


def _up(parents: dict[str, str | None], name: str | None) -> list[str]:
    """An entry, its parent, and so on."""
    found = []
    while name is not None:
        found.append(name)
        name = parents[name]
    return found
