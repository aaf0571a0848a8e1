"""A place in the log, an event's line as it was read there, and what is said of a damaged one."""

from __future__ import annotations

from typing import NamedTuple

from durasess.engine import codec
from durasess.engine.types import Damage


class Place(NamedTuple):
    """A place in the log: after the event `seq`, where the chain value is `chain`."""

    seq: int
    chain: int

    def __str__(self) -> str:
        return f"seq {self.seq} with chain value {codec.hexed(self.chain)}"


class Record(NamedTuple):
    """An event's line in a segment: `offset` in bytes, `line` without its line feed, `crc` the
    chain value after it. `proven` is False for the first readable line behind damage."""

    offset: int
    line: bytes
    seq: int
    batch: int | None
    crc: int
    proven: bool = True


def damaged(path: str, record: Record, *, rule: str, reason: str) -> Damage:
    """The finding that the line of one event breaks a rule. `path` is the segment's."""
    return Damage(
        path=path,
        offset=record.offset,
        first_seq=record.seq,
        last_seq=record.seq,
        rule=rule,
        reason=reason,
    )
