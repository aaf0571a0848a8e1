"""The rounds of a drill: start a worker, kill -9 it, recover, compare, go on in the session."""

from __future__ import annotations

import os
import statistics
import time
from random import Random

import msgspec

from durasess.cli.drill_compare import Comparison, Tally, Told
from durasess.cli.drill_process import LONGEST_WAIT, Killable
from durasess.cli.drill_source import (
    SEGMENT_BYTES,
    SNAPSHOT_EVERY,
    STREAMS,
    Source,
    fold,
)
from durasess.cli.drill_worker import Orders
from durasess.cli.output import Step
from durasess.cli.salvage import count_segments
from durasess.engine.engine import Engine
from durasess.engine.files import RealFiles
from durasess.engine.receipt import Receipt
from durasess.errors import DurasessError

LONGEST_LIFE = 0.15
"""Seconds that a worker lives at most after its first acknowledgement."""

_SHORTEST_LIFE = 1e-6
_LONGEST_OPENING = 0.03


class WriterResult(msgspec.Struct, kw_only=True):
    """One of several writers: how often it was killed, how many of its events were acknowledged,
    and how many are in the log."""

    writer: int
    kills: int = 0
    acknowledged: int = 0
    events: int = 0


class Result(msgspec.Struct, kw_only=True):
    """What a drill did and found. Times in milliseconds; `unclean` counts recoveries from a log
    that was not sealed, `beyond` events that were recovered though nobody had been told of them.
    With several `writers`, `going_on_ms` is how long after a kill each of the others had its next
    event."""

    kills: int = 0
    kills_while_opening: int = 0
    recoveries: int = 0
    unclean: int = 0
    torn_tails: int = 0
    snapshots: int = 0
    segments: int = 0
    acknowledged: int = 0
    beyond: int = 0
    lost: int = 0
    duplicated: int = 0
    different: int = 0
    recovery_ms_median: float = 0.0
    recovery_ms_max: float = 0.0
    going_on_ms_median: float = 0.0
    going_on_ms_max: float = 0.0
    seconds: float = 0.0
    writers: list[WriterResult] = msgspec.field(default_factory=list)
    problems: list[str] = msgspec.field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        """Whether nothing at all was found."""
        return not (self.problems or self.lost or self.duplicated or self.different)

    def take(self, tally: Tally, recoveries: list[float]) -> None:
        """What was wrong, and how long each recovery took."""
        self.lost = tally.lost
        self.duplicated = tally.duplicated
        self.different = tally.different
        self.problems = tally.problems
        if recoveries:
            self.recovery_ms_median = statistics.median(recoveries)
            self.recovery_ms_max = max(recoveries)


class Drill:
    """One session, killed again and again."""

    def __init__(self, path: str, source: Source, rng: Random) -> None:
        self._path = path
        self._source = source
        self._rng = rng
        self._tally = Tally()
        self._told = Told()
        self._issued: dict[int, int] = {}
        self._comparison = Comparison(source, self._tally, self._issued)
        self._snapshots: set[int] = set()
        self._recoveries: list[float] = []
        self._last: Receipt | None = None
        self._result = Result()

    def run(self, kills: int, step: Step) -> Result:
        """Kill so many workers, or fewer when something was found; `step` is called after each."""
        started = time.perf_counter()
        while self._result.kills < kills and self._tally.is_clean:
            self._kill_one(while_opening=False)
            step()
            # Now and then the process that recovers is killed too, before anybody could look.
            if self._rng.random() < 0.25 and self._result.kills < kills:
                self._kill_one(while_opening=True)
                step()
            self._recover()
        if self._tally.is_clean:
            self._comparison.compare_again(self._path)
            self._result.segments = count_segments(RealFiles(), self._path)
        self._result.seconds = time.perf_counter() - started
        return self._summed_up()

    # -- kill -------------------------------------------------------------------------------

    def _kill_one(self, *, while_opening: bool) -> None:
        streams = self._rng.sample(range(STREAMS), self._rng.choice((1, 1, 2, 3)))
        orders = Orders(
            path=self._path,
            source=self._source,
            seed=self._rng.getrandbits(32),
            streams=streams,
            slow=self._rng.random() < 0.5,
        )
        lives = lifetime(self._rng, while_opening=while_opening)
        worker = Killable(orders)
        try:
            has_begun = worker.wait_for("opening" if while_opening else "acknowledged")
            time.sleep(lives)
        finally:
            was_alive = worker.kill()
            self._told.add(worker.told())
        self._result.kills += 1
        self._result.kills_while_opening += while_opening
        if not was_alive and not self._told.failures:
            self._tally.add(f"the worker ended before it was killed: {worker.last_words()}")
        elif not has_begun:
            self._tally.add(f"the worker told nothing for {LONGEST_WAIT:.0f} s")
        for failure in self._told.failures:
            self._tally.add(f"the worker failed: {failure.strip()}")

    # -- recover and compare ----------------------------------------------------------------

    def _recover(self) -> None:
        told, self._told = self._told, Told()
        for stream, position in told.issued.items():
            self._issued[stream] = max(position, self._issued.get(stream, 0))
        before = self._comparison.last_seq
        if told.last_seq > before:
            self._last = self._receipt(told.last_seq, told.acknowledged[told.last_seq])
        started = time.perf_counter()
        try:
            engine = reopen(self._path, self._last)
        except DurasessError as error:
            self._tally.add(f"the session could not be opened again: {error}")
            self._count_loss(told)
            return
        self._recoveries.append((time.perf_counter() - started) * 1000)
        try:
            self._comparison.compare(
                engine.events(after=before), told.acknowledged, engine.last_seq
            )
            self._comparison.compare_state(engine.state)
        except DurasessError as error:
            self._tally.add(f"the session could not be read again: {error}")
        self._note(engine, told, before)
        if self._comparison.last_seq > 0:
            # What was recovered is durable now, acknowledged or not.
            self._last = self._receipt(self._comparison.last_seq, self._comparison.crcs[-1])
        if self._rng.random() < 0.5:
            engine.close()
        else:
            engine.abandon()

    def _receipt(self, seq: int, crc: str) -> Receipt:
        return Receipt(os.path.basename(self._path), seq, crc)

    def _count_loss(self, told: Told) -> None:
        """Opening refused, as it must when something is missing: count what that is."""
        try:
            with Engine.open(self._path, apply=fold, mode="read") as engine:
                events = engine.events(after=self._comparison.last_seq)
                self._comparison.compare(events, told.acknowledged, engine.last_seq)
        except (DurasessError, ValueError) as error:
            self._tally.add(f"the session could not be read either: {error}")

    def _note(self, engine: Engine, told: Told, before: int) -> None:
        recovery = engine.recovery
        self._snapshots |= told.snapshots | {recovery.snapshot_seq} - {0}
        self._result.recoveries += 1
        self._result.unclean += not recovery.clean
        self._result.torn_tails += recovery.torn is not None
        self._result.acknowledged += max(0, told.last_seq - before)
        self._result.beyond += max(0, engine.last_seq - max(told.last_seq, before))

    def _summed_up(self) -> Result:
        self._result.take(self._tally, self._recoveries)
        self._result.snapshots = len(self._snapshots)
        return self._result


def lifetime(rng: Random, *, while_opening: bool) -> float:
    """Seconds that a worker goes on, often very few: the moments around its first event."""
    if while_opening:
        return rng.uniform(0.0, _LONGEST_OPENING)
    if rng.random() < 0.5:
        return rng.uniform(0.0, LONGEST_LIFE)
    return float(_SHORTEST_LIFE * (LONGEST_LIFE / _SHORTEST_LIFE) ** rng.random())


def reopen(path: str, at_least: Receipt | None) -> Engine:
    """Recover as a harness does: for writing, and not below the last receipt."""
    return Engine.open(
        path,
        apply=fold,
        at_least=at_least,
        snapshot_every=SNAPSHOT_EVERY,
        segment_bytes=SEGMENT_BYTES,
    )
