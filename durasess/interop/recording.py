"""What an importer says of a file → batches of a session's events, with the foreign lines beside.

Each batch also says how far the file has been read, so that a later import goes on there, whatever
happened in between.
"""

from __future__ import annotations

from array import array
from typing import Any

import msgspec

from durasess.engine import codec, values
from durasess.engine.types import MAX_EVENT_BYTES, Draft
from durasess.errors import EventRejectedError
from durasess.interop.beside import FOREIGN, entry_of, foreign_entries, note_masked, size_of
from durasess.interop.decoding import Decoding
from durasess.interop.importer import AtLine, Identity, KeyOf, Mapped
from durasess.interop.tally import Tally
from durasess.session import out_of_line
from durasess.session.core import Core
from durasess.session.pairing import call_key

POSITION = "durasess.import"
"""The name in custom_state under which a session says how far its file was read."""

BATCH_BYTES = 4 * 1024 * 1024
BATCH_EVENTS = 2000
"""Of one write, about."""


_ENVELOPE = 4096
"""Bytes of an event line beside its data, at most."""


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


class Recording:
    """Writes into a session that is open for an import. `blob_bytes` is the size in bytes beyond
    which a value is stored out of line."""

    def __init__(
        self, core: Core, format: str, *, blob_bytes: int, tally: Tally, decoding: Decoding
    ) -> None:
        self._decoding = decoding
        self._core = core
        self._format = format
        self._blob_bytes = blob_bytes
        self._tally = tally
        self._drafts: list[Draft] = []
        self._origins: list[list[Mapped]] = []
        self._sizes: list[int] = []
        self._bytes = 0
        self._next_seq = core.engine.last_seq + 1
        self._seqs = array("Q", [0])
        self._newest: int | None = None
        self._newest_seq = 0
        self._knows_log = core.engine.last_seq == 0

    @property
    def is_full(self) -> bool:
        """Whether it is time to write."""
        return self._bytes >= BATCH_BYTES or len(self._drafts) >= BATCH_EVENTS

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits to be written."""
        return not self._drafts

    def begin(self, identity: Identity, *, custom_version: int, parent: str) -> None:
        """The first events of a new session. The workspace need not exist here."""
        created: dict[str, Any] = {
            "title": identity.title,
            "labels": {"foreign_id": identity.foreign_id, **identity.labels},
            "origin": self._format,
            "custom_version": custom_version,
        }
        if parent:
            created["parent"] = parent
        self._add(Draft("session_created", created), None)
        if identity.workspace:
            self._add(Draft("workspace_bound", {"path": identity.workspace}), None)
        if identity.config:
            self._add(Draft("config_changed", {"config": identity.config}), None)
        self._set_seq(0, self._next_seq - 1)

    def take(self, mapped: Mapped) -> None:
        """One line and what it means."""
        if mapped.again:
            _spend_once(mapped.drafts)
        else:
            self._tally.count(mapped)
        if not mapped.line_number:
            for draft in mapped.drafts:
                self._add(draft, None)
            self._newest = None
            return
        if mapped.drafts:
            main = _main(mapped.drafts)
            for index, draft in enumerate(mapped.drafts):
                self._add(draft, mapped if index == main else None)
            self._newest = len(self._drafts) - len(mapped.drafts) + main
        elif self._newest is not None and mapped.disposition == "mapped":
            self._ride(mapped, self._newest)
        else:
            self._add(self._lonely(mapped), mapped)
            self._newest = None
        self._bytes += len(mapped.line.raw)
        self._sizes[-1 if self._newest is None else self._newest] += size_of(mapped.line)

    def _ride(self, mapped: Mapped, index: int) -> None:
        """A line that says a part of what the event before it says."""
        draft = self._drafts[index]
        self._origins[index].append(mapped)
        draft.data[FOREIGN].append(entry_of(mapped, draft.data))
        note_masked(draft, mapped.line)
        self._set_seq(mapped.line_number, self._newest_seq)

    def _lonely(self, mapped: Mapped) -> Draft:
        return Draft(FOREIGN, {"format": self._format, "disposition": mapped.disposition})

    def _add(self, draft: Draft, mapped: Mapped | None) -> None:
        data = draft.data
        for name in ("to", "through"):
            if isinstance(data.get(name), AtLine):
                data[name] = max(self._seq_of(data[name].line), 1)
        if isinstance(data.get("key"), KeyOf):
            key: KeyOf = data["key"]
            data["key"] = call_key(self._seq_of(key.line), key.call)
        if mapped is not None:
            data[FOREIGN] = [entry_of(mapped, data)]
            if mapped.why and not mapped.again:
                data["import_note"] = mapped.why
            note_masked(draft, mapped.line)
            self._set_seq(mapped.line_number, self._next_seq)
            self._newest_seq = self._next_seq
        self._drafts.append(draft)
        self._origins.append([] if mapped is None else [mapped])
        self._sizes.append(0)
        self._next_seq += 1

    # -- where lines are in the log ---------------------------------------------------------

    def _set_seq(self, line: int, seq: int) -> None:
        missing = line + 1 - len(self._seqs)
        if missing > 0:
            self._seqs.extend([0] * missing)
        self._seqs[line] = seq

    def _seq_of(self, line: int) -> int:
        """The newest event of a line, or of the nearest before it that has one."""
        if not self._knows_log and (line >= len(self._seqs) or not self._seqs[line]):
            self._read_log()
        line = min(line, len(self._seqs) - 1)
        while line and not self._seqs[line]:
            line -= 1
        return self._seqs[line]

    def _read_log(self) -> None:
        """What earlier imports wrote."""
        self._knows_log = True
        newer = list(enumerate(self._seqs))
        for event in self._core.engine.events():
            if event.seq == 1:
                self._set_seq(0, 1)
            for entry in foreign_entries(event.data):
                self._set_seq(entry["line"], event.seq)
        for line, seq in newer:
            if seq:
                self._set_seq(line, seq)

    # -- writing ----------------------------------------------------------------------------

    def write(self, position: Position) -> None:
        """Write what waits with the position behind it; the sync goes on while the next lines are
        read. An event that cannot be stored is replaced by its lines as text, and reported."""
        position.seq = self._next_seq
        data = {"name": POSITION, "value": msgspec.to_builtins(position)}
        drafts = [self._smaller(*one) for one in zip(self._drafts, self._sizes, strict=True)]
        last = Draft("state_set", data)
        try:
            self._core.engine.append_many([*drafts, last], durable=False)
        except EventRejectedError:
            checked = [self._checked(*one) for one in zip(drafts, self._origins, strict=True)]
            self._core.engine.append_many([*checked, last], durable=False)
        self._next_seq = position.seq + 1
        self._drafts, self._origins, self._sizes = [], [], []
        self._bytes, self._newest = 0, None

    def _smaller(self, draft: Draft, size: int) -> Draft:
        """`size` is that of its lines, so nothing in it can be larger."""
        if not self._blob_bytes or size <= self._blob_bytes:
            return draft
        data = out_of_line.store_large(
            draft.data, self._core.engine.put_blob, threshold=self._blob_bytes
        )
        return msgspec.structs.replace(draft, data=data)

    def _checked(self, draft: Draft, origins: list[Mapped]) -> Draft:
        """The seq stays what it is: others refer to it."""
        problem = _problem(draft)
        if problem is None:
            return draft
        data: dict[str, Any] = {"format": self._format, "disposition": "reported"}
        data["import_note"] = problem
        if origins:
            data[FOREIGN] = [self._unstored(mapped) for mapped in origins]
        for mapped in origins:
            if not mapped.again:
                self._tally.report(mapped, problem)
        return Draft(FOREIGN, out_of_line.store_large(data, self._core.engine.put_blob))

    def _unstored(self, mapped: Mapped) -> dict[str, Any]:
        line = mapped.line
        if mapped.again:
            return {"line": line.number, "again": True}
        return {"line": line.number, "text": self._decoding.text(line.raw)}


def _problem(draft: Draft) -> str | None:
    try:
        size = len(codec.encode(values.plain(draft.data)))
    except EventRejectedError as error:
        return str(error)
    limit = MAX_EVENT_BYTES - _ENVELOPE
    return None if size <= limit else f"it makes an event of {size} bytes, {limit} is the most"


def _main(drafts: list[Draft]) -> int:
    """The one that the line is kept beside, and that others mean by its line: the model's message,
    else the last."""
    types = [draft.type for draft in drafts]
    main = "assistant_message"
    return types.index(main) if main in types else len(types) - 1


def _spend_once(drafts: list[Draft]) -> None:
    for draft in drafts:
        draft.data.pop("usage", None)
