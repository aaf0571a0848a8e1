"""One committer: tickets are claimed once, settled once, run in order; callers learn the truth."""

import asyncio
import threading

import pytest

from durasess.engine.scheduler import InlineScheduler
from durasess.engine.tickets import Ticket, settle_together
from tests.support.sessions import PATIENCE_S, open_session, outcome_of


def settle_all(tickets):
    """A committer whose work is to say what it was given."""
    settle_together([(ticket, ticket.work, None) for ticket in tickets if ticket.claim()])


# Ticket


def test_ticket_is_claimed_by_the_first_only():
    ticket = Ticket("work")
    assert ticket.claim()
    assert not ticket.claim()


def test_ticket_that_many_threads_claim_is_claimed_once():
    ticket = Ticket("work")
    start = threading.Barrier(8)
    won = []

    def claim():
        start.wait()
        won.append(ticket.claim())

    threads = [threading.Thread(target=claim) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == [False] * 7 + [True]


def test_everybody_who_waits_for_one_ticket_gets_its_result():
    ticket = Ticket("work")
    found = []

    def wait():
        found.append(ticket.wait())

    threads = [threading.Thread(target=wait, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    ticket.settle(7)
    for thread in threads:
        thread.join(PATIENCE_S)
    assert found == [7, 7, 7]


def test_second_settle_changes_nothing():
    ticket = Ticket("work")
    ticket.settle("first")
    ticket.settle(error=ValueError("second"))
    assert ticket.outcome() == "first"


def test_wait_hands_over_and_returns_the_result():
    ticket = Ticket("work")
    assert ticket.wait(lambda given: given.settle(given.work)) == "work"


def test_wait_raises_the_error():
    ticket = Ticket("work")
    ticket.settle(error=ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        ticket.wait()


def interrupt(_ticket):
    raise KeyboardInterrupt


def test_wait_that_is_interrupted_before_the_claim_withdraws_the_work():
    ticket = Ticket("work")
    with pytest.raises(KeyboardInterrupt) as caught:
        ticket.wait(interrupt)
    assert "nothing was written" in caught.value.__notes__[0]
    assert not ticket.claim()


def test_wait_that_is_interrupted_after_the_claim_says_the_outcome_is_unknown():
    ticket = Ticket("work")
    ticket.claim()
    with pytest.raises(KeyboardInterrupt) as caught:
        ticket.wait(interrupt)
    assert "outcome of this call is unknown" in caught.value.__notes__[0]


async def waiting_on(ticket, scheduler):
    task = asyncio.create_task(ticket.wait_async(scheduler.submit))
    await asyncio.sleep(0)
    return task


class NotYet(InlineScheduler):
    """Keeps tickets until the test lets them through."""

    def __init__(self):
        super().__init__()
        self.kept = []

    def submit(self, ticket):
        self.kept.append(ticket)


def test_coroutine_wakes_with_the_result():
    async def main():
        ticket = Ticket("work", asyncio.get_running_loop().create_future())
        scheduler = NotYet()
        task = await waiting_on(ticket, scheduler)
        threading.Thread(target=settle_all, args=(scheduler.kept,)).start()
        return await asyncio.wait_for(task, PATIENCE_S)

    assert asyncio.run(main()) == "work"


def cancelled_note(*, claimed):
    async def main():
        ticket = Ticket("work", asyncio.get_running_loop().create_future())
        task = await waiting_on(ticket, NotYet())
        if claimed:
            ticket.claim()
        task.cancel()
        try:
            await task
        except asyncio.CancelledError as cancelled:
            return cancelled.__notes__[0], ticket.claim()

    return asyncio.run(main())


def test_cancelled_task_withdraws_what_was_not_begun():
    note, still_free = cancelled_note(claimed=False)
    assert "nothing was written" in note
    assert not still_free


def test_cancelled_task_whose_commit_began_learns_that_the_outcome_is_unknown():
    note, _ = cancelled_note(claimed=True)
    assert "outcome of this call is unknown" in note


def test_coroutine_that_is_thrown_away_withdraws_what_was_not_begun():
    loop = asyncio.new_event_loop()
    ticket = Ticket("work", loop.create_future())
    waiting = ticket.wait_async(lambda _ticket: None)
    waiting.send(None)
    waiting.close()
    loop.close()
    assert not ticket.claim()


# A time limit


def run_late(ticket, after):
    """Another thread settles the ticket once `after` is set."""

    def run():
        after.wait(PATIENCE_S)
        settle_all([ticket])

    threading.Thread(target=run).start()


def test_work_that_was_not_begun_in_time_is_withdrawn():
    ticket = Ticket("work")
    with pytest.raises(TimeoutError):
        ticket.wait(lambda _ticket: None, timeout=0.01)
    assert not ticket.claim(), "nobody can begin it any more"


def test_work_that_was_begun_in_time_is_waited_for_however_long_it_takes():
    ticket = Ticket("work")
    begun = threading.Event()

    def begin(given):
        assert given.claim()
        threading.Thread(target=lambda: (begun.wait(PATIENCE_S), given.settle("done"))).start()
        threading.Timer(0.05, begun.set).start()

    assert outcome_of(lambda: ticket.wait(begin, timeout=0.001)) == "done"


@pytest.mark.parametrize("timeout", [None, PATIENCE_S])
def test_result_that_comes_in_time_is_returned(timeout):
    ticket = Ticket("work")
    after = threading.Event()
    run_late(ticket, after)
    assert outcome_of(lambda: ticket.wait(lambda _: after.set(), timeout)) == "work"
    assert ticket.wait(timeout=timeout) == "work", "whoever else waits for it gets it, too"


def test_interruption_during_a_timed_wait_withdraws_too():
    ticket = Ticket("work")
    with pytest.raises(KeyboardInterrupt) as caught:
        ticket.wait(interrupt, timeout=PATIENCE_S)
    assert "nothing was written" in caught.value.__notes__[0]


@pytest.mark.parametrize("timeout", [None, PATIENCE_S])
def test_timeout_error_of_the_work_itself_is_its_own_error(timeout):
    """A validator that asks a server may raise one."""
    ticket = Ticket("work")
    ticket.settle(error=TimeoutError("the server did not answer"))
    with pytest.raises(TimeoutError, match="did not answer"):
        ticket.wait(timeout=timeout)


def waited_async(submit, timeout):
    async def main():
        ticket = Ticket("work", asyncio.get_running_loop().create_future())
        try:
            return await ticket.wait_async(submit, timeout), ticket
        except TimeoutError:
            return "withdrawn", ticket

    return asyncio.run(main())


def test_coroutine_withdraws_work_that_was_not_begun_in_time():
    outcome, ticket = waited_async(lambda _ticket: None, 0.01)
    assert outcome == "withdrawn"
    assert not ticket.claim()


def test_coroutine_waits_for_work_that_was_begun_in_time():
    def begin(ticket):
        assert ticket.claim()
        late = threading.Timer(0.05, settle_together, [[(ticket, "done", None)]])
        late.start()

    assert waited_async(begin, 0.001)[0] == "done"


@pytest.mark.parametrize("timeout", [None, PATIENCE_S])
def test_coroutine_gets_a_result_that_comes_in_time(timeout):
    def late(ticket):
        threading.Thread(target=settle_all, args=([ticket],)).start()

    assert waited_async(late, timeout)[0] == "work"
    assert waited_async(lambda ticket: settle_all([ticket]), timeout)[0] == "work"


def test_task_that_is_cancelled_during_a_timed_wait_withdraws_too():
    async def main():
        ticket = Ticket("work", asyncio.get_running_loop().create_future())
        task = asyncio.create_task(ticket.wait_async(lambda _ticket: None, PATIENCE_S))
        await asyncio.sleep(0)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError as cancelled:
            return cancelled.__notes__[0], ticket.claim()

    note, still_free = asyncio.run(main())
    assert "nothing was written" in note
    assert not still_free


# settle_together


def test_coroutines_of_a_closed_loop_are_passed_over():
    loop = asyncio.new_event_loop()
    future = loop.create_future()
    loop.close()
    ticket = Ticket("work", future)
    settle_together([(ticket, "result", None)])
    assert ticket.outcome() == "result"


def test_cancelled_append_of_an_engine_is_withdrawn_or_written(tmp_path):
    async def main(engine):
        tasks = [asyncio.create_task(engine.append_async("counted", n)) for n in range(50)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    with open_session(tmp_path / "s1") as engine:
        outcomes = asyncio.run(main(engine))
        kept = [n for n in range(50) if not isinstance(outcomes[n], BaseException)]
        assert set(range(1, 50, 2)) <= set(kept) <= set(engine.state)
        assert [receipt.seq for receipt in outcomes if not isinstance(receipt, BaseException)] == [
            engine.state.index(n) + 1 for n in kept
        ]
