"""A sealed segment at once: the same as line by line, or no answer."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from durasess import CorruptionError, Event, Migration
from durasess.engine import codec, history, sealed
from durasess.engine.files import RealFiles
from durasess.engine.fold import Fold
from durasess.engine.records import Place
from durasess.engine.types import LineError
from tests.support.lines import flips
from tests.support.sessions import (
    claims_of,
    collect,
    make_segments,
    open_inline,
    segment_path,
)


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Three sealed segments with two events each; the last one is a batch."""
    made = make_segments(tmp_path / "s1", 2)
    engine = open_inline(made)
    engine.append_many([("counted", {"n": 5}), ("counted", {"n": 6})])
    engine.close()
    return made


def whole(path: str, number: int, follows: Place | None = None, **more: Any) -> Any:
    options = {"session_id": "s1", "follows": follows, **more}
    stored = sealed.stored(RealFiles(), path, number)
    if stored is None:
        return None
    try:
        found = sealed.unpacked(stored, sealed.content_of(stored))
    except LineError:
        return None
    return None if found is None else sealed.whole(found, **options)


def told(path: str, *, after: int = 0, through: int = 6, schema_version: int = 1) -> list[Event]:
    fold = Fold(
        initial=list,
        apply=collect,
        schema_version=schema_version,
        migrations={1: Migration(event=lambda event: event)},
    )
    return list(
        history.events(
            RealFiles(), claims_of(path), fold, after=after, through=through, on_damage=None
        )
    )


def rewritten(path: str, number: int, change: Callable[[list[bytes]], list[bytes]]) -> None:
    """The lines of a segment changed, with every checksum and the hash made anew."""
    file = segment_path(path, number)
    header, *events, seal = file.read_bytes().split(b"\n")[:-1]
    chain = codec.unhexed(codec.control(header)["chain"])
    lines = [header + b"\n"]
    for line in change(events):
        made = codec.with_crc(line[: -codec.CRC_SUFFIX], chain)
        chain = codec.stored_crc(made[:-1])
        lines.append(made)
    said = codec.control(seal)
    said.pop("crc")
    said["blake2b"] = codec.digest(b"".join(lines))
    file.write_bytes(b"".join(lines) + codec.control_line(said, chain))


@pytest.mark.parametrize("schema_version", [1, 2])
@pytest.mark.parametrize("after", range(7))
@pytest.mark.parametrize("through", [1, 3, 4, 6])
def test_both_ways_lead_to_the_same(
    path: str, after: int, through: int, schema_version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once = told(path, after=after, through=through, schema_version=schema_version)
    monkeypatch.setattr(sealed, "whole", lambda *arguments, **more: None)
    line_by_line = told(path, after=after, through=through, schema_version=schema_version)
    assert at_once == line_by_line
    assert [event.seq for event in at_once] == list(range(after + 1, through + 1))


def test_sealed_segments_are_not_read_line_by_line(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "Walk", None)
    assert len(told(path)) == 6


def test_a_segment_says_where_the_log_is_behind_it(path: str) -> None:
    first = whole(path, 1)
    second = whole(path, 2, first.place)
    assert (first.place.seq, second.place.seq, len(second.events)) == (2, 4, 2)
    assert whole(path, 3, first.place) is None
    assert whole(path, 3, second.place._replace(chain=0)) is None


def test_every_flipped_bit_leads_to_the_long_way(path: str) -> None:
    file = segment_path(path, 2)
    data = file.read_bytes()
    for changed in flips(data):
        file.write_bytes(changed)
        assert whole(path, 2) is None
    file.write_bytes(data.replace(b'"data":3', b'"data":7'))
    with pytest.raises(CorruptionError, match="crc"):
        told(path)


@pytest.mark.parametrize("size", [0, 1, 100, 300])
def test_a_segment_that_is_cut_leads_to_the_long_way(path: str, size: int) -> None:
    file = segment_path(path, 2)
    file.write_bytes(file.read_bytes()[:size])
    assert whole(path, 2) is None


def test_a_segment_of_another_session_or_number_is_no_answer(path: str) -> None:
    assert whole(path, 2, session_id="s2") is None
    segment_path(path, 2).replace(segment_path(path, 1))
    assert whole(path, 1) is None
    assert whole(path, 2) is None


def test_a_segment_without_a_seal_is_no_answer(tmp_path: Path) -> None:
    engine = open_inline(tmp_path / "s1")
    engine.append("counted", {"n": 1})
    engine.abandon()
    assert whole(str(tmp_path / "s1"), 1) is None
    assert len(told(str(tmp_path / "s1"), through=1)) == 1


def test_a_large_segment_is_read_in_bounded_memory(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealed, "_MOST_BYTES", 100)
    assert whole(path, 1) is None
    assert len(told(path)) == 6


def test_an_empty_segment_is_passed(tmp_path: Path) -> None:
    path = make_segments(tmp_path / "s1", 1)
    rewritten(path, 1, lambda events: events)
    assert whole(path, 1) is not None
    rewritten(path, 1, lambda events: [])
    # The seal says two.
    assert whole(path, 1) is None


@pytest.mark.parametrize(
    "change",
    [
        lambda line: line.replace(b'"data":', b'"proven":false,"data":'),
        lambda line: line.replace(b'"data":', b'"later":[1],"data":'),
        lambda line: line.replace(b'"n":5', b'"n":"\\ud800"'),
        lambda line: line.replace(b'"n":5', b'"n":123456789012345678901234567890'),
    ],
    ids=["a member named proven", "an unknown member", "a surrogate", "a large integer"],
)
def test_odd_lines_come_as_they_do_line_by_line(
    path: str, change: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = told(path)
    rewritten(path, 3, lambda events: [change(line) for line in events])
    at_once = told(path)
    assert whole(path, 3) is not None
    assert at_once != before
    monkeypatch.setattr(sealed, "whole", lambda *arguments, **more: None)
    assert at_once == told(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda events: events[:1],
        lambda events: events[::-1],
        lambda events: [events[0], events[0]],
        lambda events: [events[0], events[1].replace(b'{"seq":6', b'{"seq":7')],
        lambda events: [events[0], events[1].replace(b',"data":{"n":6}', b"")],
    ],
    ids=["one is missing", "swapped", "twice", "a seq too far", "no event"],
)
def test_what_a_writer_never_seals_is_told_on_the_long_way(
    path: str, change: Callable[[list[bytes]], list[bytes]]
) -> None:
    rewritten(path, 3, change)
    assert whole(path, 3) is None
    with pytest.raises(CorruptionError):
        told(path)
