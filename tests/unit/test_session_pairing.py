"""Which call an id means, and what a key was made of."""

import pytest

from durasess.session.pairing import call_key, call_place, find_call
from tests.support.harness import reply, state_after

TWICE = (
    ("session_created", {}),
    ("run_started", {"request": "go"}, "r1"),
    ("assistant_message", reply("c", "c"), "r1"),
    ("assistant_message", reply("c", "c"), "r1"),
)


def found(*events, **how):
    return find_call(state_after(*TWICE, *events), "c", **how).key


def test_id_that_repeats_means_the_first_fitting_call_of_the_newest_message():
    assert found() == "4.0"


def test_id_whose_newest_calls_have_ended_means_the_older_one_that_has_not():
    ended = [("tool_result", {"key": key}, "r1", "c") for key in ("4.0", "4.1")]
    assert found(*ended) == "3.0"


def test_id_of_ended_calls_alone_means_the_newest():
    keys = ("3.0", "3.1", "4.0", "4.1")
    assert found(*[("tool_result", {"key": key}, "r1", "c") for key in keys]) == "4.1"


def test_key_leads_back_to_the_message_and_the_place_in_it():
    assert call_place(call_key(17, 3)) == (17, 3)


@pytest.mark.parametrize("key", ["", ".", "17", "17.", ".0", "once:op", "once:1.0", "a.0", "-1.0"])
def test_what_no_message_made_has_no_place(key):
    assert call_place(key) is None
