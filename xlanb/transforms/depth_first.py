"""Visit a computation in depth-first post order while it changes, as DfsHloRewriteVisitor does.

A replacement has not been visited. A user reached later visits it first, as one of its operands; a
user that was entered before uses it unvisited. Source: xla/hlo/ir/dfs_hlo_visitor.h.
"""

from __future__ import annotations

from collections.abc import Callable

from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction


class DepthFirstVisit:
    """One walk over a computation.

    `visit` may replace the instruction that it gets, and add others. `skip` marks a new instruction
    as visited.
    """

    __slots__ = ("_entered", "_visit", "_visited")

    def __init__(self, visit: Callable[[HloInstruction], None]) -> None:
        self._visit = visit
        self._entered: set[HloInstruction] = set()
        self._visited: set[HloInstruction] = set()

    def skip(self, instruction: HloInstruction) -> None:
        """Mark an instruction as visited."""
        self._visited.add(instruction)

    def run(self, computation: HloComputation) -> None:
        """Walk from each instruction without users, in their order, and from the root last."""
        root = computation.root
        for start in computation:
            if start is not root and not start.users and not start.control_successors:
                self._walk(start)
        self._walk(root)

    def _walk(self, start: HloInstruction) -> None:
        stack = [start]
        while stack:
            i = stack[-1]
            if i in self._visited:
                stack.pop()
            elif i in self._entered:
                stack.pop()
                self._visit(i)
                self._visited.add(i)
            else:
                self._entered.add(i)
                stack.extend(reversed((*i.operands, *i.control_predecessors)))
