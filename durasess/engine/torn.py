"""What one write leaves behind when it is cut short, and how that differs from damage (R16).

Only bytes of the write in flight can be torn, and only with evidence of a cut write: a missing
line feed or line, or blanks where it should be, to the end of the file or in whole sectors. A blank
is a zero byte, which a file grown by a lost write has, or the filler that was there before the
write; no line contains either. FORMAT.md §6 says the same for other readers.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from durasess.engine import codec
from durasess.engine.types import BLANKS, FILLER, SECTOR, LineError

_BLANK = re.compile(b"[\0\t]")

_CRC = re.compile(rb',"crc":"[0-9a-f]{8}"\}')
_SEAL = b'{"seal":'

MAX_TORN_BYTES = 256 * 1024 * 1024
"""One write is far smaller; a longer unreadable end is not read into memory to explain it."""


class WholeLine(NamedTuple):
    """A checked event line inside the bytes looked at; `at` in bytes from their start."""

    at: int
    text: bytes
    seq: int
    batch: int | None
    crc: int


class Verdict(NamedTuple):
    """`reason` is the evidence of a cut write; `whole` are the lines of a batch that lacks only
    the line feed at its end."""

    reason: str
    whole: tuple[WholeLine, ...] = ()


def classify_end(rest: bytes, *, base: int, chain: int, next_seq: int) -> Verdict | None:
    """Whether `rest`, the bytes of the active segment after its last whole batch, is a torn tail.

    `base` is the offset of `rest` in its file, `chain` the chain value before it, `next_seq` the
    seq its first line must have. None means damage. Filler alone is for the caller to tell.
    """
    written = rest.rstrip(BLANKS)
    found: list[WholeLine] = []
    at = 0
    while at < len(written):
        end = rest.find(b"\n", at)
        if end < 0:
            return _unended(rest, len(written), at, base, chain, next_seq, found)
        line = _valid(rest[at:end].removesuffix(b"\r"), at, chain, next_seq + len(found))
        if line is None:
            return _with_holes(rest, len(written), at, base, chain, next_seq, len(found))
        if line.batch != 0 or not _is_event(line.text):
            return None
        found.append(line)
        chain = line.crc
        at = end + 1
    if b"\0" in rest[at:]:
        return _zeros_at_end(rest[at:])
    return Verdict(f"the file ends inside a batch, after {len(found)} of its lines")


def _valid(text: bytes, at: int, chain: int, seq: int) -> WholeLine | None:
    try:
        crc = codec.check(text, chain)
        head = codec.head(text)
    except LineError:
        return None
    return WholeLine(at, text, head.seq, head.batch, crc) if head.seq == seq else None


def _is_event(text: bytes) -> bool:
    """A line whose crc agrees and which is no event was written so: no crash makes it."""
    try:
        codec.event(text)
    except LineError:
        return False
    return True


def _unended(
    rest: bytes,
    written: int,
    at: int,
    base: int,
    chain: int,
    next_seq: int,
    found: list[WholeLine],
) -> Verdict | None:
    partial = rest[at:written]
    if b"\0" in rest[at:] or _BLANK.search(partial):
        return _with_holes(rest, written, at, base, chain, next_seq, len(found))
    if not _is_beginning(partial, chain, next_seq + len(found), seal=not found):
        return None
    last = _valid(partial, at, chain, next_seq + len(found))
    ends = last is not None and last.batch != 0 and (last.batch or 1) == len(found) + 1
    if last is not None and ends and _is_event(last.text):
        return Verdict("the last line lacks only its line feed", (*found, last))
    return Verdict("the last line has no line feed")


def _is_beginning(partial: bytes, chain: int, seq: int, *, seal: bool) -> bool:
    """Whether `partial` can be the first bytes of the line that was being written: a cut write
    leaves a prefix, so a whole line with bytes behind it is not one."""
    beginnings = [b'{"seq":%d,"ts":"' % seq]
    if seal:
        beginnings.append(_SEAL)
    if not any(partial[: len(b)] == b[: len(partial)] for b in beginnings):
        return False
    for match in _CRC.finditer(partial):
        if match.end() < len(partial):
            try:
                codec.check(partial[: match.end()], chain)
                codec.control(partial[: match.end()])
            except LineError:
                continue
            return False
    return True


def _with_holes(
    rest: bytes, written: int, at: int, base: int, chain: int, next_seq: int, count: int
) -> Verdict | None:
    """Evidence by blanks, which no line contains: to the end of the file, or whole sectors.
    `written` is the length without the blanks at the end."""
    holes = _sector_holes(rest, at, base, written)
    if holes is None or (holes == 0 and written == len(rest)):
        return None
    first = _BLANK.split(rest[at:], maxsplit=1)[0]
    if b"\n" in first:
        return None
    if first and not _is_beginning(first, chain, next_seq + count, seal=count == 0):
        return None
    if not _behind_is_one_batch(rest[at:written], next_seq):
        return None
    if holes:
        return Verdict(f"{holes} sector{'s' if holes > 1 else ''} missing in the last write")
    return _zeros_at_end(rest[written:])


def _zeros_at_end(blanks: bytes) -> Verdict:
    return Verdict(f"{blanks.count(0)} zero bytes at the end of the file")


def _sector_holes(rest: bytes, at: int, base: int, written: int) -> int | None:
    """How many pieces, cut at sector boundaries of the file, are all blanks; None when a blank
    stands beside other bytes, which a lost sector cannot leave."""
    holes = 0
    start = at
    # The piece that holds `at` may begin before it, with lines that were checked.
    while start < written:
        end = min(((base + start) // SECTOR + 1) * SECTOR - base, written)
        piece_start = max(0, ((base + start) // SECTOR) * SECTOR - base)
        piece = rest[piece_start:end]
        blanks = piece.count(0) + piece.count(FILLER)
        if blanks == len(piece):
            holes += 1
        elif blanks:
            return None
        start = end
    return holes


def _behind_is_one_batch(rest: bytes, next_seq: int) -> bool:
    """Whether whole lines behind a hole can belong to one batch that begins at `next_seq`."""
    hole = _BLANK.search(rest)
    lines = rest[hole.start() :].split(b"\n") if hole else []
    whole = [text for text in lines[1:-1] if not _BLANK.search(text)]
    before = next_seq
    for index, text in enumerate(whole):
        try:
            head = codec.head(text)
        except LineError:
            return False
        if head.seq <= before:
            return False
        before = head.seq
        ends = index == len(whole) - 1 and head.batch == head.seq - next_seq + 1
        if head.batch != 0 and not ends:
            return False
    return True
