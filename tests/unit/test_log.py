"""The writing end of the log: after every method the log is whole or the object is failed."""

import errno

import pytest

from durasess import FencedError, SessionFailedError, StorageError
from durasess.engine import codec, paths
from durasess.engine.log import Log
from durasess.engine.records import Place
from tests.support.lines import TAB
from tests.support.sessions import SIM_PATH, SIM_SEGMENT
from tests.support.sim_files import SimFiles

TS = "2026-01-01T00:00:00.000000Z"
STEP = 512
STEPS = pytest.mark.parametrize("step", [STEP, 0], ids=["filler", "no filler"])


@pytest.fixture
def files():
    return SimFiles.from_tree({SIM_PATH: None})


def log_on(files, *, place=Place(0, 0), next_number=1, step=STEP):  # noqa: B008
    return Log(
        files,
        SIM_PATH,
        "s1",
        place=place,
        next_number=next_number,
        epoch=1,
        schema_version=1,
        preallocate=step,
        pid=41,
        boot_id="",
    )


def started(files, *, step=STEP):
    log = log_on(files, step=step)
    log.start_segment(TS)
    return log


def content_of(files):
    return files.tree()[SIM_SEGMENT]


def lines_in(files):
    """What is in the file without the filler, which nothing but tabs may follow."""
    return content_of(files).rstrip(TAB)


def up_to(end, step=STEP):
    """The least multiple of the step that holds so many bytes."""
    return -(-end // step) * step


def batch(log, *data):
    """The bytes of a batch and the place behind it."""
    return batch_after(log.place, *data)


def batch_after(place, *data):
    seq, chain = place
    lines = []
    for index, value in enumerate(data, 1):
        seq += 1
        b = None if len(data) == 1 else (len(data) if index == len(data) else 0)
        ids = {"run_id": None, "call_id": None, "event_id": None}
        body = codec.body(type="t", data=codec.encode(value), **ids)
        line, chain = codec.event_line(seq, TS, b, body, chain)
        lines.append(line)
    return b"".join(lines), Place(seq, chain), len(data)


def append(log, *data):
    log.write(*batch(log, *data))
    log.sync()


def kinds(files, since=0):
    return [op.kind for op in files.log[since:] if op.kind != "mark"]


def writes(files, since=0):
    """Offset and bytes of each write."""
    return [(op.offset, op.data) for op in files.log[since:] if op.kind == "write"]


def batch_that_ends_at(log, end):
    """A batch that makes the lines in the file so long."""
    size = len(batch(log, "")[0])
    made = batch(log, "x" * (end - log.offset - size))
    assert log.offset + len(made[0]) == end
    return made


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
    assert log.offset == len(lines_in(files))


def test_segment_begins_with_its_header_and_filler_up_to_the_step(files):
    log = started(files)
    header, filler = content_of(files)[: log.offset], content_of(files)[log.offset :]
    assert header.endswith(b'"}\n') and header.count(b"\n") == 1
    assert filler == TAB * (STEP - log.offset)
    assert writes(files) == [(0, header + filler)], "the file is long before it gets its name"


def test_segment_without_a_step_begins_with_its_header_alone(files):
    log = started(files, step=0)
    assert content_of(files).endswith(b'"}\n') and len(content_of(files)) == log.offset


def test_header_longer_than_a_step_takes_as_many_as_it_needs(files):
    log = log_on(files)
    log._boot_id = "x" * STEP
    log.start_segment(TS)
    assert len(content_of(files)) == up_to(log.offset) == 2 * STEP


def test_header_is_written_whole_even_in_parts(files):
    files.short_write(40, then=None)
    log = started(files)
    assert len(content_of(files)) == log.offset
    append(log, 1)
    assert len(content_of(files)) == up_to(log.offset)


def test_segment_needs_room_for_its_header_only(files):
    log = log_on(files)
    files.quota = STEP - 1
    log.start_segment(TS)
    assert len(content_of(files)) == STEP - 1
    append(log, 1)


def test_segment_without_room_for_its_header_may_be_tried_again(files):
    log = log_on(files)
    files.quota = 40
    with pytest.raises(StorageError, match="could not be made"):
        log.start_segment(TS)
    assert files.tree() == {"/store": None, SIM_PATH: None}
    files.quota = None
    log.start_segment(TS)
    append(log, 1)


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
    assert files.descriptors == {}
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
    assert log.failure.unknown is None, "no event was in it"


# write


def test_batch_is_one_write(files):
    log = started(files)
    since = len(files.log)
    append(log, 1, 2, 3)
    assert kinds(files, since) == ["write", "sync"]


def test_batch_overwrites_filler_in_place_and_the_file_keeps_its_size(files):
    log = started(files)
    since, offset = len(files.log), log.offset
    lines, after, count = batch(log, 1)
    log.write(lines, after, count)
    log.sync()
    assert writes(files, since) == [(offset, lines)]
    assert len(content_of(files)) == STEP
    assert lines_in(files)[offset:] == lines and log.offset == offset + len(lines)


def test_batch_that_does_not_fit_makes_the_file_longer_by_a_step_in_the_same_write(files):
    log = started(files)
    since, offset = len(files.log), log.offset
    lines, after, count = batch(log, "x" * STEP)
    log.write(lines, after, count)
    log.sync()
    size = up_to(offset + len(lines))
    assert writes(files, since) == [(offset, lines.ljust(size - offset, TAB))]
    assert kinds(files, since) == ["write", "sync"]
    assert size > STEP and len(content_of(files)) == size


def test_batch_that_fills_the_step_exactly_leaves_no_filler_and_the_next_one_grows(files):
    log = started(files)
    log.write(*batch_that_ends_at(log, STEP))
    log.sync()
    assert lines_in(files) == content_of(files) and len(content_of(files)) == STEP
    append(log, 2)
    assert len(content_of(files)) == 2 * STEP
    append(log, 3)
    assert len(content_of(files)) == 2 * STEP


@pytest.mark.parametrize("over", [-1, 1])
def test_batch_one_byte_beside_the_step_leaves_a_step_that_is_whole(files, over):
    log = started(files)
    log.write(*batch_that_ends_at(log, STEP + over))
    log.sync()
    assert len(content_of(files)) == up_to(STEP + over)
    assert len(lines_in(files)) == STEP + over


@STEPS
def test_file_is_a_multiple_of_the_step_and_holds_every_batch_in_order(files, step):
    log = started(files, step=step)
    written = content_of(files)[: log.offset]
    for size in (0, 1, 300, 0, 1000, 5):
        lines, after, count = batch(log, *["x" * size] * 2)
        log.write(lines, after, count)
        log.sync()
        written += lines
        assert lines_in(files) == written
        assert len(content_of(files)) == (up_to(len(written)) if step else len(written))


def test_second_write_waits_for_the_sync_of_the_first(files):
    log = started(files)
    since = len(files.log)
    lines, after, count = batch(log, 1)
    log.write(lines, after, count)
    log.write(*batch_after(after, 2))
    assert kinds(files, since) == ["write", "sync", "write"]


def test_place_does_not_move_before_the_sync(files):
    log = started(files)
    lines, after, count = batch(log, 1)
    log.write(lines, after, count)
    assert log.place.seq == 0
    log.sync()
    assert log.place == after


# write, the size


@STEPS
@pytest.mark.parametrize("change", [1, -1, 100, -100])
def test_file_of_another_size_fences_the_log(files, step, change):
    log = started(files, step=step)
    append(log, 1)
    size = len(content_of(files)) + change
    fd = files.open(SIM_SEGMENT, write=True)
    files.truncate(fd, size)
    with pytest.raises(FencedError, match=f"its size is {size} bytes"):
        append(log, 2)
    assert len(content_of(files)) == size and log.place.seq == 1
    with pytest.raises(FencedError):
        append(log, 2)


@STEPS
def test_seal_is_not_written_into_a_file_of_another_size(files, step):
    log = started(files, step=step)
    append(log, 1)
    content = content_of(files)
    fd = files.open(SIM_SEGMENT, write=True)
    files.write_at(fd, b"x", len(content))
    with pytest.raises(FencedError, match="size"):
        log.seal()
    assert content_of(files) == content + b"x"
    assert log.floor() == (0, Place(0, 0))


def test_size_that_cannot_be_looked_up_fails_the_log_before_anything_is_written(files):
    log = started(files)
    since = len(files.log)
    files.fail("size")
    with pytest.raises(SessionFailedError, match="its size could not be looked up") as caught:
        append(log, 1)
    assert kinds(files, since) == [] and caught.value.unknown is None
    with pytest.raises(SessionFailedError):
        append(log, 1)


def test_commit_does_not_ask_for_the_times_of_the_file(files):
    """A look at them makes the sync dearer (multigrain timestamps)."""
    log = started(files)
    for kind in ("stat", "fstat"):
        files.fail(kind, sticky=True)
    for size in (1, STEP, 1):
        append(log, "x" * size)
    assert log.place.seq == 3


# write, not all of it


@STEPS
@pytest.mark.parametrize("taken", [0, 1, 40, -1])
@pytest.mark.parametrize("size", [1, STEP])
def test_short_write_is_cut_back_and_the_log_lives(files, taken, size, step):
    """Whether it overwrites filler or makes the file longer."""
    log = started(files, step=step)
    offset, before = log.offset, lines_in(files)
    lines, after, count = batch(log, "x" * size)
    files.short_write(taken % len(lines), then=None)
    with pytest.raises(StorageError) as caught:
        log.write(lines, after, count)
    assert caught.value.errno == errno.ENOSPC
    assert content_of(files) == before and log.offset == offset
    assert (log.place.seq, log.failure) == (0, None)
    log.write(lines, after, count)
    log.sync()
    assert log.place == after
    assert lines_in(files) == before + lines
    assert len(content_of(files)) == (up_to(log.offset) if step else log.offset)


def test_write_that_raises_is_cut_back_like_a_short_one(files):
    log = started(files)
    before = lines_in(files)
    files.fail("write_at", code=errno.ENOSPC)
    with pytest.raises(StorageError) as caught:
        append(log, 1)
    assert caught.value.errno == errno.ENOSPC
    assert content_of(files) == before
    append(log, 1)
    assert len(content_of(files)) == STEP


def test_file_that_was_cut_back_grows_again_with_the_next_batch(files):
    log = started(files)
    append(log, 1)
    files.short_write(5, then=None)
    with pytest.raises(StorageError):
        append(log, 2)
    assert content_of(files) == lines_in(files) and len(content_of(files)) == log.offset
    since, offset = len(files.log), log.offset
    append(log, 2)
    ((at, padded),) = writes(files, since)
    assert (at, len(padded)) == (offset, STEP - offset)
    append(log, 3)
    assert len(content_of(files)) == STEP and log.place.seq == 3


@pytest.mark.parametrize("filler", [0, 1, 100, 511])
def test_batch_whose_lines_were_taken_is_kept_when_the_filler_was_not(files, filler):
    """A disk that is full loses nothing for the sake of the filler."""
    log = started(files)
    before = lines_in(files)
    lines, after, count = batch_that_ends_at(log, 2 * STEP + 1)
    assert up_to(log.offset + len(lines)) == 3 * STEP
    since = len(files.log)
    files.short_write(len(lines) + filler, then=None)
    log.write(lines, after, count)
    log.sync()
    assert kinds(files, since) == ["write", "sync"]
    assert log.place == after
    assert content_of(files) == before + lines + TAB * filler
    append(log, 2)
    append(log, "x" * STEP)
    assert len(content_of(files)) == up_to(log.offset)
    assert log.place.seq == 3


def test_batch_inside_a_file_with_less_filler_than_a_step_does_not_make_it_longer(files):
    log = started(files)
    lines, after, count = batch_that_ends_at(log, STEP + 1)
    files.short_write(len(lines) + 200, then=None)
    log.write(lines, after, count)
    log.sync()
    append(log, 2)
    assert len(content_of(files)) == STEP + 1 + 200


def test_full_disk_takes_every_batch_that_fits_into_the_filler(files):
    log = started(files)
    files.quota = files.used()
    append(log, 1)
    with pytest.raises(StorageError):
        append(log, "x" * STEP)
    assert log.place.seq == 1
    files.quota = None
    append(log, 2)


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
    files.fail("leads_to")
    with pytest.raises(SessionFailedError, match="its name could not be looked up") as caught:
        log.sync()
    assert (caught.value.unknown, log.place.seq) == ((1, 1), 0)


def test_name_is_looked_up_behind_the_sync(files, monkeypatch):
    """What was synced before the file lost its name is in the log, what came later is not."""
    log = started(files)
    seen = []

    def leads_to(path, fd):
        seen.append((path, fd, kinds(files)[-1]))
        return False

    monkeypatch.setattr(files, "leads_to", leads_to)
    log.write(*batch(log, 1))
    assert seen == []
    with pytest.raises(FencedError, match="another file"):
        log.sync()
    ((path, fd, last),) = seen
    assert (path, last) == (SIM_SEGMENT, "sync") and fd in files.descriptors
    assert log.place.seq == 0


# seal


@STEPS
def test_sealed_segment_ends_in_its_hash_and_the_next_one_follows(files, step):
    log = started(files, step=step)
    append(log, 1)
    append(log, 2, 3)
    log.seal()
    assert not log.is_active
    content = content_of(files)
    seal = codec.control(content.split(b"\n")[-2])
    body = content[: content.rindex(b'{"seal"')]
    assert (seal["last_seq"], seal["events"], seal["blake2b"]) == (3, 3, codec.digest(body))
    assert content.endswith(b"}\n") and TAB not in content
    log.start_segment(TS)
    assert log.number == 2


def test_filler_is_cut_off_between_the_seal_and_its_sync(files):
    """The sync makes both durable; a seal with filler behind it is a seal too."""
    log = started(files)
    append(log, 1)
    since, offset = len(files.log), log.offset
    log.seal()
    assert kinds(files, since) == ["write", "truncate", "sync"]
    ((at, line),) = writes(files, since)
    assert at == offset and len(content_of(files)) == offset + len(line)


def test_seal_that_makes_the_file_longer_brings_no_filler(files):
    log = started(files)
    log.write(*batch_that_ends_at(log, STEP))
    log.sync()
    since = len(files.log)
    log.seal()
    assert kinds(files, since) == ["write", "sync"]
    assert content_of(files).endswith(b"}\n")


def test_seal_without_filler_behind_it_cuts_nothing(files):
    log = started(files, step=0)
    append(log, 1)
    since = len(files.log)
    log.seal()
    assert kinds(files, since) == ["write", "sync"]


def test_seal_that_fills_the_step_exactly_cuts_nothing(files):
    log = started(files)
    seal = len(b'{"seal":1,"last_seq":1,"events":1,"blake2b":"","crc":""}\n') + 32 + 8
    log.write(*batch_that_ends_at(log, 2 * STEP - seal))
    log.sync()
    since = len(files.log)
    log.seal()
    assert kinds(files, since) == ["write", "sync"]
    assert len(content_of(files)) == 2 * STEP and content_of(files).endswith(b"}\n")


def test_filler_that_cannot_be_cut_off_fails_the_log(files):
    """A sealed segment that is followed by another must have none."""
    log = started(files)
    append(log, 1)
    files.fail("truncate")
    with pytest.raises(SessionFailedError, match="behind the seal stays") as caught:
        log.seal()
    assert caught.value.unknown is None
    assert (log.floor(), log.place.seq) == ((0, Place(0, 0)), 1)
    since = len(files.log)
    for call in (log.seal, lambda: append(log, 2)):
        with pytest.raises(SessionFailedError):
            call()
    log.close()
    assert kinds(files, since) == [] and files.descriptors == {}


def test_interrupted_cut_of_the_filler_fails_the_log_and_the_interruption_goes_on(
    files, monkeypatch
):
    log = started(files)
    append(log, 1)
    monkeypatch.setattr(files, "truncate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        log.seal()
    assert isinstance(log.failure, SessionFailedError)
    assert log.floor() == (0, Place(0, 0))


@STEPS
def test_seal_that_does_not_fit_is_cut_back_and_may_be_tried_again(files, step):
    log = started(files, step=step)
    append(log, 1)
    before = lines_in(files)
    files.short_write(5, then=None)
    with pytest.raises(StorageError):
        log.seal()
    assert content_of(files) == before
    log.seal()
    assert not log.is_active
    assert content_of(files).startswith(before + b'{"seal":1,')
    assert content_of(files).endswith(b"}\n")


def test_events_may_follow_a_seal_that_did_not_fit(files):
    log = started(files)
    append(log, 1)
    files.short_write(5, then=None)
    with pytest.raises(StorageError):
        log.seal()
    append(log, 2)
    assert log.place.seq == 2 and len(content_of(files)) == up_to(log.offset)
    log.seal()
    seal = codec.control(content_of(files).split(b"\n")[-2])
    assert (seal["last_seq"], seal["events"]) == (2, 2)


def test_seal_counts_what_was_written_and_not_yet_synced(files):
    log = started(files)
    log.write(*batch(log, 1, 2))
    log.seal()
    seal = codec.control(content_of(files).split(b"\n")[-2])
    assert (seal["last_seq"], seal["events"]) == (2, 2)
    assert log.floor()[1].seq == 2


def test_seal_whose_sync_fails_leaves_no_event_unknown(files):
    log = started(files)
    append(log, 1)
    files.fail("sync")
    with pytest.raises(SessionFailedError) as caught:
        log.seal()
    assert caught.value.unknown is None


def test_seal_in_a_file_that_lost_its_name_is_not_taken_for_synced(files):
    log = started(files)
    append(log, 1)
    files.replace(SIM_SEGMENT, "/store/s1/away")
    with pytest.raises(FencedError):
        log.seal()
    assert log.floor() == (0, Place(0, 0))


def test_sealed_segment_stays_open_for_no_want_of_memory(files, monkeypatch):
    log = started(files)
    append(log, 1)
    original, failures = files.close, [MemoryError()]

    def close(fd):
        if failures:
            raise failures.pop()
        original(fd)

    monkeypatch.setattr(files, "close", close)
    log.seal()
    assert not failures and not files.descriptors
    log.start_segment(TS)
    append(log, 2)
    assert log.failure is None


def test_next_segment_has_filler_of_its_own(files):
    log = started(files)
    append(log, "x" * STEP)
    log.seal()
    log.start_segment(TS)
    append(log, 2)
    second = files.tree()[SIM_SEGMENT.replace("0001", "0002")]
    assert len(second) == STEP and len(second.rstrip(TAB)) == log.offset


# close


def test_close_gives_the_descriptor_back_once(files):
    log = started(files)
    log.close()
    log.close()
    assert files.descriptors == {}


def test_seal_that_is_stopped_by_anything_else_ends_the_log(files, monkeypatch):
    log = started(files)
    append(log, 1)
    monkeypatch.setattr(log, "_cut_filler", no_memory)
    with pytest.raises(SessionFailedError, match="a seal was interrupted"):
        log.seal()
    with pytest.raises(SessionFailedError):
        append(log, 2)
    assert log.floor() == (0, Place(0, 0))


def no_memory(size):
    raise MemoryError
