"""A sealed segment at once: proven by the hash in its seal, not line by line.

A shortcut for long histories, like newest.py: where anything is unusual, there is no answer, and
the scanner says what is wrong.
"""

from __future__ import annotations

from typing import NamedTuple

from durasess.engine import codec, files, segment
from durasess.engine.records import Place
from durasess.engine.segment import Header, Seal
from durasess.engine.types import Event, LineError
from durasess.errors import FormatVersionError

_MOST_BYTES = 16 * 1024 * 1024
"""Of a segment that is read and decoded whole; it is far smaller unless a batch was large."""


class Sealed(NamedTuple):
    """What a sealed segment holds: all its events, in order, and where the log is behind them."""

    header: Header
    events: list[Event]
    place: Place


def whole(
    disk: files.Files, directory: str, number: int, *, session_id: str, follows: Place | None
) -> Sealed | None:
    """Segment `number`, which continues the log at `follows` if that is given. None where it is not
    sealed, or not whole, or not there, or large, or another's."""
    try:
        source = segment.open_source(disk, directory, number)
        try:
            if source.size > _MOST_BYTES:
                return None
            data = source.read_at(disk, source.size, 0)
        finally:
            segment.close_source(disk, source)
        return _proven(data, source, session_id, follows)
    except (FileNotFoundError, LineError, FormatVersionError):
        return None


def _proven(
    data: bytes, source: segment.Source, session_id: str, follows: Place | None
) -> Sealed | None:
    header, seal, begin, end = _checked(data, source.path)
    before = Place(header.first_seq - 1, codec.unhexed(header.chain))
    if (header.session_id, header.segment) != (session_id, source.number):
        return None
    if follows is not None and follows != before:
        return None
    with codec.bulk():
        events = codec.events(memoryview(data)[begin:end])
    place = Place(events[-1].seq, codec.unhexed(events[-1].crc)) if events else before
    if not _is_as_sealed(header, events, place, seal):
        return None
    return Sealed(header, events, place)


def check(data: bytes, path: str) -> None:
    """LineError when these are not the bytes that a writer sealed."""
    _checked(data, path)


def _checked(data: bytes, path: str) -> tuple[Header, Seal, int, int]:
    """Header and seal, and the bytes between which the events lie, after the hash was compared."""
    begin = data.find(b"\n") + 1
    end = data.rfind(b"\n", 0, -1) + 1
    if not 0 < begin <= end or not data.endswith(b"\n"):
        raise LineError("seal", "it does not begin with a header and end with a seal")
    header = segment.parse_header(data[: begin - 1], path)
    seal = segment.parse_seal(data[end:-1])
    if codec.digest(memoryview(data)[:end]) != seal.blake2b:
        raise LineError("seal", "the bytes before the seal do not hash to what it says")
    # The last event's own checksum is the value that the seal goes on from.
    last = data[max(begin, end - 1 - codec.CRC_SUFFIX) : end - 1]
    codec.check(data[end:-1], codec.stored_crc(last) if last else codec.unhexed(header.chain))
    return header, seal, begin, end


def _is_as_sealed(header: Header, events: list[Event], place: Place, seal: Seal) -> bool:
    if [event.seq for event in events] != list(range(header.first_seq, place.seq + 1)):
        return False
    return (header.segment, len(events), place.seq) == (seal.seal, seal.events, seal.last_seq)
