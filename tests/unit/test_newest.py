"""The newest events from the end backwards: the same as the long way, or no answer."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from durasess import CorruptionError
from durasess.engine import codec, history, newest
from durasess.engine.files import RealFiles
from durasess.engine.fold import Fold
from durasess.engine.records import Place
from tests.support.lines import flips
from tests.support.sessions import (
    claims_of,
    collect,
    drop_line,
    lines_of,
    make_segments,
    open_inline,
    replace_line,
    segment_path,
)

FOLD = Fold(initial=list, apply=collect)
LAST = 13


@pytest.fixture
def path(tmp_path):
    """Two sealed segments of two events, and one without a seal: events alone, a batch, filler."""
    made = make_segments(tmp_path / "s1", 2)
    engine = open_inline(made, preallocate=4096)
    for n in range(5, 9):
        engine.append("counted", {"n": n})
    engine.append_many([("counted", {"n": n, "pad": "x" * 300}) for n in range(9, LAST + 1)])
    engine.flush()
    engine.abandon()
    return made


def end_of(path: str) -> Place:
    engine = open_inline(path, mode="read")
    return engine._found.place


def taken(path: str, after: int, end: Place) -> list[int] | None:
    """The seqs on the short way."""
    claims = claims_of(path)
    found = newest.newest(
        RealFiles(), path, claims.session_id, number=claims.highest, after=after, end=end
    )
    return None if found is None else [one.seq for _, records in found for one in records]


def events(path: str, after: int, end: Place) -> Iterator[tuple[int, str]]:
    for event in history.events(
        RealFiles(), claims_of(path), FOLD, after=after, through=end.seq, on_damage=None, end=end
    ):
        yield event.seq, event.crc


@pytest.mark.parametrize("look", [1, 100, 64 * 1024])
@pytest.mark.parametrize("after", range(LAST))
def test_both_ways_lead_to_the_same(
    path: str, after: int, look: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(newest, "_FIRST_LOOK", look)
    end = end_of(path)
    assert end.seq == LAST
    assert taken(path, after, end) == list(range(after + 1, LAST + 1))
    short = list(events(path, after, end))
    monkeypatch.setattr(newest, "newest", lambda *arguments, **more: None)
    assert short == list(events(path, after, end))


def test_an_end_inside_a_segment_that_goes_on(path: str) -> None:
    """As beside a writer: what it wrote later is left out."""
    lines = lines_of(segment_path(path, 3))
    at = codec.head(lines[3]).seq
    end = Place(at, codec.stored_crc(lines[3]))
    assert taken(path, at - 2, end) == [at - 1, at]


def test_an_end_before_the_newest_segment(path: str) -> None:
    lines = lines_of(segment_path(path, 2))
    assert taken(path, 2, Place(4, codec.stored_crc(lines[2]))) == [3, 4]
    assert taken(path, 2, Place(4, 0)) is None


def test_every_flipped_bit_is_found_or_stands_before_what_was_asked_for(path: str) -> None:
    end = end_of(path)
    file = segment_path(path, 3)
    whole = file.read_bytes()
    short = list(events(path, LAST - 2, end))
    begin = whole.index(b'{"seq":%d,' % (LAST - 1))
    stop = whole.rindex(b"\n") + 1
    for data in flips(whole[begin - 30 : stop]):
        file.write_bytes(whole[: begin - 30] + data + whole[stop:])
        try:
            found = list(events(path, LAST - 2, end))
        except CorruptionError:
            continue
        assert found == short


def test_a_missing_line_leads_to_the_long_way(path: str) -> None:
    end = end_of(path)
    drop_line(segment_path(path, 3), -2)
    assert taken(path, LAST - 3, end) is None
    with pytest.raises(CorruptionError):
        list(events(path, LAST - 3, end))


@pytest.mark.parametrize("index", [0, 1])
def test_what_is_needed_before_the_first_line_is_looked_at(path: str, index: int) -> None:
    """Its header, and the line whose checksum it goes on from."""
    end = end_of(path)
    replace_line(segment_path(path, 3), index, b"@" * 40)
    assert taken(path, 5, end) is None


def test_a_segment_that_is_not_there_leads_to_the_long_way(path: str) -> None:
    end = end_of(path)
    segment_path(path, 2).unlink()
    assert taken(path, 4, end) == list(range(5, LAST + 1))
    assert taken(path, 3, end) is None


def test_another_end_than_the_known_one_is_no_answer(path: str) -> None:
    end = end_of(path)
    assert taken(path, LAST - 3, end._replace(chain=end.chain ^ 1)) is None
    assert taken(path, LAST - 3, end._replace(seq=LAST + 1)) is None


def test_a_segment_of_another_session_is_no_answer(path: str) -> None:
    end = end_of(path)
    assert newest.newest(RealFiles(), path, "s2", number=3, after=9, end=end) is None


def test_more_than_is_read_at_once_is_no_answer(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newest, "_MOST_BYTES", 2000)
    monkeypatch.setattr(newest, "_FIRST_LOOK", 500)
    end = end_of(path)
    assert taken(path, 0, end) is None
    assert next(events(path, 0, end))[0] == 1


def test_a_line_that_is_no_event_is_told_on_the_long_way(tmp_path: Path) -> None:
    path = make_segments(tmp_path / "s1", 1)
    end = end_of(path)
    line, chain = codec.event_line(
        3, "2026-01-01T00:00:00.000000Z", None, b',"type":"t"', end.chain
    )
    file = segment_path(path, 1)
    kept = b"".join(text + b"\n" for text in lines_of(file) if not text.startswith(b'{"seal'))
    file.write_bytes(kept + line)
    with pytest.raises(CorruptionError, match="json"):
        list(events(path, 2, Place(3, chain)))


def test_no_segment_and_an_empty_one_are_no_answer(path: str) -> None:
    end = end_of(path)
    assert newest.newest(RealFiles(), path, "s1", number=0, after=0, end=end) is None
    segment_path(path, 3).write_bytes(b"")
    assert taken(path, 9, end) is None
