"""The state after any seq: from a snapshot that is of exactly this seq, or folded by a reducer, the
program's own or the session layer's, from the nearest snapshot before it; else what is known.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import msgspec

from durasess.cli import events, options, salvage
from durasess.cli.blocks import count, span
from durasess.cli.examine import Inspected
from durasess.cli.output import Step
from durasess.engine import codec, files
from durasess.engine.scan import Scan
from durasess.engine.types import Event, LineError
from durasess.engine.verify import SnapshotInfo


class Folding(Protocol):
    """How events become a state. Each method may raise UsageError, which is the user's to mend, or
    UnusableError, which says why there is no such state."""

    @property
    def name(self) -> str:
        """For messages."""

    def start(self) -> Any:
        """The state before event 1."""

    def stored(self, version: int, raw: bytes, *, seq: int) -> Any:
        """The state in a snapshot of this schema version and seq; LineError when it cannot be
        decoded."""

    def plain(self, version: int, raw: bytes, *, seq: int) -> Any:
        """The same as it is shown, as JSON values; LineError likewise."""

    def migrated(self, event: Event, version: int) -> Event:
        """An event that was written with this schema version, as `step` wants it."""

    def step(self, before: Any, event: Event) -> Any:
        """The state after one event."""

    def remarks(self, versions: set[int]) -> list[str]:
        """What to know of a state folded from these schema versions."""


class Folded(NamedTuple):
    """The state after `seq`, and why it could not be folded further."""

    value: Any
    seq: int
    problem: str = ""


class UnusableError(Exception):
    """Why a state cannot be computed."""


class Nearest(msgspec.Struct, frozen=True):
    """Where a fold to a seq begins: the newest usable snapshot before it (None and 0: the state
    before event 1), and how many events lie between."""

    snapshot: str | None
    seq: int
    events: int


class StateAt(msgspec.Struct, kw_only=True):
    """The state after `seq`, if it is `known`: from the `snapshot` of exactly this seq, or folded
    from `nearest`. `remarks` say what to know, or why it is not known."""

    seq: int
    known: bool = False
    snapshot: str | None = None
    nearest: Nearest | None = None
    state: Any = None
    remarks: list[str] = msgspec.field(default_factory=list)

    @property
    def origin(self) -> str:
        """Where it is from, in words."""
        if self.snapshot is not None or self.nearest is None:
            return f"from {self.snapshot}"
        if not self.seq:
            return "the initial state"
        between = count(self.nearest.events, "event")
        if self.nearest.snapshot is None:
            return f"folded from the first event over {between}"
        return f"folded from {self.nearest.snapshot} (seq {self.nearest.seq:,}) over {between}"


def after(found: Inspected, seq: int, folding: Folding | None, step: Step) -> StateAt:
    """What can be said of the state after event `seq`, which is one that was reached; `step` is
    called after each event that was folded. UsageError when the reducer raises."""
    at = StateAt(seq=seq)
    usable = [one for one in found.snapshots if one.reason is None and one.seq <= seq]
    base = max(usable, key=lambda one: one.seq, default=None)
    if base is not None and base.seq == seq:
        _take_snapshot(at, found, base, folding)
        if at.known:
            return at
    at.nearest = Nearest(base.name, base.seq, seq - base.seq) if base else Nearest(None, 0, seq)
    try:
        _check_reachable(found, at.nearest, seq)
        if folding is None:
            at.remarks.append(_without_reducer(at.nearest, seq))
            return at
        at.state = _folded(at, found, base, folding, step)
        at.known = True
    except UnusableError as error:
        at.remarks.append(f"The state after seq {seq:,} cannot be computed: {error}.")
    return at


def events_to_fold(found: Inspected, *seqs: int) -> int:
    """How many events `after` will fold for these seqs, for a progress bar."""
    usable = [one.seq for one in found.snapshots if one.reason is None]
    return sum(seq - max((one for one in usable if one <= seq), default=0) for seq in seqs)


def fold_on(
    found: Inspected,
    begin: Folded,
    upto: int,
    folding: Folding,
    *,
    versions: set[int],
    step: Step,
) -> Folded:
    """The state behind `begin` as far as it can be folded, at most to seq `upto`. `versions` gets
    the schema versions of the events."""
    value, reached, problem = begin
    if reached >= upto:
        return begin
    for scan, record in events.reading(found).records(events.numbers(found, reached + 1)):
        if record.seq <= reached:
            continue
        event, problem = salvage.event_of(record)
        if record.seq != reached + 1 or not record.proven or event is None:
            break
        version = version_of(found, scan)
        versions.add(version)
        value = folding.step(value, folding.migrated(event, version))
        reached = record.seq
        step()
        if reached == upto:
            break
    return Folded(value, reached, problem)


def version_of(found: Inspected, scan: Scan) -> int:
    """The schema version of a segment's events."""
    return scan.header.schema_version if scan.header else found.schema_version


def stored_state(found: Inspected, one: SnapshotInfo) -> tuple[int, bytes]:
    """The schema version and the JSON of the state in a snapshot. OSError or LineError."""
    return salvage.stored_state(files.RealFiles(), found.path, one.name, found.session_id)


def _take_snapshot(
    at: StateAt, found: Inspected, base: SnapshotInfo, folding: Folding | None
) -> None:
    try:
        version, raw = stored_state(found, base)
        at.state = (
            codec.decode(raw) if folding is None else folding.plain(version, raw, seq=base.seq)
        )
    except (OSError, LineError, UnusableError) as error:
        at.remarks.append(f"{base.name} cannot be used: {error}.")
    else:
        at.known, at.snapshot = True, base.name


def _check_reachable(found: Inspected, nearest: Nearest, seq: int) -> None:
    if nearest.events and nearest.seq + 1 < found.first_seq:
        raise UnusableError(
            f"no snapshot of a seq up to {seq:,} is left, and the events before "
            f"seq {found.first_seq:,} are gone"
        )


def _without_reducer(nearest: Nearest, seq: int) -> str:
    between = span(nearest.seq + 1, seq)
    if nearest.snapshot is None:
        known = f"none is of a seq before it, and {count(seq, 'event')} lead there (seq {between})"
    else:
        known = (
            f"the nearest snapshot before it is {nearest.snapshot} of seq {nearest.seq:,}, and "
            f"{count(nearest.events, 'event')} lie between (seq {between})"
        )
    return (
        f"No snapshot is of exactly seq {seq:,}: {known}. Folding them takes the program's own "
        "apply function: give it as --reducer MODULE:NAME."
    )


def _folded(
    at: StateAt, found: Inspected, base: SnapshotInfo | None, folding: Folding, step: Step
) -> Any:
    """The plain JSON of the state after the events between."""
    versions: set[int] = set()
    value = _start(found, base, folding, versions)
    begins = base.seq if base is not None else 0
    folded = fold_on(found, Folded(value, begins), at.seq, folding, versions=versions, step=step)
    if folded.seq < at.seq:
        why = folded.problem and f": {folded.problem}"
        raise UnusableError(f"seq {folded.seq + 1:,} cannot be read{why}")
    at.remarks += folding.remarks(versions)
    try:
        return codec.decode(codec.encode(folded.value))
    except (TypeError, ValueError, OverflowError, RecursionError, LineError) as error:
        raise options.UsageError(
            f"{folding.name} made a state that is no JSON: {error}."
        ) from error


def _start(
    found: Inspected, base: SnapshotInfo | None, folding: Folding, versions: set[int]
) -> Any:
    if base is None:
        return folding.start()
    try:
        version, raw = stored_state(found, base)
        value = folding.stored(version, raw, seq=base.seq)
    except (OSError, LineError) as error:
        raise UnusableError(f"{base.name} cannot be used: {error}") from error
    versions.add(version)
    return value
