"""Runs, calls and streams in tasks: the same as in threads, and what cancelling them leaves."""

import asyncio
import contextlib
import threading

import pytest

from durasess import AsyncSession, EventRejectedError, SessionClosedError
from durasess.session import core
from tests.support.harness import store_at
from tests.support.sessions import PATIENCE_S

INTERRUPTIONS = [asyncio.CancelledError, GeneratorExit]


@pytest.fixture
def within(tmp_path):
    """Runs a coroutine function with an open session."""

    def run(body, **options):
        async def main():
            async with store_at(tmp_path, **options).create_async("s") as session:
                return await body(session)

        return asyncio.run(main())

    return run


async def ask(run, *call_ids):
    return await run.assistant("", tool_calls=[{"call_id": c, "name": "work"} for c in call_ids])


def status_of(session, call_id):
    [found] = [one for one in session.state.tool_states.values() if one.call_id == call_id]
    return found.status


def test_whole_run_is_recorded_as_in_threads(within):
    async def body(session):
        async with session.run("x") as run:
            await ask(run, "c")
            async with run.tool("c") as call:
                await call.result("ok")
            async with run.stream() as reply:
                await reply.delta("Fi")
                await reply.delta("ne")
        return [(one.role, one.content) for one in session.state.messages], session.runs[-1].status

    messages, status = within(body)
    assert messages == [("user", "x"), ("assistant", ""), ("tool", "ok"), ("assistant", "Fine")]
    assert status == "succeeded"


def test_exception_in_a_body_is_the_result(within):
    async def body(session):
        async with session.run("x") as run:
            await ask(run, "c")
            async with run.tool("c") as call:
                raise ValueError("bad")
            return status_of(session, "c"), type(call.error)

    assert within(body) == ("failed", ValueError)


def test_body_without_a_result_is_a_failed_call(within):
    async def body(session):
        async with session.run("x") as run:
            await ask(run, "c")
            async with run.tool("c"):
                pass
        return status_of(session, "c")

    assert within(body) == "failed"


def test_result_that_cannot_be_stored_closes_the_call_as_failed(within):
    async def body(session):
        async with session.run("x") as run:
            await ask(run, "c")
            with pytest.raises(EventRejectedError):
                async with run.tool("c") as call:
                    await call.result(object())
            return status_of(session, "c")

    assert within(body) == "failed"


@pytest.mark.parametrize("kind", INTERRUPTIONS)
def test_interruption_in_a_body_leaves_the_call_uncertain(within, kind):
    async def body(session):
        with pytest.raises(kind):
            async with session.run("x") as run:
                await ask(run, "c", "d")
                async with run.tool("c"):
                    raise kind
        return status_of(session, "c"), status_of(session, "d")

    assert within(body) == ("uncertain", "not_started")


def test_task_cancelled_inside_a_body_leaves_call_uncertain_and_run_cancelled(within):
    async def body(session):
        inside = asyncio.Event()

        async def work():
            async with session.run("x") as run:
                await ask(run, "c")
                async with run.tool("c"):
                    inside.set()
                    await asyncio.sleep(60)

        task = asyncio.create_task(work())
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return status_of(session, "c"), session.runs[-1].status

    assert within(body) == ("uncertain", "cancelled")


@pytest.mark.parametrize("rounds", range(16))
def test_task_cancelled_at_any_moment_leaves_a_session_that_takes_a_run(within, rounds):
    async def body(session):
        async def work():
            async with session.run("x") as run:
                await ask(run, "c")
                async with run.tool("c") as call:
                    await call.result(1)
                async with run.stream() as reply:
                    await reply.delta("a")

        task = asyncio.create_task(work())
        for _ in range(rounds):
            await asyncio.sleep(0)
        await asyncio.sleep(0.001 * rounds)
        task.cancel()
        await asyncio.wait([task])
        async with session.run("next") as run:
            await run.assistant("done")
        statuses = {one.status for one in session.state.tool_states.values()}
        return session.runs[-1].status, statuses & {"running", "pending"}

    assert within(body) == ("succeeded", set())


async def whole_run(session, moments):
    """Says at which moments it waits for something that is not its own."""
    async with session.run("x") as run:
        moments.append("run")
        await asyncio.sleep(LONG_S)
        await ask(run, "c")
        async with run.stream() as reply:
            await reply.delta("a")
            moments.append("stream")
            await asyncio.sleep(LONG_S)
        async with run.tool("c") as call:
            moments.append("call")
            await asyncio.sleep(LONG_S)
            await call.result(1)

        async def effect():
            moments.append("once")
            await asyncio.sleep(LONG_S)

        await run.once("op", effect)
        async with run.child(session_id="child"):
            moments.append("child")
            await asyncio.sleep(LONG_S)


LONG_S = 0.05


def closed(task):
    """Close a task's coroutine, as the collector closes one that nobody waits for any more."""
    task.get_coro().close()
    # Its loop has a task of which nothing is left.
    task.cancel()


@pytest.mark.parametrize("moment", ["run", "stream", "call", "once", "child"])
@pytest.mark.parametrize("has_loop", [True, False])
def test_coroutine_that_is_closed_in_a_body_leaves_nothing_going_on(tmp_path, moment, has_loop):
    """Nothing can be awaited then: it raised "no running event loop" or "coroutine ignored
    GeneratorExit", and the run stayed open in the handle."""
    opened = store_at(tmp_path).create("s")
    session, moments = AsyncSession(opened), []

    async def main():
        task = asyncio.ensure_future(whole_run(session, moments))
        while moment not in moments:
            await asyncio.sleep(0.001)
        if has_loop:
            closed(task)
        return task

    with opened, asyncio.Runner() as runner:
        task = runner.run(main())
        if not has_loop:
            closed(task)
        assert opened.runs[-1].status == "interrupted"
        statuses = {one.status for one in opened.state.tool_states.values()}
        assert not statuses & {"running", "pending"}
        assert "running" not in {one.status for one in opened.state.children.values()}
        with opened.run("next"):
            pass


@pytest.mark.parametrize("steps", range(24))
def test_coroutine_that_is_closed_while_it_writes_leaves_nothing_going_on(tmp_path, steps):
    opened = store_at(tmp_path).create("s")
    session = AsyncSession(opened)

    async def work():
        async with session.run("x") as run:
            await ask(run, "c")
            async with run.tool("c") as call:
                await call.result(1)

    async def main():
        task = asyncio.ensure_future(work())
        for _ in range(steps):
            await asyncio.sleep(0.0002 * (steps % 3))
        closed(task)

    with opened:
        asyncio.run(main())
        opened.flush()
        assert opened.state.open_run is None
        statuses = {one.status for one in opened.state.tool_states.values()}
        assert not statuses & {"running", "pending"}


def test_run_that_is_closed_inside_a_commit_does_not_block_the_next(tmp_path):
    """The collector runs in any thread, so in the committer's."""
    coroutines = []

    def fold(state, event):
        while coroutines:
            with contextlib.suppress(EventRejectedError):
                coroutines.pop().close()

    async def main():
        async def work():
            async with session.run("x"):
                began.set()
                await asyncio.sleep(LONG_S)

        began = asyncio.Event()
        task = asyncio.ensure_future(work())
        await began.wait()
        coroutines.append(task.get_coro())
        opened.emit("counted", {})
        task.cancel()

    with store_at(tmp_path, reducers={"counted": fold}).create("s") as opened:
        session = AsyncSession(opened)
        asyncio.run(main())
        with opened.run("next"):
            assert [one.status for one in opened.runs] == ["interrupted", "running"]


def test_generator_that_is_left_inside_its_run_ends_it(within):
    async def body(session):
        async def pieces():
            async with session.run("x") as run, run.stream() as reply:
                for text in "abc":
                    await reply.delta(text)
                    yield text

        made = pieces()
        async for text in made:
            assert text == "a"
            break
        await made.aclose()
        assert session.state.open_run is None
        return session.state.messages[-1].content, session.state.messages[-1].partial

    assert within(body) == ("a", True)


def test_child_that_is_made_for_a_task_that_was_cancelled_is_closed(within, monkeypatch):
    """It stayed open until it was collected."""
    made, began, may_open = [], threading.Event(), threading.Event()

    async def body(session):
        create = session._family.create_child

        def slowly(*args, **options):
            began.set()
            may_open.wait(PATIENCE_S)
            made.append(create(*args, **options))
            return made[-1]

        monkeypatch.setattr(session._family, "create_child", slowly)

        async def work():
            async with session.run("x") as run, run.child(session_id="child"):
                pytest.fail("nobody gets it")

        task = asyncio.ensure_future(work())
        await asyncio.to_thread(began.wait, PATIENCE_S)
        task.cancel()
        await asyncio.wait([task])
        may_open.set()

    within(body)
    with pytest.raises(SessionClosedError):
        made[0].note("still open")


def test_piece_of_which_the_writing_was_cancelled_is_in_the_reply(within, monkeypatch):
    async def body(session):
        async with session.run("x") as run:
            reply = run.stream()
            await reply.delta("one ")
            with monkeypatch.context() as patch:
                patch.setattr(session.core, "_append_async", lambda emission: asyncio.sleep(LONG_S))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0):
                        await reply.delta("two ")
            await reply.delta("three")
            await reply.finish()
            return session.state.messages[-1].content

    assert within(body) == "one two three"


def test_run_that_is_cancelled_while_it_begins_is_over(within):
    async def body(session):
        run = session.run("x")
        task = asyncio.create_task(run.__aenter__())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        await session.flush()
        return session.state.open_run

    assert within(body) is None


def test_call_that_is_cancelled_while_it_begins_is_not_running(within):
    async def body(session):
        async with session.run("x") as run:
            await ask(run, "c")
            task = asyncio.create_task(run.tool("c").__aenter__())
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            await session.flush()
            return status_of(session, "c")

    assert within(body) in ("pending", "failed", "not_started")


def test_stream_that_is_cancelled_keeps_what_came_as_cut_off(within):
    async def body(session):
        with pytest.raises(asyncio.CancelledError):
            async with session.run("x") as run, run.stream() as reply:
                await reply.delta("Fi")
                raise asyncio.CancelledError
        last = session.state.messages[-1]
        return last.content, last.partial

    assert within(body) == ("Fi", True)


def test_gathered_calls_end_in_any_order_and_are_shown_in_theirs(within):
    async def body(session):
        async with session.run("x") as run:
            await ask(run, *"abcd")
            ended = {one: asyncio.Event() for one in "abcd"}
            after = {"c": None, "a": "c", "d": "a", "b": "d"}

            async def work(call_id):
                async with run.tool(call_id) as call:
                    if after[call_id]:
                        await ended[after[call_id]].wait()
                    await call.result(call_id)
                ended[call_id].set()

            await asyncio.gather(*map(work, "abcd"))
        results = [one.content for one in session.state.messages if one.role == "tool"]
        shown = [one["content"] for one in session.context().openai() if one["role"] == "tool"]
        return results, shown

    assert within(body) == (list("cadb"), list("abcd"))


def test_once_of_many_tasks_runs_once(within):
    async def body(session):
        ran = []

        async def work():
            ran.append(1)
            await asyncio.sleep(0.01)
            return 7

        found = await asyncio.gather(
            *(session.once("o", work) for _ in range(5)), return_exceptions=True
        )
        return len(ran), found.count(7), await session.once("o", work)

    ran, returned, later = within(body)
    assert (ran, returned >= 1, later) == (1, True, 7)


def test_once_that_is_cancelled_is_of_unknown_outcome(within):
    from durasess.errors import OutcomeUnknownError

    async def body(session):
        async def work():
            raise asyncio.CancelledError

        with pytest.raises(asyncio.CancelledError):
            await session.once("o", work)
        with pytest.raises(OutcomeUnknownError):
            await session.once("o", work)
        [call] = session.open_calls
        await call.settle("applied", output=3)
        return await session.once("o", work)

    assert within(body) == 3


def test_child_of_a_task_is_recorded_with_its_answer(within):
    async def body(session):
        async with (
            session.run("x") as run,
            run.child(session_id="kid") as child,
            child.run("part") as part,
        ):
            await part.assistant("half")
        kid = session.state.children["kid"]
        return kid.status, kid.result

    assert within(body) == ("succeeded", "half")


def test_approval_and_answer_are_coroutines_with_the_same_outcome(within):
    async def body(session):
        async with session.run("x") as run:
            await ask(run, "a", "b", "c")
            await run.ask_approval("a")
            await run.ask_approval("b")
            await session.approve("a")
            await session.deny("b", by="ann", comment="no")
            async with run.tool("c") as call:
                await call.wait_for_callback()
            await session.answer("c", "done")
        return [status_of(session, one) for one in "abc"]

    assert within(body) == ["pending", "failed", "completed"]


@pytest.mark.parametrize("rounds", range(24))
def test_task_that_is_cancelled_again_and_again_leaves_nothing_going_on(within, rounds):
    """As by a task group that ends, a time limit around it and a program that shuts down."""

    async def body(session):
        async def work():
            async with session.run("x") as run:
                await ask(run, "c", "d")
                async with run.tool("c") as call:
                    await asyncio.sleep(0)
                    await call.result(1)
                async with run.stream() as reply:
                    await reply.delta("a")
                async with run.tool("d"):
                    await asyncio.sleep(60)

        task = asyncio.create_task(work())
        for _ in range(rounds):
            await asyncio.sleep(0.0005)
        while not task.done():
            task.cancel()
            await asyncio.sleep(0)
        assert task.cancelled()
        statuses = {one.status for one in session.state.tool_states.values()}
        return statuses & {"running", "pending"}, session.state.open_run

    assert within(body) == (set(), None)


def test_end_of_a_call_outlives_a_second_cancellation(within):
    async def body(session):
        async with session.run("x") as run:
            await ask(run, "c")

            async def work():
                async with run.tool("c"):
                    await asyncio.sleep(60)

            task = asyncio.create_task(work())
            while status_of(session, "c") != "running":
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return status_of(session, "c")

    assert within(body) == "uncertain"


def test_cancellation_while_the_end_of_a_failed_run_is_written_is_not_lost(within, monkeypatch):
    """Who catches what the block raised is cancelled all the same."""

    async def body(session):
        async def work():
            with contextlib.suppress(ValueError):
                async with session.run("x"):
                    raise ValueError("no")
            await asyncio.sleep(60)

        append = core.Core._append_async

        async def cancelled_meanwhile(self, emission):
            if any(one.type == "run_finished" for one in emission.drafts):
                asyncio.get_running_loop().call_soon(task.cancel)
                await asyncio.sleep(0.001)
            return await append(self, emission)

        monkeypatch.setattr(core.Core, "_append_async", cancelled_meanwhile)
        task = asyncio.create_task(work())
        await asyncio.wait([task], timeout=5)
        return task.cancelled(), session.state.runs[-1].status

    assert within(body) == (True, "failed")
