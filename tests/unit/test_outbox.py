"""What is durable reaches the state in the log's order, and its callers not before that."""

import pytest

from durasess.engine.admission import Batch
from durasess.engine.outbox import Outbox
from durasess.engine.receipt import Receipt
from durasess.engine.records import Place, Record
from durasess.engine.tickets import Ticket
from durasess.engine.types import LineError
from durasess.errors import SessionFailedError


class Told:
    """Stands for the log, the state and the turns, and keeps what they were told."""

    def __init__(self, *, is_read=True, answers_at_end=True):
        self.is_read = is_read
        self.answers_at_end = answers_at_end
        self.between = []
        self.said = []

    def publish(self, batch):
        self.said.append(("own", [place.seq for place in batch.places]))

    def take(self, records, version):
        self.said.append((version, [record.seq for record in records]))

    def acknowledged(self):
        self.said.append("anchor")

    def unread(self):
        between, self.between = self.between, []
        for one in between:
            if isinstance(one, Exception):
                raise one
            yield 1, [Record(0, b"", seq, None, 0) for seq in one]


def outbox_of(told):
    return Outbox(told, told, told)


def batch_of(*seqs):
    return Batch([b""] * len(seqs), [None] * len(seqs), [Place(seq, 0) for seq in seqs])


def outcome(name="receipt"):
    ticket = Ticket(None)
    ticket.claim()
    return ticket, [name], None


def test_batch_of_a_writer_that_is_alone_is_published_anchored_and_answered_at_once():
    told, one = Told(answers_at_end=False), outcome()
    assert outbox_of(told).publish(batch_of(1), [one])
    assert told.said == [("own", [1]), "anchor"]
    assert one[0].result == ["receipt"]


def test_batch_in_a_turn_is_published_at_once_and_answered_when_it_has_ended():
    told, one = Told(), outcome()
    outbox = outbox_of(told)
    assert outbox.publish(batch_of(1), [one])
    assert told.said == [("own", [1]), "anchor"] and not one[0].is_settled
    outbox.answer(None)
    assert one[0].outcome() == ["receipt"]


def test_batches_behind_what_was_not_read_come_in_the_order_of_the_log():
    told, one, two = Told(is_read=False), outcome("one"), outcome("two")
    outbox = outbox_of(told)
    assert not outbox.publish(batch_of(4, 5), [one])
    assert not outbox.publish(batch_of(6), [two])
    assert told.said == []
    told.between = [[2], [3], [4, 5], [6]]
    outbox.catch_up()
    assert told.said == [(1, [2]), (1, [3]), ("own", [4, 5]), ("own", [6])]
    assert not one[0].is_settled
    outbox.answer(None)
    assert (one[0].outcome(), two[0].outcome()) == (["one"], ["two"])


def test_waiting_batch_is_published_when_nothing_stands_before_it():
    told, one = Told(is_read=False), outcome()
    outbox = outbox_of(told)
    outbox.publish(batch_of(1), [one])
    outbox.catch_up()
    outbox.catch_up()
    assert told.said == [("own", [1])]


def test_who_was_published_gets_its_receipt_and_who_was_not_the_failure():
    told, one = Told(is_read=False), outcome("one")
    two = (Ticket(None), [Receipt("s1", seq, "00000000") for seq in (4, 5, 6)], None)
    outbox = outbox_of(told)
    outbox.publish(batch_of(2), [one])
    outbox.publish(batch_of(4), [two])
    told.between = [[2], LineError("chain", "it does not lead there")]
    with pytest.raises(LineError):
        outbox.catch_up()
    outbox.answer(SessionFailedError("stopped"))
    assert one[0].outcome() == ["one"]
    with pytest.raises(SessionFailedError) as caught:
        two[0].outcome()
    assert "as seq 4 to 6;" in caught.value.__notes__[0]
    outbox.answer(None)


def test_who_waits_is_answered_although_there_is_no_memory_for_a_note(monkeypatch):
    told = Told(is_read=False)
    two = (Ticket(None), [Receipt("s1", 4, "00000000")], None)
    outbox = outbox_of(told)
    outbox.publish(batch_of(4), [two])
    failure = SessionFailedError("stopped")

    def again():
        raise MemoryError

    monkeypatch.setattr(failure, "again", again, raising=False)
    outbox.answer(failure)
    assert two[0].error is failure


def test_what_is_left_waiting_without_a_failure_is_let_go():
    outbox = outbox_of(Told(is_read=False))
    left = outcome()
    outbox.publish(batch_of(4), [left])
    outbox.answer(None)
    assert (left[0].is_settled, left[0].error) == (True, None)
