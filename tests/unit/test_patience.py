"""A finding counts when it is there twice; errors that no writer explains count at once."""

from __future__ import annotations

import errno
from collections.abc import Iterator

import pytest

from durasess.engine import patience
from durasess.engine.patience import look_until_settled, vanished
from durasess.errors import SessionNotFoundError, StorageError


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    found: list[float] = []
    monkeypatch.setattr(patience.time, "sleep", found.append)
    yield found


def reading(*outcomes: object):
    """A read that gives these outcomes, one after another; errors are raised."""
    following = iter(outcomes)

    def read() -> object:
        outcome = next(following)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return read


def look(*outcomes: object) -> object:
    return look_until_settled(reading(*outcomes), lambda found: list(found), passing=vanished)


def test_nothing_found_is_believed_at_once(pauses: list[float]) -> None:
    assert look("") == ""
    assert pauses == []


def test_finding_that_passes_is_not_reported() -> None:
    assert look("a", "b", "") == ""


def test_finding_that_is_there_twice_is_reported(pauses: list[float]) -> None:
    assert look("a", "b", "b") == "b"
    assert len(pauses) == 2 and pauses[0] < pauses[1]


def test_findings_that_change_for_ever_end_with_the_last() -> None:
    assert look(*"abcdef") == "f"


def test_file_that_vanished_is_looked_for_again() -> None:
    gone = StorageError("gone", errno=errno.ENOENT)
    assert look(gone, "") == ""
    with pytest.raises(StorageError):
        look(gone, gone)


@pytest.mark.parametrize("error", [StorageError("io", errno=errno.EIO), SessionNotFoundError("no")])
def test_error_that_no_writer_explains_is_raised_at_once(error: Exception) -> None:
    with pytest.raises(type(error)):
        look(error, "")
