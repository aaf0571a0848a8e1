"""An event with the foreign lines it was made of → what is written of it.

What of it cannot be stored is replaced by its lines as text, and reported.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import msgspec

from durasess.engine import codec
from durasess.engine.drafting import Encoded
from durasess.engine.types import Draft
from durasess.interop.beside import (
    FOREIGN,
    encoded_entry,
    entry_of,
    problem_of,
    with_entries,
)
from durasess.interop.decoding import FLAT, Decoding
from durasess.interop.importer import Mapped
from durasess.interop.tally import Tally
from durasess.session import events, large_fields, out_of_line

_BESIDE = b'"%s":[%%s]' % FOREIGN.encode()


class Waiting(msgspec.Struct):
    """An event that a later line may still be part of: it is kept beside those of `origins`, whose
    size in bytes is `size`."""

    draft: Draft
    seq: int
    origins: list[Mapped] = []
    size: int = 0


class Shaping:
    """Makes them. `blob_bytes` is the size in bytes beyond which a value is handed to `put_blob`
    and stored out of line, 0 for never; `reducers` are the types that the program's own read."""

    def __init__(
        self,
        format: str,
        *,
        blob_bytes: int,
        put_blob: Callable[[bytes], str],
        reducers: Collection[str],
        tally: Tally,
        decoding: Decoding,
    ) -> None:
        self._format = format
        self._blob_bytes = blob_bytes
        self._put_blob = put_blob
        self._looked_at = set(reducers) - events.TYPES.keys()
        self._tally = tally
        self._decoding = decoding

    def encoded(self, waiting: Waiting) -> Encoded:
        """Only a reducer of the program's may look at the lines beside an event."""
        draft, data, beside = waiting.draft, waiting.draft.data, b""
        value: Any = None
        is_flat = False
        if self._blob_bytes and waiting.size > self._blob_bytes:
            # It is that of its lines, so nothing in a smaller one can be large.
            encoded = codec.encode(self._stored(draft.type, self._with_lines(waiting)))
        elif draft.type in self._looked_at:
            encoded = codec.encode(self._with_lines(waiting))
        else:
            encoded, is_exact = codec.encoded(data)
            value = data if is_exact else None
            if waiting.origins:
                # Without a line, it may be of any part of one.
                is_flat = not self._decoding.had_deep
                entries = []
                for mapped in waiting.origins:
                    entries.append(encoded_entry(mapped, data))
                    is_flat = is_flat and 0 < mapped.line.depth < FLAT
                beside = _BESIDE % b",".join(entries)
        return Encoded(
            draft.type,
            encoded,
            beside,
            draft.run_id,
            draft.call_id,
            draft.event_id,
            value,
            is_flat,
        )

    def _stored(self, type: str, data: dict[str, Any]) -> dict[str, Any]:
        """What is large in the data out of line, and what is large in the lines beside it."""
        lines = {name: data[name] for name in data if name == FOREIGN}
        said = {name: data[name] for name in data if name != FOREIGN}
        small = large_fields.stored(type, said, self._put_blob, threshold=self._blob_bytes)
        return {
            **small,
            **out_of_line.store_large(lines, self._put_blob, threshold=self._blob_bytes),
        }

    def _with_lines(self, waiting: Waiting) -> dict[str, Any]:
        data = waiting.draft.data
        return with_entries(data, [entry_of(mapped, data) for mapped in waiting.origins])

    def replaced(self, waiting: Waiting, error: Exception) -> Encoded:
        """What stands for an event that was refused: its data may be, or what it is called."""
        origins = waiting.origins
        problem = problem_of(self._with_lines(waiting)) or str(error)
        data: dict[str, Any] = {"format": self._format, "disposition": "reported"}
        data["import_note"] = problem
        if origins:
            data[FOREIGN] = [self._unstored(mapped) for mapped in origins]
        for mapped in origins:
            if not mapped.again:
                self._tally.report(mapped, problem)
        stored = out_of_line.store_large(data, self._put_blob)
        return Encoded(FOREIGN, codec.encode(stored))

    def _unstored(self, mapped: Mapped) -> dict[str, Any]:
        line = mapped.line
        if mapped.again:
            return {"line": line.number, "again": True}
        return {"line": line.number, "text": self._decoding.text(line.raw)}
