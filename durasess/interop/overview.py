"""What there is to say of a session before its first message: plain values, secrets masked already.

How it is found out is in survey.py.
"""

from __future__ import annotations

import msgspec

from durasess.interop.entries import RunFacts
from durasess.session.state import CallStatus, Meta, SessionState, Usage


class Bar(msgspec.Struct, frozen=True):
    """A call in a picture: seconds since 1970."""

    key: str
    begins: float
    ends: float
    status: CallStatus
    name: str


class Point(msgspec.Struct, frozen=True):
    """A model call, or several side by side: when, the largest prompt, the tokens of all so far."""

    at: float
    prompt: int
    total: int


class Gap(msgspec.Struct, frozen=True):
    """Events that cannot be read; a `first` of 1 may be a prune."""

    first: int
    last: int


class Overview(msgspec.Struct, kw_only=True):
    """What there is to say before the first message. Texts are masked.

    `state` is the newest that could be folded. `hidden` are ranges of seqs that were rewound.
    `bars` holds calls by the number of their run. `passed_at` are the times of compactions.
    `damage` and `notices` are sentences.
    """

    session_id: str
    title: str
    meta: Meta
    model: str
    state: SessionState
    first_seq: int
    last_seq: int
    events: int = 0
    started_at: str = ""
    ended_at: str = ""
    messages: int = 0
    runs: list[RunFacts] = msgspec.field(default_factory=list)
    outcomes: dict[str, int] = msgspec.field(default_factory=dict)
    bars: dict[int, list[Bar]] = msgspec.field(default_factory=dict)
    points: list[Point] = msgspec.field(default_factory=list)
    passed_at: list[float] = msgspec.field(default_factory=list)
    usage: Usage = Usage()
    hidden: list[list[int]] = msgspec.field(default_factory=list)
    gaps: list[Gap] = msgspec.field(default_factory=list)
    damage: list[str] = msgspec.field(default_factory=list)
    notices: list[str] = msgspec.field(default_factory=list)

    @property
    def counted_runs(self) -> int:
        """How many runs there are, each once."""
        return sum(not run.is_again for run in self.runs)

    @property
    def is_pruned(self) -> bool:
        """Whether the log begins later than the session."""
        return self.first_seq > 1 and self.last_seq >= self.first_seq
