"""A sealed segment at once: proven by the hash in its seal, not line by line.

A shortcut for long histories, like newest.py: where anything is unusual, there is no answer, and
the scanner says what is wrong.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import NamedTuple

from durasess.engine import codec, files, frames, paths, segment
from durasess.engine.records import Place
from durasess.engine.segment import Header, Seal
from durasess.engine.types import Event, LineError
from durasess.errors import FormatVersionError

_MOST_BYTES = 16 * 1024 * 1024
"""Of a segment that is read and decoded whole; it is far smaller unless a batch was large."""

_SEQ = operator.attrgetter("seq")


class Stored(NamedTuple):
    """A segment's file as it is on the disk."""

    path: str
    number: int
    data: bytes
    is_compressed: bool


class Unpacked(NamedTuple):
    """The content of what has a seal at its end, and the hash of all bytes before that."""

    path: str
    number: int
    content: bytes
    end: int
    digest: str


class Sealed(NamedTuple):
    """What a sealed segment holds: all its events, in order, and where the log is behind them."""

    header: Header
    events: list[Event]
    place: Place


def stored(disk: files.Files, directory: str, number: int) -> Stored | None:
    """The file of segment `number`, the plain one if both are there; None where there is none or it
    is large."""
    for compressed in (False, True):
        path = paths.join(directory, paths.segment(number, compressed=compressed))
        try:
            fd = disk.open(path)
        except FileNotFoundError:
            continue
        try:
            size = disk.fstat(fd).size
            if size > _MOST_BYTES:
                return None
            return Stored(path, number, disk.read_at(fd, size, 0), compressed)
        finally:
            disk.close(fd)
    return None


def content_of(found: Stored) -> bytes:
    """The lines of a segment; LineError when zstd cannot read it. This and `unpacked` are the slow
    part and touch nothing but what they are given, so that any thread may do it."""
    return frames.decompress_all(found.data) if found.is_compressed else found.data


def unpacked(found: Stored, content: bytes) -> Unpacked | None:
    """Hash the content of a segment. None where there is no seal, or it is large."""
    end = content.rfind(b"\n", 0, -1) + 1
    if len(content) > _MOST_BYTES or not content.startswith(b'{"seal":', end):
        return None
    digest = codec.digest(memoryview(content)[:end])
    return Unpacked(found.path, found.number, content, end, digest)


def whole(
    found: Unpacked,
    *,
    session_id: str,
    follows: Place | None,
    between: Callable[[], None] = lambda: None,
) -> Sealed | None:
    """A segment's events, if they continue the log at `follows`, where that is given. None where it
    is not as a writer sealed it, or another's. `between()` is called half way through."""
    try:
        return _proven(found, session_id, follows, between)
    except (LineError, FormatVersionError):
        return None


def _proven(
    found: Unpacked, session_id: str, follows: Place | None, between: Callable[[], None]
) -> Sealed | None:
    header, seal, begin = _checked(found)
    before = Place(header.first_seq - 1, codec.unhexed(header.chain))
    if (header.session_id, header.segment) != (session_id, found.number):
        return None
    if follows is not None and follows != before:
        return None
    half = max(begin, found.content.rfind(b"\n", 0, (begin + found.end) // 2) + 1)
    lines = memoryview(found.content)
    with codec.bulk():
        events = codec.events(lines[begin:half])
        between()
        events += codec.events(lines[half : found.end])
    place = Place(events[-1].seq, codec.unhexed(events[-1].crc)) if events else before
    if not _is_as_sealed(header, events, place, seal):
        return None
    return Sealed(header, events, place)


def check(content: bytes, path: str) -> None:
    """LineError when these are not the bytes that a writer sealed."""
    found = unpacked(Stored(path, 0, content, is_compressed=False), content)
    if found is None:
        raise LineError("seal", "it does not end with a seal")
    _checked(found)


def _checked(found: Unpacked) -> tuple[Header, Seal, int]:
    """Header and seal, and where the events begin, after the hash was compared."""
    content, end = found.content, found.end
    begin = content.find(b"\n") + 1
    if not 0 < begin <= end or not content.endswith(b"\n"):
        raise LineError("seal", "it does not begin with a header and end with a seal")
    header = segment.parse_header(content[: begin - 1], found.path)
    seal = segment.parse_seal(content[end:-1])
    if found.digest != seal.blake2b:
        raise LineError("seal", "the bytes before the seal do not hash to what it says")
    # The last event's own checksum is the value that the seal goes on from.
    last = content[max(begin, end - 1 - codec.CRC_SUFFIX) : end - 1]
    codec.check(content[end:-1], codec.stored_crc(last) if last else codec.unhexed(header.chain))
    return header, seal, begin


def _is_as_sealed(header: Header, events: list[Event], place: Place, seal: Seal) -> bool:
    if list(map(_SEQ, events)) != list(range(header.first_seq, place.seq + 1)):
        return False
    return (header.segment, len(events), place.seq) == (seal.seal, seal.events, seal.last_seq)
