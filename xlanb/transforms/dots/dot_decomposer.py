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
from xlanb.lazy_dataclass import dataclass
from xlanb.shape.shape import array
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder


@dataclass(frozen=True)
class DotDecomposer(HloPass):
    """Brings every dot to canonical form with transposes and reshapes.

    Later passes remove those that have no effect.

    Attributes:
        keeps_order: an operand that has one block of contracting and one of free dimensions keeps
            their order. In XLA a left operand is transposed if contracting dimensions come first (a
            right one if they come last): the gradients of a dense layer's weights by a batch of
            sequences then copy an operand.
    """

    name = "dot_decomposer"
    triggers = frozenset((HloOpcode.DOT,))
    keeps_order: bool = False

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if (
                    i.opcode is HloOpcode.DOT
                    and not is_canonical(i)
                    and not any(o.array_shape.is_dynamic for o in i.operands)
                ):
                    i.parent.replace(i, _canonical(i, keeps_order=self.keeps_order))


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


def _canonical(dot: HloInstruction, *, keeps_order: bool) -> HloInstruction:
    b, n = Builder(dot), len(dot.ints("lhs_batch_dims"))
    left, k = _side(b, dot, 0, keeps_order=keeps_order)
    right, k2 = _side(b, dot, 1, keeps_order=keeps_order)
    sizes, sizes2 = left.array_shape.dimensions, right.array_shape.dimensions
    free = [d for at, d in enumerate(sizes) if at != k]  # after the batch dimensions
    free2 = [d for at, d in enumerate(sizes2) if at >= n and at != k2]
    made = b.add(
        HloOpcode.DOT,
        (left, right),
        array(dot.shape.element_type, [*free, *free2]),
        lhs_batch_dims=tuple(range(n)) or None,
        lhs_contracting_dims=(k,),
        rhs_batch_dims=tuple(range(n)) or None,
        rhs_contracting_dims=(k2,),
        operand_precision=dot.attributes.get("operand_precision"),
        algorithm=dot.attributes.get("algorithm"),
    )
    return b.add(HloOpcode.RESHAPE, (made,), dot.shape)


def _side(b: Builder, dot: HloInstruction, number: int, *, keeps_order: bool) -> tuple[HloInstruction, int]:
    """An operand as matrices, and their contracting dimension."""
    operand, side = dot.operands[number], ("lhs", "rhs")[number]
    batch, contracted = dot.ints(f"{side}_batch_dims"), dot.ints(f"{side}_contracting_dims")
    free = tuple(d for d in range(operand.array_shape.rank) if d not in (*batch, *contracted))
    is_last = number == 0
    if keeps_order and free and contracted:
        in_order, turned = (_are_in_order(batch, *groups) for groups in ((free, contracted), (contracted, free)))
        is_last = in_order or (is_last and not turned)
    groups = [*([free] if free else []), contracted]
    if not is_last:
        groups.reverse()
    return _matrices(b, operand, batch, groups), len(batch) + (is_last and bool(free))


def _are_in_order(*groups: Sequence[int]) -> bool:
    order = [d for g in groups for d in g]
    return order == sorted(order)


def _matrices(
    b: Builder, operand: HloInstruction, batch: Sequence[int], groups: Sequence[Sequence[int]]
) -> HloInstruction:
    """An operand with its batch dimensions first and each group of dimensions merged into one.

    The transpose copies the operand's layout by position, as XLA's does; layout assignment comes
    later and chooses anew.
    """
    sizes, order = operand.array_shape.dimensions, [*batch, *(d for g in groups for d in g)]
    shape = array(operand.shape.element_type, [sizes[d] for d in order]).with_layout(operand.array_shape.layout)
    moved = b.add(HloOpcode.TRANSPOSE, (operand,), shape, dimensions=tuple(order))
    dims = [sizes[d] for d in batch] + [math.prod(sizes[d] for d in g) for g in groups]
    return b.add(HloOpcode.RESHAPE, (moved,), array(operand.shape.element_type, dims))
