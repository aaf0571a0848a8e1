"""meta.json: who the session is, where replay starts, how far the log must reach, what lists need.

It is a claim about the other files, checked against them; a missing one is rebuilt from them.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from durasess.engine import codec, files, paths, publishing
from durasess.engine.types import FORMAT, LineError
from durasess.errors import EventRejectedError, FormatVersionError

MAX_META_BYTES = 1024 * 1024


class Baseline(msgspec.Struct, frozen=True):
    """Where replay starts: the state after `seq` is in the snapshot whose frame hashes to
    `snapshot`, and the events after it begin in segment number `segment`."""

    seq: int = 0
    segment: int = 1
    snapshot: str | None = None


class Floor(msgspec.Struct, frozen=True):
    """A place the log must reach: `crc` is the chain value after `seq`, in segment `segment`."""

    segment: int = 0
    seq: int = 0
    crc: str = codec.hexed(codec.CHAIN_START)


class Summary(msgspec.Struct, frozen=True):
    """What lists need of the session's state, as of `seq`."""

    seq: int
    data: Any


class Meta(msgspec.Struct, frozen=True, kw_only=True):
    """The content of meta.json. `active` is the highest segment number that is known to exist
    (0: none yet); `epoch` counts the writers that made a segment."""

    format: int = FORMAT
    session_id: str
    schema_version: int = 1
    created: str
    updated: str
    epoch: int = 0
    baseline: Baseline = Baseline()
    active: int = 0
    floor: Floor = Floor()
    summary: Summary | None = None


_Kind = TypeVar("_Kind", bound=Meta)
_BEGINNING = b'{"format":%d,' % FORMAT


def read(disk: files.Files, directory: str) -> Meta:
    """The meta of a session directory.

    Raises FileNotFoundError, LineError when the bytes are not a meta, FormatVersionError when
    a newer durasess wrote it, and OSError when the system cannot read it.
    """
    path = paths.join(directory, paths.META)
    return parse(publishing.read_whole(disk, path), path)


def parse(data: bytes, path: str) -> Meta:
    """Check and decode the bytes of a meta.json (a BOM and CRLF of an editor are passed over)."""
    plain = as_written(data, Meta)
    if plain is not None:
        return plain
    line, end, rest = data.removeprefix(b"\xef\xbb\xbf").partition(b"\n")
    if not end or rest:
        raise LineError("meta", "expected one line with a line feed")
    line = line.removesuffix(b"\r")
    fields = codec.control(line) if line.endswith(b"}") else {}
    found = fields.get("format")
    if type(found) is int and found > FORMAT:
        raise FormatVersionError(
            f"{path} says format {found}; this durasess reads format 1 to {FORMAT}. "
            "Upgrade durasess.",
            path=path,
        )
    codec.check(line, codec.CHAIN_START)
    if type(found) is not int or found < 1:
        raise LineError("meta", f"format is {found!r}")
    claimed: Meta = codec.converted(fields, Meta, "meta")
    codec.unhexed(claimed.floor.crc)
    return claimed


def as_written(data: bytes, kind: type[_Kind]) -> _Kind | None:
    """The same in one look, for lists of thousands, which say by `kind` what they want of the
    summary; None for whatever is not of that kind or this version would not write."""
    if not data.startswith(_BEGINNING) or data.find(b"\n") != len(data) - 1:
        return None
    try:
        claimed: _Kind = codec.typed(data, kind)
        codec.check(data[:-1], codec.CHAIN_START)
        codec.unhexed(claimed.floor.crc)
    except LineError:
        return None
    return claimed if claimed.format == FORMAT else None


def encoded(meta: Meta) -> bytes:
    """The bytes of meta.json. EventRejectedError when the summary is too large for a list."""
    data = codec.control_line(msgspec.to_builtins(meta))
    if len(data) > MAX_META_BYTES:
        raise EventRejectedError(
            f"the summary makes {paths.META} {len(data)} bytes; the limit is {MAX_META_BYTES}. "
            "Summaries are for lists: keep them small."
        )
    return data


def publish(disk: files.Files, directory: str, meta: Meta) -> None:
    """Replace meta.json atomically. No directory sync: a crash may bring the old one back, which
    claims less and is as true (docs/decisions/0003)."""
    path = paths.join(directory, paths.META)
    publishing.write_tmp(disk, path + paths.TMP, encoded(meta))
    try:
        disk.replace(path + paths.TMP, path)
    except BaseException:
        publishing.discard(disk, path + paths.TMP)
        raise
