"""The writing end of the log: after every method the log is whole or the object is failed."""

import errno

import pytest

from durasess import FencedError, SessionFailedError, StorageError
from durasess.engine import codec, paths
from durasess.engine.log import Log
from durasess.engine.records import Place
from tests.support.sessions import SIM_PATH, SIM_SEGMENT
from tests.support.sim_files import SimFiles

TS = "2026-01-01T00:00:00.000000Z"


@pytest.fixture
def files():
    return SimFiles.from_tree({SIM_PATH: None})


def log_on(files, *, place=Place(0, 0), next_number=1):  # noqa: B008
    return Log(
        files,
        SIM_PATH,
        "s1",
        place=place,
        next_number=next_number,
        epoch=1,
        schema_version=1,
        pid=41,
        boot_id="",
    )


def started(files):
    log = log_on(files)
    log.start_segment(TS)
    return log


def batch(log, *data):
    """The bytes of a batch and the place behind it."""
    seq, chain = log.place
    lines = []
    for index, value in enumerate(data, 1):
        seq += 1
        b = None if len(data) == 1 else (len(data) if index == len(data) else 0)
        body = codec.body(type="t", data=value, run_id=None, call_id=None, event_id=None)
        line, chain = codec.event_line(seq, TS, b, body, chain)
        lines.append(line)
    return b"".join(lines), Place(seq, chain), len(data)


def append(log, *data):
    log.write(*batch(log, *data))
    log.sync()


def kinds(files, since=0):
    return [op.kind for op in files.log[since:] if op.kind != "mark"]


# is_active, epoch, number, wrote, floor


def test_new_log_has_no_segment(files):
    log = log_on(files)
    assert (log.is_active, log.number, log.wrote, log.epoch) == (False, 0, False, 1)


def test_floor_is_the_end_of_the_newest_segment_whose_seal_was_synced(files):
    log = started(files)
    append(log, 1)
    assert log.floor() == (0, Place(0, 0))
    log.seal()
    assert log.floor() == (1, log.place)


def test_floor_stays_when_the_sync_of_a_seal_fails(files):
    log = started(files)
    append(log, 1)
    files.fail_sync()
    with pytest.raises(SessionFailedError):
        log.seal()
    assert log.floor() == (0, Place(0, 0))


# start_segment


def test_segment_is_synced_under_a_temporary_name_then_renamed_then_the_directory(files):
    log = started(files)
    assert kinds(files) == ["link", "write", "sync", "rename", "sync_dir"]
    assert (log.is_active, log.number, log.wrote) == (True, 1, True)
    assert log.offset == len(files.tree()[SIM_SEGMENT])


def test_leftover_of_a_crash_gives_way(files):
    files.close(files.create(SIM_SEGMENT + paths.TMP))
    assert started(files).is_active


def test_existing_segment_means_another_writer_and_is_left_alone(files):
    started(files)
    content = files.tree()[SIM_SEGMENT]
    with pytest.raises(FencedError, match="another writer"):
        started(files)
    assert files.tree() == {"/store": None, SIM_PATH: None, SIM_SEGMENT: content}


@pytest.mark.parametrize("kind", ["create", "write_at", "sync"])
def test_segment_that_cannot_be_made_may_be_tried_again(files, kind):
    log = log_on(files)
    files.fail(kind, code=errno.ENOSPC)
    with pytest.raises(StorageError, match="could not be made"):
        log.start_segment(TS)
    assert SIM_SEGMENT not in files.tree()
    assert SIM_SEGMENT + paths.TMP not in files.tree()
    log.start_segment(TS)
    append(log, 1)


@pytest.mark.parametrize("kind", ["replace", "sync_dir"])
def test_segment_that_cannot_be_published_fails_the_log(files, kind):
    log = log_on(files)
    files.fail(kind)
    with pytest.raises(SessionFailedError, match="could not be published"):
        log.start_segment(TS)
    assert isinstance(log.failure, SessionFailedError)
    assert files.descriptors == {}


# write


def test_batch_is_one_write(files):
    log = started(files)
    since = len(files.log)
    append(log, 1, 2, 3)
    assert kinds(files, since) == ["write", "sync"]


def test_second_write_waits_for_the_sync_of_the_first(files):
    log = started(files)
    since = len(files.log)
    lines, after, count = batch(log, 1)
    log.write(lines, after, count)
    line, chain = codec.event_line(2, TS, None, b',"type":"t","data":2', after.chain)
    log.write(line, Place(2, chain), 1)
    assert kinds(files, since) == ["write", "sync", "write"]


def test_place_does_not_move_before_the_sync(files):
    log = started(files)
    lines, after, count = batch(log, 1)
    log.write(lines, after, count)
    assert log.place.seq == 0
    log.sync()
    assert log.place == after


def test_file_that_grew_fences_the_log(files):
    log = started(files)
    fd = files.open(SIM_SEGMENT, write=True)
    files.write_at(fd, b"x", log.offset)
    with pytest.raises(FencedError, match="size"):
        append(log, 1)
    with pytest.raises(FencedError):
        append(log, 1)


@pytest.mark.parametrize("taken", [0, 1, 40])
def test_short_write_is_cut_back_and_the_log_lives(files, taken):
    log = started(files)
    offset = log.offset
    files.short_write(taken, then=None)
    with pytest.raises(StorageError) as caught:
        append(log, 1)
    assert caught.value.errno == errno.ENOSPC
    assert len(files.tree()[SIM_SEGMENT]) == offset
    append(log, 1)
    assert log.place.seq == 1


def test_cut_is_synced_before_anything_else_is_written(files):
    log = started(files)
    since = len(files.log)
    files.short_write(5, then=None)
    with pytest.raises(StorageError):
        append(log, 1)
    assert kinds(files, since) == ["write", "truncate", "sync"]


@pytest.mark.parametrize("kind", ["truncate", "sync"])
def test_write_that_cannot_be_cut_back_fails_the_log(files, kind):
    log = started(files)
    files.short_write(5, then=None)
    files.fail(kind)
    with pytest.raises(SessionFailedError, match="could not be cut back") as caught:
        append(log, 1, 2)
    assert caught.value.unknown == (1, 2)


def test_interrupted_write_fails_the_log_and_the_interruption_goes_on(files, monkeypatch):
    log = started(files)
    monkeypatch.setattr(files, "write_at", interrupted)
    with pytest.raises(KeyboardInterrupt):
        append(log, 1)
    assert log.failure.unknown == (1, 1)


def interrupted(*_arguments):
    raise KeyboardInterrupt


# sync


def test_sync_without_a_write_does_nothing(files):
    log = started(files)
    since = len(files.log)
    log.sync()
    assert kinds(files, since) == []


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
def test_failed_sync_fails_the_log_and_is_never_tried_again(files, code):
    log = started(files)
    files.fail_sync(code=code)
    with pytest.raises(SessionFailedError) as caught:
        append(log, 1, 2)
    assert caught.value.unknown == (1, 2)
    since = len(files.log)
    with pytest.raises(SessionFailedError):
        append(log, 3)
    log.close()
    assert kinds(files, since) == []


# sync, the name


def test_name_that_leads_elsewhere_fences_the_log(files):
    log = started(files)
    append(log, 1)
    log.write(*batch(log, 2))
    files.close(files.create("/store/s1/other"))
    files.replace("/store/s1/other", SIM_SEGMENT)
    with pytest.raises(FencedError, match="another file") as caught:
        log.sync()
    assert (caught.value.seq, log.place.seq) == (1, 1)


def test_name_that_is_gone_fences_the_log(files):
    log = started(files)
    log.write(*batch(log, 1))
    files.unlink(SIM_SEGMENT)
    with pytest.raises(FencedError):
        log.sync()


def test_name_that_cannot_be_looked_up_fails_the_log(files):
    log = started(files)
    log.write(*batch(log, 1))
    files.fail("stat")
    with pytest.raises(SessionFailedError):
        log.sync()


# seal


def test_sealed_segment_ends_in_its_hash_and_the_next_one_follows(files):
    log = started(files)
    append(log, 1)
    log.seal()
    assert not log.is_active
    content = files.tree()[SIM_SEGMENT]
    seal = codec.control(content.split(b"\n")[-2])
    body = content[: content.rindex(b'{"seal"')]
    assert (seal["last_seq"], seal["events"], seal["blake2b"]) == (1, 1, codec.digest(body))
    log.start_segment(TS)
    assert log.number == 2


def test_seal_that_does_not_fit_is_cut_back_and_may_be_tried_again(files):
    log = started(files)
    append(log, 1)
    files.short_write(5, then=None)
    with pytest.raises(StorageError):
        log.seal()
    log.seal()
    assert not log.is_active


# close


def test_close_gives_the_descriptor_back_once(files):
    log = started(files)
    log.close()
    log.close()
    assert files.descriptors == {}
