"""Runs a plan on a disk in memory whose nth call fails, and says what of the promises was broken.

A plan is a text of steps, `append many kill append close`; options come first (see OPTIONS). Events
carry 1, 2, 3 … and the state is the list of them, so that the state alone tells what is there. What
is allowed to happen is in `Lab.check`. One failure again, from what a finding prints:

    python -m tests.support.fault_lab "append many close" "12:EIO 30:ENOSPC:sticky"

What fails and when is in fault_plans.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple
from unittest import mock

from durasess.engine.engine import Engine
from durasess.engine.repair import repair
from durasess.engine.scheduler import InlineScheduler
from durasess.engine.types import Event
from durasess.engine.verify import verify
from durasess.errors import (
    DurasessError,
    FencedError,
    SessionFailedError,
    SessionLockedError,
)
from tests.support.crash_driver import SESSION, STORE, make_clock, pinned_identity
from tests.support.fault_plans import Calls, Faults, Struck, parse, plant
from tests.support.sim_files import SimFiles, Tree

ENDS = (SessionFailedError, FencedError)
"""The handle takes nothing more."""

OPTIONS = {
    "small": {"segment_bytes": 400},
    "filled": {"preallocate": 1024},
    "often": {"snapshot_every": 2},
}

MADE = frozenset(["building", "session", "meta.json", "lock file", "worker"])
"""What an open that is stopped by the disk leaves of a session that it was making: it is there
whole and empty, or under its dot name."""

SETTLED = frozenset(["lock file", "temporary", "segment", "quarantine", "worker"])
"""And of one whose unclean end it was settling: after each step of that it means the same."""

ACKED, REFUSED, UNKNOWN, WRITTEN = "acked", "refused", "unknown", "written"


class Broken(AssertionError):
    """A promise was broken."""


class Batch(NamedTuple):
    """Events of one append and what the caller was told of them."""

    numbers: tuple[int, ...]
    fate: str


def collect(state: list[int], event: Event) -> list[int]:
    """The reducer: a new list, so that an older state stays what it was."""
    return [*state, event.data]


class Lab:
    """One run of one plan. `report` has what the steps raised, for the curious."""

    def __init__(self, plan: str) -> None:
        words = plan.split()
        self.settings: dict[str, Any] = {
            "snapshot_every": 1_000_000,
            "preallocate": 0,
            "lock_timeout": 0.1,
        }
        for word in words:
            self.settings.update(OPTIONS.get(word, {}))
        self.steps = [word for word in words if word not in OPTIONS]
        self.files = SimFiles.from_tree({STORE: None})
        self.disks = [self.files]
        self.engine: Engine | None = None
        self.other: Engine | None = None
        self.batches: list[Batch] = []
        self.blobs: dict[str, bytes] = {}
        self.report: list[str] = []
        self.mode = "own"
        self._clock = make_clock()
        self._made = 0
        self._has_ended = False
        self._put: set[str] = set()
        self._faults: list[Struck] = []

    def run(self, faults: Faults = ()) -> Lab:
        """Every step, then everything healed and checked."""
        with pinned_identity(), mock.patch.object(time, "sleep", lambda seconds: None):
            self._faults = plant(self.files, faults)
            for step in self.steps:
                self._guarded(step)
            self.check()
        return self

    def calls(self) -> list[tuple[str, str]]:
        """The file calls of a run in which nothing fails."""
        log = Calls()
        self.files.faults.append(log)
        self.run()
        return log.found

    def _guarded(self, step: str) -> None:
        try:
            getattr(self, f"_do_{step}")()
        except DurasessError as error:
            self.report.append(f"{step}: {type(error).__name__}")
            if step == "other" and isinstance(error, SessionLockedError) and self.engine:
                # A lock that could not be given up goes with the handle.
                self._let_go()
                self._guarded(step)
                return
            if step == "other":
                raise Broken(f"another process, on a healthy disk: {error!r}") from error
            self._after(error)
        except Broken:
            raise
        except Exception as error:
            raise Broken(f"{step} raised {error!r}") from error

    def _after(self, error: DurasessError) -> None:
        """P4: a handle is usable after an error, or says that it is at its end."""
        if self.engine is None:
            return
        has_ended = self._has_ended = isinstance(error, ENDS)
        is_healthy = not self.files.faults
        before = self._segments()
        try:
            self._append([self._number()])
        except ENDS:
            if not has_ended and is_healthy and not self._keeps_the_lock():
                raise Broken(f"after {error!r} the handle takes nothing more") from error
            if has_ended and self._segments() != before:
                raise Broken(f"after {error!r} a segment was written to") from error
            self._let_go()
        except DurasessError as second:
            if is_healthy:
                raise Broken(f"after {error!r}, on a healthy disk: {second!r}") from second
        else:
            if has_ended:
                raise Broken(f"after {error!r} the handle took an event") from error
        finally:
            self._has_ended = False

    def _keeps_the_lock(self) -> bool:
        """A turn that could not be given up ends the handle, whatever the caller was told."""
        return any("unlock" in fault.kinds for fault in self._faults)

    def _segments(self) -> Tree:
        found = self.files.tree().items()
        return {path: data for path, data in found if "events_" in path and ".tmp" not in path}

    def _let_go(self) -> None:
        engine, self.engine = self.engine, None
        if engine is not None:
            self._closed(engine.close)
        self._expect_nothing_open(self.files)

    def _closed(self, close: Callable[[], None]) -> None:
        try:
            close()
        except DurasessError as error:
            self.report.append(f"close: {type(error).__name__}")

    def _expect_nothing_open(self, disk: SimFiles) -> None:
        if disk.descriptors:
            left = sorted(item.path for item in disk.descriptors.values())
            raise Broken(f"still open: {left}")

    # Steps

    def _open(self, disk: SimFiles, **more: Any) -> Engine:
        before = disk.tree()
        settings: dict[str, Any] = {**self.settings, "mode": self.mode, **more}
        try:
            return Engine.open(
                SESSION,
                initial=list,
                apply=collect,
                files=disk,
                clock=self._clock,
                scheduler=InlineScheduler(),
                **settings,
            )
        except BaseException:
            if not any(found is not None for found in (self.engine, self.other)):
                self._expect_nothing_open(disk)
            changed = set(differences(before, disk.tree()))
            is_new = SESSION not in before
            if settings["mode"] == "read" and changed:
                raise Broken(f"a failed open for reading changed {changed}") from None
            if not changed <= (MADE if is_new else SETTLED):
                raise Broken(f"a failed open changed {changed}") from None
            raise

    def _opened(self) -> Engine:
        if self.engine is None:
            self.engine = self._open(self.files)
            self._put.clear()
            self._adopt(self.engine.state)
        return self.engine

    def _adopt(self, state: list[int]) -> None:
        """What an open for writing found is proven; what it did not find is gone."""
        self._compare(state)
        there = set(state)
        self.batches = [
            Batch(one.numbers, ACKED if set(one.numbers) <= there else REFUSED)
            for one in self.batches
        ]

    def _number(self) -> int:
        self._made += 1
        return self._made

    def _append(self, numbers: list[int], *, durable: bool = True, by: Any = None) -> None:
        """Append and note what was told."""
        engine: Engine = by or self._opened()
        fate = ACKED if durable else WRITTEN
        try:
            if len(numbers) == 1:
                seq = engine.append("n", numbers[0], durable=durable).seq
            else:
                seq = engine.append_many([("n", n) for n in numbers], durable=durable)[0].seq
        except ENDS as error:
            is_known = isinstance(error, SessionFailedError) and error.unknown is None
            fate = REFUSED if self._has_ended or is_known else UNKNOWN
            self._demote()
            raise
        except DurasessError:
            fate = REFUSED
            raise
        else:
            if durable:
                self._promote()
            place = sum(len(one.numbers) for one in self.batches if one.fate in (ACKED, WRITTEN))
            if seq != place + 1 and not any(one.fate == UNKNOWN for one in self.batches):
                raise Broken(f"seq {seq} follows {place} events")
        finally:
            self.batches.append(Batch(tuple(numbers), fate))

    def _promote(self) -> None:
        self.batches = [
            one._replace(fate=ACKED) if one.fate == WRITTEN else one for one in self.batches
        ]

    def _demote(self) -> None:
        self.batches = [
            one._replace(fate=UNKNOWN) if one.fate == WRITTEN else one for one in self.batches
        ]

    def _do_append(self) -> None:
        self._append([self._number()])

    def _do_many(self) -> None:
        self._append([self._number() for _ in range(3)])

    def _do_loose(self) -> None:
        self._append([self._number()], durable=False)

    def _do_flush(self) -> None:
        self._opened().flush()
        self._promote()

    def _do_snapshot(self) -> None:
        self._opened().snapshot()
        self._promote()

    def _do_rotate(self) -> None:
        self._opened().rotate()
        self._promote()

    def _do_prune(self) -> None:
        """It may take every blob of an earlier handle, since no event names one."""
        self._opened()
        self.blobs = {name: data for name, data in self.blobs.items() if name in self._put}
        self._opened().prune()

    def _do_blob(self) -> None:
        data = b"blob" * (200 + self._made)
        engine = self._opened()
        name = engine.put_blob(data)
        self.blobs[name] = data
        self._put.add(name)

    def _do_read(self) -> None:
        reader = self._open(self.files, mode="read", create=False)
        self._compare(reader.state, live=True)
        list(reader.events(after=max(0, reader.first_seq - 1)))

    def _do_close(self) -> None:
        if self.engine is not None:
            engine = self.engine
            self.engine = None
            try:
                engine.close()
                self._promote()
            finally:
                self._expect_nothing_open(self.files)

    def _do_kill(self) -> None:
        if self.engine is not None:
            self.files.die()
            self.engine.forget()
            self.engine = None

    def _do_repair(self) -> None:
        self._do_close()
        repair(SESSION, apply=True, files=self.files)
        self._expect_nothing_open(self.files)

    def _do_shared(self) -> None:
        """From here on handles share the session."""
        self._do_close()
        self.mode = "shared"

    def _do_other(self) -> None:
        """One turn of another process on the same disk, whose own calls don't fail."""
        disk = SimFiles()
        disk.join(self.files)
        self.other = self._open(disk)
        try:
            self._append([self._number()], by=self.other)
        finally:
            other, self.other = self.other, None
            self._closed(other.close)
            self._expect_nothing_open(disk)

    # What must hold

    def check(self) -> None:
        """On a healthy disk: the handle works or has ended, and opening again finds all that was
        acknowledged, nothing that was refused, batches whole, and no lock."""
        self.files.faults.clear()
        self._guarded("append")
        self._let_go()
        try:
            self._check_what_is_there()
        except DurasessError as error:
            raise Broken(f"on a healthy disk: {error!r}") from error

    def _check_what_is_there(self) -> None:
        self.engine = self._open(self.files, create=False)
        self._compare(self.engine.state)
        found = [event.data for event in self.engine.events(after=self.engine.first_seq - 1)]
        if found != self.engine.state[self.engine.first_seq - 1 :]:
            raise Broken(f"the log has {found}, the state {self.engine.state}")
        for name, data in self.blobs.items():
            if self.engine.read_blob(name) != data:
                raise Broken(f"the blob {name} is another one")
        self._do_append()
        self._do_close()
        damage = verify(SESSION, files=self.files).damage
        if damage:
            raise Broken(f"verify finds {damage}")

    def _compare(self, state: list[int], *, live: bool = False) -> None:
        there = set(state)
        if sorted(there) != state:
            raise Broken(f"out of order or twice: {state}")
        for batch in self.batches:
            held = there & set(batch.numbers)
            if held and held != set(batch.numbers):
                raise Broken(f"batch {batch.numbers} is there in part: {state}")
            if batch.fate == ACKED and not held:
                raise Broken(f"{batch.numbers} was acknowledged and is lost: {state}")
            if batch.fate == REFUSED and held and not live:
                raise Broken(f"{batch.numbers} was refused and is there: {state}")
        known = {n for batch in self.batches for n in batch.numbers}
        if not there <= known:
            raise Broken(f"nobody wrote {sorted(there - known)}")


def differences(before: Tree, after: Tree) -> list[str]:
    """What kind of files changed, once each."""
    paths = [path for path in {*before, *after} if before.get(path, "") != after.get(path, "")]
    return sorted({_kind(path) for path in paths})


def _kind(path: str) -> str:
    name = path.rpartition("/")[2]
    if path.startswith(STORE + "/."):
        return "building"
    if path == SESSION:
        return "session"
    for text, kind in (
        (".tmp", "temporary"),
        ("/workers", "worker"),
        ("/quarantine", "quarantine"),
        ("/events_", "segment"),
    ):
        if text in path:
            return kind
    return "lock file" if name in ("owner", "lock") else name


def main(arguments: list[str]) -> int:
    """Run one plan with the faults that a finding names."""
    lab = Lab(arguments[0])
    lab.run(parse(arguments[1] if len(arguments) > 1 else ""))
    print(f"sound: {lab.report}; {lab.batches}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
