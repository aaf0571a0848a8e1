"""FAULTS E: values that are not what they seem."""

import dataclasses
import datetime
import enum
import json
import math

import pytest

from durasess import EventRejectedError
from durasess.engine.types import MAX_DEPTH
from tests.support.sessions import lines_of, open_inline, replace_line, segment_path, state_of


def stored(tmp_path, value, **options):
    """What comes back for a value: live, recovered, and through a snapshot, all the same."""
    with open_inline(tmp_path / "s1", **options) as engine:
        engine.append("t", value)
        live = engine.state[0]
        assert state_of(tmp_path / "s1")[0] == live
        engine.snapshot()
    assert state_of(tmp_path / "s1")[0] == live
    return live


def refused(tmp_path, value, match="", **options):
    """Nothing was written, and the handle goes on."""
    with open_inline(tmp_path / "s1", **options) as engine:
        with pytest.raises(EventRejectedError, match=match):
            engine.append("t", value)
        assert not segment_path(tmp_path / "s1").exists()
        assert engine.append("t", 1).seq == 1


def strict_json(text):
    def no_constant(name):
        raise ValueError(name)

    return json.loads(text, parse_constant=no_constant)


def test_e1_nan_and_infinity_become_null_and_the_log_stays_json(tmp_path):
    value = {"a": math.nan, "b": math.inf, "c": [-math.inf]}
    assert stored(tmp_path, value) == {"a": None, "b": None, "c": [None]}
    for line in lines_of(segment_path(tmp_path / "s1")):
        strict_json(line)


@pytest.mark.parametrize("value", [math.nan, math.inf, {"k": [-math.inf]}, (1,), b"x"])
def test_e1_strict_refuses_what_would_not_come_back_equal(tmp_path, value):
    refused(tmp_path, value, match="strict", strict=True)


@pytest.mark.parametrize("value", [2**53 + 1, 2**63, 2**64, 10**30, -(2**70), 10**300])
def test_e2_integers_of_any_size_are_exact(tmp_path, value):
    assert stored(tmp_path, {"n": [value]}) == {"n": [value]}


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


def test_e4_enums_become_their_values_never_none(tmp_path):
    assert stored(tmp_path, {"a": [{"b": Colour.RED}, Level.HIGH]}) == {"a": [{"b": "red"}, 3]}


def test_e4_key_that_is_no_string_is_refused_with_its_path(tmp_path):
    refused(tmp_path, {"a": {Level.HIGH: 1}}, match=r"\$\.a")


def test_e5_lone_surrogate_in_the_state_survives_a_snapshot(tmp_path):
    assert stored(tmp_path, {"t": "\ud83d"}) == {"t": "\ud83d"}


class TwoArguments(Exception):
    def __init__(self, one, two):
        super().__init__(one)
        self.two = two


class Hostile:
    """Whatever one does with it raises."""

    def __reduce__(self):
        raise RuntimeError("no pickle")

    def to_dict(self):
        raise RuntimeError("no dict")


@dataclasses.dataclass
class HostileField:
    value: object


class HostileMapping(dict):
    def items(self):
        raise RuntimeError("no items")


@pytest.mark.parametrize(
    "value",
    [
        TwoArguments("a", "b"),
        Hostile(),
        [Hostile()],
        HostileField(Hostile()),
        lambda: None,
        object,
        (n for n in range(3)),
    ],
)
def test_e7_e8_objects_that_are_no_json_are_refused_never_pickled(tmp_path, value):
    refused(tmp_path, value, match="cannot store")


def test_e8_object_that_raises_while_it_is_looked_at_costs_nothing(tmp_path):
    class Raising:
        def __fspath__(self):
            raise RuntimeError("no path")

    with open_inline(tmp_path / "s1") as engine:
        with pytest.raises((EventRejectedError, RuntimeError)):
            engine.append("t", Raising())
        assert engine.append("t", 1).seq == 1


def test_e8_mapping_whose_own_code_raises_is_stored_as_what_it_holds(tmp_path):
    assert stored(tmp_path, {"n": HostileMapping(a=1)}) == {"n": {"a": 1}}


def test_e10_keys_that_collide_or_are_no_strings_are_refused(tmp_path):
    refused(tmp_path, {1: "a", "1": "b"}, match="not str")


def test_e10_negative_zero_and_tuples(tmp_path):
    back = stored(tmp_path, [-0.0, (1, 2)])
    assert math.copysign(1, back[0]) == -1
    assert back[1] == [1, 2]


def test_e10_number_beyond_a_double_in_a_hand_made_log_is_damage_not_infinity(tmp_path):
    import zlib

    with open_inline(tmp_path / "s1") as engine:
        engine.append("t", 1)
        engine.abandon()
    file = segment_path(tmp_path / "s1")
    text = lines_of(file)[1].replace(b'"data":1', b'"data":1e400')[:-18]
    replace_line(file, 1, b'%s,"crc":"%08x"}' % (text, zlib.crc32(text)))
    (tmp_path / "s1" / "lock").write_bytes(b"")
    from tests.support.sessions import open_session

    assert open_session(tmp_path / "s1", mode="read").damage[0].first_seq == 1


def test_naive_datetime_is_refused_and_an_aware_one_is_rfc_3339(tmp_path):
    refused(tmp_path, datetime.datetime(2026, 1, 1), match="time zone")
    moment = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    with open_inline(tmp_path / "s2") as engine:
        engine.append("t", moment)
        assert engine.state == ["2026-01-01T00:00:00+00:00"]


def nested(depth):
    value = 1
    for _ in range(depth):
        value = [value]
    return value


def test_nesting_up_to_the_limit_comes_back_and_beyond_it_is_refused(tmp_path):
    assert stored(tmp_path, nested(MAX_DEPTH)) == nested(MAX_DEPTH)
    with open_inline(tmp_path / "s1") as engine, pytest.raises(EventRejectedError):
        engine.append("t", nested(MAX_DEPTH + 1))


def test_values_of_the_caller_are_neither_kept_nor_changed(tmp_path):
    value = {"list": [1], "nan": math.nan}
    with open_inline(tmp_path / "s1") as engine:
        engine.append("t", value)
        value["list"].append(2)
        assert engine.state[0]["list"] == [1]
        assert math.isnan(value["nan"])
