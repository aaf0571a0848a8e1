"""Sessions made by hand, byte by byte, as docs/FORMAT.md says; shares nothing with the library.

The zstd frames are made here too (one raw block), so that the same calls give the same bytes with
every version of zstandard.
"""

import hashlib
import json
import struct
import zlib
from pathlib import Path
from typing import Any

TS = "2026-01-01T00:00:00.000000Z"
NEWEST = "snapshot.json.zst"
PREVIOUS = "snapshot.prev.json.zst"
ANCHOR_SIZE = 384


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def line_of(members: dict[str, Any], seed: int) -> bytes:
    """One line with its crc and its line feed."""
    return with_crc(compact(members)[:-1].encode(), seed)


def with_crc(begin: bytes, seed: int) -> bytes:
    """The line whose bytes before `,"crc":"` these are."""
    return begin + b',"crc":"%08x"}\n' % zlib.crc32(begin, seed)


def crc_of(line: bytes) -> int:
    return int(line[-11:-3], 16)


def blake2b_128(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


class SessionBuilder:
    """Segments and other files in memory, to be changed as a test likes, then written."""

    def __init__(self, session_id: str = "s1") -> None:
        self.session_id = session_id
        self.segments: dict[int, bytes] = {}
        self.files: dict[str, bytes] = {}
        self.number = 0
        self.seq = 0
        self.chain = 0
        self.first_seq = 1
        self.event_ids: list[list[Any]] = []
        self.baseline: dict[str, Any] = {"seq": 0, "segment": 1, "snapshot": None}

    # Segments.

    def begin_segment(self, **changes: Any) -> None:
        self.number += 1
        self.first_seq = self.seq + 1
        header: dict[str, Any] = {
            "segment": self.number,
            "format": 1,
            "session_id": self.session_id,
            "first_seq": self.first_seq,
            "chain": f"{self.chain:08x}",
            "schema_version": 1,
            "epoch": 1,
            "pid": 41,
            "boot_id": "",
            "ts": TS,
        }
        header.update(changes)
        self.segments[self.number] = line_of(header, int(header["chain"], 16))

    def event(
        self, data: Any = None, *, b: int | None = None, kind: str = "counted", **ids: str
    ) -> bytes:
        """Appends one event line and returns it."""
        self.seq += 1
        members: dict[str, Any] = {"seq": self.seq, "ts": TS}
        if b is not None:
            members["b"] = b
        members |= {"type": kind, **ids, "data": {"n": self.seq} if data is None else data}
        line = line_of(members, self.chain)
        self.append_event(line)
        if "event_id" in ids:
            digest = blake2b_128(line[line.index(b',"type":') : -len(',"crc":"01234567"}\n')])
            self.event_ids.append([ids["event_id"], self.seq, f"{self.chain:08x}", digest])
        return line

    def append_event(self, line: bytes) -> None:
        self.chain = crc_of(line)
        self.segments[self.number] += line

    def batch(self, count: int, data: Any = None) -> list[bytes]:
        """Appends one batch of this many lines and returns them."""
        if count == 1:
            return [self.event(data)]
        return [self.event(data, b=count if i == count else 0) for i in range(1, count + 1)]

    def seal(self, **changes: Any) -> bytes:
        seal = {
            "seal": self.number,
            "last_seq": self.seq,
            "events": self.seq + 1 - self.first_seq,
            "blake2b": blake2b_128(self.segments[self.number]),
        }
        seal.update(changes)
        line = line_of(seal, self.chain)
        self.segments[self.number] += line
        return line

    @property
    def size(self) -> int:
        """The size of the newest segment so far."""
        return len(self.segments[self.number])

    def compress(self, number: int) -> None:
        self.files[f"events_{number:04d}.jsonl.zst"] = zstd_frame(self.segments.pop(number))

    # The other files.

    def snapshot(self, state: Any, name: str = NEWEST, **changes: Any) -> None:
        """The state after the newest event; the next segment is the one that goes on from it."""
        document = compact({"seq": self.seq, "event_ids": self.event_ids, "state": state})
        content = document.encode() + b"\n"
        frame = zstd_frame(content)
        trailer = {
            "snapshot": 1,
            "session_id": self.session_id,
            "schema_version": 1,
            "ts": TS,
            "seq": self.seq,
            "chain": f"{self.chain:08x}",
            "segment": self.number + 1,
            "frame": blake2b_128(frame),
            "document": blake2b_128(content),
        }
        trailer.update(changes)
        line = line_of(trailer, 0)
        self.files[name] = frame + struct.pack("<II", 0x184D2A50, len(line)) + line
        self.baseline = {
            "seq": self.seq,
            "segment": self.number + 1,
            "snapshot": trailer["frame"],
        }

    def meta(self, **changes: Any) -> None:
        """meta.json as of the newest event."""
        meta = {
            "format": 1,
            "session_id": self.session_id,
            "schema_version": 1,
            "created": TS,
            "updated": TS,
            "epoch": 1,
            "baseline": self.baseline,
            "active": self.number,
            "floor": {"segment": self.number, "seq": self.seq, "crc": f"{self.chain:08x}"},
            "summary": None,
        }
        meta.update(changes)
        self.files["meta.json"] = line_of(meta, 0)

    def anchor(self, **changes: Any) -> None:
        """The anchor as of the newest event."""
        anchor = {
            "session_id": self.session_id,
            "segment": self.number,
            "seq": self.seq,
            "chain": f"{self.chain:08x}",
            "phase": "idle",
        }
        anchor.update(changes)
        self.files["lock"] = line_of(anchor, 0).ljust(ANCHOR_SIZE, b" ")

    def write(self, parent: Path) -> Path:
        """The session as a directory in `parent`."""
        directory = parent / self.session_id
        directory.mkdir(mode=0o700, parents=True)
        for number, content in self.segments.items():
            (directory / f"events_{number:04d}.jsonl").write_bytes(content)
        for name, content in self.files.items():
            (directory / name).write_bytes(content)
        return directory


# zstd (RFC 8878).


def zstd_frame(content: bytes, *, checksum: bool = True, size: bool = True) -> bytes:
    """One frame whose only block holds the content as it is."""
    assert len(content) <= 0x1FFFF, "one block holds no more"
    descriptor = (0xA0 if size else 0x00) | (0x04 if checksum else 0x00)
    frame = struct.pack("<IB", 0xFD2FB528, descriptor)
    frame += struct.pack("<I", len(content)) if size else b"\x58"  # else a window of 2 MiB
    frame += (1 | len(content) << 3).to_bytes(3, "little") + content
    return frame + (struct.pack("<I", xxh64(content) & 0xFFFFFFFF) if checksum else b"")


MASK = 0xFFFFFFFFFFFFFFFF
P1, P2, P3, P4, P5 = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)


def xxh64(content: bytes) -> int:
    """XXH64 with seed 0, the hash behind the checksum of a zstd frame."""
    position = 0
    if len(content) >= 32:
        lanes = [(P1 + P2) & MASK, P2, 0, -P1 & MASK]
        while position + 32 <= len(content):
            words = struct.unpack_from("<4Q", content, position)
            lanes = [_round(lane, word) for lane, word in zip(lanes, words, strict=True)]
            position += 32
        value = sum(_left(lane, turn) for lane, turn in zip(lanes, (1, 7, 12, 18), strict=True))
        for lane in lanes:
            value = ((value ^ _round(0, lane)) * P1 + P4) & MASK
    else:
        value = P5
    value = (value + len(content)) & MASK
    while position + 8 <= len(content):
        (word,) = struct.unpack_from("<Q", content, position)
        value = (_left(value ^ _round(0, word), 27) * P1 + P4) & MASK
        position += 8
    if position + 4 <= len(content):
        (word,) = struct.unpack_from("<I", content, position)
        value = (_left(value ^ (word * P1 & MASK), 23) * P2 + P3) & MASK
        position += 4
    for byte in content[position:]:
        value = _left(value ^ (byte * P5 & MASK), 11) * P1 & MASK
    value = (value ^ value >> 33) * P2 & MASK
    value = (value ^ value >> 29) * P3 & MASK
    return value ^ value >> 32


def _round(lane: int, word: int) -> int:
    return _left((lane + word * P2) & MASK, 31) * P1 & MASK


def _left(value: int, turn: int) -> int:
    value &= MASK
    return (value << turn | value >> (64 - turn)) & MASK
