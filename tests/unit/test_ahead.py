"""The next segment is made ready while one is decoded: the same events, no thread that stays."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from durasess import CorruptionError, Event
from durasess.engine import ahead, files, history, sealed
from durasess.engine.files import RealFiles
from durasess.engine.fold import Fold
from tests.support.sessions import (
    claims_of,
    collect,
    flip_bit,
    make_segments,
    open_descriptors,
    open_inline,
    segment_path,
)

SEGMENTS = 8
EVENTS = list(range(1, 2 * SEGMENTS + 1))
FOLD = Fold(initial=list, apply=collect)
NAME = "durasess-reading-ahead"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Small segments that count as large ones, two events in each; a thread always pays."""
    monkeypatch.setattr(ahead, "_LEAST_BYTES", 1)
    monkeypatch.setattr(ahead, "_ALONE", 0)
    return make_segments(tmp_path / "s1", SEGMENTS)


def events(path: str, after: int = 0) -> Iterator[Event]:
    return history.events(
        RealFiles(), claims_of(path), FOLD, after=after, through=EVENTS[-1], on_damage=None
    )


def data(path: str, after: int = 0) -> list[Any]:
    return [event.data for event in events(path, after)]


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == NAME]


def wait_for_threads() -> None:
    for thread in threads():
        thread.join()


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the segments that a thread was started for."""
    found = []
    honest = ahead._Job.start

    def start(job: Any) -> None:
        found.append(job._stored.number if job._stored else 0)
        honest(job)

    monkeypatch.setattr(ahead._Job, "start", start)
    return found


@pytest.mark.parametrize("after", [0, 5, 14])
def test_the_same_events_come(path: str, started: list[int], after: int) -> None:
    assert data(path, after) == EVENTS[after:]
    assert started == list(range(after // 2 + 2, SEGMENTS + 1))
    assert threads() == []
    assert open_descriptors(path) == []


def test_compressed_segments_come_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "_LEAST_BYTES", 1)
    engine = open_inline(tmp_path / "s1")
    for n in EVENTS:
        engine.append("counted", n)
        engine.snapshot()
    engine.close()
    assert segment_path(tmp_path / "s1").with_suffix(".jsonl.zst").exists()
    assert data(str(tmp_path / "s1")) == EVENTS


def test_a_small_history_starts_no_thread(
    path: str, started: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ahead, "_LEAST_BYTES", 1 << 20)
    assert data(path) == EVENTS
    assert started == []


def test_no_thread_stays_behind_a_reader_that_went_away(path: str) -> None:
    reading = events(path)
    next(reading)
    reading.close()
    wait_for_threads()
    reading = events(path)
    next(reading)
    del reading
    wait_for_threads()
    assert threads() == []
    assert open_descriptors(path) == []


def test_where_no_thread_can_be_had_the_reader_does_it(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for error in (RuntimeError("can't start new thread"), MemoryError()):

        def refused(thread: Any, error: Exception = error) -> None:
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refused)
            assert data(path) == EVENTS


def test_what_goes_wrong_in_the_thread_is_raised_at_its_place(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = sealed.unpacked

    def short_of_memory(found: sealed.Stored, content: bytes) -> Any:
        if found.number == 3:
            raise MemoryError("told to")
        return honest(found, content)

    monkeypatch.setattr(sealed, "unpacked", short_of_memory)
    reading = events(path)
    assert [next(reading).data for _ in range(4)] == EVENTS[:4]
    with pytest.raises(MemoryError, match="told to"):
        next(reading)


def test_damage_is_raised_at_its_place(path: str) -> None:
    flip_bit(segment_path(path, 3), 300)
    reading = events(path)
    assert [next(reading).data for _ in range(4)] == EVENTS[:4]
    with pytest.raises(CorruptionError) as caught:
        next(reading)
    assert caught.value.path == str(segment_path(path, 3))


def test_an_interrupted_reader_leaves_nothing_and_can_begin_again(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(thread: Any, timeout: float | None = None) -> None:
        raise KeyboardInterrupt

    reading = events(path)
    next(reading)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "join", interrupted)
        with pytest.raises(KeyboardInterrupt):
            list(reading)
    wait_for_threads()
    assert open_descriptors(path) == []
    assert data(path) == EVENTS


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_goes_on_without_the_thread(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The child has the job and not its thread, which may have been anywhere."""
    may_go = threading.Event()
    honest = sealed.content_of
    parent = os.getpid()

    def held(found: sealed.Stored) -> bytes:
        if found.number == 3 and os.getpid() == parent:
            may_go.wait()
        return honest(found)

    monkeypatch.setattr(sealed, "content_of", held)
    monkeypatch.setattr(ahead._Job, "meet", lambda job: None)
    reading = events(path)
    next(reading), next(reading), next(reading)
    monkeypatch.undo()
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if [event.data for event in reading] == EVENTS[3:] else 1)
        finally:
            os._exit(2)
    may_go.set()
    assert os.waitpid(child, 0)[1] == 0
    assert [event.data for event in reading] == EVENTS[3:]


def test_half_way_is_not_waited_for_without_a_thread(path: str) -> None:
    job = ahead._Job(sealed.stored(RealFiles(), path, 1))
    job.meet()
    job.start()
    assert job.thread is not None
    job.thread.join()
    job._is_half_way.clear()
    job.meet()


def test_half_way_is_waited_for_while_the_thread_is_at_its_first_step(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go = threading.Event()
    honest = sealed.content_of

    def held(found: sealed.Stored) -> bytes:
        may_go.wait()
        return honest(found)

    monkeypatch.setattr(sealed, "content_of", held)
    job = ahead._Job(sealed.stored(RealFiles(), path, 1))
    job.start()
    wait = job._is_half_way.wait

    def let_go() -> None:
        may_go.set()
        wait()

    monkeypatch.setattr(job._is_half_way, "wait", let_go)
    job.meet()
    assert may_go.is_set() and job._is_half_way.is_set()
    found = job.result()
    assert found is not None and found.number == 1


def test_a_program_that_ends_in_the_middle_of_a_history_ends(tmp_path: Path) -> None:
    path = make_segments(tmp_path / "s1", SEGMENTS)
    program = (
        "import sys\n"
        "from durasess import Engine\n"
        "from durasess.engine import ahead\n"
        "ahead._LEAST_BYTES = 1\n"
        "reading = Engine.open(sys.argv[1], initial=list, mode='read').events()\n"
        "print(next(reading).seq)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, path], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")


def test_a_thread_that_does_not_pay_is_not_started_for_a_while(
    path: str, started: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ahead, "_ALONE", 3)
    ticks = iter(range(10_000))
    # Each look at the clock is a second later, and a thread takes more looks.
    monkeypatch.setattr(files, "stopwatch", lambda: float(next(ticks)))
    assert data(path) == EVENTS
    assert started == [2, 6]


def test_a_thread_that_does_as_well_is_started_for_each_segment(
    path: str, started: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ahead, "_ALONE", 3)
    # A clock that stands: nobody waits longer with a thread than without.
    monkeypatch.setattr(files, "stopwatch", lambda: 0.0)
    assert data(path) == EVENTS
    assert started == list(range(2, SEGMENTS + 1))
