"""Faults found by review: data that is refused whole, or taken as it says it is."""

import asyncio
import dataclasses
import enum
import os

import msgspec
import pytest

from durasess import Draft, EventRejectedError
from tests.support.sessions import open_inline, unchanged

# append_many takes pairs and drafts


NO_EVENTS = [
    {"type": "note", "data": 1},
    {"a", "b"},
    "ab",
    b"ab",
    ("a",),
    ("a", 1, "run"),
    (1, 2, 3, 4, 5, 6),
    (1, 2),
    1,
    None,
]


@pytest.mark.parametrize("bad", NO_EVENTS, ids=repr)
def test_what_is_no_pair_and_no_draft_refuses_the_whole_batch(tmp_path, bad):
    with open_inline(tmp_path / "s1") as engine:
        with unchanged(tmp_path / "s1"), pytest.raises(EventRejectedError):
            engine.append_many([("t", 1), bad])
        assert engine.last_seq == 0


@pytest.mark.parametrize("bad", NO_EVENTS, ids=repr)
def test_what_is_no_pair_and_no_draft_refuses_the_batch_of_a_coroutine(tmp_path, bad):
    with open_inline(tmp_path / "s1") as engine:
        with unchanged(tmp_path / "s1"), pytest.raises(EventRejectedError):
            asyncio.run(engine.append_many_async([("t", 1), bad]))
        assert engine.last_seq == 0


def test_pairs_in_tuples_and_lists_and_drafts_may_stand_in_one_batch(tmp_path):
    with open_inline(tmp_path / "s1") as engine:
        engine.append_many([("a", 1), ["b", 2], Draft("c", 3, event_id="e")])
        assert [(one.type, one.data) for one in engine.events()] == [("a", 1), ("b", 2), ("c", 3)]


# Values that raise by themselves


class Dict(dict):
    """A dict that cannot be read."""

    def _no(self, *_arguments):
        raise RuntimeError("no")

    items = keys = values = __iter__ = __getitem__ = _no


class Pathlike:
    """A path that cannot say which."""

    def __fspath__(self):
        raise RuntimeError("no")


class Itself(enum.Enum):
    """A member whose value is the member."""

    X = 1

    @property
    def value(self):
        return self


@dataclasses.dataclass
class Unset:
    """A field that nobody set."""

    x: int = dataclasses.field(init=False)


class Raising(os.PathLike):
    """The same as a declared path."""

    __fspath__ = Dict._no


def released():
    """A memoryview that was given back."""
    view = memoryview(b"x")
    view.release()
    return view


BY_THEMSELVES = {
    "dict": lambda: Dict(a=1),
    "fspath": Pathlike,
    "pathlike": Raising,
    "enum": lambda: Itself.X,
    "dataclass": Unset,
    "memoryview": released,
}


@pytest.mark.parametrize("kind", BY_THEMSELVES)
def test_value_that_raises_by_itself_is_refused_with_its_key_path(tmp_path, kind):
    with open_inline(tmp_path / "s1") as engine:
        data = {"a": [0, BY_THEMSELVES[kind]()]}
        with unchanged(tmp_path / "s1"), pytest.raises(EventRejectedError, match=r"\$\.a\[1\]"):
            engine.append("t", data)
        assert engine.append("t", 1).seq == 1


class Tagged(msgspec.Struct, tag="mytag"):
    """A struct that says what it is under "type"."""

    a: int


class Kind(msgspec.Struct, tag=7, tag_field="kind", rename="camel"):
    """A struct with a tag of its own name and kind."""

    long_name: int


@pytest.mark.parametrize("value", [Tagged(1), Kind(1)])
def test_struct_with_a_tag_keeps_its_tag(tmp_path, value):
    with open_inline(tmp_path / "s1") as engine:
        engine.append("t", value)
        assert engine.state == [msgspec.to_builtins(value)]
        assert len(engine.state[0]) == 2
