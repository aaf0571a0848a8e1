"""A session as one file and back: any tool opens it, nothing is merged, nothing bad comes in."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from durasess import (
    CorruptionError,
    SessionLockedError,
    SessionNotFoundError,
    StorageError,
    Store,
)
from tests.support import stores


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """One session, with a large value and a snapshot."""
    store = stores.store_at(tmp_path)
    with store.create("a1", title="packed") as session:
        stores.say(session, reply="y" * 200_000)
        session.snapshot()
        stores.say(session)
    return store


@pytest.fixture
def other(tmp_path: Path) -> Store:
    """An empty store elsewhere."""
    return Store(tmp_path / "elsewhere", clock=stores.Clock())


@pytest.fixture
def file(store: Store, tmp_path: Path) -> Path:
    """The session of the store in one file."""
    store.pack("a1", tmp_path / "a1.zip")
    return tmp_path / "a1.zip"


def without_locks(path: str) -> dict[str, str]:
    """The files that are a session's content."""
    return {name: one for name, one in stores.digest(path).items() if name not in ("owner", "lock")}


def test_session_comes_back_byte_by_byte(store: Store, other: Store, file: Path) -> None:
    done = other.unpack(file)
    assert (done.session_id, done.last_seq, done.was_there) == ("a1", 7, False)
    assert without_locks(done.path) == without_locks(f"{store.path}/a1")
    with other.open("a1") as session:
        assert session.title == "packed"
        assert [one.role for one in session.history()] == ["user", "assistant"] * 2


def test_plain_tools_open_it(file: Path) -> None:
    listed = subprocess.run(
        [sys.executable, "-m", "zipfile", "-l", str(file)], capture_output=True, text=True
    )
    assert "a1/meta.json" in listed.stdout and "a1/events_0001.jsonl" in listed.stdout


def test_packing_the_same_session_gives_the_same_bytes(store: Store, tmp_path: Path) -> None:
    for name in ("one.zip", "two.zip"):
        store.pack("a1", tmp_path / name)
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()


def test_file_that_is_there_is_left_alone(store: Store, file: Path) -> None:
    before = file.read_bytes()
    with pytest.raises(StorageError, match="left alone"):
        store.pack("a1", file)
    assert file.read_bytes() == before


def test_open_session_is_not_packed(store: Store, tmp_path: Path) -> None:
    with store.open("a1"), pytest.raises(SessionLockedError):
        store.pack("a1", tmp_path / "x.zip")
    assert not (tmp_path / "x.zip").exists()


def test_damaged_session_is_not_packed(store: Store, tmp_path: Path) -> None:
    segment = Path(store.path) / "a1/events_0001.jsonl"
    segment.write_bytes(segment.read_bytes()[:-40])
    with pytest.raises(CorruptionError, match="Nothing was packed"):
        store.pack("a1", tmp_path / "x.zip")
    assert not list(tmp_path.glob("x.zip*"))


def test_foreign_files_are_left_out_and_named(store: Store, tmp_path: Path) -> None:
    (Path(store.path) / "a1/notes.txt").write_text("mine")
    assert store.pack("a1", tmp_path / "x.zip").left_out == ("notes.txt",)


def test_store_that_has_all_of_it_stays_as_it_is(store: Store, file: Path) -> None:
    with store.open("a1") as session:
        session.note("went on")
    before = stores.digest(store.path)
    assert store.unpack(file).was_there
    assert stores.digest(store.path) == before


def test_other_session_with_this_id_stays_and_a_copy_comes_beside_it(
    store: Store, other: Store, file: Path
) -> None:
    stores.make(other, "a1", runs=5, title="mine")
    before = stores.digest(f"{other.path}/a1")
    done = other.unpack(file)
    assert (done.session_id, done.packed_id) == ("a1.2", "a1")
    assert stores.digest(f"{other.path}/a1") == before
    assert not stores.verified(done.path).damage
    assert stores.events_of(other, "a1.2") == stores.events_of(store, "a1")
    assert {row.title for row in other.list().rows} == {"mine", "packed"}


def test_newer_state_of_the_same_session_is_a_copy_too(
    store: Store, other: Store, file: Path, tmp_path: Path
) -> None:
    other.unpack(file)
    with store.open("a1") as session:
        session.note("went on")
    store.pack("a1", tmp_path / "later.zip")
    assert other.unpack(tmp_path / "later.zip").session_id == "a1.2"


def test_file_that_is_not_there_or_no_archive(other: Store, tmp_path: Path) -> None:
    with pytest.raises(SessionNotFoundError):
        other.unpack(tmp_path / "absent.zip")
    (tmp_path / "text.zip").write_text("hello")
    with pytest.raises(CorruptionError):
        other.unpack(tmp_path / "text.zip")
    assert not any(Path(other.path).iterdir())


def repacked(file: Path, names: dict[str, bytes], drop: str = "nothing") -> Path:
    """The same archive with other members added, and without those named `drop`."""
    target = file.with_name("changed.zip")
    with zipfile.ZipFile(file) as source, zipfile.ZipFile(target, "w") as made:
        for entry in source.infolist():
            if drop not in entry.filename:
                made.writestr(entry.filename, source.read(entry))
        for name, data in names.items():
            made.writestr(name, data)
        made.comment = source.comment if drop != "nothing" else b""
    return target


@pytest.mark.parametrize(
    "name",
    [
        "../evil",
        "a1/../../evil",
        "/etc/evil",
        "a1/blobs/../../x",
        "a1/owner",
        "a1/notes.txt",
        "b1/meta.json",
        "a1/blobs/",
        "a1/quarantine/..",
        "a1\\x",
    ],
)
def test_names_that_no_session_has_are_refused(
    other: Store, file: Path, tmp_path: Path, name: str
) -> None:
    with pytest.raises(CorruptionError, match="Nothing was unpacked"):
        other.unpack(repacked(file, {name: b"x"}))
    assert not any(Path(other.path).iterdir())
    assert not list(tmp_path.rglob("evil"))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_name_that_is_there_twice_is_refused(other: Store, file: Path) -> None:
    with zipfile.ZipFile(file) as source:
        same = source.read("a1/meta.json")
    with pytest.raises(CorruptionError, match="in it twice"):
        other.unpack(repacked(file, {"a1/meta.json": same}))


def test_damaged_session_in_a_sound_archive_is_refused(other: Store, file: Path) -> None:
    with zipfile.ZipFile(file) as source:
        segment = source.read("a1/events_0001.jsonl").replace(b"hello", b"jello", 1)
    changed = repacked(file, {"a1/events_0001.jsonl": segment}, "events_0001")
    with pytest.raises(CorruptionError, match="Nothing was unpacked"):
        other.unpack(changed)
    assert not any(Path(other.path).iterdir())


@pytest.mark.parametrize("drop", ["meta.json", "events_0001", "events_0002", "blobs"])
def test_archive_that_lacks_a_file_is_refused(other: Store, file: Path, drop: str) -> None:
    with pytest.raises(CorruptionError):
        other.unpack(repacked(file, {}, drop))
    assert not any(Path(other.path).iterdir())


def test_every_flipped_byte_is_found_or_harmless(other: Store, file: Path) -> None:
    whole = file.read_bytes()
    changed = file.with_name("changed.zip")
    for at in range(0, len(whole), 37):
        data = bytearray(whole)
        data[at] ^= 0x10
        changed.write_bytes(bytes(data))
        try:
            done = other.unpack(changed)
        except CorruptionError:
            continue
        assert not stores.verified(done.path).damage
        assert done.last_seq == 7


def test_archive_that_names_a_place_before_its_beginning_is_damage(
    other: Store, file: Path
) -> None:
    data = bytearray(file.read_bytes())
    # Where the directory of the archive begins: from that the places of all members are counted.
    data[data.rindex(b"PK\x05\x06") + 19] ^= 0x10
    file.write_bytes(bytes(data))
    with pytest.raises(CorruptionError):
        other.unpack(file)
