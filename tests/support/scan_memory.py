"""Remembers what the scanner found in a segment, for loops that read the same bytes many times.

A scan's findings depend on the bytes and on what `Scan` is told; where both are the same, the same
batches come again with the same attributes. Segments that somebody wrote to since the disk was
made, compressed ones and damaged ones are scanned each time. Not for planted bugs, which change
what the scanner finds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar
from unittest import mock

from durasess.engine import walk
from durasess.engine.records import Record
from durasess.engine.scan import Scan
from tests.support.sim_files import SimFiles

MAX_BYTES = 64 * 1024 * 1024
"""Of segments that are remembered; then all are forgotten."""

_TOLD = ("_disk", "_source", "_session_id", "_is_last", "_follows")
_HASHERS = ("_hash", "_behind")
_LISTS = ("_pending", "damage", "kept")

Step = tuple[list[Record] | None, dict[str, Any]]
"""A batch, None at the end, and the scan's attributes when it was given."""


class Memory:
    """Steps by what they depend on."""

    def __init__(self) -> None:
        self._known: dict[Any, list[Step]] = {}
        self._bytes = 0
        self.hits = 0

    def get(self, key: Any) -> list[Step] | None:
        """What was remembered."""
        known = self._known.get(key)
        self.hits += known is not None
        return known

    def put(self, key: Any, steps: list[Step]) -> None:
        """Remember; `key` begins with the bytes."""
        self._bytes += len(key[0])
        if self._bytes > MAX_BYTES:
            self._known.clear()
            self._bytes = len(key[0])
        self._known[key] = steps


class RememberingScan(Scan):
    """A Scan that looks whether it was here before."""

    memory: ClassVar[Memory]

    def batches(self) -> Iterator[list[Record]]:
        """As those of Scan."""
        key = self._key()
        known = self.memory.get(key) if key is not None else None
        if known is not None:
            for batch, attributes in known:
                self._become(attributes)
                if batch is not None:
                    yield list(batch)
            return
        steps: list[Step] = []
        for batch in super().batches():
            if key is not None:
                steps.append((list(batch), self._attributes()))
            yield batch
        if key is not None and not self.damage:
            steps.append((None, self._attributes()))
            self.memory.put(key, steps)

    def _key(self) -> Any:
        """None when the bytes may have changed."""
        source = self._source
        if source.content is not None or self.end or not isinstance(self._disk, SimFiles):
            return None
        data = self._disk.descriptors[source.fd].node.data
        if type(data) is not bytes or len(data) != source.size or self._disk.faults:
            return None
        return data, source.path, source.number, self._session_id, self._is_last, self._follows

    def _attributes(self) -> dict[str, Any]:
        found = {name: value for name, value in vars(self).items() if name not in _TOLD}
        return _apart(found)

    def _become(self, attributes: dict[str, Any]) -> None:
        vars(self).update(_apart(attributes))


def _apart(attributes: dict[str, Any]) -> dict[str, Any]:
    """A copy that does not change with the original."""
    found = dict(attributes)
    for name in _HASHERS:
        found[name] = found[name].copy()
    for name in _LISTS:
        found[name] = list(found[name])
    return found


@contextmanager
def remembered_scans() -> Iterator[Memory]:
    """What walks through the log remembers, until the end of the block."""

    class Remembering(RememberingScan):
        memory: ClassVar[Memory] = Memory()

    with mock.patch.object(walk, "Scan", Remembering):
        yield Remembering.memory
