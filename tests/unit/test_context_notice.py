"""The recovery block: there exactly while there is something to tell, and nothing breaks out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durasess.session.context import plan
from durasess.session.context_notice import CLASSES
from durasess.session.context_results import TEXTS
from durasess.session.state import Notice, Run
from tests.support.contexts import call, reply, result, state_of, user

ENDED = Run("r1", 1, "2026-01-01T00:00:00.000000Z", "interrupted")


def block(*calls, note="", **fields):
    notice = Notice("r1", 9, "crash", [one.key for one in calls], **fields)
    state = state_of([user(1)], *calls, runs=[ENDED], notice=notice)
    return plan(state, workspace_note=note).system


def test_block_is_there_exactly_while_there_is_a_notice():
    state = state_of([user(1)], runs=[ENDED])
    assert plan(state).system == ""
    assert block() == (
        '<recovery>\nThe run "r1" (started at "2026-01-01T00:00:00.000000Z") was interrupted.'
        ' Reason: "crash".\n</recovery>'
    )


def test_workspace_note_stands_alone_and_with_a_notice():
    state = state_of([user(1)])
    alone = plan(state, workspace_note="moved to <b>\nnow").system
    assert alone == "<recovery>\nWorkspace: moved to \\u003cb\\u003e\\u000anow\n</recovery>"
    assert "Workspace: moved" in block(note="moved")


def test_line_of_a_call_tells_all_that_is_known():
    one = call(
        "2.0",
        "uncertain",
        call_id="c1",
        arguments={"path": "a"},
        started_at="2026-01-02",
        operation_id="op1",
        reason="time limit",
        decided_by="",
        evidence=[1],
    )
    assert block(one).split("\n")[3] == (
        "- UNKNOWN OUTCOME (started, no result; it may or may not have taken effect; check before"
        ' repeating it): "work", call "c1", arguments {"path":"a"}, started at "2026-01-02",'
        ' operation "op1", reason "time limit", evidence [1]'
    )


def test_never_started_and_unknown_are_visibly_different():
    text = block(call("a", "uncertain"), call("b", "not_started"))
    assert "- UNKNOWN OUTCOME (started, no result; it may" in text
    assert '- NEVER STARTED (asked for, not run; it had no effect): "work", call "b"' in text


@pytest.mark.parametrize(
    "one, words",
    [
        (call("a", "waiting", waits_for="approval"), "WAITING for approval"),
        (call("a", "waiting", waits_for="callback"), "WAITING for a result"),
        (call("a", "completed", decision="applied", decided_by="verifier"), "SETTLED: it took"),
        (call("a", "failed", decision="not_applied"), "SETTLED: it had no effect"),
    ],
)
def test_other_classes_are_named(one, words):
    assert f"- {words}" in block(one)


def test_classes_are_those_of_the_results():
    assert set(CLASSES) == set(TEXTS)
    assert len(set(CLASSES.values())) == len(CLASSES)


def test_finished_calls_and_gaps_are_told():
    notice = Notice("r1", 9, "crash", [], ["2.0"], ["events 3 to 5 <lost>"])
    state = state_of([user(1)], call("2.0", call_id="c1"), runs=[ENDED], notice=notice)
    text = plan(state).system
    assert 'Finished before, in the same message: "work", call "c1"' in text
    assert 'Note: "events 3 to 5 \\u003clost\\u003e"' in text


def test_call_that_left_the_state_is_told_as_unknown():
    notice = Notice("r1", 9, "crash", ["2.0"])
    text = plan(state_of([user(1)], notice=notice)).system
    assert '): call "2.0", no longer in the state' in text


def test_id_in_the_block_is_the_one_of_the_context():
    notice = Notice("r1", 9, "crash", ["2.0"])
    state = state_of(
        [user(1), reply(2, "", "2.0")], call("2.0", "uncertain", call_id="a b"), notice=notice
    )
    assert ', call "a_b",' in plan(state).system


def test_long_arguments_are_cut_and_say_so():
    text = block(call("a", "uncertain", arguments={"text": "x" * 5000}))
    assert len(text) < 1000
    assert "… (cut)" in text


@given(st.text(st.characters()))
def test_nothing_in_a_call_breaks_out_of_its_line(text):
    one = call(
        text,
        "uncertain",
        name=text,
        arguments={text: text},
        reason=text,
        evidence=text,
        operation_id=text,
        started_at=text,
        decided_by=text,
    )
    system = block(one, note=text or "note", gaps=[text], finished=[text])
    plain = block(
        call(
            "k",
            "uncertain",
            arguments={"k": "k"},
            reason="k" * bool(text),
            evidence="k",
            started_at="k" * bool(text),
            operation_id="k" * bool(text),
            decided_by="k" * bool(text),
        ),
        note="note",
        gaps=["k"],
        finished=["k"],
    )
    assert len(system.splitlines()) == len(plain.splitlines())
    assert system.count("<") == system.count(">") == 2


def test_result_of_an_interrupted_run_is_not_in_the_block():
    state = state_of(
        [user(1), reply(2, "", "a"), result(3, "a", "secret")], call("a"), runs=[ENDED]
    )
    assert "secret" not in plan(state).system
