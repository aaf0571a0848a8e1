"""What a benchmark found, as values: tables, figures that targets are compared with, pictures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Table:
    """`columns` and `rows` are texts; the first column is the contender or what was measured."""

    title: str
    note: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]


@dataclass(frozen=True)
class Picture:
    """Lines over a horizontal axis: `lines[name]` holds points (x, y). Both axes are logarithmic
    unless `ticks`, pairs of x and label, say what stands below the horizontal one."""

    name: str
    title: str
    x_label: str
    y_label: str
    lines: Mapping[str, list[tuple[float, float]]]
    ticks: tuple[tuple[float, str], ...] = ()


@dataclass
class Findings:
    """`figures` are by the keys of targets.py."""

    tables: list[Table] = field(default_factory=list)
    figures: dict[str, float] = field(default_factory=dict)
    pictures: list[Picture] = field(default_factory=list)

    def add(self, other: Findings) -> None:
        """Take over what another found."""
        self.tables += other.tables
        self.figures.update(other.figures)
        self.pictures += other.pictures


COMMON = 200_000
"""Events that the slower contenders can still hold."""


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """How much is measured. `histories` and the others count events, `rounds` turns.

    A history ends 400 events behind a snapshot of durasess, so that each leaves a tail to replay.
    """

    appends: int = 2_000
    each_writer: int = 60
    histories: tuple[int, ...] = (1_400, 10_400, 100_400)
    rounds: int = 5
    ready_rounds: int = 31
    written: tuple[int, ...] = (1_000, 10_000)
    written_alone: int = 100_000
    stall: int = 10_000
    sessions: tuple[int, ...] = (1_000, 5_000, 10_000)
    imports: int = 11
    foreign_bytes: int = 50_000_000

    @property
    def longest(self) -> int:
        """The longest history that the slower contenders have too."""
        return max(count for count in self.histories if count <= COMMON)


QUICK = Sizes(
    appends=100,
    each_writer=10,
    histories=(1_400, 2_400, 4_400),
    rounds=2,
    ready_rounds=5,
    written=(300,),
    written_alone=600,
    stall=2_000,
    sessions=(100, 300),
    imports=3,
    foreign_bytes=2_000_000,
)
FULL = Sizes()
TINY = Sizes(
    appends=20,
    each_writer=3,
    histories=(50, 100),
    rounds=1,
    ready_rounds=1,
    written=(60,),
    written_alone=80,
    stall=60,
    sessions=(5, 10),
    imports=1,
    foreign_bytes=100_000,
)
"""For the tests of the benchmarks themselves."""


def microseconds(seconds: float) -> str:
    """`212 µs`."""
    return f"{seconds * 1e6:,.0f} µs"


def milliseconds(seconds: float) -> str:
    """`2.13 ms`, or `1,530 ms`."""
    value = seconds * 1e3
    return f"{value:,.0f} ms" if value >= 100 else f"{value:.3g} ms"


def mebibytes(count: float) -> str:
    """`1.5 MiB`."""
    return f"{count / 1024 / 1024:,.1f} MiB"


def times(value: float, base: float) -> str:
    """`1.24`: how many times the base a value is."""
    return f"{value / base:,.2f}" if value / base < 100 else f"{value / base:,.0f}"


def rate_rows(rates: Mapping[str, float], floor: str) -> list[tuple[str, ...]]:
    """Rows of contender, a rate for each second, and its ratio to the floor's."""
    return [(name, f"{rate:,.0f}", times(rate, rates[floor])) for name, rate in rates.items()]
