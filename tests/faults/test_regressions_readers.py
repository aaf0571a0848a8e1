"""Faults found by review: damage that a reader must pass, and openings that must change nothing."""

import errno
import time
import zlib
from decimal import Decimal

import pytest

from durasess import DurasessError, Engine, StorageError
from durasess.cli.main import main
from durasess.engine import codec, frames, paths
from durasess.engine.files import RealFiles
from durasess.engine.repair import repair
from durasess.engine.verify import verify
from tests.faults.tails import write_on
from tests.support.sessions import (
    SIM_SEGMENT,
    lines_of,
    make_session,
    make_snapshots,
    make_unclean,
    open_inline,
    open_session,
    open_sim,
    segment_path,
    sim_disk,
    state_of,
    unacknowledged,
    unchanged,
)
from tests.support.sim_files import Killed

MANY_CALLS = 5_000
"""Far more looks at the disk than a small session needs."""


class Counted(RealFiles):
    """A disk on which an endless search is found."""

    calls = 0

    def _count(self):
        self.calls += 1
        assert self.calls < MANY_CALLS, "an endless search"

    def stat(self, path):
        self._count()
        return super().stat(path)

    def open(self, path, *, write=False):
        self._count()
        return super().open(path, write=write)


@pytest.fixture
def apart(tmp_path_factory):
    """A directory for bytes on which the second reader need not agree: it is not made for them."""
    return tmp_path_factory.mktemp("apart")


def try_all(path):
    """Every way to look at a session; each succeeds or raises an error of the library."""
    for look in (
        lambda: list(open_inline(path, mode="read", files=Counted()).events()),
        lambda: open_inline(path, mode="read", files=Counted()).first_seq,
        lambda: verify(str(path), files=Counted()),
        lambda: repair(str(path), files=Counted()),
        lambda: main(["inspect", str(path)]),
        lambda: main(["inspect", str(path), "--events"]),
        lambda: main(["verify", str(path)]),
    ):
        try:
            look()
        except DurasessError:
            continue


# Repair of what an editor saved


EDITORS = {
    "CRLF": lambda data: data.replace(b"\n", b"\r\n"),
    "BOM": lambda data: b"\xef\xbb\xbf" + data,
}


@pytest.mark.parametrize("editor", EDITORS)
def test_repair_of_a_damaged_segment_from_an_editor_is_done_once(tmp_path, editor):
    path = make_session(tmp_path / "s1", 8)
    saved = EDITORS[editor](segment_path(path).read_bytes())
    segment_path(path).write_bytes(saved.replace(b'"data":5', b'"data":9'))
    assert repair(path, files=RealFiles(), apply=True).kept_through == 4
    assert verify(path, files=RealFiles()).damage == []
    with unchanged(path):
        assert repair(path, files=RealFiles(), apply=True).actions == []
    with open_inline(path) as engine:
        assert engine.state == [1, 2, 3, 4]


# Openings that fail


class Unwritable(RealFiles):
    """A disk on which one name may be read only."""

    def __init__(self, name):
        super().__init__()
        self.name = name

    def open(self, path, *, write=False):
        if write and path.endswith(f"/{self.name}"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return super().open(path, write=write)


@pytest.mark.parametrize("name", [paths.LOCK, paths.OWNER])
def test_open_with_an_unwritable_lock_file_changes_nothing_at_an_unclean_end(tmp_path, name):
    path = make_unclean(tmp_path / "s1")
    write_on(segment_path(path), unacknowledged(path, 4)[:-9])
    with unchanged(path), pytest.raises(StorageError) as caught:
        open_inline(path, files=Unwritable(name))
    assert caught.value.errno == errno.EACCES
    with open_inline(path) as engine:
        assert engine.state == [1, 2, 3]


def test_open_on_a_full_disk_changes_nothing_at_an_unclean_end():
    files = sim_disk()
    engine = open_sim(files)
    engine.append("t", 1)
    files.kill_write(30, where=SIM_SEGMENT)
    with pytest.raises(Killed):
        engine.append("t", 2)
    files.die()
    engine._closed = True
    files.quota, before = files.used(), files.tree()
    with pytest.raises(StorageError):
        open_sim(files)
    assert files.tree() == before


# Segments with huge numbers


def test_events_without_meta_beside_a_stray_huge_segment_end_with_damage(tmp_path):
    path = make_session(tmp_path / "s1")
    (tmp_path / "s1" / paths.META).unlink()
    segment_path(path, 900_000_000_000).write_bytes(b"x\n")
    with open_inline(path, mode="read", files=Counted()) as engine:
        assert [event.data for event in engine.events()] == [1, 2, 3]
        assert engine.damage


@pytest.mark.parametrize("with_meta", [True, False])
def test_segment_with_the_highest_number_raises_no_value_error(tmp_path, with_meta):
    path = make_session(tmp_path / "s1")
    segment_path(path, paths.MAX_SEGMENT - 1).write_bytes(b"x\n")
    if not with_meta:
        (tmp_path / "s1" / paths.META).unlink()
    try_all(path)


@pytest.mark.parametrize("number", [paths.MAX_SEGMENT - 1, paths.MAX_SEGMENT, 10**30])
def test_meta_that_knows_a_segment_out_of_range_raises_no_value_error(tmp_path, number):
    path = make_session(tmp_path / "s1")
    edit_line(tmp_path / "s1" / paths.META, active=number)
    try_all(path)


# Lines and fields that have a good checksum and are no good


def edit_line(file, **members):
    """Other members in a line with a crc; the crc is right."""
    fields = codec.control(file.read_bytes().partition(b"\n")[0])
    del fields["crc"]
    file.write_bytes(codec.control_line(fields | members))


def edit_trailer(file, **members):
    """Other members in the trailer of a snapshot; the crc is right."""
    data = file.read_bytes()
    rest = frames.decompress(data)[1]
    fields = codec.control(frames.unskippable(rest)[:-1])
    del fields["crc"]
    line = frames.skippable(codec.control_line(fields | members))
    file.write_bytes(data[: -len(rest)] + line)


def relined(text, chain):
    """A line from its text without the crc, and the chain value after it."""
    crc = zlib.crc32(text, chain)
    return b'%s,"crc":"%08x"}' % (text, crc), crc


HEAD = b'{"seq":2,"ts":"2026-01-01T00:00:00.000000Z","type":"t"'
NO_EVENTS = {
    "no data": b"",
    "seq twice": b',"data":2,"seq":7',
    "run id": b',"run_id":5,"data":2',
    "no json": b',"data":{',
}


@pytest.mark.parametrize("kind", NO_EVENTS)
def test_reader_passes_a_line_with_a_good_crc_that_is_no_event(tmp_path, kind):
    path = make_unclean(tmp_path / "s1", 3)
    header, first, _, third = lines_of(segment_path(path))
    second, chain = relined(HEAD + NO_EVENTS[kind], codec.stored_crc(first))
    third, _ = relined(third[: -codec.CRC_SUFFIX], chain)
    segment_path(path).write_bytes(b"\n".join([header, first, second, third, b""]))
    with open_session(path, mode="read") as engine:
        assert [event.seq for event in engine.events()] == [1, 3]
        assert engine.damage[0].first_seq == 2


LONE = "\ud800"


@pytest.mark.parametrize("name", ["session_id", "created", "updated", "summary", "floor", LONE])
def test_lone_surrogate_in_meta_raises_no_unicode_error(apart, name):
    path = make_session(apart / "s1")
    value = {"summary": {"seq": 3, "data": LONE}, "floor": {"crc": LONE}}.get(name, LONE)
    edit_line(apart / "s1" / paths.META, **{name: value})
    try_all(path)


@pytest.mark.parametrize("name", ["session_id", "chain", "phase", LONE])
def test_lone_surrogate_in_the_anchor_raises_no_unicode_error(tmp_path, name):
    path = make_session(tmp_path / "s1")
    edit_line(tmp_path / "s1" / paths.LOCK, **{name: LONE})
    try_all(path)
    assert state_of(path) == [1, 2, 3]


@pytest.mark.parametrize("name", ["session_id", "chain", "ts", "frame", "document", LONE])
def test_lone_surrogate_in_a_snapshot_trailer_raises_no_unicode_error(tmp_path, name):
    path = make_snapshots(tmp_path / "s1", 3)
    edit_trailer(tmp_path / "s1" / paths.SNAPSHOT, **{name: LONE})
    try_all(path)
    with open_inline(path) as engine:
        assert engine.state == [1, 2, 3]


def test_integer_of_400_000_digits_in_meta_is_answered_quickly(apart):
    path = make_session(apart / "s1")
    text = lines_of(apart / "s1" / paths.META)[0][: -codec.CRC_SUFFIX]
    line, _ = relined(text + b',"x":' + b"9" * 400_000, codec.CHAIN_START)
    (apart / "s1" / paths.META).write_bytes(line + b"\n")
    begun = time.process_time()
    assert int(Decimal("9" * 100_000))
    slow = time.process_time()
    assert state_of(path) == [1, 2, 3]
    # Decoding all of it takes sixteen times as long as that quarter.
    assert time.process_time() - slow < slow - begun


# Paths


def test_relative_path_in_a_directory_that_is_gone_is_an_error_of_the_library(
    tmp_path, monkeypatch
):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(DurasessError):
        Engine.open("s1")


@pytest.mark.parametrize("name", ["\ud800/s1", "s\ud800", "\udcff/s1"])
@pytest.mark.parametrize("mode", ["own", "read"])
def test_path_with_a_lone_surrogate_is_an_error_of_the_library(tmp_path, mode, name):
    with pytest.raises(DurasessError):
        Engine.open(f"{tmp_path}/{name}", mode=mode)
