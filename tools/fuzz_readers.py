"""Fuzzes what reads untrusted bytes: a segment, also sealed or compressed, a snapshot, meta, the
anchor; and of sessions the events and the state, up to the self-check and behind it. Finds, fixes
nothing.

    python -m tools.fuzz_readers segment --seconds 120 --seed 1            with what is installed
    python -m tools.fuzz_readers segment --replay HEX                      one input again

With atheris (not a dependency) inputs are chosen by the branches they reach; without it they are
mutations of sound files alone. Half of the mutated lines get a checksum that fits, since otherwise
none would come past the first comparison. An input is a failure when a reader raises anything but
one of durasess's documented errors; it is printed as hex, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import itertools
import random
import sys
import time
import zlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tools import fuzz_sealed, fuzz_sessions

SESSION = "/sim/s"
TARGETS = {
    "segment": "events_0001.jsonl",
    "snapshot": "snapshot.json.zst",
    "meta": "meta.json",
    "anchor": "lock",
    **fuzz_sealed.TARGETS,
    **fuzz_sessions.TARGETS,
}
"""What is fuzzed → the file of the session that is replaced."""

_MARK = b',"crc":"'
_PIECES = (
    b"\n",
    b"\0" * 16,
    b'"',
    b"{}",
    b"[" * 40,
    b"-1",
    b"1e999",
    b"\xff",
    b'\\ud800"',
    b"\t" * 9,
)


class Corpus(NamedTuple):
    """A sound session, as path → bytes, and sound contents of the file that is fuzzed."""

    tree: Mapping[str, bytes | None]
    seeds: tuple[bytes, ...]


def corpus(target: str) -> Corpus:
    """Made by the engine itself on a disk in memory, at every step of a small session."""
    from durasess.engine.engine import Engine
    from durasess.engine.scheduler import InlineScheduler

    if target in fuzz_sessions.TARGETS:
        return Corpus(*fuzz_sessions.corpus(target))
    if target in fuzz_sealed.TARGETS:
        return Corpus(*fuzz_sealed.corpus(target))
    files = _disk({"/sim": None})
    engine = Engine.open(
        SESSION,
        files=files,
        clock=itertools.count(10**18, 10**6).__next__,
        scheduler=InlineScheduler(),
        snapshot_every=10**6,
    )
    name = f"{SESSION}/{TARGETS[target]}"
    seeds: dict[bytes, None] = {}
    for step in range(6):
        engine.append("n", {"n": step, "text": "a\u2028b"}, event_id=f"e{step}")
        engine.append_many([("n", step), ("m", [step])])
        if step % 3 == 2 and target == "snapshot":
            engine.snapshot()
        if data := files.tree().get(name):
            seeds[data] = None
    # What a kill leaves: every event is replayed, so that nothing stands in for what is read.
    engine.abandon()
    return Corpus(files.tree(), tuple(seeds))


def _disk(tree: Mapping[str, bytes | None]) -> Any:
    """A disk in memory; looked up by name, because tests are not typed like the package."""
    return importlib.import_module("tests.support.sim_files").SimFiles.from_tree(tree)


def changed(target: str, data: bytes, chance: random.Random) -> bytes:
    """Mutated bytes; of sessions as often other values in JSON that stays JSON."""
    if target in fuzz_sessions.TARGETS and chance.random() < 0.5:
        return with_checksums(fuzz_sessions.changed(data, chance))
    if target in fuzz_sealed.TARGETS:
        return fuzz_sealed.changed(
            target, data, chance, lambda what: mutated(what, chance), with_checksums
        )
    return mutated(data, chance)


def mutated(data: bytes, chance: random.Random) -> bytes:
    """A few small changes; then, half of the time, checksums that fit again."""
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4))):
        at = chance.randrange(len(changed) + 1)
        end = min(len(changed), at + chance.choice((1, 2, 8, 64)))
        what = chance.randrange(5)
        if what == 0 and at < len(changed):
            changed[at] ^= 1 << chance.randrange(8)
        elif what == 1:
            del changed[at:end]
        elif what == 2:
            changed[at:at] = changed[at:end] if chance.random() < 0.5 else chance.choice(_PIECES)
        elif what == 3:
            changed[at:end] = chance.choice(_PIECES)
        else:
            del changed[at:]
    return with_checksums(bytes(changed)) if chance.random() < 0.5 else bytes(changed)


def with_checksums(data: bytes) -> bytes:
    """Every line gets the crc that fits, chained over event lines as in docs/FORMAT.md."""
    chain = 0
    lines = []
    for line in data.split(b"\n"):
        body, mark, _ = line.rpartition(_MARK)
        if mark:
            crc = zlib.crc32(body, chain)
            line = b'%s%s%08x"}' % (body, mark, crc)
            if body.startswith(b'{"seq"'):
                chain = crc
        lines.append(line)
    return b"\n".join(lines)


def reader(target: str, found: Corpus) -> Callable[[bytes], bool]:
    """Reads a session whose file is these bytes, in every way there is; whether it was refused.
    Anything but a documented error goes on."""
    from durasess.engine.engine import Engine
    from durasess.engine.scheduler import InlineScheduler
    from durasess.engine.verify import verify
    from durasess.errors import DurasessError

    if target in fuzz_sessions.TARGETS:
        return fuzz_sessions.reader(target, found.tree)
    path = f"{SESSION}/{TARGETS[target]}"

    def read(data: bytes) -> bool:
        files = _disk({**found.tree, path: data})
        refused = False
        with contextlib.suppress(DurasessError):
            verify(SESSION, files=files)
        # Pruned is what a session may say whose claims lead nowhere.
        with contextlib.suppress(DurasessError, ValueError):
            _long_way(files)
        try:
            looking = Engine.open(SESSION, mode="read", files=files, create=False)
            with contextlib.suppress(ValueError):
                list(looking.events())
        except DurasessError:
            refused = True
        try:
            scheduler = InlineScheduler()
            Engine.open(SESSION, files=files, create=False, scheduler=scheduler).abandon()
        except DurasessError:
            refused = True
        return refused

    return read


def _long_way(files: Any) -> None:
    """A reader takes it for more events than are here: from the first segment on, those with a seal
    at once."""
    from durasess.engine import history, survey
    from durasess.engine.fold import Fold
    from durasess.engine.walk import EVERYTHING

    claims = survey.look(files, SESSION)
    fold = Fold(initial=dict, apply=lambda state, event: None)
    found = history.events(
        files, claims, fold, after=0, through=EVERYTHING, on_damage=lambda damage: None
    )
    for _ in found:
        pass


class Totals(NamedTuple):
    """What a run did."""

    executions: int
    refused: int
    failures: tuple[str, ...]


def run(target: str, *, seed: int, executions: int, seconds: float = 1e9) -> Totals:
    """Mutations of sound files, until one of the limits; the same for the same seed."""
    found = corpus(target)
    read = reader(target, found)
    chance = random.Random(seed)
    deadline = time.monotonic() + seconds
    refused = done = 0
    failures: list[str] = []
    # What a reader that looks again waits for does not come.
    real_sleep, time.sleep = time.sleep, lambda seconds: None
    try:
        while done < executions and time.monotonic() < deadline:
            data = changed(target, chance.choice(found.seeds), chance)
            done += 1
            try:
                refused += read(data)
            except Exception as error:
                failures.append(f"{error!r}: {data.hex()}")
    finally:
        time.sleep = real_sleep
    return Totals(done, refused, tuple(failures))


def run_with_atheris(target: str, *, seed: int, seconds: int) -> int:
    """The same reader, its inputs chosen by the branches they reach. Ends the process."""
    atheris: Any = importlib.import_module("atheris")

    with atheris.instrument_imports(include=["durasess"]):
        import durasess.engine.engine
        import durasess.engine.verify

        assert durasess.engine.verify
    found = corpus(target)
    read = reader(target, found)
    time.sleep = lambda seconds: None

    def mutate(data: bytes, size: int, salt: int) -> bytes:
        chance = random.Random(salt)
        if not data or chance.random() < 0.2:
            data = chance.choice(found.seeds)
        if chance.random() < 0.5:
            return changed(target, data, chance)[:size]
        return bytes(atheris.Mutate(data, size))

    options = [sys.argv[0], f"-seed={seed}", f"-max_total_time={seconds}", "-max_len=8192"]
    atheris.Setup(options, lambda data: read(data) and None, custom_mutator=mutate)
    atheris.Fuzz()
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Fuzz one reader and print the totals."""
    parser = argparse.ArgumentParser(prog="fuzz_readers", description=__doc__.splitlines()[0])
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--atheris", action="store_true", help="choose inputs by coverage")
    parser.add_argument("--replay", metavar="HEX", help="read one input and raise what it raises")
    options = parser.parse_args(arguments)
    if options.replay is not None:
        refused = reader(options.target, corpus(options.target))(bytes.fromhex(options.replay))
        print("refused" if refused else "read")
        return 0
    if options.atheris:
        return run_with_atheris(options.target, seed=options.seed, seconds=options.seconds)
    totals: Any = run(options.target, seed=options.seed, executions=10**12, seconds=options.seconds)
    print(f"{options.target}: {totals.executions} executions, {totals.refused} refused")
    for failure in totals.failures[:20]:
        print(f"FAILED {failure}")
    return 1 if totals.failures else 0


if __name__ == "__main__":
    sys.exit(main())
