"""After an unclean end: whole batches are copied forward and sealed, torn bytes are kept."""

from pathlib import Path

import pytest

from durasess import CorruptionError, FencedError
from durasess.engine import recovery, settle
from durasess.engine.files import RealFiles
from durasess.engine.fold import Fold
from tests.support.sessions import (
    append_bytes,
    claims_of,
    collect,
    flip_bit,
    lines_of,
    make_unclean,
    segment_path,
    state_of,
    unacknowledged,
)

FILES = RealFiles()


def unsealed_of(path):
    found = recovery.recover(FILES, str(path), Fold(initial=list, apply=collect), writer=True)
    source = found.unsealed_source
    return settle.Unsealed(
        path=source.path,
        number=source.number,
        inode=source.inode,
        size=source.size,
        scan=found.unsealed,
        kept=found.kept,
        place=found.place,
    )


def settled(path):
    return settle.copy_forward(FILES, str(path), unsealed_of(path))


@pytest.fixture
def path(tmp_path):
    return make_unclean(tmp_path / "s1")


# leftovers


def test_leftovers_of_a_publish_are_removed_and_nothing_else(path, tmp_path):
    session = tmp_path / "s1"
    gone = ["meta.json.tmp", "snapshot.json.zst.tmp", "events_0001.jsonl.tmp"]
    gone.append("events_0002.jsonl.tmp")
    for name in [*gone, "notes.tmp", "mine.txt"]:
        (session / name).write_text("x")
    settle.leftovers(FILES, path, 2)
    left = {one.name for one in session.iterdir()}
    assert not left & set(gone)
    assert {"notes.tmp", "mine.txt", "meta.json"} <= left


# keep_bad_files


def test_bad_meta_is_copied_before_it_is_replaced(path, tmp_path):
    flip_bit(tmp_path / "s1" / "meta.json", 30)
    bad = (tmp_path / "s1" / "meta.json").read_bytes()
    (kept,) = settle.keep_bad_files(FILES, claims_of(path))
    assert Path(kept).read_bytes() == bad


# copy_forward


def test_header_and_whole_batches_are_kept_as_they_were_and_sealed(path):
    before = lines_of(segment_path(path))
    inode = segment_path(path).stat().st_ino
    assert settled(path) == []
    after = lines_of(segment_path(path))
    assert after[:-1] == before
    assert after[-1].startswith(b'{"seal":1,"last_seq":3,"events":3,')
    assert segment_path(path).stat().st_ino != inode


def test_torn_bytes_are_kept_in_quarantine(path):
    torn = unacknowledged(path, "half")[:25]
    append_bytes(segment_path(path), torn)
    (kept,) = settled(path)
    assert Path(kept).read_bytes() == torn
    assert "/quarantine/events_0001.jsonl." in kept
    assert state_of(path) == [1, 2, 3]


def test_settling_again_keeps_one_copy_of_the_same_bytes(path):
    append_bytes(segment_path(path), b'{"seq":4')
    unsealed = unsealed_of(path)
    first = settle.copy_forward(FILES, path, unsealed)
    append_again = unsealed_of_torn_again(path, unsealed)
    assert settle.copy_forward(FILES, path, append_again) == first


def unsealed_of_torn_again(path, unsealed):
    """The same torn segment once more, as an interrupted recovery finds it."""
    file = segment_path(path)
    lines = lines_of(file)[:-1]
    file.write_bytes(b"".join(line + b"\n" for line in lines) + b'{"seq":4')
    assert file.stat().st_size == unsealed.size
    return unsealed_of(path)


def test_batch_that_lacks_only_its_line_feed_is_completed(path):
    append_bytes(segment_path(path), unacknowledged(path, 4, 5)[:-1])
    assert settled(path) == []
    assert state_of(path) == [1, 2, 3, 4, 5]


def test_edited_segment_is_copied_as_a_writer_makes_it(path):
    file = segment_path(path)
    plain = file.read_bytes()
    file.write_bytes(b"\xef\xbb\xbf" + plain.replace(b"\n", b"\r\n"))
    settled(path)
    assert file.read_bytes().startswith(plain)
    assert b"\r" not in file.read_bytes()


def test_file_that_grew_meanwhile_is_not_replaced(path):
    unsealed = unsealed_of(path)
    append_bytes(segment_path(path), unacknowledged(path, 4))
    before = segment_path(path).read_bytes()
    with pytest.raises(FencedError, match="changed while it was being recovered"):
        settle.copy_forward(FILES, path, unsealed)
    assert segment_path(path).read_bytes() == before
    assert not segment_path(path).with_suffix(".jsonl.tmp").exists()


def test_bytes_that_read_differently_the_second_time_are_not_trusted(path):
    unsealed = unsealed_of(path)
    flip_bit(segment_path(path), 250)
    before = segment_path(path).read_bytes()
    with pytest.raises(CorruptionError, match="differently the second time"):
        settle.copy_forward(FILES, path, unsealed)
    assert segment_path(path).read_bytes() == before
