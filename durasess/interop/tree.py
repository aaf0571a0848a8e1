"""The tree of a foreign session whose entries name their parents: where it branched, and the way
from one entry to another. Entries come in the order of the file; memory is some 50 bytes for each.

Never walks by recursion, and a parent that is not before its child is no parent, so a cycle in a
file cannot become one here.
"""

from __future__ import annotations

from array import array

ROOT = 0
"""The node above all entries."""

NO_PARENT = "its parent is not before it: missing, or a cycle"
"""What is odd about such an entry; it goes on from the tip."""


class Tree:
    """Nodes are numbered from 1 in the order in which they were added; a node may have several ids.
    A node is made by a line and may take in later ones. `tip` is where the conversation goes on."""

    def __init__(self) -> None:
        self.tip = ROOT
        self._parents = array("L", [ROOT])
        self._firsts = array("Q", [0])
        self._lasts = array("Q", [0])
        self._nodes = _Index()

    def add(self, line: int, parent: int) -> int:
        """A new entry below `parent`; it becomes the tip."""
        self._parents.append(parent)
        self._firsts.append(line)
        self._lasts.append(line)
        self.tip = len(self._parents) - 1
        return self.tip

    def name(self, id: str, node: int) -> None:
        """Give a node an id."""
        self._nodes.put(hash(id), node)

    def node(self, id: str) -> int | None:
        """The node with this id; None when there is none so far."""
        return self._nodes.get(hash(id))

    def line_of(self, node: int) -> int:
        """The line that made it, 0 for the root."""
        return self._firsts[node]

    def last_line_of(self, node: int) -> int:
        """The last line that belongs to it."""
        return self._lasts[node]

    def stretch(self, node: int, line: int) -> None:
        """A later line belongs to the node."""
        self._lasts[node] = line

    def parent_of(self, node: int) -> int:
        """The node above."""
        return self._parents[node]

    def way_to(self, node: int) -> tuple[int, list[int]]:
        """How to get from the tip to a node: the nearest node above both, and the nodes from below
        it down to `node`. Parents have smaller numbers than their children."""
        back, down = self.tip, node
        path: list[int] = []
        while back != down:
            if back > down:
                back = self._parents[back]
            else:
                path.append(down)
                down = self._parents[down]
        path.reverse()
        return back, path


class _Index:
    """Hash → node, in two arrays: a dict of a million would take ten times the room. Two ids with
    one 64-bit hash are taken for one."""

    def __init__(self) -> None:
        self._count = 0
        self._hashes = array("q", [0]) * 1024
        self._nodes = array("L", [0]) * 1024

    def get(self, hashed: int) -> int | None:
        """None when it is not there."""
        at = self._place(hashed or 1)
        return self._nodes[at] if self._hashes[at] else None

    def put(self, hashed: int, node: int) -> None:
        """Add it, or change its node."""
        at = self._place(hashed or 1)
        self._count += not self._hashes[at]
        self._hashes[at], self._nodes[at] = hashed or 1, node
        if self._count * 2 > len(self._hashes):
            self._grow()

    def _place(self, hashed: int) -> int:
        hashes, mask = self._hashes, len(self._hashes) - 1
        at = hashed & mask
        while hashes[at] not in (0, hashed):
            at = (at + 1) & mask
        return at

    def _grow(self) -> None:
        before = zip(self._hashes, self._nodes, strict=True)
        size = len(self._hashes) * 2
        self._hashes, self._nodes = array("q", [0]) * size, array("L", [0]) * size
        for hashed, node in before:
            if hashed:
                at = self._place(hashed)
                self._hashes[at], self._nodes[at] = hashed, node
