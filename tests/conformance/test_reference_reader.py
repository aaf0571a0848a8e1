"""The reference reader's verdict on sessions made by hand; each name says the verdict."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest
import zstandard

from tests.conformance.reference_reader import (
    ABSENT,
    SNAPSHOTS,
    VALID,
    Reading,
    UnsupportedFormat,
    is_session_id,
    main,
    read_session,
    verify_line,
)
from tests.conformance.session_builder import (
    NEWEST,
    PREVIOUS,
    SessionBuilder,
    crc_of,
    line_of,
    with_crc,
    zstd_frame,
)

SEGMENT_1 = "events_0001.jsonl"
SEGMENT_2 = "events_0002.jsonl"


@pytest.fixture
def session() -> SessionBuilder:
    """A segment with one event, still open; no other file."""
    builder = SessionBuilder()
    builder.begin_segment()
    builder.event()
    return builder


def two_segments() -> SessionBuilder:
    """Events 1 to 3 in a sealed segment, 4 to 6 in the active one; meta and anchor say 6."""
    builder = SessionBuilder()
    builder.begin_segment()
    builder.event()
    builder.batch(2)
    builder.seal()
    builder.begin_segment()
    builder.event()
    builder.batch(2)
    builder.meta()
    builder.anchor()
    return builder


def seqs(events: list[dict[str, Any]]) -> list[int]:
    return [event["seq"] for event in events]


def damage_places(reading: Reading) -> list[str]:
    """`file:offset` of each damage, without the words."""
    return [text.split(": ")[0] for text in reading.damage]


def assert_torn(reading: Reading, file: str, offset: int, size: int, kind: int) -> None:
    assert reading.damage == []
    assert reading.torn == (offset, size)
    assert reading.torn_tail is not None
    assert (reading.torn_tail.file, reading.torn_tail.kind) == (file, kind)


def assert_damaged(reading: Reading, file: str, offset: int) -> None:
    assert damage_places(reading)[:1] == [f"{file}:{offset}"], reading.damage
    assert reading.torn is None


# Clean sessions.


def test_closed_session_is_clean(tmp_path: Path) -> None:
    builder = SessionBuilder("a-1.x_Y")
    builder.begin_segment()
    builder.event({"n": 1}, event_id="e1")
    builder.batch(3)
    builder.seal()
    builder.snapshot({"sum": 10})
    builder.meta()
    builder.anchor()
    reading = read_session(builder.write(tmp_path))
    assert reading.damage == [] and reading.notices == [] and reading.torn is None
    assert reading.session_id == "a-1.x_Y"
    assert seqs(reading.events) == [1, 2, 3, 4]
    assert reading.events[0] == {
        "seq": 1,
        "ts": "2026-01-01T00:00:00.000000Z",
        "type": "counted",
        "event_id": "e1",
        "data": {"n": 1},
        "crc": reading.events[0]["crc"],
    }
    assert (reading.first_seq, reading.last_seq) == (1, 4)
    assert (reading.state_seq, reading.state_of_snapshot) == (4, {"sum": 10})
    assert reading.snapshots == {NEWEST: VALID, PREVIOUS: ABSENT}
    assert reading.floor_reached is True and reading.anchor_reached is True
    assert reading.recovery is not None
    assert (reading.recovery.last_seq, reading.recovery.events) == (4, [])


def test_empty_directory_is_a_clean_session_without_events(tmp_path: Path) -> None:
    reading = read_session(SessionBuilder().write(tmp_path))
    assert (reading.first_seq, reading.last_seq, reading.events) == (1, 0, [])
    assert reading.damage == []
    assert reading.floor_reached is None and reading.anchor_reached is None


def test_segment_with_header_only_is_clean(tmp_path: Path) -> None:
    builder = SessionBuilder()
    builder.begin_segment()
    reading = read_session(builder.write(tmp_path))
    assert (reading.damage, reading.torn, reading.last_seq) == ([], None, 0)


def test_batch_is_whole_and_chain_runs_across_segments(tmp_path: Path) -> None:
    reading = read_session(two_segments().write(tmp_path))
    assert reading.damage == []
    assert [event.get("b") for event in reading.events] == [None, 0, 2, None, 0, 2]
    assert reading.last_seq == 6


def test_sealed_segment_without_events_is_clean(tmp_path: Path) -> None:
    builder = SessionBuilder()
    builder.begin_segment()
    builder.seal()
    builder.begin_segment()
    builder.event()
    assert read_session(builder.write(tmp_path)).damage == []


def test_pruned_session_is_read_from_its_lowest_segment(tmp_path: Path) -> None:
    builder = SessionBuilder()
    builder.begin_segment()
    builder.batch(2)
    builder.seal()
    builder.snapshot("after 2")
    builder.begin_segment()
    builder.batch(3)
    builder.meta()
    builder.anchor()
    del builder.segments[1]
    reading = read_session(builder.write(tmp_path))
    assert reading.damage == []
    assert (reading.first_seq, seqs(reading.events)) == (3, [3, 4, 5])
    assert (reading.state_seq, reading.state_of_snapshot) == (2, "after 2")


def test_pruned_segment_that_no_snapshot_covers_is_damage(tmp_path: Path) -> None:
    builder = two_segments()
    del builder.segments[1]
    reading = read_session(builder.write(tmp_path))
    assert_damaged(reading, SEGMENT_1, 0)
    assert seqs(reading.events) == [4, 5, 6]
    assert reading.recovery is not None and reading.recovery.last_seq == 0


def test_snapshot_of_a_segment_that_does_not_exist_yet_is_clean(tmp_path: Path) -> None:
    builder = SessionBuilder()
    builder.begin_segment()
    builder.batch(2)
    builder.seal()
    builder.meta()
    builder.snapshot(3)
    builder.segments.clear()
    reading = read_session(builder.write(tmp_path))
    assert (reading.damage, reading.last_seq, reading.floor_reached) == ([], 2, True)


def test_compressed_segment_is_clean(tmp_path: Path) -> None:
    builder = two_segments()
    builder.compress(1)
    reading = read_session(builder.write(tmp_path))
    assert (reading.damage, reading.last_seq) == ([], 6)


def test_frame_of_the_zstd_library_is_clean(tmp_path: Path) -> None:
    builder = two_segments()
    compressor = zstandard.ZstdCompressor(write_checksum=True)
    content = builder.segments.pop(1)
    builder.files[f"{SEGMENT_1}.zst"] = compressor.compress(content)
    assert read_session(builder.write(tmp_path)).damage == []


def test_plain_segment_counts_when_the_compressed_one_is_there_too(tmp_path: Path) -> None:
    builder = two_segments()
    builder.files[f"{SEGMENT_1}.zst"] = b"junk"
    assert read_session(builder.write(tmp_path)).damage == []


def test_other_names_are_passed_over(tmp_path: Path) -> None:
    builder = two_segments()
    for name in (
        "events_00003.jsonl",
        "events_9.jsonl",
        "events_0003.jsonl.tmp",
        "events_0000.jsonl",
    ):
        builder.files[name] = b"junk"
    builder.files["meta.json.tmp"] = builder.files["snapshot.json.zst.tmp"] = b"junk"
    assert read_session(builder.write(tmp_path)).damage == []


def test_byte_order_mark_and_carriage_returns_are_passed_over(tmp_path: Path) -> None:
    builder = two_segments()
    builder.segments[1] = b"\xef\xbb\xbf" + builder.segments[1].replace(b"\n", b"\r\n")
    builder.files["meta.json"] = b"\xef\xbb\xbf" + builder.files["meta.json"].replace(
        b"\n", b"\r\n"
    )
    reading = read_session(builder.write(tmp_path))
    assert (reading.damage, reading.floor_reached) == ([], True)
    assert len(reading.notices) == 2


def test_unknown_members_of_an_event_are_kept(session: SessionBuilder, tmp_path: Path) -> None:
    begin = b'{"seq":2,"ts":"2026-01-01T00:00:00.000000Z","type":"x","new":[1],"data":null,"z":0'
    session.append_event(with_crc(begin, session.chain))
    reading = read_session(session.write(tmp_path))
    assert reading.damage == []
    assert (reading.events[1]["new"], reading.events[1]["z"]) == ([1], 0)


@pytest.mark.parametrize(
    "data",
    ["1" * 5000, '"\\ud800"', '"\u2028\u0085"', '{",\\"crc\\":\\"":",\\"type\\":"}', "-0", "1e308"],
)
def test_unusual_data_is_clean(session: SessionBuilder, tmp_path: Path, data: str) -> None:
    session.append_event(with_crc(event_begin(2, data), session.chain))
    assert read_session(session.write(tmp_path)).damage == []


@pytest.mark.parametrize("space", [" ", "\t", " \t\r "])
def test_white_space_between_tokens_is_clean(
    session: SessionBuilder, tmp_path: Path, space: str
) -> None:
    """No writer makes it, and no reader checks it; a TAB in a whole line is not filler."""
    data = f"{space}{{{space}}}{space},{space}"
    begin = event_begin(2, f'{data}"new"{space}:{space}[1,{space}2]{space}')
    session.append_event(with_crc(begin, session.chain))
    session.seq = 2
    session.event()
    with_filler(session, 100)
    reading = read_session(session.write(tmp_path))
    assert (reading.damage, reading.last_seq) == ([], 3)
    assert reading.events[1]["new"] == [1, 2]


def test_greatest_seq_is_clean_and_one_more_is_damage(tmp_path: Path) -> None:
    builder = SessionBuilder()
    builder.begin_segment()
    builder.event()
    builder.seal()
    builder.seq = 10**18 - 2
    builder.snapshot(None)
    del builder.segments[1]
    builder.begin_segment()
    builder.event()
    end = builder.size
    assert read_session(builder.write(tmp_path / "clean")).damage == []
    builder.event()
    assert_damaged(read_session(builder.write(tmp_path / "damaged")), SEGMENT_2, end)


def event_begin(seq: int, data: str = "{}", rest: str = '"type":"x"') -> bytes:
    return f'{{"seq":{seq},"ts":"2026-01-01T00:00:00.000000Z",{rest},"data":{data}'.encode()


# Torn tails, kind 1: whole lines with b 0.


@pytest.mark.parametrize("kept", [1, 2])
def test_file_that_ends_inside_a_batch_is_torn(
    session: SessionBuilder, tmp_path: Path, kept: int
) -> None:
    end = session.size
    lines = session.batch(3)
    size = len(b"".join(lines[:kept]))
    session.segments[1] = session.segments[1][: end + size]
    reading = read_session(session.write(tmp_path))
    assert_torn(reading, SEGMENT_1, end, size, 1)
    assert seqs(reading.events) == [1]


# Torn tails, kind 2: the beginning of a line.


@pytest.mark.parametrize("count", [1, 2])
def test_every_beginning_of_a_batch_is_torn(
    session: SessionBuilder, tmp_path: Path, count: int
) -> None:
    end = session.size
    lines = session.batch(count)
    size = session.size - end
    content = session.segments[1]
    for cut in range(1, size):
        session.segments[1] = content[: end + cut]
        reading = read_session(session.write(tmp_path / str(cut)))
        assert_torn(reading, SEGMENT_1, end, cut, 1 if cut == len(lines[0]) else 2)
        assert reading.torn_tail is not None
        assert reading.torn_tail.kept_by_writer is (cut == size - 1)
        assert seqs(reading.events) == [1]


def test_line_that_lacks_only_its_line_feed_is_torn_and_kept_by_the_writer(
    session: SessionBuilder, tmp_path: Path
) -> None:
    end = session.size
    session.event()
    session.segments[1] = session.segments[1][:-1]
    reading = read_session(session.write(tmp_path))
    assert_torn(reading, SEGMENT_1, end, session.size - end, 2)
    assert reading.notices[-1] == f"{SEGMENT_1}: the last batch lacks only its line feed"
    assert reading.last_seq == 1


def test_last_line_of_another_batch_without_line_feed_is_torn_and_not_kept(
    session: SessionBuilder, tmp_path: Path
) -> None:
    end = session.size
    session.event(b=3)
    session.segments[1] = session.segments[1][:-1]
    reading = read_session(session.write(tmp_path))
    assert_torn(reading, SEGMENT_1, end, session.size - end, 2)
    assert reading.torn_tail is not None and not reading.torn_tail.kept_by_writer


def test_every_beginning_of_a_seal_is_torn(session: SessionBuilder, tmp_path: Path) -> None:
    end = session.size
    session.seal()
    content = session.segments[1]
    for cut in range(1, len(content) - end):
        session.segments[1] = content[: end + cut]
        reading = read_session(session.write(tmp_path / str(cut)))
        assert_torn(reading, SEGMENT_1, end, cut, 2)


def test_beginning_of_a_seal_inside_a_batch_is_damage(
    session: SessionBuilder, tmp_path: Path
) -> None:
    session.event(b=0)
    end = session.size
    session.segments[1] += b'{"seal":1'
    assert_damaged(read_session(session.write(tmp_path)), SEGMENT_1, end)


def test_beginning_of_a_line_whose_data_holds_a_right_crc_is_torn(
    session: SessionBuilder, tmp_path: Path
) -> None:
    end = session.size
    begin = event_begin(2, '{"x":{"y":1')
    session.segments[1] += with_crc(begin, session.chain)[:-1] + b',"z":1'
    reading = read_session(session.write(tmp_path))
    assert_torn(reading, SEGMENT_1, end, session.size - end, 2)


def test_beginning_of_a_line_with_another_seq_is_damage(
    session: SessionBuilder, tmp_path: Path
) -> None:
    end = session.size
    session.segments[1] += b'{"seq":3,"ts":"20'
    assert_damaged(read_session(session.write(tmp_path)), SEGMENT_1, end)


# Torn tails with blanks.

LONG = "x" * 1500


# What lost bytes leave: zeros where the file was made longer, else the filler under them.
BLANKS = [b"\0", b"\t", b"\0\t", b"\t\0\t"]
FILLER_SIZES = [1, 100, 512, 4096]
any_blanks = pytest.mark.parametrize("blanks", BLANKS, ids=["zeros", "tabs", "mix", "tab-first"])


def blank(size: int, blanks: bytes) -> bytes:
    """As many bytes, of this pattern again and again."""
    return (blanks * size)[:size]


def with_blanks(session: SessionBuilder, begin: int, end: int, blanks: bytes) -> None:
    content = session.segments[1]
    session.segments[1] = content[:begin] + blank(end - begin, blanks) + content[end:]


def with_filler(session: SessionBuilder, size: int, number: int | None = None) -> None:
    """Makes a segment longer by this much filler; None: the newest."""
    session.segments[number or session.number] += b"\t" * size


def size_without_filler(content: bytes, end: int) -> int:
    """The size of a torn tail: TABs at the very end of the file do not count."""
    return len(content.rstrip(b"\t")) - end


def kind_of_lost(content: bytes) -> int:
    """A lost end that shows nothing but the filler cannot be told from a write that was cut."""
    content = content.rstrip(b"\t")
    return 3 if b"\0" in content or b"\t" in content else 2


def sector_after(offset: int, sectors: int = 1) -> int:
    return (offset // 512 + sectors) * 512


@pytest.mark.parametrize("tail", [b"\0", bytes(100), b"\t\0", b"\0\t", b"\t\t\0\t" * 400])
def test_zeros_directly_behind_the_last_batch_are_torn(
    session: SessionBuilder, tmp_path: Path, tail: bytes
) -> None:
    end = session.size
    session.segments[1] += tail
    reading = read_session(session.write(tmp_path))
    assert_torn(reading, SEGMENT_1, end, len(tail.rstrip(b"\t")), 1)
    assert seqs(reading.events) == [1]


@pytest.mark.parametrize("kept", [1, 2])
@pytest.mark.parametrize("filler", FILLER_SIZES)
@any_blanks
def test_whole_lines_of_a_batch_with_blanks_to_the_end_are_torn(
    session: SessionBuilder, tmp_path: Path, blanks: bytes, filler: int, kept: int
) -> None:
    end = session.size
    lines = session.batch(3)
    content = session.segments[1][: end + len(b"".join(lines[:kept]))] + blank(filler, blanks)
    session.segments[1] = content
    reading = read_session(session.write(tmp_path))
    assert_torn(reading, SEGMENT_1, end, size_without_filler(content, end), 1)
    assert seqs(reading.events) == [1]


@pytest.mark.parametrize("count", [1, 2])
@any_blanks
def test_beginning_of_a_batch_with_blanks_to_the_end_is_torn(
    session: SessionBuilder, tmp_path: Path, count: int, blanks: bytes
) -> None:
    end = session.size
    lines = session.batch(count)
    content = session.segments[1]
    for cut in range(end + 1, session.size):
        with_blanks(session, cut, session.size, blanks)
        reading = read_session(session.write(tmp_path / str(cut)))
        kind = 2 if 0 not in session.segments[1] else 3
        if cut - end == len(lines[0]):
            kind = 1
        size = size_without_filler(session.segments[1], end)
        assert_torn(reading, SEGMENT_1, end, size, kind)
        assert seqs(reading.events) == [1]
        session.segments[1] = content


@pytest.mark.parametrize("count", [1, 2, 3])
def test_every_beginning_of_a_batch_with_filler_behind_it_is_torn(
    session: SessionBuilder, tmp_path: Path, count: int
) -> None:
    """The write was cut; behind it stands what it would have overwritten."""
    end = session.size
    lines = session.batch(count)
    size = session.size - end
    whole = {len(b"".join(lines[:number])) for number in range(1, count)}
    content = session.segments[1]
    for cut in range(1, size):
        session.segments[1] = content[: end + cut]
        with_filler(session, 4096 - end - cut)
        reading = read_session(session.write(tmp_path / str(cut)))
        assert_torn(reading, SEGMENT_1, end, cut, 1 if cut in whole else 2)
        assert reading.torn_tail is not None
        assert reading.torn_tail.kept_by_writer is (cut == size - 1)
        assert seqs(reading.events) == [1]


def test_every_beginning_of_a_seal_with_filler_behind_it_is_torn(
    session: SessionBuilder, tmp_path: Path
) -> None:
    end = session.size
    session.seal()
    content = session.segments[1]
    for cut in range(1, len(content) - end):
        session.segments[1] = content[: end + cut]
        with_filler(session, 1000)
        reading = read_session(session.write(tmp_path / str(cut)))
        assert_torn(reading, SEGMENT_1, end, cut, 2)
        assert reading.torn_tail is not None and not reading.torn_tail.kept_by_writer


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("filler", FILLER_SIZES)
def test_batch_that_lacks_only_its_line_feed_before_filler_is_torn_and_kept_by_the_writer(
    session: SessionBuilder, tmp_path: Path, filler: int, count: int
) -> None:
    end = session.size
    session.batch(count)
    session.segments[1] = session.segments[1][:-1]
    size = session.size - end
    with_filler(session, filler)
    reading = read_session(session.write(tmp_path))
    assert_torn(reading, SEGMENT_1, end, size, 2)
    assert reading.torn_tail is not None and reading.torn_tail.kept_by_writer
    assert reading.notices[-1] == f"{SEGMENT_1}: the last batch lacks only its line feed"
    assert reading.last_seq == 1


@pytest.mark.parametrize("tail", [b"\0", b"\t\0", b"\0\t\t", bytes(700)])
def test_line_that_lacks_only_its_line_feed_before_zeros_is_torn_and_not_kept(
    session: SessionBuilder, tmp_path: Path, tail: bytes
) -> None:
    """Zeros say that bytes were lost there, so what stood behind the line is not known."""
    end = session.size
    session.event()
    content = session.segments[1][:-1] + tail
    session.segments[1] = content
    reading = read_session(session.write(tmp_path))
    assert_torn(reading, SEGMENT_1, end, size_without_filler(content, end), 3)
    assert reading.torn_tail is not None and not reading.torn_tail.kept_by_writer


@any_blanks
def test_seal_with_blanks_to_the_end_is_torn(
    session: SessionBuilder, tmp_path: Path, blanks: bytes
) -> None:
    end = session.size
    session.seal()
    with_blanks(session, end + 20, session.size, blanks)
    content = session.segments[1]
    kind = 3 if 0 in content else 2
    reading = read_session(session.write(tmp_path))
    assert_torn(reading, SEGMENT_1, end, size_without_filler(content, end), kind)


@pytest.mark.parametrize("first", [0, 1, 2])
@pytest.mark.parametrize("sectors", [1, 2])
@any_blanks
def test_lost_sectors_of_one_long_line_are_torn(
    session: SessionBuilder, tmp_path: Path, first: int, sectors: int, blanks: bytes
) -> None:
    end = session.size
    session.event({"text": LONG})
    begin = end if first == 0 else sector_after(end, first)
    with_blanks(session, begin, min(session.size, sector_after(begin, sectors)), blanks)
    kind = kind_of_lost(session.segments[1])
    size = size_without_filler(session.segments[1], end)
    for filler in (0, 1000):
        with_filler(session, filler)
        reading = read_session(session.write(tmp_path / str(filler)))
        assert_torn(reading, SEGMENT_1, end, size, kind)
        assert seqs(reading.events) == [1]


@pytest.mark.parametrize("lost", range(9))
@any_blanks
def test_any_lost_sector_of_a_batch_of_short_lines_is_torn(
    session: SessionBuilder, tmp_path: Path, lost: int, blanks: bytes
) -> None:
    end = session.size
    session.batch(40)
    pieces = [end, *range(sector_after(end), session.size, 512), session.size]
    with_blanks(session, pieces[lost], pieces[lost + 1], blanks)
    kind = kind_of_lost(session.segments[1])
    size = size_without_filler(session.segments[1], end)
    for filler in (0, 1000):
        with_filler(session, filler)
        reading = read_session(session.write(tmp_path / str(filler)))
        assert_torn(reading, SEGMENT_1, end, size, kind)
        assert seqs(reading.events) == [1]


def test_lost_sectors_of_which_one_shows_zeros_and_one_filler_are_torn(
    session: SessionBuilder, tmp_path: Path
) -> None:
    """The write began in the filler and went on behind the end of the file."""
    end = session.size
    session.batch(40)
    with_blanks(session, sector_after(end), sector_after(end, 2), b"\t")
    with_blanks(session, sector_after(end, 3), sector_after(end, 5), b"\0")
    size = session.size - end
    with_filler(session, 1000)
    reading = read_session(session.write(tmp_path))
    assert_torn(reading, SEGMENT_1, end, size, 3)
    assert seqs(reading.events) == [1]


def test_all_but_the_last_sector_lost_is_torn(session: SessionBuilder, tmp_path: Path) -> None:
    end = session.size
    session.batch(40)
    last = session.size // 512 * 512
    with_blanks(session, end, last, b"\t")
    reading = read_session(session.write(tmp_path))
    assert_torn(reading, SEGMENT_1, end, session.size - end, 3)


@any_blanks
def test_lost_sector_behind_whole_lines_and_a_short_file_is_torn(
    session: SessionBuilder, tmp_path: Path, blanks: bytes
) -> None:
    end = session.size
    session.batch(40)
    with_blanks(session, sector_after(end, 3), sector_after(end, 4), blanks)
    session.segments[1] = session.segments[1][:-30]
    reading = read_session(session.write(tmp_path))
    assert_torn(reading, SEGMENT_1, end, session.size - end, 3)


@pytest.mark.parametrize("filler", [0, 1000])
@any_blanks
def test_blanks_in_part_of_a_sector_are_damage(
    session: SessionBuilder, tmp_path: Path, blanks: bytes, filler: int
) -> None:
    end = session.size
    session.event({"text": LONG})
    with_blanks(session, sector_after(end) + 1, sector_after(end, 2), blanks)
    with_filler(session, filler)
    assert_damaged(read_session(session.write(tmp_path)), SEGMENT_1, end)


@pytest.mark.parametrize("byte", [b"\0", b"\t"])
def test_single_blank_byte_in_the_last_line_is_damage(
    session: SessionBuilder, tmp_path: Path, byte: bytes
) -> None:
    end = session.size
    session.event({"text": LONG})
    content = session.segments[1]
    for offset in range(end, session.size - 1, 7):
        session.segments[1] = content[:offset] + byte + content[offset + 1 :]
        with_filler(session, 1000)
        reading = read_session(session.write(tmp_path / str(offset)))
        assert_damaged(reading, SEGMENT_1, end)


@any_blanks
def test_lost_sector_with_a_flipped_byte_before_it_is_damage(
    session: SessionBuilder, tmp_path: Path, blanks: bytes
) -> None:
    end = session.size
    lines = session.batch(40)
    with_blanks(session, sector_after(end, 3), sector_after(end, 4), blanks)
    flip(session, 1, end + len(lines[0]) + 60)
    assert_damaged(read_session(session.write(tmp_path)), SEGMENT_1, end + len(lines[0]))


@any_blanks
def test_lost_sector_with_lines_of_a_second_batch_behind_it_is_damage(
    session: SessionBuilder, tmp_path: Path, blanks: bytes
) -> None:
    end = session.size
    session.event({"text": LONG})
    session.event()
    session.event()
    with_blanks(session, sector_after(end), sector_after(end, 2), blanks)
    assert_damaged(read_session(session.write(tmp_path)), SEGMENT_1, end)


@any_blanks
def test_lost_sector_before_the_last_batch_is_damage(
    session: SessionBuilder, tmp_path: Path, blanks: bytes
) -> None:
    end = session.size
    session.batch(20)
    session.batch(20)
    with_blanks(session, sector_after(end), sector_after(end, 2), blanks)
    with_filler(session, 1000)
    reading = read_session(session.write(tmp_path))
    assert reading.torn is None and len(reading.damage) == 1


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [(4, 0)],
        [(4, 0), (5, 0), (9, 0)],
        [(4, 0), (5, 4)],
        [(3, 2)],
    ],
    ids=["none", "one", "gap", "end-of-batch", "end-of-batch-alone"],
)
@any_blanks
def test_lines_of_one_batch_behind_a_lost_sector_are_torn(
    session: SessionBuilder, tmp_path: Path, lines: list[tuple[int, int | None]], blanks: bytes
) -> None:
    end = session.size
    session.segments[1] += lost_sector_and_lines(end, lines, blanks)
    reading = read_session(session.write(tmp_path))
    assert_torn(reading, SEGMENT_1, end, session.size - end, 3)


@pytest.mark.parametrize(
    "lines",
    [
        [(4, None)],
        [(4, 1)],
        [(4, 2)],
        [(2, 1)],
        [(4, 0), (5, 3)],
        [(4, 3), (5, 0)],
        [(4, 0), (4, 0)],
        [(5, 0), (4, 0)],
        [(6, 0), (5, 4)],
        [(0, 0)],
        [(10**18, 0)],
    ],
)
@any_blanks
def test_lines_that_are_not_of_one_batch_behind_a_lost_sector_are_damage(
    session: SessionBuilder, tmp_path: Path, lines: list[tuple[int, int | None]], blanks: bytes
) -> None:
    end = session.size
    session.segments[1] += lost_sector_and_lines(end, lines, blanks)
    assert_damaged(read_session(session.write(tmp_path)), SEGMENT_1, end)


def lost_sector_and_lines(end: int, lines: list[tuple[int, int | None]], blanks: bytes) -> bytes:
    """A rest whose first sector is lost: blanks to its end, the end of a line, then lines."""
    rest = blank(sector_after(end) - end, blanks) + b'":1}}\n'
    for seq, b in lines:
        batch = "" if b is None else f'"b":{b},'
        rest += with_crc(event_begin(seq, rest=batch + '"type":"x"'), 0)
    return rest


# Filler.


@pytest.mark.parametrize("size", [*FILLER_SIZES, 32768])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_filler_behind_the_header_or_the_last_batch_is_nothing(
    tmp_path: Path, count: int, size: int
) -> None:
    builder = SessionBuilder()
    builder.begin_segment()
    if count:
        builder.batch(count)
    builder.meta()
    builder.anchor()
    assert_filler_is_nothing(builder, tmp_path, size)


@pytest.mark.parametrize("size", FILLER_SIZES)
def test_filler_behind_the_seal_of_the_newest_segment_is_nothing(tmp_path: Path, size: int) -> None:
    builder = two_segments()
    builder.seal()
    assert_filler_is_nothing(builder, tmp_path, size)


def test_filler_behind_a_seal_is_damage_when_a_snapshot_names_the_next_segment(
    tmp_path: Path,
) -> None:
    builder = two_segments()
    builder.seal()
    builder.snapshot("after 6")
    builder.meta()
    end = len(builder.segments[2])
    with_filler(builder, 1000)
    assert_damaged(read_session(builder.write(tmp_path)), SEGMENT_2, end)


def test_filler_in_the_newest_segment_is_nothing_beside_carriage_returns(tmp_path: Path) -> None:
    builder = two_segments()
    builder.segments[2] = b"\xef\xbb\xbf" + builder.segments[2].replace(b"\n", b"\r\n")
    assert_filler_is_nothing(builder, tmp_path, 1000)


def test_filler_in_the_plain_newest_segment_is_nothing_beside_a_compressed_one(
    tmp_path: Path,
) -> None:
    builder = two_segments()
    builder.files[f"{SEGMENT_2}.zst"] = b"junk"
    assert_filler_is_nothing(builder, tmp_path, 1000)


def assert_filler_is_nothing(builder: SessionBuilder, tmp_path: Path, size: int) -> None:
    without = read_session(builder.write(tmp_path / "without"))
    assert (without.damage, without.torn) == ([], None)
    with_filler(builder, size)
    assert read_session(builder.write(tmp_path / "with")) == without


@pytest.mark.parametrize("size", FILLER_SIZES)
def test_filler_behind_a_seal_that_is_not_the_newest_is_damage(tmp_path: Path, size: int) -> None:
    builder = two_segments()
    end = len(builder.segments[1])
    with_filler(builder, size, number=1)
    reading = read_session(builder.write(tmp_path))
    assert_damaged(reading, SEGMENT_1, end)
    assert seqs(reading.events) == [1, 2, 3]


def test_filler_in_an_older_segment_is_damage_though_the_newest_is_compressed(
    tmp_path: Path,
) -> None:
    builder = two_segments()
    builder.seal()
    end = len(builder.segments[1])
    with_filler(builder, 1000, number=1)
    builder.compress(2)
    assert_damaged(read_session(builder.write(tmp_path)), SEGMENT_1, end)


def test_filler_in_an_older_segment_without_seal_is_damage(tmp_path: Path) -> None:
    builder = SessionBuilder()
    builder.begin_segment()
    builder.batch(3)
    end = builder.size
    with_filler(builder, 1000)
    builder.begin_segment()
    builder.event()
    reading = read_session(builder.write(tmp_path))
    assert_damaged(reading, SEGMENT_1, end)
    assert seqs(reading.events) == [1, 2, 3]


@pytest.mark.parametrize("newest", [True, False])
def test_filler_in_a_compressed_segment_is_damage(tmp_path: Path, newest: bool) -> None:
    builder = two_segments()
    builder.seal()
    number = 2 if newest else 1
    end = len(builder.segments[number])
    with_filler(builder, 1000, number)
    builder.compress(number)
    reading = read_session(builder.write(tmp_path))
    assert_damaged(reading, f"events_{number:04d}.jsonl.zst", end)
    assert reading.last_seq == (6 if newest else 3)


def test_filler_in_a_compressed_segment_without_seal_is_damage(
    session: SessionBuilder, tmp_path: Path
) -> None:
    end = session.size
    with_filler(session, 1000)
    session.compress(1)
    assert_damaged(read_session(session.write(tmp_path)), f"{SEGMENT_1}.zst", end)


def test_tabs_behind_the_frame_of_a_compressed_segment_are_damage(tmp_path: Path) -> None:
    builder = two_segments()
    builder.seal()
    builder.compress(2)
    name = f"{SEGMENT_2}.zst"
    end = len(builder.files[name])
    builder.files[name] += b"\t" * 100
    assert_damaged(read_session(builder.write(tmp_path)), name, end)


@pytest.mark.parametrize("place", ["header", "events", "seal"])
def test_tabs_between_two_lines_are_damage(tmp_path: Path, place: str) -> None:
    """Filler stands at the very end of the file and nowhere else."""
    builder = SessionBuilder()
    builder.begin_segment()
    ends = {"header": builder.size}
    builder.event()
    ends["events"] = builder.size
    builder.event()
    ends["seal"] = builder.size
    builder.seal()
    end = ends[place]
    content = builder.segments[1]
    builder.segments[1] = content[:end] + b"\t" * 5 + content[end:]
    assert_damaged(read_session(builder.write(tmp_path)), SEGMENT_1, end)


def test_tabs_before_the_header_are_damage(session: SessionBuilder, tmp_path: Path) -> None:
    session.segments[1] = b"\t" + session.segments[1]
    assert_damaged(read_session(session.write(tmp_path)), SEGMENT_1, 0)


def test_segment_of_filler_alone_is_damage(tmp_path: Path) -> None:
    builder = SessionBuilder()
    builder.segments[1] = b"\t" * 4096
    assert_damaged(read_session(builder.write(tmp_path)), SEGMENT_1, 0)


def test_header_without_line_feed_before_filler_is_damage(tmp_path: Path) -> None:
    builder = SessionBuilder()
    builder.begin_segment()
    builder.segments[1] = builder.segments[1][:-1]
    with_filler(builder, 1000)
    assert_damaged(read_session(builder.write(tmp_path)), SEGMENT_1, 0)


@pytest.mark.parametrize("sealed", [False, True])
def test_flipped_bit_in_the_filler_is_damage_unless_a_sector_begins_there(
    session: SessionBuilder, tmp_path: Path, sealed: bool
) -> None:
    """Behind a seal it is damage wherever it is, because no write goes there."""
    if sealed:
        session.seal()
    end = session.size
    with_filler(session, 1100 - end)
    content = session.segments[1]
    first_of_sector = [] if sealed else range(sector_after(end), session.size, 512)
    edges = {end, 511, 512, 513, 1023, 1024, 1025, session.size - 1}
    for offset in sorted({*edges, *range(end, session.size, 9)}.difference(first_of_sector)):
        for bit in range(8) if offset in edges else [offset % 8]:
            session.segments[1] = flipped(content, offset, bit)
            reading = read_session(session.write(tmp_path / f"{offset}-{bit}"))
            assert_damaged(reading, SEGMENT_1, end)
            assert seqs(reading.events) == [1]


def test_flipped_bit_in_the_filler_where_a_sector_begins_is_torn(
    session: SessionBuilder, tmp_path: Path
) -> None:
    """It looks like the last byte of a write whose other sectors are lost; nothing stood there."""
    end = session.size
    with_filler(session, 1600 - end)
    content = session.segments[1]
    for bit in range(8):
        session.segments[1] = flipped(content, 1024, bit)
        reading = read_session(session.write(tmp_path / str(bit)))
        assert_torn(reading, SEGMENT_1, end, 1025 - end, 3)
        assert seqs(reading.events) == [1]


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("bit", range(8))
def test_flipped_line_feed_of_the_last_line_before_filler_is_damage(
    session: SessionBuilder, tmp_path: Path, bit: int, count: int
) -> None:
    """The batch was acknowledged; a crash leaves a line without its line feed, not another byte."""
    lines = session.batch(count)
    end = session.size - len(lines[-1])
    with_filler(session, 1000)
    offset = end + len(lines[-1]) - 1
    session.segments[1] = flipped(session.segments[1], offset, bit)
    assert_damaged(read_session(session.write(tmp_path)), SEGMENT_1, end)


def test_every_flipped_byte_before_filler_is_damage(tmp_path: Path) -> None:
    """Filler behind the last line must not make damage look like a cut write."""
    builder = two_segments()
    content = builder.segments[2]
    for offset in range(len(content)):
        for bit in range(8) if offset > len(content) - 25 else [offset % 8]:
            builder.segments[2] = flipped(content, offset, bit)
            with_filler(builder, 300)
            reading = read_session(builder.write(tmp_path / f"{offset}-{bit}"))
            assert reading.torn is None, (offset, bit)
            assert damage_places(reading)[0].startswith(SEGMENT_2), (offset, bit)


@pytest.mark.parametrize("junk", [b"x", b"\r", b"\x0b", b'{"seq":3,"ts":"', b" "])
def test_complete_line_without_line_feed_and_junk_before_filler_is_damage(
    session: SessionBuilder, tmp_path: Path, junk: bytes
) -> None:
    end = session.size
    session.event()
    session.segments[1] = session.segments[1][:-1] + junk
    with_filler(session, 1000)
    assert_damaged(read_session(session.write(tmp_path)), SEGMENT_1, end)


@pytest.mark.parametrize("junk", [b"x", b"\n", b" ", b"\r", b'{"seq":2,"tz', b"{}\n", b"\t\n"])
def test_junk_behind_a_complete_line_before_filler_is_damage(
    session: SessionBuilder, tmp_path: Path, junk: bytes
) -> None:
    end = session.size
    session.segments[1] += junk
    with_filler(session, 1000)
    assert_damaged(read_session(session.write(tmp_path)), SEGMENT_1, end)


def test_acknowledged_batch_that_was_lost_to_filler_is_damage_by_floor_and_anchor(
    tmp_path: Path,
) -> None:
    """The log ends cleanly before the batch; only meta and anchor know that it was there."""
    builder = two_segments()
    begin = builder.segments[2].index(b'{"seq":5')
    builder.segments[2] = builder.segments[2][:begin]
    with_filler(builder, 1000)
    reading = read_session(builder.write(tmp_path))
    assert damage_places(reading) == ["meta.json:0", "lock:0"]
    assert (reading.last_seq, reading.torn) == (4, None)


# Damage in the log.


def flip(session: SessionBuilder, number: int, offset: int) -> None:
    session.segments[number] = flipped(session.segments[number], offset, 0)


def flipped(content: bytes, offset: int, bit: int) -> bytes:
    changed = bytearray(content)
    changed[offset] ^= 1 << bit
    return bytes(changed)


def test_every_flipped_byte_is_damage(tmp_path: Path) -> None:
    builder = two_segments()
    for number, content in list(builder.segments.items()):
        for offset in range(len(content)):
            flip(builder, number, offset)
            reading = read_session(builder.write(tmp_path / f"{number}-{offset}"))
            assert reading.damage, (number, offset)
            builder.segments[number] = content


def test_flipped_byte_in_the_middle_is_damage_at_its_line(tmp_path: Path) -> None:
    builder = two_segments()
    begin = builder.segments[2].index(b'{"seq":5')
    flip(builder, 2, begin + 70)
    reading = read_session(builder.write(tmp_path))
    assert_damaged(reading, SEGMENT_2, begin)
    assert seqs(reading.events) == [1, 2, 3, 4]
    assert reading.floor_reached is False and reading.anchor_reached is False
    assert damage_places(reading)[1:] == ["meta.json:0", "lock:0"]


def test_nothing_behind_damage_is_proven(tmp_path: Path) -> None:
    builder = two_segments()
    flip(builder, 1, builder.segments[1].index(b'{"seq":3') + 70)
    assert seqs(read_session(builder.write(tmp_path)).events) == [1]


@pytest.mark.parametrize("missing", [2, 3])
def test_missing_segment_is_damage(tmp_path: Path, missing: int) -> None:
    builder = SessionBuilder()
    for _ in range(4):
        builder.begin_segment()
        builder.event()
        builder.seal()
    del builder.segments[missing]
    reading = read_session(builder.write(tmp_path))
    assert_damaged(reading, f"events_{missing:04d}.jsonl", 0)
    assert reading.last_seq == missing - 1


def test_two_missing_segments_are_damage_even_without_meta(tmp_path: Path) -> None:
    builder = SessionBuilder()
    for _ in range(4):
        builder.begin_segment()
        builder.event()
        builder.seal()
    del builder.segments[2], builder.segments[3]
    assert_damaged(read_session(builder.write(tmp_path)), SEGMENT_2, 0)


def test_missing_last_segment_is_damage_by_meta(tmp_path: Path) -> None:
    builder = two_segments()
    del builder.segments[2], builder.files["lock"]
    reading = read_session(builder.write(tmp_path))
    assert damage_places(reading) == ["meta.json:0", "meta.json:0"]
    assert reading.floor_reached is False


def test_duplicated_line_is_damage(tmp_path: Path) -> None:
    builder = two_segments()
    line = builder.segments[2].splitlines(keepends=True)[1]
    begin = builder.segments[2].index(line) + len(line)
    builder.segments[2] = builder.segments[2].replace(line, line + line)
    assert_damaged(read_session(builder.write(tmp_path)), SEGMENT_2, begin)


def test_duplicated_last_line_is_damage(session: SessionBuilder, tmp_path: Path) -> None:
    end = session.size
    session.segments[1] += session.segments[1].splitlines(keepends=True)[-1]
    assert_damaged(read_session(session.write(tmp_path)), SEGMENT_1, end)


def test_swapped_lines_are_damage(session: SessionBuilder, tmp_path: Path) -> None:
    end = session.size
    second, third = session.event(), session.event()
    session.segments[1] = session.segments[1][:end] + third + second
    assert_damaged(read_session(session.write(tmp_path)), SEGMENT_1, end)


def test_removed_line_is_damage(session: SessionBuilder, tmp_path: Path) -> None:
    end = session.size
    session.event()
    third = session.event()
    session.segments[1] = session.segments[1][:end] + third
    assert_damaged(read_session(session.write(tmp_path)), SEGMENT_1, end)


@pytest.mark.parametrize("blanks", [b"\0", bytes(600), b"\0\t", bytes(300) + b"\t" * 600, b"\t\0"])
def test_blanks_behind_the_seal_of_the_newest_segment_are_nothing(
    tmp_path: Path, blanks: bytes
) -> None:
    builder = two_segments()
    builder.seal()
    builder.segments[2] += blanks
    assert read_session(builder.write(tmp_path)).damage == []
    end = len(builder.segments[1])
    builder.segments[1] += blanks
    assert_damaged(read_session(builder.write(tmp_path / "again")), SEGMENT_1, end)


@pytest.mark.parametrize(
    "junk",
    [
        *[b"x", b"\n", b"\r", b" ", b'{"seq":7,', b'{"seal":2}\n', b"\0x", bytes(600) + b"\n"],
        *[b"\t\n", b"\tx", b"x\t", b"\t\0 ", b"\0\n\t", b"\t" * 600 + b"\r", b"\t \t"],
    ],
)
def test_bytes_behind_a_seal_that_are_not_filler_are_damage(tmp_path: Path, junk: bytes) -> None:
    builder = two_segments()
    builder.seal()
    end = builder.size
    builder.segments[2] += junk
    reading = read_session(builder.write(tmp_path))
    assert_damaged(reading, SEGMENT_2, end)
    assert reading.last_seq == 6


@pytest.mark.parametrize("junk", [b"x", b"\r", b'{"seq":3,"ts":"', b"{"])
def test_complete_line_without_line_feed_and_junk_is_damage(
    session: SessionBuilder, tmp_path: Path, junk: bytes
) -> None:
    end = session.size
    session.event()
    session.segments[1] = session.segments[1][:-1] + junk
    assert_damaged(read_session(session.write(tmp_path)), SEGMENT_1, end)


@pytest.mark.parametrize(
    "junk", [b"x", b"\n", b'{"seq":2,"tz', b"{}\n", b"\r", b"\t\r", b"\t" * 600 + b"\r"]
)
def test_junk_behind_a_complete_line_is_damage(
    session: SessionBuilder, tmp_path: Path, junk: bytes
) -> None:
    end = session.size
    session.segments[1] += junk
    assert_damaged(read_session(session.write(tmp_path)), SEGMENT_1, end)


@pytest.mark.parametrize(
    "changes",
    [{"blake2b": "00" * 16}, {"last_seq": 2}, {"events": 4}, {"seal": 2}, {"blake2b": None}],
)
def test_seal_that_is_wrong_is_damage(tmp_path: Path, changes: dict[str, Any]) -> None:
    builder = SessionBuilder()
    builder.begin_segment()
    builder.batch(3)
    end = builder.size
    builder.seal(**changes)
    builder.begin_segment()
    builder.event()
    reading = read_session(builder.write(tmp_path))
    assert_damaged(reading, SEGMENT_1, end)
    assert seqs(reading.events) == [1, 2, 3]


def test_segment_without_seal_that_is_not_the_last_is_damage(tmp_path: Path) -> None:
    builder = SessionBuilder()
    builder.begin_segment()
    builder.batch(3)
    end = builder.size
    builder.begin_segment()
    builder.event()
    assert_damaged(read_session(builder.write(tmp_path)), SEGMENT_1, end)


def test_seal_inside_a_batch_is_damage(session: SessionBuilder, tmp_path: Path) -> None:
    session.event(b=0)
    end = session.size
    session.seal()
    assert_damaged(read_session(session.write(tmp_path)), SEGMENT_1, end)


@pytest.mark.parametrize("last", [None, 1, 3, 4])
def test_batch_with_a_wrong_count_is_damage(
    session: SessionBuilder, tmp_path: Path, last: int | None
) -> None:
    session.event(b=0)
    end = session.size
    session.event(b=last)
    reading = read_session(session.write(tmp_path))
    assert_damaged(reading, SEGMENT_1, end)
    assert seqs(reading.events) == [1]


@pytest.mark.parametrize(
    "changes",
    [
        {"session_id": "s2"},
        {"segment": 3},
        {"first_seq": 3},
        {"first_seq": 1},
        {"chain": "00000000"},
        {"chain": "X"},
        {"format": 0},
        {"format": True},
    ],
)
def test_header_that_does_not_fit_is_damage(tmp_path: Path, changes: dict[str, Any]) -> None:
    builder = SessionBuilder()
    builder.begin_segment()
    builder.event()
    builder.seal()
    if changes.get("chain") == "X":
        builder.begin_segment()
        builder.segments[2] = builder.segments[2].replace(b'"chain":"', b'"chain":"X')
    else:
        builder.begin_segment(**changes)
    reading = read_session(builder.write(tmp_path))
    assert_damaged(reading, SEGMENT_2, 0)
    assert reading.last_seq == 1


def test_header_without_line_feed_is_damage(tmp_path: Path) -> None:
    builder = SessionBuilder()
    builder.begin_segment()
    builder.segments[1] = builder.segments[1][:-1]
    assert_damaged(read_session(builder.write(tmp_path)), SEGMENT_1, 0)


def test_empty_segment_file_is_damage(tmp_path: Path) -> None:
    builder = SessionBuilder()
    builder.segments[1] = b""
    assert_damaged(read_session(builder.write(tmp_path)), SEGMENT_1, 0)


def test_first_segment_that_does_not_begin_with_seq_1_is_damage(tmp_path: Path) -> None:
    builder = SessionBuilder()
    builder.begin_segment(first_seq=2)
    assert_damaged(read_session(builder.write(tmp_path)), SEGMENT_1, 0)


def test_renamed_directory_is_damage(tmp_path: Path) -> None:
    directory = two_segments().write(tmp_path)
    reading = read_session(directory.rename(tmp_path / "s2"))
    assert damage_places(reading) == ["meta.json:0", f"{SEGMENT_1}:0"]
    assert reading.anchor_reached is None and reading.events == []


@pytest.mark.parametrize(
    "begin",
    [
        event_begin(2, "NaN"),
        event_begin(2, "1e999"),
        event_begin(2, "{"),
        event_begin(2, '"\x01"'),
        event_begin(2, "1") + b',"seq":3',
        event_begin(2, "1", '"type":""'),
        event_begin(2, "1", '"b":00,"type":"x"'),
        event_begin(2, "1", '"new":1,"type":"x"'),
        event_begin(2).rpartition(b',"data"')[0],
        event_begin(2, '"') + b'\xff"',
    ],
)
def test_line_with_a_right_crc_that_is_no_event_is_damage(
    session: SessionBuilder, tmp_path: Path, begin: bytes
) -> None:
    end = session.size
    session.segments[1] += with_crc(begin, session.chain)
    assert_damaged(read_session(session.write(tmp_path)), SEGMENT_1, end)


@pytest.mark.parametrize(
    "change",
    [
        lambda frame: frame[:-1],
        lambda frame: frame[: len(frame) // 2],
        lambda frame: frame + b"\0",
        lambda frame: b"junk",
        lambda frame: b"",
    ],
)
def test_compressed_segment_that_is_not_whole_frames_is_damage(tmp_path: Path, change: Any) -> None:
    builder = two_segments()
    builder.compress(1)
    name = f"{SEGMENT_1}.zst"
    frame = builder.files[name]
    builder.files[name] = change(frame)
    reading = read_session(builder.write(tmp_path))
    offset = len(frame) if builder.files[name].startswith(frame) else 0
    assert_damaged(reading, name, offset)


@pytest.mark.parametrize("cut", [1, 100, 300, 10**6])
def test_compressed_segment_of_several_frames_is_their_content(tmp_path: Path, cut: int) -> None:
    def fresh(number: int) -> Path:
        (tmp_path / str(number)).mkdir()
        return tmp_path / str(number)

    builder = two_segments()
    content = builder.segments.pop(1)
    parts = zstd_frame(content[:cut]), zstd_frame(content[cut:])
    builder.files[f"{SEGMENT_1}.zst"] = b"".join(parts)
    assert not read_session(builder.write(fresh(0))).damage
    builder.files[f"{SEGMENT_1}.zst"] = parts[0]
    assert bool(read_session(builder.write(fresh(1))).damage) == (cut < len(content))
    builder.files[f"{SEGMENT_1}.zst"] = b"".join([*parts, *parts])
    assert_damaged(read_session(builder.write(fresh(2))), f"{SEGMENT_1}.zst", len(content))


@pytest.mark.parametrize("without", ["checksum", "size"])
def test_compressed_segment_without_size_or_checksum_is_damage(
    tmp_path: Path, without: str
) -> None:
    builder = two_segments()
    builder.files[f"{SEGMENT_1}.zst"] = zstd_frame(builder.segments.pop(1), **{without: False})
    assert_damaged(read_session(builder.write(tmp_path)), f"{SEGMENT_1}.zst", 0)


def test_compressed_segment_without_seal_is_damage(session: SessionBuilder, tmp_path: Path) -> None:
    end = session.size
    session.compress(1)
    assert_damaged(read_session(session.write(tmp_path)), f"{SEGMENT_1}.zst", end)


# Floor and anchor.


def test_floor_that_is_not_reached_is_damage(tmp_path: Path) -> None:
    builder = two_segments()
    del builder.files["lock"]
    builder.event()
    builder.meta()
    builder.segments[2] = builder.segments[2][: builder.segments[2].index(b'{"seq":7')]
    reading = read_session(builder.write(tmp_path))
    assert damage_places(reading) == ["meta.json:0"]
    assert (reading.floor_reached, reading.last_seq) == (False, 6)


def test_floor_with_another_chain_value_is_damage(tmp_path: Path) -> None:
    builder = two_segments()
    builder.meta(floor={"segment": 1, "seq": 2, "crc": "01234567"})
    reading = read_session(builder.write(tmp_path))
    assert damage_places(reading) == ["meta.json:0"]
    assert reading.floor_reached is False


def test_floor_inside_the_torn_tail_is_damage(tmp_path: Path) -> None:
    builder = two_segments()
    builder.segments[2] = builder.segments[2][:-1]
    reading = read_session(builder.write(tmp_path))
    assert damage_places(reading) == ["meta.json:0", "lock:0"]
    assert reading.torn is not None and reading.floor_reached is False


@pytest.mark.parametrize("content", [b"", b"{}\n", b"junk"])
def test_broken_meta_costs_the_floor_only(tmp_path: Path, content: bytes) -> None:
    builder = two_segments()
    builder.files["meta.json"] = content
    reading = read_session(builder.write(tmp_path))
    assert damage_places(reading) == ["meta.json:0"]
    assert (reading.floor_reached, reading.last_seq, reading.anchor_reached) == (None, 6, True)


def test_meta_of_another_session_is_damage_and_says_nothing(tmp_path: Path) -> None:
    builder = two_segments()
    builder.meta(session_id="s2")
    reading = read_session(builder.write(tmp_path))
    assert damage_places(reading) == ["meta.json:0"]
    assert reading.floor_reached is None


def test_anchor_that_is_not_reached_is_damage(tmp_path: Path) -> None:
    builder = two_segments()
    builder.anchor(seq=7)
    reading = read_session(builder.write(tmp_path))
    assert damage_places(reading) == ["lock:0"]
    assert (reading.anchor_reached, reading.floor_reached) == (False, True)


def test_anchor_with_another_chain_value_is_damage(tmp_path: Path) -> None:
    builder = two_segments()
    builder.anchor(chain="01234567")
    assert damage_places(read_session(builder.write(tmp_path))) == ["lock:0"]


@pytest.mark.parametrize("content", [b"", b"{", bytes(384), b" " * 384])
def test_anchor_that_is_no_line_says_nothing(tmp_path: Path, content: bytes) -> None:
    builder = two_segments()
    builder.files["lock"] = content
    reading = read_session(builder.write(tmp_path))
    assert (reading.damage, reading.anchor_reached) == ([], None)


def test_anchor_of_another_session_or_torn_says_nothing(tmp_path: Path) -> None:
    builder = two_segments()
    builder.anchor(session_id="s2", seq=99)
    assert read_session(builder.write(tmp_path / "foreign")).anchor_reached is None
    builder.anchor(seq=99)
    builder.files["lock"] = builder.files["lock"].replace(b'"seq":99', b'"seq":98')
    assert read_session(builder.write(tmp_path / "torn")).anchor_reached is None


def test_old_anchor_is_reached(tmp_path: Path) -> None:
    builder = two_segments()
    builder.event()
    assert read_session(builder.write(tmp_path)).anchor_reached is True


@pytest.mark.parametrize("padding", [b"\n" + b" " * 200, b" " * 200 + b"\n"])
def test_anchor_is_read_with_its_padding_on_either_side_of_the_line_feed(
    tmp_path: Path, padding: bytes
) -> None:
    builder = two_segments()
    builder.files["lock"] = builder.files["lock"].rstrip() + padding
    assert read_session(builder.write(tmp_path)).anchor_reached is True


# Snapshots.


def with_two_snapshots() -> SessionBuilder:
    """States after 2 and after 4, events to 5; nothing pruned."""
    builder = SessionBuilder()
    builder.begin_segment()
    builder.event(event_id="e1")
    builder.event()
    builder.seal()
    builder.snapshot("after 2", PREVIOUS)
    builder.begin_segment()
    builder.event(event_id="e3")
    builder.event()
    builder.seal()
    builder.snapshot("after 4", NEWEST)
    builder.begin_segment()
    builder.event()
    builder.meta()
    builder.anchor()
    return builder


def test_newest_valid_snapshot_is_used(tmp_path: Path) -> None:
    reading = read_session(with_two_snapshots().write(tmp_path))
    assert (reading.damage, reading.notices) == ([], [])
    assert reading.snapshots == {NEWEST: VALID, PREVIOUS: VALID}
    assert (reading.state_seq, reading.state_of_snapshot) == (4, "after 4")
    assert reading.recovery is not None
    assert (seqs(reading.recovery.events), reading.recovery.first_segment) == ([5], 3)
    assert seqs(reading.events) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content + b"\0",
        lambda content: content + b"\n",
        lambda content: content + content,
        lambda content: content[:-1],
        lambda content: content[:40],
        lambda content: content[:3],
        lambda content: b"",
    ],
    ids=["zero", "feed", "twice", "cut-trailer", "cut-frame", "cut-magic", "empty"],
)
def test_snapshot_that_is_not_two_frames_is_damage_and_the_previous_one_is_used(
    tmp_path: Path, change: Any
) -> None:
    builder = with_two_snapshots()
    builder.files[NEWEST] = change(builder.files[NEWEST])
    reading = read_session(builder.write(tmp_path))
    assert len(reading.damage) == 1 and reading.damage[0].startswith(NEWEST)
    assert reading.snapshots == {NEWEST: reading.damage[0], PREVIOUS: VALID}
    assert (reading.state_seq, reading.state_of_snapshot) == (2, "after 2")
    assert reading.recovery is not None
    assert (seqs(reading.recovery.events), reading.recovery.damage) == ([3, 4, 5], [])


def test_every_flipped_byte_of_a_snapshot_is_damage(tmp_path: Path) -> None:
    builder = with_two_snapshots()
    content = builder.files[NEWEST]
    for offset in range(len(content)):
        changed = bytearray(content)
        changed[offset] ^= 1
        builder.files[NEWEST] = bytes(changed)
        reading = read_session(builder.write(tmp_path / str(offset)))
        assert reading.snapshots[NEWEST] != VALID, offset
        assert reading.state_seq == 2


@pytest.mark.parametrize(
    "changes",
    [
        {"session_id": "s2"},
        {"frame": "00" * 16},
        {"document": "00" * 16},
        {"seq": 3},
        {"chain": "0"},
        {"segment": "3"},
    ],
)
def test_snapshot_with_a_wrong_trailer_is_damage(tmp_path: Path, changes: dict[str, Any]) -> None:
    builder = SessionBuilder()
    builder.begin_segment()
    builder.batch(2)
    builder.seal()
    builder.snapshot("s", **changes)
    reading = read_session(builder.write(tmp_path))
    assert reading.snapshots[NEWEST] != VALID and len(reading.damage) == 1
    assert (reading.state_seq, reading.last_seq) == (0, 2)


@pytest.mark.parametrize("without", ["checksum", "size"])
def test_snapshot_without_size_or_checksum_is_damage(tmp_path: Path, without: str) -> None:
    builder = with_two_snapshots()
    frame = zstd_frame(b"{}\n", **{without: False})
    line = line_of({"snapshot": 1}, 0)
    builder.files[NEWEST] = frame + struct.pack("<II", 0x184D2A50, len(line)) + line
    reading = read_session(builder.write(tmp_path))
    assert without in reading.snapshots[NEWEST] and reading.state_seq == 2


def test_two_broken_snapshots_are_damage_and_the_log_is_read_from_its_beginning(
    tmp_path: Path,
) -> None:
    builder = with_two_snapshots()
    builder.files |= {NEWEST: b"", PREVIOUS: b""}
    reading = read_session(builder.write(tmp_path))
    assert len(reading.damage) == 2
    assert (reading.state_seq, reading.state_of_snapshot) == (0, None)
    assert reading.recovery is not None
    assert (seqs(reading.recovery.events), reading.recovery.damage) == ([1, 2, 3, 4, 5], [])


def test_snapshot_of_another_history_is_damage(tmp_path: Path) -> None:
    builder = with_two_snapshots()
    other = SessionBuilder()
    other.begin_segment()
    for _ in range(4):
        other.event("other")
    other.number = 2
    other.snapshot("other")
    builder.files[NEWEST] = other.files[NEWEST]
    reading = read_session(builder.write(tmp_path))
    assert reading.recovery is not None and reading.recovery.damage
    assert seqs(reading.events) == [1, 2, 3, 4, 5]


def test_snapshot_ahead_of_the_log_is_damage(tmp_path: Path) -> None:
    builder = SessionBuilder()
    builder.begin_segment()
    builder.event()
    short = builder.segments[1]
    builder.event()
    builder.snapshot("s")
    builder.segments[1] = short
    assert damage_places(read_session(builder.write(tmp_path))) == [f"{NEWEST}:0"]


def test_events_behind_the_snapshot_in_a_segment_before_its_own_are_damage(
    tmp_path: Path,
) -> None:
    builder = SessionBuilder()
    builder.begin_segment()
    builder.event()
    builder.snapshot("s")
    builder.event()
    assert damage_places(read_session(builder.write(tmp_path))) == [f"{NEWEST}:0"]


def test_event_id_that_does_not_describe_its_event_is_damage(tmp_path: Path) -> None:
    builder = SessionBuilder()
    builder.begin_segment()
    builder.event(event_id="e1")
    builder.seal()
    builder.event_ids[0][3] = "00" * 16
    builder.snapshot("s")
    assert damage_places(read_session(builder.write(tmp_path))) == [f"{NEWEST}:0"]


def test_damage_before_the_snapshot_leaves_recovery_whole(tmp_path: Path) -> None:
    builder = with_two_snapshots()
    flip(builder, 1, builder.segments[1].index(b'{"seq":2') + 60)
    reading = read_session(builder.write(tmp_path))
    assert len(reading.damage) == 1 and seqs(reading.events) == [1]
    assert reading.recovery is not None
    assert (reading.recovery.last_seq, reading.recovery.damage) == (5, [])
    assert reading.floor_reached is True and reading.anchor_reached is True


# Refused.


def test_greater_format_in_a_header_is_refused(tmp_path: Path) -> None:
    builder = SessionBuilder()
    builder.begin_segment(format=2)
    with pytest.raises(UnsupportedFormat):
        read_session(builder.write(tmp_path))


def test_greater_format_in_meta_is_refused(tmp_path: Path) -> None:
    builder = two_segments()
    builder.meta(format=2)
    with pytest.raises(UnsupportedFormat):
        read_session(builder.write(tmp_path))


def test_greater_format_in_a_snapshot_is_passed_over_as_damage(tmp_path: Path) -> None:
    builder = SessionBuilder()
    builder.snapshot(None, snapshot=2)
    assert read_session(builder.write(tmp_path)).damage


# Lines, names, the command.


def test_verify_line_gives_the_crc_or_none() -> None:
    line = line_of({"a": 1}, 7)
    assert verify_line(line, 7) == verify_line(line[:-1], 7) == crc_of(line)
    assert verify_line(line[:-1] + b"\r\n", 7) == crc_of(line)
    for wrong in (line[:-2], line + b"\n", line.upper(), b"", b'{"crc":"00000000"}'):
        assert verify_line(wrong, 7) is None
    assert verify_line(line, 8) is None


@pytest.mark.parametrize("name", ["a", "A1._-", "x" * 128, "com0", "comm", "1", "a..b", "xcon"])
def test_name_is_a_session_id(name: str) -> None:
    assert is_session_id(name)


@pytest.mark.parametrize(
    "name", ["", ".a", "_a", "a.", "x" * 129, "a/b", "ä", "con", "Aux.x", "LPT9", "a\n", "a b"]
)
def test_name_is_no_session_id(name: str) -> None:
    assert not is_session_id(name)


def test_directory_with_another_name_is_damage(tmp_path: Path) -> None:
    reading = read_session(SessionBuilder("nul.x").write(tmp_path))
    assert damage_places(reading) == [".:0"]


def test_command_prints_a_summary_and_says_by_its_exit_whether_anything_is_damaged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    builder = two_segments()
    assert main([str(builder.write(tmp_path / "clean"))]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["last_seq"], printed["events"], printed["damage"]) == (6, 6, [])
    assert set(printed["snapshots"]) == set(SNAPSHOTS)
    builder.segments[1] = b"junk"
    assert main([str(builder.write(tmp_path / "damaged"))]) == 1
    assert main([str(tmp_path / "nothing")]) == 2
    assert main([]) == 2
