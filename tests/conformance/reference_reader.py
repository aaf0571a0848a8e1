"""A second reader of the durasess format, written from docs/FORMAT.md alone.

It shares no code with the library and takes no shortcut: every file is read whole, every line is
parsed and checked. `§` in a comment is a section of docs/FORMAT.md. Where that page leaves a
choice, the comment at the place says which one was taken.

    python -m tests.conformance.reference_reader DIR

prints what was found as JSON and exits with 0, with 1 if anything is damaged, with 2 if the
directory cannot be read at all.
"""

import hashlib
import json
import math
import os
import re
import struct
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import zstandard

FORMAT = 1
META = "meta.json"
ANCHOR = "lock"
SNAPSHOTS = ("snapshot.json.zst", "snapshot.prev.json.zst")

VALID = "valid"
ABSENT = "absent"

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
FILLER = b"\t"
BLANKS = b"\0\t"
PIECE = 512
ZSTD_MAGIC = 0xFD2FB528
SKIPPABLE_MAGIC = 0x184D2A50


class UnsupportedFormat(Exception):
    """The session was written by a newer version of the format (§3.1, §8)."""


class Damage(Exception):
    """Bytes that break a rule and that no crash leaves."""

    def __init__(self, file: str, offset: int, reason: str) -> None:
        super().__init__(f"{file}:{offset}: {reason}")


# What comes out.


@dataclass
class Torn:
    """A torn tail (§6): where it is, which of the three kinds, what becomes of it.

    Choice: where more than one rule of §6 holds, `kind` is the first of them; `size` leaves out
    TABs at the very end of the file, because they may as well be filler (§3.4).
    """

    file: str
    offset: int
    size: int
    kind: int
    kept_by_writer: bool


@dataclass
class Recovery:
    """The way of §8: the state of a snapshot, then the events after it."""

    state_seq: int
    first_segment: int
    last_seq: int
    events: list[dict[str, Any]]
    damage: list[str]


@dataclass
class Reading:
    """Everything that one session directory says.

    `events`, `first_seq`, `last_seq` and `torn` come from all segments that are present, from the
    lowest number to the highest; `events` ends before the first damage. `first_seq` is the seq
    that the first event has or would have. `floor_reached` and `anchor_reached` are None when
    there is no valid claim. `damage` holds what both ways of reading found.
    """

    session_id: str
    events: list[dict[str, Any]] = field(default_factory=list)
    first_seq: int = 1
    last_seq: int = 0
    state_seq: int = 0
    state_of_snapshot: Any = None
    snapshots: dict[str, str] = field(default_factory=dict)
    torn: tuple[int, int] | None = None
    torn_tail: Torn | None = None
    floor_reached: bool | None = None
    anchor_reached: bool | None = None
    damage: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    recovery: Recovery | None = None


# Lines (§2).

CRC_MEMBER = re.compile(rb',"crc":"([0-9a-f]{8})"\}')
CRC_MEMBER_SIZE = 18
HEX_8 = re.compile(r"[0-9a-f]{8}")
WHITE_SPACE = re.compile(r"[ \t\r\n]*")


def verify_line(line: bytes, seed: int) -> int | None:
    """The crc of a line if it agrees with the line's bytes, else None.

    The line may come with its line feed and with one carriage return before it, or without.
    """
    body = without_line_end(line)
    member = CRC_MEMBER.fullmatch(body[-CRC_MEMBER_SIZE:])
    if member is None:
        return None
    crc = zlib.crc32(body[:-CRC_MEMBER_SIZE], seed)
    return crc if crc == int(member[1], 16) else None


def without_line_end(line: bytes) -> bytes:
    if line.endswith(b"\n"):
        line = line.removesuffix(b"\n").removesuffix(b"\r")
    return line


class Line(NamedTuple):
    body: bytes
    """Without the line feed and a carriage return before it."""
    end: int
    """The offset behind the line feed."""


def line_at(content: bytes, offset: int) -> Line | None:
    """The line that begins at this offset; None when no line feed follows."""
    feed = content.find(b"\n", offset)
    if feed < 0:
        return None
    return Line(without_line_end(content[offset : feed + 1]), feed + 1)


class Member(NamedTuple):
    name: str
    value: Any


def _number(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"the number {text} does not fit a double")
    return value


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


# By way of Decimal, because int() refuses text of more than 4300 digits.
DECODER = json.JSONDecoder(
    parse_int=lambda text: int(Decimal(text)), parse_float=_number, parse_constant=_no_constant
)


def members_of(text: str) -> list[Member]:
    """The members of a JSON object, in their order; white space may stand between the tokens."""
    position = _behind_space(text, 0)
    if text[position : position + 1] != "{":
        raise ValueError("not a JSON object")
    members: list[Member] = []
    mark = ","
    while mark == ",":
        name, colon = _value_at(text, position + 1)
        if not isinstance(name, str) or text[colon : colon + 1] != ":":
            raise ValueError("not a JSON object")
        value, position = _value_at(text, colon + 1)
        members.append(Member(name, value))
        mark = text[position : position + 1]
    if mark != "}" or _behind_space(text, position + 1) != len(text):
        raise ValueError("not one JSON object")
    return members


def _behind_space(text: str, position: int) -> int:
    space = WHITE_SPACE.match(text, position)
    assert space is not None, "it may be empty"
    return space.end()


def _value_at(text: str, position: int) -> tuple[Any, int]:
    """The value, and where the next token begins."""
    try:
        value, end = DECODER.raw_decode(text, _behind_space(text, position))
    except RecursionError:
        raise ValueError("nested more deeply than this reader can follow") from None
    return value, _behind_space(text, end)


def object_of(body: bytes, first: str | None = None) -> dict[str, Any]:
    """A line as a dict; ValueError if it is not what §2 says or has another first member."""
    members = members_of(body.decode("utf-8"))
    if members[-1].name != "crc":
        raise ValueError("crc is not the last member")
    if first is not None and members[0].name != first:
        raise ValueError(f"{first} is not the first member")
    return {member.name: member.value for member in members}


def checked_object(body: bytes, seed: int, first: str | None = None) -> dict[str, Any]:
    if verify_line(body, seed) is None:
        raise ValueError("the crc does not agree")
    return object_of(body, first)


# Checks of members.


def require_integer(values: dict[str, Any], name: str, least: int = 0) -> int:
    value = values.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} is not an integer from {least} on")
    return value


def require_string(values: dict[str, Any], name: str) -> str:
    value = values.get(name)
    if not isinstance(value, str):
        raise ValueError(f"{name} is not a string")
    return value


def require_chain(values: dict[str, Any], name: str) -> int:
    """Choice: chain values are written as the crc is, eight lower-case digits."""
    text = require_string(values, name)
    if not HEX_8.fullmatch(text):
        raise ValueError(f"{name} is not eight hexadecimal digits")
    return int(text, 16)


def require_equal(what: str, value: Any, expected: Any) -> None:
    if value != expected:
        raise ValueError(f"{what} is {value!r}, expected {expected!r}")


def require_format(values: dict[str, Any], name: str, file: str) -> None:
    if require_integer(values, name, 1) > FORMAT:
        raise UnsupportedFormat(f"{file}: {name} is {values[name]}, this reader knows {FORMAT}")


def hex_of(chain: int) -> str:
    return f"{chain:08x}"


def blake2b_128(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


# Events (§3.2).

# A seq is at most 10^18 − 1, and no batch has more lines.
EVENT_BEGINNING = re.compile(
    rb'\{"seq":(?P<seq>[1-9][0-9]{0,17}),'
    rb'"ts":"[^"\\]{27}",'
    rb'(?:"b":(?P<b>0|[1-9][0-9]{0,17}),)?'
    rb'"type":"(?!")'
)


class Event(NamedTuple):
    values: dict[str, Any]
    seq: int
    batch: int | None
    crc: int
    digest: str


def parse_event(body: bytes, seed: int, seq: int) -> Event:
    """A valid event line; ValueError says what is wrong with another.

    Choice: `data` must be there, and a line must be JSON with members of the right types even
    though §6 defines "valid" by its beginning, its seq and its crc alone. A TAB between two
    tokens, which no writer makes (§3.4), is white space like any other (§2).
    """
    beginning = EVENT_BEGINNING.match(body)
    if beginning is None:
        raise ValueError("not the beginning of an event")
    if int(beginning["seq"]) != seq:
        raise ValueError(f"the seq is {int(beginning['seq'])}, expected {seq}")
    crc = verify_line(body, seed)
    if crc is None:
        raise ValueError("the crc does not agree")
    values = object_of(body, "seq")
    if values["seq"] != seq:
        raise ValueError(f"the seq stands twice: {seq} and {values['seq']}")
    for name in ("run_id", "call_id", "event_id"):
        if values.get(name) is not None:
            require_string(values, name)
    if "data" not in values:
        raise ValueError("data is missing")
    batch = None if beginning["b"] is None else int(beginning["b"])
    return Event(values, seq, batch, crc, event_digest(body))


def event_digest(body: bytes) -> str:
    """BLAKE2b-128 over the bytes from `,"type":` to before `,"crc":"` (§5)."""
    return blake2b_128(body[body.index(b',"type":') : -CRC_MEMBER_SIZE])


# zstd frames (§1, §5).


def decode_frame(content: bytes) -> tuple[bytes, int]:
    """The content of the zstd frame at the beginning, and the frame's size."""
    if content[:4] != struct.pack("<I", ZSTD_MAGIC):
        raise ValueError("no zstd frame")
    try:
        parameters = zstandard.get_frame_parameters(content)
        decoder = zstandard.ZstdDecompressor().decompressobj()
        decoded = decoder.decompress(content)
    except zstandard.ZstdError as error:
        raise ValueError(f"the zstd frame does not decode: {error}") from None
    if not decoder.eof:
        raise ValueError("the zstd frame is not complete")
    if parameters.content_size == zstandard.CONTENTSIZE_UNKNOWN:
        raise ValueError("the zstd frame has no content size")
    if not parameters.has_checksum:
        raise ValueError("the zstd frame has no checksum")
    require_equal("the size of the content", len(decoded), parameters.content_size)
    return decoded, len(content) - len(decoder.unused_data)


# Segments (§3, §6).

SEGMENT_NAME = re.compile(r"events_([0-9]{4}|[1-9][0-9]{4,})\.jsonl(\.zst)?")


def segment_name(number: int) -> str:
    return f"events_{number:04d}.jsonl"


def list_segments(directory: Path) -> dict[int, str]:
    """Number → file name, from the lowest number; of a plain and a compressed file the plain one.

    Choice: numbers begin at 1, so `events_0000.jsonl` is somebody else's name.
    """
    found: dict[int, str] = {}
    for name in sorted(os.listdir(directory), reverse=True):
        match = SEGMENT_NAME.fullmatch(name)
        if match and int(match[1]) > 0:
            found[int(match[1])] = name  # the plain name comes after the compressed one
    return dict(sorted(found.items()))


@dataclass
class Log:
    """The proven part of a log: what was read before the first damage."""

    first_seq: int
    seq: int
    chain: int
    events: list[Event] = field(default_factory=list)
    chains: dict[int, int] = field(default_factory=dict)
    torn: Torn | None = None
    damage: str | None = None
    notices: list[str] = field(default_factory=list)

    def begin(self, seq: int, chain: int) -> None:
        self.first_seq, self.seq, self.chain = seq + 1, seq, chain
        self.chains = {seq: chain}

    def append(self, batch: list[Event]) -> None:
        for event in batch:
            self.events.append(event)
            self.seq, self.chain = event.seq, event.crc
            self.chains[event.seq] = event.crc


def read_log(
    directory: Path, session_id: str, first: int, before: tuple[int, int] | None, sealed_below: int
) -> Log:
    """Segments `first`, `first` + 1, … up to the highest that exists.

    `before` is the seq and the chain value that the log must continue; None takes them from the
    first header, which is all there is when older segments were pruned. A snapshot vouches for the
    seals of the segments below `sealed_below`.

    Choice: the directory is listed once, before any segment is read, and every number from
    `first` to the highest must be there (§3). §8 by its letter asks for K and K+1 only.
    """
    log = Log(1, 0, 0)
    if before is not None:
        log.begin(*before)
    segments = list_segments(directory)
    last = max(segments, default=0)
    try:
        for number in range(first, last + 1):
            if number not in segments:
                raise Damage(segment_name(number), 0, f"missing, but {segments[last]} exists")
            anywhere = number == first and before is None
            SegmentReader(directory, segments[number], number, session_id, log).read(
                anywhere, number == last, number >= sealed_below
            )
    except Damage as damage:
        log.damage = str(damage)
    return log


class SegmentReader:
    """Reads one segment and appends its whole batches to the log."""

    def __init__(self, directory: Path, name: str, number: int, session_id: str, log: Log) -> None:
        self.name = name
        self.number = number
        self.session_id = session_id
        self.log = log
        self.compressed = name.endswith(".zst")
        content = (directory / name).read_bytes()
        if self.compressed:
            stored, parts, at = content, [], 0
            while at < len(stored) or not parts:
                try:
                    part, size = decode_frame(stored[at:])
                except ValueError as error:
                    raise Damage(name, at, str(error)) from None
                parts.append(part)
                at += size
            content = b"".join(parts)
        # From here on offsets are those of the plain file, for a compressed segment too.
        self.content = content
        self.hash = hashlib.blake2b(digest_size=16)
        self.events_before = len(log.events)
        if b"\r\n" in content:
            log.notices.append(f"{name}: carriage returns before line feeds")

    def read(self, anywhere: bool, last: bool, may_be_unsealed: bool) -> None:
        """Header, events, seal; `anywhere`: the header alone says where the log begins."""
        self.may_be_unsealed = may_be_unsealed
        offset = self.read_header(anywhere)
        batch: list[Event] = []
        end = offset  # E of §6
        reason = ""
        while line := line_at(self.content, offset):
            seq, chain = (batch[-1].seq, batch[-1].crc) if batch else (self.log.seq, self.log.chain)
            if line.body.startswith(b'{"seal":') and verify_line(line.body, chain) is not None:
                if batch:
                    raise Damage(self.name, offset, "a seal inside a batch")
                self.check_seal(line, offset, last)
                return
            try:
                event = parse_event(line.body, chain, seq + 1)
            except ValueError as error:
                reason = str(error)
                break
            batch.append(event)
            self.hash.update(line.body + b"\n")
            if (event.batch is None and len(batch) == 1) or event.batch == len(batch) >= 2:
                self.log.append(batch)
                batch = []
                end = line.end
            elif event.batch != 0:
                reason = f"b is {event.batch} on line {len(batch)} of its batch"
                raise Damage(self.name, offset, reason)
            offset = line.end
        self.check_end(end, offset, batch, reason, last)

    def read_header(self, anywhere: bool) -> int:
        """Checks the header line; the offset behind it."""
        begin = 0
        if self.content.startswith(BYTE_ORDER_MARK):
            begin = len(BYTE_ORDER_MARK)
            self.log.notices.append(f"{self.name}: a byte order mark")
        line = line_at(self.content, begin)
        if line is None:
            raise Damage(self.name, 0, "no complete header line")
        try:
            header = object_of(line.body, "segment")
            chain = require_chain(header, "chain")
            if verify_line(line.body, chain) is None:
                raise ValueError("the crc does not agree")
            require_format(header, "format", self.name)
            require_equal("segment", require_integer(header, "segment"), self.number)
            require_equal("session_id", require_string(header, "session_id"), self.session_id)
            first_seq = require_integer(header, "first_seq", 1)
            require_integer(header, "schema_version")
            require_integer(header, "epoch")
            if self.number == 1:
                require_equal("first_seq", first_seq, 1)
                require_equal("chain", header["chain"], hex_of(0))
            if anywhere:
                self.log.begin(first_seq - 1, chain)
            require_equal("first_seq", first_seq, self.log.seq + 1)
            require_equal("chain", header["chain"], hex_of(self.log.chain))
        except ValueError as error:
            raise Damage(self.name, 0, f"header: {error}") from None
        self.hash.update(line.body + b"\n")
        return line.end

    def check_seal(self, line: Line, offset: int, last: bool) -> None:
        events = len(self.log.events) - self.events_before
        try:
            seal = checked_object(line.body, self.log.chain, "seal")
            require_equal("seal", require_integer(seal, "seal"), self.number)
            require_equal("last_seq", require_integer(seal, "last_seq"), self.log.seq)
            require_equal("events", require_integer(seal, "events"), events)
            require_equal("blake2b", seal.get("blake2b"), self.hash.hexdigest())
        except ValueError as error:
            raise Damage(self.name, offset, f"seal: {error}") from None
        behind = self.content[line.end :]
        if behind.strip(BLANKS) or (behind and not self.may_be_unsealed):
            raise Damage(self.name, line.end, "bytes behind the seal")
        if behind and (self.compressed or not last):
            where = "a compressed segment" if self.compressed else "a segment that is not the last"
            raise Damage(self.name, line.end, f"filler in {where}")

    def check_end(self, end: int, bad: int, batch: list[Event], reason: str, last: bool) -> None:
        """The end of a segment without a seal: `end` is E, at `bad` is no valid line with b 0."""
        reason = reason or "the file ends inside a batch or a line"
        if not last:
            raise Damage(self.name, bad, f"not sealed, and not the last segment ({reason})")
        if self.compressed:
            raise Damage(self.name, bad, f"compressed, and not sealed ({reason})")
        if not self.content[end:].strip(FILLER):
            return  # empty, or filler and nothing else
        tail = Tail(self.content, end, bad, self.log.seq, batch, self.log.chain)
        kind = tail.kind()
        if kind is None:
            raise Damage(self.name, bad, reason)
        size = len(self.content.rstrip(FILLER)) - end
        self.log.torn = Torn(self.name, end, size, kind, kind == 2 and tail.kept_by_writer())


@dataclass
class Tail:
    """The rest of the active segment (§6): from E to the end of the file, not filler alone.

    `open_batch` are its leading valid lines with b 0; they end at `bad`, where A of rule 3 is.
    """

    content: bytes
    end: int
    bad: int
    seq_at_end: int
    open_batch: list[Event]
    chain_at_end: int

    @property
    def chain(self) -> int:
        """The seed of what begins at `bad`."""
        return self.open_batch[-1].crc if self.open_batch else self.chain_at_end

    @property
    def next_seq(self) -> int:
        """The seq that a line at `bad` must have."""
        return self.seq_at_end + len(self.open_batch) + 1

    @property
    def written(self) -> int:
        """W: where the blanks at the very end of the file begin. Before it stands no blank."""
        return self.end + len(self.content[self.end :].rstrip(BLANKS))

    @property
    def broken(self) -> bytes:
        """From A to W: what is left of the line that is not whole, and what follows it."""
        return self.content[self.bad : self.written]

    def kind(self) -> int | None:
        """1, 2 or 3 for a torn tail, None for damage."""
        zero_behind = 0 in self.content[self.written :]
        if self.bad == self.written and (self.open_batch or zero_behind):
            return 1
        if self.broken and not has_blank(self.broken) and not zero_behind:
            return 2 if self.is_beginning_of_line(self.broken) else None
        return 3 if self.has_lost_pieces() else None

    def is_beginning_of_line(self, broken: bytes) -> bool:
        """Choice: of no bytes at all, too."""
        if b"\n" in broken:
            return False
        beginnings = [b'{"seq":%d,"ts":"' % self.next_seq]
        if not self.open_batch:
            beginnings.append(b'{"seal":')
        if not any(b.startswith(broken) or broken.startswith(b) for b in beginnings):
            return False
        for member in CRC_MEMBER.finditer(broken):
            prefix = broken[: member.end()]
            if prefix != broken and self.is_complete_line(prefix):
                return False
        return True

    def is_complete_line(self, body: bytes) -> bool:
        """Choice: one JSON object, so a member "crc" inside `data` ends no line."""
        try:
            checked_object(body, self.chain)
        except ValueError:
            return False
        return True

    def has_lost_pieces(self) -> bool:
        """Rule 3. A piece may mix zeros and TABs: a file may be made longer inside a sector."""
        pieces = self.pieces()
        blanks_behind = self.written < len(self.content)
        lost = [at for at, piece in pieces if at >= self.bad and not piece.strip(BLANKS)]
        if not blanks_behind and not lost:
            return False
        if any(has_blank(piece) and piece.strip(BLANKS) for _, piece in pieces):
            return False
        before, behind = self.around_first_blank()
        if not self.is_beginning_of_line(before):
            return False
        # The first of these lines has the first blank in it, the last has no line feed.
        return self.may_follow_first_blank(
            [line for line in behind.split(b"\n")[1:-1] if not has_blank(line)]
        )

    def pieces(self) -> list[tuple[int, bytes]]:
        """The rest up to W, cut at multiples of 512; each piece with its offset."""
        pieces: list[tuple[int, bytes]] = []
        offset = self.end
        while offset < self.written:
            stop = min((offset // PIECE + 1) * PIECE, self.written)
            pieces.append((offset, self.content[offset:stop]))
            offset = stop
        return pieces

    def around_first_blank(self) -> tuple[bytes, bytes]:
        """The bytes from A to the first blank, and those from there to W."""
        blanks = (self.broken.find(blank) for blank in BLANKS)
        first = min((at for at in blanks if at >= 0), default=len(self.broken))
        return self.broken[:first], self.broken[first:]

    def may_follow_first_blank(self, lines: list[bytes]) -> bool:
        """Choice: absent is neither of the two values of `b` that rule 3 allows; a line is the
        last of these even if the rest goes on behind it."""
        seq_before = 0
        for number, line in enumerate(lines, 1):
            beginning = EVENT_BEGINNING.match(line)
            if beginning is None or beginning["b"] is None:
                return False
            seq, batch = int(beginning["seq"]), int(beginning["b"])
            if seq <= seq_before:
                return False
            ends_batch = number == len(lines) and batch == seq - self.seq_at_end >= 2
            if batch != 0 and not ends_batch:
                return False
            seq_before = seq
        return True

    def kept_by_writer(self) -> bool:
        """Whether the rest is a whole batch that lacks only its last line feed."""
        try:
            event = parse_event(self.broken, self.chain, self.next_seq)
        except ValueError:
            return False
        lines = len(self.open_batch) + 1
        return event.batch == (None if lines == 1 else lines)


def has_blank(content: bytes) -> bool:
    return any(blank in content for blank in BLANKS)


# Snapshots (§5).


class Snapshot(NamedTuple):
    seq: int
    chain: int
    segment: int
    frame: str
    state: Any
    event_ids: list[Any]


def read_snapshot(content: bytes, session_id: str, file: str) -> Snapshot:
    """A valid snapshot; Damage says what is wrong with another, and where."""
    size = trailer_at = 0
    try:
        document, size = decode_frame(content)
        trailer_line = skippable_content(content[size:])
        trailer_at = size + 8
        if line_at(trailer_line, 0) != Line(trailer_line[:-1], len(trailer_line)):
            raise ValueError("the trailer is not one line")
        trailer = checked_object(trailer_line[:-1], 0, "snapshot")
        require_equal("snapshot", trailer.get("snapshot"), FORMAT)
        require_equal("session_id", trailer.get("session_id"), session_id)
        require_equal("frame", trailer.get("frame"), blake2b_128(content[:size]))
        require_equal("document", trailer.get("document"), blake2b_128(document))
        seq = require_integer(trailer, "seq")
        chain = require_chain(trailer, "chain")
        segment = require_integer(trailer, "segment", 1)
        values = document_of(document)
        require_equal("seq of the trailer", seq, values["seq"])
    except ValueError as error:
        raise Damage(file, trailer_at or size, str(error)) from None
    return Snapshot(seq, chain, segment, trailer["frame"], values["state"], values["event_ids"])


def skippable_content(content: bytes) -> bytes:
    if len(content) < 8:
        raise ValueError("no trailer")
    magic, length = struct.unpack("<II", content[:8])
    if magic != SKIPPABLE_MAGIC:
        raise ValueError("no skippable frame behind the zstd frame")
    if len(content) < 8 + length:
        raise ValueError("the trailer is not complete")
    if len(content) > 8 + length:
        raise ValueError("bytes behind the trailer")
    return content[8:]


def document_of(document: bytes) -> dict[str, Any]:
    if not document.endswith(b"\n"):
        raise ValueError("the document does not end in a line feed")
    members = members_of(document[:-1].decode("utf-8"))
    values = {member.name: member.value for member in members}
    require_integer(values, "seq")
    if "state" not in values or not isinstance(values.get("event_ids"), list):
        raise ValueError("the document has no state or no event_ids")
    return values


def check_event_ids(snapshot: Snapshot, log: Log) -> None:
    """The entries whose events are still in the log must describe them."""
    events = {event.seq: event for event in log.events}
    for entry in snapshot.event_ids:
        if not isinstance(entry, list) or len(entry) != 4:
            raise ValueError("event_ids holds something that is not a list of four")
        event = events.get(entry[1])
        if event is None:
            continue
        expected = [event.values.get("event_id"), event.seq, hex_of(event.crc), event.digest]
        require_equal(f"the entry of seq {event.seq} in event_ids", entry, expected)


# meta.json (§4) and the anchor (§7).


def read_meta(content: bytes, session_id: str) -> dict[str, Any]:
    content = content.removeprefix(BYTE_ORDER_MARK)
    line = line_at(content, 0)
    if line is None or line.end != len(content):
        raise ValueError("not exactly one line")
    meta = checked_object(line.body, 0)
    require_format(meta, "format", META)
    require_equal("session_id", meta.get("session_id"), session_id)
    require_integer(meta, "active")
    for name in ("baseline", "floor"):
        if not isinstance(meta.get(name), dict):
            raise ValueError(f"{name} is not an object")
    require_integer(meta["baseline"], "seq")
    require_integer(meta["floor"], "seq")
    require_chain(meta["floor"], "crc")
    return meta


def read_anchor(content: bytes, session_id: str) -> tuple[int, int]:
    """The seq and the chain value of a valid anchor.

    Choice: the padding may stand before or behind the line feed; nothing else may be there.
    """
    anchor = checked_object(content.rstrip(b" \n"), 0)
    require_equal("session_id", anchor.get("session_id"), session_id)
    return require_integer(anchor, "seq"), require_chain(anchor, "chain")


# Blobs (§9).

BLOB_NAME = re.compile(r"[0-9a-f]{64}")


def blob_names(value: Any) -> Iterator[str]:
    """The blobs that a value names, at any depth; `names` of a reference too."""
    if isinstance(value, list):
        for item in value:
            yield from blob_names(item)
    elif isinstance(value, dict):
        reference = value.get("$blob") if len(value) == 1 else None
        if isinstance(reference, dict) and is_reference(reference):
            yield reference["hash"]
            yield from reference.get("names", [])
        else:
            for item in value.values():
                yield from blob_names(item)


def is_reference(members: dict[str, Any]) -> bool:
    name = members["hash"] if next(iter(members), None) == "hash" else None
    return isinstance(name, str) and BLOB_NAME.fullmatch(name) is not None


def check_blobs(path: Path, reading: Reading, logs: list[Log]) -> None:
    """Every blob that is there is what its name says; every blob that is named is there."""
    folder = path / "blobs"
    names = filter(BLOB_NAME.fullmatch, os.listdir(folder)) if folder.is_dir() else []
    present = set(names)
    for name in sorted(present):
        found = hashlib.blake2b((folder / name).read_bytes(), digest_size=32).hexdigest()
        if found != name:
            reading.damage.append(f"blobs/{name}:0: its content hashes to {found}")
    needed = {name for log in logs for event in log.events for name in blob_names(event.values)}
    for snapshot in SNAPSHOTS:
        if reading.snapshots[snapshot] == VALID:
            content = (path / snapshot).read_bytes()
            state = read_snapshot(content, reading.session_id, snapshot).state
            needed.update(blob_names(state))
    for name in sorted(needed - present):
        reading.damage.append(f"blobs/{name}:0: missing, though an event or a state names it")


# The session.

SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
DEVICE_NAME = re.compile(r"con|prn|aux|nul|com[1-9]|lpt[1-9]", re.IGNORECASE)


def is_session_id(name: str) -> bool:
    if not SESSION_ID.fullmatch(name) or name.endswith("."):
        return False
    return not DEVICE_NAME.fullmatch(name.split(".", 1)[0])


def read_session(directory: str | os.PathLike[str]) -> Reading:
    """Reads a session that no writer has open (a pruning writer would need a second try)."""
    path = Path(os.path.abspath(directory))
    reading = Reading(path.name)
    if not is_session_id(path.name):
        reading.damage.append(f".:0: {path.name!r} is not a session id")
    meta = _meta(path, reading)
    anchor = _anchor(path, reading)
    snapshot = _choose_snapshot(path, reading)
    segments = list_segments(path)
    start = (snapshot.seq, snapshot.chain) if snapshot else (0, 0)
    sealed_below = snapshot.segment if snapshot else 1
    recovered = read_log(path, path.name, sealed_below, start, sealed_below)
    whole = recovered
    first = _first_that_counts(path, path.name, segments) if segments or snapshot else 1
    if first <= max(segments, default=0):
        before = (0, 0) if first == 1 else None
        whole = read_log(path, path.name, first, before, sealed_below)
    elif first < sealed_below:
        reading.damage.append(f"{segment_name(first)}:0: missing, and the older snapshot needs it")
    _fill(reading, whole, recovered, snapshot)
    check_blobs(path, reading, [whole, recovered])
    chains = {**whole.chains, **recovered.chains}
    if snapshot is not None:
        _compare_snapshot(reading, snapshot, whole, chains, max(segments, default=0))
    if meta is not None:
        highest = max([*segments, (snapshot.segment if snapshot else 1) - 1])
        _check_meta(reading, meta, recovered, chains, highest)
    if anchor is not None:
        reading.anchor_reached = _reached(reading, ANCHOR, anchor, recovered, chains)
    return reading


def _first_that_counts(path: Path, session_id: str, segments: dict[int, str]) -> int:
    """Below the oldest valid snapshot segments may have been pruned in any order (§3), so
    only the unbroken run that ends there counts."""
    starts = []
    for name in SNAPSHOTS:
        try:
            starts.append(read_snapshot((path / name).read_bytes(), session_id, name).segment)
        except (OSError, Damage):
            continue
    first = min(starts, default=1 if 1 in segments else min(segments, default=1))
    while first - 1 in segments:
        first -= 1
    return first


def _meta(path: Path, reading: Reading) -> dict[str, Any] | None:
    if not (path / META).exists():
        reading.notices.append(f"{META}: missing, so nothing says how far the log must reach")
        return None
    content = (path / META).read_bytes()
    try:
        return read_meta(content, reading.session_id)
    except ValueError as error:
        reading.damage.append(f"{META}:0: {error}")
        return None


def _anchor(path: Path, reading: Reading) -> tuple[int, int] | None:
    if not (path / ANCHOR).exists():
        reading.notices.append(f"{ANCHOR}: missing")
        return None
    try:
        return read_anchor((path / ANCHOR).read_bytes(), reading.session_id)
    except ValueError as error:
        reading.notices.append(f"{ANCHOR}: says nothing: {error}")
        return None


def _choose_snapshot(path: Path, reading: Reading) -> Snapshot | None:
    """The first valid one; both are judged."""
    chosen: Snapshot | None = None
    for name in SNAPSHOTS:
        reading.snapshots[name] = ABSENT
        if not (path / name).exists():
            continue
        try:
            snapshot = read_snapshot((path / name).read_bytes(), reading.session_id, name)
        except Damage as damage:
            reading.snapshots[name] = str(damage)
            reading.damage.append(str(damage))
            continue
        reading.snapshots[name] = VALID
        chosen = chosen or snapshot
    return chosen


def _fill(reading: Reading, whole: Log, recovered: Log, snapshot: Snapshot | None) -> None:
    reading.events = [event.values for event in whole.events]
    reading.first_seq, reading.last_seq = whole.first_seq, whole.seq
    if whole.torn is not None:
        reading.torn_tail = whole.torn
        reading.torn = (whole.torn.offset, whole.torn.size)
        if whole.torn.kept_by_writer:
            reading.notices.append(f"{whole.torn.file}: the last batch lacks only its line feed")
    if snapshot is not None:
        reading.state_seq, reading.state_of_snapshot = snapshot.seq, snapshot.state
    reading.recovery = Recovery(
        state_seq=reading.state_seq,
        first_segment=snapshot.segment if snapshot else 1,
        last_seq=recovered.seq,
        events=[event.values for event in recovered.events],
        damage=[recovered.damage] if recovered.damage else [],
    )
    for log in (whole, recovered):
        if log.damage and log.damage not in reading.damage:
            reading.damage.append(log.damage)
        reading.notices.extend(text for text in log.notices if text not in reading.notices)


def _compare_snapshot(
    reading: Reading, snapshot: Snapshot, whole: Log, chains: dict[int, int], highest: int
) -> None:
    """What the log says about the snapshot, beyond the header of its segment.

    Choice: the page gives these no name; a snapshot that the log contradicts is damage.
    """
    name = next(name for name, verdict in reading.snapshots.items() if verdict == VALID)
    try:
        if whole.chains.get(snapshot.seq, snapshot.chain) != snapshot.chain:
            raise ValueError(f"chain is not that of the log after seq {snapshot.seq}")
        if whole.damage is None and 0 < highest < snapshot.segment:
            require_equal("the seq before its segment", whole.seq, snapshot.seq)
        check_event_ids(snapshot, whole)
    except ValueError as error:
        reading.damage.append(f"{name}:0: {error}")


def _check_meta(
    reading: Reading, meta: dict[str, Any], log: Log, chains: dict[int, int], highest: int
) -> None:
    if highest < meta["active"]:
        reading.damage.append(f"{META}:0: segment {meta['active']} is active and not in the log")
    if reading.state_seq < meta["baseline"]["seq"]:
        reading.notices.append(f"{META}: the baseline is newer than the snapshot that was used")
    floor = (meta["floor"]["seq"], require_chain(meta["floor"], "crc"))
    reading.floor_reached = _reached(reading, META, floor, log, chains)


def _reached(
    reading: Reading, file: str, claim: tuple[int, int], log: Log, chains: dict[int, int]
) -> bool:
    """Whether the log got to a seq with a chain value; where it was pruned, the seq decides."""
    seq, chain = claim
    if log.seq < seq:
        reading.damage.append(f"{file}:0: the log must reach seq {seq} and ends at {log.seq}")
        return False
    if chains.get(seq, chain) != chain:
        found = hex_of(chains[seq])
        reading.damage.append(f"{file}:0: at seq {seq} the chain is {found}, not {hex_of(chain)}")
        return False
    return True


# The command.


def summary(reading: Reading) -> dict[str, Any]:
    """What the command prints: all but the events and the state."""
    recovery, torn = reading.recovery, reading.torn_tail
    assert recovery is not None
    return {
        "session_id": reading.session_id,
        "first_seq": reading.first_seq,
        "last_seq": reading.last_seq,
        "events": len(reading.events),
        "state_seq": reading.state_seq,
        "snapshots": reading.snapshots,
        "recovery": {
            "first_segment": recovery.first_segment,
            "replayed": len(recovery.events),
            "last_seq": recovery.last_seq,
            "damage": recovery.damage,
        },
        "torn": None if torn is None else vars(torn),
        "floor_reached": reading.floor_reached,
        "anchor_reached": reading.anchor_reached,
        "damage": reading.damage,
        "notices": reading.notices,
    }


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m tests.conformance.reference_reader DIR", file=sys.stderr)
        return 2
    try:
        reading = read_session(arguments[0])
    except (OSError, UnsupportedFormat) as error:
        print(error, file=sys.stderr)
        return 2
    print(json.dumps(summary(reading), indent=2))
    return 1 if reading.damage else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
