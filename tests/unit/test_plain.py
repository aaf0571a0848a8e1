"""The short way through a segment says exactly what the scanner says without it."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from durasess.engine import codec, plain, segment
from durasess.engine.plain import Run, whole_batches
from durasess.engine.records import Place
from durasess.engine.scan import Scan
from tests.support.lines import (
    DIRECTORY,
    START,
    TAB,
    SegmentBytes,
    batch,
    disk_with_segment,
    flips,
    line,
    place_after,
    scanned,
)


def made(*, seal: bool = True) -> SegmentBytes:
    """Batches of 1, 3, 2 and 1 events."""
    segment = SegmentBytes()
    for count in (1, 3, 2, 1):
        segment.add(count)
    if seal:
        segment.seal()
    return segment


def odd(content: bytes) -> Iterator[bytes]:
    """Segments with something unusual in them."""
    for at in range(0, len(content), 7):
        yield content[:at]
        yield content[:at] + TAB * 30
        yield content[:at] + b"\0" * 30
        yield content[:at] + b"\n" + content[at:]
        yield content[:at] + content[at + 1 :]
    yield from flips(content[:50])
    changed = random.Random(5)
    for _ in range(1500):
        at = changed.randrange(len(content))
        yield content[:at] + bytes([content[at] ^ 1 << changed.randrange(8)]) + content[at + 1 :]
    lines = content.splitlines(keepends=True)
    for first in range(len(lines)):
        yield b"".join(lines[:first] + lines[first + 1 :])
        yield b"".join([*lines[:first], lines[first], *lines[first:]])
        for second in range(first + 1, len(lines)):
            swapped = list(lines)
            swapped[first], swapped[second] = swapped[second], swapped[first]
            yield b"".join(swapped)
    yield content.replace(b"\n", b"\r\n")
    yield b"\xef\xbb\xbf" + content
    yield content + content
    yield b""


def told(content: bytes, is_last: bool) -> tuple[object, ...]:
    """All that a scan says."""
    batches = []
    try:
        scan, batches = scanned(content, is_last=is_last)
    except Exception as error:
        return (type(error), str(error))
    said = (scan.damage, scan.torn, scan.kept, scan.filler, scan.edited, scan.end, scan.place)
    hashes = (scan._hash.hexdigest(), scan.behind)
    return (batches, *said, *hashes, scan.events, scan.header, scan.seal)


@pytest.mark.parametrize("is_last", [True, False])
@pytest.mark.parametrize("seal", [True, False])
def test_a_scan_says_the_same_without_it(seal, is_last, monkeypatch):
    contents = [made(seal=seal).content, *odd(made(seal=seal).content)]
    short = [told(content, is_last) for content in contents]
    monkeypatch.setattr(Scan, "_first_chunk", lambda self: b"")
    for content, found in zip(contents, short, strict=True):
        assert found == told(content, is_last), content


def test_it_is_taken_where_all_is_well(monkeypatch):
    monkeypatch.setattr(Scan, "_read_event", None)
    assert scanned(made().content).seqs == [[1], [2, 3, 4], [5, 6], [7]]


def test_batches_end_before_the_first_line_that_is_not_the_next():
    first, second = line(START), line(Place(1, codec.stored_crc(line(START)[:-1])))
    for wrong in (
        second.replace(b"1b", b"2b").replace(b'"note', b'"nope'),
        line(Place(1, 5)),
        line(place_after(first, START), seq=3),
        line(place_after(first, START), b=2),
        second.replace(b',"type"', b', "type"'),
        second[:-1] + b"\r\n",
        b"\n",
        b"x" * 5 + b"\n",
    ):
        found = whole_batches(first + wrong + second, 0, 100, START, [])
        assert [[one.offset for one in each] for each in found.batches] == [[100]]
        assert not found.is_sound


def test_the_end_of_what_was_read_is_nothing_unusual():
    lines = batch(START, 1) + batch(place_after(batch(START, 1), START), 3)
    for at in range(len(lines)):
        found = whole_batches(lines[:at], 0, 0, START, [])
        assert (len(found.batches), found.is_sound) == (int(at >= len(batch(START, 1))), True)
        # What is looked at behind it goes on with the same batch.
        more = whole_batches(lines[found.end :], 0, found.end, found.place, found.rest)
        assert [one.seq for each in found.batches + more.batches for one in each] == [1, 2, 3, 4]
        assert found.batches + more.batches == whole_batches(lines, 0, 0, START, []).batches


@pytest.mark.parametrize("chunk", [64, 400, 1000, 5000])
def test_a_batch_may_lie_across_what_is_read_at_once(chunk, monkeypatch):
    monkeypatch.setattr(plain, "AT_ONCE", chunk)
    monkeypatch.setattr(plain, "_MOST_BYTES", 1 << 20)
    content = made().content
    disk = disk_with_segment(content)
    source = segment.open_source(disk, DIRECTORY, 1)
    begin = content.index(b"\n") + 1
    for ahead in (b"", content[: begin + 100], content):
        run = Run(disk, source, begin, START, ahead, begin if ahead else 0)
        found = list(run.batches())
        assert [[one.seq for one in each] for each, _ in found] == [[1], [2, 3, 4], [5, 6], [7]]
        raw = [b"".join(pieces) for _, pieces in found]
        assert b"".join([*raw, run.ahead]) == content[begin:]
        assert [b"".join(one.line + b"\n" for one in each) for each, _ in found] == raw
        assert run.ahead.startswith(b'{"seal":')


def test_a_batch_that_is_too_large_is_left_to_the_scanner(monkeypatch):
    monkeypatch.setattr(plain, "AT_ONCE", 600)
    monkeypatch.setattr(plain, "_MOST_BYTES", 600)
    assert scanned(made().content).seqs == [[1], [2, 3, 4], [5, 6], [7]]
    monkeypatch.setattr(plain, "_MOST_BYTES", 0)
    assert scanned(made().content).seqs == [[1], [2, 3, 4], [5, 6], [7]]
