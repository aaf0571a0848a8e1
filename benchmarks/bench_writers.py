"""Many writers of one process at once: threads and asyncio tasks on one session, threads on a
session each. Processes are in bench_sharing.py."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from benchmarks import measure
from benchmarks.findings import TINY, Findings, Sizes, Table, milliseconds, rate_rows
from benchmarks.peers.peer import Events, Handle, Peer
from benchmarks.peers.registry import BARE, OWN, PEERS, chosen
from durasess.cli.workload import generate_events

THREADS = 16
TASKS = 64
SESSIONS = 4
RIVALS = (BARE, OWN, "article", "sqlite full", "sqlite by thread", "sqlite batched")
ROUNDS = 3
COLUMNS = ("contender", "appends a second", "to bare")


def measured(directory: Path, sizes: Sizes) -> Findings:
    """Appends a second over all writers, the median of the rounds, contenders in turns."""
    events = list(generate_events(1, count=sizes.each_writer))
    found = Findings()
    for one in (_threads, _tasks, _sessions):
        place = directory / one.__name__
        found.add(one(place, events))
    return found


def _threads(directory: Path, events: Events) -> Findings:
    rates = _rates(
        chosen(*RIVALS),
        lambda peer: [peer.open(directory / peer.name)],
        lambda handles: _by_threads(handles * THREADS, events),
    )
    note = f"{len(events)} appends of each thread in each of {ROUNDS} rounds, on one handle."
    table = Table(f"{THREADS} threads on one session", note, COLUMNS, rate_rows(rates, BARE))
    figures = {
        "threads_bare": rates[OWN] / rates[BARE],
        "threads_sqlite": rates[OWN] / max(rates["sqlite full"], rates["sqlite by thread"]),
        "threads_batched": rates[OWN] / rates["sqlite batched"],
    }
    return Findings([table], figures)


def _tasks(directory: Path, events: Events) -> Findings:
    latencies: dict[Handle, list[float]] = {}
    names: dict[Handle, str] = {}

    def opened(peer: Peer) -> list[Handle]:
        handle = peer.open(directory / peer.name)
        names[handle], latencies[handle] = peer.name, []
        return [handle]

    rates = _rates(
        chosen(BARE, OWN, "sqlite full", "sqlite batched", "agents"),
        opened,
        lambda handles: asyncio.run(_by_tasks(handles[0], events, latencies[handles[0]])),
    )
    slowest = {names[one]: measure.percentile(found, 99) for one, found in latencies.items()}
    note = (
        f"{len(events)} appends of each task in each of {ROUNDS} rounds. bare and sqlite full "
        "block the loop, as they do where a coroutine calls them."
    )
    rows = [(name, *row, milliseconds(slowest[name])) for name, *row in rate_rows(rates, BARE)]
    table = Table(f"{TASKS} asyncio tasks on one session", note, (*COLUMNS, "p99"), rows)
    figures = {
        "tasks_bare": rates[OWN] / rates[BARE],
        "tasks_p99_ms": slowest[OWN] * 1e3,
        "tasks_batched": rates[OWN] / rates["sqlite batched"],
    }
    return Findings([table], figures)


def _sessions(directory: Path, events: Events) -> Findings:
    rates = _rates(
        chosen(BARE, OWN, "article", "sqlite full", "sqlite batched"),
        lambda peer: [peer.open(directory / f"{peer.name} {n}") for n in range(SESSIONS)],
        lambda handles: _by_threads(handles, events * 4),
    )
    note = f"A thread and a session each, {len(events) * 4} appends each in {ROUNDS} rounds."
    table = Table(f"{SESSIONS} sessions at once", note, COLUMNS, rate_rows(rates, BARE))
    return Findings([table], {"sessions_sqlite": rates[OWN] / rates["sqlite full"]})


def _rates(
    peers: list[Peer],
    open_all: Callable[[Peer], list[Handle]],
    work: Callable[[list[Handle]], float],
) -> dict[str, float]:
    with ExitStack() as stack:
        calls = {}
        for peer in peers:
            handles = [stack.enter_context(closing(one)) for one in open_all(peer)]
            calls[peer.name] = lambda handles=handles: work(handles)
        return measure.medians(calls, rounds=ROUNDS)


def _by_threads(handles: list[Handle], events: Events) -> float:
    """Appends a second, one thread for each entry of `handles`."""
    barrier = threading.Barrier(len(handles) + 1)

    def append_all(handle: Handle) -> None:
        barrier.wait()
        for type, data in events:
            handle.append(type, data)

    threads = [threading.Thread(target=append_all, args=(handle,)) for handle in handles]
    for thread in threads:
        thread.start()
    barrier.wait()
    begin = time.perf_counter()
    for thread in threads:
        thread.join()
    return len(handles) * len(events) / (time.perf_counter() - begin)


async def _by_tasks(handle: Any, events: Events, latencies: list[float]) -> float:
    """Appends a second over all tasks; `latencies` takes the seconds of each append."""

    async def append_all() -> None:
        for type, data in events:
            begin = time.perf_counter()
            if hasattr(handle, "append_async"):
                await handle.append_async(type, data)
            else:
                handle.append(type, data)
                await asyncio.sleep(0)
            latencies.append(time.perf_counter() - begin)

    begin = time.perf_counter()
    await asyncio.gather(*[append_all() for _ in range(TASKS)])
    return TASKS * len(events) / (time.perf_counter() - begin)


@pytest.mark.parametrize("name", [name for name, peer in PEERS.items() if peer.threads])
def test_threads_lose_no_append(tmp_path: Path, name: str) -> None:
    peer = PEERS[name]
    if peer.missing:
        pytest.skip(peer.missing)
    with closing(peer.open(tmp_path)) as handle:
        _by_threads([handle] * 4, list(generate_events(1, count=5)))
        assert handle.count() == 20


@pytest.mark.parametrize("name", [name for name, peer in PEERS.items() if peer.appends_async])
def test_tasks_lose_no_append(tmp_path: Path, name: str) -> None:
    peer = PEERS[name]
    if peer.missing:
        pytest.skip(peer.missing)
    with closing(peer.open(tmp_path)) as handle:
        asyncio.run(_by_tasks(handle, list(generate_events(1, count=2)), []))
        assert handle.count() == 2 * TASKS


def test_every_kind_of_writer_is_measured(tmp_path: Path) -> None:
    assert len(measured(tmp_path, TINY).tables) == 3
