"""Sort the contracting dimensions of dots (xla/backends/gpu/transforms/dot_dimension_sorter.cc).

dot(a, b), lhs_contracting_dims={3,2}, rhs_contracting_dims={1,0}
=>  dot(a, b), lhs_contracting_dims={2,3}, rhs_contracting_dims={0,1}

Adjacent dimensions in ascending order merge into one without a transpose.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.transforms.base import HloPass
from xlanb.transforms.reason import reason
from xlanb.transforms.verdict import REAL

_SIDES = ("lhs_contracting_dims", "rhs_contracting_dims")


class DotDimensionSorter(HloPass):
    """Sorts pairs of contracting dimensions by the side whose dimensions are adjacent.

    Skips a dot if that would unsort adjacent dimensions of the other side.
    """

    name = "dot_dimension_sorter"
    triggers = frozenset((O.DOT,))
    keeps = REAL
    ulps = 8.0

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c:
                if i.opcode is O.DOT and _is_row_major(i) and _gains(*(i.ints(s) for s in _SIDES)):
                    _sort(i)


def _is_row_major(dot: HloInstruction) -> bool:
    return all(
        list(o.array_shape.minor_to_major) == sorted(o.array_shape.minor_to_major, reverse=True) for o in dot.operands
    )


def _gains(left: Sequence[int], right: Sequence[int]) -> bool:
    """Whether adjacent dimensions of a side get sorted, and none of the other side unsorted."""
    neighbours = [_are_neighbours(side) for side in (left, right)]
    unsorted = [n and list(side) != sorted(side) for n, side in zip(neighbours, (left, right), strict=True)]
    return any(unsorted) and neighbours == unsorted


def _are_neighbours(dimensions: Sequence[int]) -> bool:
    return bool(dimensions) and max(dimensions) - min(dimensions) == len(dimensions) - 1


@reason("contracting dimensions => the same in ascending order")
def _sort(dot: HloInstruction) -> None:
    pairs = list(zip(*(dot.ints(s) for s in _SIDES), strict=True))
    side = 0 if _are_neighbours(dot.ints(_SIDES[0])) else 1
    pairs.sort(key=lambda pair: pair[side])
    dot.parent.update(dot, attributes={s: tuple(pair[n] for pair in pairs) for n, s in enumerate(_SIDES)})
