"""The words of the engine as plain values: events, drafts, reports, limits. No effects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

FORMAT = 1
"""The on-disk format this code writes and the newest it reads."""

MAX_DEPTH = 100
"""Containers inside containers in one event's data. Beyond it lie stack limits of JSON readers."""

MAX_STATE_DEPTH = 200
"""Containers inside containers in a state: jq reads 256, and how many Python reads depends on its
version, so one could store what another cannot open."""

MAX_EVENT_BYTES = 16 * 1024 * 1024
"""Default limit of one event line. Larger values belong out of line."""

MAX_BATCH_BYTES = 64 * 1024 * 1024
"""Limit of one `append_many`, which is one write."""

MAX_BATCH_EVENTS = 100_000
"""Limit of one `append_many` in events."""

SEGMENT_BYTES = 2 * 1024 * 1024
"""Default size at which a segment is sealed; a batch may overshoot it."""

SECTOR = 512
"""Bytes that a disk writes as one; a hole left by a power cut covers whole ones."""

FILLER = b"\t"
"""What the active segment's file ends with where nothing was written yet: JSON tools skip it, and
no line has one, since JSON escapes it inside strings."""

BLANKS = b"\0" + FILLER
"""What stands where bytes never reached the disk: zeros where the file was made longer or was going
to be cut, filler where it was already."""

PREALLOCATE = 12 * 1024
"""Default step in bytes by which the active segment's file grows: a sync of bytes inside a file is
cheaper than one that has to make the file longer (measured: benchmarks/bench_append.py). Larger
steps gain little more, and filler is written too."""

MAX_PREALLOCATE = 1024 * 1024

SNAPSHOT_EVERY = 1000
"""Default number of events between two snapshots (docs/decisions/0017)."""

LOCK_TIMEOUT_S = 30.0
"""Seconds that an append waits for the turns of other writers before it is withdrawn."""

EVENT_ID_WINDOW = 1024
"""How many of the newest `event_id`s are remembered for retries."""

Mode = Literal["own", "shared", "read"]


class LineError(Exception):
    """Bytes that are not what the codec writes; `rule` names the rule that they break."""

    def __init__(self, rule: str, reason: str) -> None:
        super().__init__(reason)
        self.rule = rule
        self.reason = reason


# `gc=False`: an event is decoded JSON, which has no circles, and histories are many of them: the
# cyclic collector took a quarter of the time in which they are read.
class Event(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One thing that happened, as it is read back from disk.

    `seq` counts 1, 2, 3 …; `ts` is RFC 3339 in UTC with microseconds, for people only: order is by
    seq. `data` is plain JSON. `crc` is the chain value after this event. `proven` is False for a
    line behind damage, whose checksum could not be tied to the lines before it.
    """

    seq: int
    ts: str
    type: str
    data: Any
    run_id: str | None = None
    call_id: str | None = None
    event_id: str | None = None
    crc: str = ""
    proven: bool = True


class Draft(msgspec.Struct, frozen=True):
    """An event that was not appended yet, so it has no seq. `append_many` takes it where an event
    has a run_id, call_id or event_id."""

    type: str
    data: Any = None
    run_id: str | None = None
    call_id: str | None = None
    event_id: str | None = None


class Migration(msgspec.Struct, frozen=True):
    """Pure functions from schema version v to v + 1; None leaves that part as it is.

    `state` takes and returns plain JSON state; `event` takes and returns an Event.
    """

    state: Callable[[Any], Any] | None = None
    event: Callable[[Event], Event] | None = None


Migrations = Mapping[int, Migration | Callable[[Any], Any]]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How this handle writes. `clock()` is in nanoseconds since 1970."""

    snapshot_every: int
    segment_bytes: int
    preallocate: int
    compress: bool
    clock: Callable[[], int]
    validate: Callable[[Any, Draft], None] | None
    summary: Callable[[Any], Any] | None


class Holder(msgspec.Struct, frozen=True):
    """Who has a session open for writing, as that process wrote it; `since` is RFC 3339.

    It is for messages. Whether somebody has the session open is told by the kernel's lock alone.
    """

    pid: int
    host: str
    boot_id: str
    since: str
    command: str

    def __str__(self) -> str:
        return f"process {self.pid} on host {self.host} since {self.since} ({self.command})"


class Damage(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes that break a rule of FORMAT.md and that no crash can leave.

    `offset` is in bytes from the start of `path`; `first_seq`..`last_seq` is what is affected as
    far as it is known; `rule` names the rule; `reason` says what was expected and found.
    """

    path: str
    offset: int | None = None
    first_seq: int | None = None
    last_seq: int | None = None
    rule: str
    reason: str

    def __str__(self) -> str:
        place = self.path if self.offset is None else f"{self.path} at byte {self.offset}"
        return f"{place}{self._seqs()}: {self.reason} [{self.rule}]"

    def _seqs(self) -> str:
        if self.first_seq is None:
            return ""
        if self.last_seq is None or self.last_seq == self.first_seq:
            return f" (seq {self.first_seq})"
        return f" (seq {self.first_seq} to {self.last_seq})"


class TornTail(msgspec.Struct, frozen=True, kw_only=True):
    """The bytes of the one write that a crash cut short, at the end of the active segment.

    They are `size` bytes of the file `path` from byte `offset` on. `kept` counts events in them
    that lack only the line feed at the end: a writer keeps these, though nobody was told that they
    are written.
    """

    path: str
    offset: int
    size: int
    reason: str
    kept: int = 0


class SegmentInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One segment as it was read."""

    path: str
    number: int
    bytes: int
    events: int
    first_seq: int
    last_seq: int
    sealed: bool
    compressed: bool = False


class Recovery(msgspec.Struct, kw_only=True):
    """What opening found, and what a writer did about it.

    `created`: the session was made by this opening. `clean`: nothing was left to settle.
    `snapshot_seq` is the seq of the snapshot that was read, 0 for none; `replayed` counts the
    events folded after it, up to `last_seq`; those up to `sealed_seq` are in sealed segments.
    `newer_schema`: a newer program wrote it, so it can only be read. `torn` is what a crash left at
    the end of the log, None for nothing. `damage` stops a writer; `notices` are findings that cost
    nothing that was promised (a bad newest snapshot, a lost floor). `quarantined` are paths of
    files that keep what a writer took out.
    """

    session_id: str = ""
    created: bool = False
    clean: bool = True
    snapshot_seq: int = 0
    replayed: int = 0
    last_seq: int = 0
    sealed_seq: int = 0
    schema_version: int = 1
    newer_schema: bool = False
    torn: TornTail | None = None
    damage: list[Damage] = msgspec.field(default_factory=list)
    notices: list[str] = msgspec.field(default_factory=list)
    segments: list[SegmentInfo] = msgspec.field(default_factory=list)
    quarantined: list[str] = msgspec.field(default_factory=list)

    def __str__(self) -> str:
        events = f"events 1 to {self.last_seq}" if self.last_seq else "no events yet"
        parts = [f"session {self.session_id}: {events}"]
        parts.append(f"snapshot at seq {self.snapshot_seq}, {self.replayed} replayed")
        if self.torn is not None:
            parts.append(f"torn tail: {self.torn.size} bytes of {self.torn.path}")
        parts += [f"notice: {notice}" for notice in self.notices]
        parts += [f"damage: {damage}" for damage in self.damage]
        return "; ".join(parts)
