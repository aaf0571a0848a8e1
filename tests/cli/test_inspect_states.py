"""`durasess inspect`: events around a seq, the state at any seq, the difference of two."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from durasess import Engine, Event
from durasess.cli.main import main
from tests.cli import sessions
from tests.cli.sessions import inspect

REDUCER = """
import msgspec

def apply(state, event):
    state["n"] = state.get("n", 0) + event.data["n"]
    state.setdefault("seen", []).append(event.seq)

def start():
    return {"n": 100}

def fails(state, event):
    raise KeyError("n")

def odd(state, event):
    return object()

class Total(msgspec.Struct):
    n: int = 0

    def __call__(self):
        return Total()

def add(state, event):
    return Total(state.n + event.data["n"])

number = 7
"""


@pytest.fixture(autouse=True)
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of the user's, in the directory where the command is started."""
    (tmp_path / "myprogram.py").write_text(REDUCER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "myprogram", raising=False)


def apply(state: dict[str, Any], event: Event) -> None:
    """What the program above does, for the session itself."""
    state["n"] = state.get("n", 0) + event.data["n"]
    state.setdefault("seen", []).append(event.seq)


@pytest.fixture
def session(tmp_path: Path) -> Path:
    """20 events, snapshots of 8 and 16."""
    path = tmp_path / "a1"
    with Engine.open(path, apply=apply, clock=lambda: 0) as engine:
        for n in range(1, 21):
            engine.append("counted", {"n": n})
            if n in (8, 16):
                engine.snapshot()
        engine.abandon()
    return path


def refused(capsys: pytest.CaptureFixture[str], path: Path, *more: str) -> str:
    """What a wrong use says."""
    assert main(["inspect", str(path), *more]) == 2
    return capsys.readouterr().err


def state_after(seq: int) -> dict[str, Any]:
    """What the events fold into."""
    return {"n": seq * (seq + 1) // 2, "seen": list(range(1, seq + 1))}


def test_events_around_a_seq_are_those_before_and_behind(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    around = inspect(capsys, session, "--around", "9", "--context", "2")["around"]
    assert [one["seq"] for one in around["events"]] == [7, 8, 9, 10, 11]
    around = inspect(capsys, session, "--around", "1", "--context", "1")["around"]
    assert [one["seq"] for one in around["events"]] == [1, 2]
    around = inspect(capsys, session, "--around", "20", "--context", "0")["around"]
    assert [one["seq"] for one in around["events"]] == [20]


def test_events_around_a_seq_as_people_see_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = sessions.copy("clean", tmp_path)
    assert main(["inspect", str(path), "--around", "5", "--context", "2"]) == 0
    sessions.assert_expected("inspect-around", capsys.readouterr().out, tmp_path)


def test_around_damage_shows_what_is_left_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = sessions.copy("damaged-middle", tmp_path)
    assert main(["inspect", str(path), "--around", "4", "--context", "1"]) == 1
    text = capsys.readouterr().out
    assert "about seq 4\n  The event cannot be read: what is damaged is listed above." in text
    assert "[not proven]" in text


def test_seq_that_was_never_there_is_status_2(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for more in (["--around", "21"], ["--at", "21"], ["--diff", "1", "21"]):
        assert "it holds seq 1 to 20" in refused(capsys, session, *more)


def test_state_of_a_snapshot_needs_no_reducer(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = inspect(capsys, session, "--at", "16")["at"]
    assert at["known"] and at["state"] == state_after(16)
    assert at["snapshot"] == "snapshot.json.zst" and at["event"]["seq"] == 16


def test_without_a_reducer_the_nearest_snapshot_is_named(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = inspect(capsys, session, "--at", "12")["at"]
    assert not at["known"] and at["state"] is None
    assert at["nearest"] == {"snapshot": "snapshot.prev.json.zst", "seq": 8, "events": 4}
    assert "4 events lie between (seq 9 to 12)" in at["remarks"][0]


@pytest.mark.parametrize(
    ("seq", "base"),
    [(1, None), (7, None), (9, "snapshot.prev.json.zst"), (20, "snapshot.json.zst")],
)
def test_reducer_folds_from_the_nearest_snapshot_or_the_first_event(
    seq: int, base: str | None, session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = inspect(capsys, session, "--at", str(seq), "--reducer", "myprogram:apply")["at"]
    assert at["known"] and at["state"] == state_after(seq)
    assert at["snapshot"] is None and at["nearest"]["snapshot"] == base


def test_initial_makes_the_state_before_the_first_event(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--reducer", "myprogram:apply", "--initial", "myprogram:start"]
    assert inspect(capsys, session, "--at", "1", *options)["at"]["state"]["n"] == 101
    assert inspect(capsys, session, "--at", "9", *options)["at"]["state"]["n"] == 45


def test_typed_initial_state_types_the_stored_one(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--reducer", "myprogram:add", "--initial", "myprogram:Total"]
    assert inspect(capsys, session, "--at", "10", *options)["at"]["state"] == {"n": 55}


def test_bad_newest_snapshot_is_passed_over(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sessions.flip(session / "snapshot.json.zst", 30)
    at = inspect(capsys, session, "--at", "17", "--reducer", "myprogram:apply")["at"]
    assert at["state"] == state_after(17) and at["nearest"]["seq"] == 8


def test_nothing_is_folded_across_damage(session: Path, capsys: pytest.CaptureFixture[str]) -> None:
    second = session / "events_0002.jsonl"
    sessions.flip(second, second.read_bytes().index(b'"n":11'))
    options = ["--reducer", "myprogram:apply"]
    at = inspect(capsys, session, "--at", "12", *options)["at"]
    assert not at["known"] and "seq 11 cannot be read" in at["remarks"][0]
    assert at["event"]["seq"] == 12, "the event itself can be read"
    assert inspect(capsys, session, "--at", "10", *options)["at"]["state"] == state_after(10)
    assert inspect(capsys, session, "--at", "18", *options)["at"]["state"] == state_after(18)


def test_pruned_history_cannot_be_folded_and_says_so(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Engine.open(session, apply=apply) as engine:
        engine.snapshot()
        engine.prune()
    at = inspect(capsys, session, "--at", "3", "--reducer", "myprogram:apply")["at"]
    assert at["event"] is None and not at["known"]
    assert "are gone" in at["remarks"][0] and "pruned" in at["remarks"][1]


@pytest.mark.parametrize(
    ("reducer", "said"),
    [
        ("myprogram", "expected MODULE:NAME"),
        ("nowhere:apply", "ModuleNotFoundError"),
        ("myprogram:absent", "has no attribute 'absent'"),
        ("myprogram:number", "cannot be called"),
        ("myprogram:fails", "myprogram:fails raised KeyError('n') for seq 1"),
        ("myprogram:odd", "made a state that is no JSON"),
    ],
)
def test_reducer_that_does_not_work_is_status_2(
    reducer: str, said: str, session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in refused(capsys, session, "--at", "3", "--reducer", reducer)


def test_initial_alone_is_status_2(session: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "give both" in refused(capsys, session, "--initial", "myprogram:start")


def test_difference_of_two_snapshots_needs_no_reducer(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    diff = inspect(capsys, session, "--diff", "8", "16")["diff"]
    assert diff["known"]
    changed = {"path": "$.n", "keys": ["n"], "change": "changed", "before": 36, "after": 136}
    assert diff["changes"][0] == changed
    assert [one["after"] for one in diff["changes"][1:]] == list(range(9, 17))


def test_difference_backwards_removes_what_was_added(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--reducer", "myprogram:apply"]
    changes = inspect(capsys, session, "--diff", "10", "9", *options)["diff"]["changes"]
    assert [(one["change"], one["path"]) for one in changes] == [
        ("changed", "$.n"),
        ("removed", "$.seen[9]"),
    ]


def test_difference_to_seq_0_is_all_of_the_state(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--reducer", "myprogram:apply"]
    changes = inspect(capsys, session, "--diff", "0", "2", *options)["diff"]["changes"]
    assert [(one["change"], one["after"]) for one in changes] == [("added", 3), ("added", [1, 2])]


def test_difference_as_people_see_it(session: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["inspect", str(session), "--diff", "8", "10", "--reducer", "myprogram:apply"])
    text = capsys.readouterr().out
    shown = text[text.index("\nseq 8") + 1 :]
    sessions.assert_expected("inspect-diff", shown, session.parent)


def test_difference_that_is_not_known_says_what_is(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    diff = inspect(capsys, session, "--diff", "8", "9")["diff"]
    assert not diff["known"] and diff["changes"] == []
    assert diff["before"]["known"] and diff["after"]["nearest"]["seq"] == 8


def test_secrets_are_masked_and_counted_unless_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = "sk-" + "0123456789abcdefghij"
    path = tmp_path / "secret"
    keep = lambda state, event: {"password": event.data["text"], "n": event.seq}  # noqa: E731
    with Engine.open(path, apply=keep) as engine:
        engine.append("said", {"text": f"my key is {key}"})
        engine.snapshot()
        engine.append("said", {"text": "none", "api_key": 12345})
        engine.snapshot()
    every = ["--events", "--around", "1", "--at", "1", "--diff", "1", "2"]
    for more in ([], ["--json"]):
        main(["inspect", str(path), *every, *more])
        text = capsys.readouterr().out
        assert key not in text and "12345" not in text and "[masked]" in text
        assert ("masked   8 secrets   --show-secrets" in text) == (not more), text
        if more:
            assert json.loads(text)["masked"] == 8
    main(["inspect", str(path), *every, "--show-secrets"])
    text = capsys.readouterr().out
    assert key in text and "12345" in text and "[masked]" not in text
    assert "masked  " not in text
