"""No crash leaves an event that names a blob which is not there, whole, or not durable."""

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import pytest

from durasess.engine import paths, publishing
from durasess.engine.blobs import Blobs
from durasess.engine.verify import verify
from durasess.errors import CorruptionError
from tests.support.crash_states import PROFILES, CrashState, Settings, crash_states
from tests.support.sessions import SIM_PATH, open_sim, sim_disk
from tests.support.sim_files import Killed, SimFiles

FOLDER = paths.join(SIM_PATH, paths.BLOBS)
VALUE = bytes(range(256)) * 5
"""Longer than a sector, so that it can be torn."""
HASH = hashlib.blake2b(VALUE, digest_size=32).hexdigest()
OTHER = b"other" * 20


def last_reference(state: Any, event: Any) -> Any:
    """The reducer: the state names what the newest event that names a blob names."""
    return event.data if event.data else state


def opened(files: SimFiles, **options: Any) -> Any:
    """The session, with few events for each snapshot so that it can be pruned soon."""
    return open_sim(files, initial=dict, apply=last_reference, preallocate=0, **options)


def append_large(engine: Any, files: SimFiles, value: bytes = VALUE) -> None:
    """Put a value, append an event that names it, and remember what was acknowledged."""
    name = engine.put_blob(value)
    members = {"hash": name, "size": len(value), "kind": "bytes"}
    engine.append("t", {"$blob": members})
    files.mark(engine.last_seq)


def append_and_leave(files: SimFiles) -> None:
    """The same from a handle of its own."""
    engine = opened(files)
    append_large(engine, files)
    engine.abandon()


def put_and_append(files: SimFiles) -> None:
    """The first blob of a session, and then one more."""
    engine = opened(files)
    append_large(engine, files)
    append_large(engine, files, OTHER)
    engine.abandon()


def put_again(files: SimFiles) -> None:
    """The same blob from another handle, after the first was killed before its event."""
    first = opened(files)
    first.put_blob(VALUE)
    files.die()
    append_and_leave(files)
    first.abandon()


def put_over_half_a_put(files: SimFiles) -> None:
    """The writer before was killed between the rename and the sync of the folder."""
    first = opened(files)
    files.fail("sync_dir", where=paths.BLOBS, kill=True)
    with contextlib.suppress(Killed):
        first.put_blob(VALUE)
    files.die()
    files.faults.clear()
    append_and_leave(files)
    first.abandon()


def put_over_a_copy(files: SimFiles) -> None:
    """Somebody has copied the blob here, and nothing of the copy was synced."""
    files.mkdir(FOLDER)
    fd = files.create(paths.blob(SIM_PATH, HASH))
    publishing.write_all(files, fd, VALUE)
    files.close(fd)
    append_and_leave(files)


def prune_what_nothing_names(files: SimFiles) -> None:
    """An old blob goes with the segment that named it; the one that the state names stays."""
    engine = opened(files)
    append_large(engine, files)
    append_large(engine, files, OTHER)
    engine.snapshot()
    engine.append("t", None)
    engine.snapshot()
    engine.close()
    files.restart()
    files.mark(engine.last_seq)
    engine = opened(files)
    assert len(engine.prune().blobs) == 1
    append_large(engine, files, OTHER)
    engine.abandon()


PLANS = [
    put_and_append,
    put_again,
    put_over_half_a_put,
    put_over_a_copy,
    prune_what_nothing_names,
]
Plan = Callable[[SimFiles], None]


def session_disk() -> SimFiles:
    """A disk with an empty session on it, all of it durable."""
    files = sim_disk()
    opened(files).close()
    files.restart()
    return files


def states_of(plan: Plan) -> Iterator[CrashState]:
    files = session_disk()
    plan(files)
    for profile in PROFILES:
        yield from crash_states(files.base, files.log, Settings(profile=profile))


def problems(state: CrashState) -> list[str]:
    """What is wrong with a state that a crash left: for a reader, and for the next writer."""
    files = SimFiles.from_tree(state.tree)
    damage = verify(SIM_PATH, files=files).damage
    # Half a copy that nothing names yet is its maker's.
    found = [str(one) for one in damage if one.first_seq is not None or state.mark]
    engine = opened(files)
    if engine.last_seq < (state.mark or 0):
        found.append(f"event {state.mark} is lost")
    for data in [engine.state, *(event.data for event in engine.events(engine.first_seq - 1))]:
        if data and engine.read_blob(data["$blob"]["hash"]) not in (VALUE, OTHER):
            found.append("other bytes")
    engine.abandon()
    return found


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.__name__)
def test_every_event_that_is_left_has_its_blob(plan: Plan) -> None:
    count = 0
    for count, state in enumerate(states_of(plan), 1):  # noqa: B007
        assert problems(state) == []
    assert count > 20


# The states have teeth


def without_sync(disk: Any, path: str, data: bytes) -> None:
    """A publish that forgets to sync the bytes."""
    fd = publishing.create_fresh(disk, path)
    publishing.write_all(disk, fd, data)
    disk.close(fd)


def skipping_directory(directory: str) -> Any:
    """A disk that does not sync the names in one directory."""
    original = SimFiles.sync_dir
    return mock.patch.object(
        SimFiles,
        "sync_dir",
        lambda self, path: None if path == directory else original(self, path),
    )


def after_the_event() -> Any:
    """A put that leaves all the work to the next put."""
    owed: list[Any] = []
    original = Blobs._store

    def store(self: Any, *arguments: Any) -> None:
        while owed:
            original(self, *owed.pop())
        owed.append(arguments)

    return mock.patch.object(Blobs, "_store", store)


def believing_what_is_there() -> Any:
    """A put that takes a blob that is there for durable."""
    original = Blobs._store

    def store(self: Any, name: str, path: str, content: bytes) -> None:
        if not publishing.exists(self._disk, path):
            original(self, name, path, content)

    return mock.patch.object(Blobs, "_store", store)


def skipping_sync_of_the_blob() -> Any:
    """A put that syncs only what it wrote itself."""
    original = SimFiles.sync

    def sync(self: Any, fd: int) -> None:
        if not self.descriptors[fd].path.endswith(HASH):
            original(self, fd)

    return mock.patch.object(SimFiles, "sync", sync)


def pruning_at_once() -> Any:
    """A prune whose blobs may go before its segments are gone."""
    original = SimFiles.sync_dir
    return mock.patch.object(
        SimFiles,
        "sync_dir",
        lambda self, path: None if any_unlinked(self) else original(self, path),
    )


def any_unlinked(files: SimFiles) -> bool:
    return any(op.kind == "unlink" and "events_" in op.name for op in files.log)


BUGS = [
    (put_and_append, lambda: mock.patch.object(publishing, "write_tmp", without_sync)),
    (put_and_append, lambda: skipping_directory(FOLDER)),
    (put_and_append, lambda: skipping_directory(SIM_PATH)),
    (put_and_append, after_the_event),
    (put_over_half_a_put, believing_what_is_there),
    (put_over_a_copy, skipping_sync_of_the_blob),
    (prune_what_nothing_names, pruning_at_once),
]


@pytest.mark.parametrize(("plan", "bug"), BUGS)
def test_planted_bug_is_found(plan: Plan, bug: Callable[[], Any]) -> None:
    with bug():
        states = list(states_of(plan))
    assert any(_is_bad(state) for state in states)


def _is_bad(state: CrashState) -> bool:
    try:
        return bool(problems(state))
    except CorruptionError:
        return True
