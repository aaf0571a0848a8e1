"""The rounds of a drill with several writers: they append to one session in turns, one of them is
killed, the others must go on, and all that is in the log is compared beside them."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from random import Random

from durasess.cli.drill_compare import Comparison, Tally, Told
from durasess.cli.drill_process import LONGEST_WAIT, Killable
from durasess.cli.drill_rounds import Result, WriterResult, lifetime, reopen
from durasess.cli.drill_source import STREAMS, Source, fold, place_of
from durasess.cli.drill_worker import Orders
from durasess.cli.output import Step
from durasess.cli.salvage import count_segments
from durasess.engine.engine import Engine
from durasess.engine.files import RealFiles
from durasess.engine.receipt import Receipt
from durasess.engine.types import Event
from durasess.errors import DurasessError


class SharedDrill:
    """One session and several writers of it, one of which is killed again and again."""

    def __init__(self, path: str, source: Source, rng: Random, writers: int) -> None:
        self._path = path
        self._source = source
        self._rng = rng
        self._tally = Tally()
        self._issued: dict[int, int] = {}
        self._comparison = Comparison(source, self._tally, self._issued)
        self._workers: list[Killable] = []
        self._snapshots: set[int] = set()
        self._waits: list[float] = []
        self._recoveries: list[float] = []
        self._acknowledged: set[int] = set()
        self._last: Receipt | None = None
        self._writers = [WriterResult(writer=number) for number in range(1, writers + 1)]
        self._result = Result(writers=self._writers)

    def run(self, kills: int, step: Step) -> Result:
        """Kill so many workers, or fewer when something was found; `step` is called after each."""
        started = time.perf_counter()
        try:
            # All at once: who is first makes the session.
            self._workers = [self._start(one) for one in range(len(self._writers))]
            while self._result.kills < kills and self._tally.is_clean:
                self._round()
                step()
        finally:
            for worker in self._workers:
                worker.kill()
        if self._tally.is_clean:
            # They all died at once: now one that owns the session recovers it.
            self._compare(lambda: reopen(self._path, self._last))
        if self._tally.is_clean:
            self._comparison.compare_again(self._path)
        self._result.seconds = time.perf_counter() - started
        return self._summed_up()

    # -- one round --------------------------------------------------------------------------

    def _start(self, index: int) -> Killable:
        first = index * STREAMS
        streams = self._rng.sample(range(first, first + STREAMS), self._rng.choice((1, 1, 2, 3)))
        return Killable(
            Orders(
                path=self._path,
                source=self._source,
                seed=self._rng.getrandbits(32),
                streams=streams,
                slow=self._rng.random() < 0.5,
                shared=True,
            )
        )

    def _round(self) -> None:
        victim = self._rng.randrange(len(self._workers))
        # Now and then it is killed while it joins, before it has appended anything.
        while_opening = self._rng.random() < 0.25
        worker = self._workers[victim]
        has_begun = worker.wait_for("opening" if while_opening else "acknowledged")
        time.sleep(lifetime(self._rng, while_opening=while_opening))
        others = [one for one in self._workers if one is not worker]
        counts = [one.count("acknowledged") for one in others]
        was_alive = worker.kill()
        killed = time.perf_counter()
        self._result.kills += 1
        self._result.kills_while_opening += while_opening
        self._writers[victim].kills += 1
        if not was_alive and not worker.has_failed:
            self._tally.add(f"writer {victim + 1} ended by itself: {worker.last_words()}")
        elif not has_begun:
            self._tally.add(f"writer {victim + 1} told nothing for {LONGEST_WAIT:.0f} s")
        self._check_going_on(others, counts, killed)
        self._compare(lambda: Engine.open(self._path, apply=fold, mode="read", at_least=self._last))
        if self._tally.is_clean:
            self._workers[victim] = self._start(victim)

    def _check_going_on(self, others: list[Killable], counts: list[int], killed: float) -> None:
        """Each of the others must append again, whatever the dead one was doing."""
        for worker, count in zip(others, counts, strict=True):
            number = self._workers.index(worker) + 1
            if not worker.wait_for("acknowledged", more_than=count):
                waited = f"for {LONGEST_WAIT:.0f} s after another was killed"
                self._tally.add(f"writer {number} got no event in {waited}")
            elif not worker.is_alive and not worker.has_failed:
                self._tally.add(f"writer {number} ended by itself: {worker.last_words()}")
            elif count and worker.is_alive:
                self._waits.append((time.perf_counter() - killed) * 1000)

    # -- compare ----------------------------------------------------------------------------

    def _compare(self, opening: Callable[[], Engine]) -> None:
        """What is in the log, beside the writers, with what they told before it was read."""
        told = self._take_told()
        before = self._comparison.last_seq
        started = time.perf_counter()
        try:
            with opening() as engine:
                self._recoveries.append((time.perf_counter() - started) * 1000)
                events = list(engine.events(after=before))
                for damage in engine.damage:
                    self._tally.add(f"damage: {damage}")
                self._wait_until_issued(events)
                self._comparison.compare(events, told.acknowledged, engine.last_seq)
                self._comparison.compare_state(engine.state)
                recovery = engine.recovery
        except DurasessError as error:
            self._tally.add(f"the session could not be read: {error}")
            return
        self._result.recoveries += 1
        self._result.unclean += not recovery.clean
        self._result.torn_tails += recovery.torn is not None
        self._snapshots |= told.snapshots | {recovery.snapshot_seq} - {0}
        for event in events:
            index = self._index_of(event)
            if index is not None:
                self._writers[index].events += 1
        seq = max(told.acknowledged, default=0)
        if self._tally.is_clean and seq > (self._last.seq if self._last else 0):
            crc = self._comparison.crcs[seq - 1]
            self._last = Receipt(os.path.basename(self._path), seq, crc)

    def _take_told(self) -> Told:
        told = Told()
        for worker, counts in zip(self._workers, self._writers, strict=True):
            one = worker.told()
            told.add(one)
            counts.acknowledged += len(one.acknowledged.keys() - self._acknowledged)
            self._acknowledged |= one.acknowledged.keys()
        for failure in told.failures:
            self._tally.add(f"a writer failed: {failure.strip()}")
        for stream, position in told.issued.items():
            self._issued[stream] = max(position, self._issued.get(stream, 0))
        return told

    def _wait_until_issued(self, events: list[Event]) -> None:
        """A writer tells before it appends, but what it told may still be in its pipe."""
        for event in events:
            index = self._index_of(event)
            stream, position = place_of(event) or (0, 0)
            if index is not None and position > self._issued.get(stream, 0):
                self._issued[stream] = self._workers[index].issued(stream, position)

    def _index_of(self, event: Event) -> int | None:
        """Of the writer that an event is from."""
        place = place_of(event)
        index = None if place is None else place[0] // STREAMS
        return index if index is not None and index < len(self._writers) else None

    def _summed_up(self) -> Result:
        result = self._result
        result.take(self._tally, self._recoveries)
        # All before the last one that was acknowledged are so too, as the log is a prefix.
        result.acknowledged = max(self._acknowledged, default=0)
        result.beyond = max(0, self._comparison.last_seq - result.acknowledged)
        result.snapshots = len(self._snapshots)
        result.segments = count_segments(RealFiles(), self._path)
        if self._waits:
            result.going_on_ms_median = statistics.median(self._waits)
            result.going_on_ms_max = max(self._waits)
        return result
