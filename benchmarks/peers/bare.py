"""The floor of a durable append: one write and one fdatasync, under a lock; it recovers nothing."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.peers.peer import Events

NAME = "events.jsonl"


class BareFile:
    """Lines in one file. What is read back is decoded by msgspec, all of it at once."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._path = directory / NAME
        self._fd = os.open(self._path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        self._lock = threading.Lock()
        self._encode = msgspec.json.Encoder().encode

    def append(self, type: str, data: dict[str, Any]) -> None:
        """Encode, write, sync."""
        line = self._encode({"type": type, "data": data}) + b"\n"
        with self._lock:
            os.write(self._fd, line)
            os.fdatasync(self._fd)

    def load(self, events: Events) -> None:
        """One write and one sync for all."""
        lines = [self._encode({"type": type, "data": data}) for type, data in events]
        os.write(self._fd, b"\n".join(lines) + b"\n")
        os.fdatasync(self._fd)

    def count(self) -> int:
        """Counted anew each time."""
        return self.history()

    def history(self) -> int:
        """The floor of reading: msgspec over the same bytes."""
        return len(msgspec.json.Decoder().decode_lines(self._path.read_bytes()))

    def last(self, count: int) -> list[Any]:
        """The floor of reading backwards: 4 KiB a line from the end, more when that is too few."""
        size = 4096 * count
        while True:
            with open(self._path, "rb") as file:
                whole = file.seek(0, os.SEEK_END)
                file.seek(max(0, whole - size))
                lines = file.read().splitlines()
            if size >= whole or len(lines) > count:
                return [msgspec.json.decode(line) for line in lines[-count:]]
            size *= 4

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)
