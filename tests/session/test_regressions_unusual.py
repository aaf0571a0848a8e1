"""Faults found with values that only odd providers, tools and verifiers make: each test is named
after the fault."""

import asyncio

import pytest

from durasess import EventRejectedError, Store


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


def call(call_id="c", name="work"):
    return {"call_id": call_id, "name": name, "arguments": {}}


def nested(depth):
    value = 1
    for _ in range(depth):
        value = [value]
    return value


LONG = "call_" + "a" * 4_000


def test_call_id_of_thousands_of_characters_can_be_started_and_answered(store):
    with store.create("s") as session, session.run("do it") as run:
        run.assistant("", tool_calls=[call(LONG)])
        with run.tool(LONG) as running:
            running.result("done")
        (told,) = [one for one in session.context().openai() if one["role"] == "tool"]
        assert told["content"] == "done"


def test_session_with_an_open_call_whose_id_is_long_opens(store):
    session = store.create("s")
    run = session.run("do it").start()
    run.assistant("", tool_calls=[call(LONG), call("b" * 513)])
    run.tool("b" * 513).start()
    session.abandon()
    with store.open("s") as session:
        assert {one.status for one in session.call_states} == {"not_started", "uncertain"}
        for one in session.open_calls:
            one.settle("abandoned") if one.status == "uncertain" else one.answer("late")
        assert not session.open_calls
    assert store.fork("s", at_seq=4).session_id != "s"


@pytest.mark.parametrize(
    "output",
    [{str(number): number for number in range(1_400_000)}, nested(100)],
    ids=["large", "deep"],
)
def test_answer_of_a_verifier_that_no_event_holds_does_not_keep_a_session_shut(store, output):
    store.tool("work", verify=lambda call: ("applied", output))
    session = store.create("s")
    run = session.run("do it").start()
    run.assistant("", tool_calls=[call()])
    run.tool("c").start()
    session.abandon()
    with store.open("s") as session:
        (told,) = [one for one in session.events() if one.type == "tool_recovery"]
        assert told.data["outcome"] == "applied"
        assert "not recorded" in told.data["evidence"]
        (shown,) = [one for one in session.context().openai() if one["role"] == "tool"]
        assert "APPLIED" in shown["content"]


def test_answer_of_a_child_that_no_evidence_holds_does_not_keep_its_parent_shut(store):
    session = store.create("s")
    run = session.run("do it").start()
    run.assistant("", tool_calls=[call()])
    run.tool("c").start()
    block = session.child(session_id="child", run_id=run.run_id, call_id="c")
    child = block.__enter__()
    working = child.run("a part of it").start()
    working.assistant(nested(99))
    working.finish()
    child.abandon()
    session.abandon()
    with store.open("s") as session:
        (told,) = [one for one in session.events() if one.type == "tool_recovery"]
        assert told.data["outcome"] == "uncertain"
        assert "not recorded" in told.data["evidence"]


@pytest.mark.parametrize("character", ["x", "\0", "\udcff"])
def test_text_of_an_exception_that_no_event_holds_leaves_no_call_and_no_run_open(store, character):
    error = ValueError("begins" + character * (18 << 20) + "ends")
    with store.create("s") as session:
        with pytest.raises(ValueError, match="begins"), session.run("do it") as run:
            run.assistant("", tool_calls=[call()])
            with run.tool("c"):
                raise error
            (told,) = [one for one in session.context().openai() if one["role"] == "tool"]
            assert "begins" in told["content"] and "ends" in told["content"]
            assert "characters are left out" in told["content"]
            with pytest.raises(ValueError, match="begins"):
                session.once("o", fail_with(error))
            raise error
        assert session.runs[-1].status == "failed"
        assert [one.status for one in session.state.tool_states.values()] == ["failed", "failed"]


def fail_with(error):
    def work():
        raise error

    return work


def test_run_that_was_not_begun_records_nothing(store):
    with store.create("s") as session:
        run = session.run("do it")
        before = session.last_seq
        for one in (
            lambda: run.assistant("x"),
            lambda: run.user("x"),
            lambda: run.stream(),
            lambda: run.usage({"prompt": 1}),
            lambda: run.once("o", lambda: 1),
            lambda: run.tool("c"),
            lambda: run.finish(),
        ):
            with pytest.raises(EventRejectedError, match="the run has not begun"):
                one()
        assert session.last_seq == before


def test_block_of_a_run_and_a_call_that_were_begun_before_it_goes_on_with_them(store):
    with store.create("s") as session:
        with session.run("do it").start() as run:
            run.assistant("", tool_calls=[call(), call()])
            started = run.tool("c").start()
            with started as running:
                running.result("done")
            with pytest.raises(EventRejectedError, match="has begun already"):
                started.start()
        with pytest.raises(EventRejectedError, match="has begun already"):
            run.start()
        statuses = [one.status for one in session.state.tool_states.values()]
        assert statuses == ["completed", "pending"]
        assert [one.status for one in session.runs] == ["succeeded"]


def test_block_of_a_run_and_a_call_in_tasks_goes_on_with_them(store):
    async def main():
        async with store.create_async("s") as session:
            run = session.run("do it")
            with pytest.raises(EventRejectedError, match="the run has not begun"):
                await run.assistant("x")
            async with await run.start():
                await run.assistant("", tool_calls=[call(), call()])
                started = await run.tool("c").start()
                async with started as running:
                    await running.result("done")
                with pytest.raises(EventRejectedError, match="has begun already"):
                    await started.start()
            with pytest.raises(EventRejectedError, match="has begun already"):
                await run.start()
            return [one.status for one in session.state.tool_states.values()]

    assert asyncio.run(main()) == ["completed", "pending"]
