"""When something happened: the foreign file's time where an import kept one, else the log's."""

import pytest

from durasess.session.when import happened_at, normalised, told
from tests.support.harness import TS, event


@pytest.mark.parametrize(
    ("at", "found"),
    [
        ("2026-02-03T09:00:00.123Z", "2026-02-03T09:00:00.123000Z"),
        ("2026-02-03T09:00:00+02:00", "2026-02-03T07:00:00.000000Z"),
        ("2026-02-03 09:00", "2026-02-03T09:00:00.000000Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000000Z"),
        ("0001-01-01T00:00:00+05:00", ""),
        ("yesterday", ""),
        ("", ""),
    ],
)
def test_time_is_as_the_log_writes_its_own(at, found):
    assert normalised(at) == found


@pytest.mark.parametrize("data", [None, 7, [], {}, {"at": 7}, {"at": "2" * 41}])
def test_what_is_no_time_is_none(data):
    assert told(data) == ""


def test_known_types_have_it_and_the_programs_own_do_not():
    at = {"at": "2026-02-03T09:00:00Z"}
    assert happened_at(event(1, "user_message", at)) == "2026-02-03T09:00:00.000000Z"
    assert happened_at(event(1, "my_event", at)) == TS
    assert happened_at(event(1, "user_message", {"at": "never"})) == TS
