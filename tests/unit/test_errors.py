"""The exception tree: one root, attributes that mean something, and nothing lost in a pickle."""

import copy
import pickle
import re
from typing import Any

import pytest

from durasess import errors
from durasess.engine.types import Damage, Holder, Recovery
from durasess.errors import DurasessError

CLASSES = [getattr(errors, name) for name in errors.__all__]
PLACE = {"path": "/s1/events_0003.jsonl", "offset": 18432, "seq": 412}
HOLDER = Holder(4121, "build-7", "", "2026-01-01T10:11:12.000000Z", "python harness.py")
REPORT = Recovery(session_id="s1", damage=[Damage(path="x", rule="crc", reason="stored 1")])
SPECIAL: dict[str, dict[str, Any]] = {
    "SessionLockedError": {"path": "/s1", "holder": HOLDER},
    "SessionFailedError": {**PLACE, "unknown": (412, 415)},
    "CorruptionError": {**PLACE, "report": REPORT},
    "StorageError": {**PLACE, "errno": 28},
}


def example(kind: type[DurasessError]) -> DurasessError:
    """An error of this class with every attribute set."""
    return kind("what happened and what to do", **SPECIAL.get(kind.__name__, PLACE))


def assert_same(found: BaseException, error: DurasessError) -> None:
    assert type(found) is type(error)
    assert (found.args, str(found)) == (error.args, str(error))
    assert vars(found) == vars(error)


def test_all_names_exactly_the_classes_sorted() -> None:
    assert list(errors.__all__) == sorted(errors.__all__)
    defined = {
        name
        for name, found in vars(errors).items()
        if getattr(found, "__module__", None) == errors.__name__ and isinstance(found, type)
    }
    assert defined == set(errors.__all__)


def test_tree_at_the_top_of_the_module_is_the_tree() -> None:
    drawn = re.findall(r"^[├└]── (\w+)", errors.__doc__ or "", re.MULTILINE)
    assert sorted(["DurasessError", *drawn]) == list(errors.__all__)
    assert all(kind.__base__ is DurasessError for kind in CLASSES if kind is not DurasessError)
    assert DurasessError.__base__ is Exception


@pytest.mark.parametrize("kind", CLASSES)
def test_error_is_its_message_and_place(kind: type[DurasessError]) -> None:
    error = example(kind)
    assert str(error) == "what happened and what to do"
    for name, value in SPECIAL.get(kind.__name__, PLACE).items():
        assert getattr(error, name) == value


@pytest.mark.parametrize("kind", CLASSES)
def test_attribute_without_a_meaning_is_none(kind: type[DurasessError]) -> None:
    error = kind("only a message")
    names = {"path", "offset", "seq", *SPECIAL.get(kind.__name__, {})}
    assert all(getattr(error, name) is None for name in names)


@pytest.mark.parametrize("kind", CLASSES)
def test_place_is_given_by_name_only(kind: type[DurasessError]) -> None:
    with pytest.raises(TypeError):
        kind("message", "/s1")  # type: ignore[misc]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("kind", CLASSES)
def test_error_comes_back_from_a_pickle_whole(kind: type[DurasessError], protocol: int) -> None:
    error = example(kind)
    error.add_note("a note")
    assert_same(pickle.loads(pickle.dumps(error, protocol)), error)


@pytest.mark.parametrize("kind", CLASSES)
def test_error_comes_back_from_a_pickle_when_only_the_message_was_given(
    kind: type[DurasessError],
) -> None:
    error = kind("only a message")
    assert_same(pickle.loads(pickle.dumps(error)), error)


@pytest.mark.parametrize("kind", CLASSES)
def test_error_can_be_copied(kind: type[DurasessError]) -> None:
    error = example(kind)
    assert_same(copy.copy(error), error)


@pytest.mark.parametrize("kind", CLASSES)
def test_error_raised_again_is_the_same_in_a_new_object(kind: type[DurasessError]) -> None:
    error = example(kind)
    error.add_note("a note")
    with pytest.raises(kind):
        raise error from OSError(28, "full")
    fresh = error.again()
    assert_same(fresh, error)
    assert fresh is not error and fresh.__traceback__ is None
    assert fresh.__cause__ is error.__cause__ is not None


def test_error_without_notes_or_cause_raised_again_has_none_either() -> None:
    fresh = DurasessError("message", seq=3).again()
    assert (str(fresh), fresh.seq, fresh.__cause__) == ("message", 3, None)
    assert not hasattr(fresh, "__notes__")


def test_note_on_an_error_raised_again_is_not_one_on_the_first() -> None:
    error = DurasessError("message")
    error.add_note("for all")
    error.again().add_note("for one")
    assert error.__notes__ == ["for all"]


class OfAProgram(errors.EventRejectedError):
    """A program's own error, with another signature."""

    def __init__(self, code: int, *, hint: str) -> None:
        super().__init__(f"refused with {code}", seq=3)
        self.code = code
        self.hint = hint


def test_error_of_a_program_comes_back_from_a_pickle_too() -> None:
    error = OfAProgram(7, hint="smaller")
    assert_same(pickle.loads(pickle.dumps(error)), error)
