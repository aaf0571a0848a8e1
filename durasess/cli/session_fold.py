"""The session layer's own reducer for the command: is it a session, and what is its state? Reads
only, and goes as far as the log can be read; what a state looks like to people is elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from durasess.cli import events, salvage, states
from durasess.cli.examine import Inspected, described
from durasess.cli.output import Step
from durasess.engine import codec, files, fold, meta
from durasess.engine.types import Event, LineError
from durasess.engine.verify import Verified
from durasess.errors import DurasessError
from durasess.session import events as types
from durasess.session.migrations import MIGRATIONS
from durasess.session.reducer import Reducer
from durasess.session.state import SessionState


class SessionFolding:
    """Folds a session's events as the session layer does, older versions migrated. The program's
    own reducers are not known here; `remarks` say what that means."""

    def __init__(self) -> None:
        self.reducer = Reducer()
        self._fold = fold.Fold(
            initial=self.reducer.initial,
            apply=self.reducer.apply,
            schema_version=types.SCHEMA_VERSION,
            migrations=MIGRATIONS,
            state_type=SessionState,
        )
        self._passed: set[str] = set()

    @property
    def name(self) -> str:
        """For messages."""
        return "the session layer's reducer"

    def start(self) -> SessionState:
        """The state before event 1."""
        return self.reducer.initial()

    def stored(self, version: int, raw: bytes, *, seq: int) -> SessionState:
        """A snapshot's state; UnusableError when it is not a session's. Other JSON objects decode
        as one too: then it does not say its seq."""
        try:
            stored: SessionState = fold.stored_state(msgspec.Raw(raw), version, self._fold)
        except Exception as error:
            raise states.UnusableError(f"its state is none of a session: {error}") from error
        if stored.seq != seq:
            raise states.UnusableError(f"its state is none of a session after seq {seq:,}")
        return stored

    def plain(self, version: int, raw: bytes, *, seq: int) -> Any:
        """A snapshot's state as the newest version has it, as JSON values."""
        return codec.decode(codec.encode(self.stored(version, raw, seq=seq)))

    def migrated(self, event: Event, version: int) -> Event:
        """An event of an older version as the newest has it."""
        return fold.migrated(event, version, self._fold)

    def step(self, before: SessionState, event: Event) -> SessionState:
        """The state after one event; UnusableError when it cannot be folded."""
        if event.type not in types.TYPES:
            self._passed.add(event.type)
        try:
            return self.reducer.apply(before, event)
        except Exception as error:
            raise states.UnusableError(f"seq {event.seq:,} cannot be folded: {error!r}") from error

    def remarks(self, versions: set[int]) -> list[str]:
        """What to know of a state that was folded."""
        said = []
        newest = max(versions, default=0)
        if newest > types.SCHEMA_VERSION:
            said.append(
                f"Schema version {newest} is newer than {types.SCHEMA_VERSION}, the newest that "
                "this durasess knows: some of it may not be shown."
            )
        if self._passed:
            names = ", ".join(sorted(self._passed))
            said.append(
                f"The program's own events ({names}) were passed over: their reducers are the "
                "program's, and custom state may be older than they are."
            )
        return said


class Newest(NamedTuple):
    """The state as far as it can be computed, and what to know of it."""

    state: SessionState
    remarks: list[str]


def is_session(found: Inspected) -> bool:
    """Whether the session layer made it: by its first event; where that is gone, by what its
    snapshots or meta say."""
    for _, record in events.reading(found).records(events.numbers(found, 1)):
        event, _ = salvage.event_of(record)
        if record.seq == 1 and event is not None:
            return event.type == "session_created"
        break
    return any(map(_looks_like_one, _stored(found))) or _is_summed_up(found)


def newest(found: Inspected, folding: SessionFolding, step: Step) -> Newest:
    """The state after the last event that can be folded; UnusableError when there is none."""
    begin, versions, remarks = _base(found, folding)
    try:
        state, reached, _ = states.fold_on(
            found, begin, found.last_seq, folding, versions=versions, step=step
        )
    except states.UnusableError as error:
        raise states.UnusableError(f"the state cannot be computed: {error}") from error
    if not reached:
        raise states.UnusableError("the state cannot be computed: its first event cannot be read")
    if reached < found.last_seq:
        remarks.append(
            f"This is the state after seq {reached:,}: seq {reached + 1:,} cannot be read, and "
            "nothing behind it is folded."
        )
    return Newest(state, [*remarks, *folding.remarks(versions)])


def state_of(disk: files.Files, found: Verified) -> SessionState | None:
    """The state of a session whose bytes are sound; None when it is not of the session layer, or
    has no event yet. UnusableError when it cannot be computed."""
    looked = described(disk, found)
    if found.first_seq > found.last_seq or not is_session(looked):
        return None
    return newest(looked, SessionFolding(), _ignore).state


def _ignore(amount: int = 1, /) -> None:
    """Nobody watches."""


def after(found: Inspected, folding: SessionFolding, seq: int) -> Iterator[Event]:
    """The events behind `seq` that can be read, as the newest version has them."""
    for scan, record in events.reading(found).records(events.numbers(found, seq + 1)):
        if record.seq <= seq:
            continue
        event, _ = salvage.event_of(record)
        if event is not None:
            yield folding.migrated(event, states.version_of(found, scan))


def _base(found: Inspected, folding: SessionFolding) -> tuple[states.Folded, set[int], list[str]]:
    """Where folding begins: the newest snapshot that is a session's, or the first event."""
    remarks: list[str] = []
    usable = [one for one in found.snapshots if one.reason is None]
    for one in sorted(usable, key=lambda one: one.seq, reverse=True):
        try:
            version, raw = states.stored_state(found, one)
            state = folding.stored(version, raw, seq=one.seq)
            return states.Folded(state, one.seq), {version}, remarks
        except (OSError, LineError, states.UnusableError) as error:
            remarks.append(f"{one.name} was not used: {error}.")
    return states.Folded(folding.start(), 0), set(), remarks


def _stored(found: Inspected) -> Iterator[Any]:
    for one in found.snapshots:
        if one.reason is None:
            try:
                _, raw = states.stored_state(found, one)
                yield codec.decode(raw)
            except (OSError, LineError):
                continue


def _looks_like_one(state: Any) -> bool:
    said = state.get("meta") if isinstance(state, dict) else None
    return isinstance(said, dict) and "created_at" in said and "seq" in state


def _is_summed_up(found: Inspected) -> bool:
    try:
        summary = meta.read(files.RealFiles(), found.path).summary
    except (OSError, LineError, DurasessError):
        return False
    said = summary.data if summary is not None else None
    return isinstance(said, dict) and {"workspace", "open_calls", "created_at"} <= said.keys()
