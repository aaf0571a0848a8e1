"""Segments as bytes: headers and seals that come back, lines split at line feeds and nowhere
else, plain files before compressed ones."""

import errno
import itertools
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from durasess.engine import codec, frames, paths, segment
from durasess.engine.files import RealFiles
from durasess.engine.records import Place
from durasess.engine.segment import Header, Line, Seal, Source
from durasess.engine.types import LineError
from durasess.errors import FormatVersionError
from tests.support.lines import (
    DIRECTORY,
    SESSION,
    TS,
    UNHURRIED,
    SegmentBytes,
    disk_with_segment,
    flips,
    segment_path,
)
from tests.support.sessions import make_segments, make_session, refused
from tests.support.sim_files import SimFiles

HEADER = Header(
    segment=3,
    session_id=SESSION,
    first_seq=41,
    chain="0a1b2c3d",
    schema_version=2,
    epoch=4,
    pid=4121,
    boot_id="boot",
    ts=TS,
)
SEAL = Seal(seal=3, last_seq=50, events=10, blake2b="ab" * 16)
PATH = segment_path(3)


def header_with(**changes: Any) -> bytes:
    """A header without its line feed, with these members ("-": without it); the crc agrees."""
    fields = {**msgspec.to_builtins(HEADER), **changes}
    chain = fields["chain"]
    seed = int(chain, 16) if isinstance(chain, str) and chain.isalnum() else 0
    return codec.control_line({k: v for k, v in fields.items() if v != "-"}, seed)[:-1]


def lines_of(content: bytes, start: int = 0, *, compressed: bool = False) -> list[Line]:
    disk = disk_with_segment(content, compressed=compressed)
    source = segment.open_source(disk, DIRECTORY, 1)
    try:
        return list(segment.lines(disk, source, start))
    finally:
        segment.close_source(disk, source)


# Source


@pytest.mark.parametrize("compressed", [False, True])
def test_source_reads_anywhere_and_fewer_bytes_only_at_its_end(compressed: bool) -> None:
    disk = disk_with_segment(b"abcdef", compressed=compressed)
    source = segment.open_source(disk, DIRECTORY, 1)
    assert source.size == 6
    assert source.read_at(disk, 3, 2) == b"cde"
    assert source.read_at(disk, 9, 4) == b"ef"
    assert source.read_at(disk, 9, 6) == b""


# header_line and seal_line


def test_header_is_a_line_whose_first_member_is_the_segment_and_whose_seed_is_its_chain() -> None:
    line = segment.header_line(HEADER)
    assert line.startswith(b'{"segment":3,"format":1,"session_id":"s1","first_seq":41,"chain":"0a')
    assert codec.check(line[:-1], 0x0A1B2C3D) and line.endswith(b"}\n")


def test_seal_is_a_line_whose_first_member_is_the_segment_and_whose_seed_is_given() -> None:
    line = segment.seal_line(SEAL, 77)
    assert line.startswith(b'{"seal":3,"last_seq":50,"events":10,"blake2b":"abab')
    assert codec.check(line[:-1], 77) and line.endswith(b"}\n")
    assert segment.parse_seal(line[:-1]) == SEAL


def test_header_with_a_chain_value_that_is_none_is_never_written() -> None:
    refused(segment.header_line, msgspec.structs.replace(HEADER, chain="0A1B2C3D"))


# present


@pytest.mark.parametrize("compressed", [False, True])
def test_segment_is_present_plain_or_compressed(compressed: bool) -> None:
    disk = disk_with_segment(b"", 12, compressed=compressed)
    assert segment.present(disk, DIRECTORY, 12) is True
    assert segment.present(disk, DIRECTORY, 1) is False


def test_segment_beyond_the_last_possible_number_is_not_present() -> None:
    assert segment.present(disk_with_segment(b""), DIRECTORY, paths.MAX_SEGMENT) is False


def test_segment_is_not_called_missing_because_of_an_error() -> None:
    disk = disk_with_segment(b"")
    disk.fail("stat", code=errno.EACCES)
    with pytest.raises(PermissionError):
        segment.present(disk, DIRECTORY, 1)


# open_source and close_source


def test_plain_segment_is_opened_with_its_identity_and_closed() -> None:
    disk = disk_with_segment(b"abc", 10000)
    source = segment.open_source(disk, DIRECTORY, 10000)
    inode = disk.stat(segment_path(10000)).inode
    assert source == Source(segment_path(10000), 10000, 3, source.fd, None, inode)
    segment.close_source(disk, source)
    assert disk.descriptors == {}


def test_compressed_segment_is_its_content() -> None:
    disk = disk_with_segment(b"abc", compressed=True)
    source = segment.open_source(disk, DIRECTORY, 1)
    path = segment_path(compressed=True)
    assert source == Source(path, 1, 3, -1, b"abc", (0, 0))
    assert disk.descriptors == {}
    segment.close_source(disk, source)


def test_plain_segment_wins_over_a_compressed_one() -> None:
    tree = {segment_path(): b"plain", segment_path(compressed=True): frames.compress(b"other")}
    source = segment.open_source(SimFiles.from_tree(tree), DIRECTORY, 1)
    assert (source.path, source.content, source.size) == (segment_path(), None, 5)


def test_missing_segment_raises() -> None:
    with pytest.raises(FileNotFoundError):
        segment.open_source(disk_with_segment(b""), DIRECTORY, 2)


def test_segment_that_cannot_be_opened_is_not_looked_for_compressed() -> None:
    tree = {segment_path(): b"plain", segment_path(compressed=True): frames.compress(b"other")}
    disk = SimFiles.from_tree(tree)
    disk.fail("open", code=errno.EIO)
    with pytest.raises(OSError) as caught:
        segment.open_source(disk, DIRECTORY, 1)
    assert caught.value.errno == errno.EIO


@pytest.mark.parametrize("behind", [b"\0", b"\n", b"x" * 40, frames.skippable(b"x")])
def test_bytes_behind_the_frames_of_a_compressed_segment_are_refused(behind: bytes) -> None:
    stored = frames.compress(b"abc") + behind
    disk = SimFiles.from_tree({segment_path(compressed=True): stored})
    assert refused(segment.open_source, disk, DIRECTORY, 1).rule == "zstd"


def test_frames_of_a_compressed_segment_follow_each_other() -> None:
    stored = frames.compress(b"abc") + frames.compress(b"") + frames.compress(b"def")
    disk = SimFiles.from_tree({segment_path(compressed=True): stored})
    source = segment.open_source(disk, DIRECTORY, 1)
    assert (source.size, source.content) == (6, b"abcdef")


def test_compressed_segment_that_is_cut_is_refused() -> None:
    stored = frames.compress(b"abc" * 50)
    for size in range(len(stored)):
        disk = SimFiles.from_tree({segment_path(compressed=True): stored[:size]})
        assert refused(segment.open_source, disk, DIRECTORY, 1).rule == "zstd"
        assert disk.descriptors == {}


def test_segment_that_cannot_be_looked_at_is_closed() -> None:
    disk = disk_with_segment(b"abc")
    disk.fail("fstat", code=errno.EIO)
    with pytest.raises(OSError):
        segment.open_source(disk, DIRECTORY, 1)
    assert disk.descriptors == {}


# lines


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"\n", [(0, b"", True)]),
        (b"a", [(0, b"a", False)]),
        (b"a\n", [(0, b"a", True)]),
        (b"a\nbc", [(0, b"a", True), (2, b"bc", False)]),
        (b"\n\na\n", [(0, b"", True), (1, b"", True), (2, b"a", True)]),
        (b"a\r\nb\n", [(0, b"a\r", True), (3, b"b", True)]),
    ],
)
@pytest.mark.parametrize("compressed", [False, True])
def test_content_is_split_into_lines_with_their_offsets(
    content: bytes, lines: list[tuple[int, bytes, bool]], compressed: bool
) -> None:
    assert lines_of(content, compressed=compressed) == lines


def test_only_a_line_feed_ends_a_line() -> None:
    text = "a\r\v\f\x1c\x1d\x1e\x85\u2028\u2029\0b".encode()
    assert lines_of(text + b"\nc") == [(0, text, True), (len(text) + 1, b"c", False)]


@given(st.lists(st.binary(max_size=5), max_size=6), st.integers(1, 9))
@UNHURRIED
def test_lines_are_the_same_whatever_is_read_at_once(texts: list[bytes], chunk: int) -> None:
    content = b"\n".join(texts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment, "CHUNK", chunk)
        found = lines_of(content)
    assert b"".join(line.text + b"\n" * line.ended for line in found) == content
    assert [line.offset for line in found] == [
        0,
        *itertools.accumulate(len(line.text) + 1 for line in found[:-1]),
    ][: len(found)]
    assert all(b"\n" not in line.text for line in found)
    assert all(line.ended for line in found[:-1])


def test_lines_begin_where_told() -> None:
    content = b"ab\ncd\nef"
    assert lines_of(content, 3) == [(3, b"cd", True), (6, b"ef", False)]
    assert lines_of(content, 8) == lines_of(content, 99) == []


def test_reads_are_bounded_however_long_the_segment_is(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    disk = disk_with_segment(b"x" * 25)
    read_at = disk.read_at

    def reading(fd: int, size: int, offset: int) -> bytes:
        sizes.append(size)
        return read_at(fd, size, offset)

    monkeypatch.setattr(segment, "CHUNK", 10)
    monkeypatch.setattr(disk, "read_at", reading)
    source = segment.open_source(disk, DIRECTORY, 1)
    assert list(segment.lines(disk, source)) == [(0, b"x" * 25, False)]
    assert sizes == [10, 10, 5]


def test_bytes_that_came_after_the_segment_was_opened_are_not_read() -> None:
    disk = disk_with_segment(b"a\nb\n")
    source = segment.open_source(disk, DIRECTORY, 1)
    disk.write_at(disk.open(segment_path(), write=True), b"c\nd\n", 2)
    assert list(segment.lines(disk, source)) == [(0, b"a", True), (2, b"c", True)]


def test_segment_that_became_shorter_while_it_was_read_ends_there() -> None:
    disk = disk_with_segment(b"a\nbcd\n")
    source = segment.open_source(disk, DIRECTORY, 1)
    disk.truncate(disk.open(segment_path(), write=True), 3)
    assert list(segment.lines(disk, source)) == [(0, b"a", True), (2, b"b", False)]


# parse_header


def test_header_comes_back() -> None:
    assert segment.parse_header(segment.header_line(HEADER)[:-1], PATH) == HEADER
    assert segment.parse_header(header_with(host="build-7"), PATH) == HEADER


def test_header_made_for_tests_is_the_writers() -> None:
    found = segment.parse_header(SegmentBytes(2, after=Place(7, 9)).content[:-1], PATH)
    assert (found.segment, found.first_seq, found.chain) == (2, 8, "00000009")


def test_every_flipped_bit_and_every_cut_of_a_header_is_noticed() -> None:
    line = segment.header_line(HEADER)[:-1]
    for changed in (*flips(line), *(line[:size] for size in range(len(line)))):
        with pytest.raises((LineError, FormatVersionError)):
            segment.parse_header(changed, PATH)


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"session_id": "-"}, "header"),
        ({"session_id": 7}, "header"),
        ({"segment": "3"}, "header"),
        ({"first_seq": 1.5}, "header"),
        ({"epoch": None}, "header"),
        ({"boot_id": "-"}, "header"),
        ({"chain": 7}, "header"),
        ({"chain": "0A1B2C3D"}, "json"),
        ({"chain": "0a1b2c3"}, "json"),
    ],
)
def test_line_without_the_fields_of_a_header_is_refused(changes: dict[str, Any], rule: str) -> None:
    error = refused(segment.parse_header, header_with(**changes), PATH)
    assert error.rule == rule
    if rule == "header":
        assert error.reason.startswith("not the fields of a header: ")


def test_header_whose_crc_has_another_seed_is_refused() -> None:
    line = codec.control_line(msgspec.to_builtins(HEADER), 0)[:-1]
    assert refused(segment.parse_header, line, PATH).rule == "crc"


@pytest.mark.parametrize("line", [b"", b"[1]", b"not json", b"7"])
def test_line_that_is_no_object_is_no_header(line: bytes) -> None:
    assert refused(segment.parse_header, line, PATH).rule == "json"


@pytest.mark.parametrize("found", [2, 99])
def test_newer_format_is_another_error_whether_the_crc_agrees_or_not(found: int) -> None:
    line = header_with(format=found, chain="-")
    for text in (line, line.replace(TS.encode(), b"then")):
        with pytest.raises(FormatVersionError, match=rf"says format {found};") as caught:
            segment.parse_header(text, PATH)
        assert caught.value.path == PATH
        assert "reads format 1 to 1. Upgrade durasess" in str(caught.value)


@pytest.mark.parametrize("found", [True, 2.0, "2", None, 0, -1])
def test_format_that_is_no_number_from_1_is_refused(found: Any) -> None:
    error = refused(segment.parse_header, header_with(format=found), PATH)
    assert (error.rule, error.reason) == ("header", f"format is {found!r}")


# parse_seal


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"seal": "3"}, "seal"),
        ({"last_seq": None}, "seal"),
        ({"events": 1.5}, "seal"),
        ({"blake2b": 7}, "seal"),
    ],
)
def test_line_without_the_fields_of_a_seal_is_refused(changes: dict[str, Any], rule: str) -> None:
    line = codec.control_line({**msgspec.to_builtins(SEAL), **changes})[:-1]
    error = refused(segment.parse_seal, line)
    assert error.rule == rule and error.reason.startswith("not the fields of a seal: ")


def test_line_that_is_no_object_is_no_seal() -> None:
    assert refused(segment.parse_seal, b'["seal"]').rule == "json"
    assert refused(segment.parse_seal, b'{"seal":').rule == "json"


# first_seq_of, lowest


def segments_of(path: Path, count: int) -> str:
    """A session with `count` sealed segments of two events each."""
    return str(make_segments(path / "s1", count))


def test_first_seq_of_a_segment(tmp_path: Path) -> None:
    path = segments_of(tmp_path, 3)
    assert [segment.first_seq_of(RealFiles(), path, n) for n in (1, 2, 9)] == [1, 3, None]


def test_first_seq_of_a_segment_whose_header_is_not_valid_is_0(tmp_path: Path) -> None:
    path = segments_of(tmp_path, 2)
    Path(path, "events_0002.jsonl").write_bytes(b"x\n")
    assert segment.first_seq_of(RealFiles(), path, 2) == 0


@pytest.mark.parametrize("compressed", [False, True])
def test_first_seq_of_a_segment_that_cannot_be_read_is_0(compressed: bool) -> None:
    stored = frames.compress(SegmentBytes().content)[:20] if compressed else b""
    disk = SimFiles.from_tree({segment_path(compressed=compressed): stored})
    assert segment.first_seq_of(disk, DIRECTORY, 1) == 0
    assert disk.descriptors == {}


def test_first_seq_of_a_compressed_segment_takes_its_beginning_alone(tmp_path: Path) -> None:
    """Random bytes are the worst case: zstd keeps its first block as it is."""
    header = segment.header_line(HEADER)
    noise = random.Random(1).randbytes(400_000)
    stored = frames.compress(header + noise)
    disk = SimFiles.from_tree({segment_path(HEADER.segment, compressed=True): stored[:-1]})
    assert segment.first_seq_of(disk, DIRECTORY, HEADER.segment) == HEADER.first_seq


def test_first_seq_of_a_segment_that_says_it_is_another_is_0(tmp_path: Path) -> None:
    path = segments_of(tmp_path, 2)
    Path(path, "events_0001.jsonl").replace(Path(path, "events_0002.jsonl"))
    assert segment.first_seq_of(RealFiles(), path, 2) == 0


def test_lowest_segment_is_that_of_the_unbroken_run(tmp_path: Path) -> None:
    path = segments_of(tmp_path, 4)
    assert segment.lowest(RealFiles(), path, 4) == 1
    Path(path, "events_0002.jsonl").unlink()
    assert segment.lowest(RealFiles(), path, 4) == 3


def test_lowest_segment_of_an_empty_session_is_the_first(tmp_path: Path) -> None:
    assert segment.lowest(RealFiles(), str(make_session(tmp_path / "s1", 0)), 1) == 1


# without_edits


@pytest.mark.parametrize("content", [b"", b"a\n", b"a\nb\n", b"a\rb\n\n"])
def test_what_an_editor_added_is_taken_away_and_nothing_else(content: bytes) -> None:
    edited = b"\xef\xbb\xbf" + content.replace(b"\n", b"\r\n")
    assert segment.without_edits(edited) == segment.without_edits(content) == content
