"""Which trees a power cut may leave: the enumerator over the log of a `SimFiles`.

An operation is durable when a completed sync of its own object came after it; every other one is
pending. Profiles:

* `weakest`: per directory any subset of its pending operations (a rename is atomic, and the order
  among them is free); per file any subset of its pending writes and truncates, the last kept write
  torn at any byte with a short size, or at full size, or with 512-byte sectors missing. Where bytes
  of a write are missing stands what the file had there before, and zeros behind its old end. A
  truncate may have cleared the rest of its last sector or block without the new size.
* `ordered`: prefixes, as a journal would leave them.
* `kill`: everything issued; a write may have been cut short.

Reductions, exact unless marked: crashes only before a barrier and at the end of the log, since
what lies between leaves subsets, and a later acknowledgement only makes the same tree's oracle
stricter; namespaces first, then the contents of files that can be reached; a state is its tree and
the mark before it, each reported once. Bounded: beyond `max_subset` pending writes, or
`max_names` namespaces, at most two operations are left out; beyond `max_product` states at one
point, at most two files deviate from what was issued; quick settings tear at fewer places; a file
overwritten in place (a hint) has the contents none, last, the one before, and one torn; files that
recovery never reads for its result (`coarse`) have few contents.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from durasess.engine.types import FILLER
from tests.support.sim_files import DIRECTORY, ROOT, Op, Tree, apply_write

SECTOR = 512
CLEARED = (SECTOR, 1024, 4096)
"""Up to a multiple of these a file that is made shorter is cleared."""

BARRIERS = frozenset(["sync", "sync_dir", "syncfail"])
NAME_OPS = frozenset(["link", "unlink", "rename"])
PROFILES = ("weakest", "ordered", "kill")

Names = frozenset[tuple[int, str, int]]
"""Every entry of every directory: (directory, name, child)."""


def all_fine(path: str) -> str:
    """Every file gets the full set of contents."""
    return "fine"


@dataclass(frozen=True)
class Settings:
    """How much to enumerate. `grain` says for a path: "fine", "coarse" or "hint"."""

    profile: str = "weakest"
    every_byte: bool = False
    grain: Callable[[str], str] = all_fine
    max_subset: int = 5
    max_names: int = 300
    max_product: int = 4000


class CrashState(NamedTuple):
    """A tree, the last mark before the crash, where in the log, and a key that names the tree."""

    key: int
    tree: Tree
    mark: Any
    point: int


@dataclass
class FileModel:
    """What is known of one file: durable bytes, and the operations that are not.

    `lost` are writes whose sync failed: no later sync makes them durable.
    """

    durable: bytes = b""
    pending: list[Op] = field(default_factory=list)
    lost: list[Op] = field(default_factory=list)
    cache: dict[str, list[bytes]] = field(default_factory=dict)


class PendingName(NamedTuple):
    """A name operation and the directories that were not synced since."""

    op: Op
    waiting: set[int]


class Disk:
    """Follows a log and keeps durable and pending apart."""

    def __init__(self, base: dict[int, bytes | dict[str, int]]) -> None:
        self.files: dict[int, FileModel] = {}
        self.directories: set[int] = set()
        names: set[tuple[int, str, int]] = set()
        for number, content in base.items():
            if isinstance(content, dict):
                self.directories.add(number)
                names.update((number, name, child) for name, child in content.items())
            else:
                self.files[number] = FileModel(content)
        self.names: Names = frozenset(names)
        self.pending: list[PendingName] = []
        self._outcomes: dict[tuple[str, int], list[Names]] = {}

    def apply(self, op: Op) -> None:
        """Take one entry of the log."""
        kind = op.kind
        if kind == "write" or kind == "truncate":
            model = self.files.setdefault(op.node, FileModel())
            model.pending.append(op)
            model.cache.clear()
        elif kind in NAME_OPS:
            if op.data == DIRECTORY:
                self.directories.add(op.child)
            waiting = {op.node, op.target} if kind == "rename" else {op.node}
            self.pending.append(PendingName(op, waiting))
            self._outcomes.clear()
        elif kind == "sync":
            self._sync(self.files.setdefault(op.node, FileModel()))
        elif kind == "sync_dir":
            self._sync_directory(op.node)
        elif kind == "syncfail":
            self._sync_failed(self.files.setdefault(op.node, FileModel()), op.data)

    def namespaces(self, settings: Settings) -> list[Names]:
        """The sets of reachable entries that may be found."""
        key = (settings.profile, settings.max_names)
        found = self._outcomes.get(key)
        if found is None:
            found = self._outcomes[key] = _namespaces(
                self.names, [item.op for item in self.pending], settings
            )
        return found

    def contents(self, number: int, grain: str, settings: Settings) -> list[bytes]:
        """The contents that this file may be found with; the last is everything issued."""
        model = self.files.get(number)
        if model is None:
            return [b""]
        if not model.pending and not model.lost:
            return [model.durable]
        found = model.cache.get(grain)
        if found is None:
            found = model.cache[grain] = _contents(model, grain, settings)
        return found

    def _sync(self, model: FileModel) -> None:
        model.durable = _applied(model.durable, model.pending)
        model.pending = []
        model.cache.clear()

    def _sync_failed(self, model: FileModel, pages: str) -> None:
        if pages == "drop":
            model.pending = _dropped(_applied(model.durable, model.lost), model.pending)
        model.lost += model.pending
        model.pending = []
        model.cache.clear()

    def _sync_directory(self, number: int) -> None:
        left = []
        for item in self.pending:
            item.waiting.discard(number)
            if item.waiting:
                left.append(item)
            else:
                self.names = _with_name_op(self.names, item.op)
        if len(left) != len(self.pending):
            self.pending = left
            self._outcomes.clear()


def crash_states(
    base: dict[int, bytes | dict[str, int]],
    log: Sequence[Op],
    settings: Settings,
    *,
    start: int = 0,
    seen: set[tuple[int, Any]] | None = None,
    identity: Callable[[Any], Any] = lambda mark: mark,
) -> Iterator[CrashState]:
    """Every state that a crash at a point of `log[start:]` may leave, each (tree, mark) once.

    `identity` says what of a mark tells two states with the same tree apart. A `seen` set that is
    handed in carries this over several logs.
    """
    seen = set() if seen is None else seen
    disk = Disk(base)
    mark = None
    for point, op in enumerate([*log, None]):
        if op is not None and op.kind == "mark":
            mark = op.data
            continue
        if point >= start and _is_crash_point(op, settings):
            yield from _fresh(disk, settings, mark, point, seen, identity)
        if op is None:
            return
        if settings.profile == "kill" and op.kind == "write" and point >= start:
            yield from _killed_write(disk, op, settings, mark, point, seen, identity)
        disk.apply(op)


def _is_crash_point(op: Op | None, settings: Settings) -> bool:
    return op is None or settings.profile == "kill" or op.kind in BARRIERS


def _fresh(
    disk: Disk,
    settings: Settings,
    mark: Any,
    point: int,
    seen: set[tuple[int, Any]],
    identity: Callable[[Any], Any],
) -> Iterator[CrashState]:
    who = identity(mark)
    for names in disk.namespaces(settings):
        fixed, base_key, choices = _layout(disk, names, settings)
        for chosen in _product(choices, settings.max_product):
            key = base_key
            for entry in chosen:
                key ^= entry[0]
            state = (key, who)
            if state not in seen:
                seen.add(state)
                tree = dict(fixed)
                tree.update(entry[1:] for entry in chosen)
                yield CrashState(key, tree, mark, point)


def _killed_write(
    disk: Disk, op: Op, settings: Settings, mark: Any, point: int, *rest: Any
) -> Iterator[CrashState]:
    """A kill in the middle of a large write leaves its beginning."""
    model = disk.files.setdefault(op.node, FileModel())
    for cut in cuts(op, every_byte=False):
        model.pending.append(op._replace(data=op.data[:cut]))
        model.cache.clear()
        yield from _fresh(disk, settings, mark, point, *rest)
        model.pending.pop()
        model.cache.clear()


# Names


def _with_name_op(names: Names, op: Op) -> Names:
    """Operations name the inode they move, so their order among each other does not matter."""
    if op.kind == "unlink":
        return names - {(op.node, op.name, op.child)}
    directory, name = (op.node, op.name) if op.kind == "link" else (op.target, op.target_name)
    kept = {entry for entry in names if entry[0] != directory or entry[1] != name}
    if op.kind == "rename":
        kept.discard((op.node, op.name, op.child))
    kept.add((directory, name, op.child))
    return frozenset(kept)


def _namespaces(durable: Names, pending: list[Op], settings: Settings) -> list[Names]:
    if settings.profile == "kill":
        return [_reachable(_after(durable, pending))]
    if settings.profile == "ordered":
        prefixes = (pending[:length] for length in range(len(pending) + 1))
        return list(dict.fromkeys(_reachable(_after(durable, kept)) for kept in prefixes))
    outcomes = {durable: None}
    for op in pending:
        for names in list(outcomes):
            outcomes[_with_name_op(names, op)] = None
        if len(outcomes) > settings.max_names:
            return _bounded_namespaces(durable, pending)
    return list(dict.fromkeys(map(_reachable, outcomes)))


def _bounded_namespaces(durable: Names, pending: list[Op]) -> list[Names]:
    """Prefixes, and everything but one or two, and one or two alone."""
    indexes = range(len(pending))
    found: dict[Names, None] = {}
    for length in range(len(pending) + 1):
        found[_reachable(_after(durable, pending[:length]))] = None
    for size in (1, 2):
        for chosen in itertools.combinations(indexes, size):
            kept = [op for index, op in enumerate(pending) if index not in chosen]
            found[_reachable(_after(durable, kept))] = None
            found[_reachable(_after(durable, [pending[index] for index in chosen]))] = None
    return list(found)


def _after(names: Names, ops: Collection[Op]) -> Names:
    for op in ops:
        names = _with_name_op(names, op)
    return names


def _reachable(names: Names) -> Names:
    children: dict[int, list[tuple[int, str, int]]] = {}
    for entry in names:
        children.setdefault(entry[0], []).append(entry)
    found: list[tuple[int, str, int]] = []
    queue = [ROOT]
    while queue:
        for entry in children.get(queue.pop(), ()):
            found.append(entry)
            queue.append(entry[2])
    return frozenset(found)


# Contents


def _applied(content: bytes, ops: Sequence[Op]) -> bytes:
    if not ops:
        return content
    data = bytearray(content)
    for op in ops:
        if op.kind == "write":
            apply_write(data, op.offset, op.data)
        elif len(data) > op.offset:
            del data[op.offset :]
        else:
            data.extend(bytes(op.offset - len(data)))
    return bytes(data)


def _dropped(content: bytes, ops: Sequence[Op]) -> list[Op]:
    """The operations when the pages that they changed are read from the disk again: each write
    brings what was there before it, and zeros where it had made the file longer."""
    kept = []
    for op in ops:
        if op.kind == "write":
            end = op.offset + len(op.data)
            op = op._replace(data=content[op.offset : end].ljust(len(op.data), b"\0"))
        content = _applied(content, [op])
        kept.append(op)
    return kept


def _contents(model: FileModel, grain: str, settings: Settings) -> list[bytes]:
    ops = [*model.lost, *model.pending]
    issued = _applied(model.durable, ops)
    if settings.profile == "kill":
        return [issued]
    found: dict[bytes, None] = {}
    if grain == "hint" or _is_overwritten_in_place(ops):
        found.update(dict.fromkeys(_hint_contents(model.durable, ops)))
    elif grain == "coarse":
        found.update(dict.fromkeys(_coarse_contents(model.durable, ops)))
    else:
        for kept in _subsets(ops, settings):
            found.update(dict.fromkeys(_torn_contents(model.durable, kept, settings)))
    found.pop(issued, None)
    return [*found, issued]


def _is_overwritten_in_place(ops: list[Op]) -> bool:
    first = ops[0]
    return len(ops) > 1 and all(op.kind == "write" and op.offset == first.offset for op in ops)


def _hint_contents(durable: bytes, ops: list[Op]) -> Iterator[bytes]:
    """None, the one before, the last torn over it, the last."""
    yield durable
    yield _applied(durable, ops[:-1])
    last = ops[-1]
    if last.kind == "write":
        middle = len(last.data) // 2
        yield _applied(durable, [*ops[:-1], last._replace(data=last.data[:middle])])
    yield _applied(durable, ops)


def _coarse_contents(durable: bytes, ops: list[Op]) -> Iterator[bytes]:
    yield durable
    last = ops[-1]
    if last.kind == "write":
        middle = len(last.data) // 2
        yield _applied(durable, [*ops[:-1], last._replace(data=last.data[:middle])])
    yield _applied(durable, ops)


def _subsets(ops: list[Op], settings: Settings) -> Iterator[list[Op]]:
    """The operations that were written out, each time in order."""
    if settings.profile == "ordered":
        yield from (ops[:length] for length in range(len(ops) + 1))
    elif len(ops) <= settings.max_subset:
        for size in range(len(ops) + 1):
            yield from (list(chosen) for chosen in itertools.combinations(ops, size))
    else:
        yield from (ops[:length] for length in range(len(ops) + 1))
        indexes = range(len(ops))
        for size in (1, 2):
            for dropped in itertools.combinations(indexes, size):
                yield [op for index, op in enumerate(ops) if index not in dropped]


def _torn_contents(durable: bytes, kept: list[Op], settings: Settings) -> Iterator[bytes]:
    """All of `kept`, or with its last write torn in every way the settings ask for; truncates
    behind it are done all the same."""
    yield _applied(durable, kept)
    yield from _cleared_contents(durable, kept)
    writes = [index for index, op in enumerate(kept) if op.kind == "write"]
    if not writes:
        return
    before = _applied(durable, kept[: writes[-1]])
    behind = kept[writes[-1] + 1 :]
    for torn in _torn_writes(before, kept[writes[-1]], settings):
        yield _applied(torn, behind)


def _cleared_contents(durable: bytes, kept: list[Op]) -> Iterator[bytes]:
    """What is behind the end that a last truncate gives the file is cleared up to the end of a
    block, which may be written before the size is."""
    if not kept or kept[-1].kind != "truncate":
        return
    before, end = _applied(durable, kept[:-1]), kept[-1].offset
    for unit in CLEARED:
        edge = min(len(before), -(-end // unit) * unit)
        if end < edge:
            yield before[:end] + bytes(edge - end) + before[edge:]


def _torn_writes(before: bytes, op: Op, settings: Settings) -> Iterator[bytes]:
    places = cuts(op, every_byte=settings.every_byte)
    for cut in places:
        yield _with_piece(before, op, cut, zeros=False)
        yield _with_piece(before, op, cut, zeros=True)
    yield _with_piece(before, op, 0, zeros=True)
    if settings.profile == "weakest":
        yield from _with_holes(before, op, places)


def cuts(op: Op, *, every_byte: bool) -> list[int]:
    """After how many bytes a write may be torn: the first, the middle, the last but one, sector
    edges, and the ends of lines with and without their line feed; or simply everywhere."""
    length = len(op.data)
    if every_byte:
        return list(range(1, length))
    lines = len(op.data.rstrip(FILLER))
    places = {1, lines // 2, lines - 1, length // 2, length - 1}
    edges = range(SECTOR - op.offset % SECTOR, length, SECTOR)
    places.update(_ends(list(edges)))
    feeds = [index for index, byte in enumerate(op.data) if byte == 0x0A]
    for feed in _ends(feeds):
        places.update((feed, feed + 1))
    return sorted(place for place in places if 0 < place < length)


def _ends(values: list[int]) -> list[int]:
    """The first four and the last two."""
    return values if len(values) <= 6 else [*values[:4], *values[-2:]]


def _with_piece(before: bytes, op: Op, cut: int, *, zeros: bool) -> bytes:
    """Only the first `cut` bytes of a write; with `zeros` the file has its full size all the same,
    and what lay there before stays."""
    content = bytearray(before)
    apply_write(content, op.offset, op.data[:cut])
    end = op.offset + len(op.data)
    if zeros and len(content) < end:
        content.extend(bytes(end - len(content)))
    return bytes(content)


def _with_holes(before: bytes, op: Op, places: list[int]) -> Iterator[bytes]:
    """Sectors of one write that were not written, inside the full size or a short one."""
    pieces = _pieces(op)
    if len(pieces) < 2:
        return
    for missing in _hole_sets(len(pieces)):
        yield _without(before, op, [pieces[index] for index in missing], len(op.data))
    for cut in places:
        if cut > pieces[0][1]:
            yield _without(before, op, pieces[:1], cut)


def _pieces(op: Op) -> list[tuple[int, int]]:
    """The write cut at the file's sector edges, as ranges of its own bytes."""
    length = len(op.data)
    edges = [0, *range(SECTOR - op.offset % SECTOR, length, SECTOR), length]
    return list(itertools.pairwise(edges))


def _hole_sets(count: int) -> Iterator[tuple[int, ...]]:
    if count <= 4:
        for size in range(1, count):
            yield from itertools.combinations(range(count), size)
        return
    for index in range(count):
        yield (index,)
        yield tuple(other for other in range(count) if other != index)


def _without(before: bytes, op: Op, missing: list[tuple[int, int]], size: int) -> bytes:
    written = bytearray(_with_piece(before, op, size, zeros=False))
    for begin, end in missing:
        begin, end = begin + op.offset, min(end, size) + op.offset
        old = before[begin:end]
        written[begin:end] = old + bytes(end - begin - len(old))
    return bytes(written)


# Trees


Choice = tuple[int, str, bytes]
"""A file with one of its contents: key, path, bytes."""


def _layout(disk: Disk, names: Names, settings: Settings) -> tuple[Tree, int, list[list[Choice]]]:
    """One namespace: the files that are certain and their key, and the choices for all others."""
    fixed: Tree = {}
    key = 0
    choices: list[list[Choice]] = []
    for path, number, directory in _paths(disk, names):
        contents: list[Any] = [None]
        if not directory:
            contents = disk.contents(number, settings.grain(path), settings)
        if len(contents) == 1:
            key ^= entry_key(path, contents[0])
            fixed[path] = contents[0]
        else:
            choices.append([(entry_key(path, content), path, content) for content in contents])
    return fixed, key, choices


def _product(choices: list[list[Choice]], limit: int) -> Iterator[Sequence[Choice]]:
    size = 1
    for entries in choices:
        size *= len(entries)
    if size <= limit:
        yield from itertools.product(*choices)
        return
    issued = [entries[-1] for entries in choices]
    yield issued
    for first, second in itertools.combinations(range(len(choices)), 2):
        for left, right in itertools.product(choices[first], choices[second]):
            chosen = list(issued)
            chosen[first], chosen[second] = left, right
            yield chosen


def _paths(disk: Disk, names: Names) -> Iterator[tuple[str, int, bool]]:
    children: dict[int, list[tuple[str, int]]] = {}
    for directory, name, child in names:
        children.setdefault(directory, []).append((name, child))
    queue = [(ROOT, "")]
    while queue:
        number, path = queue.pop()
        for name, child in sorted(children.get(number, ())):
            below = f"{path}/{name}"
            is_directory = child in disk.directories
            yield below, child, is_directory
            if is_directory:
                queue.append((child, below))


_ENTRY_KEYS: dict[tuple[str, bytes | None], int] = {}
_MAX_ENTRY_KEYS = 200_000


def entry_key(path: str, content: bytes | None) -> int:
    """128 bits that stand for one file with its content; a tree's key is their exclusive or."""
    key = _ENTRY_KEYS.get((path, content))
    if key is None:
        if len(_ENTRY_KEYS) >= _MAX_ENTRY_KEYS:
            _ENTRY_KEYS.clear()
        kind = b"d" if content is None else b"f"
        digest = hashlib.blake2b(path.encode() + b"\0" + kind, digest_size=16)
        digest.update(content or b"")
        key = _ENTRY_KEYS[path, content] = int.from_bytes(digest.digest(), "big")
    return key


def tree_key(tree: Tree) -> int:
    """The key of a whole tree."""
    key = 0
    for path, content in tree.items():
        key ^= entry_key(path, content)
    return key
