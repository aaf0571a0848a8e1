"""Snapshot files: valid if and only if FORMAT.md §5 says so, and published so that one is always
whole."""

import errno
from typing import Any

import msgspec
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from durasess.engine import codec, frames, paths, snapshot
from durasess.engine.snapshot import Document, RememberedId, Trailer
from durasess.engine.types import LineError
from tests.support.lines import (
    DIRECTORY,
    SESSION,
    TS,
    UNHURRIED,
    disk_with,
    flips,
    json_values,
    texts,
)

IDS = [RememberedId("e1", 3, "0a1b2c3d", "ab" * 16), RememberedId("e2", 40, "00000001", "cd" * 16)]
CONTENT = snapshot.document(42, IDS, b'{"n":[1,2]}')
FIELDS = {
    "session_id": SESSION,
    "seq": 42,
    "chain": "0a1b2c3d",
    "segment": 3,
    "schema_version": 2,
    "ts": TS,
}
DATA = snapshot.encoded(CONTENT, **FIELDS)
NEWEST, PREVIOUS = "/s1/snapshot.json.zst", "/s1/snapshot.prev.json.zst"
TMP = paths.snapshot_tmp(None)
TEMPORARY = f"{DIRECTORY}/{TMP}"


def parts(data: bytes) -> tuple[bytes, dict[str, Any]]:
    """The zstd frame of a snapshot and the members of its trailer."""
    _, rest = frames.decompress(data)
    return data[: -len(rest)], codec.control(frames.unskippable(rest)[:-1])


def with_trailer(**changes: Any) -> bytes:
    """The snapshot with these members in its trailer ("-": without it), whose crc agrees."""
    frame, fields = parts(DATA)
    del fields["crc"]
    members = {name: value for name, value in {**fields, **changes}.items() if value != "-"}
    return frame + frames.skippable(codec.control_line(members))


def with_document(content: bytes) -> bytes:
    """A snapshot with this content, whose hashes agree."""
    return snapshot.encoded(content, **FIELDS)


def refused(data: bytes) -> LineError:
    with pytest.raises(LineError) as caught:
        snapshot.parse(data, SESSION)
    return caught.value


# document and encoded


def test_document_is_one_json_object_and_a_line_feed() -> None:
    assert CONTENT == (
        b'{"seq":42,"event_ids":[["e1",3,"0a1b2c3d","' + b"ab" * 16 + b'"],'
        b'["e2",40,"00000001","' + b"cd" * 16 + b'"]],"state":{"n":[1,2]}}\n'
    )
    assert snapshot.document(0, [], b"null") == b'{"seq":0,"event_ids":[],"state":null}\n'


def test_snapshot_is_a_frame_and_a_skippable_frame_with_the_trailer() -> None:
    frame, trailer = parts(DATA)
    assert frame == frames.compress(CONTENT)
    line = frames.unskippable(DATA[len(frame) :])
    assert line.startswith(b'{"snapshot":1,"session_id":"s1","seq":42,"chain":"0a1b2c3d",')
    assert line.endswith(b'"}\n') and codec.check(line[:-1], codec.CHAIN_START)
    assert trailer["frame"] == codec.digest(frame)
    assert trailer["document"] == codec.digest(CONTENT)


def test_other_programs_read_the_document_and_pass_over_the_trailer() -> None:
    with zstandard.ZstdDecompressor().stream_reader(DATA, read_across_frames=True) as reader:
        assert reader.read() == CONTENT


# parse


def test_snapshot_comes_back() -> None:
    trailer, document = snapshot.parse(DATA, SESSION)
    assert trailer == Trailer(
        **FIELDS, frame=codec.digest(parts(DATA)[0]), document=codec.digest(CONTENT)
    )
    assert document == Document(seq=42, event_ids=IDS, state=msgspec.Raw(b'{"n":[1,2]}'))


@given(json_values, st.lists(texts, max_size=3))
@UNHURRIED
def test_any_state_and_any_event_ids_come_back_equal(state: Any, names: list[str]) -> None:
    ids = [RememberedId(name, 1, "00000000", "") for name in names]
    content = snapshot.document(42, ids, codec.encode(state))
    _, document = snapshot.parse(with_document(content), SESSION)
    assert document.event_ids == ids
    assert repr(codec.decode(bytes(document.state))) == repr(state)


def test_every_flipped_bit_of_a_snapshot_is_noticed() -> None:
    for changed in flips(DATA):
        refused(changed)


def test_snapshot_cut_anywhere_or_with_anything_behind_it_is_refused() -> None:
    for size in range(len(DATA)):
        refused(DATA[:size])
    for behind in (b"\0", b"\n", DATA, frames.skippable(b"")):
        refused(DATA + behind)


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (parts(DATA)[0], "trailer"),
        (DATA[len(parts(DATA)[0]) :], "zstd"),
        (frames.skippable(b"") + DATA, "zstd"),
        (parts(DATA)[0] + DATA, "trailer"),
        (parts(DATA)[0] + frames.skippable(b""), "trailer"),
        (parts(DATA)[0] + frames.skippable(b"not a line\n"), "line"),
        (parts(DATA)[0] + frames.skippable(codec.control_line({"snapshot": 1})[:-1]), "trailer"),
        (parts(DATA)[0] + frames.skippable(codec.control_line({"snapshot": 1}, 1)), "crc"),
    ],
)
def test_file_that_is_not_exactly_these_two_frames_is_refused(data: bytes, rule: str) -> None:
    assert refused(data).rule == rule


@pytest.mark.parametrize(("checksum", "size"), [(False, True), (True, False)])
def test_document_without_checksum_or_size_is_refused(checksum: bool, size: bool) -> None:
    compressor = zstandard.ZstdCompressor(write_checksum=checksum, write_content_size=size)
    frame = compressor.compress(CONTENT)
    trailer = {**parts(DATA)[1], "frame": codec.digest(frame)}
    del trailer["crc"]
    assert refused(frame + frames.skippable(codec.control_line(trailer))).rule == "zstd"


@pytest.mark.parametrize(
    ("changes", "rule", "reason"),
    [
        ({"session_id": "s2"}, "session", "it belongs to session 's2'"),
        ({"frame": "00" * 16}, "trailer", "the compressed bytes do not hash to the trailer's"),
        ({"document": "00" * 16}, "trailer", "the document does not hash to the trailer's"),
        ({"seq": 41}, "document", "seq 42, but the trailer says 41"),
        ({"snapshot": 2}, "format", "snapshot format 2 is newer"),
        ({"chain": "0A1B2C3D"}, "json", "expected eight hex digits, found '0A1B2C3D'"),
        ({"seq": "42"}, "trailer", "not the fields of a trailer: Expected `int`, got `str`"),
        ({"segment": None}, "trailer", "not the fields of a trailer: "),
        ({"ts": "-"}, "trailer", "not the fields of a trailer: "),
    ],
)
def test_trailer_that_does_not_fit_is_refused(changes: Any, rule: str, reason: str) -> None:
    error = refused(with_trailer(**changes))
    assert error.rule == rule and error.reason.startswith(reason)


def test_members_of_a_newer_writer_are_passed_over() -> None:
    trailer, _ = snapshot.parse(with_trailer(host="build-7"), SESSION)
    assert trailer == snapshot.parse(DATA, SESSION)[0]
    for text in ("note", "\ud800"):
        more = CONTENT[:-2] + b',"more":%s}\n' % codec.encode(text)
        assert snapshot.parse(with_document(more), SESSION)[1].event_ids == IDS


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"[1]\n",
        b'"\\ud800"\n',
        b"not json\n",
        b'{"seq":42,"state":1}\n',
        b'{"seq":42,"event_ids":[]}\n',
        b'{"event_ids":[],"state":1}\n',
        b'{"seq":42,"event_ids":{},"state":1}\n',
        b'{"seq":42,"event_ids":[["e1",3]],"state":1}\n',
        b'{"seq":42,"event_ids":[["e1","3","",""]],"state":1}\n',
        b'{"seq":"42","event_ids":[],"state":1}\n',
        b'{"seq":42,"event_ids":[],"state":1}{}\n',
        b'{"seq":42,"event_ids":[],"state":}\n',
    ],
)
def test_document_without_its_members_is_refused(content: bytes) -> None:
    assert refused(with_document(content)).rule in ("document", "json")


def test_document_of_another_seq_is_refused_in_either_decoder() -> None:
    for state in (b"1", b'{"\\ud800":1}'):
        error = refused(with_document(snapshot.document(43, [], state)))
        assert (error.rule, error.reason) == ("document", "seq 43, but the trailer says 42")


# read


def test_snapshot_is_read_from_its_directory() -> None:
    disk = disk_with(SNAPSHOT=DATA)
    assert snapshot.read(disk, DIRECTORY, paths.SNAPSHOT, SESSION) == snapshot.parse(DATA, SESSION)
    assert disk.descriptors == {} and disk.log == []
    with pytest.raises(FileNotFoundError):
        snapshot.read(disk, DIRECTORY, paths.SNAPSHOT_PREVIOUS, SESSION)


def test_snapshot_that_the_system_cannot_read_is_an_error_and_not_a_bad_snapshot() -> None:
    disk = disk_with(SNAPSHOT=DATA)
    disk.fail("read_at", code=errno.EIO)
    with pytest.raises(OSError) as caught:
        snapshot.read(disk, DIRECTORY, paths.SNAPSHOT, SESSION)
    assert caught.value.errno == errno.EIO


# write_tmp


def test_snapshot_is_written_and_synced_under_its_temporary_name() -> None:
    disk = disk_with(SNAPSHOT=b"older")
    trailer = snapshot.write_tmp(disk, DIRECTORY, DATA, SESSION, TMP)
    assert trailer == snapshot.parse(DATA, SESSION)[0]
    assert disk.tree() == {DIRECTORY: None, NEWEST: b"older", TEMPORARY: DATA}
    assert [op.kind for op in disk.log] == ["link", "write", "sync"]


def test_snapshot_that_does_not_read_back_is_never_written() -> None:
    disk = disk_with(SNAPSHOT=b"older")
    for data, session_id in ((DATA[:-1], SESSION), (DATA, "s2"), (next(flips(DATA)), SESSION)):
        with pytest.raises(LineError):
            snapshot.write_tmp(disk, DIRECTORY, data, session_id, TMP)
    assert disk.log == []


# publish


def directory(**files: bytes) -> Any:
    disk = disk_with(**files)
    fd = disk.create(TEMPORARY)
    disk.write_at(fd, b"new", 0)
    disk.close(fd)
    disk.log.clear()
    return disk


def test_newest_becomes_the_previous_with_one_directory_sync() -> None:
    disk = directory(SNAPSHOT=b"newest", SNAPSHOT_PREVIOUS=b"previous")
    snapshot.publish(disk, DIRECTORY, tmp=TMP, newest_is_good=True)
    assert disk.tree() == {DIRECTORY: None, NEWEST: b"new", PREVIOUS: b"newest"}
    assert [op.kind for op in disk.log] == ["rename", "rename", "sync_dir"]
    assert [op.target_name for op in disk.log[:2]] == [paths.SNAPSHOT_PREVIOUS, paths.SNAPSHOT]


def test_bad_newest_does_not_push_out_the_previous() -> None:
    disk = directory(SNAPSHOT=b"bad", SNAPSHOT_PREVIOUS=b"previous")
    snapshot.publish(disk, DIRECTORY, tmp=TMP, newest_is_good=False)
    assert disk.tree() == {DIRECTORY: None, NEWEST: b"new", PREVIOUS: b"previous"}


def test_first_snapshot_is_published_alone() -> None:
    disk = directory()
    snapshot.publish(disk, DIRECTORY, tmp=TMP, newest_is_good=False)
    assert disk.tree() == {DIRECTORY: None, NEWEST: b"new"}


@pytest.mark.parametrize(("kind", "nth"), [("replace", 1), ("replace", 2), ("sync_dir", 1)])
def test_publish_that_fails_anywhere_leaves_the_newest_whole_under_some_name(
    kind: str, nth: int
) -> None:
    disk = directory(SNAPSHOT=b"newest", SNAPSHOT_PREVIOUS=b"previous")
    disk.fail(kind, nth=nth, code=errno.EIO)
    with pytest.raises(OSError) as caught:
        snapshot.publish(disk, DIRECTORY, tmp=TMP, newest_is_good=True)
    assert caught.value.errno == errno.EIO
    assert b"newest" in disk.tree().values() and b"new" in disk.tree().values()
