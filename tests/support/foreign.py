"""Session files of other tools, written by hand line by line, and what was made of them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from durasess.engine import codec
from durasess.engine.admission import Prepared
from durasess.engine.drafting import Drafting, Encoded
from durasess.interop.beside import foreign_entries
from durasess.interop.importing import import_file
from durasess.interop.tally import ImportReport
from durasess.session.session import Session
from durasess.session.state import ToolState
from durasess.store.store import Store

Lines = list[dict[str, Any]]


def write(path: Path, lines: Lines, *, end: bytes = b"\n") -> Path:
    """A file of these lines, as their owner writes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(encoded(line) + end for line in lines))
    return path


def encoded(line: dict[str, Any]) -> bytes:
    """A line without its end."""
    return json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode(
        "utf-8", "surrogatepass"
    )


class Imported:
    """A file that was imported: its report, and the session, read."""

    def __init__(self, store: Store, path: Path) -> None:
        self.store = store
        self.path = path
        self.report: ImportReport = import_file(store, str(path))

    @contextmanager
    def open(self) -> Iterator[Session]:
        """The session, to look at."""
        session = self.store.open(self.report.session_id, mode="read")
        try:
            yield session
        finally:
            session.close()

    def again(self) -> ImportReport:
        """Import it once more."""
        self.report = import_file(self.store, str(self.path))
        return self.report

    def types(self) -> list[str]:
        """The types of its events, without those that say how far it was read."""
        with self.open() as session:
            return [event.type for event in session.events() if event.type != "state_set"]

    def said(self) -> list[tuple[str, str]]:
        """The messages that count: role and text."""
        with self.open() as session:
            return [(one.role, _text(one.content)) for one in session.state.messages]

    def calls(self) -> list[ToolState]:
        """The calls of the state."""
        with self.open() as session:
            return list(session.state.tool_states.values())

    def runs(self) -> list[str]:
        """How the runs ended."""
        with self.open() as session:
            return [run.status for run in session.runs]

    def foreign_lines(self) -> dict[int, Any]:
        """The lines as they are kept, by number; each once."""
        found: dict[int, Any] = {}
        with self.open() as session:
            for event in session.events():
                data = session.resolved(event.data)
                for entry in foreign_entries(data):
                    if entry.get("again"):
                        continue
                    assert entry["line"] not in found
                    kept = entry.get("text", entry.get("bytes"))
                    found[entry["line"]] = _item(entry, data) if kept is None else kept
        return found


def _item(entry: dict[str, Any], data: dict[str, Any]) -> Any:
    """The line of an entry as it was read, without its secrets."""
    item = entry.get("item")
    for taken in entry.get("taken", ()):
        part = data
        for step in taken["place"]:
            part = part[step]
        item = _with(item, taken["part"], part)
    return item


def _with(value: Any, path: list[Any], part: Any) -> Any:
    step, *rest = path
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    copy[step] = _with(copy[step], rest, part) if rest else part
    return copy


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)


def assert_nothing_lost(imported: Imported) -> None:
    """Every line of the file is in the session as it was, and is accounted for once."""
    report = imported.report
    assert report.lines == report.mapped + report.kept + report.reported
    raw = imported.path.read_bytes().split(b"\n")
    expected = {number: json.loads(line) for number, line in enumerate(raw, 1) if line.strip()}
    assert imported.foreign_lines() == expected


class Values:
    """Looks, while it is entered, at every value that an importer handed to the log as what its
    bytes decode to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._seen: list[tuple[Any, bytes]] = []
        whole = Drafting.encoded

        def encoded(drafting: Drafting, one: Encoded) -> Prepared:
            if one.value is not None:
                self._seen.append((one.value, one.data))
            return whole(drafting, one)

        monkeypatch.setattr(Drafting, "encoded", encoded)

    def assert_read_back(self) -> None:
        """They are, and nobody changed one since (P10)."""
        assert self._seen
        for value, data in self._seen:
            assert_same(value, codec.decode(data))


def assert_same(one: Any, other: Any) -> None:
    """Equal, and of the same types all through."""
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert list(one) == list(other)
        for key, inside in one.items():
            assert_same(inside, other[key])
    elif isinstance(one, list):
        assert len(one) == len(other)
        for inside, others in zip(one, other, strict=True):
            assert_same(inside, others)
    else:
        assert repr(one) == repr(other)


# -- pi ---------------------------------------------------------------------------------------

PI_HEADER: dict[str, Any] = {
    "type": "session",
    "version": 3,
    "id": "0f0e0d0c-0000-4000-8000-000000000001",
    "timestamp": "2026-02-03T09:00:00.000Z",
    "cwd": "/home/dev/petshop",
}


def pi_entry(id: str, parent: str | None, **fields: Any) -> dict[str, Any]:
    """An entry of the tree."""
    made = {"id": id, "parentId": parent, "timestamp": "2026-02-03T09:00:01.000Z"}
    return {"type": "message", **made, **fields}


def pi_user(id: str, parent: str | None, text: str) -> dict[str, Any]:
    """A request."""
    return pi_entry(id, parent, message={"role": "user", "content": text})


def pi_reply(
    id: str,
    parent: str | None,
    text: str,
    *,
    calls: tuple[str, ...] = (),
    stop: str | None = None,
) -> dict[str, Any]:
    """A reply with calls of these ids."""
    parts: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    parts += [
        {"type": "toolCall", "id": one, "name": "bash", "arguments": {"command": f"echo {one}"}}
        for one in calls
    ]
    message = {
        "role": "assistant",
        "content": parts,
        "model": "model-x",
        "usage": {"input": 10, "output": 5, "cacheRead": 2, "cost": {"total": 0.5}},
        "stopReason": stop or ("toolUse" if calls else "stop"),
    }
    return pi_entry(id, parent, message=message)


def pi_result(id: str, parent: str | None, call: str, text: str) -> dict[str, Any]:
    """The result of a call."""
    content = [{"type": "text", "text": text}]
    message = {"role": "toolResult", "toolCallId": call, "content": content, "isError": False}
    return pi_entry(id, parent, message=message)


# -- Codex ------------------------------------------------------------------------------------

_SECOND = itertools.count()


def codex(kind: str, **payload: Any) -> dict[str, Any]:
    """A line of a rollout."""
    minute, second = divmod(next(_SECOND), 60)
    stamp = f"2026-02-03T{9 + minute // 60:02d}:{minute % 60:02d}:{second:02d}.000Z"
    return {"timestamp": stamp, "type": kind, "payload": payload}


def codex_meta(thread: str = "0194c000-0000-7000-8000-00000000a001", **more: Any) -> dict[str, Any]:
    """The first line."""
    return codex("session_meta", id=thread, cwd="/home/dev/petshop", cli_version="0.150.0", **more)


def codex_message(role: str, text: str) -> dict[str, Any]:
    """A message of the model's own log."""
    kind = "output_text" if role == "assistant" else "input_text"
    content = [{"type": kind, "text": text}]
    return codex("response_item", type="message", role=role, content=content)


def codex_call(call_id: str, command: str = "ls") -> dict[str, Any]:
    """A call."""
    arguments = json.dumps({"cmd": command})
    return codex(
        "response_item",
        type="function_call",
        name="exec_command",
        arguments=arguments,
        call_id=call_id,
    )


def codex_output(call_id: str, output: Any) -> dict[str, Any]:
    """The result of a call."""
    return codex("response_item", type="function_call_output", call_id=call_id, output=output)


def codex_event(type: str, **payload: Any) -> dict[str, Any]:
    """An event for people."""
    return codex("event_msg", type=type, **payload)


def codex_tokens(input: int, output: int) -> dict[str, Any]:
    """Cumulative counters."""
    total = {"input_tokens": input, "output_tokens": output, "total_tokens": input + output}
    return codex_event("token_count", info={"total_token_usage": total})


def codex_turn(text: str, answer: str) -> Lines:
    """A whole turn without calls."""
    return [
        codex_event("task_started", turn_id="t"),
        codex_message("user", text),
        codex_event("user_message", message=text),
        codex_event("agent_message", message=answer),
        codex_message("assistant", answer),
        codex_event("task_complete", turn_id="t"),
    ]


# -- Claude Code ------------------------------------------------------------------------------

CLAUDE_ID = "00000000-aaaa-4000-8000-000000000001"


def claude(type: str, uuid: str, parent: str | None, **fields: Any) -> dict[str, Any]:
    """A line of a session."""
    made = {"type": type, "uuid": uuid, "parentUuid": parent, "sessionId": CLAUDE_ID}
    made |= {"timestamp": "2026-02-03T09:00:00.000Z", "cwd": "/home/dev/petshop"}
    return {**made, "isSidechain": False, **fields}


def claude_user(uuid: str, parent: str | None, content: Any, **fields: Any) -> dict[str, Any]:
    """A line of the user's."""
    message = {"role": "user", "content": content}
    return claude("user", uuid, parent, message=message, **fields)


def claude_block(
    uuid: str,
    parent: str | None,
    message_id: str,
    block: dict[str, Any],
    *,
    stop: str | None = None,
    output: int = 5,
    **fields: Any,
) -> dict[str, Any]:
    """A line of a reply: one block of it."""
    message = {
        "id": message_id,
        "role": "assistant",
        "model": "model-x",
        "content": [block],
        "stop_reason": stop,
        "usage": {"input_tokens": 10, "cache_read_input_tokens": 3, "output_tokens": output},
    }
    return claude("assistant", uuid, parent, message=message, **fields)


def claude_text(text: str) -> dict[str, Any]:
    """A block of text."""
    return {"type": "text", "text": text}


def claude_use(call_id: str) -> dict[str, Any]:
    """A block that asks for a call."""
    return {"type": "tool_use", "id": call_id, "name": "Read", "input": {"file_path": "a"}}


def claude_result(uuid: str, parent: str, call_id: str, text: str, **fields: Any) -> dict[str, Any]:
    """A line with a result."""
    block = {"type": "tool_result", "tool_use_id": call_id, "content": text, "is_error": False}
    return claude_user(uuid, parent, [block], **fields)
