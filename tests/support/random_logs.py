"""Events for the reducer, made at random: plausible ones, and garbage that a log may hold."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import strategies as st

from durasess.engine.types import Event
from durasess.session import events
from tests.support.harness import event

IDS = ["a", "b", "3.0", "5.0", "5.1", "8.0", "once:a", "r1"]
STATUSES = ["running", "succeeded", "failed", "interrupted", "cancelled", "archived", "odd"]
OUTCOMES = ["uncertain", "not_started", "applied", "not_applied", "abandoned", "rerun", "odd"]
NUMBERS = [0, 1, 2, 7, -1, 10**25, 0.5, 1e300, "7", "nan", "inf", "-3", True, None]
TEXTS = ["", "x", "\ud800", "a\0", "\u2028", "é", *IDS]
JSON = st.recursive(
    st.none() | st.booleans() | st.sampled_from(NUMBERS) | st.sampled_from(TEXTS) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
"""What a line of a log can hold: JSON has no NaN."""


def random_log(seed: int, size: int = 40) -> list[Event]:
    """The events of a log that anybody may have written: most fields right, some of them odd. Ids
    repeat, seqs are of events that may be there."""
    chance = random.Random(seed)
    kinds = [*events.TYPES, "run_started", "assistant_message", "tool_started", "weather"]
    return [
        event(
            seq,
            kind := chance.choice(kinds),
            _data_of(kind, chance),
            chance.choice(["", "r1", "r2"]),
            chance.choice(["", *IDS]),
        )
        for seq in range(1, size + 1)
    ]


def _data_of(kind: str, chance: random.Random) -> dict[str, Any]:
    made = {}
    for name in events.TYPES[kind].__struct_fields__ if kind in events.TYPES else ["x"]:
        if chance.random() < 0.8:
            made[name] = _value(name, chance)
    return made


def _value(name: str, chance: random.Random) -> Any:
    """A value for a field of this name, now and then none that fits it."""
    if chance.random() < 0.03:
        return chance.choice([None, [], {}, "odd", -1, [{"masked": 3}]])
    if name in ("through", "to", "dispatched"):
        return chance.randint(-1, 40)
    if name == "tool_calls":
        return [_call(chance) for _ in range(chance.randint(0, 3))]
    if name in ("usage", "counters"):
        counted = chance.sample(["prompt", "completion", "total", "cost", "odd"], 2)
        numbers = [one for one in NUMBERS if one is not None]
        return {one: chance.choice(numbers) for one in counted}
    if name in ("labels", "config", "worker", "error"):
        return {chance.choice(TEXTS): chance.choice(TEXTS)}
    if name in ("masked", "writes", "completed", "pending"):
        return [] if name == "writes" else [chance.choice(TEXTS)]
    choices = {
        "status": STATUSES,
        "outcome": OUTCOMES,
        "key": ["", "", *IDS],
        "effect": ["unsafe", "read_only"],
        "approved": [True, False],
        "ok": [True, False],
        "detached": [True, False],
        "streamed": [True, False],
        "partial": [True, False],
        "pinned": [True, False],
        "version": [-1, 0, 1, 2],
        "custom_version": [-1, 0, 1, 2],
        "attempt": [0, 1, 5, "2"],
        "timeout_s": [one for one in NUMBERS if one is not None],
    }
    return chance.choice(choices.get(name, TEXTS))


def _call(chance: random.Random) -> dict[str, Any]:
    return {"call_id": chance.choice(IDS), "name": "work", "arguments": {"a": chance.choice(TEXTS)}}


def busy_log(count: int, seed: int) -> list[Event]:
    """Many plausible events of one conversation that never ends, cheaply made."""
    chance = random.Random(seed)
    found: list[Event] = []
    asked: list[str] = []
    for seq in range(1, count + 1):
        found.append(_busy(seq, chance, asked))
    return found


def _busy(seq: int, chance: random.Random, asked: list[str]) -> Event:
    kind = chance.choice(["user_message", "assistant_message", "tool_started", "tool_result"])
    if kind == "assistant_message":
        count = chance.choice([0, 1, 1, 2, 5])
        calls = [{"call_id": "x", "name": "work"} for _ in range(count)]
        asked += [f"{seq}.{index}" for index in range(count)]
        return event(seq, kind, {"content": "a", "tool_calls": calls})
    if kind == "user_message" or not asked:
        return event(seq, "user_message", {"content": "u"})
    key = chance.choice(asked) if chance.random() < 0.1 else asked[0]
    if kind == "tool_result" and key in asked:
        asked.remove(key)
    return event(seq, kind, {"key": key})
