"""Results that stand for missing ones: each status says what is known, and no more."""

import pytest

from durasess.session.context import plan
from durasess.session.context_results import TEXTS, result_of, standing
from durasess.session.state import Run
from tests.support.contexts import RUN, call, reply, state_of, user

OTHER = Run("r2", 50, "")
CASES = [
    (call("a", "pending"), RUN, "pending"),
    (call("a", "pending"), None, "not_started"),
    (call("a", "pending"), OTHER, "not_started"),
    (call("a", "pending", started_seq=3), None, "uncertain"),
    (call("a", "pending", started_seq=3, recovery_seq=51), OTHER, "pending"),
    (call("a", "pending", approved=False), RUN, "denied"),
    (call("a", "running", started_seq=3), RUN, "running"),
    (call("a", "running", started_seq=3), None, "uncertain"),
    (call("a", "running", started_seq=3), OTHER, "uncertain"),
    (call("a", "waiting", waits_for="approval"), None, "approval"),
    (call("a", "waiting", waits_for="callback"), None, "callback"),
    (call("a", "uncertain"), RUN, "uncertain"),
    (call("a", "not_started"), None, "not_started"),
    (call("a", "failed", decision="not_applied"), None, "not_applied"),
    (call("a", "failed", decision="abandoned"), None, "abandoned"),
    (call("a", "completed", decision="applied"), None, "applied"),
    (call("a", "completed"), None, "completed"),
    (call("a", "failed"), None, "failed"),
]


@pytest.mark.parametrize("one, run, name", CASES)
def test_call_without_a_result_is_told_by_what_is_known(one, run, name):
    assert standing(one, run) == name
    state = state_of([user(1), reply(2, "", "a")], one, runs=[run] if run else [])
    answer = plan(state).messages[2]
    assert answer["content"].startswith(TEXTS[name].text.split("{")[0])
    assert answer["is_error"] is TEXTS[name].is_error
    assert answer["seq"] == 0


def test_every_text_of_the_table_is_reached_and_none_is_another_one():
    assert {name for _, _, name in CASES} == set(TEXTS)
    assert len({told.text for told in TEXTS.values()}) == len(TEXTS)


def test_unknown_outcome_says_when_why_and_what_to_do_and_is_no_error():
    told = result_of(
        call("a", "uncertain", started_at="2026-01-01", reason="crash", evidence={"x": 1}), None
    )
    assert told.text == (
        "UNKNOWN OUTCOME: the call was started at 2026-01-01 and no result was recorded. It may or"
        " may not have taken effect. Check before repeating it."
        ' Reason: "crash". Evidence: {"x":1}.'
    )
    assert not told.is_error
