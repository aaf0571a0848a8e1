"""What keeps a missed target from being met: where the time goes, and how near anything could come.

The figures in these texts were measured for the decisions that they name, not in the run.
"""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.targets import TARGETS


def _decision(name: str) -> str:
    return f"[decision {name[:4]}](decisions/{name}.md)"


_COMMITTER = _decision("0006-one-committer-thread")
_FILLER = _decision("0008-filler-behind-the-log")
_SHARING = _decision("0009-writers-that-share-take-turns")
_TURNS = _decision("0016-a-turn-is-kept-for-who-comes-back")
_DUE = _decision("0017-when-a-snapshot-is-due")
_COSTS = _decision("0018-where-the-time-of-an-append-goes")
_IMPORTS = _decision("0019-imports-in-two-processes")

_ALONE = (
    "SQLite commits in its caller's thread, in C. Here a thread commits that Ctrl-C cannot reach "
    f"({_COMMITTER}); in the caller's it would be 35 to 45 µs less. What that hand-over costs at "
    "least is the row *bare, handed over*. The rest is about 2,000 bytecodes of Python, which take "
    f"twice as long when a wait or other contenders have emptied the caches ({_COSTS})."
)
_CPU = (
    "An append by itself meets cold caches behind each sync. A loop that hands over, encodes, "
    "waits and wakes, and does nothing else, takes a third of it; encoding, checksum, hash, names, "
    f"receipt, fold and the program's own reducer the rest ({_COSTS}). Figures of one state of the "
    "code differ by a third from run to run."
)
_THREADS = (
    "All threads share one interpreter, and each append waits for it twice. The loop that only "
    "hands over, encodes, waits and wakes takes 18 of the 33 µs of processor time that an append "
    f"takes, so it would reach about twice this rate at best ({_COSTS}). SQLite with batches "
    "neither proves, hashes nor folds what it writes."
)
_TASKS = (
    "Ten bare appends in the time of one leave 12 µs of processor time for an event, the loop's "
    f"and the committer's together, which share one interpreter; it takes 15 to 17 ({_COSTS}), of "
    "which asyncio 2. SQLite with batches neither proves, hashes nor folds what it writes."
)
_PROCESSES = (
    "One sync serves one event, since the sync is inside the lock. An event in a kept turn takes "
    "255 µs: 130 the sync, 48 until its caller hands over the next, 36 the commit, 33 what others "
    f"wrote, 7 the anchor ({_TURNS}). A program that only locks, reads, writes, syncs and hands "
    "over reaches 1.1 times the bare loop. With the sync outside the lock, which would change the "
    "format, the engine came from 0.66 to 0.79 in one run; two processors have no more for it "
    f"({_SHARING})."
)
_SESSIONS = (
    "Four callers and four committers share one interpreter; SQLite releases it for whole commits."
)
_READY = (
    "Left as by a kill: half of the time replays the 400 events behind the snapshot (decoding them "
    "alone is a third of that), a third copies the segment forward, with two syncs. Closed cleanly "
    "it is 0.7 to 1 ms. A shorter interval between snapshots would be 2 ms faster here and cost "
    f"every full batch half as much again ({_DUE})."
)
_TAIL = (
    "SQLite reads rows that nothing proves. Here each line is proven against the chain, and a "
    "session that is opened anew recovers first (ready again, above)."
)
_WRITTEN = (
    "Lines are 1.05 of it, compressed segments 0.27, the anchor 0.10. Filler is 0.84: without it "
    "the sum is 1.41, and the disk is sent half as much again and each append takes longer "
    f"({_FILLER})."
)
_IMPORTING = (
    "A loop that only decodes, embeds, checksums and writes a line is the row of that name. With "
    "the hashes of file and segment and one look for secrets, none of which may be left out, it "
    "reaches 15 to 18 % of msgspec before a line is mapped or folded. Two processes share the "
    f"work, and both processors are busy ({_IMPORTS})."
)

BOUNDS = {
    "append_loop": _ALONE,
    "append_loop_sqlite": _ALONE,
    "append_one": _ALONE,
    "append_sqlite": _ALONE,
    "processor_alone_us": _CPU,
    "threads_bare": _THREADS,
    "threads_sqlite": _THREADS,
    "threads_batched": _THREADS,
    "tasks_bare": _TASKS,
    "tasks_batched": _TASKS,
    "processes_bare": _PROCESSES,
    "processes_sqlite": _PROCESSES,
    "sessions_sqlite": _SESSIONS,
    "recovery_article": _READY,
    "recovery_jsonl": _READY,
    "recovery_sqlite": _READY,
    "recovery_agents": _READY,
    "last_sqlite": _TAIL,
    "last_engine_sqlite": _TAIL,
    "written": _WRITTEN,
    "importing_msgspec": _IMPORTING,
    "importing_json": _IMPORTING,
}
"""By the figure of a target. One that is not here has no reason to be missed."""

UNKNOWN = "Not known: it was met before, so look for what changed."


def rows(figures: Mapping[str, float]) -> list[tuple[str, ...]]:
    """A row for each reason: the targets that these figures miss for it, and the reason."""
    missed: dict[str, list[str]] = {}
    for target in TARGETS:
        value = figures.get(target.figure)
        if value is not None and not target.is_met(value):
            missed.setdefault(BOUNDS.get(target.figure, UNKNOWN), []).append(target.what)
    return [("; ".join(names), bound) for bound, names in missed.items()]
