"""What durasess sets itself, and whether a run met it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """`figure` is the key of a finding, which should be at most `limit`, or with a `sense` of
    "least" at least that."""

    figure: str
    what: str
    limit: float
    sense: str = "most"
    unit: str = "×"

    def is_met(self, value: float) -> bool:
        """Whether the figure is on the right side."""
        return value <= self.limit if self.sense == "most" else value >= self.limit

    def gap(self, value: float) -> float:
        """Per cent by which the figure is better than the limit; negative when it is worse."""
        better = self.limit / value if self.sense == "most" else value / self.limit
        return (better - 1) * 100


TARGETS = (
    Target("append_loop", "durable append, one thread: median to bare write + fdatasync", 1.35),
    Target("append_loop_sqlite", "durable append: median to sqlite, synchronous FULL", 1),
    Target("append_one", "to bare, with all contenders in turns: behind cold caches", 1.35),
    Target("append_sqlite", "to sqlite FULL, with all contenders in turns", 1),
    Target(
        "processor_alone_us",
        "processor time of an append beyond the system calls, alone",
        60,
        unit=" µs",
    ),
    Target("processor_batch_us", "the same, 64 tasks in one batch", 30, unit=" µs"),
    Target("threads_bare", "16 threads on one session: rate to bare under a lock", 3, "least"),
    Target("threads_sqlite", "16 threads: rate to sqlite FULL, the faster of its ways", 4, "least"),
    Target("threads_batched", "16 threads: rate to sqlite with batched commits", 1, "least"),
    Target("tasks_bare", "64 asyncio tasks: rate to bare", 10, "least"),
    Target("tasks_p99_ms", "64 asyncio tasks: the slowest append in a hundred", 10, unit=" ms"),
    Target("tasks_batched", "64 asyncio tasks: rate to sqlite with batched commits", 1, "least"),
    Target(
        "processes_bare", "4 processes on one session: rate to flock + write + fsync", 1, "least"
    ),
    Target("processes_sqlite", "4 processes: rate to sqlite, synchronous FULL", 1, "least"),
    Target("sessions_sqlite", "4 sessions at once: rate to sqlite, synchronous FULL", 1, "least"),
    Target("call", "a tool call, two durable events: median to two bare writes", 2),
    Target("append_long durasess", "mean append behind the longest history to an empty one", 1.3),
    Target("recovery_growth", "engine ready: longest history to shortest", 1.3),
    Target("session_plain", "session ready: longest history to shortest, never compacted", 1.3),
    Target("session_compacted", "session ready: longest history to shortest, compacted", 1.3),
    Target("recovery_article", "ready: times faster than article at the longest", 200, "least"),
    Target("recovery_jsonl", "ready: times faster than jsonl at the longest", 200, "least"),
    Target("recovery_sqlite", "ready: times faster than sqlite at the longest", 200, "least"),
    Target("recovery_agents", "ready: times faster than agents at the longest", 200, "least"),
    Target("recovery_newest", "ready: time to sqlite asked for its last 200 rows", 1),
    Target(
        "memory_growth_mib", "memory to be ready: growth from shortest to longest", 2, unit=" MiB"
    ),
    Target(
        "session_memory_mib",
        "peak memory to be ready at the longest history, above the imports, with the window",
        8,
        unit=" MiB",
    ),
    Target("history_bare", "whole history: time to msgspec over the bytes", 2),
    Target("history_limit", "whole history: time to msgspec without the cyclic collector", 2),
    Target("history_orjson", "whole history: time to orjson over JSON lines", 1),
    Target("history_sqlite", "whole history: times faster than sqlite + json", 2.5, "least"),
    Target("last_ms", "newest 20 messages, the session opened anew", 5, unit=" ms"),
    Target("last_sqlite", "the same: time to sqlite asked for its tail", 1),
    Target("last_engine_sqlite", "newest 20 events on an open handle: time to sqlite", 1),
    Target("stall_ms", "longest append while snapshots are taken", 20, unit=" ms"),
    Target("stall_long_ms", "the same behind the longest history", 20, unit=" ms"),
    Target("written", "bytes written for each byte of payload, filler included", 2),
    Target("device_bare", "bytes that the disk was sent: to bare write + fdatasync", 1),
    Target("on_disk", "bytes on disk for each byte of payload", 0.4),
    Target("list", "the newest 50 of all sessions: time to scandir + msgspec", 2),
    Target("list_s", "all sessions listed, the longest store", 0.3, unit=" s"),
    Target(
        "importing_msgspec",
        "import of a foreign file: rate to msgspec over its lines",
        0.3,
        "least",
    ),
    Target("importing_json", "import of a foreign file: rate to json decoding", 0.3, "least"),
    Target("import", "import durasess: time to msgspec + zstandard", 1.3),
)


def rows(figures: Mapping[str, float]) -> list[tuple[str, ...]]:
    """A row for each target: what, limit, found, met or by how much not."""
    return [_row(target, figures[target.figure]) for target in TARGETS if target.figure in figures]


def _row(target: Target, value: float) -> tuple[str, ...]:
    gap = target.gap(value) if value > 0 else float("inf")
    if target.is_met(value):
        verdict = "met" if gap > 999 else f"met, {gap:.0f} % to spare"
    else:
        verdict = f"**not met**, {-gap:.0f} % short"
    sense = "at most" if target.sense == "most" else "at least"
    return (
        target.what,
        f"{sense} {target.limit:g}{target.unit}",
        f"{value:,.2f}{target.unit}",
        verdict,
    )
