"""The next sealed segment made ready while the one before it is decoded, in a thread beside that.

Its file is read in the caller's thread. What is left, decompressing and hashing, are two long calls
in which the interpreter lock is free; a thread for each segment makes them and ends. So there is
nothing to stop when the reader goes away, and a thread that cannot be had, or is not there after a
fork, costs only time: whoever needs the segment then does the work itself.
"""

from __future__ import annotations

import contextlib
import threading

from durasess.engine import files, sealed
from durasess.engine.types import LineError

_LEAST_BYTES = 256 * 1024
"""Behind a segment with less content nothing is read ahead: a thread costs as much."""

_ALONE = 4
"""Segments that are made ready without a thread when one did not pay, as on a busy machine."""


class Ahead:
    """The segments of a log one after the other, those up to number `last` one in advance."""

    def __init__(self, disk: files.Files, directory: str, last: int) -> None:
        self._disk = disk
        self._directory = directory
        self._last = last
        self._next: _Job | None = None
        self._alone = 0
        self._byte_s = 0.0

    def take(self, number: int) -> sealed.Unpacked | None:
        """Segment `number`, the one after that of the last call; None as sealed.py says."""
        job, self._next = self._next, None
        if job is None:
            job = self._job(number)
        found = job.result()
        if found is not None and len(found.content) >= _LEAST_BYTES:
            self._judge(job, len(found.content))
            if not self._alone and number < self._last:
                self._next = self._job(number + 1)
                self._next.start()
        return found

    def _judge(self, job: _Job, size: int) -> None:
        """Whether the caller waits longer for a thread than it takes to do the work itself."""
        if job.thread is None:
            self._byte_s = job.waited_s / size
            self._alone = max(0, self._alone - 1)
        elif job.waited_s > self._byte_s * size:
            self._alone = _ALONE

    def meet(self) -> None:
        """Let the thread take its second step: between the two calls it needs the interpreter for a
        moment, which whoever decodes does not let go of by itself."""
        if self._next is not None:
            self._next.meet()

    def _job(self, number: int) -> _Job:
        return _Job(sealed.stored(self._disk, self._directory, number))


class _Job:
    """One segment; `waited_s` is how long its caller was kept."""

    def __init__(self, stored: sealed.Stored | None) -> None:
        self.thread: threading.Thread | None = None
        self.waited_s = 0.0
        self._stored = stored
        self._found: list[sealed.Unpacked | None] = []
        self._is_half_way = threading.Event()

    def start(self) -> None:
        """Work beside the caller, if that can be had."""
        # Not a daemon: the interpreter's end waits for it, which is a matter of milliseconds.
        thread = threading.Thread(target=self._run, name="durasess-reading-ahead", daemon=False)
        begin = files.stopwatch()
        with contextlib.suppress(RuntimeError, MemoryError):
            thread.start()
            self.thread = thread
        self.waited_s += files.stopwatch() - begin

    def _run(self) -> None:
        # What goes wrong here goes wrong again, and is raised, in the thread that waits for it.
        with contextlib.suppress(BaseException):
            self._work()
        self._is_half_way.set()

    def _work(self) -> None:
        found = None
        if self._stored is not None:
            with contextlib.suppress(LineError):
                content = sealed.content_of(self._stored)
                self._is_half_way.set()
                found = sealed.unpacked(self._stored, content)
        self._found.append(found)

    def meet(self) -> None:
        """Wait until the first of its two steps is done."""
        if self.thread is not None and self.thread.is_alive():
            begin = files.stopwatch()
            self._is_half_way.wait()
            self.waited_s += files.stopwatch() - begin

    def result(self) -> sealed.Unpacked | None:
        """What came of it."""
        begin = files.stopwatch()
        if self.thread is not None:
            self.thread.join()
        if not self._found:
            self._work()
        self.waited_s += files.stopwatch() - begin
        return self._found[0]
