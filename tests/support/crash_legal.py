"""Whether a tree is one that the power may leave: the model of `crash_states` as a question.

The enumerator tears writes at few places. Here every place counts, so that what a real file system
leaves can be asked about.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tests.support.crash_states import (
    SECTOR,
    Disk,
    FileModel,
    Settings,
    _applied,
    _paths,
)
from tests.support.sim_files import Op, Tree, apply_write

ALL_NAMES = Settings(max_names=20_000)
MOST_PENDING = 10


def is_legal(base: dict[int, bytes | dict[str, int]], log: Sequence[Op], tree: Tree) -> str:
    """Empty when the weakest profile allows this tree at the end of the log; else why not."""
    disk = Disk(base)
    for op in log:
        if op.kind != "mark":
            disk.apply(op)
    reason = f"no namespace has {sorted(tree)}"
    for names in disk.namespaces(ALL_NAMES):
        found = {path: (number, is_dir) for path, number, is_dir in _paths(disk, names)}
        if found.keys() != tree.keys():
            continue
        reason = next(
            (
                f"{path} cannot hold these {len(content or b'')} bytes"
                for path, content in tree.items()
                if not _fits(disk, *found[path], content)
            ),
            "",
        )
        if not reason:
            return ""
    return reason


def _fits(disk: Disk, number: int, is_directory: bool, content: bytes | None) -> bool:
    if is_directory or content is None:
        return is_directory and content is None
    return could_hold(disk.files.get(number, FileModel()), content)


def could_hold(model: FileModel, content: bytes) -> bool:
    """Any subset of what is pending was done, the last write in it torn: any of its sectors
    missing, and cut at any byte."""
    ops = [*model.lost, *model.pending]
    assert len(ops) <= MOST_PENDING, "too many subsets"
    for size in range(len(ops) + 1):
        for chosen in itertools.combinations(ops, size):
            if _is_torn(model.durable, list(chosen), content):
                return True
    return False


def _is_torn(durable: bytes, kept: list[Op], content: bytes) -> bool:
    if _applied(durable, kept) == content:
        return True
    was_cut = bool(kept) and kept[-1].kind == "truncate"
    if was_cut and is_cleared(_applied(durable, kept[:-1]), kept[-1].offset, content):
        return True
    writes = [index for index, op in enumerate(kept) if op.kind == "write"]
    if not writes:
        return False
    behind = kept[writes[-1] + 1 :]
    before = _applied(durable, kept[: writes[-1]])
    op = kept[writes[-1]]
    if behind:
        # A truncate behind it: what is left of the write is torn all the same.
        end = min(one.offset for one in behind)
        if len(content) > end:
            return False
        op = op._replace(data=op.data[: max(0, end - op.offset)])
        before = before[:end]
    return _is_torn_write(before, op, content)


def is_cleared(before: bytes, end: int, content: bytes) -> bool:
    """Whether `content` is `before`, cleared from `end` on in some of its sectors: the file was
    going to be cut there, and keeps its size."""
    if len(content) != len(before) or content[:end] != before[:end]:
        return False
    edges = [end, *range((end // SECTOR + 1) * SECTOR, len(before), SECTOR), len(before)]
    return all(
        content[a:b] == before[a:b] or not content[a:b].strip(b"\0")
        for a, b in itertools.pairwise(edges)
    )


def _is_torn_write(before: bytes, op: Op, content: bytes) -> bool:
    whole = bytearray(before)
    apply_write(whole, op.offset, op.data)
    if not len(before) <= len(content) <= len(whole):
        return False
    old = before.ljust(len(whole), b"\0")
    edges = [0, *range(SECTOR, len(content), SECTOR), len(content)]
    return all(
        _is_piece(content[a:b], old[a:b], bytes(whole[a:b])) for a, b in itertools.pairwise(edges)
    )


def _is_piece(found: bytes, old: bytes, new: bytes) -> bool:
    """A sector is written or not, or up to some byte."""
    if found in (old, new):
        return True
    same = next((i for i, (a, b) in enumerate(zip(found, new, strict=True)) if a != b), len(found))
    return found[same:] == old[same:]
