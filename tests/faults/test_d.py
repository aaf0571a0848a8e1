"""FAULTS D: repeated identifiers. The same event id means the same event, once."""

import pytest

from durasess import Draft, EventRejectedError
from durasess.engine.types import EVENT_ID_WINDOW
from tests.faults.tails import with_and_without_filler, write_on
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
