"""Segments built by hand from the engine's own lines, what a scan finds in them, and what a cut
write, a lost sector or a flipped bit makes of bytes, with filler behind them or without."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from durasess.engine import codec, frames, paths, segment, torn
from durasess.engine.records import Place, Record
from durasess.engine.scan import Scan
from durasess.engine.segment import Header, Seal
from durasess.engine.types import Damage
from tests.support.sim_files import SimFiles

SESSION = "s1"
DIRECTORY = f"/{SESSION}"
TS = "2026-01-01T00:00:00.000000Z"
START = Place(0, codec.CHAIN_START)
SECTOR = 512
TAB = b"\t"
"""What filler is made of."""

BLANKS = (b"\0", TAB)
"""What a lost sector may show: the file was made longer there, or filler lies under it."""

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""Property tests must not fail because a machine is slow."""


# Lines and segments.


def body(data: Any = None, *, type: str = "note", **ids: str) -> bytes:
    """What is known of an event line before its seq."""
    given: dict[str, str | None] = {"run_id": None, "call_id": None, "event_id": None}
    return codec.body(type=type, data=codec.encode(data), **{**given, **ids})


def line(
    after: Place, data: Any = None, *, b: int | None = None, seq: int | None = None, **ids: str
) -> bytes:
    """One event line whose crc agrees, with its line feed; `seq` and `b` may be wrong ones."""
    seq = after.seq + 1 if seq is None else seq
    return codec.event_line(seq, TS, b, body(data, **ids), after.chain)[0]


def place_after(lines: bytes, before: Place) -> Place:
    """Where the log is after whole event lines."""
    last = lines.removesuffix(b"\n").split(b"\n")[-1]
    return Place(before.seq + lines.count(b"\n"), codec.stored_crc(last))


def batch(after: Place, count: int, data: Any = None) -> bytes:
    """The bytes of one write: a batch of this many lines."""
    lines = b""
    for index in range(1, count + 1):
        b = None if count == 1 else (count if index == count else 0)
        lines += line(place_after(lines, after) if lines else after, data, b=b)
    return lines


class SegmentBytes:
    """One segment as a writer makes it; `place` is where the log is at its end."""

    def __init__(self, number: int = 1, *, after: Place = START, **changes: Any) -> None:
        fields: dict[str, Any] = {
            "segment": number,
            "session_id": SESSION,
            "first_seq": after.seq + 1,
            "chain": codec.hexed(after.chain),
            "schema_version": 1,
            "epoch": 1,
            "pid": 41,
            "boot_id": "",
            "ts": TS,
        }
        self.number = number
        self.first_seq = after.seq + 1
        self.place = after
        self.content = segment.header_line(Header(**{**fields, **changes}))

    @property
    def end(self) -> int:
        """The size so far: E of FORMAT.md §6 after whole batches."""
        return len(self.content)

    def add(self, count: int = 1, data: Any = None) -> bytes:
        """Append one batch; returns its bytes."""
        lines = batch(self.place, count, data)
        self.place = place_after(lines, self.place)
        self.content += lines
        return lines

    def add_up_to(self, remainder: int) -> None:
        """Append an event so long that the segment then ends at this offset of a sector."""
        shortest = self.end + len(line(self.place, ""))
        self.add(data="x" * ((remainder - shortest) % SECTOR))

    def seal_line(self, **changes: Any) -> bytes:
        """The seal for what is there."""
        fields = {
            "seal": self.number,
            "last_seq": self.place.seq,
            "events": self.place.seq + 1 - self.first_seq,
            "blake2b": codec.digest(self.content),
        }
        return segment.seal_line(Seal(**{**fields, **changes}), self.place.chain)

    def seal(self, **changes: Any) -> bytes:
        """Append the seal; returns its bytes."""
        sealed = self.seal_line(**changes)
        self.content += sealed
        return sealed


# What the engine makes of them.


def segment_path(number: int = 1, *, compressed: bool = False) -> str:
    return paths.join(DIRECTORY, paths.segment(number, compressed=compressed))


def disk_with(**files: bytes) -> SimFiles:
    """A session directory that holds these files, named by the names of `paths` constants."""
    names = {name: getattr(paths, name) for name in files}
    tree = {paths.join(DIRECTORY, names[name]): data for name, data in files.items()}
    return SimFiles.from_tree({DIRECTORY: None, **tree})


def disk_with_segment(content: bytes, number: int = 1, *, compressed: bool = False) -> SimFiles:
    stored = frames.compress(content) if compressed else content
    return SimFiles.from_tree({segment_path(number, compressed=compressed): stored})


class Seen(NamedTuple):
    """An exhausted scan and the batches it gave."""

    scan: Scan
    batches: list[list[Record]]

    @property
    def seqs(self) -> list[list[int]]:
        return [[record.seq for record in found] for found in self.batches]

    @property
    def only_damage(self) -> Damage:
        (damage,) = self.scan.damage
        return damage


def scanned(
    content: bytes,
    *,
    number: int = 1,
    is_last: bool = True,
    follows: Place | None = None,
    compressed: bool = False,
    remembers: bool = False,
) -> Seen:
    """One pass of the scanner over a segment with these bytes."""
    disk = disk_with_segment(content, number, compressed=compressed)
    source = segment.open_source(disk, DIRECTORY, number)
    scan = Scan(
        disk, source, session_id=SESSION, is_last=is_last, follows=follows, remembers=remembers
    )
    found = list(scan.batches())
    segment.close_source(disk, source)
    assert disk.descriptors == {}
    return Seen(scan, found)


def verdict(before: SegmentBytes, rest: bytes) -> torn.Verdict | None:
    """What the bytes behind the last whole batch of a segment are; None means damage."""
    return torn.classify_end(
        rest, base=before.end, chain=before.place.chain, next_seq=before.place.seq + 1
    )


# What happens to bytes.


def flips(data: bytes) -> Iterator[bytes]:
    """The bytes with one bit changed, for each bit."""
    for at, bit in itertools.product(range(len(data)), range(8)):
        yield data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]


def blanked(data: bytes, start: int, end: int, blank: bytes = b"\0") -> bytes:
    return data[:start] + blank * (end - start) + data[end:]


def zeroed(data: bytes, start: int, end: int) -> bytes:
    return blanked(data, start, end)


def filled(content: bytes, step: int = 2 * SECTOR) -> bytes:
    """The content with filler behind it, at least one byte, up to a multiple of `step`."""
    return content.ljust((len(content) // step + 1) * step, TAB)


def overwritten(content: bytes, write: bytes) -> bytes:
    """The content of a file after a write behind its last line, over the filler that is there."""
    end = len(content.rstrip(TAB))
    return content[:end] + write + content[end + len(write) :]


def write_next(file: Path, write: bytes) -> None:
    """A write behind the last line of a file, which stays the same file."""
    with open(file, "r+b") as target:
        content = overwritten(target.read(), write)
        target.seek(0)
        target.write(content)


def pieces(base: int, size: int) -> list[tuple[int, int]]:
    """What a write of `size` bytes at offset `base` is on disk: (start, end) in the write, cut at
    sector boundaries of the file."""
    bounds = [0, *range(SECTOR - base % SECTOR, size, SECTOR), size]
    return list(itertools.pairwise(bounds))


def lost_pieces(write: bytes, base: int, blank: bytes = b"\0") -> Iterator[bytes]:
    """The write with blanks in place of each combination of its pieces, at least one."""
    found = pieces(base, len(write))
    for count in range(1, len(found) + 1):
        for lost in itertools.combinations(found, count):
            rest = write
            for start, end in lost:
                rest = blanked(rest, start, end, blank)
            yield rest


# Values.

_SPECIAL = st.sampled_from(
    ["\0", "\x1e", '"', "\\", "\x85", "\u2028", "\u2029", "\ud800", "\udfff"]
)


def _paired(text: str) -> str:
    """A high and a low surrogate side by side are one character in JSON."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


texts = st.lists(st.characters(exclude_categories=()) | _SPECIAL, max_size=8).map(
    lambda characters: _paired("".join(characters))
)
"""Any text, with lone surrogates and what other readers trip over."""

_scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=-(10**300), max_value=10**300)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
json_values = st.recursive(
    _scalars, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=12
)
"""Any JSON value."""
