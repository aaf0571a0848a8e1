"""A log that goes on behind the lines of others: what it reads, and where the next line goes."""

import errno

import pytest

from durasess.engine import codec, lock, segment
from durasess.engine.records import Place
from durasess.engine.scan import Scan
from durasess.engine.shared_log import SharedLog
from durasess.engine.types import LineError
from durasess.errors import FencedError
from tests.support.lines import (
    DIRECTORY,
    SESSION,
    START,
    TAB,
    TS,
    SegmentBytes,
    batch,
    filled,
    line,
    place_after,
    segment_path,
)
from tests.support.sim_files import SimFiles


def log_on(disk, place=START, next_number=1, epoch=1):
    return SharedLog(
        disk,
        DIRECTORY,
        SESSION,
        place=place,
        next_number=next_number,
        epoch=epoch,
        schema_version=1,
        preallocate=1024,
        pid=41,
        boot_id="",
    )


def disk_with(*segments, fill=True):
    """A session directory with these segments; the newest has filler."""
    tree = {DIRECTORY: None}
    for made in segments:
        is_open = fill and made is segments[-1]
        tree[segment_path(made.number)] = filled(made.content) if is_open else made.content
    return SimFiles.from_tree(tree)


def write(disk, number, content):
    """Another writer's file is this now."""
    path = segment_path(number)
    fd = disk.open(path, write=True) if path in disk.tree() else disk.create(path)
    disk.truncate(fd, 0)
    disk.write_at(fd, content, 0)
    disk.close(fd)


def scan_of(disk, number=1):
    source = segment.open_source(disk, DIRECTORY, number)
    found = Scan(disk, source, session_id=SESSION, is_last=True)
    list(found.batches())
    segment.close_source(disk, source)
    return found


def seqs(log, through=None):
    return [[one.seq for one in found] for _, found in log.new_batches(through)]


def joined(made, epoch=1):
    """A log that goes on in this unsealed segment, and its disk."""
    disk = disk_with(made)
    log = log_on(disk)
    log.go_on(scan_of(disk, made.number), made.place, made.number + 1, epoch)
    return log, disk


def following(made):
    """The segment after a sealed one."""
    return SegmentBytes(made.number + 1, after=made.place, epoch=5, schema_version=3)


@pytest.fixture
def made():
    found = SegmentBytes()
    found.add()
    found.add(3)
    return found


# go_on


def test_log_goes_on_in_an_unsealed_segment_behind_its_last_batch(made):
    log, disk = joined(made, epoch=7)
    assert (log.place, log.offset, log.number, log.epoch) == (made.place, made.end, 1, 8)
    assert log.is_active and not log.wrote
    assert log.floor() == (0, START)
    lines = batch(made.place, 2)
    log.write(lines, place_after(lines, made.place), 2)
    log.sync()
    log.seal()
    made.add(2)
    made.seal()
    assert disk.tree()[segment_path()] == made.content, "the hash went on where the scan was"


def test_log_goes_on_in_a_new_segment_behind_a_sealed_one(made):
    made.seal()
    disk = disk_with(made)
    log = log_on(disk, epoch=9)
    log.go_on(None, made.place, 2, 3)
    assert not log.is_active
    assert (log.place, log.number, log.epoch) == (made.place, 1, 9), "the epoch never goes back"
    assert log.floor() == (1, made.place)
    log.start_segment(TS)
    assert disk.tree()[segment_path(2)].startswith(b'{"segment":2,')


def test_going_on_elsewhere_gives_the_old_descriptor_back(made):
    log, disk = joined(made)
    log.go_on(None, made.place, 2, 1)
    assert disk.descriptors == {}


def test_going_on_in_a_later_segment_gives_the_old_descriptor_back_and_moves_the_floor(made):
    log, disk = joined(made)
    more = SegmentBytes(2, after=made.place)
    more.add()
    write(disk, 2, more.content)
    log.go_on(scan_of(disk, 2), more.place, 3, 1)
    assert len(disk.descriptors) == 1
    assert log.floor() == (1, made.place)


@pytest.mark.parametrize("kind", ["open", "size"])
def test_going_on_that_the_system_refuses_leaves_the_log_as_it_was(made, kind):
    """Else the log would be ahead of the state that goes with it, and the next append go on from
    there."""
    log, disk = joined(made)
    more = SegmentBytes(2, after=made.place)
    more.add()
    write(disk, 2, more.content)
    found = scan_of(disk, 2)
    before = (log.place, log.number, log.offset, log.epoch, log.floor(), log.is_active)
    disk.fail(kind, where="events_0002.jsonl")
    with pytest.raises(OSError):
        log.go_on(found, more.place, 3, 4)
    after = (log.place, log.number, log.offset, log.epoch, log.floor(), log.is_active)
    assert after == before
    assert len(disk.descriptors) == 1


# ends_as_told


def test_size_that_others_gave_the_file_is_taken_for_ours_when_they_told_of_it(made):
    log, disk = joined(made)
    write(disk, 1, made.content + TAB * 5000)
    lines = batch(made.place, 1)
    with pytest.raises(FencedError):
        log.write(lines, place_after(lines, made.place), 1)
    log, disk = joined(made)
    write(disk, 1, made.content + TAB * 5000)
    assert not log.ends_as_told(made.end), "bytes that nobody told of are a foreign writer's (R15)"
    assert log.ends_as_told(made.end + 5000)
    log.write(lines, place_after(lines, made.place), 1)
    log.sync()
    assert disk.tree()[segment_path()] == (made.content + lines).ljust(made.end + 5000, TAB)


def test_log_without_an_active_segment_has_any_size():
    assert log_on(SimFiles.from_tree({DIRECTORY: None})).ends_as_told(17)


# is_in_place


def test_segment_is_in_place_while_its_name_leads_to_it_and_our_last_line_stands(made):
    log, disk = joined(made)
    assert log.is_in_place()
    made.add()
    write(disk, 1, filled(made.content))
    assert log.is_in_place(), "what others wrote behind it changes nothing"
    write(disk, 1, made.content[: log.offset - 1] + b" " + made.content[log.offset :])
    assert not log.is_in_place()


def test_segment_that_is_shorter_than_we_know_it_is_not_in_place(made):
    log, disk = joined(made)
    write(disk, 1, made.content[:-1])
    assert not log.is_in_place()


@pytest.mark.parametrize("gone", [True, False])
def test_segment_without_its_name_is_not_in_place(made, gone):
    log, disk = joined(made)
    disk.unlink(segment_path())
    if not gone:
        write(disk, 1, filled(made.content))
    assert not log.is_in_place()


def test_segment_without_events_is_in_place_while_it_has_its_header():
    made = SegmentBytes()
    log, disk = joined(made)
    assert log.is_in_place()
    write(disk, 1, made.content[:-1])
    assert not log.is_in_place()


# new_batches


def test_batches_of_others_are_read_from_where_this_log_ends(made):
    log, disk = joined(made)
    assert seqs(log) == []
    made.add(2)
    made.add()
    write(disk, 1, filled(made.content))
    assert seqs(log) == [[5, 6], [7]]
    assert seqs(log) == []
    assert (log.place, log.offset) == (made.place, made.end)


def test_each_batch_is_taken_before_it_is_given(made):
    log, disk = joined(made)
    made.add()
    made.add()
    write(disk, 1, filled(made.content))
    assert [log.place.seq for _ in log.new_batches()] == [5, 6]


def test_reading_on_goes_through_sealed_segments_into_the_newest(made):
    log, disk = joined(made)
    made.add()
    made.seal()
    write(disk, 1, made.content)
    second = following(made)
    second.add(2)
    second.seal()
    write(disk, 2, second.content)
    third = following(second)
    third.add()
    write(disk, 3, filled(third.content))
    found = [(version, [one.seq for one in batch]) for version, batch in log.new_batches()]
    assert found == [(1, [5]), (3, []), (3, [6, 7]), (3, []), (3, [8])], "a newer schema is told"
    assert (log.number, log.offset, log.epoch) == (3, third.end, 6)
    assert (log.place, log.schema_version) == (third.place, 3)
    assert log.floor() == (2, second.place)
    assert len(disk.descriptors) == 1


def test_seal_without_a_segment_behind_it_ends_the_active_segment(made):
    log, disk = joined(made)
    made.seal()
    write(disk, 1, made.content)
    assert seqs(log) == []
    assert not log.is_active
    assert log.floor() == (1, made.place)
    assert disk.descriptors == {}


def test_log_before_its_first_segment_reads_on_into_it(made):
    disk = SimFiles.from_tree({DIRECTORY: None})
    log = log_on(disk)
    assert seqs(log) == []
    write(disk, 1, filled(made.content))
    assert seqs(log) == [[1], [2, 3, 4]]


def test_what_is_not_acknowledged_yet_is_not_read(made):
    log, disk = joined(made)
    for _ in range(3):
        made.add(2)
    write(disk, 1, filled(made.content))
    assert seqs(log, through=8) == [[5, 6], [7, 8]]
    assert seqs(log, through=8) == []
    assert seqs(log) == [[9, 10]]


def test_write_that_is_under_way_is_not_read(made):
    """A reader without the lock may see any part of it."""
    before = made.content
    lines = made.add(2)
    for size in range(1, len(lines)):
        log, disk = joined_to(before)
        write(disk, 1, filled(before + lines[:size]))
        assert seqs(log) == []
        assert log.offset == len(before)


def joined_to(content):
    disk = SimFiles.from_tree({DIRECTORY: None, segment_path(): filled(content)})
    log = log_on(disk)
    found = scan_of(disk)
    log.go_on(found, found.place, 2, 1)
    return log, disk


def test_reading_ends_before_damage(made):
    log, disk = joined(made)
    whole = made.add()
    made.add()
    damaged = made.content.replace(whole, whole.replace(b"note", b"nope"))
    write(disk, 1, filled(damaged))
    assert seqs(log) == []
    assert log.place.seq == 4


def test_damage_before_a_seal_does_not_end_the_segment(made):
    log, disk = joined(made)
    whole = made.add()
    made.seal()
    write(disk, 1, made.content.replace(whole, whole.replace(b"note", b"nope")))
    assert seqs(log) == []
    assert log.is_active


# The next segment


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"session_id": "s2"}, "does not follow"),
        ({"first_seq": 6}, "does not follow"),
        ({"chain": "00000000"}, "does not follow"),
    ],
)
def test_segment_that_does_not_follow_is_not_entered(made, changes, reason):
    made.seal()
    disk = disk_with(made, SegmentBytes(2, after=made.place, **changes))
    log = log_on(disk)
    log.go_on(None, made.place, 2, 1)
    with pytest.raises(LineError, match=reason):
        seqs(log)
    assert not log.is_active
    assert disk.descriptors == {}
    assert (log.place, log.number) == (made.place, 1)


@pytest.mark.parametrize("content", [b"", b"garbage\n", b'{"segment":2}\n'])
def test_segment_without_a_header_is_not_entered(made, content):
    made.seal()
    disk = disk_with(made)
    write(disk, 2, content)
    log = log_on(disk)
    log.go_on(None, made.place, 2, 1)
    with pytest.raises(LineError):
        seqs(log)
    assert disk.descriptors == {}


def test_segment_that_the_system_cannot_read_is_an_error_and_not_the_end(made):
    made.seal()
    disk = disk_with(made, following(made))
    log = log_on(disk)
    log.go_on(None, made.place, 2, 1)
    disk.fail("open", where="events_0002.jsonl", code=errno.EMFILE)
    with pytest.raises(OSError):
        seqs(log)
    disk.fail("size", where="events_0002.jsonl")
    with pytest.raises(OSError):
        seqs(log)
    assert disk.descriptors == {}
    assert [one for one in seqs(log) if one] == []
    assert log.number == 2


def test_error_of_the_system_between_two_batches_costs_none(made):
    log, disk = joined(made)
    made.add()
    write(disk, 1, filled(made.content))
    disk.fail("read_at", where="events_0001.jsonl")
    with pytest.raises(OSError):
        seqs(log)
    assert log.place.seq == 4
    assert seqs(log) == [[5]]


def test_two_logs_on_one_disk_take_turns_and_agree(made):
    disk = disk_with(made)
    one, other = log_on(disk), log_on(disk, epoch=2)
    for log in (one, other):
        log.go_on(scan_of(disk), made.place, 2, 1)
    for turn in range(10):
        log = (one, other)[turn % 2]
        seqs(log)
        log.ends_as_told(0)
        lines = batch(log.place, 1 + turn % 3)
        log.write(lines, place_after(lines, log.place), 1 + turn % 3)
        log.sync()
    assert (len(seqs(one)), len(seqs(other))) == (1, 0)
    assert (one.place, one.offset) == (other.place, other.offset)
    one.seal()
    found = scan_of(disk)
    assert (found.damage, found.place, found.seal.events) == ([], one.place, 23)


# jump


def anchor_at(log, **changed):
    fields = {
        "session_id": SESSION,
        "segment": log.number,
        "seq": log.place.seq,
        "chain": codec.hexed(log.place.chain),
        "offset": log.offset,
        "size": log.size,
    }
    return lock.Anchor(**{**fields, **changed})


def two_of_which_one_is_behind(made):
    disk = disk_with(made)
    one, other = log_on(disk), log_on(disk, epoch=2)
    for log in (one, other):
        log.go_on(scan_of(disk), made.place, 2, 1)
    for count in (1, 3):
        lines = batch(one.place, count)
        one.write(lines, place_after(lines, one.place), count)
        one.sync()
    return one, other


def test_log_goes_where_the_anchor_proves_the_end_and_reads_the_rest_later(made):
    one, other = two_of_which_one_is_behind(made)
    assert other.jump(anchor_at(one)) and other.ends_as_told(one.size)
    assert (other.place, other.offset, other.is_read) == (one.place, one.offset, False)
    lines = batch(other.place, 2)
    other.write(lines, place_after(lines, other.place), 2)
    other.sync()
    read = [[record.seq for record in records] for _, records in other.passed_batches()]
    first = made.place.seq + 1
    assert read == [[first], [first + 1, first + 2, first + 3], [first + 4, first + 5]]
    assert other.is_read
    other.seal()
    assert scan_of(one._disk).damage == []


def test_log_reads_what_others_wrote_into_a_segment_that_it_made_and_did_not_use(made):
    """Its own batch did not fit, say."""
    one, disk = joined(made)
    one.seal()
    one.start_segment(TS)
    other = log_on(disk, epoch=2)
    other.go_on(scan_of(disk, 2), made.place, 3, 2)
    lines = batch(other.place, 2)
    other.write(lines, place_after(lines, other.place), 2)
    other.sync()
    assert one.jump(anchor_at(other))
    read = [[record.seq for record in records] for _, records in one.passed_batches()]
    assert read == [[made.place.seq + 1, made.place.seq + 2]]


@pytest.mark.parametrize(
    "changed",
    [{"segment": 2}, {"offset": 0}, {"chain": "00000000"}, {"offset": 10**6}, {"segment": 0}],
)
def test_anchor_that_proves_nothing_moves_nothing(made, changed):
    one, other = two_of_which_one_is_behind(made)
    before = other.place
    assert not other.jump(anchor_at(one, **changed))
    assert (other.place, other.is_read) == (before, True)


def test_lines_that_do_not_lead_to_the_place_that_was_reached_are_an_error(made):
    one, other = two_of_which_one_is_behind(made)
    assert other.jump(anchor_at(one))
    other.place = other.place._replace(chain=other.place.chain ^ 1)
    with pytest.raises(LineError, match="reading on led to"):
        list(other.passed_batches())


def test_log_without_an_active_segment_jumps_nowhere(made):
    log = log_on(SimFiles.from_tree({DIRECTORY: None}))
    assert not log.jump(anchor_at(log))


@pytest.mark.parametrize("change", ["a broken line", "a seq too far", "the middle of a batch"])
def test_damage_in_what_others_wrote_is_an_error_and_no_event_is_passed_over(made, change):
    one, other = two_of_which_one_is_behind(made)
    before, offset = other.place, other.offset
    assert other.jump(anchor_at(one))
    if change == "a broken line":
        other._disk.write_at(other._fd, b"@", offset + 3)
    elif change == "a seq too far":
        lines = line(before, seq=before.seq + 4)
        other._disk.write_at(other._fd, lines.ljust(other.offset - offset, TAB), offset)
        other.place = place_after(lines, before)._replace(seq=before.seq + 4)
        other.offset = offset + len(lines)
    else:
        other.place = Place(before.seq + 2, other.place.chain)
    with pytest.raises(LineError, match="reading on led to"):
        list(other.passed_batches())


def test_file_that_was_cut_behind_a_jump_is_an_error_and_no_event_is_passed_over(made):
    """Another program made it shorter while this writer had its turn."""
    one, other = two_of_which_one_is_behind(made)
    place, offset = other.place, other.offset
    assert other.jump(anchor_at(one))
    other._disk.truncate(other._fd, offset)
    with pytest.raises(LineError, match="reading on led to"):
        list(other.passed_batches())
    assert other.read == place
