"""What a real file system makes of a disk that lost some of its newest writes.

A plan runs on the simulated disk and, call by call, on a mounted ext4 or XFS whose block writes are
recorded. Between two flushes a disk may have done any of its writes; each such image is mounted and
recovered, by the kernel and then by the engine. Every tree that comes out must be one that the
simulated disk says the power may leave at this point, and sound for the same oracle.

    python -m tests.support.block_images ext4 7

runs one seed again: its plan, and all its images.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from durasess import Engine
from durasess.engine.files import RealFiles
from durasess.engine.verify import verify
from tests.support.block_recorder import FLUSH, MARKED, Recorder, Traced
from tests.support.capabilities import unavailable
from tests.support.crash_driver import (
    SESSION,
    STORE,
    Driver,
    Moment,
    Plan,
    fold,
    grain_of,
    options_of,
    pinned_identity,
)
from tests.support.crash_legal import is_legal
from tests.support.crash_oracle import Oracle, view_key
from tests.support.crash_states import CrashState, Settings, crash_states, tree_key
from tests.support.loop_disk import XFS, Kind, LoopDisk, memory_or, need_loop, sync_all
from tests.support.sim_files import DIRECTORY, Op, SimFiles, Tree

KINDS = {
    "ext4": Kind("ext4", (("mkfs.ext4", "-q", "-F", "-b", "1024", "-J", "size=1"),), 8, ("",)),
    "xfs": XFS._replace(megabytes=64, make=XFS.make[:1]),
}
BLOCK = 4096
SECTOR = 512
MOST_WRITES = 7
"""Of an epoch whose subsets are all tried; of a larger one a sample."""

SAMPLE = 24
ENUMERATED = Settings(grain=grain_of, max_names=2000)
STEPS = (
    *("append", "append", "many3", "many12", "big", "loose", "flush", "snapshot", "rotate"),
    *("prune", "kill", "torn", "torn3", "reopen", "repair", "short", "close"),
)
FILLS: tuple[Plan, ...] = ((), ("fill512",), ("fill4096",), ("fill32768",), ("seg1500", "every4"))


class TwinFiles(SimFiles):
    """The simulated disk, and the same calls on a real one below `mounted`. The recorder is told
    the length of the log: before a call, since it may reach the disk from then on; of a sync
    after it, since until then nothing is promised. With `chance` the system now and then writes
    out what is dirty without being asked, as it does when it wants the memory."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self.mounted = ""
        self.recorder: Recorder | None = None
        self.chance: random.Random | None = None
        self._real: dict[int, int] = {}
        self._source = ""

    def mark(self, value: Any) -> None:
        super().mark(value)
        self._tell()

    def replace(self, source: str, target: str) -> None:
        self._source = source
        super().replace(source, target)

    def _tell(self) -> None:
        if self.recorder is not None:
            self.recorder.mark(b"%d" % len(self.log))

    def _record(
        self, kind: str, path: str, node: int, name: str = "", *rest: Any, **more: Any
    ) -> None:
        if kind in ("sync", "sync_dir"):
            self._do(Op(kind, node, name, *rest, **more), path)
            super()._record(kind, path, node, name, *rest, **more)
            self._tell()
        else:
            super()._record(kind, path, node, name, *rest, **more)
            self._tell()
            self._do(self.log[-1], path)
            self._write_out()

    def _write_out(self) -> None:
        if self.recorder is not None and self.chance is not None and self.chance.random() < 0.3:
            fd = os.open(self.mounted, os.O_RDONLY | os.O_DIRECTORY)
            try:
                sync_all(fd)
            finally:
                os.close(fd)

    def _do(self, op: Op, path: str) -> None:
        """The call itself."""
        if self.recorder is None:
            return
        real = self.mounted + path
        if op.kind == "link" and op.data == DIRECTORY:
            os.mkdir(real, 0o700)
        elif op.kind == "link":
            self._real[op.child] = os.open(real, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        elif op.kind == "write":
            os.pwrite(self._real[op.node], op.data, op.offset)
        elif op.kind == "truncate":
            os.ftruncate(self._real[op.node], op.offset)
        elif op.kind == "sync":
            os.fdatasync(self._real[op.node])
        elif op.kind == "rename":
            os.replace(self.mounted + self._source, real)
        elif op.kind == "unlink":
            directory = self.nodes[op.child].entries is not None
            (os.rmdir if directory else os.unlink)(real)
        elif op.kind == "sync_dir":
            fd = os.open(real, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def let_go(self) -> None:
        """Close the real files."""
        for fd in self._real.values():
            os.close(fd)
        self._real.clear()
        self.recorder = None


class Recording(NamedTuple):
    """A run: the log of the simulated disk, and what reached the block device beside it."""

    plan: Plan
    files: SimFiles
    base: Path
    trace: list[Traced]


class Epoch(NamedTuple):
    """The writes between two flushes; `point` is the length of the log when the second began."""

    point: int
    writes: list[Traced]
    is_last: bool


def epochs(trace: Sequence[Traced]) -> Iterator[Epoch]:
    """All of them from the first mark on; what came before it is in each."""
    point = -1
    writes: list[Traced] = []
    for one in trace:
        if one.kind == MARKED:
            point = int(one.data)
        elif one.kind != FLUSH:
            writes.append(one)
        elif point >= 0:
            yield Epoch(point, writes, False)
            writes = []
    yield Epoch(point, writes, True)


class Image:
    """A sparse block device in memory: block number → bytes of those that are not zero."""

    def __init__(self, size: int, blocks: dict[int, bytes]) -> None:
        self.size = size
        self.blocks = blocks

    @classmethod
    def read(cls, path: Path) -> Image:
        """A file's content."""
        content = path.read_bytes()
        found = {}
        for at in range(0, len(content), BLOCK):
            block = content[at : at + BLOCK]
            if block.strip(b"\0"):
                found[at // BLOCK] = block
        return cls(len(content), found)

    def with_writes(self, writes: Sequence[Traced]) -> Image:
        """Another one, after these."""
        blocks = dict(self.blocks)
        for one in writes:
            at, data = one.offset, one.data
            while data:
                number, inside = divmod(at, BLOCK)
                piece, data = data[: BLOCK - inside], data[BLOCK - inside :]
                old = blocks.get(number, bytes(BLOCK))
                blocks[number] = old[:inside] + piece + old[inside + len(piece) :]
                at += len(piece)
        return Image(self.size, blocks)

    def write(self, path: Path) -> None:
        """As the content of an existing file."""
        with open(path, "r+b") as target:
            target.truncate(0)
            target.truncate(self.size)
            for number, block in self.blocks.items():
                target.seek(number * BLOCK)
                target.write(block)


def images(epoch: Epoch, durable: Image, chance: random.Random) -> Iterator[Image]:
    """Different ones that the epoch may leave. All its writes together are the next one's none."""
    pieces = list(itertools.chain.from_iterable(_pieces(one, chance) for one in epoch.writes))
    if len(pieces) > MOST_WRITES:
        pieces = epoch.writes
    count = len(pieces)
    every = (1 << count) - 1
    if count <= MOST_WRITES:
        chosen = list(range(every + 1))
    else:
        prefixes = [(1 << length) - 1 for length in range(count + 1)]
        chosen = [*prefixes, *(chance.getrandbits(count) for _ in range(SAMPLE))]
    seen = set()
    for bits in dict.fromkeys(chosen):
        if bits == every and bits and not epoch.is_last:
            continue
        image = durable.with_writes([one for index, one in enumerate(pieces) if bits >> index & 1])
        key = hash(frozenset(image.blocks.items()))
        if key not in seen:
            seen.add(key)
            yield image


def _pieces(write: Traced, chance: random.Random) -> list[Traced]:
    """A long write may be torn at a sector."""
    sectors = len(write.data) // SECTOR
    if sectors <= BLOCK // SECTOR:
        return [write]
    at = chance.randrange(1, sectors) * SECTOR
    head = write._replace(data=write.data[:at])
    return [head, write._replace(offset=write.offset + at, data=write.data[at:])]


@dataclass
class Totals:
    """What images came to. `enumerated` trees are among those that the explorer looks at, the other
    legal ones are torn at places that it leaves out."""

    images: int = 0
    trees: int = 0
    enumerated: int = 0
    problems: list[str] = field(default_factory=list)

    def add(self, other: Totals) -> None:
        """Another seed's."""
        for name in ("images", "trees", "enumerated"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.problems += other.problems

    def __str__(self) -> str:
        return (
            f"{self.images} images, {self.trees} different trees, {self.enumerated} of them "
            f"enumerated, {len(self.problems)} problems"
        )


class Lab:
    """Records one plan and looks at its images."""

    def __init__(self, kind: Kind, directory: Path, seed: int) -> None:
        self.totals = Totals()
        self._kind = kind
        self._place = directory
        self._chance = random.Random(f"{kind.name} {seed}")
        self._seen: dict[tuple[int, int], None] = {}
        self._keys: dict[int, set[int]] = {}

    def plan(self) -> Plan:
        """One by chance."""
        steps = [self._chance.choice(STEPS) for _ in range(self._chance.randint(4, 8))]
        return (*self._chance.choice(FILLS), "append", *steps)

    def record(self, plan: Plan, make_files: type[TwinFiles] = TwinFiles) -> Recording:
        """Run a plan on both disks."""
        made = LoopDisk(self._kind, self._place)
        made.make()
        made.attach()
        with contextlib.closing(made):
            made.mount()
            (made.root / STORE.strip("/")).mkdir()
            made.unmount()
        with Recorder(self._place, made.image) as recorder:
            disk = LoopDisk(self._kind, self._place, image=recorder.image)
            disk.attach()
            with contextlib.closing(disk):
                disk.mount()
                driver = Driver(plan, make_files=make_files.from_tree)
                files = driver.files
                files.mounted, files.recorder = str(disk.root), recorder
                files.chance = self._chance
                files.mark(None)
                try:
                    driver.run()
                    files._tell()
                    trace = recorder.trace()
                finally:
                    files.let_go()
        return Recording(plan, files, made.image, trace)

    def look(
        self,
        recording: Recording,
        *,
        share: float = 1.0,
        acked: int = -1,
        until: str | None = None,
    ) -> Totals:
        """At every image, or at a share of them; from where so many events are acknowledged; or
        until a problem has these words."""
        scratch = self._place / "scratch"
        shutil.copy(recording.base, scratch)
        disk = LoopDisk(self._kind, self._place, image=scratch)
        disk.attach()
        oracle = Oracle(preallocate=options_of(recording.plan)[0].preallocate)
        durable = Image.read(recording.base)
        with contextlib.closing(disk):
            for number, epoch in enumerate(epochs(recording.trace)):
                moment = _moment(recording.files.log[: epoch.point])
                looked_at = images(epoch, durable, self._chance) if moment.acked >= acked else ()
                for image in looked_at:
                    if self._chance.random() >= share:
                        continue
                    image.write(scratch)
                    found = list(self._wrong(disk, recording, epoch.point, oracle))
                    self.totals.problems += [f"epoch {number}: {problem}" for problem in found]
                    if until is not None and any(until in problem for problem in found):
                        return self.totals
                durable = durable.with_writes(epoch.writes)
        return self.totals

    def _wrong(
        self, disk: LoopDisk, recording: Recording, point: int, oracle: Oracle
    ) -> Iterator[str]:
        self.totals.images += 1
        try:
            disk.mount()
        except OSError as error:
            yield f"the image cannot be mounted: {error}"
            return
        try:
            tree = tree_of(disk.root)
            key = tree_key(tree)
            if (key, point) not in self._seen:
                self._seen[key, point] = None
                yield from self._wrong_tree(tree, key, recording, point, oracle)
            yield from _wrong_session(disk.root, _moment(recording.files.log[:point]))
        finally:
            disk.unmount()

    def _wrong_tree(
        self, tree: Tree, key: int, recording: Recording, point: int, oracle: Oracle
    ) -> Iterator[str]:
        self.totals.trees += 1
        files = recording.files
        log = files.log[:point]
        state = CrashState(key, tree, _moment(log), point)
        if view_key(state) in self._enumerated(files, log):
            self.totals.enumerated += 1
        why = is_legal(files.base, log, tree)
        if why:
            yield f"the simulated disk does not know this at operation {point}: {why}"
        with pinned_identity():
            yield from oracle.problems(state)

    def _enumerated(self, files: SimFiles, log: list[Op]) -> set[int]:
        keys = self._keys.get(len(log))
        if keys is None:
            states = crash_states(
                files.base, log, ENUMERATED, start=len(log), identity=lambda mark: None
            )
            keys = self._keys[len(log)] = {view_key(state) for state in states}
        return keys


def _moment(log: Sequence[Op]) -> Moment:
    marks = [op.data for op in log if op.kind == "mark" and op.data is not None]
    return marks[-1] if marks else Moment()


def tree_of(root: Path) -> Tree:
    """What is below the store in a mounted image."""
    found: Tree = {}
    top = root / STORE.strip("/")
    for directory, names, files in os.walk(top):
        inside = "/" + str(Path(directory).relative_to(root))
        found[inside] = None
        for name in files:
            found[f"{inside}/{name}"] = (Path(directory) / name).read_bytes()
        names.sort()
    return found


def _wrong_session(root: Path, moment: Moment) -> Iterator[str]:
    """The engine itself on the mounted image: what is acknowledged is there, and it goes on."""
    path = root / SESSION.strip("/")
    try:
        if not path.exists():
            if moment.acked >= 0:
                yield "the session is gone"
            return
        damage = verify(str(path), files=RealFiles()).damage
        if damage:
            yield f"damage: {damage}"
        with Engine.open(path, initial=dict, apply=fold, at_least=moment.receipt) as engine:
            last = engine.last_seq
            if last < moment.acked or last not in moment.ends:
                yield f"{last} events are there; {moment.acked} were acknowledged, {moment.ends}"
            elif engine.state != moment.states[last]:
                yield f"WRONG: the state is {engine.state}"
            elif engine.append("counted", {}).seq != last + 1:
                yield "it does not go on"
    except Exception as error:
        yield f"refused: {type(error).__name__}: {error}"


def need_images(kind: Kind) -> None:
    """Skip where this machine has no root, no loop devices, no FUSE or not this file system."""
    need_loop(kind)
    try:
        with lab(kind, Path(tempfile.gettempdir()), 0) as one:
            one.record(("append",))
    except OSError as error:
        unavailable(f"a recorded {kind.name} on a FUSE file: {error}")


@contextlib.contextmanager
def lab(kind: Kind, directory: Path, seed: int) -> Iterator[Lab]:
    """One with a directory of its own."""
    place = memory_or(directory)
    try:
        yield Lab(kind, place, seed)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def run(name: str, seed: int, directory: Path, *, share: float = 1.0) -> Totals:
    """The images of one seed's plan."""
    with lab(KINDS[name], directory, seed) as one:
        plan = one.plan()
        totals = one.look(one.record(plan), share=share)
        again = f"{','.join(plan)}: python -m tests.support.block_images {name} {seed}"
        totals.problems[:] = [f"{problem} ({again})" for problem in totals.problems]
        return totals


def main(arguments: Sequence[str] | None = None) -> int:
    """One seed again."""
    parser = argparse.ArgumentParser(description="Mount what a disk without some writes holds.")
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("seed", type=int)
    chosen = parser.parse_args(arguments)
    totals = run(chosen.kind, chosen.seed, Path(tempfile.gettempdir()))
    kinds = Counter(problem[:200] for problem in totals.problems)
    print("\n".join([str(totals), *(f"{count} × {what}" for what, count in kinds.items())]))
    return 1 if totals.problems else 0


if __name__ == "__main__":
    sys.exit(main())
