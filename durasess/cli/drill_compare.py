"""What a drill found against what was issued and acknowledged, event by event."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from durasess.cli.drill_source import Source, fold, place_of
from durasess.engine import codec
from durasess.engine.engine import Engine
from durasess.engine.types import Event
from durasess.errors import DurasessError

PROBLEMS_KEPT = 20
"""Of each drill so many findings are told in words; all are counted."""


class Told(msgspec.Struct):
    """What a worker told before it was killed: receipts by seq, the position up to which each
    stream was issued, the seqs of snapshots."""

    acknowledged: dict[int, str] = msgspec.field(default_factory=dict)
    issued: dict[int, int] = msgspec.field(default_factory=dict)
    snapshots: set[int] = msgspec.field(default_factory=set)
    failures: list[str] = msgspec.field(default_factory=list)

    @property
    def last_seq(self) -> int:
        """The highest seq that was acknowledged; all before it are too, as the log is a prefix."""
        return max(self.acknowledged, default=0)

    def add(self, more: Told) -> None:
        """What another worker told."""
        self.acknowledged |= more.acknowledged
        for stream, position in more.issued.items():
            self.issued[stream] = max(position, self.issued.get(stream, 0))
        self.snapshots |= more.snapshots
        self.failures += more.failures


class Tally(msgspec.Struct):
    """How many events were wrong, and the first findings in words."""

    lost: int = 0
    duplicated: int = 0
    different: int = 0
    problems: list[str] = msgspec.field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        """Whether nothing at all was found."""
        return not (self.lost or self.duplicated or self.different or self.problems)

    def add(self, problem: str) -> None:
        """Keep a finding in words."""
        if len(self.problems) < PROBLEMS_KEPT:
            self.problems.append(problem)


class Comparison:
    """Goes through a log in order; `compare` may be called again for what came behind.

    `expected` computes what must be there, `issued` (stream → position) what at most may be.
    """

    def __init__(self, source: Source, tally: Tally, issued: dict[int, int]) -> None:
        self._source = source
        self._tally = tally
        self._issued = issued
        self._positions: dict[int, int] = {}
        self.state: dict[str, Any] = {}
        self.crcs: list[str] = []

    @property
    def last_seq(self) -> int:
        """Up to where the log was compared."""
        return len(self.crcs)

    def compare(
        self, events: Iterable[Event], acknowledged: dict[int, str], last_seq: int | None = None
    ) -> None:
        """Check these events, which follow those before, and that every receipt has its event.

        `last_seq` is where the log ends; what was compared before must still be there.
        """
        if last_seq is not None and last_seq < self.last_seq:
            gone = self.last_seq - last_seq
            self._lost(gone, f"the log ends at seq {last_seq}, before it was {gone} events longer")
        for event in events:
            self._in_order(event)
            self._check(event)
            self.crcs.append(event.crc)
        for seq, crc in sorted(acknowledged.items()):
            if seq > self.last_seq:
                self._lost(1, f"seq {seq} was acknowledged and is not there")
            elif self.crcs[seq - 1] != crc:
                self._different(
                    f"seq {seq} was acknowledged with crc {crc}, {self.crcs[seq - 1]} is there"
                )

    def compare_state(self, state: Any) -> None:
        """The recovered state must be what the expected events fold into."""
        if codec.encode(state) != codec.encode(self.state):
            self._different(f"the state after seq {self.last_seq} is not that of its events")

    def compare_again(self, path: str) -> None:
        """The whole log once more, from the first event: it must be the one that was compared."""
        again = Comparison(self._source, self._tally, self._issued)
        try:
            with Engine.open(path, apply=fold, mode="read") as engine:
                again.compare(engine.events(), {})
                again.compare_state(engine.state)
        except DurasessError as error:
            self._tally.add(f"the session could not be read at the end: {error}")
        if again.crcs != self.crcs:
            self._tally.lost += max(0, self.last_seq - again.last_seq)
            self._tally.add("the log at the end is not the one that was compared before")

    def _in_order(self, event: Event) -> None:
        expected = self.last_seq + 1
        if event.seq != expected:
            self._different(f"expected seq {expected}, found seq {event.seq}")
            if event.seq > expected:
                self._lost(event.seq - expected, f"seq {expected} to {event.seq - 1} are missing")
                self.crcs += [""] * (event.seq - expected)

    def _check(self, event: Event) -> None:
        place = place_of(event)
        if place is None:
            self._different(f"seq {event.seq} was never issued: {event.type} {event.event_id}")
            return
        stream, position = place
        expected = self._positions.get(stream, 0) + 1
        name = f"seq {event.seq} (event {event.event_id})"
        if position < expected:
            self._tally.duplicated += 1
            self._tally.add(f"{name} is there twice")
            return
        if position > expected:
            missing = position - expected
            self._lost(missing, f"{missing} events before {name} are missing in its stream")
        if position > self._issued.get(stream, 0):
            self._different(f"{name} was never issued")
        self._positions[stream] = position
        draft = self._source.draft(stream, position)
        if event.type != draft.type or codec.encode(event.data) != codec.encode(draft.data):
            self._different(f"{name} is not what was issued")
        said = msgspec.structs.replace(event, type=draft.type, data=draft.data)
        fold(self.state, said)

    def _lost(self, number: int, problem: str) -> None:
        self._tally.lost += number
        self._tally.add(f"lost: {problem}")

    def _different(self, problem: str) -> None:
        self._tally.different += 1
        self._tally.add(f"different: {problem}")
