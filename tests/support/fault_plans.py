"""Which calls of a plan fail and how: each once, for ever, in pairs. Runs nothing."""

from __future__ import annotations

import errno
import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tests.support.sim_files import Fault, SimFiles

CODES = ("EIO", "ENOSPC", "EDQUOT", "EROFS", "EMFILE", "EACCES", "EINTR")


class OneFault(NamedTuple):
    """The nth call of all raises `code`, once or for ever; "short" is a write that takes half,
    "drop" a sync that fails with EIO and loses the pages."""

    nth: int
    code: str
    sticky: bool = False

    def __str__(self) -> str:
        return f"{self.nth}:{self.code}{':sticky' if self.sticky else ''}"


Faults = Sequence[OneFault]


class Calls(Fault):
    """Fails nothing; `found` has each call as (kind, path)."""

    def __init__(self) -> None:
        super().__init__("*")
        self.found: list[tuple[str, str]] = []

    def hits(self, kind: str, path: str) -> bool:
        """Only remember."""
        self.found.append((kind, path))
        return False


class Struck(Fault):
    """Remembers the kinds of calls that it made fail."""

    def __init__(self, nth: int, **more: Any) -> None:
        super().__init__("*", nth=nth, **more)
        self.kinds: set[str] = set()

    def hits(self, kind: str, path: str) -> bool:
        """Count this call and say whether it is the one."""
        is_hit = super().hits(kind, path)
        if is_hit:
            self.kinds.add(kind)
        return is_hit


def plant(files: SimFiles, faults: Faults) -> list[Struck]:
    """Make them wait on this disk."""
    planted = [_struck(one) for one in faults]
    files.faults += planted
    return planted


def _struck(one: OneFault) -> Struck:
    if one.code == "short":
        return Struck(one.nth, code=None, size=lambda data: len(data) // 2)
    if one.code == "drop":
        return Struck(one.nth, pages="drop", sticky=one.sticky)
    return Struck(one.nth, code=getattr(errno, one.code), sticky=one.sticky)


def parse(text: str) -> list[OneFault]:
    """`12:EIO 30:ENOSPC:sticky`, as a finding prints them."""
    faults = []
    for part in text.split():
        nth, code, *sticky = part.split(":")
        faults.append(OneFault(int(nth), code, bool(sticky)))
    return faults


def written(faults: Faults) -> str:
    """The text that `parse` reads."""
    return " ".join(map(str, faults))


def singles(
    calls: Sequence[tuple[str, str]], *, codes: int = len(CODES), stride: int = 1
) -> Iterator[Faults]:
    """Every stride-th call fails once and for ever, each with `codes` of CODES in rotation; writes
    are short, syncs lose their pages."""
    for nth, (kind, _) in enumerate(calls, 1):
        if nth % stride:
            continue
        for turn in range(codes):
            code = CODES[(nth + turn) % len(CODES)]
            yield [OneFault(nth, code)]
            yield [OneFault(nth, code, sticky=True)]
        if kind == "write_at":
            yield [OneFault(nth, "short")]
        if kind == "sync":
            yield [OneFault(nth, "drop")]


def pairs(calls: Sequence[tuple[str, str]], *, count: int, seed: int) -> Iterator[Faults]:
    """Two calls fail, the second soon after the first as often as anywhere: while the first is
    cleaned up, at the close, in the recovery."""
    chance = random.Random(seed)
    for _ in range(count):
        first = chance.randint(1, len(calls))
        near = chance.random() < 0.5
        second = chance.randint(1, 12 if near else len(calls))
        drop = "drop" if calls[first - 1][0] == "sync" and chance.random() < 0.3 else ""
        yield [
            OneFault(first, drop or chance.choice(CODES)),
            OneFault(first + second, chance.choice(CODES), chance.random() < 0.2),
        ]
