"""A watch for signals: the session is saved, then the signal takes its course. Real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from durasess.engine.engine import Engine
from durasess.session.signals import SignalWatch
from tests.support.sessions import PATIENCE_S

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")

ROOT = Path(__file__).parents[2]
LONG_S = PATIENCE_S * 4

BEGIN = """
import os, select, signal, sys, threading, time
from durasess.session.signals import SignalWatch
# Under nohup it is ignored, and children inherit that.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
def say(text):
    os.write(1, text.encode() + b"\\n")
def save():
    say("saved")
def wait():
    say("ready")
    while not select.select([0], [], [], 0.01)[0]:
        pass
    os.read(0, 1)
    say("went on")
"""
"""`wait` ends when a line comes, so a test decides what happens before what, not a clock. It looks
again and again: a signal that comes just before a thread begins to wait does not wake it."""


class Program:
    """A process that runs these lines."""

    def __init__(self, lines: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", BEGIN + textwrap.dedent(lines)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        self.patience = threading.Timer(LONG_S, self.process.kill)
        self.patience.start()

    def read(self) -> str:
        """The next line that it writes."""
        return _of(self.process.stdout).readline().rstrip("\n")

    def reads(self, *lines: str) -> None:
        """The next lines that it writes are these."""
        for line in lines:
            assert self.read() == line

    def send(self, signum: int) -> None:
        self.process.send_signal(signum)

    def go_on(self) -> None:
        print(file=_of(self.process.stdin), flush=True)

    def ends(self) -> int:
        """Its exit status; below 0 the signal that it died of."""
        return self.process.wait(LONG_S)

    def errors(self) -> str:
        return _of(self.process.stderr).read()


def _of(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


@pytest.fixture
def programs() -> Iterator[list[Program]]:
    running: list[Program] = []
    yield running
    for one in running:
        one.patience.cancel()
        one.process.kill()
        one.process.communicate()


@pytest.fixture
def program(programs: list[Program], request: pytest.FixtureRequest) -> Program:
    programs.append(Program(request.param))
    return programs[-1]


def lines(text: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("program", [text], indirect=True, ids=["program"])


# Nobody handled the signal before


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP])
@lines("SignalWatch(save).start(); wait()")
def test_program_is_saved_and_dies_of_the_signal(program: Program, signum: int) -> None:
    program.reads("ready")
    program.send(signum)
    program.reads("saved")
    assert program.ends() == -signum and program.errors() == ""


@lines("SignalWatch(lambda: 1 / 0).start(); wait()")
def test_save_that_raises_is_logged_and_the_program_dies_all_the_same(program: Program) -> None:
    program.reads("ready")
    program.send(signal.SIGTERM)
    assert program.ends() == -signal.SIGTERM and "ZeroDivisionError" in program.errors()


@lines("SignalWatch(threading.Event().wait, limit_s=0.01).start(); wait()")
def test_save_that_never_returns_is_ended_by_its_limit(program: Program) -> None:
    program.reads("ready")
    program.send(signal.SIGTERM)
    assert program.ends() == -signal.SIGTERM and "0.01 seconds" in program.errors()


@lines(
    """
    def save():
        say("saving")
        threading.Event().wait()
    SignalWatch(save, limit_s=10**6).start(); wait()
    """
)
def test_second_signal_ends_the_program_at_once(program: Program) -> None:
    program.reads("ready")
    program.send(signal.SIGTERM)
    program.reads("saving")
    program.send(signal.SIGHUP)
    assert program.ends() == -signal.SIGHUP


@lines(
    """
    go_on = threading.Event()
    def save():
        go_on.wait()
        say("saved")
    watch = SignalWatch(save, limit_s=10**6).start()
    wait()
    say(f"{watch.requested.wait()} {watch.signum}")
    go_on.set()
    wait()
    """
)
def test_program_goes_on_until_it_is_saved(program: Program) -> None:
    program.reads("ready")
    program.send(signal.SIGTERM)
    program.go_on()
    program.reads("went on", f"True {int(signal.SIGTERM)}")
    assert program.ends() == -signal.SIGTERM


@lines(
    """
    with SignalWatch(save) as watch:
        watch._save = lambda: (say("saving"), sys.stdin.readline(), say("saved"))
        [watching] = [one for one in threading.enumerate() if one.name == "durasess-signals"]
        say("ready")
        while not watch.requested.is_set():
            time.sleep(0.001)
    say("closed")
    watching.join()
    say("joined")
    """
)
def test_program_that_closes_the_watch_ends_by_itself(program: Program) -> None:
    program.reads("ready")
    program.send(signal.SIGTERM)
    assert sorted(program.read() for _ in range(2)) == ["closed", "saving"]
    program.go_on()
    program.reads("saved", "joined")
    assert program.ends() == 0


@lines("SignalWatch(save).start(); signal.raise_signal(signal.SIGTERM); threading.Event().wait()")
def test_main_thread_that_waits_for_ever_is_reached(program: Program) -> None:
    program.reads("saved")
    assert program.ends() == -signal.SIGTERM


# Somebody handled it, or ignored it


@lines(
    """
    signal.signal(signal.SIGTERM, lambda signum, frame: (say(f"old {signum}"), sys.exit(3)))
    SignalWatch(lambda: None).start(); wait()
    """
)
def test_handler_of_before_is_called_and_may_end_the_program(program: Program) -> None:
    program.reads("ready")
    program.send(signal.SIGTERM)
    program.reads(f"old {int(signal.SIGTERM)}")
    assert program.ends() == 3


@lines(
    """
    saves = threading.Semaphore(0)
    signal.signal(signal.SIGHUP, lambda *_: say("old"))
    watch = SignalWatch(saves.release).start()
    for _ in range(2):
        say("ready")
        while not saves.acquire(timeout=0.01):
            pass
        while watch._is_saving:
            time.sleep(0.001)
    say("saved twice")
    """
)
def test_program_that_lives_on_is_saved_at_each_signal(program: Program) -> None:
    for _ in range(2):
        program.reads("ready")
        program.send(signal.SIGHUP)
        program.reads("old")
    program.reads("saved twice")
    assert program.ends() == 0


@lines(
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    watch = SignalWatch(save).start(); wait(); say(str(watch.requested.is_set()))
    """
)
def test_ignored_signal_stays_ignored(program: Program) -> None:
    program.reads("ready")
    program.send(signal.SIGHUP)
    program.go_on()
    program.reads("went on", "False")
    assert program.ends() == 0


@lines(
    """
    watch = SignalWatch(save).start()
    child = os.fork()
    if not child:
        signal.alarm(60)
        say(str(os.getpid()))
        while True:
            time.sleep(0.01)
    say(str(os.waitpid(child, 0)[1]))
    say(str(watch.requested.is_set()))
    """
)
def test_forked_child_dies_of_the_signal_as_before(program: Program) -> None:
    child = int(program.read())
    os.kill(child, signal.SIGTERM)
    program.reads(str(int(signal.SIGTERM)), "False")
    assert program.ends() == 0


# Installing and closing


@pytest.fixture
def before() -> Iterator[object]:
    found = signal.getsignal(signal.SIGTERM)
    yield found
    signal.signal(signal.SIGTERM, found)


def test_close_puts_the_previous_handler_back(before: object) -> None:
    with SignalWatch(lambda: None) as watch:
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before
    watch.close()


def test_close_leaves_a_handler_that_came_later(before: object) -> None:
    def later(*_: object) -> None:
        pass

    with SignalWatch(lambda: None):
        signal.signal(signal.SIGTERM, later)
    assert signal.getsignal(signal.SIGTERM) is later


def test_watch_that_was_closed_starts_again(before: object) -> None:
    saved = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: None)
    watch = SignalWatch(saved.set)
    for _ in range(2):
        with watch:
            signal.raise_signal(signal.SIGTERM)
            assert saved.wait(LONG_S)
        saved.clear()


@pytest.mark.parametrize("name", ["start", "close"])
def test_other_thread_than_the_main_one_is_refused(before: object, name: str) -> None:
    raised: list[BaseException] = []

    def try_it(watch: SignalWatch) -> None:
        try:
            getattr(watch, name)()
        except RuntimeError as error:
            raised.append(error)

    watch = SignalWatch(lambda: None)
    if name == "close":
        watch.start()
    thread = threading.Thread(target=try_it, args=(watch,), name="mine")
    thread.start()
    thread.join()
    watch.close()
    assert f"SignalWatch.{name}" in str(raised[0]) and "'mine'" in str(raised[0])


def test_session_has_its_snapshot_when_the_program_died(
    programs: list[Program], tmp_path: Path
) -> None:
    program = Program(
        f"""
        from durasess.engine.engine import Engine
        engine = Engine.open({str(tmp_path / "s1")!r})
        SignalWatch(lambda: (engine.flush(), engine.snapshot())).start()
        engine.append("n", 1)
        wait()
        """
    )
    programs.append(program)
    program.reads("ready")
    program.send(signal.SIGTERM)
    assert program.ends() == -signal.SIGTERM
    with Engine.open(tmp_path / "s1") as engine:
        assert (engine.recovery.snapshot_seq, engine.recovery.replayed) == (1, 0)
