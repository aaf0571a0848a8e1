"""P10: the live state equals the recovered state after every event: a reducer gets what will be
read back, never the caller's objects."""

import collections
import dataclasses
import datetime
import enum
import math
import uuid

import msgspec
import pytest

from durasess import EventRejectedError
from durasess.engine.drafting import Drafting
from tests.support.sessions import open_inline, state_of


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    y: float


VALUES = [
    (1, (2, 3)),
    {"s": {3, 1, 2}},
    Colour.RED,
    Point(1, 0.1),
    math.nan,
    b"bytes",
    uuid.UUID(int=7),
    datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
    2**80,
    "\ud800",
    -0.0,
    1e308,
    {"nested": [{"deep": [(), None]}]},
]


def kinds(value):
    """A value with the type of every part, so that 1, 1.0 and True differ."""
    if isinstance(value, dict):
        return {key: kinds(part) for key, part in value.items()}
    if isinstance(value, list):
        return [kinds(part) for part in value]
    return type(value).__name__, repr(value)


@pytest.mark.parametrize("value", VALUES, ids=repr)
@pytest.mark.parametrize("snapshot", [False, True])
def test_p10_live_state_is_the_recovered_state(tmp_path, value, snapshot):
    with open_inline(tmp_path / "s1") as engine:
        engine.append("t", value)
        live = kinds(engine.state)
        assert kinds(state_of(tmp_path / "s1")) == live
        if snapshot:
            engine.snapshot()
    assert kinds(state_of(tmp_path / "s1")) == live


def test_p10_events_are_those_that_are_read_back(tmp_path):
    seen = []
    with open_inline(tmp_path / "s1", apply=lambda state, event: seen.append(event)) as engine:
        engine.append("t", (1, 2), run_id="r", call_id="c", event_id="e")
        engine.append_many([("t", {"a": (1,)}), ("t", None)])
        assert list(engine.events()) == seen


def test_p10_reducer_that_changes_its_event_does_not_reach_the_caller(tmp_path):
    def greedy(state, event):
        event.data["list"].append("mine")
        state.append(event.data)

    given = {"list": [1]}
    with open_inline(tmp_path / "s1", apply=greedy) as engine:
        engine.append("t", given)
        assert given == {"list": [1]}
        given["list"].append("later")
        assert engine.state == [{"list": [1, "mine"]}]
        assert next(engine.events()).data == {"list": [1]}


def test_p10_validator_sees_what_will_be_read_back(tmp_path):
    seen = []
    options = {"validate": lambda state, draft: seen.append(draft.data)}
    with open_inline(tmp_path / "s1", **options) as engine:
        engine.append("t", (1, {2}))
    assert seen == [[1, [2]]]


def test_p10_validator_that_changes_its_draft_does_not_reach_the_log_or_the_state(tmp_path):
    def greedy(_state, draft):
        draft.data["list"].append("mine")

    given = {"list": [1]}
    with open_inline(tmp_path / "s1", validate=greedy) as engine:
        engine.append("t", given)
        assert given == {"list": [1]}
        live = kinds(engine.state)
        assert kinds(state_of(tmp_path / "s1")) == live


def test_p10_has_teeth_a_reducer_that_gets_the_callers_objects_differs(tmp_path, monkeypatch):
    given = {"t": (1, 2)}
    real = Drafting.prepared

    def callers_own(drafting, draft):
        prepared = real(drafting, draft)
        draft = msgspec.structs.replace(prepared.draft, data=given)
        return msgspec.structs.replace(prepared, draft=draft)

    engine = open_inline(tmp_path / "s1")
    monkeypatch.setattr(Drafting, "prepared", callers_own)
    engine.append("t", given)
    monkeypatch.undo()
    assert kinds(state_of(tmp_path / "s1")) != kinds(engine.state)
    engine.abandon()


@pytest.mark.parametrize("value", [(1,), {1}, {1: 2}, math.nan, object()])
def test_p10_state_that_would_come_back_different_is_never_stored(tmp_path, value):
    with open_inline(tmp_path / "s1", apply=lambda state, event: {"v": value}) as engine:
        engine.append("t", 1)
        with pytest.raises(EventRejectedError):
            engine.snapshot()
    assert not (tmp_path / "s1" / "snapshot.json.zst").exists()


class Level(enum.IntEnum):
    HIGH = 3


class Name(str):
    """Equal to the plain text, but not the same."""


@pytest.mark.parametrize(
    "value",
    [
        collections.Counter(a=1),
        collections.defaultdict(list, a=[1]),
        {"deep": [collections.OrderedDict(a=1)]},
        [Level.HIGH],
        {"n": Name("x")},
    ],
    ids=repr,
)
def test_p10_state_of_a_type_that_is_equal_but_would_not_come_back_is_never_stored(tmp_path, value):
    """A reducer that works on a Counter fails on the dict that a snapshot would give it."""
    with open_inline(tmp_path / "s1", apply=lambda state, event: value) as engine:
        engine.append("t", 1)
        with pytest.raises(EventRejectedError):
            engine.snapshot()
