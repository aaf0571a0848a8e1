"""Turns of writers that share: one write in flight over all of them, each from where the last one
ended."""

import errno

import pytest

from durasess import (
    CorruptionError,
    FencedError,
    FormatVersionError,
    SessionFailedError,
    StorageError,
)
from durasess.engine import lock, outbox
from durasess.engine.admission import Append
from durasess.engine.lock import COMMIT, FAILED, IDLE
from durasess.engine.tickets import Ticket, Work
from durasess.engine.types import Draft
from tests.support.lines import batch, overwritten
from tests.support.sessions import (
    SIM_PATH,
    SIM_SEGMENT,
    append_all,
    join,
    open_sim,
    sim_disk,
)

LOCK = f"{SIM_PATH}/lock"
FIRST = f"{SIM_PATH}/events_0001.jsonl"
SECOND = f"{SIM_PATH}/events_0002.jsonl"


@pytest.fixture
def files():
    return sim_disk()


def anchor_of(files):
    return lock.read_anchor(files, SIM_PATH, "s1")


def turns_of(engine):
    return engine._writer._turns


def is_locked(files):
    fd = files.open(LOCK)
    try:
        return not files.lock(fd)
    finally:
        files.close(fd)


def at_sync(files, monkeypatch, act):
    """Does something when the next sync of a segment has written but not returned yet."""
    real = files.sync
    seen = []

    def sync(fd):
        real(fd)
        if files.descriptors[fd].path.endswith(".jsonl") and not seen:
            seen.append(act())

    monkeypatch.setattr(files, "sync", sync)
    return seen


def die_in_turn(engine):
    """The process is killed after its turn began."""
    turns_of(engine).begin()
    engine.forget()


def rewrite(files, path, content):
    """Somebody writes this into the file that is there."""
    fd = files.open(path, write=True)
    files.truncate(fd, 0)
    files.write_at(fd, content, 0)
    files.close(fd)


def replace(files, path, content=b""):
    """Somebody puts another file in its place."""
    files.unlink(path)
    files.close(files.create(path))
    rewrite(files, path, content)


# begin and end


def test_turn_holds_the_lock_and_says_so_in_the_anchor(files):
    engine = join(files)
    receipt = engine.append("t", 1)
    turns = turns_of(engine)
    assert (anchor_of(files).phase, is_locked(files)) == (IDLE, False)
    turns.begin()
    assert (anchor_of(files).phase, is_locked(files)) == (COMMIT, True)
    assert (anchor_of(files).seq, anchor_of(files).chain) == (1, receipt.crc)
    turns.end(None)
    assert (anchor_of(files).phase, is_locked(files)) == (IDLE, False)
    engine.close()


def test_lock_is_held_until_the_sync_returned(files, monkeypatch):
    """At most one write is in flight over all writers (R2)."""
    engine = join(files)
    engine.append("t", 1)
    seen = at_sync(files, monkeypatch, lambda: is_locked(files))
    engine.append("t", 2)
    assert seen == [True]
    engine.close()


def test_turn_takes_over_what_others_wrote_before(files):
    one, other = join(files), join(files)
    append_all(one, 3)
    assert other.append("counted", 4).seq == 4
    assert one.append("counted", 5).seq == 5
    assert other.append("counted", 6).seq == 6
    assert (one.refresh(), one.state, other.state) == (6, [1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6])
    one.close()
    other.close()


def test_turn_goes_on_in_the_segment_that_another_writer_made(files):
    one, other = join(files), join(files)
    append_all(one, 2)
    other.append("counted", 3)
    one.rotate()
    one.append("counted", 4)
    assert other.append("counted", 5).seq == 5
    assert sorted(files.tree())[1:4] == [SIM_PATH, SIM_SEGMENT, SECOND]
    assert one.refresh() == 5
    one.close()
    other.close()


@pytest.mark.parametrize("end", ["rotate", "snapshot", "close"])
def test_seal_of_another_writer_is_not_written_over(files, end):
    """The seal changes neither seq nor segment, so the anchor does not tell of it."""
    one, other = join(files), join(files)
    one.append("counted", 1)
    other.append("counted", 2)
    one.refresh()
    getattr(one, end)()
    sealed = files.tree()[SIM_SEGMENT]
    assert other.append("counted", 3).seq == 3
    if b'{"seal":1' in sealed:
        assert files.tree()[SIM_SEGMENT] == sealed
    assert open_sim(files, mode="read").damage == ()
    if end != "close":
        assert one.append("counted", 4).seq == 4
        one.close()
    other.close()
    assert open_sim(files, mode="read").state[:3] == [1, 2, 3]


def test_filler_that_another_writer_made_or_cut_off_is_no_foreign_change(files):
    one, other = join(files, preallocate=512), join(files, preallocate=4096)
    for n in range(1, 40, 2):
        one.append("counted", n)
        other.append("counted", n + 1)
    assert other.state == list(range(1, 41))
    one.close()
    other.close()


@pytest.mark.parametrize("kind", ["lock", "write_at", "leads_to", "read_at"])
def test_turn_that_the_system_refuses_is_let_go_and_the_next_one_works(files, kind):
    engine = join(files)
    engine.append("t", 1)
    files.fail(kind, where=LOCK, code=errno.EIO)
    with pytest.raises(StorageError) as caught:
        engine.append("t", 2)
    assert caught.value.errno == errno.EIO
    assert not is_locked(files)
    assert engine.append("t", 2).seq == 2
    assert engine.state == [1, 2]
    engine.close()


def test_turn_that_is_refused_settles_every_append_in_it(files):
    from durasess.engine.admission import Append
    from durasess.engine.tickets import Ticket
    from durasess.engine.types import Draft

    engine = join(files)
    items = [engine._drafting.prepared(Draft("t", n)) for n in range(3)]
    tickets = [Ticket(Append([item], True)) for item in items]
    assert tickets[1].claim(), "its caller gave up"
    files.fail("lock", where=LOCK)
    engine._writer.run(tickets)
    assert [ticket.is_settled for ticket in tickets] == [True, False, True]
    assert all(isinstance(tickets[n].error, StorageError) for n in (0, 2))
    engine.close()


def test_interrupted_turn_is_let_go_and_fails_the_handle(files, monkeypatch):
    engine = join(files)
    engine.append("t", 1)

    def interrupted(*_given):
        raise KeyboardInterrupt

    monkeypatch.setattr(lock, "write_anchor", interrupted)
    with pytest.raises(KeyboardInterrupt):
        engine.append("t", 2)
    monkeypatch.undo()
    assert not is_locked(files)
    with pytest.raises(SessionFailedError):
        engine.append("t", 2)
    engine.close()


# tell


def test_failed_sync_stays_in_the_anchor_and_the_next_writer_copies_the_segment(files):
    """After a failed sync the cache shows what the disk may lack (R12)."""
    one, other = join(files), join(files)
    one.append("counted", 1)
    other.append("counted", 2)
    files.fail_sync(where="events_0001.jsonl")
    with pytest.raises(SessionFailedError):
        one.append("counted", 3)
    assert (anchor_of(files).phase, anchor_of(files).seq) == (FAILED, 2)
    inode = files.stat(SIM_SEGMENT).inode
    assert other.append("counted", 4).seq == 4
    assert other.state == [1, 2, 3, 4], "what can be read is kept: its outcome was unknown"
    assert files.stat(SIM_SEGMENT).inode != inode
    assert anchor_of(files).phase == IDLE
    one.close()
    assert anchor_of(files).seq == 4, "a failed handle says nothing more"
    other.close()


def test_failed_handle_that_gives_up_leaves_the_anchor_of_others_alone(files):
    """It has no turn any more; what it knows is old."""
    one, other = join(files), join(files)
    one.append("counted", 1)
    files.fail_sync(where="events_0001.jsonl")
    with pytest.raises(SessionFailedError):
        one.append("counted", 2)
    other.append("counted", 3)
    before = anchor_of(files)
    one.abandon()
    assert anchor_of(files) == before
    other.close()


def test_write_that_was_cut_back_leaves_a_turn_that_ended(files):
    one, other = join(files), join(files)
    one.append("counted", 1)
    files.fail("write_at", where="events_0001.jsonl", code=errno.ENOSPC)
    with pytest.raises(StorageError):
        one.append("counted", 2)
    assert anchor_of(files).phase == IDLE
    assert other.append("counted", 2).seq == 2
    assert one.append("counted", 3).seq == 3
    assert one.state == [1, 2, 3]
    one.close()
    other.close()


def test_reducer_that_raises_leaves_a_turn_that_did_not_end(files):
    def picky(state, event):
        if event.data == 2:
            raise ValueError("two")
        state.append(event.data)

    one, other = join(files, apply=picky), join(files)
    one.append("counted", 1)
    with pytest.raises(SessionFailedError):
        one.append("counted", 2)
    assert (anchor_of(files).phase, is_locked(files)) == (COMMIT, False)
    assert other.append("counted", 3).seq == 3
    assert other.state == [1, 2, 3]
    one.close()
    other.close()


def test_end_that_cannot_be_said_costs_the_next_writer_a_recovery_and_nothing_else(
    files, monkeypatch
):
    one, other = join(files), join(files)
    one.append("counted", 1)
    real = lock.write_anchor

    def refuse_the_end(disk, fd, anchor, **width):
        if anchor.phase == IDLE:
            raise OSError(errno.EIO, "no")
        return real(disk, fd, anchor, **width)

    monkeypatch.setattr(lock, "write_anchor", refuse_the_end)
    assert one.append("counted", 2).seq == 2
    monkeypatch.undo()
    assert (anchor_of(files).phase, is_locked(files)) == (COMMIT, False)
    assert other.append("counted", 3).seq == 3
    assert one.append("counted", 4).seq == 4
    assert one.state == [1, 2, 3, 4]
    one.close()
    other.close()


# A turn that did not end


@pytest.mark.parametrize("segments", [0, 1, 2])
def test_writer_that_died_in_its_turn_is_settled_by_the_next(files, segments):
    one, other = join(files), join(files)
    for n in range(segments):
        one.append("counted", n)
        one.rotate()
    die_in_turn(one)
    assert anchor_of(files).phase == COMMIT
    assert other.append("counted", "next").seq == segments + 1
    assert other.state == [*range(segments), "next"]
    other.close()
    assert open_sim(files, mode="read").damage == ()


@pytest.mark.parametrize("size", [1, 40, -1])
def test_write_that_a_death_cut_is_settled_by_the_next(files, size):
    """Cut off by its last byte only, it is kept: that is what an owner does too."""
    one, other = join(files), join(files)
    one.append("counted", 1)
    before = files.tree()[SIM_SEGMENT]
    receipt = one.append("counted", 2)
    line = files.tree()[SIM_SEGMENT][len(before.rstrip(b"\t")) :].rstrip(b"\t")
    anchor = lock.Anchor("s1", 1, 1, next(iter(one.events())).crc, COMMIT)
    rewrite(files, SIM_SEGMENT, overwritten(before, line[:size]))
    fd = files.open(LOCK, write=True)
    lock.write_anchor(files, fd, anchor)
    files.close(fd)
    one.forget()
    kept = [2] if size == -1 else []
    assert other.append("counted", 3).seq == receipt.seq + len(kept)
    assert other.state == [1, *kept, 3]
    other.close()
    quarantined = [name for name in files.tree() if "/quarantine/" in name]
    assert len(quarantined) == (0 if kept else 1)


def test_writer_that_dies_between_two_turns_leaves_nothing_to_settle(files):
    one, other = join(files), join(files)
    one.append("counted", 1)
    one.forget()
    inode = files.stat(SIM_SEGMENT).inode
    assert other.append("counted", 2).seq == 2
    assert files.stat(SIM_SEGMENT).inode == inode
    other.close()


def test_writer_whose_segment_was_copied_forward_goes_on_behind_the_copy(files):
    one, other, third = join(files), join(files), join(files)
    one.append("counted", 1)
    other.append("counted", 2)
    die_in_turn(one)
    third.append("counted", 3)
    assert other.append("counted", 4).seq == 4
    assert other.state == [1, 2, 3, 4]
    other.close()
    third.close()


@pytest.mark.parametrize("text", [b"", b"garbage", b"\0" * 384])
def test_anchor_that_says_nothing_is_taken_for_a_turn_that_did_not_end(files, text):
    engine = join(files)
    engine.append("counted", 1)
    rewrite(files, LOCK, text)
    inode = files.stat(SIM_SEGMENT).inode
    assert engine.append("counted", 2).seq == 2
    assert files.stat(SIM_SEGMENT).inode != inode
    assert engine.state == [1, 2]
    engine.close()


@pytest.mark.parametrize(
    ("kind", "where"),
    [
        ("open", "events_0002.jsonl"),
        ("size", "events_0002.jsonl"),
        ("read_at", "events_0002.jsonl"),
        ("replace", ".jsonl.tmp"),
        ("sync", ".jsonl.tmp"),
        ("sync_dir", ""),
    ],
)
@pytest.mark.parametrize("nth", range(1, 7))
def test_recovery_in_a_turn_that_the_system_refuses_is_done_by_the_next(files, kind, where, nth):
    """Whatever was taken over until then, state and log stay together."""
    one, other, third = join(files), join(files), join(files)
    one.append("counted", 1)
    other.append("counted", 2)
    die_in_turn(one)
    third.append("counted", 3)
    fault = files.fail(kind, nth=nth, where=where)
    try:
        other.append("counted", 4)
    except StorageError:
        other.append("counted", 4)
    except SessionFailedError:
        assert kind in ("sync", "sync_dir", "size"), "what an append of its own meets, too"
        other.close()
        other = join(files)
    if fault in files.faults:
        files.faults.remove(fault)
    other.append("counted", 5)
    assert other.state in ([1, 2, 3, 4, 5], [1, 2, 3, 5])
    assert other.last_seq == len(other.state)
    found = open_sim(files, mode="read")
    assert (found.state, found.damage) == (other.state, ())
    third.close()
    other.close()


# The log is no longer the one that is known


def test_turn_finds_the_segment_replaced_by_an_equal_one_and_goes_on(files):
    engine = join(files)
    append_all(engine, 2)
    replace(files, SIM_SEGMENT, files.tree()[SIM_SEGMENT].rstrip(b"\t"))
    assert engine.append("counted", 3).seq == 3
    assert engine.state == [1, 2, 3]
    engine.close()
    assert open_sim(files, mode="read").damage == ()


@pytest.mark.parametrize("keep", [0, 1])
def test_log_that_lost_events_fences_and_says_from_where(files, keep):
    engine = join(files)
    contents = []
    for n in (1, 2, 3):
        engine.append("counted", n)
        contents.append(files.tree()[SIM_SEGMENT])
    rewrite(files, SIM_SEGMENT, contents[keep])
    for _ in range(2):
        with pytest.raises(FencedError, match="no longer goes on from seq 3") as caught:
            engine.append("counted", 4)
    assert caught.value.seq == 3
    assert isinstance(caught.value.__cause__, CorruptionError)
    assert not is_locked(files)
    assert files.tree()[SIM_SEGMENT] == contents[keep], "nothing is written"
    engine.close()
    assert files.tree()[SIM_SEGMENT] == contents[keep]
    assert files.descriptors == {}


def test_session_that_was_emptied_fences(files):
    engine = join(files)
    engine.append("counted", 1)
    for name in ("events_0001.jsonl", "meta.json"):
        files.unlink(f"{SIM_PATH}/{name}")
    with pytest.raises(FencedError, match="no longer goes on from seq 1"):
        engine.append("counted", 2)
    engine.close()


def test_log_of_another_history_fences(files):
    """The seq is there, but with another chain value."""
    other_disk = sim_disk()
    with open_sim(other_disk, snapshot_every=10**9) as engine:
        append_all(engine, 5, first=100)
        content = other_disk.tree()[SIM_SEGMENT]
    engine = join(files)
    append_all(engine, 2)
    rewrite(files, SIM_SEGMENT, content)
    with pytest.raises(FencedError, match="no longer goes on from seq 2"):
        engine.append("counted", 3)
    engine.close()


@pytest.mark.parametrize("longer", [True, False])
@pytest.mark.parametrize("preallocate", [0, 1024])
def test_foreign_bytes_behind_the_last_line_are_seen_before_anything_is_written(
    files, longer, preallocate
):
    """They are no line, so no turn of a writer left them: what they would damage is not written."""
    engine = join(files, preallocate=preallocate)
    append_all(engine, 2)
    content = files.tree()[SIM_SEGMENT].rstrip(b"\t")
    rewrite(files, SIM_SEGMENT, content + b"note to myself\n" * (40 if longer else 1))
    with pytest.raises(FencedError, match="note to myself"):
        engine.append("counted", 3)
    engine.close()


def test_foreign_bytes_that_look_like_a_cut_write_are_settled_before_anything_is_written(files):
    """The turn before ended, so nobody of ours left it; what follows would end inside of it."""
    engine = join(files)
    append_all(engine, 2)
    content = files.tree()[SIM_SEGMENT].rstrip(b"\t")
    rewrite(files, SIM_SEGMENT, content + batch(engine._writer.place, 1, "x" * 2000)[:-1000])
    assert engine.append("counted", 3).seq == 3
    assert any("quarantine" in path for path in files.tree())
    engine.abandon()
    again = join(files)
    assert again.state == [1, 2, 3] and again.recovery.damage == []
    again.close()


def test_newer_schema_is_said_and_ends_the_handle(files):
    old = join(files)
    old.append("counted", 1)
    new = join(files, schema_version=2, migrations={1: lambda state: state})
    new.append("counted", 2)
    for _ in range(2):
        with pytest.raises(FormatVersionError, match="schema version 2") as caught:
            old.append("counted", 3)
    assert caught.value.seq == 1
    assert old.state == [1]
    new.append("counted", 3)
    old.close()
    new.close()


def test_newer_schema_that_only_a_recovery_finds_ends_the_handle_too(files):
    old = join(files)
    old.append("counted", 1)
    new = join(files, schema_version=2, migrations={1: lambda state: state})
    new.append("counted", 2)
    die_in_turn(new)
    with pytest.raises(FormatVersionError, match="newer"):
        old.append("counted", 3)
    old.close()


@pytest.mark.parametrize("again", [True, False])
def test_removed_lock_file_fences_and_is_named(files, again):
    engine = join(files)
    engine.append("counted", 1)
    if again:
        replace(files, LOCK)
    else:
        files.unlink(LOCK)
    for _ in range(2):
        with pytest.raises(FencedError, match="lock was removed or replaced") as caught:
            engine.append("counted", 2)
    assert (caught.value.path, caught.value.seq) == (LOCK, 1)
    engine.close()
    assert files.descriptors == {}


# A turn that is kept


def keeping(engine, monkeypatch, *coming):
    """While a turn of this handle goes on: each of `coming` is called, and what it gives is handed
    over in the same turn."""
    left = list(coming)
    scheduler = engine._scheduler

    def more():
        act = left.pop(0)
        ticket = act()
        return [] if ticket is None else [ticket]

    monkeypatch.setattr(scheduler, "expects_more", lambda: bool(left))
    monkeypatch.setattr(scheduler, "more", more)
    return left


def ticket_of(engine, data):
    return Ticket(Append([engine._drafting.prepared(Draft("counted", data))], durable=True))


def test_kept_turn_answers_and_tells_while_lock_is_held(files, monkeypatch):
    one, other = join(files), join(files)
    one.append("counted", 1)
    tickets = [ticket_of(one, 2), ticket_of(one, 3)]
    seen = []

    def look(ticket=None):
        seen.append((is_locked(files), anchor_of(files).phase, other.refresh(), [*other.state]))
        return ticket

    left = keeping(one, monkeypatch, lambda: look(tickets[0]), lambda: look(tickets[1]), look)
    begins = []
    real = lock.locked
    monkeypatch.setattr(lock, "locked", lambda *a, **o: begins.append(a) or real(*a, **o))
    assert one.append("counted", 0).seq == 2
    assert left == []
    assert len(begins) == 1, "one turn"
    assert [ticket.outcome()[0].seq for ticket in tickets] == [3, 4]
    assert seen == [
        (True, COMMIT, 2, [1, 0]),
        (True, COMMIT, 3, [1, 0, 2]),
        (True, COMMIT, 4, [1, 0, 2, 3]),
    ]
    assert (is_locked(files), anchor_of(files).phase) == (False, IDLE)
    one.close()
    other.close()


def test_first_answer_in_a_kept_turn_waits_for_what_others_wrote(files, monkeypatch):
    one, other = join(files), join(files)
    one.append("counted", 1)
    other.append_many([("counted", 2), ("counted", 3)])
    seen = []
    keeping(one, monkeypatch, lambda: seen.append(one.state))
    one.append("counted", 4)
    assert seen == [[1, 2, 3, 4]]
    one.close()
    other.close()


def test_writer_that_dies_in_a_kept_turn_leaves_what_it_acknowledged(files, monkeypatch):
    one, other = join(files), join(files)
    ticket = ticket_of(one, 2)
    keeping(one, monkeypatch, lambda: ticket, lambda: one.forget())
    one.append("counted", 1)
    assert ticket.outcome()[0].seq == 2
    assert other.append("counted", 3).seq == 3
    assert other.state == [1, 2, 3]
    other.close()


def test_failure_in_a_kept_turn_is_told_to_whom_it_meets_alone(files, monkeypatch):
    one, other = join(files), join(files)
    one.append("counted", 1)
    tickets = [ticket_of(one, 3), ticket_of(one, 4)]

    def fail():
        files.fail_sync(nth=1)
        return tickets[0]

    left = keeping(one, monkeypatch, fail, lambda: tickets[1])
    assert one.append("counted", 2).seq == 2
    with pytest.raises(SessionFailedError):
        tickets[0].outcome()
    assert len(left) == 1, "a handle that failed goes on with nothing"
    assert anchor_of(files).phase == FAILED
    one.close()
    assert other.append("counted", 5).seq == 4
    assert other.state == [1, 2, 3, 5], "it was written, and never acknowledged"
    other.close()


def test_kept_turn_that_cannot_be_told_ends(files, monkeypatch):
    one, other = join(files), join(files)
    one.append("counted", 1)
    left = keeping(one, monkeypatch, lambda: ticket_of(one, 3))
    real = turns_of(one)._write_anchor
    marks = []

    def write_anchor(phase):
        marks.append(phase)
        if len(marks) == 2:
            raise OSError(errno.EIO, "no")
        real(phase)

    monkeypatch.setattr(turns_of(one), "_write_anchor", write_anchor)
    assert one.append("counted", 2).seq == 2
    assert (marks, len(left)) == ([COMMIT, COMMIT, IDLE], 1)
    assert other.refresh() == 2
    one.close()
    other.close()


@pytest.mark.parametrize("error", [MemoryError("short"), KeyboardInterrupt()])
def test_catching_up_that_fails_ends_a_kept_turn_and_the_handle(files, monkeypatch, error):
    one, other = join(files), join(files)
    one.append("counted", 1)
    other.append("counted", 2)
    left = keeping(one, monkeypatch, lambda: pytest.fail("it went on"))
    real = one._writer._outbox.catch_up

    def catch_up():
        monkeypatch.setattr(one._writer._outbox, "catch_up", real)
        raise error

    monkeypatch.setattr(one._writer._outbox, "catch_up", catch_up)
    with pytest.raises((SessionFailedError, KeyboardInterrupt)):
        one.append("counted", 3)
    assert len(left) == 1
    assert isinstance(one._writer.failure, SessionFailedError)
    assert not is_locked(files)
    one.close()
    assert other.append("counted", 4).seq == 4
    assert other.state == [1, 2, 3, 4], "it was synced, and its outcome unknown"
    other.close()


def test_close_within_a_kept_turn_ends_it(files, monkeypatch):
    one, other = join(files), join(files)
    one.append("counted", 1)

    def closing():
        return Ticket(Work(one._writer.finish, needs_turn=False))

    left = keeping(one, monkeypatch, closing, lambda: pytest.fail("it went on"))
    one.append("counted", 2)
    assert len(left) == 1
    assert not is_locked(files)
    assert other.append("counted", 3).seq == 3
    one.close()
    other.close()


# look


def test_look_takes_over_what_is_acknowledged_without_the_lock(files):
    one, other = join(files), join(files)
    one.append("counted", 1)
    turns_of(one).begin()
    assert (other.refresh(), other.state) == (1, [1])
    turns_of(one).end(None)
    since = len(files.log)
    assert other.refresh() == 1
    assert files.log[since:] == [], "nothing is changed by looking"
    one.close()
    other.close()


def test_event_is_seen_by_others_as_soon_as_its_caller_knows_of_it(files, monkeypatch):
    """Its caller may tell them, and they look."""
    one, other = join(files), join(files)
    one.append("counted", 1)
    seen = []
    real = outbox.settle_together

    def settle(outcomes):
        real(outcomes)
        if any(ticket.outcome() is not None for ticket, _, _ in outcomes) and not seen:
            seen.append(other.refresh())

    monkeypatch.setattr(outbox, "settle_together", settle)
    one.append("counted", 2)
    monkeypatch.undo()
    assert seen == [2]
    one.close()
    other.close()


def test_look_does_not_take_what_is_being_written(files, monkeypatch):
    one, other = join(files), join(files)
    one.append("counted", 1)
    seen = at_sync(files, monkeypatch, other.refresh)
    one.append_many([("counted", 2), ("counted", 3)])
    assert seen == [1]
    assert other.refresh() == 3
    one.close()
    other.close()


def test_look_without_an_anchor_takes_a_turn(files):
    one, other = join(files), join(files)
    one.append("counted", 1)
    rewrite(files, LOCK, b"")
    assert other.refresh() == 1
    assert other.append("counted", 2).seq == 2
    assert other.state == [1, 2]
    one.close()
    other.close()


def test_look_behind_a_copy_forward_reaches_what_is_acknowledged(files):
    """A writer that only follows must not go deaf when another one died in its turn."""
    one, other, third = join(files), join(files), join(files)
    one.append("counted", 1)
    assert other.refresh() == 1
    die_in_turn(one)
    third.append("counted", 2)
    assert (other.refresh(), other.state) == (2, [1, 2])
    other.close()
    third.close()


def test_look_behind_a_prune_reaches_what_is_acknowledged(files):
    one, other = join(files), join(files)
    for n in range(1, 6):
        one.append("counted", n)
        one.snapshot()
    assert one.prune().segments
    assert (other.refresh(), other.state) == (5, [1, 2, 3, 4, 5])
    one.close()
    other.close()


def test_look_where_the_lock_file_is_another_one_takes_a_turn_that_says_so(files):
    """Who locks the other file writes its anchor there; the old one says what it said."""
    one, other = join(files), join(files)
    one.append("counted", 1)
    assert other.refresh() == 1
    replace(files, LOCK)
    with pytest.raises(FencedError):
        other.refresh()
    one.forget()
    other.close()


def test_look_that_finds_another_log_leaves_the_verdict_to_a_turn(files):
    one, other = join(files), join(files)
    one.append("counted", 1)
    one.rotate()
    one.append("counted", 2)
    rewrite(files, SECOND, files.tree()[SECOND].replace(b'"s1"', b'"s2"'))
    try:
        assert other.refresh() == 1
    except FencedError:
        pass
    with pytest.raises(FencedError):
        other.append("counted", 3)
    one.forget()
    other.close()


def test_error_of_the_system_while_looking_is_raised_and_costs_nothing(files):
    one, other = join(files), join(files)
    append_all(one, 3)
    files.fail("read_at", where="events_0001.jsonl")
    with pytest.raises(StorageError):
        other.refresh()
    assert (other.refresh(), other.state) == (3, [1, 2, 3])
    one.close()
    other.close()


@pytest.mark.parametrize("how", ["look", "turn"])
def test_event_that_cannot_be_taken_over_ends_the_handle(files, how):
    def picky(state, event):
        if event.data == 2:
            raise ValueError("two")
        state.append(event.data)

    one, other = join(files), join(files, apply=picky)
    append_all(one, 3)
    for _ in range(2):
        with pytest.raises(SessionFailedError, match="seq 2") as caught:
            other.refresh() if how == "look" else other.append("counted", 4)
    assert caught.value.seq == 2
    assert (other.state, other.last_seq) == ([1], 1)
    assert one.append("counted", 4).seq == 4
    one.close()
    other.close()


# is_last and release


def test_last_writer_seals_and_the_others_do_not(files):
    one, other = join(files), join(files)
    append_all(one, 2)
    one.abandon()
    third = join(files)
    third._writer._snapshots.seq = 2
    third._writer._snapshots.tail_bytes = 0
    third.close()
    assert b'{"seal"' not in files.tree()[SIM_SEGMENT]
    other.close()
    assert b'{"seal":1,"last_seq":2' in files.tree()[SIM_SEGMENT]
    assert files.descriptors == {}


def test_release_gives_lock_back_last(files, monkeypatch):
    """Who gets it next must not find `owner` taken by a writer that has ended."""
    engine = join(files)
    engine.append("counted", 1)
    real = files.close
    closed = []

    def close(fd):
        closed.append(files.descriptors[fd].path)
        real(fd)

    monkeypatch.setattr(files, "close", close)
    engine.abandon()
    kept = [path for path in closed if not path.endswith(".jsonl")]
    assert [path.removeprefix(SIM_PATH) for path in kept[-2:]] == ["/owner", "/lock"]
    assert files.listdir(f"{SIM_PATH}/workers") == []


def test_forked_process_leaves_the_workers_file_to_its_parent(files):
    engine = join(files)
    engine.forget()
    assert len(files.listdir(f"{SIM_PATH}/workers")) == 1
    assert files.descriptors == {}


@pytest.mark.parametrize("name", ["owner", "lock", "events_0001.jsonl", "workers"])
def test_descriptor_that_cannot_be_closed_does_not_keep_the_others(files, name):
    engine = join(files)
    engine.append("counted", 1)
    where = files.listdir(f"{SIM_PATH}/workers")[0] if name == "workers" else name
    files.fail("close", where=where)
    engine.abandon()
    assert files.descriptors == {}


# What others wrote cannot be taken over


def damaged(files, data):
    """The line of this event is not readable any more; its file has its length."""
    content = files.tree()[FIRST]
    fd = files.open(FIRST, write=True)
    files.write_at(fd, b"@", content.index(b'"data":%d' % data))
    files.close(fd)


@pytest.mark.parametrize("is_kept", [False, True])
def test_damage_in_what_others_wrote_fences_and_no_event_is_passed_over(
    files, monkeypatch, is_kept
):
    one, other = join(files), join(files)
    append_all(one, 1)
    append_all(other, 3, first=2)
    damaged(files, 3)
    left = keeping(one, monkeypatch, lambda: pytest.fail("it went on")) if is_kept else []
    with pytest.raises(FencedError, match="the log changed behind seq"):
        one.append("counted", 5)
    with pytest.raises(FencedError):
        one.append("counted", 6)
    assert one.state in ([1], [1, 2])
    assert len(left) == is_kept
    one.close()
    other.forget()


def stopping(error):
    """A reducer that is stopped at event 2."""

    def apply(state, event):
        if event.data == 2:
            raise error
        state.append(event.data)

    return apply


@pytest.mark.parametrize("is_kept", [False, True])
@pytest.mark.parametrize(
    ("error", "raised"),
    [(ValueError("two"), SessionFailedError), (KeyboardInterrupt(), KeyboardInterrupt)],
)
def test_reducer_that_is_stopped_at_an_event_of_others_ends_the_handle(
    files, monkeypatch, is_kept, error, raised
):
    one, other = join(files, apply=stopping(error)), join(files)
    append_all(other, 3)
    if is_kept:
        keeping(one, monkeypatch, lambda: pytest.fail("it went on"))
    with pytest.raises(raised):
        one.append("counted", 4)
    with pytest.raises(SessionFailedError):
        one.append("counted", 5)
    assert one.state == [1]
    assert not is_locked(files)
    one.close()
    other.close()


def test_what_needs_no_turn_is_done_though_there_is_none(files):
    one = join(files)
    one.append("counted", 1)
    done = []
    tickets = [
        ticket_of(one, 2),
        Ticket(Work(lambda: done.append("asked"), needs_turn=False)),
        Ticket(Work(lambda: done.append("never"), lambda error: done.append(type(error)))),
    ]
    files.fail("lock", where=LOCK, code=errno.EIO)
    one._writer.run(tickets)
    assert done == ["asked", StorageError]
    for index in (0, 2):
        with pytest.raises(StorageError):
            tickets[index].outcome()
    assert one.append("counted", 2).seq == 2
    one.close()


def test_turn_that_cannot_be_given_up_ends_the_handle(files):
    one, other = join(files), join(files)
    one.append("counted", 1)
    files.fail("unlock", where=LOCK)
    with pytest.raises(SessionFailedError, match="could not be unlocked"):
        one.append("counted", 2)
        one.append("counted", 3)
    one.close()
    assert other.append("counted", 4).seq in (3, 4)
    other.close()


def test_end_that_is_told_outside_a_turn_leaves_the_anchor_of_others_alone(files):
    one, other = join(files), join(files)
    one.append("counted", 1)
    other.append("counted", 2)
    before = files.tree()[LOCK]
    turns_of(one).tell(None)
    assert files.tree()[LOCK] == before
    one.close()
    other.close()


def test_who_starts_again_knows_of_a_snapshot_that_it_does_not_go_on_with(files):
    """Its own next one takes that one's place, so it must know which is the newest."""
    one = join(files, takes=lambda state: False)
    other = join(files)
    other.append("t", 1)
    assert other.snapshot() == 1
    die_in_turn(join(files))
    assert one.append("t", 2).seq == 2
    assert one._writer.snapshot_seq == 1
    one.close()
    other.close()
