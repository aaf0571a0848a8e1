"""The recovery block: there exactly while there is something to tell, and nothing breaks out."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durasess.session.context import plan
from durasess.session.context_notice import CLASSES, GROUPS, SHOWN
from durasess.session.context_results import TEXTS
from durasess.session.state import Notice, Run
from tests.support.contexts import call, reply, result, state_of, user
from tests.support.harness import ask, store_at

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


def test_a_thousand_open_calls_are_told_in_bounds_and_none_is_left_out():
    calls = [
        call(f"{n}.0", "uncertain" if n % 3 else "not_started", call_id=f"c{n}", name=f"t{n % 2}")
        for n in range(1024)
    ]
    text = block(*calls)
    assert len(text) < 20_000
    lines = text.split("\n")
    each = [line for line in lines if ", arguments " in line]
    assert len(each) == SHOWN and all("UNKNOWN OUTCOME" in line for line in each)
    assert 'call "c1023"' not in text.partition("more of")[0], "it was never started"
    assert 'call "c1022"' in each[-1]
    counted = [
        int(line.partition(" more of ")[0].rpartition(" ")[2])
        for line in lines[3:-1]
        if " more of " in line
    ]
    assert sum(counted) == 1024 - SHOWN and len(counted) == 4
    assert "342 more" not in text and '"c1023", "c1017", "c1011", …' in text


def test_calls_of_many_names_are_counted_to_the_last():
    calls = [call(f"{n}.0", "uncertain", call_id=f"c{n}", name=f"tool {n}") for n in range(200)]
    text = block(*calls)
    assert f"- and {200 - SHOWN - GROUPS} more of {200 - SHOWN - GROUPS} other kinds" in text


def test_finished_calls_and_gaps_are_bounded_too():
    done = [call(f"9.{n}", "completed", result_seq=5, call_id=f"d{n}") for n in range(50)]
    notice = Notice(
        "r1", 9, "crash", [], [one.key for one in done], [f"gap {n}" for n in range(50)]
    )
    text = plan(state_of([user(1)], *done, runs=[ENDED], notice=notice)).system
    assert text.count("Finished before") == SHOWN + 1 and "same message: 30 more" in text
    assert text.count("Note: ") == SHOWN + 1 and "30 older notes" in text and "gap 49" in text


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("succeeded", '"r1" (started at "2026-01-01T00:00:00.000000Z") succeeded.'),
        ("running", "is going on."),
        ("cancelled", "was cancelled."),
        ("failed", "failed."),
    ],
)
def test_run_that_was_not_interrupted_is_not_said_to_be(status, words):
    run = Run("r1", 1, "2026-01-01T00:00:00.000000Z", status)
    notice = Notice("r1", 9, "taken back", ["a"])
    text = plan(state_of([user(1)], call("a", "uncertain"), runs=[run], notice=notice)).system
    assert words in text and "interrupted" not in text
    gone = plan(state_of([user(1)], call("a", "uncertain"), runs=[], notice=notice)).system
    assert 'The run "r1" left this to be told.' in gone


def test_rewind_of_a_run_that_succeeded_does_not_say_that_it_was_interrupted(tmp_path):
    with store_at(tmp_path).create("s") as session:
        with session.run("go") as run:
            ask(run, "c")
            with suppress(KeyboardInterrupt), run.tool("c"):
                raise KeyboardInterrupt
            run.assistant("done all the same")
        assert session.runs[-1].status == "succeeded"
        session.rewind(to=2)
        text = session.context().system
    assert ") succeeded. Reason: " in text and "was interrupted" not in text
