"""A state that contradicts itself is refused before anything is written, and a copy is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from durasess import CorruptionError, Engine, Event, Store, Usage
from durasess.session import events
from durasess.session.migrations import MIGRATIONS
from durasess.session.reducer import Reducer
from durasess.session.selfcheck import findings
from durasess.session.state import Checkpoint, Message, Run, SessionState, ToolState
from tests.support.sessions import unchanged

CALL = ToolState(key="2.0", call_id="c", name="t", arguments={}, status="pending", seq=2)
ASKS = Message(seq=2, role="assistant", content="", calls=["2.0"])
BROKEN = [
    ({"messages": [ASKS]}, "which has no state"),
    ({"tool_states": {"x": CALL}}, "says it is 2.0"),
    ({"tool_states": {"2.0": replace(CALL, status="running")}}, "was never started"),
    ({"messages": [Message(seq=3, role="tool", content="", key="2.0")]}, "belongs to no call"),
    ({"usage": Usage(prompt=-1)}, "negative"),
    ({"runs": [Run("r", 1, "", usage=Usage(1, 1, 2))]}, "usage is zero"),
    ({"checkpoint": Checkpoint(dispatched=9)}, "behind the log's end"),
    ({"runs": [Run("a", 1, ""), Run("b", 2, "")]}, "two runs"),
    ({"messages": [Message(seq=9, role="user", content="")]}, "seq 9"),
]


@pytest.mark.parametrize(("parts", "said"), BROKEN, ids=[said for _, said in BROKEN])
def test_a_contradiction_is_found(parts: dict[str, Any], said: str) -> None:
    found = findings(SessionState(seq=3, **parts))
    assert any(said in one for one in found)


def test_two_results_of_one_call_are_found() -> None:
    answers = [Message(seq=seq, role="tool", content="", key="2.0") for seq in (3, 4)]
    state = SessionState(seq=4, messages=[ASKS, *answers], tool_states={"2.0": CALL})
    assert findings(state) == ["call 2.0 has two results"]


def make_broken(root: Path) -> None:
    """A session whose snapshot a broken program wrote."""
    reducer = Reducer()

    def apply(state: SessionState, event: Event) -> SessionState:
        return replace(reducer.apply(state, event), usage=Usage(prompt=-1))

    with Engine.open(
        root / "s",
        initial=reducer.initial,
        apply=apply,
        schema_version=events.SCHEMA_VERSION,
        migrations=MIGRATIONS,
        state_type=SessionState,
    ) as engine:
        engine.append("session_created", {})
        engine.snapshot()


def test_it_is_refused_and_left_alone(tmp_path: Path) -> None:
    make_broken(tmp_path)
    with unchanged(tmp_path / "s"), pytest.raises(CorruptionError, match="negative"):
        Store(tmp_path).open("s")


def test_one_copy_is_kept_however_often_it_is_tried(tmp_path: Path) -> None:
    make_broken(tmp_path)
    for _ in range(3):
        with pytest.raises(CorruptionError) as raised:
            Store(tmp_path).open("s")
    assert ".quarantine" in "".join(raised.value.__notes__)
    copies = list((tmp_path / ".quarantine").iterdir())
    assert [one.name for one in copies] == ["s.1"]
    for original in (tmp_path / "s").iterdir():
        assert (copies[0] / original.name).read_bytes() == original.read_bytes()


def test_it_can_be_read(tmp_path: Path) -> None:
    make_broken(tmp_path)
    session = Store(tmp_path).open("s", mode="read")
    assert session.usage.prompt == -1
