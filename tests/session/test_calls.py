"""Runs and tool calls in threads: how their bodies end is what is recorded."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from durasess import EventRejectedError, SessionFailedError, StorageError
from tests.support.harness import ask, begin_run, call_in, crash, start_call, store_at, types

INTERRUPTIONS = [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError]


@pytest.fixture
def session(tmp_path):
    with store_at(tmp_path).create("s") as made:
        yield made


class TwoArguments(Exception):
    def __init__(self, one, two):
        super().__init__(one, two)


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no text")


class Odd:
    @property
    def __dict__(self):
        raise RuntimeError("no dict")


class OddField:
    __dataclass_fields__ = ()

    def __getattr__(self, name):
        raise RuntimeError("nothing to see")


def message_of(session, call):
    [found] = [one for one in session.state.messages if one.key == call.key]
    return found


# How a body ends


def test_started_is_durable_before_the_body_runs(session):
    with session.run("x") as run:
        ask(run, "c")
        with run.tool("c") as call:
            in_the_body = types(session)
            call.result(1)
    assert in_the_body[-1] == "tool_started"


def test_result_is_what_the_model_sees(session):
    with session.run("x") as run:
        ask(run, "c")
        with run.tool("c") as call:
            call.result({"lines": [1, 2]})
    found = call_in(session, "c")
    assert (found.status, message_of(session, found).content) == ("completed", {"lines": [1, 2]})


@pytest.mark.parametrize("error", [ValueError("bad"), TwoArguments(1, 2), Mute("x"), EOFError()])
def test_e7_exception_is_the_result_and_goes_no_further(session, error):
    with session.run("x") as run:
        ask(run, "c")
        with run.tool("c") as call:
            raise error
    found = call_in(session, "c")
    assert (found.status, call.error) == ("failed", error)
    assert type(error).__name__ in message_of(session, found).content


def test_e7_exception_is_recorded_with_type_text_and_traceback(session):
    with session.run("x") as run:
        ask(run, "c")
        with run.tool("c"):
            raise TwoArguments("one", "two")
    [result] = [one for one in session.events() if one.type == "tool_result"]
    error = result.data["error"]
    assert error["type"].endswith("TwoArguments")
    assert "two" in error["message"]
    assert "raise TwoArguments" in error["traceback"]


@pytest.mark.parametrize("kind", INTERRUPTIONS)
def test_interruption_leaves_the_call_uncertain_and_goes_on(session, kind):
    with pytest.raises(kind), session.run("x") as run:
        ask(run, "c", "d")
        with run.tool("c"):
            raise kind
    assert (call_in(session, "c").status, call_in(session, "d").status) == (
        "uncertain",
        "not_started",
    )
    assert kind.__name__ in call_in(session, "c").reason


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (KeyboardInterrupt, "interrupted"),
        (SystemExit, "interrupted"),
        (GeneratorExit, "interrupted"),
        (asyncio.CancelledError, "cancelled"),
        (ValueError, "failed"),
    ],
)
def test_exception_in_a_run_ends_it_and_goes_on(session, kind, status):
    with pytest.raises(kind), session.run("x"):
        raise kind
    assert session.runs[-1].status == status


def test_body_without_a_result_is_a_failed_call(session):
    with session.run("x") as run:
        ask(run, "c")
        with run.tool("c"):
            pass
    found = call_in(session, "c")
    assert (found.status, message_of(session, found).ok) == ("failed", False)


@pytest.mark.parametrize(
    "make", [Odd, OddField, object, lambda: {1: 2}, lambda: [object()], lambda: {"a": {"b": print}}]
)
def test_e8_result_that_cannot_be_stored_closes_the_call_as_failed_and_raises(session, make):
    with session.run("x") as run:
        ask(run, "c")
        with pytest.raises(EventRejectedError), run.tool("c") as call:
            call.result(make())
        assert call_in(session, "c").status == "failed"
        assert "could not be recorded" in message_of(session, call_in(session, "c")).content


def test_time_limit_that_is_over_makes_an_exception_an_unknown_outcome(tmp_path):
    now = [10**18]
    store = store_at(tmp_path, clock=lambda: now[0])
    store.tool("work", timeout_s=5)
    with store.create("s") as session, session.run("x") as run:
        ask(run, "c")
        with pytest.raises(TimeoutError), run.tool("c"):
            now[0] += 6_000_000_000
            raise TimeoutError
        assert call_in(session, "c").status == "uncertain"


def test_second_result_in_one_body_is_refused_and_the_first_stays(session):
    with session.run("x") as run:
        ask(run, "c")
        with run.tool("c") as call:
            call.result(1)
            with pytest.raises(EventRejectedError, match="one result"):
                call.result(2)
    assert message_of(session, call_in(session, "c")).content == 1


def test_call_that_was_not_started_says_so(session):
    with session.run("x") as run:
        ask(run, "c")
        with pytest.raises(RuntimeError, match="with block"):
            run.tool("c").result(1)
        with run.tool("c") as call:
            call.result(1)


def test_run_that_fails_says_what_was_never_started(session):
    with pytest.raises(ValueError), session.run("x") as run:
        ask(run, "c")
        raise ValueError
    assert call_in(session, "c").status == "not_started"


def test_run_that_succeeds_leaves_what_is_to_be_answered_later(session):
    with session.run("x") as run:
        ask(run, "c")
    assert call_in(session, "c").status == "pending"
    assert session.answer("c", 5).status == "completed"


def test_exception_while_the_handle_dies_goes_on(session):
    with pytest.raises(ValueError), session.run("x"):
        session.close()
        raise ValueError


def test_run_whose_handle_died_raises_what_killed_it(session):
    with pytest.raises(Exception, match="closed"), session.run("x"):
        session.close()


# The reply in pieces


def test_stream_becomes_one_message(session):
    with session.run("x") as run, run.stream() as reply:
        reply.delta("Fix")
        reply.delta("ed")
        reply.finish(usage={"completion_tokens": 2})
    last = session.state.messages[-1]
    assert (last.content, last.partial, session.usage.completion) == ("Fixed", False, 2)


def test_stream_that_ends_without_finish_is_finished(session):
    with session.run("x") as run, run.stream() as reply:
        reply.delta("Fix")
    assert session.state.messages[-1].content == "Fix"


@pytest.mark.parametrize("kind", [*INTERRUPTIONS, ValueError])
def test_stream_that_an_exception_ends_keeps_what_came_as_cut_off(session, kind):
    with pytest.raises(kind), session.run("x") as run, run.stream() as reply:
        reply.delta("Fi")
        raise kind
    last = session.state.messages[-1]
    assert (last.content, last.partial) == ("Fi", True)


def test_stream_that_an_exception_ends_before_anything_came_says_nothing(session):
    with pytest.raises(ValueError), session.run("x") as run, run.stream():
        raise ValueError
    assert [one.role for one in session.state.messages] == ["user"]


def test_stream_of_a_killed_process_is_a_reply_that_was_cut_off(tmp_path):
    store = store_at(tmp_path)
    session = store.create("s")
    reply = begin_run(session).stream()
    reply.delta("Fi")
    session.flush()
    crash(session)
    with store.open("s") as again:
        last = again.state.messages[-1]
        assert (last.content, last.partial, again.state.partial) == ("Fi", True, None)


# Several calls


def test_p1_results_of_threads_come_in_any_order(session):
    order = [3, 1, 4, 2]
    turns = {n: threading.Event() for n in order}
    with session.run("x") as run:
        ask(run, *(f"c{n}" for n in range(1, 5)))
        barrier = threading.Barrier(4)

        def work(n):
            with run.tool(f"c{n}") as call:
                barrier.wait(10)
                if order.index(n):
                    assert turns[n].wait(10)
                call.result(n)
            following = order[order.index(n) + 1 :]
            if following:
                turns[following[0]].set()

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(1, 5)))
    results = [one.content for one in session.state.messages if one.role == "tool"]
    assert results == order
    shown = [one for one in session.context().openai() if one["role"] == "tool"]
    assert [one["content"] for one in shown] == ["1", "2", "3", "4"]


def test_call_is_started_by_one_of_many_threads(session):
    outcomes = []
    with session.run("x") as run:
        ask(run, "c")

        def work(_):
            try:
                with run.tool("c") as call:
                    outcomes.append("ran")
                    call.result(1)
            except EventRejectedError:
                outcomes.append("refused")

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(8)))
    assert sorted(outcomes) == ["ran"] + ["refused"] * 7


def test_run_is_begun_by_one_of_many_threads(session):
    def begin(_):
        try:
            session.run("x").__enter__()
        except EventRejectedError:
            return 0
        return 1

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(begin, range(8))) == 1


def test_cumulative_counter_of_many_threads_is_counted_once(session):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: session.record_usage({"prompt": 100}, counter="c"), range(16)))
    assert session.usage.prompt == 100


# Provider shapes

SHAPES = [
    {"call_id": "c", "name": "work", "arguments": {"a": 1}},
    {"id": "c", "function": {"name": "work", "arguments": '{"a": 1}'}},
    {"call_id": "c", "type": "function_call", "name": "work", "arguments": '{"a": 1}'},
    {"id": "c", "type": "tool_use", "name": "work", "input": {"a": 1}},
    SimpleNamespace(id="c", name="work", input={"a": 1}),
    SimpleNamespace(id="c", function=SimpleNamespace(name="work", arguments='{"a":1}')),
]


@pytest.mark.parametrize("shape", SHAPES)
def test_call_of_any_provider_is_recorded_alike(session, shape):
    with session.run("x") as run:
        [call] = run.assistant(tool_calls=[shape])
        assert (call.call_id, call.name, call.arguments) == ("c", "work", {"a": 1})


@pytest.mark.parametrize("text", ['{"a": ', "no", "[1", "'x'"])
def test_arguments_that_are_no_json_are_refused(session, text):
    calls = [{"id": "c", "function": {"name": "w", "arguments": text}}]
    with session.run("x") as run:
        before = session.last_seq
        with pytest.raises(EventRejectedError, match="no JSON"):
            run.assistant(tool_calls=calls)
        assert session.last_seq == before


@pytest.mark.parametrize("text", ["[1]", "7", "null"])
def test_arguments_that_are_other_json_are_kept_as_they_came(session, text):
    with session.run("x") as run:
        [call] = run.assistant(tool_calls=[{"id": "c", "name": "w", "arguments": text}])
        assert call.arguments == text


def test_body_gets_the_arguments_as_an_object(session):
    with session.run("x") as run:
        run.assistant(tool_calls=[SHAPES[1]])
        with run.tool("c") as call:
            call.result(1)
        assert call.arguments == {"a": 1}


def test_disk_that_refuses_the_result_is_told_and_the_call_is_found_uncertain(
    tmp_path, monkeypatch
):
    store = store_at(tmp_path)
    session = store.create("s")
    run = begin_run(session, "c")
    call = start_call(run, "c")
    log = session.core.engine._writer._log

    def refuse(*_):
        raise StorageError("full", path="x")

    monkeypatch.setattr(log, "write", refuse)
    with pytest.raises((StorageError, SessionFailedError)):
        call.result(1)
    crash(session)
    with store.open("s") as again:
        assert call_in(again, "c").status == "uncertain"


# Interrupted while an event is written


def interrupt(session, monkeypatch, type, *, written):
    """KeyboardInterrupt reaches the one who waits for the first event of a type."""
    engine, append = session.core.engine, session.core.engine.append_many
    left = [type]

    def append_many(drafts, *, durable=True):
        if not any(one.type in left for one in drafts):
            return append(drafts, durable=durable)
        left.clear()
        if written:
            append(drafts, durable=durable)
        raise KeyboardInterrupt

    monkeypatch.setattr(engine, "append_many", append_many)


ENDINGS = {
    ("run_started", True): ("cancelled", None),
    ("run_started", False): (None, None),
    ("assistant_message", True): ("interrupted", "not_started"),
    ("assistant_message", False): ("interrupted", None),
    ("tool_started", True): ("interrupted", "failed"),
    ("tool_started", False): ("interrupted", "not_started"),
    ("tool_result", True): ("interrupted", "completed"),
    ("tool_result", False): ("interrupted", "uncertain"),
    ("run_finished", True): ("succeeded", "completed"),
    ("run_finished", False): ("succeeded", "completed"),
}


@pytest.mark.parametrize(("type", "written"), ENDINGS)
def test_interruption_of_a_write_leaves_nothing_going_on(session, monkeypatch, type, written):
    interrupt(session, monkeypatch, type, written=written)
    with pytest.raises(KeyboardInterrupt), session.run("x") as run:
        ask(run, "c")
        with run.tool("c") as call:
            call.result(1)
    run = session.runs[-1].status if session.runs else None
    calls = [one.status for one in session.state.tool_states.values()]
    assert (run, calls[0] if calls else None) == ENDINGS[type, written]


@pytest.mark.parametrize("written", [True, False])
def test_interrupted_start_of_an_operation_may_be_tried_again(session, monkeypatch, written):
    interrupt(session, monkeypatch, "tool_started", written=written)
    with pytest.raises(KeyboardInterrupt):
        session.once("o", lambda: pytest.fail("it ran"))
    assert session.once("o", lambda: 1) == 1


def test_providers_item_that_holds_a_secret_is_left_out_whole_and_never_edited(session):
    signed = {"type": "thinking", "thinking": "sk-abcdefghijklmnop12345678", "signature": "s"}
    raw = {"provider": "anthropic", "item": {"role": "assistant", "content": [signed]}}
    with session.run("x") as run:
        run.assistant("hi", raw=raw)
        assert session.state.messages[-1].raw is None
