"""zstd frames: whole ones come back, and a cut, a flip or a missing checksum is refused (R20)."""

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from durasess.engine import frames
from durasess.engine.types import LineError
from tests.support.lines import UNHURRIED, flips

DOCUMENT = b'{"seq":1,"state":[1,2,3]}\n' * 8
FRAME = frames.compress(DOCUMENT)


def refused(call: object, data: bytes) -> LineError:
    with pytest.raises(LineError) as caught:
        call(data)  # type: ignore[operator]
    return caught.value


def frame_with(*, checksum: bool, size: bool) -> bytes:
    compressor = zstandard.ZstdCompressor(write_checksum=checksum, write_content_size=size)
    return compressor.compress(DOCUMENT)


# compress and decompress


@given(st.binary(max_size=300), st.binary(max_size=9))
@UNHURRIED
def test_content_and_what_lies_behind_the_frame_come_back(data: bytes, behind: bytes) -> None:
    assert frames.decompress(frames.compress(data) + behind) == (data, behind)


def test_frame_says_its_size_and_has_a_checksum() -> None:
    parameters = zstandard.get_frame_parameters(FRAME)
    assert (parameters.has_checksum, parameters.content_size) == (True, len(DOCUMENT))


@pytest.mark.parametrize(("checksum", "size"), [(False, True), (True, False), (False, False)])
def test_frame_without_checksum_or_size_is_refused(checksum: bool, size: bool) -> None:
    error = refused(frames.decompress, frame_with(checksum=checksum, size=size))
    assert (error.rule, error.reason) == ("zstd", "the frame has no content size or no checksum")


def test_frame_that_claims_an_absurd_size_is_refused() -> None:
    magic, descriptor, window = b"\x28\xb5\x2f\xfd", b"\xc4", b"\x00"
    data = magic + descriptor + window + (1 << 40).to_bytes(8, "little") + b"\x01\x00\x00"
    assert refused(frames.decompress, data).rule == "zstd"
    data = magic + descriptor + window + (1 << 41).to_bytes(8, "little") + b"\x01\x00\x00"
    error = refused(frames.decompress, data)
    assert error.reason == "the frame has no content size or no checksum"


@pytest.mark.parametrize("size", range(len(FRAME)))
def test_frame_cut_anywhere_is_refused(size: int) -> None:
    assert refused(frames.decompress, FRAME[:size]).rule == "zstd"


def test_frame_without_its_last_bytes_is_said_to_be_cut_short() -> None:
    error = refused(frames.decompress, FRAME[:-1])
    assert error.reason == f"the frame is cut short at {len(DOCUMENT)} bytes of content"


def test_flipped_bit_never_gives_other_content() -> None:
    for flipped in flips(FRAME):
        try:
            content, behind = frames.decompress(flipped)
        except LineError as error:
            assert error.rule == "zstd"
        else:
            assert (content, behind) == (DOCUMENT, b"")


@pytest.mark.parametrize("data", [b"", b"\0" * 64, b'{"seq":1}\n', frames.skippable(b"abc")])
def test_other_bytes_are_refused(data: bytes) -> None:
    assert refused(frames.decompress, data).rule == "zstd"


def test_content_that_does_not_fit_in_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Decompressor:
        def decompressobj(self) -> None:
            raise MemoryError("no room")

    monkeypatch.setattr(frames.zstandard, "ZstdDecompressor", Decompressor)
    assert refused(frames.decompress, FRAME).reason == "not a whole zstd frame: no room"


# several frames


def test_frames_one_behind_the_other_come_back_as_one() -> None:
    assert frames.decompress_all(FRAME) == DOCUMENT
    assert frames.decompress_all(FRAME + frames.compress(b"more\n")) == DOCUMENT + b"more\n"
    assert frames.decompress_all(FRAME * 3) == DOCUMENT * 3


@pytest.mark.parametrize("size", range(len(FRAME)))
def test_last_frame_cut_anywhere_is_refused(size: int) -> None:
    assert refused(frames.decompress_all, FRAME[:size]).rule == "zstd"
    if size:
        assert refused(frames.decompress_all, FRAME + FRAME[:size]).rule == "zstd"


@pytest.mark.parametrize("behind", [b"\n", b"\0" * 64, frames.skippable(b"abc")])
def test_bytes_behind_the_last_frame_are_refused(behind: bytes) -> None:
    assert refused(frames.decompress_all, FRAME + behind).rule == "zstd"


@pytest.mark.parametrize(("checksum", "size"), [(False, True), (True, False), (False, False)])
def test_every_frame_has_checksum_and_size(checksum: bool, size: bool) -> None:
    lacking = frame_with(checksum=checksum, size=size)
    assert refused(frames.decompress_all, lacking).rule == "zstd"
    assert refused(frames.decompress_all, FRAME + lacking).rule == "zstd"


def test_flipped_bit_never_gives_other_content_of_frames() -> None:
    for flipped in flips(FRAME):
        try:
            assert frames.decompress_all(flipped) == DOCUMENT
        except LineError as error:
            assert error.rule == "zstd"


def test_a_frame_that_claims_much_takes_no_memory_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "_MOST_AT_ONCE", len(DOCUMENT) - 1)
    assert frames.decompress_all(FRAME) == DOCUMENT
    assert refused(frames.decompress_all, FRAME[:-1]).reason.startswith("the frame is cut short")


def test_the_beginning_of_a_frame_gives_the_beginning_of_its_content() -> None:
    data = frames.compress(b"".join(b"%d\n" % n for n in range(100_000)))
    found = frames.beginning(data[: len(data) // 2])
    assert found.startswith(b"0\n1\n2\n") and len(found) >= 128 * 1024
    assert frames.beginning(data[:10]) == b""
    assert refused(frames.beginning, b"plain text").rule == "zstd"


# skippable and unskippable


@given(st.binary(max_size=300))
@UNHURRIED
def test_skippable_frame_comes_back(data: bytes) -> None:
    assert frames.unskippable(frames.skippable(data)) == data


def test_skippable_frame_has_magic_and_little_endian_length() -> None:
    assert frames.skippable(b"abc") == b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc"


def test_other_readers_pass_over_a_skippable_frame() -> None:
    data = FRAME + frames.skippable(b"trailer")
    with zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True) as reader:
        assert reader.read() == DOCUMENT


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x50\x2a\x4d\x18",
        b"\x50\x2a\x4d\x18\x00\x00\x00",
        b"\x51\x2a\x4d\x18\x00\x00\x00\x00",
        b"\x18\x4d\x2a\x50\x00\x00\x00\x00",
        FRAME,
    ],
)
def test_bytes_that_are_no_skippable_frame_are_refused(data: bytes) -> None:
    error = refused(frames.unskippable, data)
    assert (error.rule, error.reason) == ("trailer", "no skippable frame behind the document")


@pytest.mark.parametrize("change", [-1, 1, 256, 1 << 24])
def test_skippable_frame_of_another_length_is_refused(change: int) -> None:
    data = b"\x50\x2a\x4d\x18" + (3 + change).to_bytes(4, "little") + b"abc"
    error = refused(frames.unskippable, data)
    assert error.reason == "the trailer's length is not the 3 bytes there"


def test_bytes_behind_or_missing_from_a_skippable_frame_are_refused() -> None:
    data = frames.skippable(b"abc")
    assert refused(frames.unskippable, data + b"\n").rule == "trailer"
    assert refused(frames.unskippable, data[:-1]).rule == "trailer"


# decompressed: what another program wrote


def told(*chunks: bytes) -> bytes:
    return b"".join(frames.decompressed(iter(chunks)))


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_stream_of_frames_is_read_in_whatever_pieces_it_comes(size: int) -> None:
    plain = zstandard.ZstdCompressor(write_checksum=False, write_content_size=False)
    data = FRAME + plain.compress(b"more") + FRAME
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    assert told(*pieces) == DOCUMENT + b"more" + DOCUMENT
    assert told() == b""


def test_stream_that_is_no_zstd_or_is_cut_short_is_refused() -> None:
    with pytest.raises(LineError, match="not zstd"):
        told(b"no zstd at all, and long enough to see that")
    for cut in (1, 5):
        with pytest.raises(LineError, match="cut short"):
            told(FRAME, FRAME[:-cut])
