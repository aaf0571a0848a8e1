"""The committer's work: one batch at a time, published only when durable, else failed for good."""

import errno
import itertools

import pytest

from durasess import Draft, EventRejectedError, FencedError, SessionFailedError, StorageError
from durasess.engine import publishing
from durasess.engine.admission import Append
from durasess.engine.scheduler import ThreadScheduler
from durasess.engine.tickets import Ticket, Work
from tests.support.sessions import (
    SIM_PATH,
    SIM_SEGMENT,
    append_all,
    join,
    lines_of,
    open_descriptors,
    open_inline,
    open_sim,
    outcome_of,
    segment_path,
    sim_disk,
)


def together(engine, *drafts, durable=True):
    """Appends that stand in the queue at the same time."""
    tickets = [Ticket(Append([engine._drafting.prepared(one)], durable)) for one in drafts]
    engine._writer.run(tickets)
    return tickets


@pytest.fixture
def files():
    return sim_disk()


@pytest.fixture
def engine(files):
    engine = open_sim(files)
    yield engine
    files.faults.clear()
    engine.abandon()


# run


def test_appends_that_stand_together_share_one_write(files, engine):
    engine.append("t", 0)
    since = len(files.log)
    tickets = together(engine, *(Draft("t", n) for n in range(1, 6)))
    assert [op.kind for op in files.log[since:]] == ["write", "sync", "write"]
    assert [ticket.outcome()[0].seq for ticket in tickets] == [2, 3, 4, 5, 6]
    assert engine.state == [0, 1, 2, 3, 4, 5]


def test_ticket_that_its_caller_withdrew_is_not_written(engine):
    ticket = Ticket(Append([engine._drafting.prepared(Draft("t", 1))], True))
    ticket.claim()
    engine._writer.run([ticket])
    assert (engine.last_seq, ticket.is_settled) == (0, False)


def test_refused_append_does_not_refuse_those_beside_it(files):
    def no_twos(state, draft):
        if draft.data == 2:
            raise ValueError("no twos")

    engine = open_sim(files, validate=no_twos)
    tickets = together(engine, Draft("t", 1), Draft("t", 2), Draft("t", 3))
    assert [ticket.error is None for ticket in tickets] == [True, False, True]
    assert (engine.state, engine.last_seq) == ([1, 3], 2)
    engine.close()


def test_validator_sees_what_the_append_before_it_did(files):
    def each_once(state, draft):
        if draft.data in state:
            raise ValueError("again")

    engine = open_sim(files, validate=each_once)
    tickets = together(engine, Draft("t", 1), Draft("t", 1))
    assert [ticket.error is None for ticket in tickets] == [True, False]
    engine.close()


def test_same_event_at_once_gets_one_seq_and_both_get_its_receipt(engine):
    same = Draft("t", 1, event_id="e")
    one, other = together(engine, same, same)
    assert (one.error, other.error) == (None, None)
    assert one.outcome()[0] == other.outcome()[0]
    assert engine.last_seq == 1


def test_other_content_under_one_event_id_at_once_is_rejected(engine):
    tickets = together(engine, Draft("t", 1, event_id="e"), Draft("t", 2, event_id="e"))
    assert tickets[0].error is None
    assert isinstance(tickets[1].error, EventRejectedError)
    assert engine.state == [1]


def test_interrupted_commit_fails_the_handle_and_settles_every_ticket(files, engine, monkeypatch):
    def interrupted(fd):
        raise KeyboardInterrupt

    engine.append("t", 0)
    monkeypatch.setattr(files, "sync", interrupted)
    tickets = [Ticket(Append([engine._drafting.prepared(Draft("t", n))], True)) for n in (1, 2)]
    with pytest.raises(KeyboardInterrupt):
        engine._writer.run(tickets)
    monkeypatch.undo()
    assert all(isinstance(ticket.error, SessionFailedError) for ticket in tickets)
    with pytest.raises(SessionFailedError):
        engine.append("t", 3)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("where", ["apply", "validate"])
def test_hook_that_raises_system_exit_fails_the_handle_and_nothing_hangs(tmp_path, where):
    def leave(state, _what):
        raise SystemExit(3)

    engine = open_inline(tmp_path / "s1", scheduler=ThreadScheduler(), **{where: leave})
    try:
        assert isinstance(outcome_of(lambda: engine.append("t", 1)), BaseException)
        assert isinstance(outcome_of(lambda: engine.append("t", 2)), BaseException)
        assert outcome_of(engine.close) is None
    finally:
        engine.forget()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("event", ["of another", "its own"])
def test_hook_that_raises_system_exit_behind_a_turn_fails_the_handle_and_nothing_hangs(
    tmp_path, event
):
    """Where others wrote before, a writer folds behind its turn: no place to hang either."""

    def leave(state, found):
        if found.data == event:
            raise SystemExit(3)

    other = open_inline(tmp_path / "s1", mode="shared")
    other.append("t", "first")
    engine = open_inline(tmp_path / "s1", mode="shared", scheduler=ThreadScheduler(), apply=leave)
    other.append("t", "of another")
    try:
        assert isinstance(outcome_of(lambda: engine.append("t", "its own")), SessionFailedError)
        assert isinstance(outcome_of(lambda: engine.append("t", 2)), SessionFailedError)
        assert outcome_of(engine.close) is None
        other.refresh()
        assert [found.data for found in other.events()] == ["first", "of another", "its own"]
    finally:
        other.close()


def test_event_of_another_that_apply_does_not_take_fails_the_handle_behind_its_turn(tmp_path):
    """What others wrote before is read behind the turn: the own event is in the log by then."""

    def picky(state, found):
        if found.data == "of another":
            raise ValueError("not this one")
        state.append(found.data)

    other = open_inline(tmp_path / "s1", mode="shared")
    other.append("t", "first")
    engine = open_inline(tmp_path / "s1", mode="shared", apply=picky)
    other.append("t", "of another")
    with pytest.raises(SessionFailedError, match="not this one") as caught:
        engine.append("t", "its own")
    assert caught.value.seq == 2
    assert "written and synced before that, as seq 3;" in caught.value.__notes__[0]
    assert (engine.state, engine.last_seq) == (["first"], 1)
    with pytest.raises(SessionFailedError, match="not this one") as caught:
        engine.append("t", "one more")
    assert not hasattr(caught.value, "__notes__")
    assert outcome_of(engine.close) is None
    other.refresh()
    assert [found.data for found in other.events()] == ["first", "of another", "its own"]
    other.close()


@pytest.mark.parametrize("error", [OSError(errno.EIO, "no such luck"), RuntimeError("odd")])
def test_due_snapshot_that_is_stopped_at_the_beginning_of_a_turn_answers_everybody(tmp_path, error):
    engine = open_inline(tmp_path / "s1", mode="shared", snapshot_every=3)
    other = open_inline(tmp_path / "s1", mode="shared")
    engine.append("t", 1)
    append_all(other, 2)
    engine.append("t", 4)
    assert engine._writer._snapshots.is_due(), "what others wrote was folded behind the turn"

    def stopped(*_):
        raise error

    engine._writer._snapshots.begin = stopped
    (ticket,) = together(engine, Draft("t", 5))
    assert ticket.is_settled
    if isinstance(error, OSError):
        assert ticket.outcome()[0].seq == 5 and "no such luck" in engine.notices[-1]
    else:
        assert isinstance(ticket.error, SessionFailedError)
    engine.close()
    other.close()


# commit


def test_state_and_last_seq_move_only_after_the_sync(files, engine):
    engine.append("t", 1)
    files.fail_sync(where="events_0001.jsonl")
    with pytest.raises(SessionFailedError):
        engine.append("t", 2)
    assert (engine.state, engine.last_seq) == ([1], 1)


def test_event_that_is_not_durable_is_acknowledged_before_the_sync_and_folded_after(files, engine):
    engine.append("t", 1)
    files.fail_sync(where="events_0001.jsonl")
    assert not engine.append("t", 2, durable=False).durable
    assert engine.last_seq == 1
    with pytest.raises(SessionFailedError):
        engine.flush()


def test_segment_is_rotated_when_it_is_full(tmp_path):
    engine = open_inline(tmp_path / "s1", segment_bytes=600, snapshot_every=1_000_000)
    append_all(engine, 20)
    assert engine._writer.newest_segment > 3
    assert lines_of(segment_path(tmp_path / "s1", 1))[-1].startswith(b'{"seal":1')
    assert segment_path(tmp_path / "s1", 1).stat().st_size < 1200
    engine.close()


def test_replaced_file_fences_the_handle_and_names_the_last_acknowledged_seq(files, engine):
    engine.append("t", 1)
    files.close(files.create(f"{SIM_PATH}/other"))
    files.replace(f"{SIM_PATH}/other", SIM_SEGMENT)
    with pytest.raises(FencedError) as caught:
        engine.append("t", 2)
    assert engine.last_seq == 1
    assert caught.value.seq == 1


def test_apply_that_raises_fails_the_handle_and_names_the_seq(files):
    def picky(state, event):
        if event.data == 2:
            raise ValueError("two")
        state.append(event.data)

    engine = open_sim(files, apply=picky)
    engine.append("t", 1)
    with pytest.raises(SessionFailedError, match="ValueError") as caught:
        engine.append("t", 2)
    assert caught.value.seq == 2
    assert (engine.state, engine.last_seq) == ([1], 1)
    with pytest.raises(SessionFailedError):
        engine.append("t", 3)
    engine.close()


# rotate, prune, finish, release


def test_rotate_without_an_active_segment_does_nothing(files, engine):
    since = len(files.log)
    engine.rotate()
    assert files.log[since:] == []


def test_finish_seals_and_lets_go_of_every_descriptor(files):
    engine = open_sim(files)
    engine.append("t", 1)
    engine.close()
    assert files.descriptors == {}
    assert b'{"seal":1' in files.tree()[SIM_SEGMENT]


def test_failed_handle_only_lets_go(files):
    engine = open_sim(files)
    engine.append("t", 1)
    files.fail_sync(where="events_0001.jsonl")
    with pytest.raises(SessionFailedError):
        engine.append("t", 2)
    since = len(files.log)
    engine.close()
    assert files.log[since:] == []
    assert files.descriptors == {}


def test_seal_that_does_not_fit_is_raised_after_everything_was_let_go_of(files):
    engine = open_sim(files)
    engine.append("t", 1)
    files.fail("write_at", where="events_0001.jsonl", sticky=True)
    with pytest.raises(StorageError):
        engine.close()
    files.faults.clear()
    assert files.descriptors == {}
    engine.close()
    with open_sim(files) as again:
        assert again.state == [1]


@pytest.mark.parametrize("name", ["events_0001.jsonl", "lock", "owner"])
def test_failed_close_of_one_descriptor_does_not_keep_the_session(files, name):
    engine = open_sim(files)
    engine.append("t", 1)
    files.fail("close", where=name)
    outcome_of(engine.close)
    outcome_of(engine.close)
    files.faults.clear()
    engine.forget()
    with open_sim(files) as again:
        assert again.state == [1]


def test_failed_close_of_a_sealed_segment_costs_no_event(files):
    engine = open_sim(files)
    engine.append("t", 1)
    files.fail("close", where="events_0001.jsonl")
    outcome_of(engine.rotate)
    outcome_of(lambda: engine.append("t", 2))
    outcome_of(engine.close)
    engine.forget()
    with open_sim(files) as again:
        assert again.state[0] == 1


def test_close_without_memory_for_a_moment_lets_go_of_the_session(tmp_path, monkeypatch):
    """The lock stayed with the process when memory ran out between two descriptors."""
    engine = open_inline(tmp_path / "s1")
    engine.append("t", 1)
    closing, failures = publishing.close_each, [MemoryError()]

    def close_each(disk, descriptors):
        if failures:
            disk.close(descriptors.pop())
            raise failures.pop()
        closing(disk, descriptors)

    monkeypatch.setattr(publishing, "close_each", close_each)
    engine.close()
    assert open_descriptors(tmp_path) == []
    with open_inline(tmp_path / "s1") as again:
        assert again.state == [1]


# What stops a turn before its work


def stop_turn(engine, nth, monkeypatch):
    """What comes before the work of the nth turn from now on fails."""
    turns = itertools.count(1)

    def due():
        if next(turns) == nth:
            raise RuntimeError("out of order")

    monkeypatch.setattr(engine._writer, "_snapshot_when_due", due)


@pytest.mark.parametrize("nth", [1, 2])
def test_close_whose_turn_is_stopped_before_it_lets_go_of_the_session(files, nth, monkeypatch):
    """Its descriptors and its lock stayed, though the caller was told that it failed. The first
    turn of a close is for its snapshot."""
    engine = join(files)
    engine.append("t", 1)
    stop_turn(engine, nth, monkeypatch)
    with pytest.raises(SessionFailedError, match="out of order"):
        engine.close()
    assert files.descriptors == {}
    with open_sim(files) as again:
        assert again.state == [1]


def test_close_that_was_begun_when_its_turn_is_stopped_lets_go(files, monkeypatch):
    engine = join(files)

    def fail():
        raise RuntimeError("out of order")

    monkeypatch.setattr(engine._writer, "_catch_up", fail)
    let_go = []
    close = Ticket(Work(lambda: None, let_go.append))
    engine._writer.run([close])
    assert close.is_settled and let_go == [engine._writer.failure]
    engine.close()


def test_close_that_was_withdrawn_does_not_let_go_when_its_turn_is_stopped(files, monkeypatch):
    engine = join(files)
    stop_turn(engine, 1, monkeypatch)
    let_go = []
    close = Ticket(Work(lambda: None, let_go.append))
    assert close.claim()
    engine._writer.run([close, Ticket(lambda: None)])
    assert engine._writer.failure is not None and let_go == []
    engine.close()


def test_snapshot_that_is_due_and_meets_an_error_of_the_system_ends_nothing(files):
    """The handle failed when `owner` could not be looked up behind an event that was durable."""
    with open_sim(files, snapshot_every=2) as engine:
        engine.append("t", 1)
        files.fail("leads_to", where="owner", nth=2)
        assert engine.append("t", 2).seq == 2
        assert any("no snapshot at seq 2" in one for one in engine.notices)
        files.faults.clear()
        assert engine.append("t", 3).seq == 3
    with open_sim(files) as again:
        assert again.state == [1, 2, 3]
