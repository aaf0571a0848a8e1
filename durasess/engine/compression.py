"""Sealed segments that both snapshots cover, made smaller: the same content in zstd frames.

The bytes are proven against the seal, compressed, decompressed and compared beside the commits;
then the committer publishes them, and only behind the directory sync the plain file goes. At every
moment one of the two is whole, and a plain file counts before a compressed one. All of them have
the same temporary name, so that the next opening finds what a kill left without a look at every
name there is.
"""

from __future__ import annotations

from collections.abc import Callable

from durasess.engine import files, frames, paths, publishing, sealed
from durasess.engine.job import Job, died
from durasess.engine.scheduler import Scheduler
from durasess.engine.types import LineError

_MOST_BYTES = 64 * 1024 * 1024
"""A larger segment stays plain: compressing takes more than twice its size in memory."""

_ROUND = 8
"""Segments that are compressed behind one snapshot, so that a close waits for few."""


def prepare(disk: files.Files, directory: str, number: int) -> bool:
    """Write segment `number`, compressed and synced, under its temporary name; False when there is
    no plain one or it is too large.

    LineError when the plain one is not what its seal says: it stays as it is.
    """
    path = paths.join(directory, paths.segment(number))
    try:
        if disk.stat(path).size > _MOST_BYTES:
            return False
        content = publishing.read_whole(disk, path)
    except FileNotFoundError:
        return False
    sealed.check(content, path)
    data = frames.compress(content)
    if not _comes_back(data, content):
        raise LineError("zstd", "it does not come back equal: the memory is not to be trusted")
    publishing.write_tmp(disk, paths.join(directory, paths.COMPRESSING), data)
    return True


def _comes_back(data: bytes, content: bytes) -> bool:
    return frames.decompress_all(data) == content


def publish(disk: files.Files, directory: str, number: int) -> None:
    """Put the prepared file in the place of the plain one, which a prune may have taken."""
    path = paths.join(directory, paths.segment(number))
    tmp = paths.join(directory, paths.COMPRESSING)
    if not publishing.exists(disk, path):
        publishing.discard(disk, tmp)
        return
    disk.replace(tmp, paths.join(directory, paths.segment(number, compressed=True)))
    disk.sync_dir(directory)
    disk.unlink(path)


class Compressor:
    """Compresses what it is told of, one segment after the other.

    `check()` raises when this handle must not change anything any more; `then()` is called behind
    each segment.
    """

    def __init__(
        self,
        disk: files.Files,
        directory: str,
        scheduler: Scheduler,
        *,
        check: Callable[[], None],
        note: Callable[[str], None],
        then: Callable[[], None],
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._scheduler = scheduler
        self._check = check
        self._note = note
        self._then = then
        self._number: int | None = None
        self._below = 1
        self._left = 0
        self._job: Job | None = None

    def begin(self, below: int) -> None:
        """Compress segments with numbers below this, older ones first, a few at a time."""
        if below <= 1:
            return
        self._below = max(self._below, below)
        self._left = _ROUND
        if self.under_way() is None:
            self._start()

    def under_way(self) -> Job | None:
        """In the committer: the job that is not done, unless its thread is gone."""
        job = self._job
        if job is not None and job.is_lost():
            self._finish(job, None, died())
        return self._job

    def _start(self) -> None:
        job = self._job = Job(self._scheduler, self._finish)
        try:
            job.start(self._next)
        except Exception as error:
            self._finish(job, None, error)

    def _next(self) -> int | None:
        """The slow part, beside the committer: touches only the temporary file. The number of a
        segment that was prepared; None when nothing is left."""
        if self._number is None:
            names = (paths.parse(name) for name in self._disk.listdir(self._directory))
            plain = (one.number for one in names if one.kind == "segment" and not one.compressed)
            self._number = min(plain, default=1)
        while self._number < self._below:
            try:
                if prepare(self._disk, self._directory, self._number):
                    return self._number
            except LineError as error:
                self._note(
                    f"segment {self._number} is not what its seal says, so it was not compressed: "
                    f"{error.reason}. Run durasess verify."
                )
            self._number += 1
        return None

    def _finish(self, job: Job, number: int | None, error: BaseException | None) -> None:
        """In the committer again: swap the files, or report; then the next one."""
        if self._job is not job:
            return
        self._job = None
        try:
            if error is not None:
                raise error
            if number is not None:
                self._check()
                publish(self._disk, self._directory, number)
                self._number = number + 1
                self._left -= 1
                if self._left > 0 and self._number < self._below:
                    self._start()
        except Exception as failure:
            self._note(f"a segment could not be compressed and stays as it is: {failure}")
        finally:
            job.ticket.settle()
            self._then()
