"""FAULTS D: repeated identifiers. The same event id means the same event, once."""

import pytest

from durasess import Draft, EventRejectedError
from durasess.engine.types import EVENT_ID_WINDOW
from tests.faults.tails import with_and_without_filler, write_on
from tests.support.harness import ask, begin_run, crash, start_call, store_at
from tests.support.sessions import open_inline, segment_path, unacknowledged


def reopened(engine, path, how):
    """The same session behind a kind of restart."""
    if how == "same handle":
        return engine
    if how == "snapshot":
        engine.snapshot()
        engine.append("other", 0)
    if how == "kill":
        engine.abandon()
    else:
        engine.close()
    return open_inline(path)


HOW = ["same handle", "close", "kill", "snapshot"]


@pytest.mark.parametrize("how", HOW)
def test_d4_same_id_and_content_returns_the_first_receipt(tmp_path, how):
    engine = open_inline(tmp_path / "s1")
    first = engine.append("paid", {"sum": 1}, run_id="r", event_id="e")
    engine = reopened(engine, tmp_path / "s1", how)
    before = engine.last_seq
    assert engine.append("paid", {"sum": 1}, run_id="r", event_id="e") == first
    assert engine.last_seq == before
    engine.close()


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize(
    "other",
    [
        Draft("paid", {"sum": 2}, "r", None, "e"),
        Draft("owed", {"sum": 1}, "r", None, "e"),
        Draft("paid", {"sum": 1}, "q", None, "e"),
    ],
)
def test_d4_same_id_with_other_content_is_rejected(tmp_path, how, other):
    engine = open_inline(tmp_path / "s1")
    engine.append("paid", {"sum": 1}, run_id="r", event_id="e")
    engine = reopened(engine, tmp_path / "s1", how)
    before = engine.last_seq
    with pytest.raises(EventRejectedError, match="other content") as caught:
        engine.append_many([other])
    assert caught.value.seq == 1
    assert engine.last_seq == before
    engine.close()


def test_d4_retry_of_a_batch_writes_only_what_is_missing(tmp_path):
    with open_inline(tmp_path / "s1") as engine:
        first = engine.append("t", 1, event_id="a")
        one, two = engine.append_many([Draft("t", 1, event_id="a"), Draft("t", 2, event_id="b")])
        assert (one, two.seq, engine.state) == (first, 2, [1, 2])


def test_d4_same_id_twice_in_one_batch_is_rejected_whole(tmp_path):
    with open_inline(tmp_path / "s1") as engine:
        with pytest.raises(EventRejectedError, match="two events at once"):
            engine.append_many([Draft("t", 1, event_id="a"), Draft("t", 2, event_id="a")])
        assert engine.last_seq == 0


@pytest.mark.parametrize("how", ["same handle", "snapshot"])
def test_d4_ids_are_known_within_the_window_and_forgotten_behind_it(tmp_path, how):
    engine = open_inline(tmp_path / "s1")
    count = EVENT_ID_WINDOW + 1
    engine.append_many([Draft("t", n, event_id=f"e{n}") for n in range(count)])
    engine = reopened(engine, tmp_path / "s1", how)
    before = engine.last_seq
    assert engine.append("t", 1, event_id="e1").seq == 2
    assert engine.last_seq == before
    assert engine.append("t", 0, event_id="e0").seq == before + 1
    engine.close()


@with_and_without_filler
def test_d4_event_that_lacked_only_its_line_feed_is_known_by_its_id(tmp_path, preallocate):
    engine = open_inline(tmp_path / "s1", preallocate=preallocate)
    receipt = engine.append("t", 1, event_id="e")
    engine.abandon()
    write_on(segment_path(tmp_path / "s1"), unacknowledged(tmp_path / "s1", 2)[:-1])
    with open_inline(tmp_path / "s1") as engine:
        assert engine.append("t", 1, event_id="e") == receipt
        assert engine.state == [1, 2]


def test_d1_call_ids_may_repeat(tmp_path):
    with open_inline(tmp_path / "s1") as engine:
        for n in range(10):
            engine.append("tool_result", n, call_id="x")
        assert engine.state == list(range(10))


# In a session: ids of calls, and events that are handed over twice


@pytest.mark.parametrize("ended", ["by id", "by key", "reopened"])
def test_d1_ten_calls_of_one_id_keep_their_ten_results(tmp_path, ended):
    store = store_at(tmp_path)
    session = store.create("s")
    for n in range(10):
        run = begin_run(session)
        [call] = ask(run, "x")
        with run.tool(call.key if ended == "by key" else "x") as body:
            body.result(n)
        run.finish()
        if ended == "reopened":
            session.close()
            session = store.open("s")
    shown = [one["content"] for one in session.context().openai() if one["role"] == "tool"]
    assert shown == [str(n) for n in range(10)]
    assert {one.status for one in session.state.tool_states.values()} == {"completed"}
    session.close()


@pytest.mark.parametrize("count", [2, 3])
def test_d1_calls_of_one_id_in_one_message_are_started_one_after_the_other(tmp_path, count):
    with store_at(tmp_path).create("s") as session, session.run("x") as run:
        asked = ask(run, *["x"] * count)
        for n in range(count):
            with run.tool("x") as body:
                body.result(n)
            assert body.call.key == asked[n].key
        results = [one.content for one in session.state.messages if one.role == "tool"]
        assert results == list(range(count))


def test_d1_calls_of_one_id_that_run_at_once_keep_their_own_results(tmp_path):
    with store_at(tmp_path).create("s") as session, session.run("x") as run:
        ask(run, "x", "x")
        with run.tool("x") as one, run.tool("x") as other:
            one.result("one")
            other.result("other")
        found = {call.key: call.status for call in session.state.tool_states.values()}
        assert set(found.values()) == {"completed"}
        by_key = {one.key: one.content for one in session.state.messages if one.role == "tool"}
        assert by_key == {one.call.key: "one", other.call.key: "other"}


def test_d2_id_of_an_earlier_turn_does_not_take_the_result_of_this_one(tmp_path):
    with store_at(tmp_path).create("s") as session:
        first = begin_run(session)
        [old] = ask(first, "call_0")
        first.finish()
        with session.run("again") as run:
            [new] = ask(run, "call_0")
            session.answer("call_0", "for the newest")
        states = session.state.tool_states
        assert (states[old.key].status, states[new.key].status) == ("pending", "completed")


def test_d2_uncertain_call_of_an_earlier_run_is_not_started_again(tmp_path):
    store = store_at(tmp_path)
    session = store.create("s")
    start_call(begin_run(session, "call_0"), "call_0")
    crash(session)
    with store.open("s") as again, again.run("next") as run:
        [new] = ask(run, "call_0")
        with run.tool("call_0") as body:
            body.result(1)
        assert body.call.key == new.key
        assert [one.status for one in again.state.tool_states.values()] == [
            "uncertain",
            "completed",
        ]


CALL = {"call_id": "c", "name": "work", "arguments": {}}


@pytest.mark.parametrize(
    "say",
    [
        lambda run: run.user("hello", event_id="e").seq,
        lambda run: run.assistant("hello", event_id="e") == [],
        lambda run: [one.key for one in run.assistant(tool_calls=[CALL], event_id="e")],
    ],
)
@pytest.mark.parametrize("how", ["same handle", "snapshot"])
def test_d4_message_handed_over_twice_is_recorded_once(tmp_path, say, how):
    store = store_at(tmp_path)
    session = store.create("s")
    run = begin_run(session)
    first, seq = say(run), session.last_seq
    if how == "snapshot":
        session.snapshot()
    assert say(run) == first
    assert session.last_seq == seq
    session.close()


def test_d4_message_handed_over_again_after_a_crash_is_recorded_once(tmp_path):
    store = store_at(tmp_path)
    session = store.create("s")
    said = {"type": "user_message", "data": {"content": "hello"}, "event_id": "e"}
    first = session.emit(**said)
    crash(session)
    with store.open("s") as again:
        assert again.emit(**said) == first
        assert [one.content for one in again.state.messages] == ["hello"]


def test_d4_id_used_again_for_another_message_is_refused(tmp_path):
    with store_at(tmp_path).create("s") as session, session.run("x") as run:
        run.user("hello", event_id="e")
        with pytest.raises(EventRejectedError, match="'e'"):
            run.user("goodbye", event_id="e")
