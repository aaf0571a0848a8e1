"""What there is to decide about calls, and what stays the same when one is offered again."""

from tests.support.harness import begin_run, call_in, crash, start_call, store_at


def interrupted(store):
    """A session with a call that was started and one that was not, opened again."""
    session = store.create("s")
    start_call(begin_run(session, "begun", "asked"), "begun")
    crash(session)
    return store.open("s")


def test_operation_id_stays_the_same_however_often_a_call_is_offered_again(tmp_path):
    store = store_at(tmp_path)
    session = interrupted(store)
    first = call_in(session, "begun").operation_id
    session.open_calls[0].rerun()
    with session.resume_run() as run, run.tool("begun") as call:
        call.result("done")
    session.close()
    assert (call.operation_id, call.call.attempt) == (first, 2)


def test_operation_ids_of_two_calls_are_different(tmp_path):
    with store_at(tmp_path).create("s") as session, session.run("go") as run:
        asked = run.assistant("", tool_calls=[{"call_id": c, "name": "work"} for c in "ab"])
        ids = []
        for one in asked:
            with run.tool(one.key) as call:
                ids.append(call.operation_id)
                call.result(None)
    assert len(set(ids)) == 2


def test_call_that_was_never_started_is_listed_until_the_model_has_answered(tmp_path):
    session = interrupted(store_at(tmp_path))
    listed = [(call.call_id, call.status) for call in session.open_calls]
    assert listed == [("begun", "uncertain"), ("asked", "not_started")]
    with session.resume_run() as run:
        run.assistant("I see.")
    assert [call.call_id for call in session.open_calls] == ["begun"]
    session.close()
