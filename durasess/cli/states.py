"""The state after any seq: from a snapshot that is of exactly this seq, or folded by the program's
own reducer from the nearest snapshot before it; else what is known.
"""

from __future__ import annotations

from typing import Any

import msgspec

from durasess.cli import events, options, salvage
from durasess.cli.blocks import count, span
from durasess.cli.examine import Inspected
from durasess.cli.output import Step
from durasess.cli.reducer import Reducer
from durasess.engine import codec, files, state
from durasess.engine.types import LineError
from durasess.engine.verify import SnapshotInfo


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


class _UnusableError(Exception):
    """Why a state cannot be computed."""


def after(found: Inspected, seq: int, reducer: Reducer | None, step: Step) -> StateAt:
    """What can be said of the state after event `seq`, which is one that was reached; `step` is
    called after each event that was folded. UsageError when the reducer raises."""
    at = StateAt(seq=seq)
    usable = [one for one in found.snapshots if one.reason is None and one.seq <= seq]
    base = max(usable, key=lambda one: one.seq, default=None)
    if base is not None and base.seq == seq:
        _take_snapshot(at, found, base)
        if at.known:
            return at
    at.nearest = Nearest(base.name, base.seq, seq - base.seq) if base else Nearest(None, 0, seq)
    try:
        _check_reachable(found, at.nearest, seq)
        if reducer is None:
            at.remarks.append(_without_reducer(at.nearest, seq))
            return at
        at.state = _folded(at, found, base, reducer, step)
        at.known = True
    except _UnusableError as error:
        at.remarks.append(f"The state after seq {seq:,} cannot be computed: {error}.")
    return at


def events_to_fold(found: Inspected, *seqs: int) -> int:
    """How many events `after` will fold for these seqs, for a progress bar."""
    usable = [one.seq for one in found.snapshots if one.reason is None]
    return sum(seq - max((one for one in usable if one <= seq), default=0) for seq in seqs)


def _take_snapshot(at: StateAt, found: Inspected, base: SnapshotInfo) -> None:
    try:
        _, raw = salvage.stored_state(files.RealFiles(), found.path, base.name, found.session_id)
        at.state = codec.decode(raw)
    except (OSError, LineError) as error:
        at.remarks.append(f"{base.name} can no longer be read: {error}.")
    else:
        at.known, at.snapshot = True, base.name


def _check_reachable(found: Inspected, nearest: Nearest, seq: int) -> None:
    if nearest.events and nearest.seq + 1 < found.first_seq:
        raise _UnusableError(
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
    at: StateAt, found: Inspected, base: SnapshotInfo | None, reducer: Reducer, step: Step
) -> Any:
    """The plain JSON of the state after the events between."""
    versions: set[int] = set()
    value = _start(found, base, reducer, versions)
    reached = base.seq if base is not None else 0
    reading = events.reading(found)
    numbers = events.numbers(found, reached + 1) if reached < at.seq else []
    for scan, record in reading.records(numbers):
        if record.seq <= reached:
            continue
        event, problem = salvage.event_of(record)
        if record.seq != reached + 1 or not record.proven or event is None:
            raise _UnusableError(f"seq {reached + 1:,} cannot be read{problem and f': {problem}'}")
        versions.add(scan.header.schema_version if scan.header else found.schema_version)
        value = reducer.step(value, event)
        reached = record.seq
        step()
        if reached == at.seq:
            break
    if reached < at.seq:
        raise _UnusableError(f"seq {reached + 1:,} cannot be read")
    if len(versions) > 1:
        said = " and ".join(map(str, sorted(versions)))
        at.remarks.append(f"Schema versions {said} were folded together, without migrations.")
    try:
        return codec.decode(codec.encode(value))
    except (TypeError, ValueError, OverflowError, RecursionError, LineError) as error:
        raise options.UsageError(
            f"{reducer.name} made a state that is no JSON: {error}."
        ) from error


def _start(
    found: Inspected, base: SnapshotInfo | None, reducer: Reducer, versions: set[int]
) -> Any:
    if base is None:
        return reducer.start()
    try:
        version, raw = salvage.stored_state(
            files.RealFiles(), found.path, base.name, found.session_id
        )
        value = state.decode(raw, reducer.state_type())
    except (OSError, LineError) as error:
        raise _UnusableError(f"{base.name} cannot be used: {error}") from error
    versions.add(version)
    return value
