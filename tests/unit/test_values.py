"""Python values → JSON values: each row of the module's table, strict and not, and every refusal
with its key path."""

import base64
import dataclasses
import datetime
import decimal
import enum
import itertools
import pathlib
import uuid
from collections import OrderedDict, namedtuple
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from durasess.engine import codec, values
from durasess.engine.types import MAX_DEPTH
from durasess.errors import EventRejectedError
from tests.support.lines import UNHURRIED, json_values, texts


class Text(str):
    pass


class Number(int):
    pass


class Ratio(float):
    pass


class Color(enum.Enum):
    RED = "red"
    DEEP = ("a", 1)
    ODD = object()


class Level(enum.IntEnum):
    LOW = 1


class Kind(enum.StrEnum):
    NOTE = "note"


@dataclasses.dataclass
class Point:
    x: int
    y: Any = None


class Renamed(msgspec.Struct, rename="camel"):
    first_name: str
    inner: Any = None


Pair = namedtuple("Pair", ["left", "right"])


class FileSystemPath:
    def __fspath__(self) -> bytes:
        return b"/a/\xff"


UTC = datetime.UTC
BERLIN = datetime.timezone(datetime.timedelta(hours=1))
NOON = datetime.datetime(2026, 1, 2, 12, 0, 0, 5, tzinfo=UTC)
SOME_ID = uuid.UUID(int=1)


def refusal(value: Any, *, strict: bool = False) -> str:
    """Why `value` cannot be stored, without the parts that every refusal has."""
    with pytest.raises(EventRejectedError) as caught:
        values.plain(value, strict=strict)
    message = str(caught.value)
    assert message.startswith("event rejected: ") and message.endswith(". Nothing was written.")
    return message.removeprefix("event rejected: ").removesuffix(". Nothing was written.")


# plain: values that stay themselves


@given(json_values)
@UNHURRIED
def test_json_value_stays_itself_and_comes_back_equal(value: Any) -> None:
    for strict in (False, True):
        stored = values.plain(value, strict=strict)
        assert repr(stored) == repr(value)
        assert repr(codec.decode(codec.encode(stored))) == repr(value)


@given(st.lists(st.integers(0, 3) | texts, max_size=6))
@UNHURRIED
def test_refused_leaf_is_named_by_its_path(steps: list[int | str]) -> None:
    value: Any = object()
    path = ""
    for step in reversed(steps):
        if isinstance(step, int):
            value = [*[None] * step, value]
            path = f"[{step}]{path}"
        else:
            value = {step: value}
            path = (f".{step}" if step.isidentifier() else f"[{step!r}]") + path
    assert refusal(value) == f"cannot store object at ${path}"


def test_argument_is_never_changed_or_shared() -> None:
    given_value = {"a": [1, {"b": []}]}
    stored = values.plain(given_value)
    stored["a"][1]["b"].append("new")
    assert given_value == {"a": [1, {"b": []}]}


def test_bool_does_not_become_a_number() -> None:
    assert values.plain([True, False]) == [True, False]
    assert [type(one) for one in values.plain([True, 1, 1.0])] == [bool, int, float]


# plain: conversions


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (float("nan"), None),
        (float("inf"), None),
        (-float("inf"), None),
        ((1, (2,)), [1, [2]]),
        (Pair(1, 2), [1, 2]),
        ({3, 1, 2}, [1, 2, 3]),
        (frozenset("ba"), ["a", "b"]),
        ({1, "a", None}, ["a", 1, None]),
        (NOON, "2026-01-02T12:00:00.000005+00:00"),
        (NOON.replace(microsecond=0, tzinfo=BERLIN), "2026-01-02T12:00:00+01:00"),
        (datetime.date(2026, 1, 2), "2026-01-02"),
        (datetime.time(1, 2, tzinfo=UTC), "01:02:00+00:00"),
        (SOME_ID, "00000000-0000-0000-0000-000000000001"),
        (pathlib.PurePosixPath("/a/b"), "/a/b"),
        (FileSystemPath(), "/a/\udcff"),
        (decimal.Decimal("1.10"), "1.10"),
        (Color.RED, "red"),
        (Color.DEEP, ["a", 1]),
        (Level.LOW, 1),
        (Kind.NOTE, "note"),
        (b"\xff\x00", "/wA="),
        (bytearray(b"a"), "YQ=="),
        (memoryview(b"ab"), "YWI="),
        (Point(1, Point(2)), {"x": 1, "y": {"x": 2, "y": None}}),
        (Renamed("A", (1,)), {"firstName": "A", "inner": [1]}),
        (Text("t"), "t"),
        (Number(3), 3),
        (Ratio(0.5), 0.5),
        (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
    ],
)
def test_value_is_stored_as_the_table_says_and_strict_refuses_it(value: Any, stored: Any) -> None:
    found = values.plain(value)
    assert repr(found) == repr(stored)
    assert refusal([value], strict=True).startswith("strict: ")
    assert refusal([value], strict=True).endswith(" at $[0]")


def test_strict_refusal_says_what_would_happen() -> None:
    assert refusal(float("nan"), strict=True) == "strict: nan would come back as null, at $"
    assert refusal((), strict=True) == "strict: tuple would not come back equal, at $"


def test_equal_sets_become_equal_arrays() -> None:
    members = [frozenset([number]) for number in range(64)]
    pairs = itertools.combinations(members, 2)
    # Which of two members comes first depends on which was put in first when their slots collide.
    one, other = next(pair for pair in pairs if list(set(pair)) != list(set(pair[::-1])))
    assert values.plain({one, other}) == values.plain({other, one})


def test_members_of_a_set_are_converted_too() -> None:
    assert values.plain({(1, SOME_ID)}) == [[1, str(SOME_ID)]]
    assert refusal({(1, object)}) == "cannot store type at $[0][1]"


def test_bytes_come_back_from_base64() -> None:
    raw = bytes(range(256))
    assert base64.b64decode(values.plain(raw)) == raw


@pytest.mark.parametrize("view", [memoryview(b"abcdef")[::2], memoryview(b"abc")[::-1]])
def test_memoryview_with_gaps_is_stored_as_its_bytes(view: memoryview) -> None:
    assert base64.b64decode(values.plain(view)) == view.tobytes()


class Tagged(msgspec.Struct, tag="tagged", tag_field="kind"):
    x: int


class TaggedByNumber(msgspec.Struct, tag=7):
    x: int


@pytest.mark.parametrize("value", [Tagged(1), TaggedByNumber(1), Renamed("A", [Tagged(2)])])
def test_struct_is_stored_as_msgspec_writes_it(value: Any) -> None:
    assert codec.encode(values.plain(value)) == msgspec.json.encode(value)


# plain: refusals


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (object(), "cannot store object at $"),
        (datetime.timedelta(1), "cannot store timedelta at $"),
        (1j, "cannot store complex at $"),
        ({"a": [0, print]}, "cannot store builtin_function_or_method at $.a[1]"),
        (iter([]), "cannot store list_iterator at $"),
        ([Point], "cannot store type at $[0]"),
        (Color.ODD, "cannot store object at $"),
        (Point(1, {"z": object()}), "cannot store object at $.y.z"),
        (Renamed("A", object()), "cannot store object at $.inner"),
        (NOON.replace(tzinfo=None), "a datetime without a time zone at $"),
        (datetime.time(1), "a time without a time zone at $"),
        ({"a b": {"": object()}}, "cannot store object at $['a b']['']"),
    ],
)
def test_other_value_is_refused_with_its_path(value: Any, reason: str) -> None:
    assert refusal(value) == reason


@pytest.mark.parametrize("key", [1, None, True, 1.5, (1,), b"a", Color.DEEP, Level.LOW])
def test_key_that_is_no_text_is_refused_with_the_path_of_its_object(key: Any) -> None:
    reason = f"the key {key!r} is {type(key).__name__}, not str, at $.a"
    assert refusal({"a": {key: 1}}) == reason
    assert refusal({"a": {key: 1}}, strict=True) == reason


@pytest.mark.parametrize(
    ("key", "stored"), [(Text("k"), "k"), (Kind.NOTE, "note"), (Color.RED, "red")]
)
def test_key_that_is_text_of_another_type_becomes_str_unless_strict(key: Any, stored: str) -> None:
    (found,) = values.plain({key: 1})
    assert (type(found), found) == (str, stored)
    assert "not str, at $" in refusal({key: 1}, strict=True)


def test_keys_that_become_one_are_refused() -> None:
    assert refusal([{"red": 1, Color.RED: 2}]) == "two keys become 'red' at $[0]"


def test_integers_of_4000_digits_are_exact_and_longer_ones_refused() -> None:
    longest = 10**4000 - 1
    assert values.plain([longest, -longest]) == [longest, -longest]
    assert codec.decode(codec.encode(values.plain(longest))) == longest
    for value in (longest + 1, -longest - 1, Number(longest + 1)):
        assert refusal({"n": value}) == "an integer of more than 4,000 digits at $.n"


def nested(depth: int, *, by: str) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"list": [value], "dict": {"k": value}, "tuple": (value,)}[by]
    return value


@pytest.mark.parametrize("by", ["list", "dict", "tuple"])
def test_containers_may_be_nested_100_deep_and_no_deeper(by: str) -> None:
    assert MAX_DEPTH == 100
    assert values.plain(nested(100, by=by)) is not None
    reason = refusal(nested(101, by=by))
    assert reason.startswith("more than 100 containers inside each other, or a cycle, at $")


class Endless(enum.Enum):
    @property
    def value(self) -> Any:  # type: ignore[override]
        return self

    ONE = 1


def test_enum_that_is_its_own_value_is_refused() -> None:
    assert refusal(Endless.ONE).startswith("more than 100 containers inside each other, or a cycle")


class Unreadable:
    def __fspath__(self) -> str:
        raise OSError("gone")


class UnreadableSet(set[Any]):
    def __iter__(self) -> Any:
        raise ValueError("broken")


def test_value_whose_own_code_fails_is_refused_with_the_path() -> None:
    assert refusal({"a": Unreadable()}) == "Unreadable cannot be read (OSError('gone')) at $.a"
    assert refusal([UnreadableSet([1])]) == (
        "UnreadableSet cannot be read (ValueError('broken')) at $[0]"
    )


def test_cycle_is_refused() -> None:
    cycle: dict[str, Any] = {}
    cycle["me"] = [cycle]
    assert refusal(cycle).startswith("more than 100 containers inside each other, or a cycle, at $")
    assert ".me[0].me[0]" in refusal(cycle)


def test_nothing_of_the_search_is_chained_to_the_refusal() -> None:
    with pytest.raises(EventRejectedError) as caught:
        values.plain([[object()]])
    assert caught.value.__cause__ is None and caught.value.__suppress_context__


# Surrogates side by side are one character in JSON, so these come back as something else.

HALVES = "\ud83d\ude00"


def test_halves_of_a_character_side_by_side_do_not_come_back_and_strict_refuses_them() -> None:
    assert codec.decode(codec.encode(HALVES)) == "\U0001f600" != HALVES
    assert refusal({"a": HALVES}, strict=True).endswith(" at $.a")


def test_keys_that_become_one_character_are_refused() -> None:
    assert refusal({HALVES: 1, "\U0001f600": 2}).startswith("two keys become ")
