"""zstd frames: a document with size and checksum, and a skippable frame behind it (R20)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

import zstandard

from durasess.engine.types import LineError

_ZSTD_LEVEL = 3
_SKIPPABLE = b"\x50\x2a\x4d\x18"
_MAX_DOCUMENT = 1 << 40
_MOST_AT_ONCE = 64 * 1024 * 1024
"""A frame that claims more is taken step by step, so that a false claim takes no memory."""


def compress(data: bytes) -> bytes:
    """One zstd frame with content size and checksum (R20)."""
    compressor = zstandard.ZstdCompressor(
        level=_ZSTD_LEVEL, write_checksum=True, write_content_size=True
    )
    return compressor.compress(data)


def _parameters(data: bytes) -> zstandard.FrameParameters:
    try:
        parameters = zstandard.get_frame_parameters(data)
    except zstandard.ZstdError as error:
        raise LineError("zstd", f"not a whole zstd frame: {error}") from None
    if not parameters.has_checksum or not 0 <= parameters.content_size <= _MAX_DOCUMENT:
        raise LineError("zstd", "the frame has no content size or no checksum")
    return parameters


def decompress(data: bytes) -> tuple[bytes, bytes]:
    """The content of the first frame, which must be whole and carry size and checksum, and the
    bytes behind it. LineError otherwise. The stream reader is not used: it takes a truncated frame
    for a short one (R20)."""
    parameters = _parameters(data)
    try:
        decoder = zstandard.ZstdDecompressor().decompressobj()
        content = decoder.decompress(data)
    except (zstandard.ZstdError, MemoryError) as error:
        raise LineError("zstd", f"not a whole zstd frame: {error}") from None
    if not decoder.eof or len(content) != parameters.content_size:
        raise LineError("zstd", f"the frame is cut short at {len(content)} bytes of content")
    return content, decoder.unused_data


def decompress_all(data: bytes) -> bytes:
    """The content of all frames, which must be all of `data`; LineError otherwise. One frame takes
    one call, in which other threads go on."""
    if _parameters(data).content_size <= _MOST_AT_ONCE:
        with contextlib.suppress(zstandard.ZstdError, MemoryError):
            return zstandard.ZstdDecompressor().decompress(data, allow_extra_data=False)
    # Several frames, or not whole ones.
    found = []
    rest = data
    while True:
        content, rest = decompress(rest)
        found.append(content)
        if not rest:
            return found[0] if len(found) == 1 else b"".join(found)


def beginning(data: bytes) -> bytes:
    """The content that the first bytes of a frame lead to, as far as it goes and unproven.
    LineError when they lead to none."""
    try:
        return zstandard.ZstdDecompressor().decompressobj().decompress(data)
    except (zstandard.ZstdError, MemoryError) as error:
        raise LineError("zstd", f"no zstd frame begins here: {error}") from None


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
