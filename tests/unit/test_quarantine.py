"""Bytes set aside: durable before anything is cut, kept once however often they are set aside."""

import errno

import pytest

from durasess.engine import codec, quarantine
from tests.support.lines import DIRECTORY
from tests.support.sim_files import SimFiles

NAME = "events_0001.jsonl"
FOLDER = "/s1/quarantine"
TORN = b'{"seq":7,"ts":"20'
PATH = f"{FOLDER}/{NAME}.512.{codec.digest(TORN)[:16]}"


def session() -> SimFiles:
    return SimFiles.from_tree({DIRECTORY: None})


def operations(sim: SimFiles) -> list[str]:
    return [op.kind for op in sim.log]


def test_bytes_are_kept_under_a_name_that_says_file_offset_and_content() -> None:
    disk = session()
    assert quarantine.keep(disk, DIRECTORY, NAME, TORN, 512) == PATH
    assert disk.tree() == {DIRECTORY: None, FOLDER: None, PATH: TORN}
    assert disk.descriptors == {}


def test_offset_is_0_for_a_whole_file() -> None:
    path = quarantine.keep(session(), DIRECTORY, "meta.json", b"x")
    assert path == f"{FOLDER}/meta.json.0.{codec.digest(b'x')[:16]}"


def test_copy_and_its_folder_are_durable_when_keep_returns() -> None:
    disk = session()
    quarantine.keep(disk, DIRECTORY, NAME, TORN, 512)
    assert operations(disk) == [
        "link",
        "sync_dir",
        "link",
        "write",
        "sync",
        "rename",
        "sync_dir",
    ]
    assert disk.log[1].node == disk.stat(DIRECTORY).inode[1]
    assert disk.log[-1].node == disk.stat(FOLDER).inode[1]


def test_same_bytes_are_kept_once_and_both_directories_are_synced_again() -> None:
    disk = session()
    quarantine.keep(disk, DIRECTORY, NAME, TORN, 512)
    disk.log.clear()
    assert quarantine.keep(disk, DIRECTORY, NAME, TORN, 512) == PATH
    assert operations(disk) == ["sync_dir", "sync_dir"]


def test_other_bytes_another_offset_and_another_file_are_kept_beside() -> None:
    disk = session()
    for name, data, offset in (
        (NAME, TORN, 512),
        (NAME, TORN, 513),
        (NAME, b"other", 512),
        ("events_0002.jsonl", TORN, 512),
    ):
        path = quarantine.keep(disk, DIRECTORY, name, data, offset)
        assert disk.tree()[path] == data
    assert len(disk.listdir(FOLDER)) == 4


@pytest.mark.parametrize("cut", [b"", TORN[:3], TORN + b"x"])
def test_copy_that_a_crash_left_broken_is_made_anew(cut: bytes) -> None:
    disk = SimFiles.from_tree({PATH: cut, PATH + ".tmp": b"half"})
    quarantine.keep(disk, DIRECTORY, NAME, TORN, 512)
    assert disk.tree() == {DIRECTORY: None, FOLDER: None, PATH: TORN}


@pytest.mark.parametrize("kind", ["mkdir", "create", "write_at", "sync", "replace", "sync_dir"])
def test_copy_that_cannot_be_kept_is_an_error(kind: str) -> None:
    disk = session()
    disk.fail(kind, code=errno.ENOSPC)
    with pytest.raises(OSError) as caught:
        quarantine.keep(disk, DIRECTORY, NAME, TORN, 512)
    assert caught.value.errno == errno.ENOSPC
    assert disk.descriptors == {}


def test_copy_that_cannot_be_read_is_an_error_and_not_written_over() -> None:
    disk = session()
    quarantine.keep(disk, DIRECTORY, NAME, TORN, 512)
    disk.log.clear()
    disk.fail("open", code=errno.EIO)
    with pytest.raises(OSError):
        quarantine.keep(disk, DIRECTORY, NAME, TORN, 512)
    assert set(operations(disk)) <= {"sync_dir"}
