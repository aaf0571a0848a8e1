"""Snapshot files: the state after events 1..seq as one zstd frame with a trailer that proves it.

A snapshot is a cache of the log (P6): whatever is wrong with one, the reader says so and the log
is replayed from an older place.
"""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec

from durasess.engine import codec, files, frames, paths, publishing
from durasess.engine.types import LineError

SNAPSHOT_FORMAT = 1


class RememberedId(msgspec.Struct, frozen=True, array_like=True):
    """An `event_id` that was used: where, and a digest of what it was used for."""

    event_id: str
    seq: int
    crc: str
    digest: str


class Trailer(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a snapshot without its content. `segment` is the number of the segment
    whose first event is seq + 1; `chain` is the chain value after seq; `frame` and `document` are
    blake2b-128 of the compressed and of the decoded bytes."""

    snapshot: int = SNAPSHOT_FORMAT
    session_id: str
    seq: int
    chain: str
    segment: int
    schema_version: int
    ts: str
    frame: str
    document: str


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """The content: the state, undecoded, and the window of event ids."""

    seq: int
    event_ids: list[RememberedId]
    state: msgspec.Raw


def document(seq: int, event_ids: list[RememberedId], state: bytes) -> bytes:
    """The JSON document of a snapshot; `state` is JSON already."""
    ids = codec.encode(msgspec.to_builtins(event_ids))
    return b'{"seq":%d,"event_ids":%s,"state":%s}\n' % (seq, ids, state)


def encoded(content: bytes, **trailer: Any) -> bytes:
    """The bytes of a snapshot file for the document `content`."""
    frame = frames.compress(content)
    fields = Trailer(frame=codec.digest(frame), document=codec.digest(content), **trailer)
    return frame + frames.skippable(codec.control_line(msgspec.to_builtins(fields)))


def parse(data: bytes, session_id: str) -> tuple[Trailer, Document]:
    """The trailer and the document, proven by frame checksum, sizes and both hashes.

    Raises LineError naming what does not agree.
    """
    content, rest = frames.decompress(data)
    line = frames.unskippable(rest)
    if not line.endswith(b"\n"):
        raise LineError("trailer", "the trailer has no line feed")
    trailer = _trailer(line[:-1])
    if trailer.session_id != session_id:
        raise LineError("session", f"it belongs to session {trailer.session_id!r}")
    if codec.digest(data[: len(data) - len(rest)]) != trailer.frame:
        raise LineError("trailer", "the compressed bytes do not hash to the trailer's frame")
    if codec.digest(content) != trailer.document:
        raise LineError("trailer", "the document does not hash to the trailer's document")
    return trailer, _document(content, trailer)


def _trailer(line: bytes) -> Trailer:
    codec.check(line, codec.CHAIN_START)
    trailer: Trailer = codec.converted(codec.control(line), Trailer, "trailer")
    if trailer.snapshot > SNAPSHOT_FORMAT:
        raise LineError("format", f"snapshot format {trailer.snapshot} is newer")
    codec.unhexed(trailer.chain)
    return trailer


def _document(content: bytes, trailer: Trailer) -> Document:
    try:
        found: Document = codec.typed(content, Document)
    except LineError:
        found = _document_slowly(content)
    if found.seq != trailer.seq:
        raise LineError("document", f"seq {found.seq}, but the trailer says {trailer.seq}")
    return found


def _document_slowly(content: bytes) -> Document:
    """A state with lone surrogates, which only the slow decoder takes."""
    fields = codec.control(content)
    try:
        ids = msgspec.convert(fields["event_ids"], list[RememberedId])
        return Document(
            seq=fields["seq"], event_ids=ids, state=msgspec.Raw(codec.encode(fields["state"]))
        )
    except (KeyError, ValueError, msgspec.MsgspecError) as error:
        raise LineError("document", f"not a snapshot document: {error}") from None


def read(disk: files.Files, directory: str, name: str, session_id: str) -> tuple[Trailer, Document]:
    """A snapshot file, proven. FileNotFoundError, LineError or OSError."""
    return parse(publishing.read_whole(disk, paths.join(directory, name)), session_id)


def write_tmp(disk: files.Files, directory: str, data: bytes, session_id: str, tmp: str) -> Trailer:
    """Synced under the name `tmp` after it was read back from its own bytes (R8): an encoder's
    bug or a flipped bit in memory is found before an older snapshot gives way."""
    trailer, _ = parse(data, session_id)
    publishing.write_tmp(disk, paths.join(directory, tmp), data)
    return trailer


def publish(disk: files.Files, directory: str, *, tmp: str, newest_is_good: bool) -> None:
    """The newest becomes the previous, the file named `tmp` the newest; one directory sync for
    both.

    A newest that was found bad does not push out the previous. Whatever subset of the two renames
    a crash keeps, one whole snapshot is there, and the segments since the older one are not pruned
    yet.
    """
    newest = paths.join(directory, paths.SNAPSHOT)
    if newest_is_good:
        # A writer that shared the session may have been killed behind its first rename.
        with contextlib.suppress(FileNotFoundError):
            disk.replace(newest, paths.join(directory, paths.SNAPSHOT_PREVIOUS))
    disk.replace(paths.join(directory, tmp), newest)
    disk.sync_dir(directory)
