"""After an unclean end: whole batches are copied forward and sealed, torn bytes are kept."""

import errno
import os
from pathlib import Path

import msgspec
import pytest

from durasess import CorruptionError, FencedError
from durasess.engine import codec, plain, recovery, settle
from durasess.engine.files import RealFiles
from durasess.engine.fold import Fold
from tests.support.lines import TAB, write_next
from tests.support.sessions import (
    claims_of,
    collect,
    flip_bit,
    lines_of,
    make_unclean,
    open_descriptors,
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


class Meanwhile(RealFiles):
    """A disk on which something happens just before the copy takes the old file's name, when it
    is whole and synced."""

    def __init__(self, act):
        super().__init__()
        self.act = act

    def sync(self, fd):
        super().sync(fd)
        self.act()


STEP = 1024


@pytest.fixture(params=[STEP, 0], ids=["filler", "no filler"])
def path(tmp_path, request):
    return make_unclean(tmp_path / "s1", preallocate=request.param)


@pytest.fixture
def filled(tmp_path):
    """There is room in the filler for a batch."""
    path = make_unclean(tmp_path / "s1", preallocate=STEP)
    assert segment_path(path).read_bytes().endswith(TAB * 200)
    return path


def assert_untouched(path, content):
    """The old file is as it was, and no copy lies about."""
    assert segment_path(path).read_bytes() == content
    assert not segment_path(path).with_suffix(".jsonl.tmp").exists()
    assert not (Path(path) / "quarantine").exists()


# leftovers


def test_leftovers_of_a_publish_are_removed_and_nothing_else(path, tmp_path):
    session = tmp_path / "s1"
    gone = ["meta.json.tmp", "snapshot.json.zst.tmp", "events_0001.jsonl.tmp"]
    gone += ["events_0002.jsonl.tmp", "events.jsonl.zst.tmp", "import.tmp"]
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


@pytest.mark.parametrize("data", [(4,), (4, 5, 6)])
def test_batch_that_lacks_only_its_last_line_feed_is_kept_and_counted_in_the_seal(tmp_path, data):
    path = make_unclean(tmp_path / "s1", preallocate=0)
    write_next(segment_path(path), unacknowledged(path, *data)[:-1])
    assert settled(path) == []
    end = 3 + len(data)
    seal = b'{"seal":1,"last_seq":%d,"events":%d,' % (end, end)
    assert lines_of(segment_path(path))[-1].startswith(seal)
    assert state_of(path) == [*range(1, end + 1)]


def test_torn_bytes_are_kept_in_quarantine(path):
    torn = unacknowledged(path, "half")[:25]
    write_next(segment_path(path), torn)
    (kept,) = settled(path)
    assert Path(kept).read_bytes() == torn
    assert "/quarantine/events_0001.jsonl." in kept
    assert state_of(path) == [1, 2, 3]


def test_settling_again_keeps_one_copy_of_the_same_bytes(path):
    write_next(segment_path(path), b'{"seq":4')
    unsealed = unsealed_of(path)
    first = settle.copy_forward(FILES, path, unsealed)
    append_again = unsealed_of_torn_again(path, unsealed)
    assert settle.copy_forward(FILES, path, append_again) == first


def unsealed_of_torn_again(path, unsealed):
    """The same torn segment once more, as an interrupted recovery finds it."""
    file = segment_path(path)
    lines = lines_of(file)[:-1]
    content = b"".join(line + b"\n" for line in lines) + b'{"seq":4'
    file.write_bytes(content.ljust(unsealed.size, TAB))
    assert file.stat().st_size == unsealed.size
    return unsealed_of(path)


def test_batch_that_lacks_only_its_line_feed_is_completed(path):
    write_next(segment_path(path), unacknowledged(path, 4, 5)[:-1])
    assert settled(path) == []
    assert state_of(path) == [1, 2, 3, 4, 5]


def test_edited_segment_is_copied_as_a_writer_makes_it(path):
    file = segment_path(path)
    plain = file.read_bytes()
    file.write_bytes(b"\xef\xbb\xbf" + plain.replace(b"\n", b"\r\n"))
    settled(path)
    assert file.read_bytes().startswith(plain.rstrip(TAB))
    assert b"\r" not in file.read_bytes() and TAB not in file.read_bytes()


def test_filler_is_left_out_and_is_no_torn_tail(filled):
    assert settled(filled) == []
    assert TAB not in segment_path(filled).read_bytes()
    assert not (Path(filled) / "quarantine").exists()
    assert state_of(filled) == [1, 2, 3]


@pytest.mark.parametrize("lost", [b"\0", b"\0\t\0", b"\t\0"])
def test_blanks_of_a_lost_write_are_kept_in_quarantine_without_the_filler(filled, lost):
    write_next(segment_path(filled), lost)
    (kept,) = settled(filled)
    assert Path(kept).read_bytes() == lost


def test_filler_behind_a_seal_that_is_not_trusted_goes_with_the_seal(filled):
    """After a sync that failed, a seal can be read that is not on the disk (R9)."""
    file = segment_path(filled)
    content = file.read_bytes()
    assert settled(filled) == []
    sealed = file.read_bytes()
    for behind in (b"", TAB * 9):
        file.write_bytes(sealed + behind)
        assert settled(filled) == []
        assert file.read_bytes() == sealed
    assert sealed.startswith(content.rstrip(TAB))


# copy_forward: a stale writer


def test_file_that_grew_meanwhile_is_not_replaced(path):
    unsealed = unsealed_of(path)
    write_next(segment_path(path), unacknowledged(path, "x" * STEP))
    before = segment_path(path).read_bytes()
    assert len(before) > unsealed.size
    with pytest.raises(FencedError, match="changed while it was being recovered"):
        settle.copy_forward(FILES, path, unsealed)
    assert_untouched(path, before)


def stale_writes(path):
    """What a writer that wakes up can put over the filler, in place."""
    batch = unacknowledged(path, 4)
    return [batch, batch[:1], batch[:-1], unacknowledged(path, 4, 5), b"\0"]


@pytest.mark.parametrize("which", range(5))
def test_filler_that_was_overwritten_since_recovery_is_noticed_before_the_copy(filled, which):
    """The file has the same size, name and number."""
    unsealed = unsealed_of(filled)
    write_next(segment_path(filled), stale_writes(filled)[which])
    before = segment_path(filled).read_bytes()
    assert len(before) == unsealed.size
    with pytest.raises(FencedError, match="Another writer is at work; nothing was replaced"):
        settle.copy_forward(FILES, filled, unsealed)
    assert_untouched(filled, before)


@pytest.mark.parametrize("which", range(5))
def test_filler_that_was_overwritten_during_the_copy_is_noticed_before_the_rename(filled, which):
    unsealed = unsealed_of(filled)
    late = stale_writes(filled)[which]
    disk = Meanwhile(lambda: write_next(segment_path(filled), late))
    with pytest.raises(FencedError, match="changed while it was being recovered") as caught:
        settle.copy_forward(disk, filled, unsealed)
    content = segment_path(filled).read_bytes()
    assert len(content) == unsealed.size
    assert content.rstrip(TAB).endswith(late)
    assert_untouched(filled, content)
    assert (caught.value.path, caught.value.offset) == (
        str(segment_path(filled)),
        unsealed.scan.end,
    )


@pytest.mark.parametrize("late", [4, "x" * STEP])
def test_write_behind_a_torn_tail_is_noticed_before_the_rename(path, late):
    """A stale writer that goes on where it had been interrupted."""
    write_next(segment_path(path), unacknowledged(path, late)[:20])
    unsealed = unsealed_of(path)
    rest = unacknowledged(path, late)[20:]
    with pytest.raises(FencedError):
        settle.copy_forward(Meanwhile(lambda: write_next(segment_path(path), rest)), path, unsealed)
    assert state_of(path) == [1, 2, 3, late]


@pytest.mark.parametrize("size", [0, 200, -1])
def test_file_that_was_cut_during_the_copy_is_noticed_before_the_rename(filled, size):
    """Its writer cuts the filler off when it seals. (-1: one byte less.)"""
    file = segment_path(filled)
    unsealed = unsealed_of(filled)
    left = size if size >= 0 else unsealed.size - 1
    with pytest.raises(FencedError):
        settle.copy_forward(Meanwhile(lambda: os.truncate(file, left)), filled, unsealed)
    assert_untouched(filled, file.read_bytes())
    assert file.stat().st_size == left


def test_another_file_of_the_same_content_is_not_replaced(path):
    """Another recovery was faster: its writer may go on in the file that has the name now."""
    file = segment_path(path)
    unsealed = unsealed_of(path)
    content = file.read_bytes()

    def replace():
        file.with_name("other").write_bytes(content)
        file.with_name("other").rename(file)

    with pytest.raises(FencedError, match="another file has its name"):
        settle.copy_forward(Meanwhile(replace), path, unsealed)
    assert_untouched(path, content)
    assert file.stat().st_ino != unsealed.inode[1]


def test_file_that_was_removed_during_the_copy_is_not_made_again(path):
    file = segment_path(path)
    unsealed = unsealed_of(path)
    with pytest.raises(FileNotFoundError):
        settle.copy_forward(Meanwhile(file.unlink), path, unsealed)
    assert not file.exists() and not file.with_suffix(".jsonl.tmp").exists()


# copy_forward: what is not to be trusted


@pytest.fixture(params=["remembered", "by their hash"])
def compared(request, monkeypatch):
    """What is read again is compared with the bytes themselves, or with their hash where there
    are many."""
    if request.param == "by their hash":
        monkeypatch.setattr(plain, "MAX_REMEMBERED", 0)


@pytest.mark.usefixtures("compared")
def test_bytes_that_read_differently_the_second_time_are_not_trusted(path):
    unsealed = unsealed_of(path)
    flip_bit(segment_path(path), 250)
    before = segment_path(path).read_bytes()
    with pytest.raises(CorruptionError, match="differently the second time"):
        settle.copy_forward(FILES, path, unsealed)
    assert segment_path(path).read_bytes() == before


@pytest.mark.usefixtures("compared")
def test_place_that_the_copied_bytes_do_not_lead_to_is_not_sealed(path):
    unsealed = unsealed_of(path)
    wrong = msgspec.structs.replace(unsealed, place=unsealed.place._replace(chain=7))
    with pytest.raises(CorruptionError, match="differently the second time"):
        settle.copy_forward(FILES, path, wrong)


@pytest.mark.usefixtures("compared")
def test_other_events_that_are_valid_in_themselves_are_not_trusted(path):
    """The chain of what is copied must end where recovery saw it end."""
    unsealed = unsealed_of(path)
    content = segment_path(path).read_bytes()
    last = lines_of(segment_path(path))[-1] + b"\n"
    before = codec.stored_crc(lines_of(segment_path(path))[-2])
    other = codec.with_crc(last[: -codec.CRC_SUFFIX - 1].replace(b'"data":3', b'"data":4'), before)
    segment_path(path).write_bytes(content.replace(last, other))
    assert len(other) == len(last) and state_of(path) == [1, 2, 4]
    with pytest.raises(CorruptionError, match="differently the second time"):
        settle.copy_forward(FILES, path, unsealed)
    assert_untouched(path, content.replace(last, other))


# copy_forward: errors of the system


class Unwilling(RealFiles):
    """A disk on which one call fails."""

    def __init__(self, call):
        super().__init__()
        setattr(self, call, self.fail)

    def fail(self, *_arguments, **_named):
        raise OSError(errno.EIO, "no")


@pytest.mark.parametrize("call", ["replace", "sync", "create", "read_at", "fstat", "open"])
def test_copy_that_fails_leaves_the_old_file_and_no_other(path, call):
    unsealed = unsealed_of(path)
    before = segment_path(path).read_bytes()
    descriptors = open_descriptors(path)
    with pytest.raises(OSError, match="no"):
        settle.copy_forward(Unwilling(call), path, unsealed)
    assert_untouched(path, before)
    assert open_descriptors(path) == descriptors
    assert settle.copy_forward(FILES, path, unsealed) == []
