"""The tree of a foreign session whose entries name their parents: where it branched, and the way
from one entry to another. Entries come in the order of the file; old ones are set aside (aside.py).

Never walks by recursion, and a parent that is not before its child is no parent, so a cycle in a
file cannot become one here.
"""

from __future__ import annotations

from durasess.engine.scratch import Scratch
from durasess.interop.aside import Ids, Numbers

ROOT = 0
"""The node above all entries."""

FEW = 2000
TIMES = 4
"""So many nodes, and so many more for each line, are said again when the conversation goes from
branch to branch. Two programs that write one file in turns make it go there with every line; then
nothing but the new lines is said until the file ends, and the branch that it ends in there."""

NO_PARENT = "its parent is not before it: missing, or a cycle"
"""What is odd about such an entry; it goes on from the tip."""


class Tree:
    """Nodes are numbered from 1 in the order in which they were added; a node may have several ids.
    A node is made by a line and may take in later ones. `tip` is where the conversation goes on.

    What a node says may be told again later; its end is then where its last line that says
    something was told newest, else the end of the node above."""

    def __init__(self, scratch: Scratch) -> None:
        self.tip = ROOT
        self._unsaid_from: int | None = None
        self._unsaid_to = ROOT
        self._said_again = 0
        self._parents, self._firsts, self._lasts, self._told = (Numbers(scratch) for _ in range(4))
        # How deep a node is, and one far above it, so that the way up takes few steps; of the nodes
        # that were there when a way was asked for last.
        self._depths, self._jumps = Numbers(scratch), Numbers(scratch)
        self._nodes = Ids(scratch)
        for numbers in (self._parents, self._firsts, self._lasts, self._told):
            numbers.append(0)
        self._depths.append(0)
        self._jumps.append(0)

    def add(self, line: int, parent: int) -> int:
        """A new entry below `parent`; it becomes the tip."""
        self._parents.append(parent)
        self._firsts.append(line)
        self._lasts.append(line)
        self._told.append(line)
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
        self._lasts[node] = self._told[node] = line

    def told(self, node: int) -> int:
        """The line that stands for the node's end in the log: its newest event is there."""
        return self._told[node]

    def tell_again(self, node: int, line: int) -> None:
        """What the node says was told again, at last by this line; 0 for a node that says
        nothing."""
        self._told[node] = line or self._told[self._parents[node]]

    def parent_of(self, node: int) -> int:
        """The node above."""
        return self._parents[node]

    def way_to(self, node: int, line: int) -> tuple[int, list[int]]:
        """How to go on from a node with a line: the line to whose end to go back, and what to say
        again behind that, down to `node`: nothing, when too much was."""
        self._measure()
        fork = self._meeting(node)
        unsaid = self._unsaid_from
        start = fork if unsaid is None else min(unsaid, fork)
        length = self._depths[node] - self._depths[start]
        if self._said_again + length <= FEW + TIMES * line:
            self._said_again += length
            self._unsaid_from = None
            return self._told[start], self._down(start, node)
        # What is between these two is not in the log's last branch.
        is_said = fork == start or fork > self._unsaid_to
        self._unsaid_from, self._unsaid_to = start, node
        return self._told[fork if is_said else start], []

    def rest(self) -> tuple[int, list[int]] | None:
        """The same for what was not said again on the way to the tip; None when all was."""
        start, self._unsaid_from = self._unsaid_from, None
        return None if start is None else (self._told[start], self._down(start, self.tip))

    def _down(self, above: int, node: int) -> list[int]:
        path = []
        while node != above:
            path.append(node)
            node = self._parents[node]
        path.reverse()
        return path

    def _measure(self) -> None:
        depths, jumps = self._depths, self._jumps
        for node in range(len(depths), len(self._parents)):
            parent = self._parents[node]
            far = jumps[parent]
            farther = jumps[far]
            is_even = depths[parent] - depths[far] == depths[far] - depths[farther]
            depths.append(depths[parent] + 1)
            jumps.append(farther if is_even else parent)

    def _meeting(self, node: int) -> int:
        """The nearest node above the tip and another one, or one of them."""
        parents, jumps, depths = self._parents, self._jumps, self._depths
        one, other = self.tip, node
        while one != other:
            if depths[one] < depths[other]:
                one, other = other, one
            above = depths[other]
            if depths[one] > above:
                one = jumps[one] if depths[jumps[one]] >= above else parents[one]
            elif jumps[one] != jumps[other]:
                one, other = jumps[one], jumps[other]
            else:
                one, other = parents[one], parents[other]
        return one
