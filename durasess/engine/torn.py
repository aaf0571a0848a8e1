"""What one write leaves behind when it is cut short, and how that differs from damage (R16).

Only bytes of the write in flight can be torn, and only with evidence of a cut write: a missing
line feed or line, zeros to the end of the file, or whole sectors of zeros. FORMAT.md §6 says the
same for other readers.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from durasess.engine import codec
from durasess.engine.types import LineError

SECTOR = 512
"""Bytes that a disk writes as one; a hole left by a power cut covers whole ones."""

_CRC = re.compile(rb',"crc":"[0-9a-f]{8}"\}')
_SEAL = b'{"seal":'


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
    seq its first line must have. None means damage.
    """
    found: list[WholeLine] = []
    at = 0
    while at < len(rest):
        end = rest.find(b"\n", at)
        if end < 0:
            return _unended(rest, at, base, chain, next_seq, found)
        line = _valid(rest[at:end].removesuffix(b"\r"), at, chain, next_seq + len(found))
        if line is None:
            return _with_holes(rest, at, base, chain, next_seq, len(found))
        if line.batch != 0 or not _is_event(line.text):
            return None
        found.append(line)
        chain = line.crc
        at = end + 1
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
    rest: bytes, at: int, base: int, chain: int, next_seq: int, found: list[WholeLine]
) -> Verdict | None:
    partial = rest[at:]
    if b"\0" in partial:
        return _with_holes(rest, at, base, chain, next_seq, len(found))
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
    rest: bytes, at: int, base: int, chain: int, next_seq: int, count: int
) -> Verdict | None:
    """Evidence by zeros, which no line contains: to the end of the file, or whole sectors."""
    written = len(rest.rstrip(b"\0"))
    holes = _sector_holes(rest, at, base, written)
    if holes is None or (holes == 0 and written == len(rest)):
        return None
    first = rest[at:].partition(b"\0")[0]
    if b"\n" in first:
        return None
    if first and not _is_beginning(first, chain, next_seq + count, seal=count == 0):
        return None
    if not _behind_is_one_batch(rest[at:written], next_seq):
        return None
    if holes:
        return Verdict(f"{holes} sector{'s' if holes > 1 else ''} of zeros in the last write")
    return Verdict(f"{len(rest) - written} zero bytes at the end of the file")


def _sector_holes(rest: bytes, at: int, base: int, written: int) -> int | None:
    """How many pieces, cut at sector boundaries of the file, are all zeros; None when a zero byte
    stands beside other bytes, which a lost sector cannot leave."""
    holes = 0
    start = at
    # The piece that holds `at` may begin before it, with lines that were checked.
    while start < written:
        end = min(((base + start) // SECTOR + 1) * SECTOR - base, written)
        piece_start = max(0, ((base + start) // SECTOR) * SECTOR - base)
        piece = rest[piece_start:end]
        zeros = piece.count(0)
        if zeros == len(piece):
            holes += 1
        elif zeros:
            return None
        start = end
    return holes


def _behind_is_one_batch(rest: bytes, next_seq: int) -> bool:
    """Whether whole lines behind a hole can belong to one batch that begins at `next_seq`."""
    lines = rest[rest.index(b"\0") :].split(b"\n") if b"\0" in rest else []
    whole = [text for text in lines[1:-1] if b"\0" not in text]
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
