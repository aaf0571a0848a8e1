"""Committers: tickets run in the order they were handed over, together where they wait together."""

import threading

from durasess.engine import scheduler as scheduler_module
from durasess.engine.scheduler import MAX_TOGETHER, InlineScheduler, ThreadScheduler
from durasess.engine.tickets import Ticket, settle_together
from tests.support.sessions import PATIENCE_S, outcome_of


def settle_all(tickets):
    """A committer whose work is to say what it was given."""
    settle_together([(ticket, ticket.work, None) for ticket in tickets if ticket.claim()])


# Who was answered together


def gathered(monkeypatch, before, arriving):
    """What waits when the next batch begins behind one of `before`; each pause brings what the next
    number of `arriving` says."""
    scheduler = ThreadScheduler()
    numbers = iter(arriving)

    def sleep(seconds):
        assert seconds == 0, "nobody waits for who does not come"
        for _ in range(next(numbers)):
            scheduler.submit(Ticket("work"))

    monkeypatch.setattr(scheduler_module.time, "sleep", sleep)
    scheduler._shared = before
    scheduler._let_others_in()
    return scheduler._waiting.qsize(), list(numbers)


def test_who_was_answered_together_is_let_in_again_before_the_next_batch(monkeypatch):
    assert gathered(monkeypatch, 4, [1, 2, 1, 9]) == (4, [9])


def test_nobody_is_waited_for_who_does_not_come(monkeypatch):
    assert gathered(monkeypatch, 4, [0, 9]) == (0, [9])
    assert gathered(monkeypatch, 4, [2, 0, 9]) == (2, [9])


def test_caller_that_is_alone_is_not_let_in(monkeypatch):
    assert gathered(monkeypatch, 1, [9]) == (0, [9])


# ThreadScheduler


def test_tickets_run_in_the_order_they_were_handed_over():
    seen = []

    def run(tickets):
        seen.extend(ticket.work for ticket in tickets)
        settle_all(tickets)

    scheduler = ThreadScheduler()
    scheduler.start(run)
    tickets = [Ticket(n) for n in range(500)]
    for ticket in tickets:
        scheduler.submit(ticket)
    scheduler.stop()
    assert seen == list(range(500))
    assert all(ticket.is_settled for ticket in tickets)


def test_what_waits_together_is_run_together_up_to_a_limit():
    sizes = []

    def run(tickets):
        sizes.append(len(tickets))
        settle_all(tickets)

    scheduler = ThreadScheduler()
    for n in range(MAX_TOGETHER + 500):
        scheduler.submit(Ticket(n))
    scheduler.start(run)
    scheduler.stop()
    assert [size for size in sizes if size] == [MAX_TOGETHER, 500]


def turns(monkeypatch, *, comes_back_s, kept_s, calls=6):
    """How many tickets each run of a committer did, for one caller that comes back at once."""
    monkeypatch.setattr(scheduler_module, "COMES_BACK_S", comes_back_s)
    monkeypatch.setattr(scheduler_module, "MAX_KEPT_S", kept_s)
    sizes = []

    def run(tickets):
        settle_all(tickets)
        done = len(tickets)
        while scheduler.expects_more():
            more = scheduler.more()
            settle_all(more)
            done += len(more)
        sizes.append(done)

    scheduler = ThreadScheduler()
    scheduler.start(run)
    for n in range(calls):
        assert Ticket(n).wait(scheduler.submit) == n
    scheduler.stop()
    return sizes


def test_caller_that_came_back_at_once_is_waited_for_in_the_same_run(monkeypatch):
    first, rest, *ended = turns(monkeypatch, comes_back_s=PATIENCE_S, kept_s=PATIENCE_S)
    assert (first, rest) == (1, 5), "nobody is waited for who has not come back before"
    assert sum(ended) == 0


def test_caller_that_takes_its_time_is_not_waited_for(monkeypatch):
    assert turns(monkeypatch, comes_back_s=0, kept_s=PATIENCE_S)[:6] == [1] * 6


def test_run_is_not_gone_on_with_for_ever(monkeypatch):
    assert turns(monkeypatch, comes_back_s=PATIENCE_S, kept_s=0)[:6] == [1] * 6


def test_stop_ends_a_run_that_waits_for_more(monkeypatch):
    """It returns at once: PATIENCE_S is how long the run would wait."""
    monkeypatch.setattr(scheduler_module, "COMES_BACK_S", 1e6)
    monkeypatch.setattr(scheduler_module, "MAX_KEPT_S", 1e6)
    waits = threading.Event()

    def run(tickets):
        settle_all(tickets)
        while scheduler.expects_more():
            waits.set()
            settle_all(scheduler.more())

    scheduler = ThreadScheduler()
    scheduler.start(run)
    assert [Ticket(n).wait(scheduler.submit) for n in (1, 2)] == [1, 2]
    assert waits.wait(PATIENCE_S)
    scheduler.stop()
    assert not scheduler._thread.is_alive()


def test_who_was_waited_for_in_vain_is_not_waited_for_again(monkeypatch):
    scheduler = ThreadScheduler()
    scheduler._come_back = True
    monkeypatch.setattr(scheduler_module, "COMES_BACK_S", 0)
    assert scheduler.expects_more()
    assert scheduler.more() == ()
    assert not scheduler.expects_more()


def test_committer_is_a_daemon_so_that_a_stuck_disk_does_not_hold_up_the_exit():
    scheduler = ThreadScheduler("name-of-it")
    scheduler.start(settle_all)
    (thread,) = [one for one in threading.enumerate() if one.name == "name-of-it"]
    assert thread.daemon
    scheduler.stop()
    assert not thread.is_alive()


def test_background_job_runs_beside_the_committer():
    done = threading.Event()
    ThreadScheduler().background(done.set)
    assert done.wait(PATIENCE_S)


def test_stop_inside_the_committer_does_not_wait_for_itself():
    scheduler = ThreadScheduler()
    stopped = threading.Event()

    def run(_tickets):
        scheduler.stop()
        stopped.set()

    scheduler.start(run)
    scheduler.submit(Ticket("work"))
    assert stopped.wait(PATIENCE_S)


def test_ticket_handed_over_after_the_stop_is_not_left_waiting():
    scheduler = ThreadScheduler()
    scheduler.start(settle_all)
    scheduler.stop()
    assert outcome_of(lambda: Ticket("late").wait(scheduler.submit)) == "late"


# InlineScheduler


def test_inline_commit_runs_inside_the_call():
    scheduler = InlineScheduler()
    scheduler.start(settle_all)
    assert Ticket("work").wait(scheduler.submit) == "work"


def test_inline_background_jobs_wait_and_run_oldest_first():
    scheduler = InlineScheduler()
    seen = []
    scheduler.background(lambda: seen.append(1))
    scheduler.background(lambda: seen.append(2))
    assert seen == []
    assert scheduler.run_background()
    assert seen == [1]
    assert scheduler.run_background()
    assert not scheduler.run_background()
    assert seen == [1, 2]


def test_inline_wait_runs_the_jobs_that_the_ticket_needs():
    scheduler = InlineScheduler()
    ticket = Ticket(None)
    scheduler.background(lambda: ticket.settle("made"))
    assert scheduler.wait(ticket) == "made"


def test_inline_scheduler_that_was_not_started_runs_nothing():
    """As when an open is interrupted before."""
    scheduler = InlineScheduler()
    ticket = Ticket(lambda: 1)
    scheduler.submit(ticket)
    scheduler.stop()
    assert not ticket.is_settled and not scheduler.is_committing()
    assert not scheduler.expects_more() and list(scheduler.more()) == []
