"""Bring dots into canonical form (xla/service/dot_decomposer.h).

dot(f32[2,3,8] a, f32[8,4] b), contracting {2} and {0}
  =>  reshape(f32[2,3,4], dot(reshape(f32[6,8], transpose(a)), reshape(f32[8,4], transpose(b))),
      contracting {1} and {0})

Canonical: batch dimensions first, one free dimension on either side, one contracting dimension.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode
from xlanb.shape.shape import array
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder


class DotDecomposer(HloPass):
    """Brings every dot to canonical form with transposes and reshapes.

    Later passes remove those that have no effect.
    """

    name = "dot_decomposer"
    triggers = frozenset((HloOpcode.DOT,))

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if (
                    i.opcode is HloOpcode.DOT
                    and not is_canonical(i)
                    and not any(o.array_shape.is_dynamic for o in i.operands)
                ):
                    i.parent.replace(i, _canonical(i))


def is_canonical(dot: HloInstruction) -> bool:
    """Whether a dot is in canonical form.

    Its batch dimensions come first, in order, and each operand has one contracting and at most one
    free dimension.
    """
    batch = dot.ints("lhs_batch_dims")
    if len(dot.ints("lhs_contracting_dims")) != 1:
        return False
    if any(o.array_shape.rank > len(batch) + 2 for o in dot.operands[:2]):
        return False
    first = tuple(range(len(batch)))
    return batch == first and dot.ints("rhs_batch_dims") == first


def _free(i: HloInstruction, taken: Sequence[int]) -> list[int]:
    return [d for d in range(i.array_shape.rank) if d not in taken]


def _canonical(dot: HloInstruction) -> HloInstruction:
    b = Builder(dot)
    left, right = dot.operands[:2]
    batch, contracted = dot.ints("lhs_batch_dims"), dot.ints("lhs_contracting_dims")
    batch2, contracted2 = dot.ints("rhs_batch_dims"), dot.ints("rhs_contracting_dims")
    free, free2 = _free(left, (*batch, *contracted)), _free(right, (*batch2, *contracted2))
    a = _matrices(b, left, batch, [free, contracted], [bool(free), True])
    c = _matrices(b, right, batch2, [contracted2, free2], [True, bool(free2)])
    n = len(batch)
    sizes = [left.array_shape.dimensions[d] for d in batch]
    dims = [
        *sizes,
        *([a.array_shape.dimensions[n]] if free else []),
        *([c.array_shape.dimensions[n + 1]] if free2 else []),
    ]
    made = b.add(
        HloOpcode.DOT,
        (a, c),
        array(dot.shape.element_type, dims),
        lhs_batch_dims=tuple(range(n)) or None,
        lhs_contracting_dims=(n + bool(free),),
        rhs_batch_dims=tuple(range(n)) or None,
        rhs_contracting_dims=(n,),
        operand_precision=dot.attributes.get("operand_precision"),
        algorithm=dot.attributes.get("algorithm"),
    )
    return b.add(HloOpcode.RESHAPE, (made,), dot.shape)


def _matrices(
    b: Builder, operand: HloInstruction, batch: Sequence[int], groups: list[Sequence[int]], kept: list[bool]
) -> HloInstruction:
    """An operand with its batch dimensions first and each group of dimensions merged into one.

    Groups that are not `kept` are dropped. The transpose copies the operand's layout by position,
    as XLA's does; layout assignment comes later and chooses anew.
    """
    sizes, order = operand.array_shape.dimensions, [*batch, *groups[0], *groups[1]]
    shape = array(operand.shape.element_type, [sizes[d] for d in order]).with_layout(operand.array_shape.layout)
    moved = b.add(HloOpcode.TRANSPOSE, (operand,), shape, dimensions=tuple(order))
    dims = [sizes[d] for d in batch] + [math.prod(sizes[d] for d in g) for g, k in zip(groups, kept, strict=True) if k]
    return b.add(HloOpcode.RESHAPE, (moved,), array(operand.shape.element_type, dims))
