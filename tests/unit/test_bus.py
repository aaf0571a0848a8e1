"""The bus: every durable event to every subscriber, none of whom breaks or stalls a session."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from durasess.engine.engine import Engine
from durasess.engine.feeds import FEED_EVENTS
from durasess.errors import CorruptionError, SessionClosedError
from durasess.session.bus import Delivery, Subscription, subscribe
from durasess.session.crossing import CROSSING_ITEMS, Crossing
from tests.support.sessions import PATIENCE_S, outcome_of

LONG_S = PATIENCE_S * 10


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine.open(tmp_path / "s1") as opened:
        yield opened


def append(engine: Engine, *numbers: int, type: str = "n", **ids: str) -> None:
    for number in numbers:
        engine.append(type, {"n": number}, **ids)


def seqs(deliveries: Any) -> list[int]:
    return [one.seq for one in deliveries]


def some(subscription: Subscription, count: int) -> list[Delivery]:
    """The next deliveries, in another thread, so that one that never comes is a failed test."""
    found: list[Delivery] = outcome_of(lambda: list(islice(subscription, count)))
    return found


def rest(subscription: Subscription) -> list[Delivery]:
    """All until the iteration ends."""
    found: list[Delivery] = outcome_of(lambda: list(subscription))
    return found


# What is delivered


def test_without_after_only_later_events_are_delivered(engine: Engine) -> None:
    append(engine, 1, 2)
    with subscribe(engine) as subscription:
        append(engine, 3, 4)
        found = some(subscription, 2)
    assert [(one.seq, one.data, one.replayed) for one in found] == [
        (3, {"n": 3}, False),
        (4, {"n": 4}, False),
    ]


@pytest.mark.parametrize("after", [0, 1, 2])
def test_with_after_what_was_durable_before_is_replayed_and_marked(
    engine: Engine, after: int
) -> None:
    append(engine, 1, 2)
    with subscribe(engine, after=after) as subscription:
        append(engine, 3)
        found = some(subscription, 3 - after)
    assert [(one.seq, one.replayed) for one in found] == [(1, True), (2, True), (3, False)][after:]


def test_event_between_subscribing_and_the_first_look_is_not_missed(engine: Engine) -> None:
    subscription = subscribe(engine)
    append(engine, 1)
    engine.close()
    assert seqs(rest(subscription)) == [1]


def test_only_wanted_events_are_delivered(engine: Engine) -> None:
    by_type = subscribe(engine, types=["b"])
    by_run = subscribe(engine, run_id="r1")
    by_call = subscribe(engine, call_id="c1", types={"a", "b"})
    by_none = subscribe(engine, types=[])
    append(engine, 1, type="a", run_id="r1")
    append(engine, 2, type="b", run_id="r2", call_id="c1")
    append(engine, 3, type="c", run_id="r1", call_id="c1")
    engine.close()
    assert [seqs(rest(one)) for one in (by_type, by_run, by_call, by_none)] == [
        [2],
        [1, 3],
        [2],
        [],
    ]


def test_delivery_says_what_its_event_says(engine: Engine) -> None:
    append(engine, 1, type="tool_result", run_id="r1", call_id="c1")
    with subscribe(engine, after=0) as subscription:
        [found] = some(subscription, 1)
    assert (found.type, found.run_id, found.call_id) == ("tool_result", "r1", "c1")
    assert found.event == next(engine.events())


def test_data_is_the_subscribers_own(engine: Engine) -> None:
    given = {"list": [1]}
    with subscribe(engine) as first, subscribe(engine) as second:
        engine.append("n", given)
        some(first, 1)[0].data["list"].append(2)
        assert some(second, 1)[0].data == {"list": [1]} == given
    assert next(engine.events()).data == {"list": [1]}


def test_event_of_another_writer_is_delivered(tmp_path: Path) -> None:
    with (
        Engine.open(tmp_path / "s1", mode="shared") as one,
        Engine.open(tmp_path / "s1", mode="shared") as other,
    ):
        append(other, 1)
        with subscribe(one) as subscription:
            append(other, 2)
            append(one, 3)
            assert [(d.seq, d.replayed) for d in some(subscription, 2)] == [(2, False), (3, False)]


def test_reader_sees_what_a_writer_appends(engine: Engine) -> None:
    append(engine, 1)
    with (
        Engine.open(engine.path, mode="read") as reader,
        subscribe(reader, after=0) as subscription,
    ):
        append(engine, 2)
        assert [(d.seq, d.replayed) for d in some(subscription, 2)] == [(1, True), (2, False)]


def test_subscriber_that_takes_late_misses_nothing(engine: Engine) -> None:
    many = FEED_EVENTS + 100
    with subscribe(engine) as subscription:
        append(engine, 0)
        some(subscription, 1)
        engine.append_many([("n", {"n": n}) for n in range(many)])
        assert seqs(some(subscription, many)) == list(range(2, many + 2))


# What is refused


@pytest.mark.parametrize("after", [-1, 3])
def test_after_outside_the_log_is_refused(engine: Engine, after: int) -> None:
    append(engine, 1, 2)
    with pytest.raises(ValueError, match="from 0 to 2"):
        subscribe(engine, after=after)


def test_after_before_what_was_pruned_is_refused_with_the_oldest_that_is_left(
    engine: Engine,
) -> None:
    for number in (1, 2, 3):
        append(engine, number)
        engine.snapshot()
    engine.prune()
    first = engine.first_seq
    assert first > 1
    with pytest.raises(ValueError, match=f"after={first - 1} or later"):
        subscribe(engine, after=first - 2)
    with subscribe(engine, after=first - 1) as subscription:
        assert some(subscription, 1)[0].seq == first


def test_text_as_types_is_refused(engine: Engine) -> None:
    with pytest.raises(TypeError, match=r"\['tool_result'\]"):
        subscribe(engine, types="tool_result")


def test_closed_session_cannot_be_subscribed_to(engine: Engine) -> None:
    engine.close()
    with pytest.raises(SessionClosedError):
        subscribe(engine)


# How it ends


@pytest.mark.parametrize("mode", ["own", "shared"])
def test_closed_session_delivers_what_was_durable_and_ends(tmp_path: Path, mode: Any) -> None:
    engine = Engine.open(tmp_path / "s1", mode=mode)
    started, idle = subscribe(engine), subscribe(engine)
    append(engine, 1)
    some(started, 1)
    append(engine, 2, 3)
    engine.close()
    assert seqs(rest(started)) == [2, 3] and seqs(rest(idle)) == [1, 2, 3]
    assert started.closed and rest(started) == []


def test_session_closed_while_it_looks_for_events_of_others_delivers_the_rest(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed_in_this_moment(*_: Any, **__: Any) -> Iterator[Any]:
        yield next(engine.events())
        raise SessionClosedError("closed")

    monkeypatch.setattr(Engine, "follow", closed_in_this_moment)
    subscription = subscribe(engine)
    append(engine, 1, 2, 3)
    engine.close()
    assert seqs(rest(subscription)) == [1, 2, 3]


def test_close_ends_an_iteration_that_waits_in_another_thread(engine: Engine) -> None:
    subscription = subscribe(engine)
    threading.Timer(0.01, subscription.close).start()
    assert rest(subscription) == []


def test_closed_subscription_delivers_no_more_and_closes_again(engine: Engine) -> None:
    append(engine, 1, 2)
    subscription = subscribe(engine, after=0)
    some(subscription, 1)
    subscription.close()
    subscription.close()
    assert subscription.closed and rest(subscription) == []


def test_closed_subscription_leaves_no_queue_in_the_engine(engine: Engine) -> None:
    subscription = subscribe(engine, after=0)
    append(engine, 1)
    some(subscription, 1)
    feeds = engine._writer.feeds  # type: ignore[union-attr]
    assert len(feeds._feeds) == 1
    subscription.close()
    assert feeds._feeds == ()


def test_subscription_that_is_closed_while_an_event_is_taken_leaves_no_queue(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    subscription = subscribe(engine, after=0)
    append(engine, 1)
    wanted = SimpleNamespace(takes=lambda _: subscription.close() or True)
    monkeypatch.setattr(subscription._source, "_wanted", wanted)
    assert rest(subscription) == []
    assert engine._writer.feeds._feeds == ()  # type: ignore[union-attr]


@pytest.mark.parametrize("is_async", [False, True])
def test_subscription_that_was_left_by_break_and_forgotten_leaves_no_thread_and_no_queue(
    engine: Engine, is_async: bool
) -> None:
    """Each client of a stream of events that went away left a thread and a queue behind."""

    async def first() -> int:
        async for delivery in subscribe(engine, after=0):
            return delivery.seq
        return 0

    append(engine, *range(40))
    before = threading.active_count()
    found = asyncio.run(first()) if is_async else next(iter(subscribe(engine, after=0))).seq
    assert found == 1
    end = time.monotonic() + LONG_S
    while threading.active_count() > before and time.monotonic() < end:
        time.sleep(0.01)
    assert threading.active_count() == before
    assert engine._writer.feeds._feeds == ()  # type: ignore[union-attr]


def test_iteration_left_by_break_goes_on_later(engine: Engine) -> None:
    append(engine, 1, 2)
    with subscribe(engine, after=0) as subscription:
        assert seqs(some(subscription, 1)) == [1]
        assert seqs(some(subscription, 1)) == [2]


def test_threads_that_iterate_share_the_deliveries(engine: Engine) -> None:
    subscription = subscribe(engine)
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda: found.extend(seqs(subscription)), daemon=True)
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    append(engine, *range(50))
    engine.close()
    for thread in threads:
        thread.join(LONG_S)
    assert sorted(found) == list(range(1, 51))


def test_error_of_the_engine_is_raised_where_it_is_iterated(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Engine, "follow", failing)
    subscription = subscribe(engine)
    assert isinstance(outcome_of(lambda: next(subscription)), CorruptionError)
    assert rest(subscription) == []


def failing(*_: Any, **__: Any) -> Iterator[Any]:
    raise CorruptionError("damaged")
    yield


# Callbacks


class Called:
    """A callback that keeps what it got."""

    def __init__(self, also: Callable[[Delivery], Any] = lambda _: None) -> None:
        self.seqs: list[int] = []
        self.also = also

    def __call__(self, delivery: Delivery) -> None:
        self.seqs.append(delivery.seq)
        self.also(delivery)


def test_callback_gets_every_event_also_those_before_a_close(engine: Engine) -> None:
    called = Called()
    subscription = subscribe(engine, callback=called)
    append(engine, 1, 2, 3)
    engine.close()
    assert subscription.wait(LONG_S) and called.seqs == [1, 2, 3]


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(1), KeyboardInterrupt()])
def test_callback_that_raises_is_reported_and_gets_the_next_event(
    engine: Engine, error: BaseException
) -> None:
    def fail(_: Delivery) -> None:
        raise error

    reported: list[tuple[BaseException, int]] = []
    called = Called(fail)
    subscription = subscribe(
        engine, callback=called, on_error=lambda e, d: reported.append((e, d.seq))
    )
    append(engine, 1, 2)
    engine.close()
    assert subscription.wait(LONG_S) and called.seqs == [1, 2]
    assert reported == [(error, 1), (error, 2)]


@pytest.mark.parametrize("on_error", [None, lambda error, delivery: 1 / 0])
def test_callback_that_raises_is_logged_when_nobody_takes_the_report(
    engine: Engine, caplog: pytest.LogCaptureFixture, on_error: Any
) -> None:
    called = Called(lambda delivery: {}["missing"])
    with caplog.at_level(logging.ERROR, "durasess"):
        subscription = subscribe(engine, callback=called, on_error=on_error)
        append(engine, 1, 2)
        engine.close()
        assert subscription.wait(LONG_S)
    assert called.seqs == [1, 2]
    assert caplog.messages[0].startswith(f"{engine.path}: ")
    assert "seq 1" in caplog.text and "seq 2" in caplog.text


def test_callback_that_never_returns_stalls_neither_appends_nor_close(engine: Engine) -> None:
    entered, never = threading.Event(), threading.Event()

    def block(_: Delivery) -> None:
        entered.set()
        never.wait()

    subscription = subscribe(engine, callback=block)
    append(engine, 1)
    assert entered.wait(LONG_S)
    assert subscription._thread is not None and subscription._thread.daemon
    append(engine, 2)
    outcome_of(engine.close)
    outcome_of(subscription.close)
    assert not subscription.wait(0)
    never.set()
    assert subscription.wait(LONG_S)


def test_callback_may_emit_into_the_session(engine: Engine) -> None:
    def echo(delivery: Delivery) -> None:
        if delivery.type == "n":
            engine.append("echo", {"of": delivery.seq})

    with subscribe(engine) as all_of_them, subscribe(engine, callback=echo):
        append(engine, 1)
        assert [(one.type, one.seq) for one in some(all_of_them, 2)] == [("n", 1), ("echo", 2)]


def test_callback_may_close_its_own_subscription_and_the_session(engine: Engine) -> None:
    def end(_: Delivery) -> None:
        assert not subscription.wait(LONG_S)
        engine.close()
        subscription.close()

    called = Called(end)
    subscription = subscribe(engine, callback=called)
    engine.append_many([("n", 1), ("n", 2)])
    assert subscription.wait(LONG_S) and called.seqs == [1]


def test_error_of_the_engine_ends_a_callback_and_is_kept(
    engine: Engine, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Engine, "follow", failing)
    subscription = subscribe(engine, callback=Called())
    assert subscription.wait(LONG_S)
    assert isinstance(subscription.error, CorruptionError) and "damaged" in caplog.text


# async for


def run(coroutine: Any) -> Any:
    return outcome_of(lambda: asyncio.run(asyncio.wait_for(coroutine, LONG_S)))


async def collected(subscription: Subscription, count: int) -> list[int]:
    found: list[int] = []
    async for delivery in subscription:
        found.append(delivery.seq)
        if len(found) == count:
            break
    return found


def test_coroutine_gets_what_was_and_what_comes_and_ends_with_the_session(engine: Engine) -> None:
    async def main() -> list[int]:
        subscription = subscribe(engine, after=0)
        found = await collected(subscription, 2)
        await engine.append_async("n", 3)
        engine.close()
        return found + await collected(subscription, 99)

    append(engine, 1, 2)
    assert run(main()) == [1, 2, 3]


def test_coroutine_that_takes_late_misses_nothing_and_little_waits_for_it(engine: Engine) -> None:
    async def main() -> list[int]:
        subscription = subscribe(engine, after=0)
        first = await collected(subscription, 1)
        while subscription._crossing._room._value:
            await asyncio.sleep(0.001)
        assert len(subscription._crossing._items) == CROSSING_ITEMS
        engine.close()
        return first + await collected(subscription, 1000)

    append(engine, *range(CROSSING_ITEMS * 5))
    assert run(main()) == list(range(1, CROSSING_ITEMS * 5 + 1))


def test_cancelled_coroutine_closes_the_subscription(engine: Engine) -> None:
    async def main() -> Subscription:
        subscription = subscribe(engine)
        task = asyncio.create_task(collected(subscription, 1))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return subscription

    subscription = run(main())
    assert subscription.closed and rest(subscription) == []


def test_close_ends_a_coroutine_that_waits(engine: Engine) -> None:
    async def main() -> list[int]:
        subscription = subscribe(engine)
        task = asyncio.create_task(collected(subscription, 1))
        await asyncio.sleep(0)
        subscription.close()
        return await task

    assert run(main()) == []


def test_close_drops_what_is_on_its_way_to_a_coroutine(engine: Engine) -> None:
    async def main() -> list[int]:
        subscription = subscribe(engine, after=0)
        await collected(subscription, 1)
        while len(subscription._crossing._items) < 2:
            await asyncio.sleep(0.001)
        subscription.close()
        return await collected(subscription, 1)

    append(engine, 1, 2, 3)
    assert run(main()) == []


def test_loop_that_was_closed_harms_nobody_and_another_goes_on(engine: Engine) -> None:
    append(engine, *range(CROSSING_ITEMS * 3))
    subscription = subscribe(engine, after=0)
    loop = asyncio.new_event_loop()
    first = outcome_of(lambda: loop.run_until_complete(collected(subscription, 2)))
    loop.close()
    append(engine, 0)
    engine.close()
    assert first + run(collected(subscription, 999)) == list(range(1, CROSSING_ITEMS * 3 + 2))
    assert threads_named("durasess-crossing") == []


@pytest.mark.parametrize("room", [0, 1])
def test_thread_whose_loop_was_closed_ends_and_keeps_no_room(
    monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    monkeypatch.setattr("durasess.session.crossing._LOOK_EVERY_S", 0.001)
    crossing: Crossing[int] = Crossing(lambda: 1, threading.Event())
    crossing._loop = asyncio.new_event_loop()
    crossing._loop.close()
    crossing._room = threading.Semaphore(room)
    assert outcome_of(crossing._waits_for_room) is False
    assert crossing._room._value == room


def threads_named(name: str) -> list[threading.Thread]:
    """Those that are left after a moment."""
    found = [thread for thread in threading.enumerate() if thread.name == name]
    for thread in found:
        thread.join(LONG_S)
    return [thread for thread in found if thread.is_alive()]


def test_error_of_the_engine_is_raised_in_the_coroutine_once(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Engine, "follow", failing)

    async def main() -> list[int]:
        subscription = subscribe(engine)
        with pytest.raises(CorruptionError):
            await collected(subscription, 1)
        return await collected(subscription, 1)

    assert run(main()) == []


# Server-Sent Events


def test_delivery_as_server_sent_event_is_three_lines_and_an_empty_one(engine: Engine) -> None:
    engine.append("note", {"text": "a\nb\r\u2028\ud800é"}, run_id="r1")
    with subscribe(engine, after=0) as subscription:
        [found] = some(subscription, 1)
    lines = found.sse().splitlines()
    assert lines[:2] == ["id: 1", "event: note"] and lines[3:] == [""]
    assert json.loads(lines[2].removeprefix("data: ")) == {
        "seq": 1,
        "ts": found.event.ts,
        "type": "note",
        "run_id": "r1",
        "call_id": None,
        "replayed": True,
        "data": {"text": "a\nb\r\u2028\ud800é"},
    }


def test_type_with_a_line_break_begins_no_field_of_its_own(engine: Engine) -> None:
    engine.append("a\ndata: b\r\nid: 9é", None)
    with subscribe(engine, after=0) as subscription:
        [found] = some(subscription, 1)
    assert found.sse().splitlines()[:2] == ["id: 1", "event: a data: b id: 9\\xe9"]


def test_subscription_that_was_dropped_is_collected(engine: Engine) -> None:
    append(engine, 1)
    subscription = subscribe(engine, after=0)
    some(subscription, 1)
    feeds = engine._writer.feeds  # type: ignore[union-attr]
    del subscription
    gc.collect()
    assert feeds._feeds == ()
