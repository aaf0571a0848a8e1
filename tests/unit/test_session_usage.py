"""Cumulative counters → deltas, also where a counter began anew."""

import pytest

from durasess import EventRejectedError
from durasess.session import usage
from durasess.session.state import Usage
from tests.support.harness import store_at


def test_counter_that_went_on_gives_the_difference():
    assert usage.since(Usage(prompt=9, total=9), Usage(prompt=4, total=4)) == Usage(5, 0, 5)


def test_counter_that_went_down_has_begun_anew_and_gives_all_of_it():
    assert usage.since(Usage(prompt=3, total=3), Usage(prompt=9, total=9)) == Usage(3, 0, 3)


def test_each_counter_is_judged_by_itself():
    now, before = Usage(prompt=3, completion=9), Usage(prompt=9, completion=4)
    assert usage.since(now, before) == Usage(3, 5)


def test_counters_are_so_many_and_one_more_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("durasess.session.validation.COUNTERS_MOST", 3)
    with store_at(tmp_path).create("s") as session, session.run("go") as run:
        for number in range(3):
            run.usage({"prompt_tokens": 5}, counter=f"c{number}")
        with pytest.raises(EventRejectedError, match="3 counters"):
            run.usage({"prompt_tokens": 5}, counter="c3")
        run.usage({"prompt_tokens": 7}, counter="c0")
        assert session.usage.prompt == 17


@pytest.mark.parametrize("huge", [2**70, 10**400, 1e300])
def test_numbers_beyond_every_counter_are_counted_as_the_most_there_can_be(huge):
    found = usage.from_data({"prompt": huge, "completion": huge, "total": huge, "cost": huge})
    assert (found.prompt, found.completion) == (2**53, 2**53)
    assert found.total <= 2**54
    assert usage.plus(Usage(), found).total == 2**53
