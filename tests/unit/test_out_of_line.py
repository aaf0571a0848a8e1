"""Large values in blobs: what is moved, what comes back, and that nobody can tell it was away."""

import base64
import copy
import hashlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from durasess.engine import codec, values
from durasess.errors import CorruptionError
from durasess.session.out_of_line import is_reference, load, preview, references, store_large

THRESHOLD = 1024
LARGE = "x" * 2000
SMALL = "x" * 20
NUMBERS = list(range(1000))


class Shelf(dict):
    """Blobs in memory: hash → bytes. `puts` counts, `reads` names those that were asked for."""

    def __init__(self):
        super().__init__()
        self.puts = 0
        self.reads = []

    def put(self, data):
        self.puts += 1
        name = hashlib.blake2b(data, digest_size=32).hexdigest()
        self[name] = data
        return name

    def read(self, name):
        self.reads.append(name)
        return self[name]


def stored(data, shelf=None):
    return store_large(data, (shelf if shelf is not None else Shelf()).put, threshold=THRESHOLD)


def through_the_log(value):
    """What the engine makes of a value."""
    return codec.decode(codec.encode(values.plain(value)))


def reference_to(data, kind, **more):
    members = {"hash": hashlib.blake2b(data, digest_size=32).hexdigest()}
    return {"$blob": {**members, "size": len(data), "kind": kind, **more}}


# What comes back

# Not both halves of a pair: in JSON they become one character, in a blob or not.
TEXTS = st.text(st.sampled_from('a\ud800é\n"\x00$\U0001f600'), max_size=8)
KEYS = st.one_of(st.sampled_from(["$blob", "literal", "hash", "size", "kind", "names"]), TEXTS)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**30), 10**30),
    st.floats(allow_nan=False, allow_infinity=False),
    TEXTS,
    st.builds(lambda text, times: text * times, TEXTS, st.integers(1, 40)),
    st.sampled_from(["text", "bytes", "json", "0" * 64]),
)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=6), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=40,
)


@given(JSON, st.sampled_from([0, 1, 8, 64, 1000]))
@example({"$blob": {"hash": "0" * 64, "size": 1, "kind": "text"}}, 64)
@example({"$blob": {"literal": {"$blob": {"literal": LARGE}}}}, 8)
@example({"$blob": [list(range(200))]}, 8)
@example([{"$blob": {"literal": list(range(200))}, "a": LARGE}], 8)
@example({"a": [{"b": list(range(100))} for _ in range(10)]}, 8)
def test_every_json_value_comes_back_equal_and_the_argument_is_unchanged(value, threshold):
    shelf = Shelf()
    before = copy.deepcopy(value)
    kept = through_the_log(store_large(value, shelf.put, threshold=threshold))
    assert value == before
    assert load(kept, shelf.read) == value
    assert references(kept) == set(shelf)


@pytest.mark.parametrize("size", [10, 2000])
def test_bytes_come_back_as_they_do_without_blobs(size):
    shelf = Shelf()
    kept = through_the_log(stored({"image": b"\xff" * size}, shelf))
    assert load(kept, shelf.read) == {"image": base64.b64encode(b"\xff" * size).decode()}
    assert len(shelf) == (size > THRESHOLD)


def test_lone_surrogates_come_back_exactly():
    text = "\ud800" + LARGE + "\udfff\ud83d\ude00"
    shelf = Shelf()
    assert load(stored(text, shelf), shelf.read) == text


# What is moved


def test_large_text_is_replaced_at_any_depth():
    assert stored({"a": [{"b": LARGE, "c": SMALL}]}) == {
        "a": [{"b": reference_to(LARGE.encode(), "text"), "c": SMALL}]
    }


def test_size_is_that_of_the_bytes():
    shelf = Shelf()
    assert stored("é" * 512, shelf) == "é" * 512
    assert is_reference(stored("é" * 513, shelf))


def test_what_holds_nothing_large_is_returned_as_it_is():
    data = {"a": [SMALL, {"b": 1.5}], "c": (1, 2)}
    shelf = Shelf()
    assert stored(data, shelf) is data
    assert shelf.puts == 0


def test_array_that_is_huge_though_its_parts_are_small_is_moved():
    data = {"a": 1, "b": {"c": NUMBERS, "d": SMALL}}
    kept = stored(data)
    assert kept == {
        "a": 1,
        "b": {"c": reference_to(codec.encode(NUMBERS), "json"), "d": SMALL},
    }


def test_array_beyond_the_threshold_stays_while_the_data_is_not_huge():
    data = {"a": list(range(THRESHOLD * 3 // 8))}
    assert stored(data) is data


def test_data_that_is_an_object_keeps_its_fields():
    data = {f"k{n}": n for n in NUMBERS}
    assert stored(data) is data


def test_reference_names_the_blobs_inside_of_its_blob():
    shelf = Shelf()
    kept = stored({"a": [LARGE, *NUMBERS]}, shelf)
    (inner,) = (name for name, data in shelf.items() if data == LARGE.encode())
    assert kept["a"]["$blob"]["names"] == [inner]
    assert references(kept) == set(shelf)


def test_text_that_stands_many_times_is_one_blob_read_once():
    shelf = Shelf()
    kept = stored([LARGE, {"a": LARGE}] * 3, shelf)
    assert len(shelf) == 1
    assert load(kept, shelf.read) == [LARGE, {"a": LARGE}] * 3
    assert len(shelf.reads) == 1


def test_cycle_is_left_to_the_engine_to_refuse():
    data = {"text": LARGE, "numbers": NUMBERS}
    data["again"] = data
    assert stored(data)["text"] == reference_to(LARGE.encode(), "text")


@pytest.mark.parametrize("leaf", [LARGE, NUMBERS, {"$blob": LARGE}])
@pytest.mark.parametrize("depth", [94, 95, 96, 97, 98])
def test_data_as_deep_as_the_engine_takes_stays_so(leaf, depth):
    data = leaf
    for _ in range(depth):
        data = [data]
    shelf = Shelf()
    kept = through_the_log(stored(data, shelf))
    assert load(kept, shelf.read) == data


def test_value_that_cannot_be_stored_is_left_to_the_engine_to_refuse():
    data = {"a": [object(), *NUMBERS]}
    assert stored(data) == data


# The program's own


def test_object_of_the_same_shape_is_escaped():
    own = {"$blob": {"hash": "0" * 64, "size": 1, "kind": "text"}}
    kept = stored({"a": own})
    assert kept == {"a": {"$blob": {"literal": own["$blob"]}}}
    assert references(kept) == set()


def test_object_with_another_key_is_nobodys_reference():
    own = {"$blob": {"hash": "0" * 64, "size": 1, "kind": "text"}, "b": 1}
    assert stored(own) is own
    assert load(own, Shelf().read) is own


@pytest.mark.parametrize(
    "members",
    [
        {"hash": "0" * 63, "size": 1, "kind": "text"},
        {"hash": "../owner", "size": 1, "kind": "text"},
        {"hash": "0" * 64, "size": "1", "kind": "text"},
        {"hash": "0" * 64, "size": 1, "kind": "video"},
        {"hash": "0" * 64, "size": 1, "kind": ["text"]},
        {"hash": "0" * 64, "size": 1, "kind": "json", "names": 3},
        {"literal": 1, "more": 2},
        {},
        7,
    ],
)
def test_what_is_no_reference_is_left_as_it_is(members):
    value = {"$blob": members}
    assert load(value, Shelf().read) is value
    assert references(value) == set()


# Reading


def test_blob_that_is_not_of_its_kind_is_damage():
    shelf = Shelf()
    for kind in ("text", "json"):
        shelf.put(b"\xff")
        with pytest.raises(CorruptionError, match=f"expected {kind}, .*found 1 bytes"):
            load(reference_to(b"\xff", kind), shelf.read)


def test_preview_is_one_line_of_kind_size_and_place():
    line = preview(reference_to(b"x" * 4_194_304, "text"))
    assert line.startswith("text, 4,194,304 bytes, in blob ")
    assert "\n" not in line


def test_preview_of_another_value_is_refused():
    with pytest.raises(ValueError, match="expected a reference"):
        preview({"a": 1})
