"""A disk that refuses: full, read-only, somebody else's, failing to sync.

Whatever it refuses, the error is one of durasess's and says where, nothing acknowledged is lost,
and where the write could be cut back the same handle goes on.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import json
import os
import resource
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from durasess import (
    DurasessError,
    Engine,
    Receipt,
    SessionFailedError,
    SessionNotFoundError,
    StorageError,
)
from durasess.engine.files import RealFiles
from durasess.engine.types import FILLER, PREALLOCATE
from durasess.engine.verify import verify
from tests.support.agreement import assert_readers_agree
from tests.support.capabilities import unavailable, working_strace

ROOT = Path(__file__).resolve().parents[2]
NOBODY = 65534
PAGE = 4096
PATIENCE = 60

pytestmark = [
    pytest.mark.skipif(os.name == "nt", reason="needs a POSIX system"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]


with_and_without_filler = pytest.mark.parametrize(
    "preallocate", [0, PREALLOCATE], ids=["no filler", "filler"]
)


def count(state: int, event: Any) -> int:
    """The reducer of these tests."""
    return state + 1


def opened(path: Path, **more: Any) -> Engine:
    """Without automatic rotation and snapshots: the tests say when."""
    settings = {"initial": int, "apply": count, "snapshot_every": 10_000}
    return Engine.open(path, **{**settings, **more})


def need_root() -> None:
    """Mounts and other users need it."""
    if os.geteuid() != 0:
        unavailable("needs root")


def tree(directory: Path) -> dict[str, bytes]:
    """Every file below a directory."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def written(segment: Path) -> bytes:
    """What is in a segment, without the filler behind it."""
    return segment.read_bytes().rstrip(FILLER)


def without_filler(files: dict[str, bytes]) -> dict[str, bytes]:
    """The same tree where filler is nothing."""
    return {
        name: data.rstrip(FILLER) if name.startswith("events_") else data
        for name, data in files.items()
    }


def assert_told(error: DurasessError, path: Path) -> None:
    """It names the file, and says more than the system did."""
    assert error.path is not None and error.path.startswith(str(path)), repr(error)
    assert str(path) in str(error)
    assert len(str(error)) > len(str(path)) + 15


def assert_holds(path: Path, data: list[Any]) -> None:
    """After an open for writing exactly these events are there, without a gap."""
    with opened(path) as engine:
        assert [event.data for event in engine.events()] == data
        assert engine.state == engine.last_seq == len(data)
    assert verify(str(path), files=RealFiles()).damage == []
    assert_readers_agree(path)


# -- a full disk ----------------------------------------------------------------------------


class SmallDisk:
    """A tmpfs of few pages; `fill` leaves so many pages free."""

    def __init__(self, root: Path, options: str) -> None:
        self.root = root
        self.session = root / "s"
        self._filler = root / "filler"
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"mode=700,{options}", "durasess-test", str(root)],
            capture_output=True,
            text=True,
        )
        if done.returncode:
            unavailable(f"tmpfs cannot be mounted: {done.stderr.strip()}")

    def fill(self, free_pages: int) -> None:
        """Everything but so many pages."""
        fd = os.open(self._filler, os.O_CREAT | os.O_WRONLY, 0o600)
        try:
            with contextlib.suppress(OSError):
                while True:
                    os.write(fd, bytes(PAGE))
            size = os.fstat(fd).st_size // PAGE * PAGE
            os.ftruncate(fd, max(0, size - free_pages * PAGE))
        finally:
            os.close(fd)

    def make_room(self) -> None:
        """Give all of it back."""
        self._filler.unlink()

    def unmount(self) -> None:
        """Also when a failed test still has files open."""
        subprocess.run(["umount", "-l", str(self.root)], check=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[..., SmallDisk]]:
    """Makes small disks, one after the other."""
    need_root()
    disks: list[SmallDisk] = []

    def make(options: str = "size=256k") -> SmallDisk:
        root = tmp_path / f"disk{len(disks)}"
        root.mkdir()
        disks.append(SmallDisk(root, options))
        return disks[-1]

    yield make
    for disk in disks:
        disk.unmount()


def append_up_to(engine: Engine, path: Path, number: int, size: int, data: list[Any]) -> None:
    """One event that makes what is in the segment exactly `size` bytes long."""
    segment = path / f"events_{number:04d}.jsonl"
    before = len(written(segment))
    engine.append("n", "")
    overhead = len(written(segment)) - before
    pad = "p" * (size - len(written(segment)) - overhead)
    engine.append("n", pad)
    data += ["", pad]
    assert len(written(segment)) == size


@with_and_without_filler
def test_full_disk_refuses_an_append_and_the_handle_goes_on(
    small_disk: Callable[..., SmallDisk], preallocate: int
) -> None:
    disk = small_disk()
    data: list[Any] = []
    with opened(disk.session, preallocate=preallocate) as engine:
        engine.append("n", "first")
        data.append("first")
        append_up_to(engine, disk.session, 1, (preallocate or PAGE) - 10, data)
        disk.fill(0)
        before = without_filler(tree(disk.session))
        for attempt in (
            lambda: engine.append("n", "x"),
            lambda: engine.append_many([("n", 1)] * 9),
        ):
            with pytest.raises(StorageError) as caught:
                attempt()
            assert caught.value.errno == errno.ENOSPC
            assert_told(caught.value, disk.session)
            after = without_filler(tree(disk.session))
            assert after == before, "the short write was not cut back"
        disk.make_room()
        assert engine.append("n", "next").seq == len(data) + 1
        data.append("next")
    assert_holds(disk.session, data)


def test_full_disk_takes_the_events_that_fit_into_the_filler(
    small_disk: Callable[..., SmallDisk],
) -> None:
    disk = small_disk()
    data: list[Any] = []
    with opened(disk.session) as engine:
        engine.append("n", "first")
        disk.fill(0)
        refused = False
        while not refused:
            try:
                engine.append("n", "x" * 1000)
                data.append("x" * 1000)
            except StorageError as error:
                assert error.errno == errno.ENOSPC
                refused = True
        assert PREALLOCATE // 1200 <= len(data) <= PREALLOCATE // 1000
        disk.make_room()
        engine.append("n", "next")
    assert_holds(disk.session, ["first", *data, "next"])


@with_and_without_filler
def test_full_disk_refuses_a_seal_and_the_handle_goes_on(
    small_disk: Callable[..., SmallDisk], preallocate: int
) -> None:
    disk = small_disk()
    data: list[Any] = ["first"]
    with opened(disk.session, preallocate=preallocate) as engine:
        engine.append("n", "first")
        append_up_to(engine, disk.session, 1, (preallocate or PAGE) - 10, data)
        disk.fill(0)
        for attempt in (engine.rotate, engine.snapshot):
            with pytest.raises(StorageError) as caught:
                attempt()
            assert_told(caught.value, disk.session)
        disk.make_room()
        engine.rotate()
        engine.append("n", "next")
        data.append("next")
        assert engine.snapshot() == len(data)
    assert_holds(disk.session, data)


@with_and_without_filler
def test_full_disk_refuses_a_segment_then_meta_and_the_handle_goes_on(
    small_disk: Callable[..., SmallDisk], preallocate: int
) -> None:
    disk = small_disk()
    with opened(disk.session, preallocate=preallocate) as engine:
        engine.append("n", 1)
        engine.rotate()
        refused = []
        for free in (0, preallocate // PAGE or 1):
            disk.fill(free)
            with pytest.raises(StorageError) as caught:
                engine.append("n", 2)
            assert_told(caught.value, disk.session)
            refused.append(os.path.basename(caught.value.path or ""))
            disk.make_room()
        assert refused == ["events_0002.jsonl", "meta.json"]
        assert engine.append("n", 2).seq == 2
        assert not list(disk.session.glob("*.tmp"))
    assert_holds(disk.session, [1, 2])


@with_and_without_filler
def test_full_disk_refuses_a_snapshot_and_appends_go_on(
    small_disk: Callable[..., SmallDisk], preallocate: int
) -> None:
    disk = small_disk()
    with opened(disk.session, preallocate=preallocate) as engine:
        engine.append("n", 1)
        engine.snapshot()
        engine.append("n", 2)
        if preallocate:
            # The room of the filler would do for the snapshot.
            engine.rotate()
        disk.fill(0)
        before = tree(disk.session)["snapshot.json.zst"]
        with pytest.raises(StorageError) as caught:
            engine.snapshot()
        assert_told(caught.value, disk.session)
        assert tree(disk.session)["snapshot.json.zst"] == before
        assert any("snapshot" in notice for notice in engine.notices)
        disk.make_room()
        assert engine.append("n", 3).seq == 3
        assert engine.snapshot() == 3
    assert_holds(disk.session, [1, 2, 3])


def test_full_disk_at_close_is_said_and_everything_is_let_go_of(
    small_disk: Callable[..., SmallDisk],
) -> None:
    disk = small_disk()
    engine = opened(disk.session, preallocate=0)
    engine.append("n", 1)
    disk.fill(0)
    with pytest.raises(StorageError) as caught:
        engine.close()
    assert_told(caught.value, disk.session)
    disk.make_room()
    assert_holds(disk.session, [1])
    threads = [one for one in threading.enumerate() if one.name.startswith("durasess-committer")]
    with warnings.catch_warnings(record=True) as caught_warnings:
        warnings.simplefilter("always")
        engine.close()
        del engine
        gc.collect()
    assert threads == [], "close raised its error before its thread was stopped"
    assert caught_warnings == []


def test_full_disk_has_the_room_of_the_filler_for_a_snapshot_and_a_close(
    small_disk: Callable[..., SmallDisk],
) -> None:
    disk = small_disk()
    engine = opened(disk.session)
    engine.append("n", 1)
    disk.fill(0)
    assert engine.snapshot() == 1
    engine.close()
    disk.make_room()
    assert_holds(disk.session, [1])


def test_full_disk_refuses_a_new_session_and_leaves_nothing(
    small_disk: Callable[..., SmallDisk],
) -> None:
    disk = small_disk()
    disk.fill(0)
    with pytest.raises(StorageError) as caught:
        opened(disk.session)
    assert_told(caught.value, disk.session)
    assert sorted(os.listdir(disk.root)) == ["filler"]
    disk.make_room()
    with opened(disk.session) as engine:
        engine.append("n", 1)
    assert_holds(disk.session, [1])


@with_and_without_filler
def test_full_disk_refuses_to_settle_an_unclean_end_and_can_still_be_read(
    small_disk: Callable[..., SmallDisk], preallocate: int
) -> None:
    disk = small_disk()
    engine = opened(disk.session, preallocate=preallocate)
    engine.append("n", 1)
    engine.abandon()
    segment = disk.session / "events_0001.jsonl"
    torn = written(segment) + b'{"seq":2,"ts":"'
    segment.write_bytes(torn.ljust(segment.stat().st_size, FILLER) if preallocate else torn)
    disk.fill(0)
    before = segment.read_bytes()
    with pytest.raises(StorageError) as caught:
        opened(disk.session)
    assert_told(caught.value, disk.session)
    assert segment.read_bytes() == before
    with opened(disk.session, mode="read") as reader:
        assert [event.data for event in reader.events()] == [1]
    disk.make_room()
    assert_holds(disk.session, [1])


def test_disk_without_inodes_refuses_a_segment_and_the_handle_goes_on(
    small_disk: Callable[..., SmallDisk],
) -> None:
    disk = small_disk("size=256k,nr_inodes=40")
    with opened(disk.session) as engine:
        engine.append("n", 1)
        engine.rotate()
        fillers = []
        with contextlib.suppress(OSError):
            for number in range(100):
                filler = disk.root / f"filler{number}"
                filler.touch()
                fillers.append(filler)
        with pytest.raises(StorageError) as caught:
            engine.append("n", 2)
        assert caught.value.errno == errno.ENOSPC
        for filler in fillers:
            filler.unlink()
        assert engine.append("n", 2).seq == 2
    assert_holds(disk.session, [1, 2])


WORK = ("append", "many", "append", "rotate", "append", "snapshot", "append", "many", "rotate")


class Filling:
    """One session on a disk that has so many pages left: works until all of WORK was refused or
    done, twice, then makes room and goes on with the same handle."""

    def __init__(self, disk: SmallDisk, preallocate: int) -> None:
        self.disk = disk
        self.data: list[Any] = []
        self.refused: set[str] = set()
        self.engine = opened(disk.session, preallocate=preallocate)
        self.step("append")

    def step(self, name: str) -> None:
        engine, start = self.engine, len(self.data) + 1
        if name == "append":
            receipts = [engine.append("n", [start, "x" * 1500])]
        elif name == "many":
            receipts = engine.append_many([("n", [start + i, "y" * 900]) for i in range(4)])
        else:
            getattr(engine, name)()
            return
        self.data += [[start, "x" * 1500]] if name == "append" else []
        self.data += [[start + i, "y" * 900] for i in range(4)] if name == "many" else []
        assert [one.seq for one in receipts] == list(range(start, len(self.data) + 1))

    def work(self) -> None:
        for name in WORK * 2:
            try:
                self.step(name)
            except StorageError as error:
                assert error.errno == errno.ENOSPC, repr(error)
                assert_told(error, self.disk.session)
                self.refused.add(f"{name}: {os.path.basename(error.path or '')}")
            assert self.engine.last_seq == len(self.data) == self.engine.state

    def go_on(self) -> None:
        self.disk.make_room()
        for name in WORK:
            self.step(name)


REFUSED = {
    0: {"events", "meta.json", "snapshot.json.zst"},
    PAGE: {"events", "meta.json", "snapshot.json.zst"},
    # A new segment takes what room there is; a sealed one gives its filler back.
    PREALLOCATE: {"meta.json"},
}
"""Which files find no room, by how far a segment grows ahead."""


@pytest.mark.parametrize("preallocate", REFUSED)
def test_disk_that_fills_up_at_every_size_loses_nothing(
    small_disk: Callable[..., SmallDisk], preallocate: int
) -> None:
    refused: set[str] = set()
    for free_pages in range(24):
        disk = small_disk("size=512k")
        filling = Filling(disk, preallocate)
        disk.fill(free_pages)
        filling.work()
        filling.go_on()
        filling.engine.close()
        assert_holds(disk.session, filling.data)
        refused |= filling.refused
    print(f"\nrefused: {sorted(refused)}")
    files = {one.partition(": ")[2].split("_")[0] for one in refused}
    assert REFUSED[preallocate] <= files


# -- in a process of its own ------------------------------------------------------------------


def in_fork(function: Callable[..., Any], *arguments: Any, uid: int | None = None) -> Any:
    """What the function returns, through JSON, in a forked process, as another user if asked."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(read_end)
            if uid is not None:
                os.setgroups([])
                os.setgid(uid)
                os.setuid(uid)
            try:
                said = {"result": function(*arguments)}
            except BaseException as error:
                said = {"error": f"{type(error).__name__}: {error}"}
            os.write(write_end, json.dumps(said).encode())
        finally:
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        text = pipe.read()
    os.waitpid(pid, 0)
    said = json.loads(text)
    assert "error" not in said, said
    return said["result"]


def refusal(call: Callable[[], Any]) -> dict[str, Any]:
    """How a call is refused, for JSON."""
    try:
        call()
    except DurasessError as error:
        return {
            "type": type(error).__name__,
            "path": error.path,
            "errno": getattr(error, "errno", None),
            "text": str(error),
        }
    return {"type": None}


def _work_under_a_limit(path: str, preallocate: int) -> dict[str, Any]:
    """A limit in the middle of a line, so that a part of it is taken."""
    engine = opened(Path(path), preallocate=preallocate)
    segment = Path(path) / "events_0001.jsonl"
    engine.append("n", "first")
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = len(written(segment))
    found = []
    for allowed in (1, 40, len('{"seq":2,"ts":"","type":"n","data":2,"crc":"00000000"}') + 27, 0):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + allowed, hard))
        found.append(refusal(lambda: engine.append("n", 2)))
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        found[-1]["size"] = len(written(segment)) - size
    seq = engine.append("n", 2).seq
    engine.close()
    return {"refused": found, "seq": seq}


@with_and_without_filler
def test_file_size_limit_cuts_the_short_write_back_and_the_handle_goes_on(
    tmp_path: Path, preallocate: int
) -> None:
    path = tmp_path / "s"
    report = in_fork(_work_under_a_limit, str(path), preallocate)
    for one in report["refused"]:
        assert one["type"] == "StorageError"
        assert one["errno"] in (errno.ENOSPC, errno.EFBIG)
        assert one["size"] == 0, "a part of the line stayed"
    assert report["seq"] == 2
    assert_holds(path, ["first", 2])


# -- somebody else's --------------------------------------------------------------------------


@pytest.fixture
def public_place() -> Iterator[Path]:
    """A directory that everybody may use; pytest's own is closed to others."""
    need_root()
    place = Path(tempfile.mkdtemp(prefix="durasess-"))
    place.chmod(0o777)
    yield place
    shutil.rmtree(place)


def _make(path: str, clean: bool) -> None:
    engine = opened(Path(path))
    engine.append("n", 1)
    engine.close() if clean else engine.abandon()


def _in_read_only_directory(path: str) -> dict[str, Any]:
    os.chmod(path, 0o500)
    engine = opened(Path(path))
    refused = refusal(lambda: engine.append("n", 2))
    os.chmod(path, 0o700)
    seq = engine.append("n", 2).seq
    engine.close()
    return {"refused": refused, "seq": seq}


def test_read_only_directory_refuses_an_append_and_the_handle_goes_on(public_place: Path) -> None:
    path = public_place / "s"
    in_fork(_make, str(path), True, uid=NOBODY)
    report = in_fork(_in_read_only_directory, str(path), uid=NOBODY)
    assert report["refused"]["type"] == "StorageError"
    assert report["refused"]["errno"] == errno.EACCES
    assert report["refused"]["path"].startswith(str(path))
    assert report["seq"] == 2
    assert_holds(path, [1, 2])


def _open_both_ways(path: str) -> dict[str, Any]:
    def read() -> None:
        with opened(Path(path), mode="read") as reader:
            assert [event.data for event in reader.events()] == [1]

    return {
        "own": refusal(lambda: opened(Path(path))),
        "made": refusal(lambda: opened(Path(path), create=False)),
        "read": refusal(read),
    }


def test_read_only_directory_with_an_unclean_end_is_refused_and_can_be_read(
    public_place: Path,
) -> None:
    path = public_place / "s"
    in_fork(_make, str(path), False, uid=NOBODY)
    segment = (path / "events_0001.jsonl").read_bytes()
    path.chmod(0o500)
    report = in_fork(_open_both_ways, str(path), uid=NOBODY)
    path.chmod(0o700)
    assert report["own"]["type"] == report["made"]["type"] == "StorageError"
    assert report["own"]["errno"] == errno.EACCES
    assert report["read"]["type"] is None
    assert (path / "events_0001.jsonl").read_bytes() == segment
    assert_holds(path, [1])


@pytest.mark.parametrize("name", ["owner", "lock"])
def test_read_only_lock_file_is_refused_and_can_be_read(public_place: Path, name: str) -> None:
    path = public_place / "s"
    in_fork(_make, str(path), True, uid=NOBODY)
    (path / name).chmod(0o400)
    report = in_fork(_open_both_ways, str(path), uid=NOBODY)
    assert report["own"]["type"] == "StorageError"
    assert report["own"]["errno"] == errno.EACCES
    assert report["read"]["type"] is None
    (path / name).chmod(0o600)
    assert_holds(path, [1])


@pytest.mark.parametrize("name", ["meta.json", "events_0001.jsonl", "lock"])
def test_unreadable_file_is_an_error_of_the_system_never_a_missing_one(
    public_place: Path, name: str
) -> None:
    path = public_place / "s"
    # After a clean close the snapshot would do, and no segment be read.
    in_fork(_make, str(path), not name.startswith("events_"), uid=NOBODY)
    (path / name).chmod(0)
    before = tree(path)
    report = in_fork(_open_both_ways, str(path), uid=NOBODY)
    for way in ("own", "made", "read"):
        assert report[way]["type"] == "StorageError", report[way]
        assert report[way]["errno"] == errno.EACCES
    (path / name).chmod(0o600)
    assert {**tree(path), "owner": b""} == {**before, "owner": b""}
    assert_holds(path, [1])


@pytest.mark.parametrize("closed", ["the session", "its parent"])
def test_directory_of_another_user_is_refused(public_place: Path, closed: str) -> None:
    path = public_place / "store" / "s"
    path.parent.mkdir(mode=0o755)
    _make(str(path), True)
    (path if closed == "the session" else path.parent).chmod(0o700)
    before = tree(path)
    report = in_fork(_open_both_ways, str(path), uid=NOBODY)
    for way in ("own", "made", "read"):
        assert report[way]["type"] == "StorageError"
        assert report[way]["errno"] == errno.EACCES
        assert str(path) in report[way]["text"]
    assert tree(path) == before


def test_parent_of_another_user_refuses_a_new_session(public_place: Path) -> None:
    parent = public_place / "store"
    parent.mkdir(mode=0o755)
    refused = in_fork(lambda path: refusal(lambda: opened(Path(path))), f"{parent}/s", uid=NOBODY)
    assert (refused["type"], refused["errno"]) == ("StorageError", errno.EACCES)
    assert os.listdir(parent) == []


# -- not a session ----------------------------------------------------------------------------


def test_missing_parent_is_said_and_not_made(tmp_path: Path) -> None:
    path = tmp_path / "no" / "where" / "s"
    with pytest.raises(StorageError, match=f"Make {path.parent} first") as caught:
        opened(path)
    assert_told(caught.value, path)
    for more in ({"create": False}, {"mode": "read"}):
        with pytest.raises(SessionNotFoundError):
            opened(path, **more)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("more", [{}, {"create": False}, {"mode": "read"}])
def test_path_that_is_a_file_is_refused_and_left_alone(tmp_path: Path, more: Any) -> None:
    path = tmp_path / "s"
    path.write_bytes(b"mine")
    with pytest.raises((SessionNotFoundError, StorageError)) as caught:
        opened(path, **more)
    assert_told(caught.value, path)
    assert path.read_bytes() == b"mine"
    assert os.listdir(tmp_path) == ["s"]


@pytest.mark.parametrize("more", [{}, {"create": False}, {"mode": "read"}])
def test_directory_of_foreign_files_is_no_session_and_is_left_alone(
    tmp_path: Path, more: Any
) -> None:
    path = tmp_path / "s"
    path.mkdir()
    for name in ("README", "events_1.jsonl", "events_00001.jsonl", "meta.json.bak", "a.jsonl"):
        (path / name).write_text(name)
    before = tree(tmp_path)
    with pytest.raises(SessionNotFoundError) as caught:
        opened(path, **more)
    assert_told(caught.value, path)
    assert tree(tmp_path) == before


def test_foreign_files_in_a_session_are_listed_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s"
    _make(str(path), False)
    foreign = ("README", "events_1.jsonl", "notes.tmp", "snapshot.json", ".hidden")
    for name in foreign:
        (path / name).write_text(name)
    with opened(path) as engine:
        engine.append("n", 2)
        engine.snapshot()
    assert verify(str(path), files=RealFiles()).foreign == sorted(foreign)
    for name in foreign:
        assert (path / name).read_text() == name
    assert_holds(path, [1, 2])


def test_files_and_directories_are_for_their_owner_only_whatever_the_umask(tmp_path: Path) -> None:
    path = tmp_path / "s"
    previous = os.umask(0)
    try:
        with opened(path) as engine:
            engine.append("n", 1)
            engine.snapshot()
    finally:
        os.umask(previous)
    modes = {stat.S_IMODE(one.stat().st_mode) for one in path.iterdir()}
    assert modes == {0o600}
    assert stat.S_IMODE(path.stat().st_mode) == 0o700


# -- a sync that fails ------------------------------------------------------------------------


class FailingFiles(RealFiles):
    """The next call of the method named by `failing` raises, once."""

    def __init__(self) -> None:
        super().__init__()
        self.failing: dict[str, int] = {}

    def _fail(self, name: str) -> None:
        code = self.failing.pop(name, None)
        if code is not None:
            raise OSError(code, os.strerror(code))

    def read_at(self, fd: int, size: int, offset: int) -> bytes:
        self._fail("read_at")
        return super().read_at(fd, size, offset)

    def sync(self, fd: int) -> None:
        self._fail("sync")
        super().sync(fd)

    def sync_dir(self, path: str) -> None:
        self._fail("sync_dir")
        super().sync_dir(path)


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
def test_failed_sync_fails_the_handle_and_the_next_open_proves_the_tail(
    tmp_path: Path, code: int
) -> None:
    path = tmp_path / "s"
    files = FailingFiles()
    engine = opened(path, files=files)
    engine.append("n", 1)
    files.failing["sync"] = code
    with pytest.raises(SessionFailedError) as caught:
        engine.append_many([("n", 2), ("n", 3)])
    assert caught.value.unknown == (2, 3)
    assert caught.value.seq == 1
    assert_told(caught.value, path)
    for attempt in (lambda: engine.append("n", 4), engine.rotate, engine.snapshot, engine.flush):
        with pytest.raises(SessionFailedError):
            attempt()
    assert (engine.last_seq, engine.state) == (1, 1)
    engine.close()
    inode = (path / "events_0001.jsonl").stat().st_ino
    with opened(path) as again:
        assert [event.data for event in again.events()] == [1, 2, 3]
        # The tail was not trusted as it stands: it is in a new, synced file.
        assert (path / "events_0001.jsonl").stat().st_ino != inode
    assert_holds(path, [1, 2, 3])


def test_failed_sync_of_the_directory_fails_the_handle_with_nothing_unknown(
    tmp_path: Path,
) -> None:
    path = tmp_path / "s"
    files = FailingFiles()
    engine = opened(path, files=files)
    engine.append("n", 1)
    engine.rotate()
    files.failing["sync_dir"] = errno.EIO
    with pytest.raises(SessionFailedError) as caught:
        engine.append("n", 2)
    assert caught.value.unknown is None
    assert_told(caught.value, path)
    engine.close()
    assert_holds(path, [1])


@pytest.mark.parametrize("mode", ["own", "read"])
def test_read_that_fails_is_an_error_of_the_system_and_can_be_tried_again(
    tmp_path: Path, mode: Any
) -> None:
    path = tmp_path / "s"
    _make(str(path), True)
    files = FailingFiles()
    with opened(path, files=files, mode=mode) as engine:
        files.failing["read_at"] = errno.EIO
        with pytest.raises(StorageError) as caught:
            list(engine.events())
        assert caught.value.errno == errno.EIO
        assert_told(caught.value, path)
        assert [event.data for event in engine.events()] == [1]


def report_under_faults(path: str) -> None:
    """Run under strace: works, says what was acknowledged and how the first fault showed."""
    said: dict[str, Any] = {"acked": None, "error": None, "unknown": None, "later": None}
    try:
        engine = opened(Path(path), segment_bytes=600)
        for n in range(1, 6):
            said["acked"] = engine.append("n", n).to_json()
            if n == 3:
                engine.snapshot()
    except DurasessError as error:
        said["error"] = type(error).__name__
        said["unknown"] = getattr(error, "unknown", None)
        if said["error"] == "SessionFailedError":
            said["later"] = refusal(lambda: engine.append("n", 99))["type"]
    with contextlib.suppress(NameError, DurasessError):
        engine.close()
    print(json.dumps(said))


@pytest.fixture(scope="module")
def strace() -> list[str]:
    """The command, when it works here."""
    return working_strace()


def under(strace: list[str], path: Path, call: str, nth: int) -> dict[str, Any]:
    """The report of a process whose nth such system call fails with EIO."""
    # A launcher script in front of the interpreter would be traced too.
    python = os.path.realpath(sys.executable)
    inject = ["-e", f"trace={call}", "-e", f"inject={call}:error=EIO:when={nth}"]
    done = subprocess.run(
        [*strace, *inject, python, __file__, str(path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(("call", "nths"), [("fdatasync", range(1, 12)), ("fsync", range(1, 7))])
def test_each_sync_of_a_real_process_that_fails_once_loses_nothing(
    tmp_path: Path, strace: list[str], call: str, nths: range
) -> None:
    outcomes = []
    for nth in nths:
        path = tmp_path / f"s{nth}"
        report = under(strace, path, call, nth)
        outcomes.append(report["error"])
        acked = Receipt.from_json(report["acked"]) if report["acked"] else None
        seq = acked.seq if acked else 0
        assert report["later"] == (
            "SessionFailedError" if report["error"] == "SessionFailedError" else None
        )
        with opened(path, at_least=acked) as engine:
            first, last = report["unknown"] or (seq + 1, seq)
            assert first == seq + 1
            assert seq <= engine.last_seq <= max(last, seq)
            data = [event.data for event in engine.events()]
            assert data == list(range(1, engine.last_seq + 1))
        assert verify(str(path), files=RealFiles()).damage == []
    print(f"\n{call}: {outcomes}")
    assert "SessionFailedError" in outcomes


# -- a disk that becomes read-only ------------------------------------------------------------


def test_disk_remounted_read_only_is_refused_can_be_read_and_works_again(
    small_disk: Callable[..., SmallDisk],
) -> None:
    disk = small_disk()
    engine = opened(disk.session)
    engine.append("n", 1)
    engine.abandon()
    subprocess.run(["mount", "-o", "remount,ro", str(disk.root)], check=True)
    try:
        before = tree(disk.session)
        for path in (disk.session, disk.root / "new"):
            with pytest.raises(StorageError) as caught:
                opened(path)
            assert caught.value.errno == errno.EROFS
            assert_told(caught.value, path)
        with opened(disk.session, mode="read") as reader:
            assert [event.data for event in reader.events()] == [1]
        assert verify(str(disk.session), files=RealFiles()).damage == []
        assert tree(disk.session) == before
    finally:
        subprocess.run(["mount", "-o", "remount,rw", str(disk.root)], check=True)
    assert_holds(disk.session, [1])


class ReadOnlyFiles(RealFiles):
    """What an open handle meets when the kernel makes the disk read-only after an error: a plain
    remount is refused while files are open for writing."""

    def __init__(self) -> None:
        super().__init__()
        self.read_only = False

    def _check(self, path: str | None = None) -> None:
        if self.read_only:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)

    def create(self, path: str) -> int:
        self._check(path)
        return super().create(path)

    def write_at(self, fd: int, data: bytes, offset: int) -> int:
        self._check()
        return super().write_at(fd, data, offset)

    def truncate(self, fd: int, size: int) -> None:
        self._check()
        super().truncate(fd, size)

    def replace(self, source: str, target: str) -> None:
        self._check(source)
        super().replace(source, target)

    def unlink(self, path: str) -> None:
        self._check(path)
        super().unlink(path)


def test_disk_that_turns_read_only_under_a_handle_fails_it_and_keeps_what_was_acknowledged(
    tmp_path: Path,
) -> None:
    path = tmp_path / "s"
    files = ReadOnlyFiles()
    engine = opened(path, files=files)
    engine.append("n", 1)
    files.read_only = True
    with pytest.raises(SessionFailedError) as caught:
        engine.append("n", 2)
    assert_told(caught.value, path)
    assert caught.value.unknown == (2, 2)
    with pytest.raises(SessionFailedError):
        engine.append("n", 3)
    engine.close()
    files.read_only = False
    assert_holds(path, [1])


if __name__ == "__main__":
    report_under_faults(sys.argv[1])
