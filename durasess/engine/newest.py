"""The newest events, read from the end of the log backwards.

A shortcut and never more: lines count only when each agrees with the one before it and they lead to
the place where the log is known to end. That says as much of them as a pass from the beginning of
their segment does. Where anything is unusual, there is no answer, and the caller takes the long way
by walk.py, which explains what is wrong.
"""

from __future__ import annotations

from durasess.engine import codec, files, segment
from durasess.engine.records import Place, Record
from durasess.engine.segment import Header
from durasess.engine.types import LineError
from durasess.errors import FormatVersionError

_FIRST_LOOK = 64 * 1024
_MOST_BYTES = 1024 * 1024
"""More is not read at once: the long way takes bounded memory."""

Newest = list[tuple[Header, list[Record]]]


def newest(
    disk: files.Files, directory: str, session_id: str, *, number: int, after: int, end: Place
) -> Newest | None:
    """The events with after < seq <= end.seq with their segments' headers, in order; None where
    this is not the way to find them.

    `number` is the newest segment's, `end` a place that is proven otherwise.
    """
    found: Newest = []
    left = _MOST_BYTES
    while end.seq > after:
        if number < 1 or left <= 0:
            return None
        try:
            header, records, size = _of_segment(disk, directory, number, after, end, left)
        except (FileNotFoundError, LineError, FormatVersionError):
            return None
        if (header.session_id, header.segment) != (session_id, number):
            return None
        if records:
            found.insert(0, (header, records))
        end = Place(header.first_seq - 1, codec.unhexed(header.chain))
        number -= 1
        left -= size
    return found


def _of_segment(
    disk: files.Files, directory: str, number: int, after: int, end: Place, most: int
) -> tuple[Header, list[Record], int]:
    """The header of a segment, its events up to `end`, and how many bytes were read for them."""
    source = segment.open_source(disk, directory, number)
    try:
        first = segment.first_line(disk, source)
        if first is None:
            raise LineError("header", "empty")
        header = segment.parse_header(first.text, source.path)
        begin = len(first.text) + 1
        if header.first_seq > end.seq:
            if (header.first_seq - 1, codec.unhexed(header.chain)) != end:
                raise LineError("header", f"it does not begin behind {end}")
            return header, [], begin
        seq = max(after + 1, header.first_seq)
        size = _FIRST_LOOK
        while True:
            at = max(begin, source.size - size)
            data = source.read_at(disk, source.size - at, at)
            start = _start_of(data, seq, from_header=at == begin and seq == header.first_seq)
            if start is not None or at == begin or size >= most:
                break
            size *= 4
    finally:
        segment.close_source(disk, source)
    if start is None:
        raise LineError("seq", f"no line of seq {seq}")
    chain = codec.unhexed(header.chain) if at + start == begin else _chain_before(data, start)
    return header, _proven(data, start, at, Place(seq - 1, chain), end), len(data)


def _start_of(data: bytes, seq: int, *, from_header: bool) -> int | None:
    """Where the line of this seq begins. No text in a line holds a line feed: JSON escapes it."""
    if from_header:
        return 0
    found = data.rfind(b'\n{"seq":%d,"ts":"' % seq)
    # What stands before it must be there too, for its checksum.
    return found + 1 if found >= codec.CRC_SUFFIX else None


def _chain_before(data: bytes, start: int) -> int:
    return codec.stored_crc(data[start - 1 - codec.CRC_SUFFIX : start - 1])


def _proven(data: bytes, start: int, base: int, place: Place, end: Place) -> list[Record]:
    """The lines from `start` on to `end`; LineError when they do not lead there."""
    records = []
    seq, chain = place
    while seq < end.seq:
        stop = data.find(b"\n", start)
        if stop < 0:
            raise LineError("line feed", "the last line has no line feed")
        line = data[start:stop]
        sound = codec.sound(line, seq + 1, chain)
        if sound is None:
            raise LineError("line", f"not the line of seq {seq + 1}")
        number, chain = sound
        seq += 1
        records.append(Record(base + start, line, seq, number, chain))
        start = stop + 1
    if (seq, chain) != end:
        raise LineError("chain", f"it leads to {Place(seq, chain)}, not to {end}")
    return records
