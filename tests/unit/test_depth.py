"""How deeply JSON nests, and whose fault it is when that is too much to be read."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from durasess import Engine
from durasess.engine import codec
from durasess.engine.depth import is_deeper, is_value_deeper
from durasess.engine.types import MAX_DEPTH, MAX_STATE_DEPTH, LineError
from tests.support.lines import UNHURRIED, json_values


def depth_of(value: Any) -> int:
    inside = value.values() if isinstance(value, dict) else value
    return 1 + max(map(depth_of, inside), default=0) if isinstance(value, (dict, list)) else 0


def nested(levels: int) -> Any:
    value: Any = 1
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


@given(json_values)
@UNHURRIED
def test_depth_is_that_of_the_value(value: Any) -> None:
    data, depth = codec.encode(value), depth_of(value)
    assert not is_deeper(data, depth) and not is_value_deeper(value, depth)
    assert depth == 0 or (is_deeper(data, depth - 1) and is_value_deeper(value, depth - 1))


def frames() -> int:
    found, frame = 0, sys._getframe()
    while frame.f_back is not None:
        found, frame = found + 1, frame.f_back
    return found


def with_frames_left(left: int, call: Callable[[], Any]) -> Any:
    """What a call gives that is made so near to the end of the stack; RecursionError as a value."""

    def deeper(more: int) -> Any:
        return call() if more <= 0 else deeper(more - 1)

    try:
        return deeper(sys.getrecursionlimit() - frames() - left)
    except RecursionError:
        return RecursionError


def outcomes(call: Callable[[], Any]) -> list[Any]:
    """At every depth of the stack at which it may be short, and one at which it is not."""
    return [with_frames_left(left, call) for left in range(5, 3 * MAX_DEPTH)]


def test_history_that_is_read_near_the_end_of_the_stack_is_whole_or_an_error(
    tmp_path: Path,
) -> None:
    """Sound events were passed over as damage in a session that is open for reading."""
    with Engine.open(tmp_path / "s1") as engine:
        for _ in range(3):
            engine.append("t", nested(MAX_DEPTH - 5))

        found = outcomes(lambda: [one.seq for one in engine.events()])
    with Engine.open(tmp_path / "s1", mode="read") as reader:
        found += outcomes(lambda: [one.seq for one in reader.events()])
    assert all(one in ([1, 2, 3], RecursionError) for one in found)
    assert found.count([1, 2, 3]) > MAX_DEPTH


@pytest.mark.parametrize("kind", [Any, list])
def test_bytes_that_nest_no_deeper_than_a_writer_writes_are_never_a_line_error(kind: Any) -> None:
    value = nested(MAX_DEPTH)
    data = codec.encode(value)
    read = (lambda: codec.decode(data)) if kind is Any else (lambda: codec.typed(data, kind))
    for call in (read, lambda: codec.converted(value, kind, "json")):
        found = outcomes(call)
        assert all(one in (value, RecursionError) for one in found)
        assert value in found


def test_what_nests_more_deeply_than_a_writer_writes_is_a_line_error() -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    with pytest.raises(LineError):
        codec.decode(deep)
    with pytest.raises(LineError):
        codec.typed(deep, list)
    assert is_deeper(deep, MAX_STATE_DEPTH)
