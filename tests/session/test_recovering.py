"""Recovery of a session: what is said of runs and calls whose worker is dead, and of no others."""

import pytest

from durasess import EventRejectedError
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


def crashed(store, **tool):
    """A session whose call `c` was started by a worker that died."""
    if tool:
        store.tool("work", **tool)
    session = store.create("s")
    start_call(begin_run(session, "c"), "c")
    crash(session)
    return store


def recovered(store):
    with store.open("s") as session:
        return call_in(session, "c")


# Classes and decisions


@pytest.mark.parametrize("effect", ["unsafe", "read_only", "idempotent"])
def test_started_call_is_uncertain_and_never_run_again_by_itself(store, effect):
    found = recovered(crashed(store, effect=effect))
    assert (found.status, found.effect, found.attempt) == ("uncertain", effect, 1)


@pytest.mark.parametrize(
    ("effect", "offered"), [("unsafe", False), ("read_only", True), ("idempotent", True)]
)
def test_i2_only_declared_safe_calls_are_offered_for_another_run(store, effect, offered):
    with crashed(store, effect=effect).open("s") as session:
        assert session.open_calls[0].is_offered is offered


DECISIONS = [
    ("applied", "out", "completed", "applied", "out"),
    ("applied", None, "completed", "applied", "APPLIED"),
    ("not_applied", None, "failed", "not_applied", "NOT APPLIED"),
    ("abandoned", None, "failed", "abandoned", "ABANDONED"),
]


@pytest.mark.parametrize(("outcome", "output", "status", "decision", "shown"), DECISIONS)
@pytest.mark.parametrize("reopened", [False, True])
def test_settled_call_says_what_was_decided(
    store, outcome, output, status, decision, shown, reopened
):
    session = crashed(store).open("s")
    session.open_calls[0].settle(outcome, output=output, by="ann")
    if reopened:
        crash(session)
        session = store.open("s")
    with session:
        found = call_in(session, "c")
        assert (found.status, found.decision, found.decided_by) == (status, decision, "ann")
        assert session.open_calls == []
        [said] = [one for one in session.context().openai() if one["role"] == "tool"]
        assert shown in said["content"]


@pytest.mark.parametrize("outcome", ["applied", "not_applied", "abandoned"])
def test_settled_call_is_settled_once(store, outcome):
    with crashed(store).open("s") as session:
        [call] = session.open_calls
        call.settle(outcome)
        with pytest.raises(EventRejectedError):
            call.settle("applied")
        with pytest.raises(EventRejectedError):
            call.rerun()


def test_settling_with_a_word_that_is_none_is_refused(store):
    session = crashed(store).open("s")
    with session, pytest.raises(EventRejectedError, match="settle it as one of"):
        session.open_calls[0].settle("maybe")


def test_late_result_of_an_uncertain_call_is_taken(store):
    with crashed(store).open("s") as session:
        assert session.answer("c", "it worked").status == "completed"


def test_rerun_keeps_the_operation_id_and_counts_attempts(store):
    with crashed(store).open("s") as session:
        before = call_in(session, "c")
        session.open_calls[0].rerun()
        assert call_in(session, "c").status == "pending"
        with session.resume_run() as run, run.tool("c") as call:
            call.result("ok")
        assert call.operation_id == before.operation_id
        found = call_in(session, "c")
        assert (found.status, found.attempt) == ("completed", 2)


def test_rerun_that_crashes_too_is_uncertain_again(store):
    session = crashed(store).open("s")
    session.open_calls[0].rerun()
    run = session.resume_run().__enter__()
    start_call(run, "c")
    crash(session)
    found = recovered(store)
    assert (found.status, found.attempt, found.decision) == ("uncertain", 2, "")


def test_operation_ids_of_calls_and_sessions_differ(store):
    found = set()
    for name in ("a", "b"):
        with store.create(name) as session, session.run("x") as run:
            ask(run, "c", "c")
            for _ in range(2):
                with run.tool("c") as call:
                    found.add(call.operation_id)
                    call.result(1)
    assert len(found) == 4


def test_masked_call_is_not_offered_after_a_restart(store):
    store.tool("work", effect="idempotent")
    session = store.create("s")
    run = session.run("x").__enter__()
    secret = {"api_key": "sk-" + "a1B2" * 10}
    run.assistant("", tool_calls=[{"call_id": "c", "name": "work", "arguments": secret}])
    assert start_call(run, "c").arguments == secret
    crash(session)
    with store.open("s") as again:
        [call] = again.open_calls
        assert not call.is_offered
        assert "sk-" not in str(call.arguments)
        with pytest.raises(EventRejectedError, match="secrets"):
            call.rerun()


# Verifiers


class Fake:
    def __repr__(self):
        return "<fake>"


@pytest.mark.parametrize(
    ("answer", "status", "by"),
    [
        ("applied", "completed", "verifier"),
        (("applied", {"n": 1}), "completed", "verifier"),
        ("not_applied", "failed", "verifier"),
        (None, "uncertain", ""),
        ("perhaps", "uncertain", ""),
        (True, "uncertain", ""),
        ((1, 2, 3), "uncertain", ""),
        ([], "uncertain", ""),
        ({"applied": 1}, "uncertain", ""),
        (Fake(), "uncertain", ""),
        (("perhaps", 1), "uncertain", ""),
        ((["applied"], 1), "uncertain", ""),
        (("applied", Fake()), "uncertain", ""),
    ],
)
def test_verifier_settles_by_the_two_words_and_nothing_else(store, answer, status, by):
    found = recovered(crashed(store, verify=lambda call: answer))
    assert (found.status, found.decided_by) == (status, by)


def test_verifier_that_raises_cannot_tell_and_is_evidence(store):
    def verify(call):
        raise RuntimeError("no network")

    found = recovered(crashed(store, verify=verify))
    assert found.status == "uncertain"
    assert "no network" in str(found.evidence)


def test_verifier_sees_the_call_and_is_asked_once(store):
    seen = []
    crashed(store, verify=lambda call: seen.append(call))
    first = recovered(store)
    recovered(store)
    [call] = seen
    assert (call.key, call.operation_id, call.status) == (first.key, first.operation_id, "running")


def test_v4_call_of_a_tool_that_is_gone_is_shown_and_uncertain(tmp_path):
    crashed(store_at(tmp_path), effect="idempotent", verify=lambda call: "applied")
    found = recovered(store_at(tmp_path))
    assert (found.status, found.name) == ("uncertain", "work")


def test_reason_says_when_the_time_limit_was_over(tmp_path):
    now = [10**18]
    store = crashed(store_at(tmp_path, clock=lambda: now[0]), timeout_s=30)
    now[0] += 31 * 10**9
    assert "30 s" in recovered(store).reason


def test_reason_within_the_time_limit_is_the_crash(store):
    assert "ended without finishing" in recovered(crashed(store, timeout_s=30)).reason


# Opening again, reading, resuming


@pytest.mark.parametrize("mode", ["own", "shared"])
def test_opening_again_adds_nothing(store, mode):
    crashed(store)
    seqs = []
    for _ in range(3):
        session = store.open("s", mode=mode)
        seqs.append(session.last_seq)
        crash(session)
    assert seqs == [seqs[0]] * 3


def test_report_tells_the_opening_that_found_it_and_no_other(store):
    with crashed(store).open("s") as first:
        assert first.recovery.was_interrupted
        assert [call.call_id for call in first.recovery.calls] == ["c"]
    with store.open("s") as second:
        assert not second.recovery.was_interrupted


def test_reading_recovers_nothing_and_shows_it_as_running(store):
    crashed(store)
    with store.open("s", mode="read") as seen:
        assert call_in(seen, "c").status == "running"
        before = seen.last_seq
    with store.open("s", mode="read") as seen:
        assert seen.last_seq == before


def test_i4_second_resume_is_refused(store):
    with crashed(store).open("s") as session:
        with session.resume_run() as run:
            run.assistant("done")
        with pytest.raises(EventRejectedError, match="succeeded"):
            session.resume_run().__enter__()


def test_i4_resume_of_a_run_from_before_is_refused_at_a_handle_that_missed_it(store):
    crashed(store)
    with store.open("s", mode="shared") as one, store.open("s", mode="shared") as other:
        stale = other.resume_run()
        with one.resume_run() as run:
            run.assistant("done")
        with pytest.raises(EventRejectedError):
            stale.__enter__()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_run_that_failed_or_was_interrupted_is_resumed_without_a_request(store, error):
    with store.create("s") as session:
        with pytest.raises(error), session.run("x"):
            raise error
        with session.resume_run() as run:
            assert session.runs[-1].resumes == "run_1"
            run.assistant("ok")
        assert [one.role for one in session.state.messages] == ["user", "assistant"]


# Shared sessions


def test_live_workers_run_and_calls_are_left_alone(store):
    with store.create("s", mode="shared") as session:
        call = start_call(begin_run(session, "c"), "c")
        seq = session.last_seq
        said = in_process(
            'print(Store(argv[0]).open("s", mode="shared").recovery.was_interrupted)', store.path
        )
        session.refresh()
        assert (said, session.last_seq) == ("False", seq)
        call.result("ok")


def test_dead_workers_run_is_recovered_by_whoever_opens_next(store):
    with store.create("s", mode="shared") as survivor:
        in_process(
            """
            session = Store(argv[0]).open("s", mode="shared")
            run = session.run("x").__enter__()
            run.assistant("", tool_calls=[{"call_id": "c", "name": "work"}])
            with run.tool("c"):
                os.kill(os.getpid(), 9)
            """,
            store.path,
            kills_itself=True,
        )
        with store.open("s", mode="shared") as opener:
            assert opener.recovery.interrupted_run == "run_1"
        survivor.refresh()
        assert call_in(survivor, "c").status == "uncertain"
        with survivor.run("next") as run:
            run.assistant("ok")


def test_run_begins_where_another_worker_died_in_its_run(store):
    with store.create("s", mode="shared") as survivor:
        in_process(
            """
            session = Store(argv[0]).open("s", mode="shared")
            session.run("x").__enter__()
            os.kill(os.getpid(), 9)
            """,
            store.path,
            kills_itself=True,
        )
        with survivor.run("next") as run:
            run.assistant("ok")
        assert [one.status for one in survivor.runs] == ["interrupted", "succeeded"]


def test_run_that_is_open_in_this_handle_is_not_taken_for_a_dead_one(store):
    with store.create("s") as session:
        begin_run(session)
        with pytest.raises(EventRejectedError, match="going on"):
            session.run("more").__enter__()
        assert session.state.open_run.run_id == "run_1"


def test_handle_that_closes_in_its_run_leaves_it_to_the_next(store):
    with store.create("s", mode="shared") as one:
        begin_run(one)
    with store.open("s", mode="shared") as other:
        assert other.recovery.interrupted_run == "run_1"


def test_child_that_a_live_worker_is_making_is_left_alone(store):
    with store.create("s", mode="shared") as session, session.run("x") as run:
        session.emit("child_started", {"session_id": "kid"}, run_id=run.run_id)
        with store.open("s", mode="shared") as other:
            assert other.state.children["kid"].status == "running"


def test_events_of_recovery_are_ordinary_ones(store):
    session = store.create("s")
    run = begin_run(session, "c", "d")
    start_call(run, "c")
    seq = session.last_seq
    crash(session)
    with store.open("s") as again:
        assert types(again, seq) == ["tool_recovery", "tool_recovery", "run_finished"]
        assert again.last_seq == seq + 3
        assert again.note("W7: numbers go on").seq == seq + 4


def test_reply_that_was_cut_off_has_not_been_told(store):
    session = store.create("s")
    start_call(begin_run(session, "c", "d"), "c")
    crash(session)
    with store.open("s") as again:
        told = again.state.notice
        with pytest.raises(ValueError), again.resume_run() as run, run.stream() as reply:
            reply.delta("I see th")
            raise ValueError
        assert set(told.keys) <= set(again.state.notice.keys)


def test_write_that_was_cut_off_is_told_to_the_model(store, tmp_path):
    session = store.create("s")
    begin_run(session, "c")
    crash(session)
    [segment] = (tmp_path / "store" / "s").glob("events_*.jsonl")
    with segment.open("r+b") as file:
        end = len(file.read().rstrip(b"\t"))
        file.seek(end)
        file.write(b'{"seq":4,"ts":"2026')
    with store.open("s") as again:
        assert "the last write was cut off" in again.context().system
        with again.resume_run() as run:
            run.assistant("I see.")
        assert again.context().system == ""


def test_workspace_that_moved_since_the_interruption_is_told_to_the_model(store, tmp_path):
    before, now = tmp_path / "a", tmp_path / "b"
    before.mkdir(), now.mkdir()
    session = store.create("s", workspace=before)
    begin_run(session, "c")
    crash(session)
    with store.open("s", workspace=now) as again:
        assert f"is {now} now" in again.context().system


def test_call_that_was_settled_before_a_reply_was_cut_off_is_still_told(store):
    session = store.create("s")
    start_call(begin_run(session, "c"), "c")
    crash(session)
    session = store.open("s")
    run = session.resume_run().start()
    run.assistant("I look what became of it.")
    session.open_calls[0].settle("applied")
    run.stream().delta("So it")
    crash(session)
    with store.open("s") as again:
        told = again.state.notice.keys
        assert [again.state.tool_states[key].call_id for key in told] == ["c"]


def offered_again(store):
    """A run with a call that was started, interrupted, and offered again."""
    session = store.create("s")
    run = begin_run(session, "c")
    with pytest.raises(KeyboardInterrupt), run.tool("c"):
        raise KeyboardInterrupt
    session.open_calls[0].rerun()
    return session, run


def test_call_that_was_offered_again_and_not_started_is_of_unknown_outcome_still(store):
    session, _ = offered_again(store)
    crash(session)
    with store.open("s") as again:
        assert call_in(again, "c").status == "uncertain"


def test_run_that_fails_before_an_offered_call_starts_leaves_its_outcome_unknown(store):
    session, run = offered_again(store)
    with session:
        run.finish("failed")
        assert call_in(session, "c").status == "uncertain"


def test_call_that_was_started_is_never_told_as_not_started(store):
    session, _ = offered_again(store)
    key = call_in(session, "c").key
    with session, pytest.raises(EventRejectedError, match="was started"):
        session.emit("tool_recovery", {"outcome": "not_started", "key": key}, call_id="c")


def test_gap_of_the_opening_is_not_told_again_of_another_workers_run(store, tmp_path):
    crash(store.create("s"))
    [segment] = (tmp_path / "store" / "s").glob("events_*.jsonl")
    with segment.open("r+b") as file:
        file.seek(len(file.read().rstrip(b"\t")))
        file.write(b'{"seq":2,"ts":"2026')
    with store.open("s", mode="shared") as session:
        assert session.recovery.log.torn is not None
        other = store.open("s", mode="shared")
        begin_run(other, "c")
        crash(other)
        with session.run("mine"):
            assert session.state.notice.gaps == []
