"""The life of a handle: whatever ends it, everything is let go of and nobody waits for ever."""

import asyncio
import errno
import gc
import os
import threading
import warnings

import msgspec
import pytest

from durasess import (
    Engine,
    EventRejectedError,
    FencedError,
    SessionClosedError,
    SessionLockedError,
    StorageError,
)
from durasess.engine import lifetime, lock, workers
from durasess.engine.files import RealFiles
from durasess.engine.scheduler import InlineScheduler, ThreadScheduler
from tests.support.sessions import (
    PATIENCE_S,
    SIM_PATH,
    append_all,
    open_descriptors,
    open_inline,
    open_session,
    open_sim,
    outcome_of,
    sim_disk,
    state_of,
)

WRITING = ["own", "shared"]


@pytest.fixture
def files():
    return sim_disk()


def is_free(files):
    """Whether anybody may own the session now."""
    open_sim(files).close()
    return files.descriptors == {}


# start_writing


@pytest.mark.parametrize("mode", WRITING)
def test_open_runs_in_the_committer(tmp_path, mode):
    seen = []

    def initial():
        seen.append(threading.current_thread())
        return []

    scheduler = ThreadScheduler("committer-of-it")
    with open_session(tmp_path / "s1", mode=mode, initial=initial, scheduler=scheduler):
        assert {thread.name for thread in seen} == {"committer-of-it"}


@pytest.mark.parametrize("mode", WRITING)
def test_refused_open_ends_its_committer(tmp_path, mode):
    before = threading.active_count()
    with open_session(tmp_path / "s1"), pytest.raises(SessionLockedError):
        open_session(tmp_path / "s1", mode=mode)
    assert threading.active_count() == before


@pytest.mark.parametrize("mode", WRITING)
def test_open_whose_caller_was_interrupted_gives_everything_back(files, mode):
    class Interrupted(InlineScheduler):
        def submit(self, ticket):
            super().submit(ticket)
            if not self.seen:
                self.seen = True
                raise KeyboardInterrupt

        seen = False

    with pytest.raises(KeyboardInterrupt) as caught:
        open_sim(files, mode=mode, scheduler=Interrupted())
    assert caught.value.__notes__
    assert files.descriptors == {}
    gc.collect()
    assert is_free(files)


@pytest.mark.parametrize("mode", WRITING)
def test_open_that_is_withdrawn_before_it_began_opens_nothing(files, mode):
    class Never(InlineScheduler):
        def submit(self, ticket):
            if not self.kept:
                self.kept.append(ticket)
                raise KeyboardInterrupt
            super().submit(ticket)

        def stop(self, *, wait=True):
            super().submit(self.kept[0])

        def __init__(self):
            super().__init__()
            self.kept = []

    with pytest.raises(KeyboardInterrupt):
        open_sim(files, mode=mode, scheduler=Never())
    assert files.descriptors == {}
    assert SIM_PATH not in files.tree()


# close


@pytest.mark.parametrize("mode", ["own", "shared", "read"])
def test_context_manager_closes_whatever_happens_inside(tmp_path, mode):
    open_session(tmp_path / "s1").close()
    with pytest.raises(ValueError, match="inside"), open_session(tmp_path / "s1", mode=mode):
        raise ValueError("inside")
    assert open_descriptors(tmp_path) == []
    open_session(tmp_path / "s1").close()


@pytest.mark.parametrize("mode", WRITING)
def test_close_again_does_nothing_and_abandon_behind_it_neither(files, mode):
    engine = open_sim(files, mode=mode)
    engine.append("t", 1)
    engine.close()
    before = files.tree()
    engine.close()
    engine.abandon()
    assert files.tree() == before


def test_reader_that_was_closed_shows_what_it_has(tmp_path):
    with open_session(tmp_path / "s1") as engine:
        append_all(engine, 2)
    reader = open_session(tmp_path / "s1", mode="read")
    reader.abandon()
    reader.close()
    reader.close()
    assert (reader.state, reader.last_seq) == ([1, 2], 2)


@pytest.mark.parametrize("mode", WRITING)
def test_snapshot_that_fails_at_close_is_told_to_the_log_and_the_session_let_go(
    files, mode, caplog
):
    engine = open_sim(files, mode=mode)
    engine.append("t", 1)
    files.fail("write_at", where=".tmp", code=errno.ENOSPC)
    engine.close()
    assert "no snapshot at close" in caplog.text
    assert is_free(files)


@pytest.mark.parametrize("mode", WRITING)
def test_snapshot_under_way_that_fails_while_the_handle_closes_is_waited_for(files, mode, caplog):
    engine = open_sim(files, mode=mode, snapshot_every=1)
    engine.append("t", 1)
    files.fail("write_at", where=".tmp", code=errno.ENOSPC)
    engine.abandon()
    assert "could not be made" in caplog.text
    assert is_free(files)


@pytest.mark.parametrize("mode", WRITING)
@pytest.mark.parametrize("kind", ["write_at", "sync"])
def test_error_while_closing_comes_after_everything_was_let_go_of(files, mode, kind):
    """A failed sync is known before, from the snapshot that did not come about; every event that
    was acknowledged is durable all the same."""
    engine = open_sim(files, mode=mode)
    engine.append("t", 1)
    files.fail(kind, where="events_0001.jsonl", sticky=True)
    error = outcome_of(engine.close)
    assert isinstance(error, StorageError) == (kind == "write_at")
    files.faults.clear()
    assert files.descriptors == {}
    with pytest.raises(SessionClosedError):
        engine.append("t", 2)
    engine.close()
    assert is_free(files)


@pytest.mark.parametrize("kind", ["lock", "write_at"])
def test_close_that_the_system_gives_no_turn_lets_go_all_the_same(files, kind):
    """A full disk must not keep the session from others."""
    engine = open_sim(files, mode="shared")
    engine.append("t", 1)
    files.fail(kind, where="/lock", sticky=True, code=errno.ENOSPC)
    outcome_of(engine.close)
    files.faults.clear()
    assert files.descriptors == {}
    with open_sim(files, mode="shared") as again:
        assert again.state == [1]


@pytest.mark.parametrize("mode", WRITING)
def test_interrupted_close_leaves_a_handle_that_goes_on_and_can_be_closed(files, mode):
    class Interrupting(InlineScheduler):
        when = None

        def wait(self, ticket):
            if self.when is not None:
                self.when = None
                raise KeyboardInterrupt
            return super().wait(ticket)

    scheduler = Interrupting()
    engine = open_sim(files, mode=mode, scheduler=scheduler)
    engine.append("t", 1)
    scheduler.when = "at close"
    with pytest.raises(KeyboardInterrupt):
        engine.close()
    assert engine.append("t", 2).seq == 2
    engine.close()
    assert is_free(files)


@pytest.mark.parametrize("mode", WRITING)
def test_close_while_another_thread_closes_is_no_error(tmp_path, mode):
    engine = open_session(tmp_path / "s1", mode=mode)
    engine.append("t", 1)
    real = engine._last_snapshot
    outcomes = []

    def meanwhile(writer):
        engine._last_snapshot = real
        outcomes.append(outcome_of(engine.close))
        return real(writer)

    engine._last_snapshot = meanwhile
    assert outcome_of(engine.close) is None
    assert not isinstance(outcomes[0], AssertionError)
    assert open_descriptors(tmp_path) == []


@pytest.mark.parametrize("mode", WRITING)
def test_append_is_refused_while_the_handle_closes(files, mode):
    refused = []

    class During(InlineScheduler):
        def wait(self, ticket):
            refused.append(outcome_of(lambda: engine.append("t", 2)))
            return super().wait(ticket)

    engine = open_sim(files, mode=mode, scheduler=During())
    engine.append("t", 1)
    engine.close()
    assert [type(one) for one in refused] == [SessionClosedError]
    assert open_sim(files, mode="read").state == [1]


def test_close_that_waits_too_long_for_its_turn_leaves_a_handle_that_goes_on(tmp_path):
    engine = open_session(tmp_path / "s1", mode="shared")
    append_all(engine, 1)
    engine._options = msgspec.structs.replace(engine._options, lock_timeout=0.02)
    held = lock.acquire_turn(RealFiles(), engine.path, wait_s=1)
    for _ in range(2):
        with pytest.raises(SessionLockedError, match="another writer has held lock"):
            engine.close()
    engine._options = msgspec.structs.replace(engine._options, lock_timeout=60 * PATIENCE_S)
    RealFiles().close(held)
    assert engine.append("counted", 2).seq == 2
    engine.close()
    assert state_of(tmp_path / "s1") == [1, 2]


# Hooks


@pytest.mark.parametrize("mode", WRITING)
@pytest.mark.parametrize("hook", ["apply", "validate", "summary"])
def test_hook_that_uses_the_handle_is_refused_and_does_not_wait_for_itself(tmp_path, mode, hook):
    seen = []

    def use(*_given):
        if engines and not seen:
            seen.append(outcome_here(lambda: engines[0].append("t", "from inside")))

    engines = []
    with open_session(tmp_path / "s1", mode=mode, **{hook: use}) as engine:
        engines.append(engine)
        assert engine.append("t", 1).seq == 1
    assert [type(one) for one in seen] == [EventRejectedError]


def outcome_here(work):
    try:
        return work()
    except Exception as error:
        return error


# Coroutines


@pytest.mark.parametrize("mode", WRITING)
def test_coroutine_on_a_closed_handle_is_refused(tmp_path, mode):
    engine = open_session(tmp_path / "s1", mode=mode)
    engine.close()
    with pytest.raises(SessionClosedError):
        asyncio.run(engine.append_async("t", 1))


# __del__ and forget


@pytest.mark.parametrize("mode", WRITING)
def test_handle_that_nobody_has_any_more_warns_and_lets_go(files, mode):
    gc.collect()
    engine = open_sim(files, mode=mode)
    engine.append("t", 1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del engine
        gc.collect()
    assert [one.category for one in caught if SIM_PATH in str(one.message)] == [ResourceWarning]
    assert files.descriptors == {}
    with open_sim(files, mode=mode) as again:
        assert again.state == [1]


def test_handle_that_nobody_has_any_more_lets_go_even_without_a_turn(files):
    engine = open_sim(files, mode="shared")
    engine.append("t", 1)
    files.fail("lock", where="/lock", sticky=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        del engine
        gc.collect()
    files.faults.clear()
    assert files.descriptors == {}


def test_handle_that_was_never_made_is_dropped_in_silence():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Engine.__new__(Engine).__del__()


def test_warning_that_is_an_error_does_not_keep_the_handle(files):
    engine = open_sim(files)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ResourceWarning):
            engine.__del__()
    assert files.descriptors == {}
    engine._closed = True
    lifetime.discard(engine)


@pytest.mark.parametrize("mode", ["own", "shared", "read"])
def test_forked_process_has_a_dead_handle_and_its_parent_a_living_one(tmp_path, mode):
    open_session(tmp_path / "s1").close()
    with open_session(tmp_path / "s1", mode=mode) as engine:
        if mode == "read":
            engine.forget()
            assert engine.state == []
            return
        engine.append("t", 1)
        pid = os.fork()
        if pid == 0:
            refused = outcome_here(lambda: engine.append("t", 2))
            os._exit(0 if isinstance(refused, SessionClosedError) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert engine.append("t", 2).seq == 2
        seen = workers.look(RealFiles(), engine.path)
        assert [one.alive for one in seen] == ([True] if mode == "shared" else [])


@pytest.mark.parametrize("mode", WRITING)
def test_fork_while_somebody_follows_does_not_hang_the_child(tmp_path, mode):
    """Whatever locks the parent's threads have in that moment, nobody gives them back there."""
    with open_session(tmp_path / "s1", mode=mode) as engine:
        feed = engine._writer.feeds.open()
        with feed._arrived._cond:
            pid = os.fork()
            if pid == 0:
                os._exit(0)
        ended = outcome_of(lambda: os.waitpid(pid, 0)) if is_over(pid) else None
        assert ended is not None, "the child hangs"
        engine._writer.feeds.close(feed)


def is_over(pid):
    """Whether a child that has nothing to do ends; one that does not is killed."""
    watcher = threading.Timer(PATIENCE_S, os.kill, [pid, 9])
    watcher.start()
    status = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    watcher.cancel()
    return status.si_code == os.CLD_EXITED


# What is raised again and again


def test_every_call_of_a_fenced_handle_gets_an_error_of_its_own(tmp_path):
    engine = open_inline(tmp_path / "s1", mode="shared")
    engine.append("t", 1)
    (tmp_path / "s1" / "lock").unlink()
    raised = [outcome_here(lambda: engine.append("t", 2)) for _ in range(3)]
    assert [type(one) for one in raised] == [FencedError] * 3
    assert len({id(one) for one in raised}) == 3
    engine.close()


def test_reader_refuses_what_changes_and_says_how_to_open(tmp_path):
    open_session(tmp_path / "s1").close()
    reader = open_session(tmp_path / "s1", mode="read")
    with pytest.raises(StorageError, match='open it with mode="own"'):
        asyncio.run(reader.append_async("t", 1))
