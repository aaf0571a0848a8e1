"""Sessions of the same generated events, built once for each contender and length, and kept for all
benchmarks that open one."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterable
from pathlib import Path

from benchmarks.peers.peer import Peer, bytes_below
from durasess.cli.workload import generate_events

CHUNK = 2_500
"""Events that are in memory at once."""


class Histories:
    """`directory` holds a directory for each contender and length."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.payload: dict[int, int] = {}
        """By length: bytes of the events as msgspec writes them."""

    def path(self, name: str, count: int) -> Path:
        """Where that session is."""
        return self.directory / f"{name} {count}"

    def build(self, peers: Iterable[Peer], count: int) -> None:
        """Make the sessions of `count` events, all of them chunk by chunk, then close them."""
        handles = [peer.open(self.path(peer.name, count)) for peer in peers]
        following = generate_events(1, count=count)
        while chunk := list(itertools.islice(following, CHUNK)):
            for handle in handles:
                handle.load(chunk)
        for handle in handles:
            handle.close()
        self.payload[count] = bytes_below(self.path("bare", count))

    def copy(self, name: str, count: int) -> Path:
        """A copy to append to."""
        target = self.directory / f"copy of {name} {count}"
        shutil.copytree(self.path(name, count), target)
        return target
