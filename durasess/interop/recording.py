"""What an importer says of a file → batches of a session's events, with the foreign lines beside.

Each batch also says how far the file has been read, so that a later import goes on there, whatever
happened in between.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Protocol

import msgspec

from durasess.engine.admission import Prepared
from durasess.engine.drafting import Encoded
from durasess.engine.scratch import Scratch
from durasess.engine.types import Draft, Event
from durasess.errors import EventRejectedError
from durasess.interop.aside import Numbers
from durasess.interop.beside import (
    FOREIGN,
    foreign_entries,
    note_masked,
    size_of,
)
from durasess.interop.decoding import Decoding
from durasess.interop.importer import AtLine, Identity, KeyOf, Mapped
from durasess.interop.shaping import Shaping, Waiting
from durasess.interop.tally import Tally
from durasess.session.core import Core
from durasess.session.pairing import call_key

POSITION = "durasess.import"
"""The name in custom_state under which a session says how far its file was read."""

BATCH_BYTES = 1024 * 1024
BATCH_EVENTS = 2000
"""Of one write, about."""


_REFERRING = frozenset(["to", "through", "parent_seq", "key"])
"""Members of data that name a line where an importer made them."""


class Position(msgspec.Struct, kw_only=True):
    """How far a file was read: `mapped` values of its importer were taken over; its first `bytes`,
    that is `lines` lines, have this `digest`. `ends` are the lines behind which imports ended.
    `seq` is that of the event that says so. `is_complete` when that was the end of the file."""

    format: str
    source: str
    mapped: int = 0
    lines: int = 0
    bytes: int = 0
    digest: str = ""
    ends: list[int] = []
    seq: int = 0
    is_complete: bool = False


def position_of(core: Core) -> Position | None:
    """How far the session's file was read; None for a session that was not imported."""
    try:
        return msgspec.convert(core.state.custom_state.get(POSITION), Position)
    except msgspec.ValidationError:
        return None


class Log(Protocol):
    """What an import asks of an engine."""

    @property
    def last_seq(self) -> int:
        """The seq of the newest event, 0 when there is none."""

    def events(self) -> Iterator[Event]:
        """All events."""

    def prepared(self, one: Encoded) -> Prepared:
        """Ready to be written; EventRejectedError when it cannot be."""

    def append_prepared(self, events: list[Prepared]) -> None:
        """Write them as one batch."""

    def put_blob(self, data: bytes) -> str:
        """Store bytes out of line; the hash by which events name them."""


class Recording:
    """Writes into a session that is open for an import. `blob_bytes` is the size in bytes beyond
    which a value is stored out of line; `reducers` are the types that the program's own read."""

    def __init__(
        self,
        log: Log,
        format: str,
        *,
        blob_bytes: int,
        reducers: Collection[str],
        tally: Tally,
        decoding: Decoding,
        scratch: Scratch,
    ) -> None:
        self._log = log
        self._format = format
        self._tally = tally
        self._shaping = Shaping(
            format,
            blob_bytes=blob_bytes,
            put_blob=log.put_blob,
            reducers=reducers,
            tally=tally,
            decoding=decoding,
        )
        self._ready: list[Prepared] = []
        self._waiting: list[Waiting] = []
        self._newest: Waiting | None = None
        self._bytes = 0
        self._first_seq = self._next_seq = log.last_seq + 1
        self._seqs = Numbers(scratch)
        self._knows_log = log.last_seq == 0

    @property
    def is_full(self) -> bool:
        """Whether it is time to write."""
        return self._bytes >= BATCH_BYTES or self._next_seq - self._first_seq >= BATCH_EVENTS

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits to be written."""
        return not self._ready and not self._waiting

    def begin(self, identity: Identity, *, custom_version: int, parent: str) -> None:
        """The first events of a new session. The workspace need not exist here."""
        created: dict[str, Any] = {
            "title": identity.title,
            "labels": {"foreign_id": identity.foreign_id, **identity.labels},
            "origin": self._format,
            "custom_version": identity.custom_version or custom_version,
        }
        if identity.user_id:
            created["user_id"] = identity.user_id
        if parent:
            created["parent"] = parent
        self._add(Draft("session_created", created))
        if identity.workspace:
            self._add(Draft("workspace_bound", {"path": identity.workspace}))
        if identity.config:
            self._add(Draft("config_changed", {"config": identity.config}))
        self._seqs.put(0, self._next_seq - 1)

    def take(self, mapped: Mapped) -> None:
        """One line and what it means."""
        drafts = mapped.drafts
        if mapped.again:
            _spend_once(drafts)
        else:
            self._tally.count(mapped)
        line = mapped.line
        if not drafts and self._newest is not None and mapped.disposition == "mapped":
            self._ride(mapped, self._newest)
            return
        if self._waiting:
            self._settle()
        if not line.number:
            for draft in drafts:
                self._add(draft)
            return
        if drafts:
            main = _main(drafts)
            for draft in drafts:
                waiting = self._add(draft)
                if draft is main:
                    self._newest = waiting
                    self._keep_beside(waiting, mapped)
        else:
            self._keep_beside(self._add(self._lonely(mapped)), mapped)

    def _ride(self, mapped: Mapped, waiting: Waiting) -> None:
        """A line that says a part of what the event before it says."""
        waiting.origins.append(mapped)
        waiting.size += size_of(mapped.line)
        if mapped.line.masked:
            note_masked(waiting.draft, mapped.line)
        self._seqs.put(mapped.line.number, waiting.seq)

    def _keep_beside(self, waiting: Waiting, mapped: Mapped) -> None:
        line = mapped.line
        waiting.origins = [mapped]
        waiting.size = size_of(line)
        if not mapped.again and (why := mapped.reason or line.note):
            waiting.draft.data["import_note"] = why
        if line.masked:
            note_masked(waiting.draft, line)
        self._seqs.put(line.number, waiting.seq)

    def _lonely(self, mapped: Mapped) -> Draft:
        return Draft(FOREIGN, {"format": self._format, "disposition": mapped.disposition})

    def _add(self, draft: Draft) -> Waiting:
        if not _REFERRING.isdisjoint(draft.data):
            self._refer(draft.data)
        if draft.type == "assistant_message":
            for asked in draft.data.get("tool_calls", ()):
                if "earlier" in asked:
                    self._refer(asked)
        waiting = Waiting(draft, self._next_seq)
        self._waiting.append(waiting)
        self._next_seq += 1
        return waiting

    def _refer(self, data: dict[str, Any]) -> None:
        """Name events where a line is named."""
        for name in ("to", "through", "parent_seq"):
            if isinstance(data.get(name), AtLine):
                data[name] = max(self._seq_of(data[name].line), 1)
        for name in ("key", "earlier"):
            if isinstance(data.get(name), KeyOf):
                key: KeyOf = data[name]
                data[name] = call_key(self._seq_of(key.line), key.call)

    # -- where lines are in the log ---------------------------------------------------------

    def _seq_of(self, line: int) -> int:
        """The newest event of a line, or of the nearest before it that has one."""
        if not self._knows_log and (line >= len(self._seqs) or not self._seqs[line]):
            self._read_log()
        line = min(line, len(self._seqs) - 1)
        while line and not self._seqs[line]:
            line -= 1
        return self._seqs[line]

    def _read_log(self) -> None:
        """What earlier imports wrote. What waits here to be written is newer."""
        self._knows_log = True
        for event in self._log.events():
            lines = [one["line"] for one in foreign_entries(event.data)]
            for line in [0, *lines] if event.seq == 1 else lines:
                if line >= len(self._seqs) or self._seqs[line] < event.seq:
                    self._seqs.put(line, event.seq)

    # -- writing ----------------------------------------------------------------------------

    def _settle(self) -> None:
        """No later line is part of what waits: encode it. An event that cannot be stored is
        replaced by its lines as text, and reported; its seq stays, since others refer to it."""
        for waiting in self._waiting:
            try:
                ready = self._log.prepared(self._shaping.encoded(waiting))
            except (EventRejectedError, ValueError, OverflowError, RecursionError) as error:
                ready = self._log.prepared(self._shaping.replaced(waiting, error))
            self._ready.append(ready)
            self._bytes += len(ready.body)
        self._waiting.clear()
        self._newest = None

    def write(self, position: Position) -> None:
        """Write what waits with the position behind it; the sync goes on while the next lines are
        read."""
        self._settle()
        position.seq = self._next_seq
        data = {"name": POSITION, "value": msgspec.to_builtins(position)}
        self._add(Draft("state_set", data))
        self._settle()
        ready, self._ready, self._bytes = self._ready, [], 0
        self._first_seq = self._next_seq
        self._log.append_prepared(ready)


def _main(drafts: list[Draft]) -> Draft:
    """The one that the line is kept beside, and that others mean by its line: the model's message,
    else the last."""
    if len(drafts) > 1:
        for draft in drafts:
            if draft.type == "assistant_message":
                return draft
    return drafts[-1]


def _spend_once(drafts: list[Draft]) -> None:
    for draft in drafts:
        draft.data.pop("usage", None)
