"""The difference of two JSON values: each change once, with a path that leads to it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from durasess.cli.difference import Change, differences, fields, listing, masked, summed_up
from durasess.cli.masking import MASK, Masker


def told(before: Any, after: Any) -> list[str]:
    """The changes in short."""
    return [f"{one.kind} {one.path}" for one in differences(before, after)]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1, "b": 2}, {"a": 1}, ["removed $.b"]),
        ({"a": 1}, {"a": 1, "a b": 2}, ['added $["a b"]']),
        ({"a": {"b": [1, {"c": 2}]}}, {"a": {"b": [1, {"c": 3}]}}, ["changed $.a.b[1].c"]),
        ([1, 2, 3], [0, 1, 2, 3], ["added $[0]"]),
        ([1, 2, 3], [2, 3], ["removed $[0]"]),
        ([1, 2], [1, 9, 2], ["added $[1]"]),
        ([1], [], ["removed $[0]"]),
        ([1, 2, 3, 4], [1, 9, 4], ["changed $[1]", "removed $[2]"]),
        ({"a": [1]}, {"a": {"0": 1}}, ["changed $.a"]),
        ([1], [True], ["changed $[0]"]),
        (1, 1.0, ["changed $"]),
        (None, {}, ["changed $"]),
    ],
    ids=str,
)
def test_changes_are_as_deep_as_can_be_told(before: Any, after: Any, expected: list[str]) -> None:
    assert told(before, after) == expected


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["", "a"]),
    lambda inside: (
        st.lists(inside, max_size=4) | st.dictionaries(st.sampled_from("abc"), inside, max_size=3)
    ),
    max_leaves=12,
)


@given(JSON, JSON)
def test_values_at_the_paths_are_those_of_the_two_sides(before: Any, after: Any) -> None:
    for one in differences(before, after):
        for whole, side in ((before, one.before), (after, one.after)):
            if side is not UNSET:
                value = whole
                for key in one.keys:
                    value = value[key]
                assert value == side


@given(JSON)
def test_value_has_no_difference_to_itself(value: Any) -> None:
    assert told(value, value) == []


def test_secrets_are_masked_and_the_change_is_still_one() -> None:
    masker = Masker()
    (change,) = differences({"password": {"x": "old"}}, {"password": {"x": "new"}})
    shown = masked(change, masker)
    assert (shown.before, shown.after) == (MASK, MASK) and masker.count == 2
    assert fields(shown) == {
        "path": "$.password.x",
        "keys": ["password", "x"],
        "change": "changed",
        "before": MASK,
        "after": MASK,
    }


def test_changes_are_counted_by_kind_and_listed_in_one_line_each() -> None:
    changes = [
        Change(("a",), "added", after="x" * 500),
        Change(("b", 1), "removed", before=None),
        Change(("c",), "changed", before=1, after={"d": 2}),
    ]
    assert summed_up(changes) == "1 added, 1 removed, 1 changed"
    assert summed_up([]) == "no difference"
    rows = [row.cells for row in listing(changes).rows]
    assert rows[0][2].endswith("…")
    assert rows[1] == ("removed", "$.b[1]", "null")
    assert rows[2] == ("changed", "$.c", '1 → {"d":2}')
