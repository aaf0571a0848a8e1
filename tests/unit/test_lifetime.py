"""At exit what was handed over is written; a forked child's handle is dead and harms nobody."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from durasess import SessionClosedError, SessionLockedError, StorageError
from durasess.engine import lifetime
from tests.support.sessions import PATIENCE_S, open_session, state_of

ROOT = Path(__file__).resolve().parents[2]


def run_program(code, *arguments):
    """A program of its own that may import the tests' helpers; it must end by itself."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=6 * PATIENCE_S,
        check=False,
    )


class Handle:
    """What lifetime needs of an engine."""

    path = "p"

    def __init__(self, error=None):
        self.error = error
        self.calls = []

    def close(self):
        self.calls.append("close")
        if self.error is not None:
            raise self.error

    def forget(self):
        self.calls.append("forget")


@pytest.fixture(autouse=True)
def only_these(monkeypatch):
    """Handles of other tests stay out of it."""
    monkeypatch.setattr(lifetime, "_LIVE", type(lifetime._LIVE)())


# add, discard


def test_handle_that_was_discarded_is_not_closed_at_exit():
    kept, gone = Handle(), Handle()
    lifetime.add(kept)
    lifetime.add(gone)
    lifetime.discard(gone)
    lifetime._close_all()
    assert (kept.calls, gone.calls) == (["close"], [])


def test_handle_that_nobody_holds_is_forgotten():
    lifetime.add(Handle())
    assert list(lifetime._LIVE) == []


# at exit


def test_one_handle_that_cannot_be_closed_does_not_keep_the_others_open(caplog):
    handles = [Handle(StorageError("no room")), Handle(), Handle(StorageError("no room"))]
    for handle in handles:
        lifetime.add(handle)
    lifetime._close_all()
    assert [handle.calls for handle in handles] == [["close"]] * 3
    assert "no room" in caplog.text


def test_open_handle_is_drained_and_sealed_at_exit(tmp_path):
    done = run_program(
        """
        import sys
        from tests.support.sessions import open_session
        engine = open_session(sys.argv[1])
        for n in range(20):
            engine.append("counted", n, durable=False)
        """,
        tmp_path / "s1",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert state_of(tmp_path / "s1") == list(range(20))
    with open_session(tmp_path / "s1") as engine:
        assert engine.recovery.clean


def test_exit_by_an_exception_closes_too(tmp_path):
    done = run_program(
        """
        import sys
        from tests.support.sessions import open_session
        engine = open_session(sys.argv[1])
        engine.append("counted", 1)
        raise SystemExit(3)
        """,
        tmp_path / "s1",
    )
    assert (done.returncode, done.stderr) == (3, "")
    with open_session(tmp_path / "s1") as engine:
        assert engine.recovery.clean


# fork


def in_child(work):
    """What `work` returns in a forked child, as text, without the parent's end of life."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(writer, str(work()).encode())
        except BaseException as error:
            os.write(writer, type(error).__name__.encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as source:
        text = source.read()
    os.waitpid(pid, 0)
    return text


def test_child_forgets_every_handle_and_closes_none_at_its_exit():
    handles = [Handle(), Handle()]
    for handle in handles:
        lifetime.add(handle)
    lifetime._forget_in_child()
    lifetime._close_all()
    assert [handle.calls for handle in handles] == [["forget"]] * 2


@pytest.mark.parametrize("call", ["append", "flush", "snapshot", "rotate", "prune"])
def test_handle_is_dead_in_a_forked_child(tmp_path, call, monkeypatch):
    monkeypatch.undo()
    arguments = ("counted", 2) if call == "append" else ()
    with open_session(tmp_path / "s1") as engine:
        engine.append("counted", 1)
        assert in_child(lambda: getattr(engine, call)(*arguments)) == SessionClosedError.__name__
        assert in_child(engine.close) == "None"
        assert engine.append("counted", 2).seq == 2


def test_child_does_not_take_the_lock_from_the_parent(tmp_path, monkeypatch):
    monkeypatch.undo()
    with open_session(tmp_path / "s1") as engine:
        in_child(lambda: None)
        opened = in_child(lambda: open_session(tmp_path / "s1"))
        assert opened == SessionLockedError.__name__
        engine.append("counted", 1)


def test_living_child_does_not_keep_the_lock(tmp_path, monkeypatch):
    monkeypatch.undo()
    engine = open_session(tmp_path / "s1")
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(writer)
        os.read(reader, 1)
        os._exit(0)
    engine.close()
    open_session(tmp_path / "s1").close()
    os.close(writer)
    os.waitpid(pid, 0)
    os.close(reader)


def test_child_that_exits_normally_does_not_close_the_parents_session(tmp_path):
    done = run_program(
        """
        import os, sys, warnings
        from tests.support.sessions import open_session
        engine = open_session(sys.argv[1])
        engine.append("counted", 1)
        warnings.simplefilter("ignore")  # since 3.12 fork warns of threads, and there are
        pid = os.fork()
        if pid == 0:
            sys.exit(0)
        os.waitpid(pid, 0)
        engine.append("counted", 2)
        engine.close()
        """,
        tmp_path / "s1",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert state_of(tmp_path / "s1") == [1, 2]
