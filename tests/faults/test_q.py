"""FAULTS Q: interrupts, exits, signals, the number of syncs."""

import gc
import os
import signal
import sys
import threading

import pytest

from durasess import DurasessError, EventRejectedError
from tests.support.sessions import (
    PATIENCE_S,
    open_inline,
    open_session,
    open_sim,
    outcome_of,
    sim_disk,
    state_of,
)


def interrupted_at(step, work):
    """Run `work` and raise KeyboardInterrupt at its `step`-th line inside the engine; whether it
    got that far."""
    seen = 0

    def trace(frame, event, _argument):
        nonlocal seen
        if "/durasess/engine/" not in frame.f_code.co_filename:
            return None
        if event == "line":
            seen += 1
            if seen == step:
                raise KeyboardInterrupt
        return trace

    previous = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    except (KeyboardInterrupt, DurasessError):
        pass
    finally:
        sys.settrace(previous)
    return seen >= step


@pytest.fixture
def nothing_is_collected():
    """A handle of another test that is collected in between is not what is interrupted here."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def after_an_interrupt(step, work):
    """A session with event 1, `work` interrupted; the state that the next open finds, or None when
    the work has fewer steps."""
    files = sim_disk()
    engine = open_sim(files, snapshot_every=1_000_000)
    engine.append("t", 1)
    reached = interrupted_at(step, lambda: work(engine))
    acknowledged = list(engine.state)
    files.die()
    engine._closed = True
    with open_sim(files, snapshot_every=1_000_000) as again:
        assert again.damage == ()
        assert again.state[: len(acknowledged)] == acknowledged
        return again.state if reached else None


WORK = {
    "append": lambda engine: engine.append("t", 2),
    "batch": lambda engine: engine.append_many([("t", 2), ("t", 3)]),
    "rotate": lambda engine: engine.rotate(),
    "snapshot": lambda engine: engine.snapshot(),
    "close": lambda engine: engine.close(),
}
OUTCOMES = {"append": ([1], [1, 2]), "batch": ([1], [1, 2, 3])}


@pytest.mark.usefixtures("nothing_is_collected")
@pytest.mark.parametrize("name", WORK)
def test_q1_interrupt_at_each_line_leaves_the_state_before_or_after(name):
    step = 1
    while (state := after_an_interrupt(step, WORK[name])) is not None:
        assert state in OUTCOMES.get(name, ([1],))
        step += 3
    assert step > 30


def test_q1_interrupt_of_a_waiting_caller_does_not_reach_the_commit(tmp_path):
    class Waiting(threading.Event):
        pass

    entered, go_on = Waiting(), Waiting()

    def slow(state, event):
        entered.set()
        go_on.wait(PATIENCE_S)
        state.append(event.data)

    previous = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with open_session(tmp_path / "s1", apply=slow) as engine:
            killer = threading.Thread(target=lambda: (entered.wait(PATIENCE_S), send_signal()))
            killer.start()
            with pytest.raises(KeyboardInterrupt) as caught:
                engine.append("t", 1, event_id="e")
            go_on.set()
            killer.join()
            assert "outcome of this call is unknown" in caught.value.__notes__[0]
            assert engine.append("t", 1, event_id="e").seq == 1
            assert engine.state == [1]
    finally:
        signal.signal(signal.SIGUSR1, previous)


def interrupt(_number, _frame):
    raise KeyboardInterrupt


def send_signal():
    signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)


def child_that(work):
    """Run `work` in a forked child that ends there; its exit code."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(9)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize("durable", [True, False])
def test_q2_exit_right_after_an_append_keeps_it(tmp_path, durable):
    def work():
        engine = open_session(tmp_path / "s1")
        for n in range(5):
            engine.append("t", n, durable=durable)
        os._exit(0)

    assert child_that(work) == 0
    assert state_of(tmp_path / "s1") == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("many", [False, True])
def test_q4_syncs_are_one_for_each_durable_append_and_one_for_a_batch(many):
    files = sim_disk()
    with open_sim(files) as engine:
        engine.append("t", 0)
        since = len(files.log)
        if many:
            engine.append_many([("t", n) for n in range(30)])
        else:
            for n in range(30):
                engine.append("t", n)
        syncs = [op for op in files.log[since:] if op.kind in ("sync", "sync_dir")]
        assert len(syncs) == (1 if many else 30)


def test_q4_64_tasks_share_syncs(tmp_path):
    import asyncio

    from durasess.engine.files import RealFiles

    class Counting(RealFiles):
        syncs = 0

        def sync(self, fd):
            self.syncs += 1
            super().sync(fd)

    files = Counting()

    async def main(engine):
        await asyncio.gather(*(engine.append_async("t", n) for n in range(64)))

    with open_session(str(tmp_path / "s1"), files=files) as engine:
        engine.append("t", 0)
        before = files.syncs
        asyncio.run(main(engine))
        assert files.syncs - before < 64
        assert engine.last_seq == 65


@pytest.mark.parametrize("pause", [0.0, 0.003, 0.02])
def test_q7_sigterm_and_then_sigkill_leave_a_torn_tail_at_most(tmp_path, pause):
    import time

    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
            engine = open_session(tmp_path / "s1")
            engine.append("t", 0)
            os.write(writer, b"x")
            n = 1
            while True:
                engine.append("t", n)
                n += 1
        finally:
            engine.close()
            os._exit(0)
    os.read(reader, 1)
    os.close(reader)
    os.close(writer)
    os.kill(pid, signal.SIGTERM)
    time.sleep(pause)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    with open_inline(tmp_path / "s1") as engine:
        assert engine.damage == ()
        assert engine.state == list(range(engine.last_seq))


@pytest.mark.parametrize(
    ("hook", "call"),
    [
        ("apply", "append"),
        ("apply", "close"),
        ("apply", "flush"),
        ("apply", "snapshot"),
        ("validate", "append"),
        ("summary", "append"),
    ],
)
def test_call_of_the_handle_from_inside_a_hook_is_refused_not_a_deadlock(tmp_path, hook, call):
    engine = None
    met = []

    def reenter(*_arguments):
        if engine is not None:
            arguments = ("t", "inner") if call == "append" else ()
            with pytest.raises(EventRejectedError, match="cannot use the handle") as caught:
                getattr(engine, call)(*arguments)
            met.append(caught.value)

    engine = open_session(tmp_path / "s1", **{hook: reenter})
    try:
        outcome_of(lambda: engine.append("t", 1))
        outcome_of(engine.close)
        assert met
        assert [event.data for event in engine.events()] == [1]
    finally:
        engine.forget()
