"""Opening: everything that can refuse comes before everything that writes."""

import errno

import pytest

from durasess import (
    CorruptionError,
    FormatVersionError,
    Receipt,
    SessionLockedError,
    SessionNotFoundError,
    StorageError,
)
from durasess.engine import patience
from tests.support.lines import write_next
from tests.support.sessions import (
    SIM_PATH,
    flip_bit,
    make_segments,
    make_session,
    make_unclean,
    open_descriptors,
    open_inline,
    open_sim,
    segment_path,
    sim_disk,
    state_of,
    tree_of,
    unacknowledged,
    unchanged,
)

# open_for_reading


def test_reading_changes_nothing_and_takes_no_lock(tmp_path):
    path = make_unclean(tmp_path / "s1")
    writer = open_inline(path)
    with unchanged(path):
        assert state_of(path) == [1, 2, 3]
    writer.close()


def test_reader_looks_again_before_it_believes_in_damage(tmp_path, monkeypatch):
    path = make_segments(tmp_path / "s1", 2)
    file = segment_path(path, 1)
    whole = file.read_bytes()
    file.unlink()
    monkeypatch.setattr(patience.time, "sleep", lambda _seconds: file.write_bytes(whole))
    reader = open_inline(path, mode="read")
    assert (reader.state, reader.damage) == ([1, 2, 3, 4], ())


def test_reader_believes_what_it_finds_twice(tmp_path, monkeypatch):
    path = make_segments(tmp_path / "s1", 3)
    segment_path(path, 2).unlink()
    pauses = []
    monkeypatch.setattr(patience.time, "sleep", pauses.append)
    assert open_inline(path, mode="read").damage
    assert len(pauses) == 1


def test_reader_of_a_missing_session_makes_none(tmp_path):
    with pytest.raises(SessionNotFoundError):
        state_of(tmp_path / "s1")
    assert tree_of(tmp_path) == {}


@pytest.mark.parametrize("kind", ["open", "read_at", "fstat"])
def test_error_of_the_system_while_reading_the_log_is_a_storage_error(kind):
    files = sim_disk()
    engine = open_sim(files)
    engine.append("t", 1)
    engine.abandon()
    files.fail(kind, where="events_0001.jsonl", sticky=True, code=errno.EIO)
    with pytest.raises(StorageError) as caught:
        open_sim(files, mode="read")
    assert caught.value.errno == errno.EIO


# open_for_writing


def test_missing_session_is_made(tmp_path):
    with open_inline(tmp_path / "s1") as engine:
        assert engine.recovery.created
    with open_inline(tmp_path / "s1") as engine:
        assert not engine.recovery.created


def test_missing_session_is_not_made_when_that_is_not_wanted(tmp_path):
    with pytest.raises(SessionNotFoundError):
        open_inline(tmp_path / "s1", create=False)
    assert tree_of(tmp_path) == {}


def test_receipt_keeps_a_missing_session_from_being_made(tmp_path):
    with pytest.raises(SessionNotFoundError):
        open_inline(tmp_path / "s1", at_least=Receipt("s1", 1, "00000000"))
    assert tree_of(tmp_path) == {}


def damaged(path):
    make_segments(path, 3)
    flip_bit(segment_path(path, 2), 300)


def newer(path):
    make_session(path, schema_version=2)


def foreign(path):
    path.mkdir()
    (path / "notes.txt").write_text("mine")


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (damaged, CorruptionError),
        (newer, FormatVersionError),
        (foreign, SessionNotFoundError),
    ],
)
def test_refused_open_changes_nothing_and_keeps_nothing_open(tmp_path, make, error):
    make(tmp_path / "s1")
    with unchanged(tmp_path), pytest.raises(error):
        open_inline(tmp_path / "s1")
    assert open_descriptors(tmp_path) == []


def test_unreached_receipt_changes_nothing(tmp_path):
    path = make_unclean(tmp_path / "s1")
    with unchanged(path), pytest.raises(CorruptionError):
        open_inline(path, at_least=Receipt("s1", 9, "00000000"))


def test_second_writer_is_refused_and_the_holder_named(tmp_path):
    import os

    with open_inline(tmp_path / "s1"):
        with pytest.raises(SessionLockedError) as caught:
            open_inline(tmp_path / "s1")
        assert caught.value.holder.pid == os.getpid()
    open_inline(tmp_path / "s1").close()


def test_lock_files_that_were_removed_are_made_again(tmp_path):
    path = make_session(tmp_path / "s1")
    for name in ("owner", "lock"):
        (tmp_path / "s1" / name).unlink()
    with open_inline(path) as engine:
        assert engine.state == [1, 2, 3]


def test_lock_files_are_not_made_in_a_session_that_is_refused(tmp_path):
    damaged(tmp_path / "s1")
    (tmp_path / "s1" / "owner").unlink()
    with unchanged(tmp_path), pytest.raises(CorruptionError):
        open_inline(tmp_path / "s1")


def test_unclean_end_is_settled_and_reported(tmp_path):
    path = make_unclean(tmp_path / "s1")
    write_next(segment_path(path), unacknowledged(path, 4)[:30])
    with open_inline(path) as engine:
        assert not engine.recovery.clean
        assert engine.recovery.torn.size == 30
        assert len(engine.recovery.quarantined) == 1
        assert engine.append("t", 4).seq == 4
    assert segment_path(path, 2).exists()


@pytest.mark.parametrize(
    "kind", ["stat", "open", "create", "read_at", "write_at", "sync", "replace", "sync_dir"]
)
@pytest.mark.parametrize("nth", range(1, 8))
def test_failed_call_while_opening_costs_nothing_and_the_next_open_works(kind, nth):
    files = sim_disk()
    engine = open_sim(files)
    engine.append("t", 1)
    engine.append("t", 2)
    engine.abandon()
    files.fail(kind, nth=nth, code=errno.EIO)
    try:
        open_sim(files).close()
    except StorageError as error:
        assert error.errno == errno.EIO
    except Exception as error:
        assert type(error).__module__ == "durasess.errors", repr(error)
    files.faults.clear()
    assert files.descriptors == {}
    with open_sim(files) as again:
        assert again.state == [1, 2]


def test_leftover_of_a_killed_creation_is_not_a_session(tmp_path):
    (tmp_path / ".s1.1-2.new").mkdir()
    with open_inline(tmp_path / "s1") as engine:
        assert engine.recovery.created


def test_path_is_kept_as_it_is_on_a_disk_of_the_caller():
    files = sim_disk()
    with open_sim(files) as engine:
        assert engine.path == SIM_PATH
