"""Lines of foreign files as bytes: chunk ends, digests, and lines that are read once more."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import zstandard

from durasess.engine import codec
from durasess.engine.files import RealFiles
from durasess.engine.scratch import Scratch
from durasess.errors import StorageError
from durasess.interop import foreign_file, source
from durasess.interop.decoding import Decoding
from durasess.interop.foreign_file import ForeignFile, prefix
from durasess.interop.importer import End, Line
from durasess.interop.source import Source
from durasess.session.core import Mask
from durasess.session.masking import mask_secrets


def opened(tmp_path: Path, data: bytes, name: str = "s.jsonl") -> ForeignFile:
    """A foreign file with this content."""
    path = tmp_path / name
    path.write_bytes(data)
    return ForeignFile(RealFiles(), str(path))


def lines_of(file: ForeignFile, ends: frozenset[int] = frozenset()) -> tuple[Source, list[object]]:
    """All that comes: items, and None for an End."""
    found = Source(file, Decoding(None), ends, Scratch(RealFiles(), os.path.dirname(file.path)))
    return found, [None if isinstance(one, End) else one.item for one in found]


@pytest.mark.parametrize("chunk", range(1, 12))
def test_lines_do_not_depend_on_where_chunks_end(
    tmp_path: Path, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign_file, "CHUNK", chunk)
    _, found = lines_of(opened(tmp_path, b'{"a":1}\n\n{"b":22}\r\n{"c":3}'))
    assert found == [{"a": 1}, {"b": 22}, {"c": 3}, None]


@pytest.mark.parametrize("chunk", range(1, 12))
def test_digest_at_each_line_is_that_of_all_bytes_before(
    tmp_path: Path, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign_file, "CHUNK", chunk)
    data = b'{"a":1}\n\n\n{"b":22}\r\n{"c":3}\n{"torn'
    file = opened(tmp_path, data)
    found = Source(file, Decoding(None), frozenset(), Scratch(RealFiles(), str(tmp_path)))
    for _ in found:
        assert found.digest() == codec.digest(data[: found.bytes])
    assert (found.torn, found.digest()) == (6, codec.digest(data[:-7]))


def test_end_stands_where_an_import_ended_and_at_the_end(tmp_path: Path) -> None:
    data = b'{"a":1}\n{"b":2}\n{"c":3}\n'
    assert lines_of(opened(tmp_path, data), frozenset([1, 3]))[1] == [
        {"a": 1},
        None,
        {"b": 2},
        {"c": 3},
        None,
    ]


@pytest.mark.parametrize(("size", "is_all"), [(7, False), (15, True)])
def test_digest_of_a_prefix_is_that_of_the_lines_read(
    tmp_path: Path, size: int, is_all: bool
) -> None:
    data = b'{"a":1}\n{"b":2}\n'
    expected = codec.digest(data[:size])
    assert prefix(opened(tmp_path, data), size) == (expected, is_all)
    read, _ = lines_of(opened(tmp_path, data[: size + 1]))
    assert (read.digest(), read.bytes) == (expected, size)


@pytest.mark.parametrize("size", [6, 9, 16, 99])
def test_prefix_that_ends_inside_a_line_or_behind_the_file_is_none(
    tmp_path: Path, size: int
) -> None:
    assert prefix(opened(tmp_path, b'{"a":1}\n{"b":2}'), size) == ("", False)


def test_prefix_that_cannot_be_read_is_no_other_prefix(tmp_path: Path) -> None:
    line = b'{"a":1}'
    frame = zstandard.ZstdCompressor().compress(line)
    file = opened(tmp_path, frame + b"no frame", "s.jsonl.zst")
    with pytest.raises(StorageError, match="cannot be read to its end"):
        prefix(file, 99)
    assert prefix(file, len(line)) == (codec.digest(line), False)


@pytest.mark.parametrize("name", ["s.jsonl", "s.jsonl.zst"])
def test_line_can_be_read_once_more(tmp_path: Path, name: str) -> None:
    data = b'\xef\xbb\xbf{"a":1}\n\n{"b":2}'
    if name.endswith(".zst"):
        data = zstandard.ZstdCompressor().compress(data)
    file = opened(tmp_path, data, name)
    found, _ = lines_of(file)
    assert [found.reread(number).item for number in (1, 3)] == [{"a": 1}, {"b": 2}]


def test_line_beyond_the_limit_ends_the_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign_file, "MAX_LINE", 100)
    monkeypatch.setattr(foreign_file, "CHUNK", 10)
    found, items = lines_of(opened(tmp_path, b'{"a":1}\n{"a":"%s"}\n{}\n' % (b"x" * 200)))
    assert (items, "more than 100 bytes" in found.problem) == ([{"a": 1}, None], True)


def test_file_that_grows_while_it_is_read_ends_where_it_ended(tmp_path: Path) -> None:
    file = opened(tmp_path, b'{"a":1}\n')
    with open(file.path, "ab") as owner:
        owner.write(b'{"b":2}\n')
    assert lines_of(file)[1] == [{"a": 1}, None]


def test_rollout_that_was_compressed_in_this_moment_is_found(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl.zst").write_bytes(zstandard.ZstdCompressor().compress(b'{"a":1}\n'))
    file = ForeignFile(RealFiles(), str(tmp_path / "s.jsonl"))
    assert lines_of(file)[1] == [{"a": 1}, None]


@pytest.mark.parametrize(
    "item",
    [
        {"text": "ghp_" + "a1B2" * 9},
        {"a": [{"b": "x\nghp_" + "a1B2" * 9}]},
        {"ghp_" + "a1B2" * 9: 1},
        {"password": "hunter2hunter2"},
        {"api_key": "k"},
        {"first": "export", "second": "DB_PASSWORD=hunter2hunter2"},
    ],
)
def test_look_at_all_texts_together_finds_what_a_look_at_each_does(item: dict[str, object]) -> None:
    line: Line = Decoding(mask_secrets)(1, codec.encode(item))
    assert (line.item, line.masked) == tuple(mask_secrets(item))
    assert line.masked


ODD_LINES = [
    b"",
    b"  ",
    b"[1]",
    b"7",
    b'{"a":1,"a":2}',
    b'{"b":1E6,"a":1,"a":2}',
    b'{"a": 1}',
    b'{"a":1}\r',
    b'{"a":1}{"b":2}',
    b'{"a":"\\u00e9","b":1.50,"c":-0}',
    b'{"a":"\\ud83d"}',
    b'{"a":%s}' % (b"7" * 40),
    b'{"a":1e999}',
    b'{"a":' + b"[" * 80 + b"]" * 80 + b"}",
    b'{"a":' + b"[" * 3000 + b"]" * 3000 + b"}",
    '{"a":"\u2028 \u2029 \x85 é"}'.encode(),
    b'{"a":"\xff"}',
    b'{"password":"hunter2hunter2"}',
    b'{"a":"ghp_%s"}' % (b"a1B2" * 9),
    b"@@@@",
]


def read_from(
    tmp_path: Path, data: bytes, mask: Mask | None, *, together: bool
) -> tuple[list[tuple[object, ...]], tuple[object, ...]]:
    """What each line says, and the source at its end."""
    decoding = Decoding(mask)
    if not together:
        decoding.together = lambda lines: ([], 0)  # type: ignore[method-assign]
    found = Source(
        opened(tmp_path, data), decoding, frozenset(), Scratch(RealFiles(), str(tmp_path))
    )
    lines = []
    for one in found:
        if isinstance(one, Line):
            kept = codec.decode(one.encoded) if one.encoded else one.item
            assert repr(kept) == repr(one.item)
            said = (one.number, one.raw, repr(one.item), one.problem, one.masked, one.text)
            lines.append((*said, bool(one.encoded)))
    return lines, (found.number, found.bytes, found.torn, found.blank, found.digest())


@pytest.mark.parametrize("mask", [mask_secrets, None])
@pytest.mark.parametrize("odd", ODD_LINES, ids=lambda odd: odd[:20])
def test_lines_that_are_decoded_together_are_the_same_as_one_by_one(
    odd: bytes, mask: Mask | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "TOGETHER", 4)
    plain = [b'{"a":%d,"b":[{"c":"x"}]}' % one for one in range(20)]
    for place, end in ((2, b"\n"), (7, b""), (20, b""), (20, b"\n")):
        data = b"\n".join([*plain[:place], odd, *plain[place:]]) + end
        one_by_one = read_from(tmp_path, data, mask, together=False)
        assert read_from(tmp_path, data, mask, together=True) == one_by_one


def test_key_that_stands_twice_is_seen_on_a_line_that_is_as_long_as_its_object() -> None:
    raw = b'{"b":1E6,"a":1,"a":2}'
    line = Decoding(mask_secrets)(2, raw)
    assert len(codec.encode(line.item)) == len(raw)
    assert (line.text, line.encoded) == (raw.decode(), b"")


def test_file_whose_lines_cannot_be_decoded_together_is_seldom_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []
    whole = Decoding.together

    def together(decoding: Decoding, lines: list[bytes]) -> tuple[list[object], int]:
        tried.append(len(lines))
        return whole(decoding, lines)

    monkeypatch.setattr(Decoding, "together", together)
    _, items = lines_of(opened(tmp_path, b'{"a": 1}\n' * 32 * 1000))
    assert len(items) == 32 * 1000 + 1
    assert len(tried) < 30
