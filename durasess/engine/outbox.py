"""What is durable on its way into the state and to its callers: at once, or behind the turn.

Where others wrote before this writer's batch and that was not read yet, the batch waits until it
was. Where writers share a session, callers are answered when the turn has ended or is kept. Touches
no file but to read what others wrote.
"""

from __future__ import annotations

from durasess.engine.admission import Batch, Outcome
from durasess.engine.live import Live
from durasess.engine.log import Log
from durasess.engine.receipt import Receipt
from durasess.engine.tickets import settle_together
from durasess.engine.turns import Turns
from durasess.errors import DurasessError


class Outbox:
    """Batches that wait for what stands before them, and answers that wait for the turn's end."""

    def __init__(self, live: Live, log: Log, turns: Turns) -> None:
        self._live = live
        self._log = log
        self._turns = turns
        self._waiting: list[tuple[Batch, list[Outcome]]] = []
        self._answers: list[Outcome] = []

    def publish(self, batch: Batch, outcomes: list[Outcome]) -> bool:
        """Take a batch that was synced; whether it is in the state now."""
        if not self._log.is_read:
            self._waiting.append((batch, outcomes))
            return False
        self._live.publish(batch)
        self._turns.acknowledged()
        if self._turns.answers_at_end:
            self._answers += outcomes
        else:
            settle_together(outcomes)
        return True

    def catch_up(self) -> None:
        """Fold what the log has before this writer's place: others' batches, and this writer's own
        among them. LineError when the log does not lead there."""
        for version, records in self._turns.unread():
            if self._waiting and self._waiting[0][0].places[0].seq == records[0].seq:
                self._publish_first()
            else:
                self._live.take(records, version)
        while self._waiting:
            self._publish_first()

    def _publish_first(self) -> None:
        batch, outcomes = self._waiting[0]
        self._live.publish(batch)
        del self._waiting[0]
        self._answers += outcomes

    def answer(self, failure: DurasessError | None) -> None:
        """The turn has ended: answer everybody; who still waits for a state meets the failure."""
        if not self._answers and not self._waiting:
            return
        answers, self._answers = self._answers, []
        settle_together(answers)
        waiting, self._waiting = self._waiting, []
        for _, outcomes in waiting:
            settle_together(
                [(ticket, None, _written(failure, found)) for ticket, found, _ in outcomes]
            )


def _written(failure: DurasessError | None, receipts: list[Receipt]) -> DurasessError | None:
    """The failure as it concerns a call whose events are in the log, though in no state here (P4):
    whoever appends them again has them twice."""
    if failure is None:
        return None
    try:
        return _noted(failure, receipts)
    except MemoryError:
        # Better told less than left waiting.
        return failure


def _noted(failure: DurasessError, receipts: list[Receipt]) -> DurasessError:
    found = failure.again()
    first, last = receipts[0].seq, receipts[-1].seq
    seqs = f"{first} to {last}" if last > first else f"{first}"
    found.add_note(
        f"durasess: what this call appended was written and synced before that, as seq {seqs}; the "
        "next open says whether the log leads there. Do not append it again before."
    )
    return found
