"""The one scanner: whole batches, the torn tail, every kind of damage, and what lies behind it."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from durasess.engine import codec, plain, scan, segment, torn
from durasess.engine.records import Place
from durasess.engine.scan import Scan
from durasess.errors import FormatVersionError
from tests.support.lines import (
    BLANKS,
    DIRECTORY,
    SECTOR,
    SESSION,
    START,
    TAB,
    TS,
    SegmentBytes,
    batch,
    disk_with_segment,
    filled,
    flips,
    line,
    lost_pieces,
    place_after,
    scanned,
    segment_path,
)

PATH = segment_path()
BOM = b"\xef\xbb\xbf"


def three_batches() -> SegmentBytes:
    """Events 1, 2 to 4, 5 in a segment without a seal."""
    made = SegmentBytes()
    for count in (1, 3, 1):
        made.add(count)
    return made


def sealed() -> SegmentBytes:
    made = three_batches()
    made.seal()
    return made


def lines_of(made: SegmentBytes) -> list[bytes]:
    return made.content.splitlines(keepends=True)


def offset_of(made: SegmentBytes, index: int) -> int:
    """Where a line begins; 0 is the header."""
    return len(b"".join(lines_of(made)[:index]))


def with_line(made: SegmentBytes, index: int, replacement: bytes) -> bytes:
    """The segment with other bytes in place of one line."""
    found = lines_of(made)
    found[index] = replacement
    return b"".join(found)


def damaged(text: bytes) -> bytes:
    """An event line with a changed byte, which only its crc tells."""
    return text.replace(b"note", b"nope")


def assert_damage(content: bytes, rule: str, offset: int, **options: Any) -> None:
    """One damage at this place, and nothing is taken for torn."""
    seen = scanned(content, **options)
    found = seen.only_damage
    assert (found.path, found.rule, found.offset) == (PATH, rule, offset), found
    assert seen.scan.torn is None and seen.scan.kept == []


# Whole segments


def test_batches_are_given_whole_and_in_order() -> None:
    made = three_batches()
    seen = scanned(made.content, follows=START)
    assert seen.seqs == [[1], [2, 3, 4], [5]]
    assert (seen.scan.damage, seen.scan.torn, seen.scan.kept) == ([], None, [])
    assert (seen.scan.place, seen.scan.end, seen.scan.events) == (made.place, made.end, 5)
    assert seen.scan.seal is None and seen.scan.edited is False


def test_record_is_its_line_with_its_place() -> None:
    made = three_batches()
    records = [record for found in scanned(made.content).batches for record in found]
    for index, record in enumerate(records, 1):
        text = lines_of(made)[index].removesuffix(b"\n")
        assert (record.offset, record.line) == (offset_of(made, index), text)
        assert (record.crc, record.proven) == (codec.stored_crc(text), True)
    assert [record.batch for record in records] == [None, 0, 0, 3, None]


def test_segment_with_a_header_only_is_whole() -> None:
    seen = scanned(SegmentBytes().content)
    assert (seen.seqs, seen.scan.damage, seen.scan.place) == ([], [], START)


@pytest.mark.parametrize("is_last", [True, False])
def test_sealed_segment_is_whole_wherever_it_stands(is_last: bool) -> None:
    made = sealed()
    seen = scanned(made.content, is_last=is_last)
    assert (seen.seqs, seen.scan.damage) == ([[1], [2, 3, 4], [5]], [])
    assert seen.scan.seal is not None and seen.scan.seal.last_seq == 5
    assert seen.scan.end == made.content.index(b'{"seal":')


def test_sealed_segment_without_events_is_whole() -> None:
    made = SegmentBytes(2, after=Place(7, 9))
    made.seal()
    seen = scanned(made.content, number=2, is_last=False, follows=Place(7, 9))
    assert (seen.seqs, seen.scan.damage, seen.scan.place) == ([], [], Place(7, 9))


def test_compressed_segment_reads_like_a_plain_one() -> None:
    made = sealed()
    plain, compressed = scanned(made.content), scanned(made.content, compressed=True)
    assert compressed.batches == plain.batches
    assert compressed.scan.info().compressed and not plain.scan.info().compressed


def test_info_says_what_was_read() -> None:
    made = SegmentBytes(7, after=Place(40, 9))
    made.add(2)
    made.seal()
    seen = scanned(made.content, number=7)
    info = seen.scan.info()
    assert (info.path, info.number, info.bytes) == (segment_path(7), 7, made.end)
    assert (info.events, info.first_seq, info.last_seq) == (2, 41, 42)
    assert info.sealed and seen.scan.number == 7


def test_place_is_named_in_messages() -> None:
    assert str(Place(7, 0x0A1B)) == "seq 7 with chain value 00000a1b"


# What is kept for who compares with it


def remembered(content: bytes, *, remembers: bool = True) -> bytes | None:
    found = scanned(content, remembers=remembers).scan
    return found.remembered.take(found.end)


def test_proven_bytes_are_given_once() -> None:
    made = three_batches()
    for content in (made.content, filled(made.content), made.content + b'{"seq":6,"ts":"'):
        found = scanned(content, remembers=True).scan
        assert found.remembered.take(made.end) == made.content
        assert found.remembered.take(made.end) is None


def test_proven_bytes_are_kept_only_for_who_asks() -> None:
    assert remembered(three_batches().content, remembers=False) is None


@pytest.mark.parametrize("index", [0, 3])
def test_bytes_that_an_editor_changed_are_not_given(index: int) -> None:
    made = three_batches()
    assert remembered(BOM + made.content) is None
    assert remembered(made.content.replace(b"\n", b"\r\n")) is None
    assert remembered(with_line(made, index, lines_of(made)[index][:-1] + b"\r\n")) is None


def test_many_bytes_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    made = three_batches()
    monkeypatch.setattr(plain, "MAX_REMEMBERED", made.end)
    assert remembered(made.content) == made.content
    monkeypatch.setattr(plain, "MAX_REMEMBERED", made.end - 1)
    assert remembered(made.content) is None


# What an editor left


@pytest.mark.parametrize("begin", [b"", BOM])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_byte_order_mark_and_crlf_are_passed_over_and_said(begin: bytes, end: bytes) -> None:
    made = sealed()
    seen = scanned(begin + made.content.replace(b"\n", end))
    assert (seen.scan.damage, seen.seqs) == ([], [[1], [2, 3, 4], [5]])
    assert seen.scan.edited is (begin != b"" or end != b"\n")
    assert seen.scan.seal is not None


def test_crlf_in_one_line_only_is_said_too() -> None:
    made = three_batches()
    seen = scanned(with_line(made, 3, lines_of(made)[3][:-1] + b"\r\n"))
    assert (seen.scan.damage, seen.scan.edited) == ([], True)


@pytest.mark.parametrize("count", [1, 2])
def test_torn_tail_of_an_edited_segment_is_torn(count: int) -> None:
    made = SegmentBytes()
    made.add()
    rest = b"".join(batch(made.place, 3).splitlines(keepends=True)[:count])
    seen = scanned((made.content + rest).replace(b"\n", b"\r\n"))
    assert seen.scan.damage == [] and seen.scan.torn is not None


@pytest.mark.parametrize(
    ("index", "text"), [(0, b"\r\r\n"), (2, b"\r\r\n"), (2, b"\n\r\n"), (2, b" \n")]
)
def test_anything_else_at_the_end_of_a_line_is_damage(index: int, text: bytes) -> None:
    made = three_batches()
    seen = scanned(with_line(made, index, lines_of(made)[index][:-1] + text))
    assert seen.scan.damage != []


def test_byte_order_mark_elsewhere_is_damage() -> None:
    made = three_batches()
    assert_damage(with_line(made, 1, BOM + lines_of(made)[1]), "line", offset_of(made, 1))


# Header


def test_empty_segment_is_damage() -> None:
    assert_damage(b"", "header", 0)
    found = scanned(b"", follows=Place(40, 9)).only_damage
    assert (found.first_seq, found.last_seq) == (41, None)
    assert found.reason == "empty, though a segment is made with its header"


def test_header_cut_anywhere_is_damage_and_never_torn() -> None:
    header = SegmentBytes().content
    for size in range(1, len(header)):
        for content in (header[:size], header[:size].ljust(len(header), b"\0")):
            seen = scanned(content)
            assert seen.only_damage.offset == 0 and seen.scan.torn is None
            assert (seen.scan.end, seen.scan.place) == (0, START)


@pytest.mark.parametrize(
    ("changes", "rule", "reason"),
    [
        ({"session_id": "s2"}, "session", "the header is not valid: it belongs to session 's2'"),
        ({"segment": 2}, "header", "the header is not valid: it says it is segment 2"),
        (
            {"first_seq": 2},
            "header",
            "the header is not valid: it follows seq 1 with chain value 00000000, but the log is "
            "at seq 0 with chain value 00000000",
        ),
        (
            {"chain": "00000001"},
            "header",
            "the header is not valid: it follows seq 0 with chain value 00000001, but the log is "
            "at seq 0 with chain value 00000000",
        ),
    ],
)
def test_header_of_another_place_is_damage(changes: Any, rule: str, reason: str) -> None:
    seen = scanned(SegmentBytes(**changes).content, follows=START)
    assert (seen.only_damage.rule, seen.only_damage.reason) == (rule, reason)
    assert (seen.only_damage.offset, seen.only_damage.first_seq) == (0, 1)
    assert seen.scan.header is None


def test_segment_whose_predecessor_is_not_known_says_itself_where_it_begins() -> None:
    made = SegmentBytes(after=Place(40, 9))
    made.add(2)
    seen = scanned(made.content)
    assert (seen.scan.damage, seen.seqs, seen.scan.place) == ([], [[41, 42]], made.place)


def test_damaged_header_leaves_the_events_behind_it_readable() -> None:
    made = three_batches()
    seen = scanned(with_line(made, 0, lines_of(made)[0].replace(b'"pid":41', b'"pid":42')))
    assert (seen.only_damage.rule, seen.only_damage.offset) == ("crc", 0)
    assert seen.seqs == [[1], [2], [3], [4], [5]]
    assert seen.scan.info().first_seq == 0


def test_missing_header_is_damage_and_the_first_line_is_read_as_an_event() -> None:
    made = three_batches()
    seen = scanned(b"".join(lines_of(made)[1:]))
    assert (seen.only_damage.rule, seen.only_damage.offset) == ("header", 0)
    assert seen.seqs == [[1], [2], [3], [4], [5]]


def test_line_behind_damage_that_is_no_event_is_not_given_though_its_crc_agrees() -> None:
    """Readers that show what is left decode it."""
    made = three_batches()
    after = made.place
    broken, chain = codec.event_line(6, TS, None, b',"type":"note","data":[1,}', after.chain)
    last = line(Place(6, chain))
    damaged = with_line(made, 1, lines_of(made)[1].replace(b"note", b"nose"))
    assert scanned(damaged + line(after)).seqs[-1] == [6]
    assert 6 not in [seq for found in scanned(damaged + broken + last).seqs for seq in found]


def test_nothing_is_proven_in_a_segment_without_a_valid_header() -> None:
    """Nothing ties its lines to this session."""
    made = three_batches()
    lines = lines_of(made)
    for content in (b"".join(lines[1:]), b"x\n" + b"".join(lines[1:])):
        found = [
            record for batches in scanned(content, follows=START).batches for record in batches
        ]
        assert [(record.seq, record.proven) for record in found] == [
            (seq, False) for seq in range(1, 6)
        ]


def test_newer_format_is_another_error() -> None:
    with pytest.raises(FormatVersionError) as caught:
        scanned(SegmentBytes(format=2).content)
    assert caught.value.path == PATH


# Torn tail


def test_torn_tail_says_file_offset_size_and_reason() -> None:
    made = three_batches()
    rest = batch(made.place, 1)[:40]
    seen = scanned(made.content + rest)
    torn = seen.scan.torn
    assert torn is not None
    assert (torn.path, torn.offset, torn.size, torn.kept) == (PATH, made.end, 40, 0)
    assert torn.reason == "the last line has no line feed"
    assert (seen.scan.damage, seen.scan.kept, seen.scan.place) == ([], [], made.place)
    assert (seen.seqs, seen.scan.events) == ([[1], [2, 3, 4], [5]], 5)


def test_torn_tail_begins_at_the_batch_and_not_at_the_line() -> None:
    made = three_batches()
    lines = batch(made.place, 3).splitlines(keepends=True)
    for rest in (lines[0], lines[0] + lines[1], lines[0] + lines[1][:9], lines[0] + bytes(9)):
        seen = scanned(made.content + rest)
        assert seen.scan.torn is not None and seen.scan.damage == []
        assert (seen.scan.torn.offset, seen.scan.torn.size) == (made.end, len(rest))
        assert (seen.seqs, seen.scan.place) == ([[1], [2, 3, 4], [5]], made.place)


def test_first_write_of_a_segment_can_be_torn() -> None:
    made = SegmentBytes()
    for rest in (b"{", bytes(9), batch(START, 2).splitlines(keepends=True)[0]):
        seen = scanned(made.content + rest)
        assert seen.scan.torn is not None and seen.scan.torn.offset == made.end


def test_batch_that_lacks_only_its_line_feed_is_torn_and_its_lines_are_kept_aside() -> None:
    made = three_batches()
    rest = batch(made.place, 2)[:-1]
    seen = scanned(made.content + rest)
    assert seen.scan.torn is not None and seen.scan.torn.kept == 2
    assert seen.seqs == [[1], [2, 3, 4], [5]], "a reader leaves them out"
    kept = seen.scan.kept
    assert [record.seq for record in kept] == [6, 7]
    assert [record.batch for record in kept] == [0, 2]
    assert b"\n".join(record.line for record in kept) == rest
    assert [made.end + rest.index(record.line) for record in kept] == [r.offset for r in kept]
    assert kept[-1].crc == place_after(rest + b"\n", made.place).chain


def test_seal_that_is_torn_is_no_seal() -> None:
    made = three_batches()
    seal = made.seal_line()
    for rest in (seal[:5], seal[:-1], seal[:30] + bytes(60)):
        seen = scanned(made.content + rest)
        assert seen.scan.torn is not None and seen.scan.torn.offset == made.end
        assert seen.scan.seal is None and seen.scan.damage == []


def rests_that_can_be_torn(made: SegmentBytes) -> list[bytes]:
    lines = batch(made.place, 2)
    return [lines[:40], lines[:-1], lines.splitlines(keepends=True)[0], bytes(30)]


def test_torn_tail_of_many_lines_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    classify = torn.classify_end

    def looking(rest: bytes, **place: int) -> torn.Verdict | None:
        looks.append(rest)
        return classify(rest, **place)

    monkeypatch.setattr(torn, "classify_end", looking)
    made = three_batches()
    made.add_up_to(0)
    rest = bytes(SECTOR) + batch(made.place, 20)[SECTOR:]
    for end in (b"", TAB * 600):
        looks.clear()
        seen = scanned(made.content + rest + end)
        assert seen.scan.torn is not None and looks == [rest + end]
        assert seen.scan.torn.size == len(rest)


def test_only_the_last_segment_can_be_torn() -> None:
    made = three_batches()
    for rest in rests_that_can_be_torn(made):
        assert scanned(made.content + rest).scan.torn is not None
        seen = scanned(made.content + rest, is_last=False)
        assert seen.scan.torn is None and seen.only_damage.offset is not None
        assert seen.only_damage.offset >= made.end


def test_sealed_segment_cannot_be_torn() -> None:
    made = sealed()
    for rest in rests_that_can_be_torn(made):
        if rest.strip(b"\0"):
            assert_damage(made.content + rest, "seal", made.end)


def test_end_too_large_for_one_write_is_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    made = three_batches()
    monkeypatch.setattr(torn, "MAX_TORN_BYTES", 100)
    assert scanned(made.content + bytes(100)).scan.torn is not None
    assert_damage(made.content + bytes(101), "line feed", made.end)


# Filler


SIZES = pytest.mark.parametrize("size", [1, 2, 511, 512, 5000, 70_000])


@SIZES
def test_filler_says_nothing(size: int) -> None:
    made = three_batches()
    plain, seen = scanned(made.content), scanned(made.content + TAB * size)
    assert seen.batches == plain.batches
    assert (seen.scan.damage, seen.scan.torn, seen.scan.kept) == ([], None, [])
    assert (seen.scan.place, seen.scan.end, seen.scan.events) == (made.place, made.end, 5)
    assert seen.scan.seal is None and seen.scan.edited is False


def test_segment_of_header_and_filler_is_whole() -> None:
    made = SegmentBytes()
    seen = scanned(filled(made.content), follows=START)
    assert (seen.seqs, seen.scan.damage, seen.scan.torn) == ([], [], None)
    assert (seen.scan.place, seen.scan.end) == (START, made.end)


def test_filler_longer_than_one_read_is_filler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment, "CHUNK", 100)
    made = three_batches()
    seen = scanned(filled(made.content))
    assert (seen.scan.damage, seen.scan.torn, seen.scan.place) == ([], None, made.place)


def test_info_tells_the_size_of_what_is_in_the_file_without_its_filler() -> None:
    made = three_batches()
    info = scanned(filled(made.content)).scan.info()
    assert (info.bytes, info.events, info.sealed) == (len(made.content), 5, False)


@SIZES
def test_filler_behind_the_seal_of_the_newest_segment_says_nothing(size: int) -> None:
    """Its writer stopped before it cut the filler off."""
    made = three_batches()
    end = made.end
    made.seal()
    plain, seen = scanned(made.content), scanned(made.content + TAB * size)
    assert (seen.scan.damage, seen.scan.torn, seen.batches) == ([], None, plain.batches)
    assert seen.scan.seal == plain.scan.seal is not None
    assert (seen.scan.end, seen.scan.info().sealed) == (end, True)


@SIZES
def test_zeros_left_behind_the_seal_by_a_cut_of_the_filler_say_nothing(size: int) -> None:
    """The system clears the rest of the block in which the file shall end, and the power is cut
    before the new size is durable: found by power cuts on ext4."""
    made = sealed()
    plain = scanned(made.content)
    for behind in (bytes(size) + TAB * 700, bytes(size), TAB * 512 + bytes(size) + TAB):
        seen = scanned(made.content + behind)
        assert (seen.scan.damage, seen.scan.torn, seen.batches) == ([], None, plain.batches)
        assert (seen.scan.seal, seen.scan.filler) == (plain.scan.seal, len(behind))
        assert seen.scan.info().bytes == len(made.content)
        assert scanned(made.content + behind, is_last=False).only_damage.rule == "seal"
        assert scanned(made.content + behind + b"x").only_damage.offset == made.end


@SIZES
def test_filler_in_a_segment_that_is_not_the_newest_is_damage(size: int) -> None:
    made = sealed()
    assert_damage(made.content + TAB * size, "seal", made.end, is_last=False)
    open_one = three_batches()
    assert_damage(open_one.content + TAB * size, "line feed", open_one.end, is_last=False)


@SIZES
def test_filler_in_a_compressed_segment_is_damage(size: int) -> None:
    made = sealed()
    path = segment_path(compressed=True)
    for is_last in (True, False):
        seen = scanned(made.content + TAB * size, compressed=True, is_last=is_last)
        found = seen.only_damage
        assert (found.path, found.rule, found.offset) == (path, "seal", made.end)
        assert seen.scan.torn is None


@pytest.mark.parametrize("behind", [b"\n", b"\r", b"\r\n", b" ", b"x", b"x\n", b"\0x", b"{}\n"])
def test_anything_behind_filler_is_damage(behind: bytes) -> None:
    made = three_batches()
    for size in (1, 20):
        assert_end_is_damage(made.content + TAB * size + behind, made)
        seen = scanned(sealed().content + TAB * size + behind)
        assert (seen.only_damage.rule, seen.only_damage.offset) == ("seal", sealed().end)


def assert_end_is_damage(content: bytes, made: SegmentBytes) -> None:
    seen = scanned(content)
    assert seen.only_damage.offset == made.end
    assert (seen.scan.torn, seen.scan.kept) == (None, [])


@pytest.mark.parametrize("end", [b"\r", b" ", b"\x0b", b"\xef\xbb\xbf"])
def test_nothing_but_tabs_is_filler(end: bytes) -> None:
    """No carriage return is passed over where there is no line feed."""
    made = three_batches()
    assert_end_is_damage(made.content + end, made)
    seen = scanned(sealed().content + end)
    assert (seen.only_damage.rule, seen.only_damage.offset) == ("seal", sealed().end)


def test_line_behind_filler_is_damage() -> None:
    made = three_batches()
    for write in (batch(made.place, 1), batch(made.place, 2), made.seal_line()):
        assert_end_is_damage(made.content + TAB + write, made)
        assert_end_is_damage(filled(made.content + TAB + write), made)


@pytest.mark.parametrize("index", [1, 3, 5])
def test_tab_beside_a_line_is_damage(index: int) -> None:
    made = three_batches()
    text = lines_of(made)[index]
    for changed in (TAB + text, text[:-1] + TAB + text[-1:], text.replace(b",", b",\t", 1)):
        seen = scanned(filled(with_line(made, index, changed)))
        assert seen.only_damage.offset == offset_of(made, index) and seen.scan.torn is None


def test_file_of_nothing_but_filler_is_damage() -> None:
    assert_damage(TAB * 1024, "header", 0)


def test_filler_behind_damage_is_no_other_damage() -> None:
    made = three_batches()
    for broken in (
        with_line(made, 1, damaged(lines_of(made)[1])),
        with_line(made, 3, b""),
        with_line(made, 5, damaged(lines_of(made)[5])),
        with_line(made, 5, b"x\n"),
    ):
        plain, seen = scanned(broken), scanned(filled(broken))
        assert seen.scan.damage == plain.scan.damage != []
        assert (seen.batches, seen.scan.torn) == (plain.batches, None)


def test_every_flipped_bit_of_the_last_line_before_filler_is_damage() -> None:
    for count in (1, 2):
        made = SegmentBytes()
        made.add()
        end = made.end
        write = made.add(count, "  @@  )I")
        for changed in flips(write):
            seen = scanned(filled(made.content[:end] + changed))
            assert (seen.scan.torn, seen.scan.kept) == (None, [])
            found = seen.only_damage
            assert found.offset is not None and found.offset >= end
            assert seen.seqs[0] == [1]


def test_every_flipped_bit_of_a_seal_before_filler_is_damage() -> None:
    made = three_batches()
    end = made.end
    for changed in flips(made.seal()):
        seen = scanned(filled(made.content[:end] + changed))
        assert (seen.only_damage.offset, seen.scan.torn) == (end, None)


def test_every_flipped_bit_of_filler_is_damage_or_a_torn_tail_and_costs_no_event() -> None:
    """A byte at the beginning of a sector looks like a write whose first sectors were lost."""
    made = three_batches()
    made.add_up_to(400)
    for at, changed in enumerate(flips(TAB * 700)):
        seen = scanned(made.content + changed)
        assert seen.seqs == [[1], [2, 3, 4], [5], [6]]
        if (made.end + at // 8) % SECTOR == 0:
            assert seen.scan.torn is not None and seen.scan.damage == []
        else:
            assert seen.only_damage.offset == made.end and seen.scan.torn is None, at


def test_every_flipped_bit_of_filler_behind_a_seal_is_damage() -> None:
    made = sealed()
    for changed in flips(TAB * 700):
        seen = scanned(made.content + changed)
        assert (seen.only_damage.rule, seen.only_damage.offset) == ("seal", made.end)


# Filler and a torn tail


@SIZES
def test_torn_tail_does_not_count_the_filler_behind_it(size: int) -> None:
    made = three_batches()
    lines = batch(made.place, 3).splitlines(keepends=True)
    for rest in (b"{", lines[0], lines[0] + lines[1][:9], lines[0] + bytes(9), bytes(9)):
        seen = scanned(made.content + rest + TAB * size)
        assert seen.scan.torn is not None and seen.scan.damage == []
        assert (seen.scan.torn.offset, seen.scan.torn.size) == (made.end, len(rest))
        assert (seen.seqs, seen.scan.place) == ([[1], [2, 3, 4], [5]], made.place)


def test_zeros_between_filler_are_torn_and_counted_up_to_the_last() -> None:
    made = three_batches()
    seen = scanned(filled(made.content + TAB * 5 + bytes(4) + TAB + bytes(3)))
    assert seen.scan.torn is not None and seen.scan.torn.size == 5 + 4 + 1 + 3


@pytest.mark.parametrize("write", ["one long line", "some lines", "seal"])
def test_write_over_filler_with_lost_sectors_is_torn(write: str) -> None:
    made = three_batches()
    made.add_up_to(450)
    data = {
        "one long line": batch(made.place, 1, "x" * 1500),
        "some lines": batch(made.place, 4, "x" * 300),
        "seal": made.seal_line(),
    }[write]
    for blank in BLANKS:
        for rest in lost_pieces(data, made.end, blank):
            if rest.strip(TAB):
                seen = scanned(filled(made.content + rest))
                assert seen.scan.torn is not None and seen.scan.damage == [], rest
                assert seen.scan.torn.size == len(rest.rstrip(TAB))
                assert seen.scan.place == made.place


def test_write_over_filler_that_was_lost_whole_leaves_no_trace() -> None:
    made = three_batches()
    write = batch(made.place, 3)
    seen = scanned(filled(made.content + TAB * len(write)))
    assert (seen.scan.torn, seen.scan.damage) == (None, [])


def test_batch_that_lacks_only_its_line_feed_is_kept_aside_before_filler_too() -> None:
    made = three_batches()
    rest = batch(made.place, 2)[:-1]
    plain, seen = scanned(made.content + rest), scanned(filled(made.content + rest))
    assert seen.scan.kept == plain.scan.kept != []
    assert seen.scan.torn == plain.scan.torn is not None
    assert seen.seqs == plain.seqs


def test_torn_tail_before_filler_elsewhere_is_damage() -> None:
    made = three_batches()
    for rest in rests_that_can_be_torn(made):
        assert scanned(filled(made.content + rest)).scan.torn is not None
        seen = scanned(filled(made.content + rest), is_last=False)
        assert seen.scan.torn is None and seen.scan.damage != []
        if rest.strip(b"\0"):
            assert_damage(filled(sealed().content + rest), "seal", sealed().end)


def test_torn_tail_of_an_edited_segment_is_torn_before_filler_too() -> None:
    made = SegmentBytes()
    made.add()
    rest = batch(made.place, 3).splitlines(keepends=True)[0]
    seen = scanned(filled((made.content + rest).replace(b"\n", b"\r\n")))
    assert seen.scan.damage == [] and seen.scan.torn is not None


# behind


@pytest.mark.parametrize("end", [b"", TAB, TAB * 5000])
def test_behind_is_a_digest_of_all_bytes_behind_the_last_whole_batch(end: bytes) -> None:
    made = three_batches()
    lines = batch(made.place, 2)
    first = lines.splitlines(keepends=True)[0]
    rests = [b"", first, first + lines[len(first) :][:30], lines[:-1], bytes(9), made.seal_line()]
    for rest in rests:
        seen = scanned(made.content + rest + end)
        assert seen.scan.damage == [] and seen.scan.end == made.end
        assert seen.scan.behind == codec.digest(rest + end), rest


def test_behind_holds_the_bytes_as_they_stand_in_an_edited_file() -> None:
    made = three_batches()
    end = len(made.content.replace(b"\n", b"\r\n"))
    for rest in (made.seal_line(), batch(made.place, 2).splitlines(keepends=True)[0], b"{"):
        edited = (made.content + rest).replace(b"\n", b"\r\n") + TAB * 9
        seen = scanned(edited)
        assert (seen.scan.damage, seen.scan.end) == ([], end)
        assert seen.scan.behind == codec.digest(edited[end:])


def test_behind_is_of_nothing_before_the_end_was_read() -> None:
    disk = disk_with_segment(filled(three_batches().content))
    found = Scan(disk, segment.open_source(disk, DIRECTORY, 1), session_id=SESSION, is_last=True)
    batches = found.batches()
    next(batches)
    assert found.behind == codec.digest(b"")


# Damage


def test_every_flipped_bit_of_the_last_acknowledged_batch_is_damage_and_never_torn() -> None:
    for count in (1, 2):
        made = SegmentBytes()
        made.add()
        end = made.end
        write = made.add(count, "  @@  ")
        for changed in flips(write):
            seen = scanned(made.content[:end] + changed)
            assert seen.scan.torn is None and seen.scan.kept == []
            found = seen.only_damage
            assert found.offset is not None and found.offset >= end
            assert seen.seqs[0] == [1]


def test_every_flipped_bit_of_a_sealed_segment_is_damage() -> None:
    made = SegmentBytes()
    made.add(2)
    made.seal()
    header = lines_of(made)[0]
    for changed in flips(made.content[len(header) :]):
        seen = scanned(header + changed, follows=START)
        assert seen.scan.damage != [] and seen.scan.torn is None


def test_damaged_line_is_named_by_offset_and_seqs_and_what_follows_is_read() -> None:
    made = sealed()
    seen = scanned(with_line(made, 1, damaged(lines_of(made)[1])))
    found = seen.only_damage
    assert (found.rule, found.offset) == ("crc", offset_of(made, 1))
    assert found.reason.startswith("checksum: stored ")
    assert (found.first_seq, found.last_seq) == (1, 1)
    assert seen.seqs == [[2], [3], [4], [5]]
    assert seen.scan.place == made.place


def test_first_line_behind_damage_is_not_proven_and_those_after_it_hang_on_it() -> None:
    made = three_batches()
    seen = scanned(with_line(made, 1, damaged(lines_of(made)[1])))
    proven = [(record.seq, record.proven) for found in seen.batches for record in found]
    assert proven == [(2, False), (3, True), (4, True), (5, True)]


def test_lines_of_a_batch_before_the_damage_in_it_are_given() -> None:
    made = three_batches()
    seen = scanned(with_line(made, 4, damaged(lines_of(made)[4])))
    assert (seen.only_damage.offset, seen.only_damage.first_seq) == (offset_of(made, 4), 4)
    assert seen.seqs == [[1], [2], [3], [5]]
    assert seen.scan.events == 4


def test_damage_that_is_not_followed_by_anything_has_no_last_seq() -> None:
    made = three_batches()
    seen = scanned(with_line(made, 5, damaged(lines_of(made)[5])))
    assert (seen.only_damage.first_seq, seen.only_damage.last_seq) == (5, None)
    assert (seen.seqs, seen.scan.place.seq) == ([[1], [2, 3, 4]], 4)


@pytest.mark.parametrize("lost", [1, 3, 4])
def test_lost_line_is_damage(lost: int) -> None:
    made = three_batches()
    seen = scanned(with_line(made, lost, b""))
    found = seen.only_damage
    assert (found.rule, found.offset) == ("seq", offset_of(made, lost))
    assert found.first_seq == lost and seen.scan.torn is None
    assert found.reason == f"expected seq {lost}, found seq {lost + 1}"


def test_lost_line_costs_no_other_line() -> None:
    """The first line behind a gap can be read, though not proven (R17)."""
    made = three_batches()
    seen = scanned(with_line(made, 1, b""))
    assert (seen.only_damage.first_seq, seen.only_damage.last_seq) == (1, 1)
    assert [(record.seq, record.proven) for found in seen.batches for record in found] == [
        (2, False),
        (3, True),
        (4, True),
        (5, True),
    ]


def test_damaged_seq_costs_no_other_line() -> None:
    made = three_batches()
    broken = lines_of(made)[2].replace(b'{"seq":2', b'{"seq":9')
    seen = scanned(with_line(made, 2, broken))
    assert (seen.only_damage.rule, seen.only_damage.offset) == ("seq", offset_of(made, 2))
    assert (seen.only_damage.first_seq, seen.only_damage.last_seq) == (2, 2)
    assert seen.seqs == [[1], [3], [4], [5]]


@pytest.mark.parametrize("garbage", [b"x\n", b"\n", b'{"seal":1}\n', b'{"seq":4}\n'])
def test_line_behind_a_lost_one_is_read_unless_the_next_one_contradicts_it(garbage: bytes) -> None:
    made = three_batches()
    lines = lines_of(made)
    lines[2], lines[4] = b"", garbage
    seen = scanned(b"".join(lines))
    assert [(found.first_seq, found.last_seq) for found in seen.scan.damage] == [(2, 2), (4, 4)]
    assert seen.seqs == [[1], [3], [5]]


def test_lost_line_before_the_last_one_costs_no_other_line_whether_sealed_or_not() -> None:
    for made in (three_batches(), sealed()):
        seen = scanned(with_line(made, 4, b""))
        assert (seen.only_damage.first_seq, seen.only_damage.last_seq) == (4, 4)
        assert seen.seqs == [[1], [2], [3], [5]]


def test_damaged_seq_behind_damage_costs_no_other_line() -> None:
    made = three_batches()
    for garbage in (1, 2):
        lines = lines_of(made)
        lines[garbage] = b"x\n"
        lines[3] = lines[3].replace(b'{"seq":3', b'{"seq":9')
        seen = scanned(b"".join(lines))
        read = [record.seq for found in seen.batches for record in found]
        assert read == [seq for seq in (1, 2, 4, 5) if seq != garbage], garbage


@pytest.mark.parametrize("index", [1, 2, 3, 5])
def test_inserted_line_is_damage_that_cost_no_seq(index: int) -> None:
    made = three_batches()
    seen = scanned(with_line(made, index, b"inserted\n" + lines_of(made)[index]))
    found = seen.only_damage
    assert (found.rule, found.offset) == ("line", offset_of(made, index))
    assert found.reason == "neither an event nor a seal: b'inserted'"
    assert (found.first_seq, found.last_seq) == (None, None)
    assert all(record.proven for batches in seen.batches for record in batches)
    assert seen.scan.place == made.place


def test_line_that_stands_twice_is_damage() -> None:
    made = three_batches()
    again = lines_of(made)[1]
    seen = scanned(with_line(made, 1, again + again))
    assert (seen.only_damage.rule, seen.only_damage.offset) == ("seq", offset_of(made, 2))
    assert seen.only_damage.reason == "expected seq 2, found seq 1"
    assert seen.seqs == [[1], [2], [3], [4], [5]]


def test_lines_that_changed_places_are_damage() -> None:
    made = three_batches()
    found = lines_of(made)
    found[1], found[5] = found[5], found[1]
    seen = scanned(b"".join(found))
    assert [damage.rule for damage in seen.scan.damage] == ["seq", "seq"]
    assert [damage.offset for damage in seen.scan.damage] == [
        offset_of(made, 1),
        offset_of(made, 5),
    ]
    assert seen.scan.damage[1].reason == "seq 1 stands again or too late"
    assert seen.seqs == [[2], [3], [4]]


def test_gap_is_one_damage_however_many_lines_it_takes() -> None:
    made = three_batches()
    seen = scanned(with_line(made, 1, b"x\n\nz\n"))
    assert seen.only_damage.offset == offset_of(made, 1)
    assert (seen.only_damage.first_seq, seen.only_damage.last_seq) == (1, 1)
    assert seen.seqs == [[2], [3], [4], [5]]


@pytest.mark.parametrize(("second", "rule"), [(b"x\n", "line"), (b"", "seq")])
def test_each_gap_is_a_damage_of_its_own(second: bytes, rule: str) -> None:
    made = three_batches()
    lines = lines_of(made)
    lines[1], lines[4] = b"x\n", second
    seen = scanned(b"".join(lines))
    assert [found.rule for found in seen.scan.damage] == ["line", rule]
    assert [(found.first_seq, found.last_seq) for found in seen.scan.damage] == [(1, 1), (4, 4)]
    assert [found.offset for found in seen.scan.damage] == [
        len(lines[0]),
        len(b"".join(lines[:4])),
    ]


def test_changed_line_behind_damage_is_a_damage_of_its_own() -> None:
    made = three_batches()
    lines = lines_of(made)
    lines[1], lines[4] = b"x\n", damaged(lines[4])
    seen = scanned(b"".join(lines))
    assert [(found.rule, found.first_seq) for found in seen.scan.damage] == [
        ("line", 1),
        ("crc", 4),
    ]
    assert seen.seqs == [[2], [3], [5]]


def test_line_of_the_right_chain_with_another_seq_behind_damage_is_not_proven() -> None:
    made = three_batches()
    content = with_line(made, 1, b"x\n") + line(made.place, seq=made.place.seq + 2)
    records = [record for found in scanned(content).batches for record in found]
    assert [(record.seq, record.proven) for record in records[-2:]] == [(5, True), (7, False)]


def test_changed_line_directly_behind_an_inserted_one_is_not_proven() -> None:
    made = three_batches()
    broken = b"inserted\n" + damaged(lines_of(made)[2])
    records = [record for found in scanned(with_line(made, 2, broken)).batches for record in found]
    assert [(record.seq, record.proven) for record in records] == [
        (1, True),
        (2, False),
        (3, True),
        (4, True),
        (5, True),
    ]


def test_line_behind_damage_without_the_fields_of_an_event_is_damage_too() -> None:
    made = three_batches()
    broken = with_line(made, 1, b"x\n" + line(START, seq=9).replace(b'"data":null', b'"none":null'))
    seen = scanned(broken)
    assert seen.only_damage.offset == offset_of(made, 1)
    assert seen.seqs == [[2], [3], [4], [5]]


def test_end_without_a_line_feed_behind_damage_is_damage() -> None:
    made = three_batches()
    content = with_line(made, 1, b"x\n") + batch(made.place, 1)[:-1]
    seen = scanned(content)
    assert [found.rule for found in seen.scan.damage] == ["line", "line feed"]
    assert (seen.scan.torn, seen.scan.kept) == (None, [])


@pytest.mark.parametrize("b", [None, 1, 2, 4])
def test_batch_of_another_length_than_it_says_is_damage(b: int | None) -> None:
    made = three_batches()
    first, second, third = batch(made.place, 3).splitlines(keepends=True)
    last = line(place_after(first + second, made.place), b=b)
    rule = "line" if b == 1 else "batch"
    assert_damage(made.content + first + second + last, rule, made.end + len(first + second))
    assert scanned(made.content + first + second + third).scan.damage == []


@pytest.mark.parametrize("b", [1, 2, 3])
def test_line_alone_that_ends_a_batch_is_damage(b: int) -> None:
    made = three_batches()
    seen = scanned(made.content + line(made.place, b=b))
    assert seen.only_damage.offset == made.end and seen.scan.torn is None


def test_unfinished_batch_in_a_segment_that_is_not_the_last_is_damage() -> None:
    made = three_batches()
    rest = b"".join(batch(made.place, 3).splitlines(keepends=True)[:2])
    seen = scanned(made.content + rest, is_last=False)
    assert (seen.only_damage.rule, seen.only_damage.offset) == ("batch", made.end)
    assert seen.only_damage.reason == "2 lines of an unfinished batch"
    assert seen.seqs[-2:] == [[6], [7]], "what can be read is given"


def test_segment_without_a_seal_that_is_not_the_last_is_damage() -> None:
    made = three_batches()
    assert_damage(made.content, "seal", made.end, is_last=False)
    found = scanned(made.content, is_last=False).only_damage
    assert found.first_seq == 6
    assert found.reason == "not sealed, though only the newest may be"


def test_damage_in_a_segment_without_a_seal_is_said_once() -> None:
    made = three_batches()
    broken = with_line(made, 1, damaged(lines_of(made)[1]))
    assert_damage(broken, "crc", offset_of(made, 1), is_last=False)


# Seal


@pytest.mark.parametrize(
    "changes",
    [{"seal": 2}, {"last_seq": 4}, {"last_seq": 6}, {"events": 4}, {"blake2b": "00" * 16}],
)
def test_seal_that_does_not_fit_the_bytes_before_it_is_damage(changes: Any) -> None:
    made = three_batches()
    end = made.end
    made.seal(**changes)
    assert_damage(made.content, "seal", end)
    reason = scanned(made.content).only_damage.reason
    assert reason.startswith("the seal says (") and "the bytes before it (1, 5, 5, " in reason


def test_seal_of_another_chain_is_damage() -> None:
    made = three_batches()
    other = three_batches()
    other.place = made.place._replace(chain=made.place.chain ^ 1)
    assert_damage(made.content + other.seal_line(), "crc", made.end)


def test_seal_inside_a_batch_is_damage() -> None:
    made = three_batches()
    first = batch(made.place, 2).splitlines(keepends=True)[0]
    made.content += first
    for is_last in (True, False):
        assert_damage(made.content + made.seal_line(), "batch", made.end, is_last=is_last)
    made.place = place_after(first, made.place)
    assert_damage(made.content + made.seal_line(), "crc", made.end)


def test_bytes_behind_the_seal_are_damage_said_once() -> None:
    made = sealed()
    following = batch(made.place, 1)
    for behind in (b"\n", b"\r", b"x", b"\0x", following, following * 2, made.seal_line()):
        assert_damage(made.content + behind, "seal", made.end)
        assert scanned(made.content + behind).only_damage.reason == "bytes behind the seal"


def test_seal_behind_damage_tells_how_far_the_damage_reached() -> None:
    made = sealed()
    seen = scanned(with_line(made, 5, b"x\n"), is_last=False)
    assert (seen.only_damage.first_seq, seen.only_damage.last_seq) == (5, 5)
    assert seen.scan.seal is not None and seen.scan.info().sealed
    assert seen.seqs == [[1], [2, 3, 4]]


def test_line_that_only_begins_like_a_seal_is_damage() -> None:
    made = three_batches()
    assert_damage(made.content + b'{"seal":1}\n', "seal", made.end)
    assert_damage(made.content + b'{"seal":\n', "json", made.end)


# Midway


def midway_after(made: SegmentBytes) -> scan.Midway:
    return scanned(made.content, is_last=True).scan.midway()


class GoneOn(NamedTuple):
    """An exhausted scan that began midway, and the seqs of its batches."""

    scan: Scan
    seqs: list[list[int]]


def going_on(content: bytes, at: scan.Midway, follows: Place, *, is_last: bool = True) -> GoneOn:
    disk = disk_with_segment(content)
    source = segment.open_source(disk, DIRECTORY, 1)
    found = Scan(disk, source, session_id=SESSION, is_last=is_last, follows=follows, midway=at)
    return GoneOn(found, [[one.seq for one in records] for records in found.batches()])


def test_pass_that_goes_on_midway_ends_like_one_from_the_beginning() -> None:
    made = three_batches()
    at, place = midway_after(made), made.place
    assert (at.offset, at.events) == (made.end, 5)
    made.add(2)
    made.add()
    made.seal()
    found, seqs = going_on(made.content, at, place, is_last=False)
    whole = scanned(made.content, is_last=False).scan
    assert seqs == [[6, 7], [8]]
    assert (found.place, found.end, found.events) == (whole.place, whole.end, whole.events)
    assert (found.header, found.seal, found.damage) == (whole.header, whole.seal, [])


def test_pass_may_go_on_again_and_again_and_leaves_where_it_began_as_it_was() -> None:
    made = SegmentBytes()
    at, place = midway_after(made), made.place
    for _ in range(5):
        made.add()
        for _ in range(2):
            found, seqs = going_on(filled(made.content), at, place)
            assert seqs == [[made.place.seq]]
        at, place = found.midway(), found.place
    found, seqs = going_on(made.content + made.seal_line(), at, place)
    assert (found.damage, seqs, found.seal is None) == ([], [], False)


def test_pass_without_anything_new_stays_where_it_is() -> None:
    made = three_batches()
    at = midway_after(made)
    for content in (made.content, filled(made.content)):
        found, seqs = going_on(content, at, made.place)
        assert (found.place, found.end, found.events) == (made.place, made.end, 5)
        assert (seqs, found.torn, found.damage, found.seal) == ([], None, [], None)


def test_pass_that_goes_on_finds_torn_tails_and_damage_at_their_offsets() -> None:
    made = three_batches()
    at, place, end = midway_after(made), made.place, made.end
    lines = made.add(2)
    found, _ = going_on(made.content[:-5], at, place)
    assert found.torn is not None
    assert (found.torn.offset, found.damage) == (end, [])
    found, _ = going_on(made.content.replace(lines, damaged(lines)), at, place)
    assert [(one.offset, one.first_seq) for one in found.damage] == [(end, 6)]


def test_seal_that_counts_other_events_than_both_passes_is_damage() -> None:
    made = three_batches()
    at, place = midway_after(made), made.place
    made.add()
    for changes in ({"events": 1}, {"blake2b": codec.digest(b"")}):
        found, _ = going_on(made.content + made.seal_line(**changes), at, place)
        assert [one.rule for one in found.damage] == ["seal"]


# How it is read


def test_scan_reads_behind_a_torn_tail_no_further() -> None:
    made = three_batches()
    disk = disk_with_segment(made.content + bytes(9))
    source = segment.open_source(disk, DIRECTORY, 1)
    found = Scan(disk, source, session_id=SESSION, is_last=True)
    batches = found.batches()
    assert [len(one) for one in batches] == [1, 3, 1]
    assert next(batches, None) is None
    assert disk.log == [], "a read changes nothing"


def test_batches_come_one_after_another_and_the_place_goes_with_them() -> None:
    made = three_batches()
    disk = disk_with_segment(made.content)
    found = Scan(disk, segment.open_source(disk, DIRECTORY, 1), session_id=SESSION, is_last=True)
    places = [found.place.seq for _ in found.batches()]
    assert places == [1, 4, 5]
