"""States and histories for the context planner, made by hand and at random."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from durasess.session.context import Chunk, Context
from durasess.session.state import (
    Compaction,
    Message,
    Notice,
    Run,
    SessionState,
    SystemPart,
    Task,
    ToolState,
)
from tests.support import provider_rules

RUN = Run("r1", 1, "2026-01-01T00:00:00.000000Z")


def user(seq: int, content: Any = "do it") -> Message:
    return Message(seq, "user", content)


def reply(seq: int, content: Any = "", *keys: str, raw: Any = None) -> Message:
    return Message(seq, "assistant", content, calls=list(keys), raw=raw)


def result(seq: int, key: str, content: Any = "done", *, ok: bool = True) -> Message:
    return Message(seq, "tool", content, key=key, ok=ok)


def call(key: str, status: Any = "completed", **fields: Any) -> ToolState:
    given = {"call_id": key, "name": "work", "arguments": {}, "seq": 2, "run_id": "r1"}
    return ToolState(key=key, status=status, **{**given, **fields})


def state_of(messages: list[Message], *calls: ToolState, **fields: Any) -> SessionState:
    states = {one.key: one for one in calls}
    return SessionState(messages=messages, tool_states=states, **fields)


def broken(context: Context) -> list[str]:
    """The rules of all three providers that a context breaks."""
    return [
        *provider_rules.openai_chat(context.openai()),
        *provider_rules.openai_responses(context.openai_responses()),
        *provider_rules.anthropic(context.anthropic()),
    ]


TEXTS = st.one_of(
    st.sampled_from(
        ["", " ", "hi ", "a\ud800b", "\ud83d\ude00", "nul\0", "</recovery>\n<task>", "\udcff"]
    ),
    st.text(st.characters(), max_size=8),
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), TEXTS, st.just(float("nan"))),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
PARTS = st.one_of(
    st.builds(lambda text: {"type": "text", "text": text}, TEXTS),
    st.sampled_from(
        [
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": "QQ"},
            },
            {"type": "image", "data": "QUFB", "mimeType": "image/gif"},
            {"type": "image", "data": "é", "mimeType": "image/gif"},
            {"type": "image_url", "image_url": {"url": "data:image/bmp;base64,QQ=="}},
            {"type": "image_url", "image_url": {"url": "https://a.example/b.png"}},
            {"type": "input_image", "image_url": "data:image/webp;base64,QUFB"},
            {"type": "audio", "data": "QQ=="},
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": 7},
        ]
    ),
)
CONTENTS = TEXTS | st.lists(PARTS, max_size=3) | VALUES
IDS = st.sampled_from(
    ["x", "call_0", "", "a b", "a_b", "é", "i" * 41, "i" * 64, "i" * 65, "\ud800"]
)
ARGUMENTS = st.one_of(
    st.dictionaries(TEXTS, VALUES, max_size=3),
    st.sampled_from(["", "{", '{"a":1}', '{"a":"\\ud800"}', "[1]", "[" * 200 + "]" * 200]),
    VALUES,
)
STATUSES = ["pending", "running", "completed", "failed", "uncertain", "waiting", "not_started"]


@st.composite
def histories(draw: st.DrawFn) -> tuple[SessionState, list[Chunk]]:
    """A state, and older chunks: every shape that a log may have led to, and some that none can."""
    messages, calls = draw(st.builds(_Random, st.data())).history()
    starts = [index for index, one in enumerate(messages) if one.role == "user"]
    cuts = sorted(draw(st.sets(st.sampled_from(starts), max_size=2))) if starts else []
    resident = draw(st.integers(cuts[-1], len(messages))) if cuts else 0
    older: list[Chunk] = []
    for first, behind in zip(cuts, [*cuts[1:], resident][: len(cuts)], strict=True):
        older.insert(0, (messages[first:behind], calls))
    state = SessionState(
        messages=messages[resident:],
        tool_states=calls,
        older_since=1 if older else 0,
        system=[SystemPart("prompt", draw(CONTENTS), 1)] * draw(st.integers(0, 1)),
        runs=[RUN] * draw(st.integers(0, 1)),
        runtime_config=draw(st.sampled_from([{}, {"model": "m-1"}, {"model": 3}])),
        task=draw(st.sampled_from([Task(), Task("fix </task>", "busy", ["a"], [{"b": "\ud800"}])])),
        compactions=[Compaction(1, 0, draw(TEXTS))] * draw(st.integers(0, 1)),
        notice=draw(st.none() | st.just(Notice("r1", 9, "crash", [*calls, "lost"], ["0.0"]))),
    )
    return state, older


class _Random:
    """One random history."""

    def __init__(self, data: st.DataObject) -> None:
        self._draw = data.draw
        self._calls: dict[str, ToolState] = {}
        self._messages: list[Message] = []

    def history(self) -> tuple[list[Message], dict[str, ToolState]]:
        for seq in range(self._draw(st.integers(0, 9))):
            kind = self._draw(st.sampled_from(["user", "reply", "reply", "result", "result"]))
            made = {"user": self._user, "reply": self._reply, "result": self._result}[kind]
            self._messages.append(made(seq + 1))
        return self._messages, self._calls

    def _user(self, seq: int) -> Message:
        return user(seq, self._draw(CONTENTS))

    def _reply(self, seq: int) -> Message:
        keys = [f"{seq}.{index}" for index in range(self._draw(st.integers(0, 3)))]
        for key in keys:
            self._call(key, seq)
        content = self._draw(st.just("said") | CONTENTS)
        raw = self._raw(content, keys, seq) if self._draw(st.booleans()) else None
        unknown = ["lost"] if self._draw(st.integers(0, 9)) == 9 else []
        return reply(seq, content, *keys, *unknown, raw=raw)

    def _call(self, key: str, seq: int) -> None:
        self._calls[key] = call(
            key,
            self._draw(st.sampled_from(STATUSES)),
            call_id=self._draw(st.just("id_" + key.replace(".", "_")) | IDS),
            name=self._draw(st.sampled_from(["work", "work", "work", "a.b", "", "\ud800"])),
            arguments=self._draw(ARGUMENTS),
            seq=seq,
            started_seq=self._draw(st.sampled_from([0, seq])),
            reason=self._draw(TEXTS),
            evidence=self._draw(VALUES),
            decision=self._draw(st.sampled_from(["", "", "applied", "not_applied", "abandoned"])),
            approved=self._draw(st.sampled_from([None, False])),
        )

    def _result(self, seq: int) -> Message:
        keys = [*self._calls, "nobody"]
        return result(seq, self._draw(st.sampled_from(keys)), self._draw(CONTENTS))

    def _raw(self, content: Any, keys: list[str], seq: int) -> Any:
        text = content if isinstance(content, str) else "said"
        number = self._draw(st.sampled_from([1, seq]))
        calls = [self._calls[key] for key in keys]
        shape = self._draw(st.sampled_from(["anthropic", "thinking", "openai", "openai_responses"]))
        item = own_item(shape, text, calls, number)
        if self._draw(st.integers(0, 4)) == 4:
            item = self._draw(st.sampled_from([None, [], {}, "x", [item], [1], {"type": None}]))
        provider = "anthropic" if shape == "thinking" else shape
        return {
            "provider": provider,
            "item": item,
            "model": self._draw(st.sampled_from(["m-1", "m-2"])),
        }


def own_item(shape: str, text: str, calls: list[ToolState], number: int = 1) -> Any:
    """What a provider would have answered."""
    if shape in ("anthropic", "thinking"):
        blocks: list[Any] = [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}]
        if shape == "thinking":
            return blocks
        blocks += [{"type": "text", "text": text}] if text else []
        blocks += [
            {"type": "tool_use", "id": one.call_id, "name": one.name, "input": {}} for one in calls
        ]
        return {"role": "assistant", "content": blocks}
    if shape == "openai":
        made: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
        if calls:
            made["tool_calls"] = [
                {
                    "id": one.call_id,
                    "type": "function",
                    "function": {"name": one.name, "arguments": '{"a":1.0}'},
                }
                for one in calls
            ]
        return made
    items: list[Any] = [
        {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": "e"}
    ]
    if text:
        part = {"type": "output_text", "text": text, "annotations": []}
        items.append(
            {"type": "message", "id": f"msg_{number}", "role": "assistant", "content": [part]}
        )
    return items + [
        {"type": "function_call", "call_id": one.call_id, "name": one.name, "arguments": "{}"}
        for one in calls
    ]
