"""FORMAT.md §6, clause by clause and on both sides, then exhaustively: whatever a cut write can
leave is torn, and no flipped bit of what was acknowledged ever is.

E is the end of the last whole batch; the rest is what lies behind it; W is the end of the rest
without the blanks at its end; A is where its first line that is not valid begins.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durasess.engine import codec, torn
from durasess.engine.records import Place
from tests.support.lines import (
    BLANKS,
    SECTOR,
    TAB,
    UNHURRIED,
    SegmentBytes,
    batch,
    blanked,
    body,
    flips,
    line,
    lost_pieces,
    overwritten,
    pieces,
    place_after,
    verdict,
    zeroed,
)

LF = b"\n"
FILLER = TAB * 700
"""Reaches over the end of a sector wherever it begins."""


def segment_to(remainder: int = 0) -> SegmentBytes:
    """A segment with an event, whose end E is at this offset of a sector."""
    before = SegmentBytes()
    before.add_up_to(remainder)
    assert before.end % SECTOR == remainder
    return before


BEFORE = segment_to(200)
"""E is at byte 200 of a sector, so a short write lies in one piece and a long one in several."""

ONE = batch(BEFORE.place, 1)
THREE = batch(BEFORE.place, 3)
FIRST, SECOND, THIRD = THREE.splitlines(keepends=True)
LONG = batch(BEFORE.place, 1, "x" * 1500)
N = BEFORE.place.seq + 1


def is_torn(rest: bytes, before: SegmentBytes = BEFORE) -> bool:
    """Whether the rest is torn and nothing of it is to be kept."""
    found = verdict(before, rest)
    return found is not None and found.whole == ()


def is_damage(rest: bytes, before: SegmentBytes = BEFORE) -> bool:
    return verdict(before, rest) is None


def reason(rest: bytes, before: SegmentBytes = BEFORE) -> str:
    found = verdict(before, rest)
    assert found is not None
    return found.reason


def line_beginning(text: bytes) -> bytes:
    """A line whose crc agrees, whatever it is."""
    return text + b',"crc":"%08x"}' % zlib.crc32(text, BEFORE.place.chain)


# The helpers themselves


def test_segments_and_pieces_of_these_tests_are_what_they_claim() -> None:
    assert len(ONE) < len(THREE) < SECTOR - 200 < len(LONG)
    assert (FIRST.count(b'"b":0'), SECOND.count(b'"b":0'), THIRD.count(b'"b":3')) == (1, 1, 1)
    assert pieces(200, 1000) == [(0, 312), (312, 824), (824, 1000)]
    assert pieces(512, 512) == [(0, 512)] and pieces(511, 2) == [(0, 1), (1, 2)]
    assert len(list(lost_pieces(LONG, BEFORE.end))) == 2 ** len(pieces(BEFORE.end, len(LONG))) - 1


def test_file_is_overwritten_behind_its_last_line_and_grows_only_when_it_has_to() -> None:
    assert overwritten(b"ab" + TAB * 4, b"cd") == b"abcd" + TAB * 2
    assert overwritten(b"ab" + TAB, b"cd") == overwritten(b"ab", b"cd") == b"abcd"


# Rule 1: valid lines with b 0 and nothing else


@pytest.mark.parametrize(("rest", "count"), [(FIRST, 1), (FIRST + SECOND, 2)])
def test_file_that_ends_behind_lines_with_b_0_is_torn(rest: bytes, count: int) -> None:
    assert is_torn(rest)
    assert reason(rest) == f"the file ends inside a batch, after {count} of its lines"
    assert is_torn(rest + FILLER)
    assert reason(rest + FILLER) == reason(rest)


@pytest.mark.parametrize("b", [None, 2, 4])
def test_line_that_ends_a_batch_of_another_length_is_damage_before_filler(b: int | None) -> None:
    after = place_after(FIRST + SECOND, BEFORE.place)
    assert is_damage(FIRST + SECOND + line(after, b=b) + FILLER)


@pytest.mark.parametrize("b", [None, 1, 2, 4, 5])
def test_line_that_ends_a_batch_of_another_length_is_damage(b: int | None) -> None:
    after = place_after(FIRST + SECOND, BEFORE.place)
    assert is_damage(FIRST + SECOND + line(after, b=b))


def test_line_that_ends_a_batch_of_another_length_at_once_is_damage() -> None:
    for b in (1, 2, 3):
        assert is_damage(line(BEFORE.place, b=b))


@pytest.mark.parametrize("seq", [N - 1, N + 1, 10 * N])
def test_line_with_another_seq_is_damage(seq: int) -> None:
    assert is_damage(line(BEFORE.place, b=0, seq=seq))


def test_line_behind_a_line_with_b_0_must_have_the_next_seq() -> None:
    after = place_after(FIRST, BEFORE.place)
    assert is_torn(FIRST + line(after, b=0, seq=N + 1))
    for seq in (N, N + 2):
        assert is_damage(FIRST + line(after, b=0, seq=seq))


def test_line_of_another_chain_is_damage() -> None:
    assert is_damage(line(BEFORE.place._replace(chain=BEFORE.place.chain ^ 1), b=0))
    assert is_damage(FIRST + line(BEFORE.place, b=0, seq=N + 1))


@pytest.mark.parametrize("text", [b"", b"{}", b"[1]", b"garbage", b'{"seq":', b'{"seal":1}'])
def test_line_that_is_no_event_is_damage(text: bytes) -> None:
    assert is_damage(text + LF)
    assert is_damage(FIRST + text + LF)


@pytest.mark.parametrize(
    "members",
    [
        b'"seq":%d,"ts":"2026-01-01T00:00:00.000000Z","type":"n"' % N,
        b'"seq":%d,"ts":"2026-01-01T00:00:00.000000Z","b":0,"type":"n"' % N,
        b'"seq":%d,"ts":"2026-01-01T00:00:00.000000Z","b":0,"type":"","data":1' % N,
        b'"seq":%d,"ts":"2026-01-01T00:00:00.000000Z","b":0,"type":7,"data":1' % N,
        b'"seq":%d,"ts":"short","b":0,"type":"n","data":1' % N,
        b'"seq":"%d"' % N,
        b'"note":1',
    ],
)
def test_line_whose_crc_agrees_but_which_is_no_event_is_damage(members: bytes) -> None:
    assert is_damage(line_beginning(b"{" + members) + LF)


def test_carriage_returns_of_an_editor_are_passed_over() -> None:
    lines = [text.removesuffix(LF) + b"\r\n" for text in (FIRST, SECOND)]
    assert is_torn(lines[0])
    assert is_torn(lines[0] + lines[1])
    assert is_torn(lines[0] + SECOND[:40])


# Rule 2: a last line without a line feed


def test_every_beginning_of_the_next_line_is_torn() -> None:
    for size in range(1, len(ONE) - 1):
        assert is_torn(ONE[:size])
        assert reason(ONE[:size]) == "the last line has no line feed"


def test_every_beginning_of_a_later_line_of_the_batch_is_torn() -> None:
    for whole, cut in ((FIRST, SECOND), (FIRST + SECOND, THIRD[:-1])):
        for size in range(1, len(cut)):
            assert is_torn(whole + cut[:size])


@pytest.mark.parametrize("size", [1, 2, 311, 312, 5000])
def test_every_beginning_of_a_line_with_filler_behind_it_is_torn_for_the_same_reason(
    size: int,
) -> None:
    for whole, cut in ((b"", ONE), (FIRST, SECOND), (FIRST + SECOND, THIRD)):
        for at in range(1, len(cut) - 1):
            assert is_torn(whole + cut[:at] + TAB * size)
            assert reason(whole + cut[:at] + TAB * size) == "the last line has no line feed"


def test_every_beginning_of_a_seal_with_filler_behind_it_is_torn() -> None:
    seal = BEFORE.seal_line()
    for size in range(1, len(seal)):
        assert is_torn(seal[:size] + FILLER)
        assert size < len(b'{"seq') or is_damage(FIRST + seal[:size] + FILLER)


@pytest.mark.parametrize("begin", [b"x", b"{}", b'{"seq":%d,' % (N + 1), b'{"seq":%d,"tsx' % N])
def test_bytes_before_filler_that_begin_no_line_are_damage(begin: bytes) -> None:
    for size in (1, 20, 700):
        assert is_damage(begin + TAB * size)


@pytest.mark.parametrize("behind", [b"\r", b" ", b"\x0b", b"x", b"{", ONE[:-1]])
def test_whole_line_with_bytes_behind_it_is_damage_before_filler(behind: bytes) -> None:
    for begin in (ONE, FIRST, FIRST + SECOND, BEFORE.seal_line()):
        assert is_damage(begin[:-1] + behind + FILLER)


def test_tab_inside_the_last_line_is_damage() -> None:
    """Filler ends the file; a tab before other bytes of its piece is none."""
    for at in range(1, 60):
        assert is_damage(blanked(ONE, at, at + 1, TAB))
        assert is_damage(blanked(ONE[:60], at - 1, at, TAB) + FILLER)


def test_bytes_behind_the_fixed_beginning_are_not_looked_at() -> None:
    assert is_torn(b'{"seq":%d,"ts":"' % N + b"\xff any bytes\r{}")


def test_bytes_that_differ_within_the_fixed_beginning_are_damage() -> None:
    fixed = b'{"seq":%d,"ts":"' % N
    for at in range(len(fixed)):
        changed = fixed[:at] + bytes([fixed[at] ^ 1]) + fixed[at + 1 :]
        assert is_damage(changed) and is_damage(changed[: at + 1])
        assert is_damage(changed + ONE[len(fixed) : -1])


@pytest.mark.parametrize("seq", [N - 1, N + 1, 10 * N, 10 * N + 1])
def test_beginning_of_a_line_with_another_seq_is_damage(seq: int) -> None:
    assert is_damage(b'{"seq":%d,"ts":"2026' % seq)


def test_beginning_must_have_the_seq_behind_the_lines_before_it() -> None:
    assert is_torn(FIRST + b'{"seq":%d,"ts":"2026' % (N + 1))
    assert is_damage(FIRST + b'{"seq":%d,"ts":"2026' % N)
    assert is_damage(FIRST + b'{"seq":%d,"ts":"2026' % (N + 2))


def test_every_beginning_of_a_seal_is_torn_directly_at_the_end_of_the_batches() -> None:
    seal = BEFORE.seal_line()
    for size in range(1, len(seal)):
        assert is_torn(seal[:size])


def test_beginning_of_a_seal_inside_a_batch_is_damage() -> None:
    seal = BEFORE.seal_line()
    for size in range(len(b'{"seq'), len(seal)):
        assert is_damage(FIRST + seal[:size])


def test_bytes_that_only_begin_like_a_seal_differ_and_are_damage() -> None:
    assert is_damage(b'{"sealed":true')
    assert is_damage(b'{"segment":2')


@pytest.mark.parametrize("behind", [b"\r", b" ", b"\x0b", b"x", b"{", ONE[:-1], b'"}'])
def test_whole_line_with_bytes_behind_it_is_damage(behind: bytes) -> None:
    assert is_damage(ONE[:-1] + behind)
    assert is_damage(FIRST[:-1] + behind)
    assert is_damage(FIRST + SECOND[:-1] + behind)
    assert is_damage(BEFORE.seal_line()[:-1] + behind)


def test_bytes_behind_a_line_whose_crc_does_not_agree_are_torn() -> None:
    """By its letter, rule 2 refuses only what follows a line that was whole."""
    other = line(BEFORE.place._replace(chain=1))[:-1]
    assert codec.control(other)["seq"] == N
    assert is_torn(other + b"x")


def test_what_looks_like_the_end_of_a_line_inside_its_data_does_not_make_damage() -> None:
    data = {"inner": {"x": 1, "crc": "0a1b2c3d"}, "then": [{"x": 1, "crc": "00000000"}]}
    text = batch(BEFORE.place, 1, data)
    assert text.count(b',"crc":"') == 3
    assert all(is_torn(text[:size]) for size in range(1, len(text) - 1))


def test_crc_inside_the_data_that_happens_to_agree_does_not_make_damage() -> None:
    begin = b'{"seq":%d,"ts":"2026-01-01T00:00:00.000000Z"' % N + body([{"x": 1}])[:-2]
    text = line_beginning(begin) + b'],"crc":"01234567"}'
    assert codec.check(text[: text.index(b"]")], BEFORE.place.chain)
    assert all(is_torn(text[:size]) for size in range(1, len(text)))


# Rule 2, a batch that lacks only its last line feed


def test_single_line_that_lacks_only_its_line_feed_is_torn_and_kept() -> None:
    found = verdict(BEFORE, ONE[:-1])
    assert found is not None
    assert found.reason == "the last line lacks only its line feed"
    assert found.whole == (torn.WholeLine(0, ONE[:-1], N, None, codec.stored_crc(ONE[:-1])),)


def test_batch_that_lacks_only_its_line_feed_is_torn_and_kept_whole() -> None:
    found = verdict(BEFORE, THREE[:-1])
    assert found is not None
    assert [(one.seq, one.batch) for one in found.whole] == [(N, 0), (N + 1, 0), (N + 2, 3)]
    assert [THREE[one.at :][: len(one.text)] for one in found.whole] == [
        text.removesuffix(LF) for text in (FIRST, SECOND, THIRD)
    ]
    assert [one.crc for one in found.whole] == [codec.stored_crc(one.text) for one in found.whole]


@pytest.mark.parametrize("write", [ONE, THREE, LONG])
def test_batch_in_whose_place_of_the_line_feed_is_filler_is_torn_and_kept(write: bytes) -> None:
    plain = verdict(BEFORE, write[:-1])
    for size in (1, 2, 312, 5000):
        assert verdict(BEFORE, write[:-1] + TAB * size) == plain
    assert plain is not None and whole_of(plain) == write


@pytest.mark.parametrize("cut", [FIRST[:-1], FIRST + SECOND[:-1], BEFORE.seal_line()[:-1]])
def test_whole_line_that_ends_no_batch_and_lacks_its_line_feed_is_torn_and_not_kept(
    cut: bytes,
) -> None:
    assert is_torn(cut)
    assert is_torn(cut + FILLER)


@pytest.mark.parametrize("b", [None, 2, 4])
def test_line_that_ends_a_batch_of_another_length_without_a_line_feed_is_torn_and_not_kept(
    b: int | None,
) -> None:
    """By its letter, rule 2 asks only how the line begins."""
    after = place_after(FIRST + SECOND, BEFORE.place)
    assert is_torn(FIRST + SECOND + line(after, b=b)[:-1])


def test_whole_line_of_another_chain_without_a_line_feed_is_torn_and_not_kept() -> None:
    assert is_torn(line(BEFORE.place._replace(chain=1))[:-1])


# Rule 3: blanks at the very end, or pieces that are all blanks


@pytest.mark.parametrize("size", [1, 2, 311, 312, 313, 512, 5000])
def test_zeros_alone_are_torn(size: int) -> None:
    assert is_torn(bytes(size))
    assert is_torn(FIRST + bytes(size))
    assert is_torn(FIRST + SECOND + bytes(size))


@pytest.mark.parametrize("blanks", [b"\0\t", b"\t\0", b"\0" + FILLER, FILLER + b"\0", b"\t\0\t"])
def test_zeros_among_filler_are_torn(blanks: bytes) -> None:
    """A write that made the file longer was lost, but for the new size."""
    for whole in (b"", FIRST, FIRST + SECOND, ONE[:40], FIRST + SECOND[:40], ONE[:-1]):
        assert is_torn(whole + blanks)
        assert reason(whole + blanks).endswith("zero bytes at the end of the file")


def test_zeros_at_the_very_end_need_not_begin_at_a_sector() -> None:
    for size in (1, 20, 50):
        assert is_torn(ONE[:size] + bytes(7))
        assert reason(ONE[:size] + bytes(7)) == "7 zero bytes at the end of the file"


def test_whole_line_in_whose_place_of_the_line_feed_is_a_zero_is_torn_and_not_kept() -> None:
    assert is_torn(ONE[:-1] + b"\0")
    assert is_torn(THREE[:-1] + bytes(9))
    assert is_torn(ONE[:-1] + b"\0" + FILLER)


def test_seal_with_zeros_behind_its_beginning_is_torn_directly_at_the_end_of_the_batches() -> None:
    seal = BEFORE.seal_line()
    assert is_torn(seal[:30] + bytes(50))
    assert is_damage(FIRST + seal[:30] + bytes(50))


@pytest.mark.parametrize("blank", BLANKS)
@pytest.mark.parametrize("behind", [b"", TAB, FILLER])
def test_each_lost_piece_is_torn_and_counted(blank: bytes, behind: bytes) -> None:
    *found, last = pieces(BEFORE.end, len(LONG))
    for lost in found:
        rest = blanked(LONG, *lost, blank) + behind
        assert is_torn(rest)
        assert reason(rest) == "1 sector missing in the last write"
    both = blanked(LONG, 0, 312 + SECTOR, blank) + behind
    assert reason(both) == "2 sectors missing in the last write"
    # A lost last piece is blanks at the very end.
    assert reason(zeroed(LONG, *last) + behind).endswith("at the end of the file")
    assert reason(blanked(LONG, *last, TAB) + behind) == "the last line has no line feed"


def test_lost_pieces_may_show_zeros_and_tabs_side_by_side() -> None:
    """Where the file was made longer in the middle of the write, or of a sector."""
    first, second, third, _ = pieces(BEFORE.end, len(LONG))
    for one, other in itertools.permutations(BLANKS):
        assert is_torn(blanked(zeroed(LONG, *first), *third, TAB))
        half = (second[0] + 100, second[1])
        assert is_torn(blanked(blanked(LONG, *second, one), *half, other))
        assert is_torn(LONG[: second[0]] + one * 10 + other * 10)


def test_line_that_is_not_valid_without_any_zero_is_damage() -> None:
    for at in (0, 30, len(LONG) - 9):
        assert is_damage(LONG[:at] + b"?" + LONG[at + 1 :])


@pytest.mark.parametrize("behind", [b"", FILLER])
@pytest.mark.parametrize("blank", BLANKS)
def test_one_blank_beside_other_bytes_of_its_piece_is_damage(blank: bytes, behind: bytes) -> None:
    for at in range(len(LONG) - 1):
        assert is_damage(blanked(LONG, at, at + 1, blank) + behind)


@pytest.mark.parametrize("behind", [b"", FILLER])
@pytest.mark.parametrize("blank", BLANKS)
@pytest.mark.parametrize("shift", [-1, 1, 100])
def test_blanks_that_are_not_a_whole_piece_are_damage(
    shift: int, blank: bytes, behind: bytes
) -> None:
    start, end = pieces(BEFORE.end, len(LONG))[1]
    assert is_damage(blanked(LONG, start + shift, end + shift, blank) + behind)
    assert is_damage(blanked(LONG, start, end + shift, blank) + behind)
    assert is_damage(blanked(LONG, start + shift, end, blank) + behind)


@pytest.mark.parametrize("blank", BLANKS)
def test_blanks_that_are_not_a_whole_piece_are_damage_beside_a_piece_that_is(
    blank: bytes,
) -> None:
    (_, first_end), second, third, _ = pieces(BEFORE.end, len(LONG))
    for whole in BLANKS:
        lost = blanked(LONG, *second, whole)
        assert is_torn(lost)
        assert is_damage(blanked(lost, third[0] + 1, third[1], blank))
        assert is_damage(blanked(lost, first_end - 1, first_end, blank))
        assert is_damage(lost[:-1] + b"?" + blank + LF)


@pytest.mark.parametrize("blank", BLANKS)
def test_sectors_are_those_of_the_file_and_not_of_the_write(blank: bytes) -> None:
    other = segment_to(201)
    text = batch(other.place, 1, "x" * 1500)
    start, end = pieces(BEFORE.end, len(text))[1]
    assert is_damage(blanked(text, start, end, blank), other)
    assert is_torn(blanked(text, start - 1, end - 1, blank), other)


def test_piece_that_holds_valid_lines_and_then_zeros_is_damage() -> None:
    """A lost sector takes the lines at its beginning with it."""
    rest = THREE + batch(place_after(THREE, BEFORE.place), 1, "x" * 900)
    rest = FIRST + zeroed(rest[len(FIRST) :], 0, 312 - len(FIRST))
    assert rest[311] == 0 != rest[312]
    assert is_damage(rest)


def test_piece_of_valid_lines_before_the_lost_one_is_kept_out_of_it() -> None:
    rest = batch(BEFORE.place, 2, "x" * 700)
    second = pieces(BEFORE.end, len(rest))[-1]
    assert is_torn(zeroed(rest, second[0] - SECTOR, second[0]))


@pytest.mark.parametrize("begin", [b"x", b"{}", b'{"seq":%d,' % (N + 1), b'{"seq":%d,"tsx' % N])
def test_bytes_before_the_zeros_that_begin_no_line_are_damage(begin: bytes) -> None:
    assert is_damage(begin + bytes(20))
    filled = (begin + ONE)[: 312 if len(begin + ONE) > 312 else None].ljust(312, b"x")
    assert is_damage(filled + bytes(SECTOR) + b"x")


def test_whole_line_and_more_before_the_zeros_is_damage() -> None:
    assert is_damage(ONE[:-1] + b"x" + bytes(20))
    assert is_damage(FIRST[:-1] + b"\r" + bytes(20))


def test_damaged_line_with_its_line_feed_before_the_zeros_is_damage() -> None:
    """Only the last batch can be torn: an ended line that is not valid was acknowledged."""
    changed = ONE.replace(b"note", b"nope")
    after = place_after(ONE, BEFORE.place)
    following = batch(after, 1, "x" * 900)
    for behind in (b"", bytes(20), following[:30] + bytes(900), zeroed(following, 0, 900)):
        assert is_damage(changed + behind)
        assert is_damage(changed + behind + FILLER)
        assert is_damage(changed + behind.replace(b"\0", TAB) + FILLER)
    long = ONE.replace(b"note", b"nope") + batch(after, 1, "x" * 1500)
    second = pieces(BEFORE.end, len(long))[1]
    for blank in BLANKS:
        assert is_damage(blanked(long, *second, blank))


# Rule 3, whole lines behind the first blank


def behind_a_lost_piece(*lines: bytes) -> Iterator[bytes]:
    """Line N reaches over a lost sector; these lines follow it, and filler or none."""
    long = line(BEFORE.place, "x" * 900, b=0)
    lost = pieces(BEFORE.end, len(long))[1]
    for blank, behind in itertools.product(BLANKS, (b"", FILLER)):
        yield blanked(long, *lost, blank) + b"".join(lines) + behind


def some(seq: int, b: int | None, data: str = "") -> bytes:
    """A line behind a gap: its crc cannot be checked."""
    return line(BEFORE.place, data, seq=seq, b=b)


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [some(N + 1, 0)],
        [some(N + 1, 2)],
        [some(N + 1, 0), some(N + 2, 0)],
        [some(N + 1, 0), some(N + 2, 3)],
        [some(N + 5, 6)],
        [some(N + 1, 0), some(N + 2, 3)[:-1]],
        [some(N + 1, 0), b"what a cut leaves of the last line is not looked at"],
    ],
)
def test_lines_of_the_same_batch_behind_a_lost_piece_are_torn(lines: list[bytes]) -> None:
    for rest in behind_a_lost_piece(*lines):
        assert is_torn(rest)


@pytest.mark.parametrize(
    "lines",
    [
        [some(N + 1, None)],
        [some(N + 1, 1)],
        [some(N + 1, 3)],
        [some(N + 2, 2)],
        [some(N + 1, 2), some(N + 2, 0)],
        [some(N + 1, 2), some(N + 2, 3)],
        [some(N + 1, 2), some(N + 2, None)],
        [some(N + 1, 0), some(N + 2, None), b"x"],
        [some(N + 2, 0), some(N + 1, 0)],
        [some(N + 1, 0), some(N + 1, 0)],
        [some(N + 2, 0), some(N + 1, 2)],
        [some(N - 1, 0)],
        [b"\n"],
        [b"x\n"],
        [some(N + 1, 0), b"{}\n"],
        [BEFORE.seal_line()],
    ],
)
def test_other_lines_behind_a_lost_piece_are_damage(lines: list[bytes]) -> None:
    for rest in behind_a_lost_piece(*lines):
        assert is_damage(rest)


def test_first_line_of_the_batch_is_that_of_the_rest_and_not_the_lost_one() -> None:
    """F is the seq of the first line of the rest, valid or not."""
    lines = batch(BEFORE.place, 3, "x" * 700)
    assert is_torn(zeroed(lines, *pieces(BEFORE.end, len(lines))[2]))
    wrong = lines.replace(b'"b":3', b'"b":2')
    assert is_damage(zeroed(wrong, *pieces(BEFORE.end, len(wrong))[2]))


def test_lines_behind_the_gap_that_hold_blanks_themselves_are_not_looked_at() -> None:
    lines = batch(BEFORE.place, 4, "x" * 700)
    found = pieces(BEFORE.end, len(lines))
    for one, other in itertools.product(BLANKS, BLANKS):
        assert is_torn(blanked(blanked(lines, *found[0], one), *found[3], other))


def test_acknowledged_batches_of_one_line_with_a_lost_sector_in_the_first_are_damage() -> None:
    first = batch(BEFORE.place, 1, "x" * 900)
    second = batch(place_after(first, BEFORE.place), 1)
    lost = pieces(BEFORE.end, len(first))[1]
    for blank, behind in itertools.product(BLANKS, (b"", FILLER)):
        assert is_torn(blanked(first, *lost, blank) + behind)
        assert is_damage(blanked(first, *lost, blank) + second + behind)


# Exhaustively


REMAINDERS = (0, 1, 200, 511)
WRITES = {
    "one line": (1, None),
    "three lines": (3, {"text": "  @@  "}),
    "one long line": (1, "x" * 1100),
    "two long lines": (2, ["@ " * 200, {"crc": "0a1b2c3d"}]),
    "many lines": (12, None),
    "flips to tabs": (2, ")I(I) É"),
    "a seal": (0, None),
}


def write_of(name: str, before: SegmentBytes) -> bytes:
    count, data = WRITES[name]
    return batch(before.place, count, data) if count else before.seal_line()


def whole_of(found: torn.Verdict) -> bytes:
    return b"".join(one.text + LF for one in found.whole)


@pytest.fixture(params=REMAINDERS, ids=lambda remainder: f"at {remainder}")
def before(request: pytest.FixtureRequest) -> SegmentBytes:
    """Segments that end at different places of a sector."""
    return segment_to(request.param)


@pytest.fixture(params=WRITES)
def write(request: pytest.FixtureRequest, before: SegmentBytes) -> bytes:
    """What was being written behind them."""
    return write_of(request.param, before)


def test_write_cut_at_every_byte_is_torn(before: SegmentBytes, write: bytes) -> None:
    for size in range(1, len(write) - 1):
        assert is_torn(write[:size], before), f"cut at {size} of {len(write)}"


def test_write_without_its_last_byte_is_torn_and_kept_if_it_is_a_batch(
    before: SegmentBytes, write: bytes
) -> None:
    found = verdict(before, write[:-1])
    assert found is not None
    assert whole_of(found) == (b"" if write == before.seal_line() else write)


@pytest.mark.parametrize("behind", [b"", TAB * 9, FILLER], ids=len)
def test_write_over_filler_cut_at_every_byte_is_torn_or_kept(
    before: SegmentBytes, write: bytes, behind: bytes
) -> None:
    """The write lies over filler, and there is more behind it."""
    filler = TAB * len(write) + behind
    for size in range(1, len(write) - 1):
        assert is_torn(overwritten(filler, write[:size]), before), f"cut at {size}"
    found = verdict(before, overwritten(filler, write[:-1]))
    assert found is not None
    assert whole_of(found) == (b"" if write == before.seal_line() else write)


def test_write_with_zeros_from_every_byte_on_is_torn(before: SegmentBytes, write: bytes) -> None:
    for size in range(len(write)):
        assert is_torn(write[:size].ljust(len(write), b"\0"), before), f"zeros from {size}"


def test_write_with_every_combination_of_lost_sectors_is_torn(
    before: SegmentBytes, write: bytes
) -> None:
    for rest in lost_pieces(write, before.end):
        assert is_torn(rest, before), rest
        assert is_torn(rest + FILLER, before), rest


def test_write_over_filler_with_every_combination_of_lost_sectors_is_torn_or_not_there(
    before: SegmentBytes, write: bytes
) -> None:
    for behind in (b"", TAB, FILLER):
        for rest in lost_pieces(write, before.end, TAB):
            if rest.strip(TAB):
                assert is_torn_or_lacks_its_line_feed(rest + behind, before, write), rest


def is_torn_or_lacks_its_line_feed(rest: bytes, before: SegmentBytes, write: bytes) -> bool:
    """Where nothing but the last line feed was lost, the batch is kept."""
    found = verdict(before, rest)
    assert found is not None
    lacks = rest.rstrip(TAB) == write[:-1] and write != before.seal_line()
    return whole_of(found) == (write if lacks else b"")


def test_write_that_made_the_file_longer_with_every_combination_of_lost_sectors_is_torn(
    before: SegmentBytes, write: bytes
) -> None:
    """What was lost shows filler up to where the file ended before, and zeros from there on."""
    for end in cuts_of_interest(write, before.end):
        for rest in lost_pieces(write, before.end, TAB):
            longer = rest[:end] + rest[end:].replace(TAB, b"\0")
            if longer.strip(TAB):
                found = verdict(before, longer + FILLER)
                assert found is not None and whole_of(found) in (b"", write), longer


def cuts_of_interest(write: bytes, base: int) -> Iterator[int]:
    """Around each sector boundary and each line feed."""
    ends = [end for _, end in pieces(base, len(write))]
    ends += [at for at, byte in enumerate(write) if byte == LF[0]]
    for end, shift in itertools.product(ends, (-1, 0, 1, 2)):
        if 0 < end + shift < len(write):
            yield end + shift


def test_write_cut_anywhere_with_every_combination_of_lost_sectors_is_torn(
    before: SegmentBytes, write: bytes
) -> None:
    for size in cuts_of_interest(write, before.end):
        for rest in lost_pieces(write[:size], before.end):
            assert is_torn(rest, before), (size, rest)
            assert is_torn(rest.ljust(len(write), b"\0"), before), (size, rest)
        for rest in lost_pieces(write[:size], before.end, TAB):
            if rest.strip(TAB):
                assert is_torn_or_lacks_its_line_feed(rest + FILLER, before, write), (size, rest)


def test_every_flipped_bit_of_the_last_acknowledged_batch_is_damage(
    before: SegmentBytes, write: bytes
) -> None:
    """A flipped seal is damage too: nothing but a whole line feed stands behind it."""
    for rest in flips(write):
        assert is_damage(rest, before), rest
        assert is_damage(rest + TAB, before), rest
        assert is_damage(rest + FILLER, before), rest


def test_every_flipped_bit_of_filler_is_damage_but_where_a_lost_sector_may_end(
    before: SegmentBytes,
) -> None:
    """One byte at the beginning of a sector, behind sectors that are all filler, is what a cut
    write leaves whose first sectors were lost. Nothing was acknowledged there."""
    for size in (1, 2, 511, 512, 1100):
        for at, rest in enumerate(flips(TAB * size)):
            at //= 8
            torn_at = at > 0 and (before.end + at) % SECTOR == 0
            assert is_torn(rest, before) if torn_at else is_damage(rest, before), (size, at)


@pytest.mark.parametrize("count", [1, 2])
def test_every_flipped_bit_of_the_last_acknowledged_batch_is_damage_before_every_kind_of_tail(
    before: SegmentBytes, count: int
) -> None:
    acknowledged = batch(before.place, count, "  @@  )I")
    following = batch(place_after(acknowledged, before.place), 1, "x" * 700)
    tails = [following[:1], following[:300], bytes(1), bytes(600), following[:90] + bytes(9)]
    tails += [TAB, FILLER, b"\0" + FILLER, following[:300] + FILLER]
    for changed in flips(acknowledged):
        for tail in tails:
            assert is_damage(changed + tail, before), (changed, tail)
        for lost in pieces(before.end, len(changed + following)):
            if lost[0] >= len(changed):
                assert is_damage(zeroed(changed + following, *lost), before), (changed, lost)
                over_filler = blanked(changed + following, *lost, TAB) + FILLER
                assert is_damage(over_filler, before), (changed, lost)


# At random


def batch_of(sizes: list[int], after: Place) -> bytes:
    """A batch with a line of about each of these sizes."""
    place, lines = after, b""
    for index, size in enumerate(sizes, 1):
        b = None if len(sizes) == 1 else (len(sizes) if index == len(sizes) else 0)
        lines += line(place, "é@ x" * (size // 5), b=b)
        place = place_after(lines, after)
    return lines


@given(
    remainder=st.integers(0, SECTOR - 1),
    sizes=st.lists(st.integers(0, 900), min_size=1, max_size=5),
    data=st.data(),
)
@UNHURRIED
def test_any_cut_and_any_lost_sectors_of_any_batch_are_torn(
    remainder: int, sizes: list[int], data: st.DataObject
) -> None:
    before = segment_to(remainder)
    write = batch_of(sizes, before.place)
    rest = write[: data.draw(st.integers(1, len(write)))]
    for lost in data.draw(st.sets(st.sampled_from(pieces(before.end, len(rest))))):
        rest = blanked(rest, *lost, data.draw(st.sampled_from(BLANKS)))
    rest += bytes(data.draw(st.integers(0, len(write) - len(rest))))
    rest += TAB * data.draw(st.integers(0, 600))
    found = verdict(before, rest)
    if not rest.startswith(write) and rest.strip(TAB):
        assert found is not None and whole_of(found) in (b"", write)
