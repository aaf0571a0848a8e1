"""Sessions are looked at in order, by threads only while the disk makes them wait."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator

import pytest

from durasess.store import looking

MANY = 1000


class Disk:
    """Of the items only the cold ones have to be read from it; what was read stays in memory."""

    def __init__(self, cold: range) -> None:
        self.cold = set(cold)
        self.threads: set[int] = set()
        self.begun = 0
        self._own = threading.local()

    def look(self, item: int) -> int:
        """Twice the item."""
        self.begun = max(self.begun, item + 1)
        self.threads.add(threading.get_ident())
        if item in self.cold:
            self.cold.remove(item)
            self._own.blocks = self.blocks_read() + 8
        return 2 * item

    def blocks_read(self) -> int:
        """By this thread."""
        return getattr(self._own, "blocks", 0)

    def looked_at(self, count: int = MANY) -> Iterator[int]:
        """All in order."""
        return looking.looked_at(range(count), self.look, blocks_read=self.blocks_read)


@pytest.mark.parametrize(
    "cold", [range(0), range(MANY), range(300), range(500, MANY), range(0, MANY, 40)]
)
@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, MANY])
def test_every_item_comes_once_and_in_order(cold: range, count: int) -> None:
    assert list(Disk(cold).looked_at(count)) == [2 * item for item in range(count)]


def test_what_is_in_memory_is_looked_at_by_the_caller_alone() -> None:
    disk = Disk(range(0))
    assert len(list(disk.looked_at())) == MANY
    assert disk.threads == {threading.get_ident()}


def test_what_has_to_be_read_is_looked_at_by_threads_until_it_is_in_memory() -> None:
    disk = Disk(range(100))
    found = disk.looked_at()
    assert len(list(itertools.islice(found, 600))) == 600
    assert len(disk.threads) > 1
    disk.threads.clear()
    assert len(list(found)) == MANY - 600
    assert disk.threads == {threading.get_ident()}


def test_few_items_are_held_before_their_turn() -> None:
    disk = Disk(range(MANY))
    for at, _ in enumerate(disk.looked_at()):
        assert disk.begun - at <= 16 * 18


@pytest.mark.parametrize("cold", [range(0), range(MANY)])
def test_error_of_a_look_is_raised_in_its_turn_and_no_thread_stays(cold: range) -> None:
    disk = Disk(cold)

    def look(item: int) -> int:
        if item == 200:
            raise OSError(5, "no")
        return disk.look(item)

    found = looking.looked_at(range(MANY), look, blocks_read=disk.blocks_read)
    before = threading.active_count()
    with pytest.raises(OSError, match="no"):
        for _ in found:
            pass
    assert threading.active_count() == before


def test_reader_that_stops_leaves_no_thread() -> None:
    before = threading.active_count()
    found = Disk(range(MANY)).looked_at()
    assert next(found) == 0
    assert len(list(itertools.islice(found, 40))) == 40
    found.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before
