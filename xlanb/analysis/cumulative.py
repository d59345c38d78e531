"""Reduce-windows that are running folds, such as cumulative sums."""

from __future__ import annotations

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Cumulative:
    """Element j of a result line of length m folds elements 0 .. j + shift of an operand line of n.

    Both are counted from the end if `reverse`; elements outside the operand are left out.
    """

    axis: int
    n: int
    m: int
    shift: int
    reverse: bool

    @property
    def empty(self) -> int:
        """Result elements before the first non-empty fold."""
        return min(max(-self.shift, 0), self.m)

    @property
    def early(self) -> int:
        """Operand elements that are folded before the first result."""
        return min(max(self.shift, 0), self.n)

    @property
    def steps(self) -> int:
        """Results that each add one element; the ones after them repeat the last fold."""
        return max(min(self.m - self.empty, self.n - self.early), 0)


def cumulative(i: HloInstruction) -> Cumulative | None:
    """A reduce-window as a running fold along one dimension; None if it is not one."""
    if i.opcode is not Op.REDUCE_WINDOW:
        return None
    source = i.operands[0].shape.as_array()
    result = next(shape.as_array() for _, shape in i.shape.leaves())
    wide = [d for d, w in enumerate(i.window.dimensions) if w.size != 1 or result.dimensions[d] != source.dimensions[d]]
    if any(w.stride != 1 or w.base_dilation != 1 or w.window_dilation != 1 for w in i.window.dimensions):
        return None
    if len(wide) != 1 or source.element_count == 0 or result.element_count == 0:
        return None
    (axis,) = wide
    w = i.window.dimensions[axis]
    others = (v for d, v in enumerate(i.window.dimensions) if d != axis)
    if w.size < 3 or w.reversal or any(v.padding_low or v.padding_high for v in others):
        return None
    n, m = source.dimensions[axis], result.dimensions[axis]
    if w.padding_low >= m - 1:
        return Cumulative(axis, n, m, w.size - 1 - w.padding_low, reverse=False)
    if w.size - 1 - w.padding_low >= n - 1:
        return Cumulative(axis, n, m, n - m + w.padding_low, reverse=True)
    return None
