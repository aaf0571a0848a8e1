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
        self._said_again = 0
        self._parents, self._firsts, self._lasts, self._told = (Numbers(scratch) for _ in range(4))
        self._nodes = Ids(scratch)
        for numbers in (self._parents, self._firsts, self._lasts, self._told):
            numbers.append(0)

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

    def way_said(self, node: int, line: int) -> tuple[int, list[int]]:
        """How to go on from a node with a line: to which node to go back, and what to say again
        from there down to `node`: nothing, when too much was."""
        fork, path = self.way_to(node)
        start = fork if self._unsaid_from is None else min(self._unsaid_from, fork)
        whole = path if start == fork else self._down(start, node)
        if self._said_again + len(whole) <= FEW + TIMES * line:
            self._said_again += len(whole)
            self._unsaid_from = None
            return start, whole
        self._unsaid_from = start
        for passed in path:
            self.tell_again(passed, 0)
        return fork, []

    def rest(self) -> tuple[int, list[int]] | None:
        """The same for what was not said again on the way to the tip; None when all was."""
        start, self._unsaid_from = self._unsaid_from, None
        return None if start is None else (start, self._down(start, self.tip))

    def _down(self, above: int, node: int) -> list[int]:
        path = []
        while node != above:
            path.append(node)
            node = self._parents[node]
        path.reverse()
        return path

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
