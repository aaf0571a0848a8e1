"""Which drafts are written, which were written before and get their old receipt, which are
refused."""

import enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durasess.engine import admission, codec
from durasess.engine.admission import Append, Prepared
from durasess.engine.drafting import Drafting
from durasess.engine.receipt import Receipt
from durasess.engine.records import Place
from durasess.engine.snapshot import RememberedId
from durasess.engine.tickets import Ticket
from durasess.engine.types import Draft, Event
from durasess.errors import EventRejectedError
from tests.support.lines import (
    SESSION,
    START,
    TS,
    UNHURRIED,
    batch,
    body,
    json_values,
    place_after,
    texts,
)


def prepared(data: Any = None, event_id: str | None = None) -> Prepared:
    return Drafting().prepared(Draft("note", data, event_id=event_id))


def admitted(
    *items: Prepared, taken: Any = (), known: Any = (), validate: Any = None, state: Any = None
) -> list[Prepared | Receipt]:
    window = {one.event_id: one for one in known}
    work = Append(list(items), True)
    return admission.admit(work, set(taken), window, SESSION, validate, state)


def written_before(data: Any, event_id: str) -> RememberedId:
    return RememberedId(event_id, 7, "0a1b2c3d", codec.digest(body(data, event_id=event_id)))


def refusal(*items: Prepared, **options: Any) -> EventRejectedError:
    with pytest.raises(EventRejectedError) as caught:
        admitted(*items, **options)
    assert "event rejected: event_id 'e1' " in str(caught.value)
    assert "Nothing was written" in str(caught.value)
    return caught.value


# Append


def test_size_of_an_append_is_that_of_its_bodies() -> None:
    items = [prepared(1), prepared({"x": "é"}, "e1")]
    assert Append(items, True).size == sum(len(item.body) for item in items)
    assert Append([], True).size == 0


def test_event_ids_of_an_append_are_those_that_its_drafts_have() -> None:
    items = [prepared(1, "e1"), prepared(2), prepared(3, "e3")]
    assert Append(items, True).event_ids == {"e1", "e3"}
    assert Append([prepared(2)], True).event_ids == frozenset()


# admit


def test_drafts_with_new_ids_or_none_are_written() -> None:
    items = [prepared(1), prepared(1), prepared(1, "e1"), prepared(1, "e2")]
    assert admitted(*items) == items
    assert admitted() == []


def test_draft_that_was_written_before_gets_the_receipt_of_then() -> None:
    again, new = prepared({"x": 1}, "e1"), prepared(2)
    found = admitted(again, new, known=[written_before({"x": 1}, "e1")])
    assert found == [Receipt(SESSION, 7, "0a1b2c3d", True), new]


class Step(enum.StrEnum):
    DEPLOY = "e1"


def test_id_given_as_an_enum_is_found_again() -> None:
    again = prepared(1, Step.DEPLOY)
    assert again.body == prepared(1, "e1").body
    assert admitted(again, known=[written_before(1, "e1")]) == [Receipt(SESSION, 7, "0a1b2c3d")]


def test_id_that_was_used_for_other_content_is_refused_with_its_seq() -> None:
    error = refusal(prepared({"x": 2}, "e1"), known=[written_before({"x": 1}, "e1")])
    assert "was used for seq 7 with other content" in str(error)
    assert error.seq == 7


@pytest.mark.parametrize("data", [1, 2])
def test_id_used_twice_at_once_is_refused_whatever_the_content(data: int) -> None:
    first = prepared(1, "e1")
    for error in (
        refusal(first, prepared(data, "e1")),
        refusal(prepared(data, "e1"), taken={"e0", "e1"}),
        refusal(prepared(1, "e1"), first, known=[written_before(1, "e1")]),
    ):
        assert "is used by two events at once" in str(error) and error.seq is None


def test_events_without_ids_in_the_same_batch_do_not_count_as_one() -> None:
    assert len(admitted(prepared(1), prepared(1))) == 2


def test_ids_that_are_to_be_written_are_taken_and_those_written_before_are_not() -> None:
    work = Append([prepared(1, "e1"), prepared(2), prepared(3, "e3")], True)
    taken = {"e0"}
    known = {"e1": written_before(1, "e1")}
    admission.admit(work, taken, known, SESSION, None, None)
    assert taken == {"e0", "e3"}


def test_validator_sees_each_draft_that_is_to_be_written_and_the_state() -> None:
    seen: list[Any] = []
    items = [prepared(1), prepared(2, "e1"), prepared(3)]
    admitted(
        *items,
        known=[written_before(2, "e1")],
        validate=lambda state, draft: seen.append((state, draft)),
        state="state",
    )
    assert seen == [("state", items[0].draft), ("state", items[2].draft)]


def test_what_the_validator_raises_is_raised() -> None:
    def validate(state: Any, draft: Draft) -> None:
        raise KeyError(draft.data)

    with pytest.raises(KeyError, match="2"):
        admitted(prepared(2), validate=validate)


# encode_batch


@pytest.mark.parametrize("count", [1, 2, 5])
def test_drafts_become_the_lines_of_one_batch(count: int) -> None:
    after = Place(40, 0x0A1B2C3D)
    made = admission.encode_batch([prepared({"x": 1})] * count, after, TS)
    assert b"".join(made.lines) == batch(after, count, {"x": 1})
    assert [place.seq for place in made.places] == list(range(41, 41 + count))
    for index, place in enumerate(made.places, 1):
        assert place == place_after(b"".join(made.lines[:index]), after)
    assert [(event.seq, event.crc) for event in made.events] == [
        (place.seq, codec.hexed(place.chain)) for place in made.places
    ]


def test_nothing_to_write_is_no_line() -> None:
    assert admission.encode_batch([], START, TS) == admission.Batch([], [], [])


names = texts.filter(bool)
drafts = st.builds(
    Draft,
    type=names,
    data=json_values,
    run_id=st.none() | names,
    call_id=st.none() | names,
    event_id=st.none() | names,
)


@given(
    given_drafts=st.lists(drafts, min_size=1, max_size=3),
    seq=st.integers(0, 10**17),
    chain=st.integers(0, 2**32 - 1),
)
@UNHURRIED
def test_event_that_is_made_equals_the_one_that_its_line_reads_back_as(
    given_drafts: list[Draft], seq: int, chain: int
) -> None:
    """The state of a writer is folded from the one, that of a reader from the other (P10).
    By repr, which tells 1 from 1.0 and from True, and 0.0 from -0.0."""
    fresh = [Drafting().prepared(draft) for draft in given_drafts]
    made = admission.encode_batch(fresh, Place(seq, chain), TS)
    assert len(made.lines) == len(made.events) == len(made.places) == len(fresh)
    for text, event, place in zip(made.lines, made.events, made.places, strict=True):
        assert repr(event) == repr(codec.event(text[:-1]))
        assert codec.check(text[:-1], chain) == place.chain
        chain = place.chain


@pytest.mark.parametrize(
    "data",
    [
        {"x": (1, float("nan")), "d": 2.0, "t": True, "z": -0.0},
        ["\ud83d\ude00", "\ud800", "\u2028"],
        [2**63, 2**64, -(10**400), 1e22, 5e-324],
        Step.DEPLOY,
        b"bytes",
    ],
)
def test_event_holds_data_as_it_is_read_back(data: Any) -> None:
    """The data that JSON has no type for comes back as another one."""
    made = admission.encode_batch([prepared(data, Step.DEPLOY)], START, TS)
    assert repr(made.events[0]) == repr(codec.event(made.lines[0][:-1]))


# receipts


def ticket(*items: Prepared, durable: bool = True) -> Ticket:
    return Ticket(Append(list(items), durable))


def written_at(seq: int) -> Event:
    """An event with this seq; its crc is the same number, in hex."""
    return Event(seq=seq, ts=TS, type="note", data=None, crc=codec.hexed(seq))


def test_each_ticket_gets_a_receipt_for_each_of_its_drafts_in_order() -> None:
    one, two, three = prepared(1), prepared(2), prepared(3)
    first, second, third = ticket(one, two), ticket(three), ticket()
    outcomes = admission.receipts(
        [(first, [one, two]), (second, [three]), (third, [])],
        [written_at(41), written_at(42), written_at(43)],
        SESSION,
    )
    assert outcomes == [
        (first, [Receipt(SESSION, 41, "00000029"), Receipt(SESSION, 42, "0000002a")], None),
        (second, [Receipt(SESSION, 43, "0000002b")], None),
        (third, [], None),
    ]


def test_receipt_of_then_stays_where_it_stands() -> None:
    old, new = Receipt(SESSION, 7, "0a1b2c3d"), prepared(1)
    both = ticket(prepared(0), new)
    outcomes = admission.receipts([(both, [old, new])], [written_at(41)], SESSION)
    assert outcomes == [(both, [old, Receipt(SESSION, 41, "00000029")], None)]


def test_receipt_says_whether_the_caller_waited_for_the_sync() -> None:
    one = ticket(prepared(1), durable=False)
    ((_, (receipt,), _),) = admission.receipts([(one, one.work.items)], [written_at(41)], SESSION)
    assert receipt == Receipt(SESSION, 41, "00000029", False)
