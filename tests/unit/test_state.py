"""A state that is stored comes back equal, or is refused with the place."""

import collections
import enum
from typing import Any

import msgspec
import pytest
from hypothesis import given

from durasess.engine import codec
from durasess.engine.state import decode, encode
from durasess.engine.types import MAX_STATE_DEPTH, LineError
from durasess.errors import EventRejectedError
from tests.support.lines import UNHURRIED, json_values


class Counter(msgspec.Struct):
    count: int
    tags: list[Any] = []


# decode


def test_typed_state_is_decoded_into_its_type() -> None:
    assert decode(b'{"count":2}', Counter) == Counter(2)
    assert decode(b'{"count":2}', Any) == {"count": 2}


def test_state_that_is_not_of_its_type_is_a_line_error() -> None:
    with pytest.raises(LineError):
        decode(b"[]", Counter)


# encode


@given(json_values)
@UNHURRIED
def test_plain_state_is_stored_as_it_is(state: Any) -> None:
    assert codec.decode(encode(state, Any)) == state


def test_typed_state_is_compared_as_its_type() -> None:
    assert encode(Counter(2, [1]), Counter) == b'{"count":2,"tags":[1]}'


def state_refusal(state: Any, kind: Any = Any) -> str:
    with pytest.raises(EventRejectedError) as caught:
        encode(state, kind)
    assert "Nothing was written" in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("state", "place"),
    [
        ((1, 2), "tuple becomes list at $"),
        ({"a": {"b": (1,)}}, "tuple becomes list at $.a.b"),
        ([0, [float("nan")]], "float becomes NoneType at $[1][0]"),
        ({"a": {7: 1}}, "the key 7 at $.a"),
        ({"same": 1, "a": [{"b": {1}}]}, "set becomes list at $.a[0].b"),
        ({"a": Counter(1)}, "Counter becomes dict at $.a"),
        (b"raw", "bytes becomes str at $"),
    ],
)
def test_state_that_would_come_back_different_is_refused_with_the_place(
    state: Any, place: str
) -> None:
    assert f"the state would not come back equal: {place}. Nothing" in state_refusal(state)


class Unequal(list[Any]):
    """Equal to nothing, and different from nothing."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return False

    def __ne__(self, other: object) -> bool:
        return False


@pytest.mark.parametrize(
    ("state", "place"),
    [({"a": Unequal()}, "dict becomes dict at $"), ([Unequal()], "list becomes list at $")],
)
def test_state_that_equals_nothing_is_refused_though_no_difference_shows(
    state: Any, place: str
) -> None:
    assert place in state_refusal(state)


def cycle() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        (object(), Any),
        (cycle(), Any),
        ([float("nan"), "\ud800"], Any),
        (Counter("many"), Counter),  # type: ignore[arg-type]
    ],
)
def test_state_that_cannot_be_encoded_or_read_back_is_refused(state: Any, kind: Any) -> None:
    assert state_refusal(state, kind).startswith("the state cannot be stored: ")


def nested(levels: int, inside: Any = 1) -> Any:
    """A value in so many lists."""
    for _ in range(levels):
        inside = [inside]
    return inside


BRACKETS = ["x", "]]}}", '"\\"]', "\\", '\\"[', "\\\\]]", "[{"]
"""Texts: what is in them is no container."""


@pytest.mark.parametrize("kind", [Any, Counter])
@pytest.mark.parametrize("text", BRACKETS)
def test_state_nested_more_deeply_than_every_reader_takes_is_refused(text: str, kind: Any) -> None:
    """One interpreter goes on where another stops, and a snapshot must be read by both."""
    many = [{text: text} for _ in range(MAX_STATE_DEPTH)]
    deepest = nested(MAX_STATE_DEPTH - 2, text)
    for inside in ([deepest, *many], [*many, deepest]):
        for levels in (1, 2):
            state = (
                Counter(1, nested(levels - 1, inside))
                if kind is Counter
                else nested(levels, inside)
            )
            if levels == 1:
                assert decode(encode(state, kind), kind) == state
            else:
                assert "more than 200 containers" in state_refusal(state, kind)


def test_typed_state_with_half_a_character_comes_back_equal() -> None:
    state = Counter(1, ["\ud800", "\u2028"])
    assert decode(encode(state, Counter), Counter) == state


class Level(enum.IntEnum):
    HIGH = 2


TWICE: list[Any] = [1]


@pytest.mark.parametrize(
    ("state", "odd"),
    [
        ({"a": collections.Counter(b=1)}, "Counter Counter({'b': 1})"),
        ([Level.HIGH], "Level <Level.HIGH: 2>"),
        ({"a": TWICE, "b": TWICE}, "a list that stands in two places ([1])"),
    ],
)
def test_state_that_would_come_back_equal_and_of_another_kind_is_refused(
    state: Any, odd: str
) -> None:
    """`apply` would meet another one after a restart (P10)."""
    assert f"would not come back as it is: {odd}. Nothing" in state_refusal(state)
