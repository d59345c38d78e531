"""HloReachabilityMap: which instructions of a computation precede which.

Source: xla/hlo/analysis/hlo_reachability.h.
"""

from __future__ import annotations

from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction


class HloReachabilityMap:
    """For each instruction the set of its dependencies, itself included, as bits of an integer.

    Construction is quadratic in bits (n instructions take n * n / 8 bytes); a query is one shift.
    Control dependencies are included.
    """

    __slots__ = ("_before", "_index")

    def __init__(self, computation: HloComputation) -> None:
        self._index: dict[HloInstruction, int] = {}
        self._before: list[int] = []
        for i in computation.post_order():
            bits = 1 << len(self._before)
            for o in (*i.operands, *i.control_predecessors):
                bits |= self._before[self._index[o]]
            self._index[i] = len(self._before)
            self._before.append(bits)

    def __contains__(self, instruction: HloInstruction) -> bool:
        return instruction in self._index

    def is_reachable(self, a: HloInstruction, b: HloInstruction) -> bool:
        """Whether `b` depends on `a` (an instruction reaches itself). Both must be in the map."""
        return bool(self._before[self._index[b]] >> self._index[a] & 1)

    def bit(self, instruction: HloInstruction) -> int:
        """Return the bit of an instruction in the bit sets of `before`."""
        return 1 << self._index[instruction]

    def before(self, instruction: HloInstruction) -> int:
        """Return the bit set of the instructions that one depends on, itself included."""
        return self._before[self._index[instruction]]

    def is_connected(self, a: HloInstruction, b: HloInstruction) -> bool:
        """Whether either depends on the other."""
        return self.is_reachable(a, b) or self.is_reachable(b, a)
