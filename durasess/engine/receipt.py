"""Receipts: what an append returns, to prove later that nothing acknowledged is missing."""

from __future__ import annotations

from typing import Any

import msgspec

from durasess.engine import codec
from durasess.engine.types import LineError


class Receipt(msgspec.Struct, frozen=True):
    """Event `seq` of session `session_id` was written; `crc` is the chain value after it.

    `durable` says that it was synced. Keep the newest receipt somewhere else and give it to
    `open(at_least=…)`: the one way to notice that a whole directory was put back to an older copy.
    """

    session_id: str
    seq: int
    crc: str
    durable: bool = True

    def to_json(self) -> str:
        """One line of JSON."""
        return codec.encode(msgspec.to_builtins(self)).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Receipt:
        """The receipt that `to_json` wrote. ValueError for any other text."""
        data: Any = text.encode() if isinstance(text, str) else text
        try:
            found: Receipt = codec.typed(data, cls)
        except LineError as error:
            raise ValueError(f"not a receipt: {error.reason}") from None
        return found
