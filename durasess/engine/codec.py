"""Bytes ↔ values: the one line codec of every JSON file, the chain of checksums, hashes.

A line is one JSON object whose last member is `"crc"`, then a line feed. The crc is CRC-32 (zlib)
over the raw bytes before `,"crc":"`, seeded with a chain value, so a reader verifies bytes and
never needs canonical JSON. FORMAT.md §2 and §3 say the same for other implementations.
"""

from __future__ import annotations

import datetime
import decimal
import functools
import gc
import hashlib
import json
import operator
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec

from durasess.engine.depth import check_stack
from durasess.engine.types import Event, LineError

CHAIN_START = 0
"""The chain value before the first event of a session."""

MAX_DIGITS = 30_000
"""Of an integer: reading takes time in the square of them, which is an attack beyond this."""

CRC_SUFFIX = 18
"""Bytes of `,"crc":"0a1b2c3d"}`."""

_PREFIX = re.compile(
    rb'\{"seq":([1-9][0-9]{0,17}),"ts":"[^"\\]{27}"'
    rb'(?:,"b":(0|[2-9]|[1-9][0-9]{1,8}))?,"type":"(?!")'
)
_HEX = re.compile(r"[0-9a-f]{8}")
_CRC = re.compile(rb',"crc":"([0-9a-f]{8})"\}')
_SEPARATOR = re.compile(rb"\xe2\x80[\xa8\xa9]")
_ENCODE = msgspec.json.Encoder().encode
_DECODE = msgspec.json.Decoder().decode
_UNDECODABLE = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)
"""What msgspec raises for bytes that it cannot read; for no UTF-8 its own error since 0.23 only."""

_HASH_BYTES = 16
_LAST_SECOND = 253_402_300_799
"""Of the year 9999, the last that RFC 3339 can write."""


class _Line(msgspec.Struct):
    """The members of an event line that this version knows."""

    seq: int
    ts: str
    type: str
    data: Any
    crc: str
    run_id: str | None = None
    call_id: str | None = None
    event_id: str | None = None


class Head(NamedTuple):
    """What the first bytes of an event line say: its seq, and b: None when the line is a batch by
    itself, 0 when its batch goes on, else the number of lines of the batch it ends."""

    seq: int
    batch: int | None


_DECODE_EVENT = msgspec.json.Decoder(Event).decode
_DECODE_LINES = msgspec.json.Decoder(Event).decode_lines
_PROVEN = operator.attrgetter("proven")
_NO_EVENT = Event(seq=0, ts="", type="", data=None)


def encode(value: Any) -> bytes:
    """Compact JSON of a plain value, on one line for every reader: U+0085, U+2028 and U+2029, at
    which some split lines (R18), are escaped; lone surrogates are kept as their escapes."""
    try:
        data = _ENCODE(value)
    except UnicodeEncodeError:
        return _encode_slowly(value)
    return data if data.isascii() else on_one_line(data)


def encoded(value: Any) -> tuple[bytes, bool]:
    """The same, and whether a value that was made of decoded ones is equal to what this decodes to:
    not where surrogates stand alone, as two that were put together become one character."""
    try:
        data = _ENCODE(value)
    except UnicodeEncodeError:
        return _encode_slowly(value), False
    return data if data.isascii() else on_one_line(data), True


def on_one_line(data: bytes) -> bytes:
    """JSON without ends of lines that only some readers know. A look for one byte takes no time."""
    if 0xE2 in data and _SEPARATOR.search(data):
        data = data.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")
    if 0xC2 in data and 0x85 in data:
        data = data.replace(b"\xc2\x85", b"\\u0085")
    return data


def _encode_slowly(value: Any) -> bytes:
    plain = msgspec.to_builtins(value)
    return json.dumps(plain, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode()


def timestamp(nanoseconds: int) -> str:
    """RFC 3339 in UTC with microseconds, always 27 characters, for times since 1970."""
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return f"{_second(seconds)}.{rest // 1000:06d}Z"


@functools.lru_cache(maxsize=8)
def _second(seconds: int) -> str:
    within = min(max(0, seconds), _LAST_SECOND)
    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=within)
    return moment.strftime("%Y-%m-%dT%H:%M:%S")


def decode(data: bytes) -> Any:
    """Any JSON value; LineError for other bytes. Numbers beyond a double are refused, not inf."""
    try:
        return _DECODE(data)
    except _UNDECODABLE:
        return _decode_slowly(data)


def _decode_slowly(data: bytes) -> Any:
    """msgspec refuses escaped lone surrogates, which are legal JSON and come back as they were."""
    try:
        return json.loads(
            data.decode("utf-8"),
            parse_constant=_no_constant,
            parse_float=_finite,
            parse_int=_any_integer,
        )
    except (ValueError, RecursionError) as error:
        check_stack(error, data)
        raise LineError("json", f"this is not JSON: {error}") from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _any_integer(text: str) -> int:
    """By way of Decimal, because int() refuses more than 4,300 digits, which another writer may
    have stored."""
    if len(text) > MAX_DIGITS:
        raise ValueError(f"an integer of {len(text)} digits")
    return int(text) if len(text) < 4000 else int(decimal.Decimal(text))


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{text} is beyond a double")
    return value


_decoder = functools.lru_cache(maxsize=64)(msgspec.json.Decoder)


def typed(data: bytes, kind: Any) -> Any:
    """Decode JSON into a msgspec type; LineError when it does not fit."""
    try:
        return _decoder(kind).decode(data)
    except _UNDECODABLE as error:
        check_stack(error, data)
        if b"\\ud" in data or b"\\uD" in data:
            # Surrogates that stand alone are refused there, never read as anything else.
            return converted(decode(data), kind, "json")
        name = getattr(kind, "__name__", str(kind))
        raise LineError("json", f"not a {name}: {error}") from None


def body(
    *,
    type: str,
    data: bytes,
    run_id: str | None,
    call_id: str | None,
    event_id: str | None,
) -> bytes:
    """The part of an event line that is known before its seq: from `,"type"` to the end of data.

    `data` is encoded already.
    """
    ids = b""
    if run_id is not None:
        ids = b',"run_id":' + _encoded_name(run_id)
    if call_id is not None:
        ids += b',"call_id":' + encode(call_id)
    if event_id is not None:
        ids += b',"event_id":' + encode(event_id)
    return b',"type":%s%s,"data":%s' % (_encoded_name(type), ids, data)


_encoded_name = functools.lru_cache(maxsize=256)(encode)


def event_line(seq: int, ts: str, batch: int | None, body: bytes, chain: int) -> tuple[bytes, int]:
    """One event line with its line feed, and the chain value after it."""
    if batch is None:
        head = b'{"seq":%d,"ts":"%s"' % (seq, ts.encode())
    else:
        head = b'{"seq":%d,"ts":"%s","b":%d' % (seq, ts.encode(), batch)
    crc = zlib.crc32(body, zlib.crc32(head, chain))
    return b"".join((head, body, b',"crc":"%08x"}\n' % crc)), crc


def control_line(value: dict[str, Any], chain: int = CHAIN_START) -> bytes:
    """A header, seal, meta, trailer or anchor line with its line feed; it advances no chain."""
    return with_crc(encode(value)[:-1], chain)


def with_crc(text: bytes, chain: int) -> bytes:
    """A line with its line feed from an object's JSON without the closing brace."""
    return b'%s,"crc":"%08x"}\n' % (text, zlib.crc32(text, chain))


def check(line: bytes, chain: int) -> int:
    """The line's crc when its bytes agree with it, which end in one; else LineError. `line` has no
    line feed."""
    computed = zlib.crc32(line[:-CRC_SUFFIX], chain)
    if not line.endswith(b',"crc":"%08x"}' % computed):
        raise LineError("crc", f"checksum: stored {stored_crc(line):08x}, computed {computed:08x}")
    return computed


def stored_crc(line: bytes) -> int:
    """The crc a line says it has; LineError when it has none."""
    match = _CRC.fullmatch(line, max(0, len(line) - CRC_SUFFIX))
    if match is None:
        raise LineError("line", 'the line does not end in ,"crc":"<8 hex digits>"}')
    return int(match[1], 16)


def head(line: bytes) -> Head:
    """seq and b of an event line; LineError when it does not begin like one."""
    match = _PREFIX.match(line)
    if match is None:
        raise LineError("line", f"no event line begins with {line[:40]!r}")
    return Head(int(match[1]), None if match[2] is None else int(match[2]))


def sound(line: bytes, seq: int, chain: int) -> tuple[int | None, int] | None:
    """b and crc of event `seq` behind `chain`; None where `head` or `check` would find fault."""
    match = _PREFIX.match(line)
    crc = zlib.crc32(line[:-CRC_SUFFIX], chain)
    if match is None or not line.endswith(b',"crc":"%08x"}' % crc) or int(match[1]) != seq:
        return None
    return None if match[2] is None else int(match[2]), crc


def event(line: bytes, *, proven: bool = True) -> Event:
    """The event of a checked line. LineError when fields are missing or of a wrong kind."""
    try:
        found: Event = _DECODE_EVENT(line)
    except _UNDECODABLE:
        found = _NO_EVENT
    if not found.crc or not found.proven:
        # A member named "proven" would be somebody else's.
        found = _event_slowly(line)
    if not line.startswith(b'{"seq":%d,' % found.seq):
        raise LineError("json", f"seq stands twice: {head(line).seq} and {found.seq}")
    return found if proven else msgspec.structs.replace(found, proven=False)


def events(content: bytes | memoryview) -> list[Event]:
    """The events of whole lines that a hash has proven. LineError as from `event`."""
    try:
        found: list[Event] = _DECODE_LINES(content)
    except _UNDECODABLE:
        found = []
    if not found or not all(map(_PROVEN, found)):
        return [event(line) for line in bytes(content).split(b"\n")[:-1]]
    return found


def _event_slowly(line: bytes) -> Event:
    fields = _decode_slowly(line)
    try:
        data = fields.pop("data")
        found: _Line = converted({**fields, "data": None}, _Line, "json")
    except (AttributeError, KeyError, TypeError) as error:
        raise LineError("json", f"not the fields of an event: {error}") from None
    return Event(**{**msgspec.structs.asdict(found), "data": data})


def converted(fields: Any, kind: Any, rule: str) -> Any:
    """Decoded JSON as a msgspec type; LineError when it does not fit."""
    try:
        return msgspec.convert(fields, kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        check_stack(error, fields)
        name = getattr(kind, "__name__", str(kind)).lower()
        raise LineError(rule, f"not the fields of a {name}: {error}") from None


def control(line: bytes) -> dict[str, Any]:
    """The object of a header, seal, meta, trailer or anchor line (check it first)."""
    value = decode(line)
    if not isinstance(value, dict):
        raise LineError("json", "expected an object")
    return value


def is_event(line: bytes) -> bool:
    """Whether a line begins like an event, not like a header or a seal."""
    return line.startswith(b'{"seq":')


def hexed(crc: int) -> str:
    """A chain value as it is written: eight lower-case hex digits."""
    return f"{crc:08x}"


def unhexed(text: Any) -> int:
    """A written chain value; LineError when the text is not one."""
    if not isinstance(text, str) or _HEX.fullmatch(text) is None:
        raise LineError("json", f"expected eight hex digits, found {text!r}")
    return int(text, 16)


Hasher = hashlib.blake2b
"""A running blake2b."""


def hasher(data: bytes = b"") -> Hasher:
    """A running blake2b-128."""
    return hashlib.blake2b(data, digest_size=_HASH_BYTES)


def digest(data: bytes | memoryview, *, size: int = _HASH_BYTES) -> str:
    """blake2b of `size` bytes, in hex: blake2b-128 unless told otherwise."""
    return hashlib.blake2b(data, digest_size=size).hexdigest()


@contextmanager
def bulk() -> Iterator[None]:
    """The cyclic collector off while many values are decoded: half of the time otherwise."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
