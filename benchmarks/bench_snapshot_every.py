"""What snapshots cost appends and save recovery: the figures behind the default of
`snapshot_every`, and the longest stall that one causes.

Appends are timed in turns; the sizes are small in tests.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

from benchmarks import bench_sessions, measure
from benchmarks.bench_recovery import reopened
from benchmarks.findings import TINY, Findings, Sizes, Table, microseconds, milliseconds
from benchmarks.peers.peer import Events
from benchmarks.peers.registry import BARE, PEERS
from benchmarks.workload import open_engine
from durasess import Store
from durasess.cli.workload import generate_events
from durasess.engine.types import SNAPSHOT_EVERY

NEVER = 1 << 40
ROUNDS = 15


def measured(directory: Path, sizes: Sizes) -> Findings:
    """Stalls, the cost of one snapshot, and the choice of `snapshot_every`."""
    found = _stalls(directory, sizes)
    found.add(_one_snapshot(directory, sizes))
    found.add(_choice(directory, sizes))
    return found


def _stalls(directory: Path, sizes: Sizes) -> Findings:
    events = list(generate_events(1, count=sizes.stall))
    with ExitStack() as stack:
        article = stack.enter_context(closing(PEERS["article"].open(directory / "article")))
        bare = stack.enter_context(closing(PEERS[BARE].open(directory / "bare")))
        calls = {
            BARE: _next(bare.append, events),
            "durasess, no snapshots": _appending(stack, directory / "never", events, NEVER),
            "durasess": _appending(stack, directory / "default", events, SNAPSHOT_EVERY),
            "article": _next(article.append, events),
        }
        found = measure.samples(calls, rounds=sizes.stall)
    rows = [
        (
            name,
            microseconds(statistics.mean(values)),
            microseconds(measure.percentile(values, 99.9)),
            milliseconds(max(values)),
        )
        for name, values in found.items()
    ]
    note = (
        f"{sizes.stall:,} appends each, call by call in turns; the longest of bare is what the "
        "disk alone does in one sync; an append behind a snapshot waits for six."
    )
    columns = ("contender", "mean", "p99.9", "longest")
    longest = {name: max(values) for name, values in found.items()}
    return Findings(
        [Table("Stalls by snapshots", note, columns, rows)],
        {
            "stall_ms": longest["durasess"] * 1e3,
            "stall_bare": longest["durasess"] / longest[BARE],
            "stall_article": longest["article"] / longest["durasess"],
        },
    )


def _appending(
    stack: ExitStack, directory: Path, events: Events, every: int
) -> Callable[[], object]:
    engine = stack.enter_context(open_engine(directory, snapshot_every=every))
    return _next(engine.append, events)


def _next(append: Callable[..., object], events: Events) -> Callable[[], object]:
    following = itertools.cycle(events)
    return lambda: append(*next(following))


def _one_snapshot(directory: Path, sizes: Sizes) -> Findings:
    """`snapshot()` after one append, so that there is something new: encode, compress, verify,
    publish, all of it waited for."""
    root = directory / "layer"
    root.mkdir()
    bench_sessions.build(root, "s", min(sizes.histories))
    events = list(generate_events(1, count=300))
    with open_engine(directory / "one") as engine, Store(root).open("s") as session:
        engine.append_many(events)

        def of_engine() -> None:
            append()
            engine.snapshot()

        def of_session() -> None:
            session.note("on")
            session.snapshot()

        append = _next(engine.append, events)
        found = measure.interleaved(
            {"engine, small state": of_engine, "session, resident messages": of_session},
            rounds=ROUNDS,
        )
    rows = [
        (name, milliseconds(seconds), microseconds(seconds / SNAPSHOT_EVERY))
        for name, seconds in found.items()
    ]
    note = "Waited for, with the append before it. In use it runs beside the appends."
    columns = ("state", "one snapshot", f"for each of {SNAPSHOT_EVERY:,} events")
    return Findings([Table("One snapshot", note, columns, rows)])


def _choice(directory: Path, sizes: Sizes) -> Findings:
    rows = []
    for every in (125, 250, 500, 1000, 2000):
        total, longest, reopen = cost_of(directory, every, sizes.stall // 2)
        rows.append((f"{every:,}", f"{total:.2f} s", milliseconds(longest), milliseconds(reopen)))
    columns = ("snapshot_every", f"{sizes.stall // 2:,} appends", "longest", "reopened")
    note = "One run each; reopened after a kill half that many events behind a snapshot."
    return Findings([Table("The choice of snapshot_every", note, columns, rows)])


def cost_of(directory: Path, every: int, count: int) -> tuple[float, float, float]:
    """(seconds for `count` appends, longest append in seconds, seconds to reopen after a kill
    half a distance behind a snapshot)."""
    events = list(generate_events(1, count=count))
    engine = open_engine(directory / f"every{every}", snapshot_every=every)
    longest = 0.0
    begin = time.perf_counter()
    for event in events:
        start = time.perf_counter()
        engine.append(*event)
        longest = max(longest, time.perf_counter() - start)
    total = time.perf_counter() - begin
    # On average a kill comes half a distance behind a snapshot.
    engine.snapshot()
    behind = events[: every // 2]
    engine.append_many(behind)
    engine.abandon()
    start = time.perf_counter()
    assert reopened(directory / f"every{every}") == count + len(behind)
    return total, longest, time.perf_counter() - start


def test_both_settings_keep_every_event(tmp_path: Path) -> None:
    assert len(cost_of(tmp_path, 10, 30)) == 3
    assert len(cost_of(tmp_path, 1000, 30)) == 3


def test_stalls_and_costs_are_measured(tmp_path: Path) -> None:
    assert len(measured(tmp_path, TINY).tables) == 3
