"""What an importer remembers of every line or entry, in constant memory: the newest of it at hand,
the rest set aside in a file of its own.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left

from durasess.engine.scratch import Scratch

PAGE = 16_384
"""Numbers, or ids, that are set aside together."""

_ORDER = sys.byteorder
_BYTES = 8
"""Of a number."""

_BITS = 1 << 25
"""Of a filter: with a million ids, one look-up in three hundred is in vain."""

_ALL = (1 << 64) - 1
_AROUND = 512
"""Places on either side of where a hash should be among evenly spread ones: it is there but for
one case in many millions, and then all of a page is looked at."""


class Numbers:
    """A list of numbers from 0 to 2^64 - 1 that grows at its end."""

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        self._pages: list[int] = []
        self._before = 0
        self._newest = array("Q")

    def __len__(self) -> int:
        return self._before + len(self._newest)

    def append(self, number: int) -> None:
        """One more."""
        self._newest.append(number)
        if len(self._newest) >= 2 * PAGE:
            self._set_aside()

    def extend(self, numbers: list[int]) -> None:
        """Several more."""
        self._newest.extend(numbers)
        while len(self._newest) >= 2 * PAGE:
            self._set_aside()

    def _set_aside(self) -> None:
        self._pages.append(self._scratch.add(self._newest[:PAGE].tobytes()))
        del self._newest[:PAGE]
        self._before += PAGE

    def __getitem__(self, index: int) -> int:
        if index >= self._before:
            return self._newest[index - self._before]
        if index < 0:
            raise IndexError(index)
        return int.from_bytes(self._scratch.read(self._place(index), _BYTES), _ORDER)

    def __setitem__(self, index: int, number: int) -> None:
        if index >= self._before:
            self._newest[index - self._before] = number
        else:
            self._scratch.change(self._place(index), number.to_bytes(_BYTES, _ORDER))

    def put(self, index: int, number: int) -> None:
        """Set the one at `index`; what is missing before it becomes 0."""
        missing = index - self._before - len(self._newest)
        if missing < 0:
            self[index] = number
            return
        for _ in range(missing):
            self.append(0)
        self.append(number)

    def cut(self, length: int) -> None:
        """Forget what stands behind the first `length`."""
        while length < self._before:
            self._before -= PAGE
            self._newest = _numbers(self._scratch.read(self._pages.pop(), PAGE * _BYTES))
        del self._newest[length - self._before :]

    def _place(self, index: int) -> int:
        page, number = divmod(index, PAGE)
        return self._pages[page] + number * _BYTES


class Ids:
    """Hash of an id → a number from 0 to 2^64 - 1, the newest that was put. Two ids with one 64-bit
    hash are taken for one."""

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        self._newest: dict[int, int] = {}
        self._filter = bytearray()
        self._pages: list[int] = []

    def get(self, hashed: int) -> int | None:
        """None when it is not there."""
        found = self._newest.get(hashed)
        if found is not None or not self._pages:
            return found
        place = hashed & _ALL
        if not self._may_have(place):
            return None
        for offset in reversed(self._pages):
            found = self._in_page(offset, place)
            if found is not None:
                return found
        return None

    def put(self, hashed: int, number: int) -> None:
        """Add it, or change its number."""
        self._newest[hashed] = number
        if len(self._newest) >= PAGE:
            self._set_aside()

    def _set_aside(self) -> None:
        """As a page: the hashes in order, then the numbers."""
        pairs = sorted([(hashed & _ALL, number) for hashed, number in self._newest.items()])
        hashes = array("Q", [one[0] for one in pairs])
        numbers = array("Q", [one[1] for one in pairs])
        self._pages.append(self._scratch.add(hashes.tobytes() + numbers.tobytes()))
        self._newest.clear()
        bits = self._filter = self._filter or bytearray(_BITS // 8)
        for hashed in hashes:
            for bit in (hashed % _BITS, (hashed >> 32) % _BITS):
                bits[bit >> 3] |= 1 << (bit & 7)

    def _may_have(self, hashed: int) -> bool:
        """False for most that were never put."""
        for bit in (hashed % _BITS, (hashed >> 32) % _BITS):
            if not self._filter[bit >> 3] >> (bit & 7) & 1:
                return False
        return True

    def _in_page(self, offset: int, hashed: int) -> int | None:
        expected = hashed * PAGE >> 64
        first = max(expected - _AROUND, 0)
        hashes = self._hashes(offset, first, min(expected + _AROUND, PAGE))
        if (first and hashed <= hashes[0]) or hashed > hashes[-1]:
            first, hashes = 0, self._hashes(offset, 0, PAGE)
        index = bisect_left(hashes, hashed)
        if index == len(hashes) or hashes[index] != hashed:
            return None
        place = offset + (PAGE + first + index) * _BYTES
        return int.from_bytes(self._scratch.read(place, _BYTES), _ORDER)

    def _hashes(self, offset: int, first: int, last: int) -> array[int]:
        return _numbers(self._scratch.read(offset + first * _BYTES, (last - first) * _BYTES))


def _numbers(data: bytes) -> array[int]:
    found = array("Q")
    found.frombytes(data)
    return found
