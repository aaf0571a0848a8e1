"""zstd frames: a document with size and checksum, and a skippable frame behind it (R20)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import zstandard

from durasess.engine.types import LineError

_ZSTD_LEVEL = 3
_SKIPPABLE = b"\x50\x2a\x4d\x18"
_MAX_DOCUMENT = 1 << 40
_FRAME_BYTES = 1024 * 1024
"""Of content in one frame of lines."""


def compress(data: bytes) -> bytes:
    """One zstd frame with content size and checksum (R20)."""
    compressor = zstandard.ZstdCompressor(
        level=_ZSTD_LEVEL, write_checksum=True, write_content_size=True
    )
    return compressor.compress(data)


def decompress(data: bytes) -> tuple[bytes, bytes]:
    """The content of the first frame, which must be whole and carry size and checksum, and the
    bytes behind it. LineError otherwise. The stream reader is not used: it takes a truncated frame
    for a short one (R20)."""
    try:
        parameters = zstandard.get_frame_parameters(data)
        if not parameters.has_checksum or not 0 <= parameters.content_size <= _MAX_DOCUMENT:
            raise LineError("zstd", "the frame has no content size or no checksum")
        decoder = zstandard.ZstdDecompressor().decompressobj()
        content = decoder.decompress(data)
    except (zstandard.ZstdError, MemoryError) as error:
        raise LineError("zstd", f"not a whole zstd frame: {error}") from None
    if not decoder.eof or len(content) != parameters.content_size:
        raise LineError("zstd", f"the frame is cut short at {len(content)} bytes of content")
    return content, decoder.unused_data


def compress_lines(data: bytes) -> bytes:
    """Lines as frames of about 1 MiB of content, each beginning with a line, so that one can be
    read without those before it."""
    found = []
    at = 0
    while at < len(data):
        end = data.find(b"\n", at + _FRAME_BYTES - 1) + 1
        if end == 0 or len(data) - end < _FRAME_BYTES // 2:
            end = len(data)
        found.append(compress(data[at:end]))
        at = end
    return b"".join(found)


def decompress_all(data: bytes) -> bytes:
    """The content of all frames, which must be all of `data`; LineError otherwise."""
    found = []
    rest = data
    while True:
        content, rest = decompress(rest)
        found.append(content)
        if not rest:
            return found[0] if len(found) == 1 else b"".join(found)


def decompressed(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The content of all frames of a stream that another program wrote, in constant memory; frames
    without size or checksum are taken. LineError when it is no zstd or is cut short."""
    decoder = zstandard.ZstdDecompressor().decompressobj()
    is_inside = False
    try:
        for chunk in chunks:
            data = chunk
            while data:
                content = decoder.decompress(data)
                if content:
                    yield content
                is_inside = not decoder.eof
                data = decoder.unused_data if decoder.eof else b""
                if decoder.eof:
                    decoder = zstandard.ZstdDecompressor().decompressobj()
    except zstandard.ZstdError as error:
        raise LineError("zstd", f"not zstd: {error}") from None
    if is_inside:
        raise LineError("zstd", "the last zstd frame is cut short")


def skippable(data: bytes) -> bytes:
    """A zstd skippable frame: `zstd -d` passes over it."""
    return _SKIPPABLE + len(data).to_bytes(4, "little") + data


def unskippable(data: bytes) -> bytes:
    """The content of a skippable frame that is all of `data`; LineError otherwise."""
    if data[:4] != _SKIPPABLE or len(data) < 8:
        raise LineError("trailer", "no skippable frame behind the document")
    if int.from_bytes(data[4:8], "little") != len(data) - 8:
        raise LineError("trailer", f"the trailer's length is not the {len(data) - 8} bytes there")
    return data[8:]
