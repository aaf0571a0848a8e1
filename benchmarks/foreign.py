"""Session files as other tools write them, made of generated sessions: what the import suite reads.

Shapes and sizes follow the formats; nothing in them was taken from a real session.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from durasess.cli.workload import generate_events

Line = dict[str, Any]
Event = tuple[str, dict[str, Any]]

EVENTS_MADE = 20_000
"""Different generated events; a longer file tells them again, with ids and times of its own."""

_CWD = "/home/dev/shop"


def write(path: Path, form: str, size: int) -> int:
    """Write a file of at least `size` bytes, whole runs, in this format; returns its bytes."""
    done = 0
    with path.open("wb") as file:
        for lines in FORMS[form]().runs():
            done += file.write(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
            if done >= size:
                return done
    return done


def _events() -> Iterator[Event]:
    made = list(generate_events(7, count=EVENTS_MADE))
    return itertools.cycle(made)


class _Maker:
    """Turns generated events into lines."""

    def __init__(self) -> None:
        self._rng = Random(11)
        self._count = itertools.count(1)

    def runs(self) -> Iterator[list[Line]]:
        """The lines of the head, then those of one run after the other, without end."""
        lines = list(self.head())
        number = 0
        for type, data in _events():
            if type == "run_started":
                yield lines
                lines = []
                number += 1
            lines += self._of(type, data, number)

    def head(self) -> Iterator[Line]:
        """What comes first."""
        raise NotImplementedError

    def _of(self, type: str, data: dict[str, Any], run: int) -> Iterator[Line]:
        told: Callable[..., Iterator[Line]] | None = getattr(self, type, None)
        return iter(()) if told is None else told(data, run)

    def stamp(self) -> str:
        """The next moment."""
        count = next(self._count)
        seconds, thousandths = divmod(count * 137, 1000)
        minutes, second = divmod(seconds, 60)
        hours, minute = divmod(minutes, 60)
        days, hour = divmod(hours, 24)
        day = f"2026-{days // 28 % 12 + 1:02d}-{days % 28 + 1:02d}"
        return f"{day}T{hour:02d}:{minute:02d}:{second:02d}.{thousandths:03d}Z"

    def id(self) -> str:
        """A new one."""
        made = f"{self._rng.getrandbits(128):032x}"
        return f"{made[:8]}-{made[8:12]}-4{made[13:16]}-8{made[17:20]}-{made[20:]}"


class Codex(_Maker):
    """A rollout: what the model saw and, mixed with it, what was shown."""

    def __init__(self) -> None:
        super().__init__()
        self._total = {"input_tokens": 0, "cached_input_tokens": 0, "output_tokens": 0}

    def _line(self, kind: str, payload: dict[str, Any]) -> Line:
        return {"timestamp": self.stamp(), "type": kind, "payload": payload}

    def head(self) -> Iterator[Line]:
        """Whose session it is."""
        thread = "0194c000-0000-7000-8000-00000000b001"
        meta = {"id": thread, "timestamp": self.stamp(), "cwd": _CWD, "originator": "codex_exec"}
        meta |= {"cli_version": "0.135.0", "source": "exec", "model_provider": "openai"}
        yield self._line("session_meta", meta)

    def run_started(self, data: dict[str, Any], run: int) -> Iterator[Line]:
        """A turn."""
        turn = {"turn_id": f"t-{run}", "cwd": _CWD, "approval_policy": "never", "model": "model-x"}
        turn |= {"sandbox_policy": {"type": "read-only"}, "effort": "medium", "summary": "auto"}
        begun = {"type": "task_started", "turn_id": f"t-{run}", "model_context_window": 258400}
        yield self._line("event_msg", begun)
        yield self._line("turn_context", turn)
        content = [{"type": "input_text", "text": data["request"]}]
        yield self._line("response_item", {"type": "message", "role": "user", "content": content})
        shown = {"type": "user_message", "message": data["request"], "images": []}
        yield self._line("event_msg", shown)

    def assistant_message(self, data: dict[str, Any], run: int) -> Iterator[Line]:
        """Reasoning, a message, calls, counters."""
        secret = self._rng.randbytes(400).hex()
        reasoning = {"type": "reasoning", "summary": [], "content": None}
        yield self._line("response_item", reasoning | {"encrypted_content": f"gAAAA{secret}"})
        content = [{"type": "output_text", "text": data["content"]}]
        shown = {"type": "agent_message", "message": data["content"]}
        yield self._line("event_msg", shown)
        said = {"type": "message", "role": "assistant", "content": content}
        yield self._line("response_item", said)
        for call in data["tool_calls"]:
            asked = {"type": "function_call", "name": call["name"], "call_id": call["call_id"]}
            asked["arguments"] = msgspec.json.encode(call["arguments"]).decode()
            yield self._line("response_item", asked)
        last = {"input_tokens": data["usage"]["prompt_tokens"], "cached_input_tokens": 0}
        last["output_tokens"] = data["usage"]["completion_tokens"]
        self._total = {name: self._total[name] + last[name] for name in last}
        info = {"total_token_usage": self._total, "last_token_usage": last}
        for one in info.values():
            one["total_tokens"] = one["input_tokens"] + one["output_tokens"]
        self._total = {name: self._total[name] for name in last if name != "total_tokens"}
        yield self._line("event_msg", {"type": "token_count", "info": info, "rate_limits": None})

    def tool_result(self, data: dict[str, Any], run: int) -> Iterator[Line]:
        """What a call gave."""
        payload = {"type": "function_call_output", "call_id": data["call_id"]}
        yield self._line("response_item", payload | {"output": data["output"]})

    def run_finished(self, data: dict[str, Any], run: int) -> Iterator[Line]:
        """The end of a turn."""
        yield self._line("event_msg", {"type": "task_complete", "turn_id": f"t-{run}"})


class Pi(_Maker):
    """A session of the third version: a tree without branches."""

    def __init__(self) -> None:
        super().__init__()
        self._tip: str | None = None

    def head(self) -> Iterator[Line]:
        """The header."""
        head = {"type": "session", "version": 3, "id": "0f0e0d0c-0000-4000-8000-00000000b001"}
        yield head | {"timestamp": self.stamp(), "cwd": _CWD}

    def _entry(self, message: dict[str, Any]) -> Line:
        parent, self._tip = self._tip, f"{self._rng.getrandbits(32):08x}{next(self._count):04x}"
        entry = {"type": "message", "id": self._tip, "parentId": parent}
        return entry | {"timestamp": self.stamp(), "message": message}

    def run_started(self, data: dict[str, Any], run: int) -> Iterator[Line]:
        """A request."""
        content = [{"type": "text", "text": data["request"]}]
        yield self._entry({"role": "user", "content": content, "timestamp": 1770109200000})

    def assistant_message(self, data: dict[str, Any], run: int) -> Iterator[Line]:
        """A reply with its calls and its usage."""
        content: list[dict[str, Any]] = [{"type": "text", "text": data["content"]}]
        for call in data["tool_calls"]:
            asked = {"type": "toolCall", "id": call["call_id"], "name": call["name"]}
            content.append(asked | {"arguments": call["arguments"]})
        used = {"input": data["usage"]["prompt_tokens"], "cacheRead": 0, "cacheWrite": 0}
        used["output"] = data["usage"]["completion_tokens"]
        cost = {"input": 0.001, "output": 0.002, "cacheRead": 0, "cacheWrite": 0, "total": 0.003}
        message = {"role": "assistant", "content": content, "api": "messages", "provider": "p"}
        message |= {"model": "model-x", "usage": used | {"cost": cost}}
        message["stopReason"] = "toolUse" if data["tool_calls"] else "stop"
        yield self._entry(message | {"timestamp": 1770109200000})

    def tool_result(self, data: dict[str, Any], run: int) -> Iterator[Line]:
        """What a call gave."""
        content = [{"type": "text", "text": data["output"]}]
        message = {"role": "toolResult", "toolCallId": data["call_id"], "toolName": "shell"}
        message |= {"content": content, "isError": data["status"] == "error"}
        yield self._entry(message | {"timestamp": 1770109200000})


class ClaudeCode(_Maker):
    """A session with one block on each line."""

    def __init__(self) -> None:
        super().__init__()
        self._tip: str | None = None

    def head(self) -> Iterator[Line]:
        """Nothing but a title."""
        yield {"type": "summary", "summary": "Shop", "leafUuid": self.id()}

    def _entry(self, type: str, message: dict[str, Any], **more: Any) -> Line:
        parent, self._tip = self._tip, self.id()
        entry = {"parentUuid": parent, "isSidechain": False, "userType": "external", "cwd": _CWD}
        entry |= {"sessionId": "00000000-aaaa-4000-8000-00000000b001", "version": "2.1.152"}
        entry |= {"gitBranch": "main", "type": type, "message": message, "uuid": self._tip}
        return entry | {"timestamp": self.stamp()} | more

    def run_started(self, data: dict[str, Any], run: int) -> Iterator[Line]:
        """A request."""
        yield self._entry("user", {"role": "user", "content": data["request"]})

    def assistant_message(self, data: dict[str, Any], run: int) -> Iterator[Line]:
        """A reply: its blocks, each on a line."""
        blocks: list[dict[str, Any]] = [{"type": "text", "text": data["content"]}]
        for call in data["tool_calls"]:
            asked = {"type": "tool_use", "id": call["call_id"], "name": call["name"]}
            blocks.append(asked | {"input": call["arguments"]})
        message_id = f"msg_{self._rng.getrandbits(96):024x}"
        request_id = f"req_{self._rng.getrandbits(64):016x}"
        used = {"input_tokens": 4, "cache_read_input_tokens": data["usage"]["prompt_tokens"]}
        used |= {"cache_creation_input_tokens": 0, "service_tier": "standard"}
        used["output_tokens"] = data["usage"]["completion_tokens"]
        stop = "tool_use" if data["tool_calls"] else "end_turn"
        for block in blocks:
            message = {"model": "model-x", "id": message_id, "type": "message"}
            message |= {"role": "assistant", "content": [block], "stop_reason": stop}
            entry = self._entry("assistant", message | {"stop_sequence": None, "usage": used})
            yield entry | {"requestId": request_id}

    def tool_result(self, data: dict[str, Any], run: int) -> Iterator[Line]:
        """What a call gave, once for the model and once for people."""
        block = {"type": "tool_result", "tool_use_id": data["call_id"], "content": data["output"]}
        block["is_error"] = data["status"] == "error"
        result = {"stdout": data["output"], "stderr": "", "interrupted": False}
        yield self._entry("user", {"role": "user", "content": [block]}, toolUseResult=result)


FORMS: dict[str, type[_Maker]] = {"codex": Codex, "pi": Pi, "claude-code": ClaudeCode}
"""By the names of the importers."""
