"""Segment files as bytes: header and seal lines, opening a segment, splitting it into lines.

What the lines mean together (batches, torn tail, damage) is in scan.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from durasess.engine import codec, files, frames, paths, publishing
from durasess.engine.types import FORMAT, LineError
from durasess.errors import FormatVersionError

CHUNK = 1024 * 1024
"""Bytes that are read at once."""

_FIRST_CHUNK = 4096
"""Of a segment of which only the header is wanted."""

_FIRST_BLOCK = 160 * 1024
"""Likewise of a compressed one: zstd gives up to 128 KiB of content at once or nothing."""

BOM = b"\xef\xbb\xbf"


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """First line of a segment. `chain` is the value after the event before `first_seq`; `epoch`,
    `pid` and `boot_id` say who made it."""

    segment: int
    format: int = FORMAT
    session_id: str
    first_seq: int
    chain: str
    schema_version: int
    epoch: int
    pid: int
    boot_id: str
    ts: str


class Seal(msgspec.Struct, frozen=True, kw_only=True):
    """Last line of a finished segment; `blake2b` is over all bytes before it."""

    seal: int
    last_seq: int
    events: int
    blake2b: str


class Source(NamedTuple):
    """The bytes of one segment: an open descriptor, or content that was compressed."""

    path: str
    number: int
    size: int
    fd: int
    content: bytes | None
    inode: tuple[int, int]

    def read_at(self, disk: files.Files, size: int, offset: int) -> bytes:
        """Up to `size` bytes from byte `offset`."""
        if self.content is not None:
            return self.content[offset : offset + size]
        return disk.read_at(self.fd, size, offset)


class Midway(NamedTuple):
    """Where an earlier pass over a segment ended, between two batches: byte `offset`, after
    `events` events, with `digest` running over all bytes before."""

    header: Header
    offset: int
    events: int
    digest: codec.Hasher


def header_line(header: Header) -> bytes:
    """The line is checked against the chain value it states itself."""
    return codec.control_line(msgspec.to_builtins(header), codec.unhexed(header.chain))


def seal_line(seal: Seal, chain: int) -> bytes:
    """The line is checked against the chain value after the last event."""
    return codec.control_line(msgspec.to_builtins(seal), chain)


def present(disk: files.Files, directory: str, number: int) -> bool:
    """Whether segment `number` is there, plain or compressed."""
    if number >= paths.MAX_SEGMENT:
        return False
    return any(
        publishing.exists(disk, paths.join(directory, paths.segment(number, compressed=compressed)))
        for compressed in (False, True)
    )


def open_source(disk: files.Files, directory: str, number: int) -> Source:
    """Open segment `number`; the plain file wins. FileNotFoundError when neither is there;
    LineError when a compressed one is not whole. Close it with `close_source`."""
    path = paths.join(directory, paths.segment(number))
    try:
        fd = disk.open(path)
    except FileNotFoundError:
        return _open_compressed(disk, directory, number)
    try:
        stat = disk.fstat(fd)
    except BaseException:
        disk.close(fd)
        raise
    return Source(path, number, stat.size, fd, None, stat.inode)


def _open_compressed(disk: files.Files, directory: str, number: int) -> Source:
    path = paths.join(directory, paths.segment(number, compressed=True))
    content = frames.decompress_all(publishing.read_whole(disk, path))
    return Source(path, number, len(content), -1, content, (0, 0))


def close_source(disk: files.Files, source: Source) -> None:
    """Give the descriptor back."""
    if source.fd >= 0:
        disk.close(source.fd)


class Line(NamedTuple):
    """A line as it stands: `text` without its line feed, `ended` False at the end of the file when
    there was no line feed."""

    offset: int
    text: bytes
    ended: bool

    @property
    def end(self) -> int:
        """The byte behind it and its line feed."""
        return self.offset + len(self.text) + 1


def lines(
    disk: files.Files,
    source: Source,
    start: int = 0,
    *,
    chunk_bytes: int | None = None,
    chunk: bytes = b"",
) -> Iterator[Line]:
    """The lines from byte `start`, split at line feeds only (R18), in bounded memory; `chunk` was
    read there already."""
    offset = at = start
    most = chunk_bytes or CHUNK
    parts: list[bytes] = []
    while at < source.size:
        chunk = chunk or source.read_at(disk, min(most, source.size - at), at)
        if not chunk:
            break
        at += len(chunk)
        pieces = chunk.split(b"\n")
        for piece in pieces[:-1]:
            parts.append(piece)
            text = parts[0] if len(parts) == 1 else b"".join(parts)
            parts.clear()
            yield Line(offset, text, True)
            offset += len(text) + 1
        if pieces[-1]:
            parts.append(pieces[-1])
        chunk = b""
    if parts:
        yield Line(offset, b"".join(parts), False)


def first_line(disk: files.Files, source: Source) -> Line | None:
    """The header, read by itself; None when the segment is empty."""
    return next(lines(disk, source, chunk_bytes=_FIRST_CHUNK), None)


def parse_header(line: bytes, path: str) -> Header:
    """The header of a segment, checked by its own chain value.

    Raises LineError, or FormatVersionError when a newer durasess wrote it.
    """
    fields = codec.control(line)
    found = fields.get("format")
    if type(found) is int and found > FORMAT:
        raise FormatVersionError(
            f"{path} says format {found}; this durasess reads format 1 to {FORMAT}. "
            "Upgrade durasess.",
            path=path,
        )
    if type(found) is not int or found < 1:
        raise LineError("header", f"format is {found!r}")
    header: Header = codec.converted(fields, Header, "header")
    codec.check(line, codec.unhexed(header.chain))
    return header


def parse_seal(line: bytes) -> Seal:
    """The fields of a seal line; checking its crc needs the chain."""
    seal: Seal = codec.converted(codec.control(line), Seal, "seal")
    return seal


def seq_before(text: bytes) -> int | None:
    """The seq that the line before an event or a seal must have; None when this is neither."""
    try:
        return codec.head(text).seq - 1 if codec.is_event(text) else parse_seal(text).last_seq
    except LineError:
        return None


def first_seq_of(disk: files.Files, directory: str, number: int) -> int | None:
    """What a segment's header says; None when the segment is not there, 0 when its header is not
    valid, so that reading goes through it and reports why. Of a compressed one only the beginning
    is read."""
    for compressed in (False, True):
        path = paths.join(directory, paths.segment(number, compressed=compressed))
        try:
            data = _beginning(disk, path, compressed=compressed)
            header = parse_header(data.partition(b"\n")[0], path)
        except FileNotFoundError:
            continue
        except LineError:
            return 0
        return header.first_seq if header.segment == number else 0
    return None


def _beginning(disk: files.Files, path: str, *, compressed: bool) -> bytes:
    fd = disk.open(path)
    try:
        data = disk.read_at(fd, _FIRST_BLOCK if compressed else _FIRST_CHUNK, 0)
    finally:
        disk.close(fd)
    return frames.beginning(data) if compressed else data


def lowest(disk: files.Files, directory: str, through: int) -> int:
    """The lowest number of the unbroken run of segments that ends at `through`."""
    number = through
    while number > 1 and present(disk, directory, number - 1):
        number -= 1
    return number


def without_edits(content: bytes) -> bytes:
    """Whole lines as the writer had them, without an editor's byte order mark and CRLF. A line of
    the writer's holds no carriage return, which JSON escapes."""
    return content.removeprefix(BOM).replace(b"\r\n", b"\n")
