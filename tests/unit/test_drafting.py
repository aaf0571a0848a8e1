"""Drafts are checked and encoded before anything is written: names, data, sizes."""

import enum
from typing import Any

import pytest
from hypothesis import given

from durasess.engine import codec, drafting, values
from durasess.engine.admission import Prepared
from durasess.engine.drafting import Drafting, Encoded
from durasess.engine.types import (
    MAX_BATCH_BYTES,
    MAX_BATCH_EVENTS,
    MAX_DEPTH,
    MAX_EVENT_BYTES,
    Draft,
)
from durasess.errors import EventRejectedError
from tests.support.lines import TS, UNHURRIED, body, json_values


class Text(str):
    pass


class Kind(enum.StrEnum):
    NOTE = "note"


def refusal(call: Any, *arguments: Any) -> str:
    with pytest.raises(EventRejectedError) as caught:
        call(*arguments)
    assert "Nothing was written" in str(caught.value)
    return str(caught.value)


# prepared


def test_draft_is_prepared_with_the_bytes_that_will_be_on_disk() -> None:
    draft = Draft("note", {"x": (1,)}, "r", "c", "e")
    prepared = Drafting().prepared(draft)
    assert prepared == Prepared(
        Draft("note", {"x": [1]}, "r", "c", "e"),
        body({"x": [1]}, run_id="r", call_id="c", event_id="e"),
    )


@given(json_values)
@UNHURRIED
def test_prepared_draft_holds_what_will_be_read_back(data: Any) -> None:
    """It is what a validator sees and what becomes the event (P10)."""
    prepared = Drafting().prepared(Draft("note", data))
    text, _ = codec.event_line(1, TS, None, prepared.body, codec.CHAIN_START)
    assert repr(prepared.draft.data) == repr(codec.event(text[:-1]).data)


@pytest.mark.parametrize(
    ("given_data", "read_back"),
    [
        ((1, float("nan")), [1, None]),
        ({"s": "\ud800"}, {"s": "\ud800"}),
        ({"s": "\ud83d\ude00"}, {"s": "\U0001f600"}),
        ({Text("k"): Text("v")}, {"k": "v"}),
        (Kind.NOTE, "note"),
        (b"ab", "YWI="),
    ],
)
def test_data_that_does_not_come_back_as_it_was_is_held_as_it_will(
    given_data: Any, read_back: Any
) -> None:
    prepared = Drafting().prepared(Draft("note", given_data))
    text, _ = codec.event_line(1, TS, None, prepared.body, codec.CHAIN_START)
    assert repr(prepared.draft.data) == repr(codec.event(text[:-1]).data) == repr(read_back)


def test_caller_and_validator_cannot_change_what_will_be_written() -> None:
    given_data: dict[str, list[int]] = {"x": []}
    prepared = Drafting().prepared(Draft("note", given_data))
    given_data["x"].append(1)
    assert prepared.draft.data == {"x": []} and prepared.body == body({"x": []})
    prepared.draft.data["x"].append(2)
    assert given_data == {"x": [1]} and prepared.body == body({"x": []})


def test_draft_that_was_given_is_not_changed() -> None:
    draft = Draft(Text("note"), {"x": (1,)}, event_id=Kind.NOTE)
    Drafting().prepared(draft)
    assert draft == Draft(Text("note"), {"x": (1,)}, event_id=Kind.NOTE)
    assert type(draft.type) is Text and type(draft.data["x"]) is tuple


def test_strict_is_handed_on() -> None:
    assert Drafting().prepared(Draft("note", (1,))).body == body([1])
    assert "strict: tuple" in refusal(Drafting(strict=True).prepared, Draft("note", (1,)))


def test_data_that_cannot_be_stored_is_refused_with_its_path() -> None:
    assert "at $.a[0]" in refusal(Drafting().prepared, Draft("note", {"a": [object()]}))


@pytest.mark.parametrize("name", ["type", "run_id", "call_id", "event_id"])
@pytest.mark.parametrize("value", ["", "x" * 513, 7, b"note", ["note"]])
def test_name_that_is_no_short_text_is_refused(name: str, value: Any) -> None:
    message = refusal(Drafting().prepared, Draft(**{"type": "note", name: value}))
    assert f"event rejected: {name} is 1 to 512 characters, not {value!r:.60}." in message
    assert len(message) < 200


def test_event_needs_a_type_and_no_id() -> None:
    assert Drafting().prepared(Draft("note")).body == body()
    assert "type is 1 to 512 characters, not None" in refusal(
        Drafting().prepared,
        Draft(None),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("text", ["x", "x" * 512, "é" * 512, "\ud800", "\0", '"', "\u2028"])
def test_name_may_be_any_text_of_512_characters(text: str) -> None:
    prepared = Drafting().prepared(Draft(text, None, text, text, text))
    line, _ = codec.event_line(1, TS, None, prepared.body, 0)
    event = codec.event(line[:-1])
    assert [event.type, event.run_id, event.call_id, event.event_id] == [text] * 4


@pytest.mark.parametrize("name", ["type", "run_id", "call_id", "event_id"])
@pytest.mark.parametrize("value", [Text("note"), Kind.NOTE])
def test_name_of_another_type_of_text_is_stored_as_text(name: str, value: Any) -> None:
    prepared = Drafting().prepared(Draft(**{"type": "note", name: value}))
    assert prepared.body == body(**{"type": "note", name: "note"})


@pytest.mark.parametrize("name", ["type", "run_id", "call_id", "event_id"])
def test_name_is_held_as_it_will_be_read_back(name: str) -> None:
    """Two halves of a character side by side come back as the character."""
    draft = Draft(**{"type": "note", name: "\ud83d\ude00"})
    prepared = Drafting().prepared(draft)
    line, _ = codec.event_line(1, TS, None, prepared.body, 0)
    assert getattr(codec.event(line[:-1]), name) == getattr(prepared.draft, name)


def test_event_of_the_largest_size_is_taken_and_a_larger_one_refused_with_both_sizes() -> None:
    size = len(body("abc"))
    assert Drafting(max_event_bytes=size).prepared(Draft("note", "abc"))
    message = refusal(Drafting(max_event_bytes=size - 1).prepared, Draft("note", "abc"))
    assert f"it is {size} bytes, max_event_bytes is {size - 1}." in message
    assert Drafting().max_event_bytes == MAX_EVENT_BYTES


# batch


def test_batch_takes_pairs_and_drafts() -> None:
    draft = Draft("b", 2, event_id="e")
    drafting = Drafting()
    work = drafting.batch([("a", 1), draft, ["b", 3], Draft("d")], False)
    expected = [Draft("a", 1), draft, Draft("b", 3), Draft("d")]
    assert work.items == [drafting.prepared(one) for one in expected] and not work.durable
    assert drafting.batch(iter([("a", 1)]), True).durable is True
    assert drafting.batch([], True).items == []


@pytest.mark.parametrize("one", ["ab", (), ("c",), ("a", 1, "r"), {"a": 1}, b"ab", None, 7])
def test_batch_of_anything_else_is_refused(one: Any) -> None:
    message = refusal(Drafting().batch, [("a", 1), one], True)
    assert message.startswith("append_many takes (type, data) pairs or Drafts, not ")
    assert repr(one) in message


def test_batch_with_one_event_that_cannot_be_stored_is_refused_whole() -> None:
    refusal(Drafting().batch, [("a", 1), ("b", object())], True)


def test_batch_of_too_many_events_is_refused_before_they_are_encoded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert MAX_BATCH_EVENTS == 100_000
    monkeypatch.setattr(drafting, "MAX_BATCH_EVENTS", 2)
    assert len(Drafting().batch([("a", 1)] * 2, True).items) == 2
    monkeypatch.setattr(values, "plain", lambda data, strict: pytest.fail("encoded"))
    message = refusal(Drafting().batch, [("a", 1)] * 3, True)
    assert message.startswith("append_many got 3 events; the limit is 2.")


def test_batch_of_too_many_bytes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_BATCH_BYTES == 64 * 1024 * 1024
    size = 2 * len(body(1))
    monkeypatch.setattr(drafting, "MAX_BATCH_BYTES", size)
    assert len(Drafting().batch([("note", 1)] * 2, True).items) == 2
    message = refusal(Drafting().batch, [("note", 1), ("note", 12)], True)
    assert message.startswith(f"append_many got {size + 1} bytes; the limit is {size}.")


def nested(depth: int) -> bytes:
    """An object with so many containers inside each other, itself among them."""
    return b'{"a":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"


@pytest.mark.parametrize("depth", [1, MAX_DEPTH - 1, MAX_DEPTH])
def test_encoded_data_of_allowed_depth_is_taken(depth: int) -> None:
    data = nested(depth) if depth > 1 else b"{}"
    assert Drafting().encoded(Encoded("note", data)).body.endswith(data)


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, MAX_DEPTH + 50, 3 * MAX_DEPTH])
def test_encoded_data_that_is_too_deep_is_refused_wherever_it_is(depth: int) -> None:
    with pytest.raises(EventRejectedError, match="containers inside each other"):
        Drafting().encoded(Encoded("note", nested(depth)))
    with pytest.raises(EventRejectedError, match="containers inside each other"):
        Drafting().encoded(Encoded("note", b"{}", nested(depth)[1:-1]))


def test_encoded_data_with_many_containers_side_by_side_is_taken() -> None:
    data = b'{"a":[' + b",".join([b'{"b":[[]]}'] * 500) + b'],"c":"{{{[[["}'
    assert Drafting().encoded(Encoded("note", data)).body.endswith(data)


def test_encoded_data_beyond_the_size_of_an_event_is_refused() -> None:
    drafting = Drafting(max_event_bytes=100)
    with pytest.raises(EventRejectedError, match="max_event_bytes"):
        drafting.encoded(Encoded("note", b"{}", b'"a":"%s"' % (b"x" * 100)))


def test_what_is_beside_is_written_and_not_decoded() -> None:
    ready = Drafting().encoded(Encoded("note", b'{"a":1}', b'"b":2', run_id="r"))
    assert ready.body == b',"type":"note","run_id":"r","data":{"a":1,"b":2}'
    assert ready.draft.data == {"a": 1}
    assert Drafting().encoded(Encoded("note", b"{}", b'"b":2')).body.endswith(b'{"b":2}')


def test_encoded_data_keeps_all_its_ids() -> None:
    ready = Drafting().encoded(Encoded("note", b'{"a":1}', run_id="r", call_id="c", event_id="e"))
    assert ready.body == body({"a": 1}, run_id="r", call_id="c", event_id="e")
    assert ready.draft == Draft("note", {"a": 1}, "r", "c", "e")


@pytest.mark.parametrize("name", ["run_id", "call_id", "event_id"])
def test_id_beside_encoded_data_that_is_no_short_text_is_refused(name: str) -> None:
    one = Encoded(**{"type": "note", "data": b"{}", name: "x" * 513})
    assert f"event rejected: {name} is 1 to 512" in refusal(Drafting().encoded, one)
