"""Fold transposes into dots and convolutions.

t = transpose(a), dimensions={1,0};  dot(t, b), lhs_contracting_dims={1}
  =>  dot(a, b), lhs_contracting_dims={0}

With `any_matrices`, as in XLA:GPU, batch dimensions may be permuted too, as long as the operand's
layout is that of a batch of matrices: batch, row and column dimensions each adjacent, and the most
minor one not a batch dimension.
Source: transpose_folding.h in xla/hlo/transforms/simplifiers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.hlo.attributes import ConvolutionDimensionNumbers
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape
from xlanb.transforms.base import HloPass
from xlanb.transforms.reason import reason


@dataclass(frozen=True)
class TransposeFolding(HloPass):
    """Makes dots read untransposed operands; with `convolutions` convolutions too.

    Without `any_matrices` batch dimensions must keep their positions. Without `vectors` a product
    with a vector keeps its transposed matrix, as in XLA:CPU.
    """

    name = "transpose-folding"
    triggers = frozenset((HloOpcode.TRANSPOSE,))
    any_matrices: bool = False
    convolutions: bool = False
    vectors: bool = False

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if i.opcode is HloOpcode.DOT:
                    _fold(i, any_matrices=self.any_matrices, vectors=self.vectors)
                elif i.opcode is HloOpcode.CONVOLUTION and self.convolutions:
                    _fold_into_convolution(i)


@reason("dot(transpose(A), B) => dot(A, B) with permuted dimension numbers")
def _fold(dot: HloInstruction, *, any_matrices: bool, vectors: bool) -> None:
    if not vectors and any(o.array_shape.rank < 2 for o in dot.operands[:2]):
        return
    for n, side in enumerate(("lhs", "rhs")):
        t = dot.operands[n]
        if t.opcode is not HloOpcode.TRANSPOSE:
            continue
        batch, contracted = (
            _operand_dimensions(dot.ints(f"{side}_{kind}_dims"), t) for kind in ("batch", "contracting")
        )
        free = [t.dimensions[d] for d in range(t.array_shape.rank) if t.dimensions[d] not in (*batch, *contracted)]
        if free != sorted(free):
            continue  # the result's dimensions would be in another order
        if any_matrices:
            if not _are_matrices(t.operands[0].array_shape, (free, contracted, batch)):
                continue
        elif batch != dot.ints(f"{side}_batch_dims"):
            continue
        dot.parent.update(dot, attributes={f"{side}_batch_dims": batch or None, f"{side}_contracting_dims": contracted})
        dot.parent.replace_operand(dot, n, t.operands[0])
        dot.parent.remove_dead(t)


def _operand_dimensions(dimensions: Sequence[int], transpose: HloInstruction) -> tuple[int, ...]:
    """The operand dimensions of a transpose that correspond to dimensions of its result."""
    return tuple(transpose.dimensions[d] for d in dimensions)


def _are_matrices(shape: ArrayShape, groups: tuple[Sequence[int], ...]) -> bool:
    """Whether free, contracting and batch dimensions are each adjacent in memory and in order.

    The most minor dimension must not be a batch dimension.
    """
    order, fastest = list(shape.minor_to_major), True
    while order:
        group = next((g for g in groups if g and g[-1] == order[0]), None)
        if group is None or (fastest and group is groups[-1]) or order[: len(group)] != list(reversed(group)):
            return False
        order, fastest = order[len(group) :], False
    return True


@reason("conv(transpose(A), transpose(K)) => conv(A, K) with permuted dimension labels")
def _fold_into_convolution(conv: HloInstruction) -> None:
    labels: ConvolutionDimensionNumbers = conv.attributes["dim_labels"]
    for n, part in enumerate(("input", "kernel")):
        t = conv.operands[n]
        if t.opcode is not HloOpcode.TRANSPOSE:
            continue
        names = ("batch", "feature") if part == "input" else ("input_feature", "output_feature")
        moved: dict[str, Any] = {f"{part}_{name}": t.dimensions[getattr(labels, f"{part}_{name}")] for name in names}
        moved[f"{part}_spatial"] = _operand_dimensions(getattr(labels, f"{part}_spatial"), t)
        labels = replace(labels, **moved)
        conv.parent.update(conv, attributes={"dim_labels": labels})
        conv.parent.replace_operand(conv, n, t.operands[0])
        conv.parent.remove_dead(t)
