"""What is recorded of an event's data, and states that hold whatever text and number there is."""

import datetime
import pathlib

import pytest

from durasess import EventRejectedError
from durasess.session import events
from durasess.session.recorded import plain
from durasess.session.state import Message, SessionState
from durasess.session.transcript import older_chunks
from tests.support.harness import crash, fold, numbered, state_after, store_at
from tests.support.harness import reply as asks


def test_fields_at_their_defaults_are_left_out():
    assert plain(events.ToolStarted()) == {}
    assert plain(events.AssistantMessage(content="")) == {}


@pytest.mark.parametrize(
    ("data", "kept"),
    [
        (events.SessionChanged(title=""), {"title": ""}),
        (events.SessionChanged(pinned=False), {"pinned": False}),
        (events.MessageDelta(text=""), {"text": ""}),
        (events.TaskChanged(pending=[]), {"pending": []}),
        (events.ToolResult(output=0), {"output": 0}),
        (events.ToolResult(output=[]), {"output": []}),
        (events.ToolStarted(attempt=2), {"attempt": 2}),
        (events.ApprovalDecided(approved=False), {"approved": False}),
    ],
)
def test_what_was_given_is_kept_though_it_is_empty(data, kept):
    assert plain(data) == kept


def test_every_type_comes_back_as_it_was_recorded():
    for name, kind in events.TYPES.items():
        required = {"content": "x", "text": "t", "path": "/p", "config": {}, "approved": True}
        required |= {"outcome": "applied", "status": "failed", "dispatched": 1, "summary": "s"}
        required |= {"through": 1, "usage": {}, "name": "n", "session_id": "s", "to": 1}
        required |= {"version": 1}
        given = {one: required[one] for one in kind.__struct_fields__ if one in required}
        if name in ("session_changed", "run_finished"):
            given["status"] = {"session_changed": "active", "run_finished": "failed"}[name]
        made = events.read(name, given)
        assert events.read(name, plain(made)) == made


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (pathlib.PurePosixPath("/x"), "/x"),
        ((1, 2), [1, 2]),
        ({3, 1}, [1, 3]),
        (b"\xff", "/w=="),
        (float("nan"), None),
        (10**30, 10**30),
        ("\ud83d", "\ud83d"),
    ],
)
def test_value_of_a_result_is_stored_as_the_engine_says(tmp_path, given, stored):
    with store_at(tmp_path).create("s") as session:
        assert session.once("o", lambda: given) == stored


def test_naive_time_in_a_result_is_refused(tmp_path):
    with store_at(tmp_path).create("s") as session, pytest.raises(EventRejectedError):
        session.once("o", lambda: datetime.datetime(2026, 1, 1))


@pytest.mark.parametrize("text", ["\ud83d", "a\udcffb", "\u2028\x85", "a\0b", "é" * 1000])
@pytest.mark.parametrize("end", ["snapshot", "close", "crash"])
def test_e5_any_text_comes_back_by_snapshot_and_by_log(tmp_path, text, end):
    store = store_at(tmp_path)
    session = store.create("s", title=text)
    with session.run(text) as run:
        run.assistant([{"type": "text", "text": text}])
    session.set_state("a", {text: text})
    state = session.state
    if end == "snapshot":
        assert session.snapshot() == session.last_seq
    session.close() if end == "close" else crash(session)
    with store.open("s") as again:
        assert again.state == state


# A reply that was cut off


CUT_OFF = (
    ("session_created", {}),
    ("run_started", {"request": "x"}, "r"),
    ("message_delta", {"text": "half"}, "r"),
    ("user_message", {"content": "stop"}, "r"),
    ("run_finished", {"status": "cancelled"}, "r"),
)


def test_cut_off_reply_stands_where_its_first_piece_came():
    state = state_after(*CUT_OFF)
    found = [(one.seq, one.content) for one in state.messages]
    assert found == [(2, "x"), (3, "half"), (4, "stop")]


@pytest.mark.parametrize("resident", [1, 2, 3])
def test_cut_off_reply_hides_no_message_that_is_only_in_the_log(resident):
    from durasess.session.reducer import Reducer

    reducer = Reducer(resident_messages=resident)
    log = numbered(*CUT_OFF, ("user_message", {"content": "more"}), ("assistant_message", asks()))
    state: SessionState = fold(log, reducer)
    chunks = older_chunks(lambda after: iter(log[after:]), state, reducer)
    older: list[Message] = [one for chunk, _ in reversed(list(chunks)) for one in chunk]
    assert [one.seq for one in older + state.messages] == [2, 3, 4, 6, 7]
