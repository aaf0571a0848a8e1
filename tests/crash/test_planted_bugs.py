"""The explorer has teeth: known crash bugs, planted one at a time, are all found by it."""

import contextlib
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple
from unittest import mock

import pytest

from durasess.engine import (
    codec,
    compression,
    frames,
    paths,
    publishing,
    recovery,
    scan,
    settle,
    snapshot,
    torn,
)
from durasess.engine.log import Log
from durasess.engine.meta import Baseline
from durasess.engine.scan import Scan
from durasess.engine.snapshotter import Snapshotter
from durasess.engine.types import FILLER
from durasess.engine.writer import Writer
from durasess.errors import DurasessError
from tests.support.crash_driver import SESSION, STORE, Driver, PlanFailure, parse_plan
from tests.support.crash_variants import hoisted, skipping, traced
from tests.support.explorer import Explorer
from tests.support.planting import around, planted
from tests.support.sim_files import Op, SimFiles, Tree

Patch = Callable[[], AbstractContextManager[Any]]


class Bug(NamedTuple):
    """A way to be wrong: other disks, other code or another order, and a plan that comes by it."""

    plan: str
    make_files: Callable[[Tree], SimFiles] = SimFiles.from_tree
    patch: Patch = contextlib.nullcontext
    rewrite: Callable[[Sequence[Op]], Sequence[Op]] | None = None


# Disks that sync too little, or too late


class LateSyncFiles(SimFiles):
    """A segment is synced only when the next write or the close comes."""

    def sync(self, fd: int) -> None:
        self.owed = fd if self._is_segment(fd) else 0
        if not self.owed:
            super().sync(fd)

    def write_at(self, fd: int, data: bytes, offset: int) -> int:
        self._pay(fd)
        return super().write_at(fd, data, offset)

    def close(self, fd: int) -> None:
        self._pay(fd)
        super().close(fd)

    def _pay(self, fd: int) -> None:
        if fd in self.descriptors and getattr(self, "owed", 0) == fd:
            self.owed = 0
            super().sync(fd)

    def _is_segment(self, fd: int) -> bool:
        return self._descriptor(fd).path.endswith(".jsonl")


class EverySecondSyncFiles(LateSyncFiles):
    """Two writes to a segment share one sync, behind the second."""

    def sync(self, fd: int) -> None:
        self.calls = getattr(self, "calls", 0) + self._is_segment(fd)
        if not self._is_segment(fd) or self.calls % 2 == 0:
            SimFiles.sync(self, fd)


# Code that does things in another order, or not at all


def _meta_before_segment() -> AbstractContextManager[None]:
    def make(original: Any) -> Any:
        def make_room(self: Writer) -> None:
            if not self._log.is_active:
                self._log.next_number += 1
                self._ledger.publish(self.state, self.place)
                self._log.next_number -= 1
            original(self)

        return make_room

    return around(Writer, "_make_room", make)


def _baseline_before_snapshot() -> AbstractContextManager[None]:
    def make(original: Any) -> Any:
        def swap(self: Snapshotter, job: Any, trailer: Any) -> None:
            self._ledger.set_baseline(Baseline(trailer.seq, trailer.segment, trailer.frame))
            self._ledger.publish(None, job.place)
            original(self, job, trailer)

        return swap

    return around(Snapshotter, "_swap", make)


def _prune_before_snapshot() -> AbstractContextManager[None]:
    def make(original: Any) -> Any:
        def swap(self: Snapshotter, job: Any, trailer: Any) -> None:
            _unlink_segments(self._disk, self._directory)
            original(self, job, trailer)

        return swap

    return around(Snapshotter, "_swap", make)


def _prune_while_newest_is_unpublished() -> AbstractContextManager[None]:
    """Between the renames and the directory sync, and all that the newest snapshot covers."""

    def publish(disk: Any, directory: str, *, tmp: str, newest_is_good: bool) -> None:
        newest = paths.join(directory, paths.SNAPSHOT)
        if newest_is_good:
            disk.replace(newest, paths.join(directory, paths.SNAPSHOT_PREVIOUS))
        disk.replace(paths.join(directory, tmp), newest)
        _unlink_segments(disk, directory)
        disk.sync_dir(directory)

    return planted(snapshot, "publish", publish)


def _plain_goes_before_the_compressed_is_named() -> AbstractContextManager[Any]:
    def publish(disk: Any, directory: str, number: int) -> None:
        plain = paths.join(directory, paths.segment(number))
        compressed = paths.join(directory, paths.segment(number, compressed=True))
        disk.replace(paths.join(directory, paths.COMPRESSING), compressed)
        disk.unlink(plain)
        disk.sync_dir(directory)

    return planted(compression, "publish", publish)


def _half_is_compressed() -> AbstractContextManager[None]:
    """And nobody compares what comes back."""

    def compress(data: bytes) -> bytes:
        return frames.compress(data[: data.rindex(b"\n", 0, -1) + 1])

    stack = contextlib.ExitStack()
    stack.enter_context(mock.patch.object(compression, "frames", mock.Mock(compress=compress)))
    stack.enter_context(planted(compression, "_comes_back", lambda *arguments: True))
    return stack


def _unlink_segments(disk: Any, directory: str) -> None:
    for name in disk.listdir(directory):
        if paths.parse(name).kind == "segment":
            disk.unlink(paths.join(directory, name))


def _torn_tail_stays() -> AbstractContextManager[Any]:
    def append_in_place(disk: Any, directory: str, unsealed: settle.Unsealed) -> list[str]:
        fd = disk.open(unsealed.path, write=True)
        publishing.write_all(disk, fd, settle._seal(unsealed), unsealed.size)
        disk.sync(fd)
        disk.close(fd)
        return []

    return planted(settle, "copy_forward", append_in_place)


def _reader_counts_unterminated_lines() -> AbstractContextManager[None]:
    def make(original: Any) -> Any:
        def recover(*arguments: Any, writer: bool, **more: Any) -> Any:
            return original(*arguments, writer=True, **more)

        return recover

    return around(recovery, "recover", make)


def _every_line_is_a_batch() -> AbstractContextManager[None]:
    def make(original: Any) -> Any:
        return lambda line: codec.Head(original(line).seq, None)

    return around(codec, "head", make)


def _short_write_stays() -> AbstractContextManager[Any]:
    def go_on(self: Log, error: OSError, after: Any) -> None:
        self.offset = self._disk.fstat(self._fd).size

    return planted(Log, "_cut_back", go_on)


def _quarantine_is_skipped() -> AbstractContextManager[Any]:
    return planted(settle, "_keep_torn", lambda *arguments: [])


def _seal_is_believed() -> AbstractContextManager[Any]:
    return planted(recovery, "_is_seal_synced", lambda *arguments: True)


def _reader_tidies_up() -> AbstractContextManager[None]:
    def make(original: Any) -> Any:
        def recover(disk: Any, directory: str, *arguments: Any, **more: Any) -> Any:
            settle.leftovers(disk, directory, 1)
            return original(disk, directory, *arguments, **more)

        return recover

    return around(recovery, "recover", make)


def _filler_is_read() -> AbstractContextManager[Any]:
    return planted(Scan, "_is_filler", lambda self, text: False)


def _only_zeros_are_blank() -> AbstractContextManager[None]:
    """Where filler shows, nothing was written: a cut write has it behind its end, a lost sector is
    full of it."""
    stack = contextlib.ExitStack()
    stack.enter_context(mock.patch.object(torn, "BLANKS", b"\0"))
    stack.enter_context(mock.patch.object(torn, "_BLANK", re.compile(b"\0")))
    return stack


def _filler_stays_behind_the_seal() -> AbstractContextManager[Any]:
    return planted(Log, "_cut_filler", lambda self, size: None)


def _cleared_block_is_refused() -> AbstractContextManager[Any]:
    """Behind a seal only filler is taken for nothing, and not what a cut of the filler leaves."""
    return mock.patch.object(scan, "BLANKS", FILLER)


def _filler_is_forgotten_in_the_size() -> AbstractContextManager[None]:
    """A write that was cut short in its filler is taken for whole."""

    def make(original: Any) -> Any:
        def write(self: Log, *arguments: Any) -> None:
            original(self, *arguments)
            if self._step:
                self._size = self._grown(self._size)

        return write

    return around(Log, "write", make)


def _size_is_not_looked_at() -> AbstractContextManager[Any]:
    return planted(Log, "_check_size", lambda self: None)


def _end_is_not_compared() -> AbstractContextManager[Any]:
    return planted(settle, "_refuse_if_changed", lambda unsealed, behind: None)


def _end_is_compared_by_size() -> AbstractContextManager[Any]:
    """Filler is overwritten in place, so the size says nothing."""

    def refuse(unsealed: settle.Unsealed, behind: bytes) -> None:
        if len(behind) != unsealed.size - unsealed.scan.end:
            raise settle._alive(unsealed, "its size changed")

    return planted(settle, "_refuse_if_changed", refuse)


def _anchor_first(log: Sequence[Op]) -> Sequence[Op]:
    site = next(op.site for op in log if op.site.endswith(": write lock"))
    return hoisted(log, site)


def _skip_kind(kind: str, ending: str) -> Callable[[Tree], SimFiles]:
    return skipping(lambda found, path, site: found == kind and path.endswith(ending))


def _skip_site(kind: str, beginning: str) -> Callable[[Tree], SimFiles]:
    return skipping(lambda found, path, site: found == kind and site.startswith(beginning))


BUGS = {
    "no sync of temporary files": Bug("append,snapshot", _skip_kind("sync", ".tmp")),
    "no directory sync after a rename": Bug("append,many3", _skip_kind("sync_dir", SESSION)),
    "no directory sync after a segment was made": Bug(
        "append,rotate,append", _skip_site("sync_dir", "log.start_segment")
    ),
    "no sync of the parent at creation": Bug("append", _skip_kind("sync_dir", STORE)),
    "acknowledged before the sync": Bug("append,append", LateSyncFiles.from_tree),
    "second write before the sync of the first": Bug(
        "loose,append", EverySecondSyncFiles.from_tree
    ),
    "pruned before the snapshot was there": Bug("append,snapshot", patch=_prune_before_snapshot),
    "pruned what the previous snapshot needs": Bug(
        "append,snapshot,append,snapshot", patch=_prune_while_newest_is_unpublished
    ),
    "plain segment gone before the compressed one is durable": Bug(
        "append,snapshot,append,snapshot,background",
        patch=_plain_goes_before_the_compressed_is_named,
    ),
    "compressed without a sync": Bug(
        "append,snapshot,append,snapshot,background", _skip_site("sync", "compression.prepare")
    ),
    "compressed in half": Bug(
        "append,snapshot,append,snapshot,background", patch=_half_is_compressed
    ),
    "meta before the segment it names": Bug("append,append", patch=_meta_before_segment),
    "meta before the snapshot it names": Bug("append,snapshot", patch=_baseline_before_snapshot),
    "torn tail not cut off": Bug("append,torn,append", patch=_torn_tail_stays),
    "unterminated line counted by a reader": Bug(
        "append,append", patch=_reader_counts_unterminated_lines
    ),
    "half a batch kept": Bug("many3", patch=_every_line_is_a_batch),
    "copied forward without a sync": Bug(
        "append,kill,append", _skip_site("sync", "settle.copy_forward")
    ),
    "seal believed that is in the page cache alone": Bug(
        "append,rotate!2,append", patch=_seal_is_believed
    ),
    "torn bytes thrown away": Bug("append,torn,append", patch=_quarantine_is_skipped),
    "short write not cut back": Bug("append,short,append", patch=_short_write_stays),
    "anchor before the sync": Bug("append,append", traced, rewrite=_anchor_first),
    "reader that tidies up": Bug("append,snapshot", patch=_reader_tidies_up),
    "filler not passed over": Bug("fill512,append,rotate", patch=_filler_is_read),
    "filler not taken for a missing write": Bug("fill512,append,big", patch=_only_zeros_are_blank),
    "filler left behind a seal": Bug(
        "fill512,append,rotate,append", patch=_filler_stays_behind_the_seal
    ),
    "cleared block behind a seal refused": Bug(
        "fill512,append,rotate", patch=_cleared_block_is_refused
    ),
    "short filler not noticed": Bug(
        "fill512,shortfill,append", patch=_filler_is_forgotten_in_the_size
    ),
    "growth by somebody else not noticed": Bug("fill512,grown", patch=_size_is_not_looked_at),
    "stale writer overtaken": Bug("stale", patch=_end_is_not_compared),
    "stale writer overtaken in its filler": Bug("fill512,stale", patch=_end_is_not_compared),
    "stale writer sought by the size alone": Bug("fill512,stale", patch=_end_is_compared_by_size),
}


def bad_states(bug: Bug) -> int:
    """How many states of the plan's crashes recovery cannot do with. A plan that does not even run
    to its end counts as one."""
    explorer = Explorer()
    plan = parse_plan(bug.plan)
    with bug.patch():
        try:
            files = Driver(plan, make_files=bug.make_files).run()
        except (PlanFailure, DurasessError):
            return 1
        if bug.rewrite is not None:
            files.log = list(bug.rewrite(files.log))
        explorer.explore_log(plan, files)
    return explorer.totals.bad


@pytest.mark.parametrize("name", BUGS)
def test_planted_bug_is_found(name: str) -> None:
    bad = bad_states(BUGS[name])
    print(f"{name}: {bad} bad states")
    assert bad > 0


def test_without_a_bug_the_same_plans_are_sound() -> None:
    explorer = Explorer()
    for plan in sorted({bug.plan for bug in BUGS.values()}):
        explorer.explore(parse_plan(plan))
    assert explorer.totals.bad == 0, str(explorer.totals)
