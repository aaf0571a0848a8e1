"""meta.json: what is written comes back, what is not a meta is refused, a publish is atomic."""

import errno
import zlib
from typing import Any

import msgspec
import pytest

from durasess.engine import codec, meta
from durasess.engine.meta import Baseline, Floor, Meta, Summary
from durasess.engine.types import FORMAT, LineError
from durasess.errors import EventRejectedError, FormatVersionError
from tests.support.lines import DIRECTORY, SESSION, TS, disk_with, flips
from tests.support.sim_files import SimFiles

PATH = "/s1/meta.json"
NEW = Meta(session_id=SESSION, created=TS, updated=TS)
FULL = Meta(
    session_id=SESSION,
    schema_version=3,
    created=TS,
    updated="2026-01-02T00:00:00.000000Z",
    epoch=4,
    baseline=Baseline(40, 3, "ab" * 16),
    active=5,
    floor=Floor(5, 42, "0a1b2c3d"),
    summary=Summary(42, {"title": "é\ud800", "labels": [2**70]}),
)


def line_with(**changes: Any) -> bytes:
    """A meta line with these members (None: without it) whose crc agrees."""
    fields = {**msgspec.to_builtins(FULL), "summary": None, **changes}
    return codec.control_line({name: value for name, value in fields.items() if value != "-"})


def refused(data: bytes) -> LineError:
    with pytest.raises(LineError) as caught:
        meta.parse(data, PATH)
    return caught.value


# read


@pytest.mark.parametrize("found", [NEW, FULL])
def test_meta_comes_back_from_its_directory(found: Meta) -> None:
    disk = disk_with(META=meta.encoded(found))
    assert meta.read(disk, DIRECTORY) == found
    assert disk.descriptors == {}


def test_missing_meta_and_error_of_the_system_are_told_apart() -> None:
    with pytest.raises(FileNotFoundError):
        meta.read(disk_with(), DIRECTORY)
    disk = disk_with(META=meta.encoded(NEW))
    disk.fail("read_at", code=errno.EIO)
    with pytest.raises(OSError) as caught:
        meta.read(disk, DIRECTORY)
    assert caught.value.errno == errno.EIO


# parse


def test_meta_is_one_line_whose_first_member_is_the_format() -> None:
    data = meta.encoded(NEW)
    assert data.startswith(b'{"format":1,"session_id":"s1","schema_version":1,"created":')
    assert data.count(b"\n") == 1 and data.endswith(b'"}\n')
    assert b'"baseline":{"seq":0,"segment":1,"snapshot":null},"active":0' in data
    assert b'"epoch":0,' in data
    assert b'"floor":{"segment":0,"seq":0,"crc":"00000000"},"summary":null,"crc":"' in data


class Titled(msgspec.Struct, frozen=True):
    title: str


class TitledSummary(Summary, frozen=True):
    data: Titled


class TitledMeta(Meta, frozen=True, kw_only=True):
    summary: TitledSummary | None = None


def test_list_gets_of_the_summary_what_it_wants() -> None:
    found = meta.as_written(meta.encoded(FULL), TitledMeta)
    assert found is not None
    assert found.summary is not None
    assert (found.summary.data.title, found.active) == ("é\ud800", 5)
    assert meta.as_written(meta.encoded(NEW), TitledMeta) is not None


@pytest.mark.parametrize(
    "data",
    [
        meta.encoded(FULL)[:-1],
        meta.encoded(FULL) + b"\n",
        b"\xef\xbb\xbf" + meta.encoded(FULL),
        line_with(format=FORMAT + 1),
        line_with(summary={"seq": 1, "data": {"title": 7}}),
        line_with(floor={"segment": 1, "seq": 1, "crc": "no"}),
        meta.encoded(FULL).replace(b"labels", b"lebals"),
    ],
)
def test_list_gets_nothing_of_what_is_not_as_this_version_writes_it(data: bytes) -> None:
    assert meta.as_written(data, TitledMeta) is None


@pytest.mark.parametrize("begin", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_byte_order_mark_and_crlf_of_an_editor_are_passed_over(begin: bytes, end: bytes) -> None:
    data = begin + meta.encoded(FULL).removesuffix(b"\n") + end
    assert meta.parse(data, PATH) == FULL


def test_members_of_a_newer_writer_are_passed_over() -> None:
    floor = {"segment": 5, "seq": 42, "crc": "0a1b2c3d", "note": 1}
    data = line_with(host="build-7", floor=floor)
    assert meta.parse(data, PATH) == msgspec.structs.replace(FULL, summary=None)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        meta.encoded(NEW)[:-1],
        meta.encoded(NEW) + b"\n",
        meta.encoded(NEW) + b" ",
        meta.encoded(NEW) * 2,
        b"\n" + meta.encoded(NEW),
        meta.encoded(NEW)[:-1] + b"\r",
        b"\0" * 400,
    ],
)
def test_meta_that_is_not_exactly_one_line_is_refused(data: bytes) -> None:
    assert refused(data).rule in ("meta", "line")


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (b"not json\n", "line"),
        (b"{}\n", "line"),
        (b"[1]}\n", "json"),
        (b'7,"crc":"00000000"}\n', "json"),
        (b"\xef\xbb\xbf" + meta.encoded(NEW)[1:], "json"),
    ],
)
def test_line_that_is_no_object_with_a_crc_is_refused(data: bytes, rule: str) -> None:
    assert refused(data).rule == rule


def test_every_flipped_bit_and_every_cut_is_noticed() -> None:
    data = meta.encoded(NEW)
    for changed in (*flips(data), *(data[:size] for size in range(len(data)))):
        with pytest.raises((LineError, FormatVersionError)):
            meta.parse(changed, PATH)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"session_id": "-"}, "missing required field `session_id`"),
        ({"session_id": 7}, "Expected `str`, got `int` - at `$.session_id`"),
        ({"baseline": [0, 1, None]}, "at `$.baseline`"),
        ({"baseline": {"seq": "0"}}, "at `$.baseline.seq`"),
        ({"floor": None}, "at `$.floor`"),
        ({"active": 1.5}, "at `$.active`"),
        ({"summary": {"seq": 1}}, "missing required field `data`"),
    ],
)
def test_line_without_the_fields_of_a_meta_is_refused(changes: dict[str, Any], reason: str) -> None:
    error = refused(line_with(**changes))
    assert error.rule == "meta" and error.reason.startswith("not the fields of a meta: ")
    assert reason in error.reason


@pytest.mark.parametrize("crc", ["", "0A1B2C3D", "0a1b2c3", "none", "0a1b2c3d\n"])
def test_floor_whose_chain_value_is_none_is_refused(crc: str) -> None:
    refused(line_with(floor={"segment": 5, "seq": 42, "crc": crc}))


@pytest.mark.parametrize("found", [2, 3, 10**30])
def test_newer_format_is_another_error_whether_the_crc_agrees_or_not(found: int) -> None:
    data = line_with(format=found, members="of another time")
    for line in (data, data[:-5] + b"x" + data[-4:]):
        with pytest.raises(FormatVersionError, match=rf"{PATH} says format {found};") as caught:
            meta.parse(line, PATH)
        assert caught.value.path == PATH
        assert "reads format 1 to 1. Upgrade durasess" in str(caught.value)


@pytest.mark.parametrize("found", [True, 2.0, "2", None, [], 0, -1])
def test_format_that_is_no_number_from_1_is_refused(found: Any) -> None:
    error = refused(line_with(format=found))
    assert (error.rule, error.reason) == ("meta", f"format is {found!r}")


def test_meta_without_a_format_is_refused() -> None:
    assert refused(line_with(format="-")).reason == "format is None"


# encoded


def test_crc_of_meta_has_seed_0() -> None:
    data = meta.encoded(FULL)
    assert data[-11:-3] == b"%08x" % zlib.crc32(data[: -codec.CRC_SUFFIX - 1])


def test_summary_that_is_too_large_for_a_list_is_refused_with_its_size() -> None:
    room = meta.MAX_META_BYTES - len(meta.encoded(with_summary("")))
    assert len(meta.encoded(with_summary("x" * room))) == meta.MAX_META_BYTES
    with pytest.raises(EventRejectedError, match=r"meta\.json 1048577 bytes; the limit is 1048576"):
        meta.encoded(with_summary("x" * (room + 1)))


def with_summary(text: str) -> Meta:
    return msgspec.structs.replace(NEW, summary=Summary(1, text))


# publish


def test_publish_syncs_before_it_renames_and_leaves_the_directory_sync_to_others() -> None:
    disk = disk_with(META=meta.encoded(NEW))
    meta.publish(disk, DIRECTORY, FULL)
    assert [op.kind for op in disk.log] == ["link", "write", "sync", "rename"]
    assert disk.tree() == {DIRECTORY: None, PATH: meta.encoded(FULL)}
    assert disk.descriptors == {}


@pytest.mark.parametrize("kind", ["create", "write_at", "sync", "replace"])
def test_publish_that_fails_keeps_the_old_meta_and_no_temporary_file(kind: str) -> None:
    disk = disk_with(META=meta.encoded(NEW))
    disk.fail(kind, code=errno.ENOSPC)
    with pytest.raises(OSError) as caught:
        meta.publish(disk, DIRECTORY, FULL)
    assert caught.value.errno == errno.ENOSPC
    assert disk.tree() == {DIRECTORY: None, PATH: meta.encoded(NEW)}
    assert disk.descriptors == {}


def test_summary_that_is_refused_touches_nothing() -> None:
    disk = SimFiles.from_tree({DIRECTORY: None})
    with pytest.raises(EventRejectedError):
        meta.publish(disk, DIRECTORY, with_summary("x" * meta.MAX_META_BYTES))
    assert disk.log == []
