"""FAULTS C: tool calls without a result."""

import pytest

from durasess import SessionClosedError
from tests.support.harness import (
    ask,
    begin_run,
    call_in,
    crash,
    in_process,
    start_call,
    store_at,
    types,
)


@pytest.fixture
def store(tmp_path):
    return store_at(tmp_path)


def open_again(store, times=1):
    """Open and crash, `times` times; the session that is open then."""
    for _ in range(times - 1):
        crash(store.open("s"))
    return store.open("s")


def shown(session):
    """Tool messages of the model copy: call id → content."""
    messages = session.context().openai()
    return [(one["tool_call_id"], one["content"]) for one in messages if one["role"] == "tool"]


@pytest.mark.parametrize("started", [1, 2, 3])
def test_c1_started_calls_are_uncertain_once_and_for_all(store, started):
    session = store.create("s")
    run = begin_run(session, "c1", "c2", "c3")
    for n in range(started):
        start_call(run, f"c{n + 1}")
    crash(session)
    with open_again(store) as first:
        count = first.last_seq
    with open_again(store, times=3) as again:
        assert again.last_seq == count
        found = [call_in(again, f"c{n}").status for n in (1, 2, 3)]
        assert found == ["uncertain"] * started + ["not_started"] * (3 - started)
        assert len(shown(again)) == 3


def test_c1_call_of_a_killed_process_is_uncertain(store):
    in_process(
        """
        session = Store(argv[0]).create("s")
        run = session.run("x").__enter__()
        run.assistant("", tool_calls=[{"call_id": "c", "name": "deploy"}])
        with run.tool("c"):
            os.kill(os.getpid(), 9)
        """,
        store.path,
        kills_itself=True,
    )
    with store.open("s") as session:
        assert call_in(session, "c").status == "uncertain"
        assert session.runs[-1].status == "interrupted"
        assert session.recovery.interrupted_run == "run_1"


def test_c2_result_is_shown_right_after_the_call_and_before_what_was_said_later(store):
    session = store.create("s")
    run = begin_run(session, "c1")
    start_call(run, "c1")
    run.user("are you there?")
    crash(session)
    with store.open("s") as again:
        roles = [one["role"] for one in again.context().openai() if one["role"] != "system"]
        assert roles == ["user", "assistant", "tool", "user"]


@pytest.mark.parametrize("times", [1, 3])
def test_c4_call_that_waits_for_approval_still_waits(store, times):
    session = store.create("s")
    run = begin_run(session, "c1")
    run.ask_approval("c1", "delete it?")
    crash(session)
    with open_again(store, times) as again:
        found = call_in(again, "c1")
        assert (found.status, found.waits_for, found.prompt) == (
            "waiting",
            "approval",
            "delete it?",
        )


def test_c4_call_that_waits_for_a_callback_still_waits(store):
    session = store.create("s")
    start_call(begin_run(session, "c1"), "c1").wait_for_callback("url")
    crash(session)
    with open_again(store, 2) as again:
        assert call_in(again, "c1").status == "waiting"
        assert again.answer("c1", "done").status == "completed"


@pytest.mark.parametrize("approved", [True, False])
def test_c4_decision_is_taken_from_a_second_process_by_call_id(store, approved):
    session = store.create("s", mode="shared")
    run = begin_run(session, "c1")
    run.ask_approval("c1")
    in_process(
        f"""
        with Store(argv[0]).open("s", mode="shared") as session:
            session.{"approve" if approved else "deny"}("c1", by="ann")
        """,
        store.path,
    )
    session.refresh()
    assert call_in(session, "c1").status == ("pending" if approved else "failed")
    if approved:
        with run.tool("c1") as call:
            call.result("ok")
        assert call_in(session, "c1").approved
    session.close()


def test_c4_approved_call_starts_without_a_look_in_between(store):
    session = store.create("s", mode="shared")
    run = begin_run(session, "c1")
    run.ask_approval("c1")
    in_process('Store(argv[0]).open("s", mode="shared").approve("c1")', store.path)
    with run.tool("c1") as call:
        call.result("ok")
    assert call_in(session, "c1").status == "completed"
    session.close()


def test_c4_callback_is_answered_by_a_second_process(store):
    session = store.create("s", mode="shared")
    start_call(begin_run(session, "c1"), "c1").wait_for_callback()
    in_process('Store(argv[0]).open("s", mode="shared").answer("c1", {"n": 1})', store.path)
    session.refresh()
    assert call_in(session, "c1").status == "completed"
    session.close()


def test_c5_deferred_calls_of_an_ended_run_are_answered_later_by_id(store):
    with store.create("s") as session, session.run("x") as run:
        ask(run, "c1", "c2")
        for one in ("c1", "c2"):
            with run.tool(one) as call:
                call.wait_for_callback()
    with store.open("s") as again:
        again.answer("c2", "two")
        again.answer("c1", "one")
        assert shown(again) == [("c1", "one"), ("c2", "two")]


def test_c7_results_are_paired_over_the_whole_run(store):
    with store.create("s") as session, session.run("x") as run:
        ask(run, "c1")
        ask(run, "c2")
        run.assistant("still working")
        for one in ("c2", "c1"):
            with run.tool(one) as call:
                call.result(one)
        assert shown(session) == [("c1", "c1"), ("c2", "c2")]


def test_c8_finished_calls_keep_their_results_when_one_hangs(store):
    session = store.create("s")
    run = begin_run(session, "c1", "c2", "c3")
    for one in ("c2", "c1"):
        with run.tool(one) as call:
            call.result(one)
    start_call(run, "c3")
    crash(session)
    with store.open("s") as again:
        assert [call_in(again, f"c{n}").status for n in (1, 2, 3)] == [
            "completed",
            "completed",
            "uncertain",
        ]
        assert [one.call_id for one in again.open_calls] == ["c3"]
        assert again.state.notice.finished == [call_in(again, f"c{n}").key for n in (1, 2)]


def test_c10_answer_of_a_finished_child_is_evidence(store):
    session = store.create("s")
    run = begin_run(session, "c1")
    start_call(run, "c1")
    with pytest.raises(SessionClosedError), run.child(call_id="c1", session_id="kid") as child:
        with child.run("part") as part:
            part.assistant("it is 42")
        crash(session)
    with store.open("s") as again:
        found = call_in(again, "c1")
        assert found.status == "uncertain"
        assert found.evidence == {"child": "kid", "status": "succeeded", "answer": "it is 42"}
        assert again.state.children["kid"].result == "it is 42"
        assert "it is 42" in again.context().openai()[0]["content"]


def test_c11_never_started_and_unknown_outcome_are_told_apart(store):
    session = store.create("s")
    start_call(begin_run(session, "c1", "c2"), "c1")
    crash(session)
    with store.open("s") as again:
        texts = dict(shown(again))
        assert "UNKNOWN" in texts["c1"] and "NEVER STARTED" in texts["c2"]


def test_recovery_is_one_batch_of_events(store):
    session = store.create("s")
    start_call(begin_run(session, "c1", "c2"), "c1")
    before = session.last_seq
    crash(session)
    with store.open("s") as again:
        assert types(again, before) == ["tool_recovery", "tool_recovery", "run_finished"]
